//! Reverse-mode differentiation, layers and optimisers over samebits tensors.
//!
//! * [`Tensor`] may remember how it was computed; [`Tensor::backward`] returns the gradients of
//!   everything it was computed from. Below it is the plain array of `samebits_tensor_core`, its
//!   [`value`](Tensor::value).
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

// So that what `samebits_macros` generates finds this crate under the name of the facade.
extern crate self as samebits;

mod construct;
mod convert;
mod devices;
pub mod dims;
mod display;
pub mod functional;
mod graph;
mod memory;
#[cfg(feature = "ndarray")]
pub mod ndarray;
pub mod nn;
mod operators;
pub mod optim;
pub mod sparse;
mod tensor;

pub use convert::{Nested, Number};
pub use devices::find_devices;
pub use dims::{Dim, DimOrAll, Dims, Sizes};
pub use samebits_tensor_core::{DType, Device, Error, Result, bf16, f16};
pub use tensor::{Gradients, Tensor, To, backward, enable_grad, is_recording, no_grad};

use samebits_tensor_core::{Op, Tensor as Value, dispatch};

/// Runs an operation with this crate's kernels in place, and the ledger that the environment asks for.
#[track_caller]
pub(crate) fn run<O: Op>(op: &O) -> Result<O::Output> {
    samebits_cpu_kernels::install();
    samebits_recorder::begin();
    dispatch(op)
}

/// Runs an operation and remembers nothing of it: its result has no gradient.
#[track_caller]
pub(crate) fn untracked<O: Op<Output = Value>>(op: &O) -> Result<Tensor> {
    run(op).map(Tensor::from)
}
