//! Every kernel against a plain Rust definition of its result, bit for bit, on any device that the
//! driver offers: a GPU, or the emulated driver under several schedules.
//!
//! Without a driver, each test prints the reason and returns early.

// A table of functions is clearer in place than behind a name.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::type_complexity)]

mod attention;
mod bincount;
mod conv;
mod ctc;
mod data;
mod device;
mod elementwise;
mod embedding;
mod errors;
mod formula;
mod grid_sample;
mod interpolate;
mod linalg;
mod loss;
mod matmul;
mod norm;
mod numbers;
mod optim;
mod packs;
mod padding;
mod pooling;
mod random;
mod recurrent;
mod reduce;
mod scan;
mod scatter;
mod sort;
mod sparse;
mod streams;
mod totals;
