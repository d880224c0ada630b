//! Convolution algorithm benchmarking with a choice cache that can be pinned.
