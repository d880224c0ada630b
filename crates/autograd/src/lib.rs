//! Reverse-mode differentiation, layers and optimisers over samebits tensors.
//!
//! * [`Var`] is a tensor that may remember how it was computed; [`Var::backward`] returns the
//!   gradients of everything it was computed from.
//! * [`functional`] holds the differentiable operations, under PyTorch's names.
//! * [`nn`] holds layers, [`optim`] optimisers.
//!
//! # Determinism
//!
//! A backward pass walks the graph in reverse order of creation, on the calling thread: where a
//! variable was used several times, its gradients are added in that order. Each backward
//! operation obeys the level in force when it *runs*, whatever was in force when the forward
//! operation was recorded.
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

pub mod functional;
pub mod nn;
pub mod optim;
pub mod sparse;
mod var;

pub use samebits_tensor_core::{Error, Result};
pub use var::{Gradients, Var, backward, is_recording, no_grad};

use samebits_tensor_core::{Op, dispatch};

/// Runs an operation with this crate's kernels in place.
#[track_caller]
pub(crate) fn run<O: Op>(op: &O) -> Result<O::Output> {
    samebits_cpu_kernels::install();
    dispatch(op)
}
