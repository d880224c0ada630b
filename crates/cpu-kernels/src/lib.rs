//! Deterministic and fast CPU kernels with the same bits on any number of threads.

#![deny(unsafe_code)]

mod arch;
mod backend;
pub mod elementwise;
mod error;
mod float;
mod gemm;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod optim;
mod parallel;
pub mod reduce;
pub mod pooling;
pub mod scatter;

pub use backend::install;
pub use error::{Error, Result};
pub use float::Float;
