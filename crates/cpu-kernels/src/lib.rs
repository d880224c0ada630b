//! Deterministic, fast CPU kernels with the same bits on any number of threads.

#![deny(unsafe_code)]

mod arch;
pub mod attention;
mod autotune;
mod backend;
pub mod bincount;
pub mod conv;
pub mod conv_algorithms;
pub mod ctc;
pub mod elementwise;
pub mod embedding;
mod error;
pub mod flip;
mod float;
mod gemm;
pub mod grid_sample;
pub mod index;
pub mod integer;
pub mod interpolate;
mod lanes;
pub mod linalg;
pub mod loss;
pub mod matmul;
mod memory;
pub mod norm;
pub mod optim;
pub mod padding;
mod parallel;
pub mod pooling;
mod quotient;
pub mod recurrent;
pub mod reduce;
pub mod rotary;
pub mod scan;
pub mod scatter;
mod short;
pub mod sort;
pub mod sparse;

pub use backend::install;
pub use error::{Error, Result};
pub use float::Float;
pub use parallel::MOST_THREADS;
