//! Code shared by the workspace tests: the corpus of `samebits-verify`, the comparison with
//! reference figures, and the fuzzer.

#[cfg(doctest)]
mod book;
pub mod conformance;
pub mod fuzz;
#[cfg(doctest)]
mod readmes;

pub use samebits_verify::*;
