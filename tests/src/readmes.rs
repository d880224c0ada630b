//! The programs in the READMEs of the crates, as documentation tests.

documents! {
    Numerics "crates/numerics/README.md";
    Rng "crates/rng/README.md";
    TensorCore "crates/tensor-core/README.md";
    CpuKernels "crates/cpu-kernels/README.md";
    CudaKernels "crates/cuda-kernels/README.md";
    Autotune "crates/autotune/README.md";
    ConvAutotune "crates/conv-autotune/README.md";
    Data "crates/data/README.md";
    Distributed "crates/distributed/README.md";
    Autograd "crates/autograd/README.md";
    Ledger "crates/ledger/README.md";
    Testing "crates/testing/README.md";
    Verify "crates/verify/README.md";
    PtxEmulator "crates/ptx-emulator/README.md";
    Samebits "crates/samebits/README.md";
}
