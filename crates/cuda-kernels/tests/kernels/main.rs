//! Every kernel against a plain Rust definition of its result, bit for bit, on whatever device
//! the driver offers: a GPU, or the emulated driver under several schedules.
//!
//! Without a driver each test prints why it returns early.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bincount;
mod conv;
mod data;
mod device;
mod elementwise;
mod embedding;
mod errors;
mod loss;
mod matmul;
mod norm;
mod optim;
mod padding;
mod pooling;
mod random;
mod reduce;
mod scatter;
