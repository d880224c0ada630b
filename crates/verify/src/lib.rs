//! A check that this machine computes the promised bits. The corpus has a seeded call of every
//! operation, with its results and gradients, and the digest of each. The check recomputes them on
//! every device, thread count and instruction set of a machine while other threads are busy.
//!
//! `samebits verify` is this crate as a program. The workspace's tests of invariance, devices,
//! batches and gradients use the same corpus.
//!
//! ```
//! use samebits_verify::{Golden, Options, Setting, verify};
//!
//! let options = Options { families: vec!["norm".into()], ..Options::quick() };
//! let report = verify(&options, &Golden::shipped()?, |_| {})?;
//! assert!(report.holds(), "{report}");
//! # Ok::<(), samebits_verify::Error>(())
//! ```
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

mod error;
mod golden;
mod report;
mod run;
mod samples;

pub use error::{Error, Result};
pub use golden::{Golden, short_digest};
pub use report::{Finding, Outcome, Report};
pub use run::{Options, Progress, verify};
pub use samebits_testing::Setting;
pub use samples::{
    Batch, Case, Digest, Family, Gradient, Input, Make, Order, Sample, Samples, Tensors,
    drawn_cases, each, families, indices, normal, normal_of, offset_families, samples,
    strided_families, tiny_families, unreached,
};
