//! The CUDA driver's C interface over the samebits PTX emulator.
