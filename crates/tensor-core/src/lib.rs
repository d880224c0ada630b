//! Tensors, layouts, devices, determinism levels and the kernel registry of samebits.
