//! Variables and the graph that they remember.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use samebits_recorder::module;
use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::observe::{self, Phase};
use samebits_tensor_core::{DType, Device, Element, Error, Result, Tensor as Value};

use crate::devices::reach;
use crate::graph::{Backward, Source, Step, accumulate, collect, next_id};

/// A tensor that may remember how it was computed.
///
/// A clone is cheap and the same variable: a gradient with respect to either is that of both.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?.set_requires_grad(true)?;
/// let loss = x.square()?.sum_all()?;
/// let gradients = loss.backward()?;
/// assert_eq!(gradients.of(&x).unwrap().to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    value: Value,
    source: Option<Arc<Source>>,
}

/// Making tensors.
impl Tensor {
    /// A host tensor of `shape` that holds `values` in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the number of values does not fit the shape,
    /// [`Error::OutOfMemory`] if there is no memory for them.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.transpose(0, 1)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    pub fn from_slice<T: Element>(values: &[T], shape: &[usize]) -> Result<Tensor> {
        Value::from_slice(values, shape).map(Tensor::from)
    }

    /// As [`from_slice`](Tensor::from_slice).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn from_vec<T: Element>(values: Vec<T>, shape: &[usize]) -> Result<Tensor> {
        Tensor::from_slice(&values, shape)
    }

    /// A host tensor of truth values.
    ///
    /// # Errors
    ///
    /// As [`from_slice`](Tensor::from_slice).
    pub fn from_bools(values: &[bool], shape: &[usize]) -> Result<Tensor> {
        Value::from_bools(values, shape).map(Tensor::from)
    }

    /// A host tensor with no dimensions and one element.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Value::scalar(value).into()
    }

    /// A host tensor of zeros.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if no machine can address that many elements,
    /// [`Error::OutOfMemory`] if there is no memory for them.
    pub fn zeros(shape: &[usize], dtype: DType) -> Result<Tensor> {
        Value::zeros(shape, dtype).map(Tensor::from)
    }

    /// A host tensor of ones.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn ones(shape: &[usize], dtype: DType) -> Result<Tensor> {
        Value::ones(shape, dtype).map(Tensor::from)
    }

    /// A host tensor whose every element is `value`, converted to `dtype` as Rust's `as` does
    /// (for `Bool`: whether it is not zero).
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn full(shape: &[usize], value: f64, dtype: DType) -> Result<Tensor> {
        Value::full(shape, value, dtype).map(Tensor::from)
    }

    /// The host tensor `[0, 1, .., n - 1]` of type `I64`.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn arange(n: usize) -> Result<Tensor> {
        Value::arange(n).map(Tensor::from)
    }

    /// A host tensor whose content has no meaning yet; see
    /// [`empty`](samebits_tensor_core::Tensor::empty) of the value.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn empty(shape: &[usize], dtype: DType) -> Result<Tensor> {
        Value::empty(shape, dtype).map(Tensor::from)
    }
}

impl From<Value> for Tensor {
    /// A tensor that gradients are not wanted for.
    fn from(value: Value) -> Tensor {
        Tensor { value, source: None }
    }
}

impl From<&Value> for Tensor {
    fn from(value: &Value) -> Tensor {
        Tensor::from(value.clone())
    }
}

impl From<&Tensor> for Value {
    fn from(tensor: &Tensor) -> Value {
        tensor.value.clone()
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        tensor.value
    }
}

/// What a tensor is.
impl Tensor {
    /// The elements alone, without memory of how they were computed: what the operations of
    /// [`samebits_tensor_core`] take.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        self.value.shape()
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.value.rank()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.value.numel()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.value.dtype()
    }

    /// Where the elements are.
    pub fn device(&self) -> Device {
        self.value.device()
    }

    /// The elements in row-major order, whatever the layout and device.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `T` is not the element type, [`Error::OutOfMemory`] if there is
    /// no memory for them, [`Error::Backend`] if the device fails.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.value.to_vec()
    }

    /// The truth values in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] unless the type is `Bool`; else as [`to_vec`](Tensor::to_vec).
    pub fn to_bools(&self) -> Result<Vec<bool>> {
        self.value.to_bools()
    }

    /// The only element.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless there is exactly one; else as [`to_vec`](Tensor::to_vec).
    pub fn item<T: Element>(&self) -> Result<T> {
        self.value.item()
    }

    /// The elements' bytes in row-major order, little-endian.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for them, [`Error::Backend`] if the device
    /// fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.value.to_bytes()
    }

    /// This tensor on a [`Device`], as a [`DType`], or like another tensor in both; free if it is
    /// already that. Gradients come back to where and what this one is.
    ///
    /// # Errors
    ///
    /// [`Error::NoBackend`] if the device cannot be used, [`Error::OutOfMemory`] if there is no
    /// memory for the copy, [`Error::Backend`] if the device fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::{DType, Device, Tensor};
    ///
    /// let x = Tensor::new([1.5f32, -2.5])?;
    /// assert_eq!(x.to(DType::I64)?.to_vec::<i64>()?, [1, -2]);
    /// assert_eq!(x.to(Device::Cpu)?.device(), Device::Cpu);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[track_caller]
    pub fn to(&self, target: impl To) -> Result<Tensor> {
        target.of(self)
    }
}

