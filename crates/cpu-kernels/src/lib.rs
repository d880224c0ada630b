//! Deterministic and fast CPU kernels with the same bits on any number of threads.
