//! Counterparts of PyTorch's own determinism tests; docs/book/determinism.md lists the pairs.
//!
//! PyTorch's tests check that an operation is rejected with a certain message. These check that it
//! is *not* rejected at the highest level, and that its bits repeat for any number of threads.

mod alerts;
mod attention;
mod flags;
mod indexing;
mod lists;
mod scans;

use rayon::ThreadPoolBuilder;
use samebits::tensor_core::Tensor as Value;
use samebits::{Determinism, Result, Tensor, backward, determinism, digest};
use workspace_tests::normal_of;

/// Calls `f` at [`Determinism::Portable`] five times on one thread and on several; returns the
/// results, whose bits must all be equal.
#[track_caller]
fn repeats(what: &str, f: impl Fn() -> Result<Vec<Value>> + Sync) -> Vec<Value> {
    let run = || {
        let results = determinism::scope(Determinism::Portable, &f);
        results.unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    let first = run();
    let bits = |tensors: &[Value]| {
        let tensors: Vec<Tensor> = tensors.iter().map(Tensor::from).collect();
        digest(tensors.iter().map(|x| ("", x))).unwrap()
    };
    for threads in [1, 2, 2, 5, 16] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let again = pool.install(run);
        assert_eq!(bits(&again), bits(&first), "{what}: other bits on {threads} threads");
    }
    first
}

/// Returns the value of a function and the gradients of its inputs, with the function called at the
/// lowest level and its gradient at the one in force, as PyTorch's tests of errors do.
fn forward_then_backward(
    inputs: &[Value],
    f: impl FnOnce(&[Tensor]) -> Result<Tensor>,
) -> Result<Vec<Value>> {
    let inputs: Vec<Tensor> =
        inputs.iter().cloned().map(|x| Tensor::from(x).set_requires_grad(true).unwrap()).collect();
    let value = determinism::scope(Determinism::NotGuaranteed, || f(&inputs))?;
    let grad = Tensor::from(normal_of(value.shape(), value.dtype(), 77));
    let gradients = backward(&[(&value, grad)], false)?;
    Ok(inputs.iter().filter_map(|input| gradients.of(input)).map(Value::from).collect())
}