/// Where or what [`Tensor::to`] brings a tensor: a [`Device`], a [`DType`], or those of a `&Tensor`.
pub trait To {
    /// The tensor there, or as that.
    ///
    /// # Errors
    ///
    /// As [`Tensor::to`].
    fn of(self, x: &Tensor) -> Result<Tensor>;
}

impl To for Device {
    fn of(self, x: &Tensor) -> Result<Tensor> {
        let from = x.device();
        if from == self {
            return Ok(x.clone());
        }
        reach(self);
        let value = x.value.to(self)?;
        Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(grad.to(from)?)])))
    }
}

impl To for DType {
    #[track_caller]
    fn of(self, x: &Tensor) -> Result<Tensor> {
        crate::functional::to_dtype(x, self)
    }
}

impl To for &Tensor {
    #[track_caller]
    fn of(self, x: &Tensor) -> Result<Tensor> {
        x.to(self.dtype())?.to(self.device())
    }
}

/// Gradients.
impl Tensor {
    /// The same value as a leaf of the graph: [`backward`](Tensor::backward) finds its gradient if
    /// `requires_grad`, and how it was computed is forgotten. Clones of a leaf that are frozen
    /// (`false`) and thawed again (`true`) are the same variable as before.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if a gradient is wanted and the type is not a float.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::scalar(3.0f32).set_requires_grad(true)?;
    /// assert_eq!(x.square()?.backward()?.of(&x).unwrap().item::<f32>()?, 6.0);
    /// assert!(Tensor::scalar(3i64).set_requires_grad(true).is_err());
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    pub fn set_requires_grad(self, requires_grad: bool) -> Result<Tensor> {
        if requires_grad && !self.dtype().is_float() {
            return Err(Error::DTypeMismatch {
                op: "set_requires_grad",
                what: "the tensor",
                expected: DType::F32,
                got: self.dtype(),
            });
        }
        Ok(self.leaf(requires_grad))
    }

    /// [`set_requires_grad`](Tensor::set_requires_grad) of a tensor that is known to hold floats.
    pub(crate) fn leaf(self, requires_grad: bool) -> Tensor {
        let leaf = self.source.filter(|source| source.step.is_none());
        let id = match (&leaf, requires_grad) {
            (Some(leaf), _) if !(leaf.wanted && requires_grad) => leaf.id,
            (None, false) => return Tensor::from(self.value),
            _ => next_id(),
        };
        let kept = leaf.filter(|leaf| leaf.id == id);
        let (line, version) = kept.map_or((id, id), |leaf| (leaf.line, leaf.version));
        let source = Source { id, line, version, step: None, wanted: requires_grad };
        Tensor { value: self.value, source: Some(Arc::new(source)) }
    }

    /// `value` in the place of this parameter or buffer, for a step of an optimiser or a loaded
    /// state: a leaf of its own, frozen or not as this tensor is, that knows whom it succeeds.
    pub(crate) fn succeeded_by(&self, value: Value) -> Tensor {
        let source = self.source.as_ref().map(|old| {
            let id = next_id();
            Arc::new(Source { id, line: old.line, version: id, step: None, wanted: old.wanted })
        });
        Tensor { value, source }
    }

    /// The same parameter with another value: gradients of either are gradients of both.
    pub(crate) fn with_value(&self, value: Value) -> Tensor {
        let source = self.source.as_ref().map(|old| {
            let Source { id, line, wanted, .. } = **old;
            Arc::new(Source { id, line, version: next_id(), step: None, wanted })
        });
        Tensor { value, source }
    }

    /// True if a gradient with respect to this tensor can be had.
    pub fn requires_grad(&self) -> bool {
        self.wanted().is_some()
    }

    /// Where it comes from, if its gradient is wanted.
    fn wanted(&self) -> Option<&Arc<Source>> {
        self.source.as_ref().filter(|source| source.wanted)
    }

    /// The id and line of a parameter whose gradient is wanted.
    pub(crate) fn wanted_leaf(&self) -> Option<(u64, u64)> {
        let leaf = self.wanted().filter(|source| source.step.is_none());
        leaf.map(|source| (source.id, source.line))
    }

    /// What two layers that share this tensor have in common, and no other tensor has.
    pub(crate) fn identity(&self) -> Option<u64> {
        self.source.as_ref().map(|source| source.id)
    }

    /// Whether two places of one parameter hold the same value of it.
    pub(crate) fn has_value_of(&self, other: &Tensor) -> bool {
        let version = |x: &Tensor| x.source.as_ref().map(|source| source.version);
        version(self) == version(other)
    }

