//! The programs in the READMEs of the crates, as documentation tests.

macro_rules! readmes {
    ($($name:ident $folder:literal;)*) => {$(
        #[doc = include_str!(concat!("../../crates/", $folder, "/README.md"))]
        pub struct $name;
    )*};
}

readmes! {
    Numerics "numerics";
    Rng "rng";
    TensorCore "tensor-core";
    CpuKernels "cpu-kernels";
    CudaKernels "cuda-kernels";
    Autotune "autotune";
    ConvAutotune "conv-autotune";
    Data "data";
    Distributed "distributed";
    Autograd "autograd";
    Ledger "ledger";
    Testing "testing";
    Verify "verify";
    PtxEmulator "ptx-emulator";
    Samebits "samebits";
}
