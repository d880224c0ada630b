//! Variables and the graph that they remember.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use samebits_tensor_core::ops::{Binary, BinaryKind};
use samebits_tensor_core::{DType, Error, Result, Tensor};

use crate::run;

/// A tensor that may remember how it was computed.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Var;
/// use samebits_tensor_core::Tensor;
///
/// let x = Var::parameter(Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?);
/// let loss = x.square()?.sum_all()?;
/// let gradients = loss.backward()?;
/// assert_eq!(gradients.of(&x).unwrap().to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Var {
    value: Tensor,
    source: Option<Arc<Source>>,
}

impl Var {
    /// A variable that gradients are wanted for.
    pub fn parameter(value: Tensor) -> Var {
        Var { value, source: Some(Arc::new(Source { id: next_id(), step: None })) }
    }

    /// A variable that gradients are not wanted for.
    pub fn constant(value: Tensor) -> Var {
        Var { value, source: None }
    }

    /// The value.
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        self.value.shape()
    }

    /// True if a gradient with respect to this variable can be had.
    pub fn requires_grad(&self) -> bool {
        self.source.is_some()
    }

    /// What two layers that share this variable have in common, and no other variable has.
    pub(crate) fn identity(&self) -> Option<u64> {
        self.source.as_ref().map(|source| source.id)
    }

    /// The same value, without memory of how it was computed.
    #[must_use]
    pub fn detach(&self) -> Var {
        Var::constant(self.value.clone())
    }

    /// The gradients of this scalar with respect to everything it was computed from.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless this is a scalar that requires a gradient; whatever a
    /// backward operation returns.
    pub fn backward(&self) -> Result<Gradients> {
        if self.value.numel() != 1 {
            return Err(Error::invalid(
                "backward",
                format!("expected a scalar, got shape {:?}", self.shape()),
            ));
        }
        let seed = Tensor::ones(self.shape(), self.value.dtype())?.to(self.value.device())?;
        self.backward_from(Var::constant(seed), false)
    }

    /// The gradients of this variable, given the gradient of something with respect to it.
    ///
    /// With `create_graph` the gradients remember how they were computed and can be
    /// differentiated again.
    ///
    /// # Errors
    ///
    /// As [`backward`].
    pub fn backward_from(&self, grad: Var, create_graph: bool) -> Result<Gradients> {
        backward(&[(self, grad)], create_graph)
    }

    /// The result of an operation on `inputs`. `backward` gets the gradient of the result and
    /// returns that of each input, in order; it is kept only if some input requires one.
    pub(crate) fn computed(
        value: Tensor,
        inputs: &[&Var],
        backward: impl Fn(&Var) -> Result<Vec<Option<Var>>> + Send + Sync + 'static,
    ) -> Var {
        let wanted = is_recording() && inputs.iter().any(|input| input.requires_grad());
        if !wanted {
            return Var::constant(value);
        }
        let step = Step {
            inputs: inputs.iter().map(|input| input.source.clone()).collect(),
            backward: Box::new(backward),
        };
        Var { value, source: Some(Arc::new(Source { id: next_id(), step: Some(step) })) }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.value.dtype()
    }
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Var({:?}", self.value)?;
        if self.requires_grad() {
            f.write_str(", requires_grad")?;
        }
        f.write_str(")")
    }
}

/// The gradients that a backward pass found.
#[derive(Debug)]
pub struct Gradients {
    by_id: BTreeMap<u64, Var>,
}

impl Gradients {
    /// The gradient with respect to `variable`, or `None` if the result does not depend on it.
    pub fn of(&self, variable: &Var) -> Option<&Tensor> {
        self.var_of(variable).map(Var::value)
    }

    /// As [`of`](Gradients::of), to be differentiated again.
    pub fn var_of(&self, variable: &Var) -> Option<&Var> {
        self.by_id.get(&variable.source.as_ref()?.id)
    }
}

