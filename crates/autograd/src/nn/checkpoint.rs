//! Gradient checkpointing: less memory for a second forward pass.

use std::fmt::Debug;
use std::sync::Arc;

use samebits_macros::Module;
use samebits_tensor_core::{DType, Error, Result, Tensor as Value};

use super::Layer;
use crate::scope::Scopes;
use crate::{Tensor, enable_grad, is_recording};

const OP: &str = "checkpoint";

/// Computes `f(inputs)`, and computes it again in the backward pass, instead of keeping all that
/// its gradient needs. Only `inputs` and the tensors that `f` owns stay in memory.
///
/// The backward pass runs `f` in the scopes of this call: training or evaluation, level, mixed
/// precision, and generators at their positions before the call. So random numbers repeat, and the generators in
/// force then do not advance. Tensors that `f` owns, such as parameters, get their gradients too.
/// State that `f` changes by itself is changed twice; [`Checkpoint`] avoids that for layers.
///
/// Without a graph, as inside [`no_grad`](crate::no_grad), this is a plain call.
///
/// # Determinism
///
/// Results and gradients have the bits of a call without checkpointing, sums of several gradients
/// included: `f` must be a function of its inputs, its tensors and the generators in force.
///
/// # Errors
///
/// Those of `f`. In the backward pass, [`Error::InvalidFunction`] if the results have other shapes
/// or types than before.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::checkpoint;
///
/// let x = Tensor::new([1.0f32, 2.0])?.set_requires_grad(true)?;
/// let weight = Tensor::new([3.0f32, 5.0])?.set_requires_grad(true)?;
/// let inside = weight.clone();
/// let y = checkpoint(&[&x], move |inputs| inputs[0].mul(&inside)?.exp())?;
/// let grads = y.sum_all()?.backward()?;
/// let plain = x.mul(&weight)?.exp()?.sum_all()?.backward()?;
/// for variable in [&x, &weight] {
///     let [found, expected] = [&grads, &plain].map(|grads| grads.of(variable).unwrap());
///     assert_eq!(found.to_bytes()?, expected.to_bytes()?);
/// }
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.utils.checkpoint.checkpoint`.
#[track_caller]
pub fn checkpoint(
    inputs: &[&Tensor],
    f: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    Ok(checkpoint_all(inputs, move |x| Ok(vec![f(x)?]))?.remove(0))
}

/// Computes several results as [`checkpoint`] computes one.
///
/// # Errors
///
/// As [`checkpoint`].
#[track_caller]
pub fn checkpoint_all(
    inputs: &[&Tensor],
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
) -> Result<Vec<Tensor>> {
    let f = Arc::new(f);
    let again = f.clone();
    run(inputs, |x| f(x), move |x: &[Tensor]| again(x))
}

/// A layer whose backward pass computes it again, by [`checkpoint`]: its gradients need no memory
/// between the passes.
///
/// Its parameters have the names of the layer inside. Running statistics are updated once, since
/// the second pass runs on a copy of the layer from before the first.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::{Checkpoint, Layer, Linear, Module, ReLU};
/// use samebits::{Tensor, sequential};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let block = sequential![Linear::new(4, 8)?, ReLU, Linear::new(8, 4)?];
/// let model = sequential![Checkpoint(block), Linear::new(4, 2)?];
/// assert_eq!(model.named_parameters()[0].0, "0.0.weight");
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[1, 4])?;
/// assert_eq!(model.forward(&x)?.shape(), [1, 2]);
/// # Ok::<(), samebits::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Checkpoint<L>(
    /// The layer.
    pub L,
);

impl<L: Layer + Clone + Debug + Send + Sync + 'static> Layer for Checkpoint<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if !is_recording() {
            return self.0.forward(x);
        }
        let copy = self.0.clone();
        let mut results = run(
            &[x],
            |x| Ok(vec![self.0.forward(&x[0])?]),
            move |x: &[Tensor]| Ok(vec![copy.clone().forward(&x[0])?]),
        )?;
        Ok(results.remove(0))
    }
}

/// Computes `first(inputs)`, to be computed as `again(inputs)` in the backward pass.
fn run(
    inputs: &[&Tensor],
    first: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    again: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
) -> Result<Vec<Tensor>> {
    let owned: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
    if !is_recording() {
        return first(&owned);
    }
    let scopes = Scopes::in_force();
    let results = first(&owned)?;
    let wanted: Vec<bool> = results.iter().map(Tensor::requires_grad).collect();
    if !wanted.contains(&true) {
        return Ok(results);
    }
    let kinds: Vec<Kind> = results.iter().map(kind).collect();
    // The graph of the first pass ends here.
    let values: Vec<Value> = results.into_iter().map(Value::from).collect();
    let compute = move || {
        let results = enable_grad(|| scopes.run(|| again(&owned)))?;
        let found: Vec<Kind> = results.iter().map(kind).collect();
        if found != kinds {
            let message =
                format!("expected the results of the first pass, {kinds:?}, got {found:?}");
            return Err(Error::InvalidFunction { op: OP, message });
        }
        Ok(results)
    };
    Ok(Tensor::computed_again(values, wanted, inputs, Box::new(compute)))
}

/// The type and shape of a result.
type Kind = (DType, Vec<usize>);

fn kind(x: &Tensor) -> Kind {
    (x.dtype(), x.shape().to_vec())
}