    /// The same value, without memory of how it was computed.
    #[must_use]
    pub fn detach(&self) -> Tensor {
        Tensor::from(self.value.clone())
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
                format!(
                    "expected a scalar, got shape {:?}; reduce it, as by `mean(())`, or give the \
                     gradient of each element to `backward_from`",
                    self.shape()
                ),
            ));
        }
        let seed = Tensor::ones(self.shape(), self.dtype())?.to(self.device())?;
        self.backward_from(seed, false)
    }

    /// The gradients of this variable, given the gradient of something with respect to it.
    ///
    /// With `create_graph` the gradients remember how they were computed and can be
    /// differentiated again.
    ///
    /// # Errors
    ///
    /// As [`backward`].
    pub fn backward_from(&self, grad: Tensor, create_graph: bool) -> Result<Gradients> {
        backward(&[(self, grad)], create_graph)
    }

    /// The result of an operation on `inputs`. `backward` gets the gradient of the result and
    /// returns that of each input, in order; it is kept only if some input requires one.
    pub(crate) fn computed(
        value: Value,
        inputs: &[&Tensor],
        backward: impl Fn(&Tensor) -> Result<Vec<Option<Tensor>>> + Send + Sync + 'static,
    ) -> Tensor {
        if !is_wanted(inputs) {
            return Tensor::from(value);
        }
        Tensor::recorded(value, inputs, Backward::Each(Box::new(backward)))
    }

    /// A part of `input`: from `start` on along `dim`. Its gradient is that of the part, with zeros
    /// around it; of many parts they are put together at once.
    pub(crate) fn part_of(value: Value, input: &Tensor, dim: usize, start: usize) -> Tensor {
        if !is_wanted(&[input]) {
            return Tensor::from(value);
        }
        let shape = PerDim::from(input.shape());
        Tensor::recorded(value, &[input], Backward::Part { dim, start, shape })
    }

    /// The result of an operation whose gradient is a sum. `backward` gets the gradient of the result
    /// and what was found of the gradient of `input` before, and returns the sum of all.
    pub(crate) fn computed_onto(
        value: Value,
        input: &Tensor,
        backward: impl Fn(&Tensor, Option<Tensor>) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Tensor {
        if !is_wanted(&[input]) {
            return Tensor::from(value);
        }
        Tensor::recorded(value, &[input], Backward::Onto(Box::new(backward)))
    }

    fn recorded(value: Value, inputs: &[&Tensor], backward: Backward) -> Tensor {
        let step = Step {
            inputs: inputs.iter().map(|input| input.wanted().cloned()).collect(),
            module: module(),
            backward,
        };
        let id = next_id();
        Tensor {
            value,
            source: Some(Arc::new(Source {
                id,
                line: id,
                version: id,
                step: Some(step),
                wanted: true,
            })),
        }
    }
}

/// Whether somebody may ask for a gradient with respect to one of these.
fn is_wanted(inputs: &[&Tensor]) -> bool {
    is_recording() && inputs.iter().any(|input| input.requires_grad())
}

/// Type, shape and device, without the elements, which [`Display`](fmt::Display) shows.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, {:?}, {}", self.dtype(), self.shape(), self.device())?;
        if self.requires_grad() {
            f.write_str(", requires_grad")?;
        }
        f.write_str(")")
    }
}

/// The gradients that a backward pass found.
#[derive(Debug, Default)]
pub struct Gradients {
    pub(crate) by_id: BTreeMap<u64, Tensor>,
    /// Of those, the ones of tensors that were not computed from others, and the lines of tensors
    /// that succeed one another to which they belong.
    pub(crate) leaves: BTreeMap<u64, u64>,
}

impl Gradients {
    /// The gradient with respect to `variable`, or `None` if the result does not depend on it.
    pub fn of(&self, variable: &Tensor) -> Option<&Tensor> {
        self.by_id.get(&variable.source.as_ref()?.id)
    }

    /// Whether there is no gradient with respect to `variable`, but one with respect to a tensor
    /// that it has succeeded, or that has succeeded it.
    pub(crate) fn are_stale(&self, variable: &Tensor) -> bool {
        self.of(variable).is_none()
            && variable
                .source
                .as_ref()
                .is_some_and(|source| self.leaves.values().any(|&line| line == source.line))
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
pub fn backward(results: &[(&Tensor, Tensor)], create_graph: bool) -> Result<Gradients> {
    let mut pending = BTreeMap::new();
    for (result, grad) in results {
        let Some(source) = result.wanted() else {
            return Err(Error::invalid(
                "backward",
                "the tensor does not require a gradient: no tensor that it was computed from does \
                 (see `set_requires_grad`), or it was computed inside `no_grad`",
            ));
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
    observe::in_phase(Phase::Backward, || {
        if create_graph { accumulate(pending) } else { no_grad(|| accumulate(pending)) }
    })
}

/// Runs `f` without remembering how anything is computed, on this thread.
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    with_recording(false, f)
}

/// Runs `f` so that it remembers how things are computed, on this thread, also inside [`no_grad`].
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    with_recording(true, f)
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
