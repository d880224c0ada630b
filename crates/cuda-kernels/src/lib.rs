//! The kernels of samebits on CUDA: committed PTX and typed launch functions.