/// The gradients of several results together, each given with the gradient of something with
/// respect to it; a variable that several of them depend on gets the sum.
///
/// With `create_graph` the gradients remember how they were computed and can be differentiated
/// again.
///
/// # Determinism
///
/// The graph is walked in reverse order of creation; the order of `results` only matters for a
/// result that is given twice.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if a result does not require a gradient,
/// [`Error::ShapeMismatch`] if a gradient has another shape; whatever a backward operation
/// returns.
pub fn backward(results: &[(&Var, Var)], create_graph: bool) -> Result<Gradients> {
    let mut pending = BTreeMap::new();
    for (result, grad) in results {
        let Some(source) = &result.source else {
            return Err(Error::invalid("backward", "the variable does not require a gradient"));
        };
        if grad.shape() != result.shape() {
            return Err(Error::ShapeMismatch {
                op: "backward",
                what: "the gradient",
                expected: result.shape().to_vec(),
                got: grad.shape().to_vec(),
            });
        }
        collect(&mut pending, source, grad.clone())?;
    }
    if create_graph { accumulate(pending) } else { no_grad(|| accumulate(pending)) }
}

/// Runs `f` without remembering how anything is computed, on this thread.
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    with_recording(false, f)
}

/// Runs `f` with or without remembering how things are computed, on this thread.
pub(crate) fn with_recording<R>(recording: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            RECORDING.set(self.0);
        }
    }
    let _restore = Restore(RECORDING.replace(recording));
    f()
}

/// True unless this thread is inside [`no_grad`].
pub fn is_recording() -> bool {
    RECORDING.get()
}

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(true) };
}

/// Where a variable that requires a gradient comes from.
struct Source {
    /// Larger than that of everything it was computed from.
    id: u64,
    /// How it was computed; none for a parameter.
    step: Option<Step>,
}

struct Step {
    inputs: Vec<Option<Arc<Source>>>,
    backward: Box<Backward>,
}

type Backward = dyn Fn(&Var) -> Result<Vec<Option<Var>>> + Send + Sync;

fn next_id() -> u64 {
    // Relaxed is enough: one thread's ids ascend, and a variable made elsewhere reached this
    // thread by something that orders the two.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Gradients found so far of variables that are still to be visited, by the variable's id.
type Pending = BTreeMap<u64, (Arc<Source>, Var)>;

/// Walks the graph in reverse order of creation.
fn accumulate(mut pending: Pending) -> Result<Gradients> {
    let mut found = BTreeMap::new();
    while let Some((id, (source, grad))) = pending.pop_last() {
        if let Some(step) = &source.step {
            let grads = (step.backward)(&grad)?;
            for (input, grad) in step.inputs.iter().zip(grads) {
                let (Some(input), Some(grad)) = (input, grad) else { continue };
                collect(&mut pending, input, grad)?;
            }
        }
        found.insert(id, grad);
    }
    Ok(Gradients { by_id: found })
}

/// Adds `grad` to what has been found of `source`.
fn collect(pending: &mut Pending, source: &Arc<Source>, grad: Var) -> Result<()> {
    let total = match pending.remove(&source.id) {
        Some((_, sum)) => add(&sum, &grad)?,
        None => grad,
    };
    pending.insert(source.id, (source.clone(), total));
    Ok(())
}

fn add(a: &Var, b: &Var) -> Result<Var> {
    if a.requires_grad() || b.requires_grad() {
        return crate::functional::add(a, b);
    }
    let sum = run(&Binary { kind: BinaryKind::Add, a: a.value.clone(), b: b.value.clone() })?;
    Ok(Var::constant(sum))
}

impl Drop for Source {
    /// Takes long chains apart in a loop: one call per link would overflow the stack.
    fn drop(&mut self) {
        let mut chain: Vec<Arc<Source>> = Vec::new();
        let take = |source: &mut Source, chain: &mut Vec<Arc<Source>>| {
            if let Some(step) = source.step.take() {
                // The closure holds inputs too, by way of the variables that it saved.
                let Step { inputs, backward } = step;
                chain.extend(inputs.into_iter().flatten());
                drop(backward);
            }
        };
        take(self, &mut chain);
        while let Some(mut source) = chain.pop() {
            if let Some(source) = Arc::get_mut(&mut source) {
                take(source, &mut chain);
            }
        }
    }
}
