//! The tensor of users: a value that may be a node of the computation graph.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use samebits_recorder::module;
use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::observe::{self, Phase};
use samebits_tensor_core::{DType, Device, Element, Error, Result, Tensor as Value};
use scopeguard::guard;

use crate::autocast::with_autocast;
use crate::devices::reach;
use crate::graph::{Again, Backward, Joint, Source, Step, accumulate, collect, next_id};

/// A tensor that may record how it was computed.
///
/// Cloning is cheap and gives the same variable: both have one gradient.
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

/// Creation.
impl Tensor {
    /// Creates a host tensor of `shape` from `values` in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the number of values does not match the shape,
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
    #[doc(alias = "tensor")]
    #[doc(alias = "from_numpy")]
    pub fn from_slice<T: Element>(values: &[T], shape: &[usize]) -> Result<Tensor> {
        Value::from_slice(values, shape).map(Tensor::from)
    }

    /// Creates a host tensor as [`from_slice`](Tensor::from_slice) does, from a vector.
    ///
    /// # Errors
    ///
    /// As [`from_slice`](Tensor::from_slice).
    pub fn from_vec<T: Element>(values: Vec<T>, shape: &[usize]) -> Result<Tensor> {
        Tensor::from_slice(&values, shape)
    }

    /// Creates a host tensor of booleans.
    ///
    /// # Errors
    ///
    /// As [`from_slice`](Tensor::from_slice).
    pub fn from_bools(values: &[bool], shape: &[usize]) -> Result<Tensor> {
        Value::from_bools(values, shape).map(Tensor::from)
    }

    /// Creates a host tensor with no dimensions and one element.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Value::scalar(value).into()
    }

    /// Creates a host tensor of zeros.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if no machine can address that many elements,
    /// [`Error::OutOfMemory`] if there is no memory for them.
    pub fn zeros(shape: &[usize], dtype: DType) -> Result<Tensor> {
        Value::zeros(shape, dtype).map(Tensor::from)
    }

    /// Creates a host tensor of ones.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn ones(shape: &[usize], dtype: DType) -> Result<Tensor> {
        Value::ones(shape, dtype).map(Tensor::from)
    }

    /// Creates a host tensor filled with `value`, converted to `dtype` as Rust's `as` does (for
    /// `Bool`: true unless 0).
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn full(shape: &[usize], value: f64, dtype: DType) -> Result<Tensor> {
        Value::full(shape, value, dtype).map(Tensor::from)
    }

    /// Creates the host tensor `[0, 1, .., n - 1]` of type `I64`.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn arange(n: usize) -> Result<Tensor> {
        Value::arange(n).map(Tensor::from)
    }

    /// Creates a host tensor with unspecified content; see
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
    /// Wraps a value as a tensor that does not require a gradient.
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

/// Properties and elements.
impl Tensor {
    /// Returns the plain tensor without the graph, which the operations of [`samebits_tensor_core`]
    /// take.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the size of each dimension.
    #[doc(alias = "size")]
    pub fn shape(&self) -> &[usize] {
        self.value.shape()
    }

    /// Returns the number of dimensions.
    #[doc(alias = "dim")]
    #[doc(alias = "ndim")]
    pub fn rank(&self) -> usize {
        self.value.rank()
    }

    /// Returns the number of elements.
    #[doc(alias = "nelement")]
    pub fn numel(&self) -> usize {
        self.value.numel()
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.value.dtype()
    }

    /// Returns the device that holds the elements.
    pub fn device(&self) -> Device {
        self.value.device()
    }

    /// Returns the elements in row-major order, for any layout and device.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `T` is not the element type, [`Error::OutOfMemory`] if there is
    /// no memory for them, [`Error::Backend`] if the device fails.
    #[doc(alias = "tolist")]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.value.to_vec()
    }

    /// Returns the booleans in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] unless the type is `Bool`; else as [`to_vec`](Tensor::to_vec).
    #[doc(alias = "tolist")]
    #[doc(alias = "to_vec")]
    pub fn to_bools(&self) -> Result<Vec<bool>> {
        self.value.to_bools()
    }

    /// Returns the only element.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless there is exactly one; else as [`to_vec`](Tensor::to_vec).
    pub fn item<T: Element>(&self) -> Result<T> {
        self.value.item()
    }

    /// Returns the elements' bytes in row-major order, little-endian.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for them, [`Error::Backend`] if the device
    /// fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.value.to_bytes()
    }

    /// Moves this tensor to a [`Device`], converts it to a [`DType`], or matches another tensor in
    /// both. It costs nothing if there is nothing to change. Gradients return to the device and
    /// type of this tensor.
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
    #[doc(alias = "cuda")]
    #[doc(alias = "cpu")]
    pub fn to(&self, target: impl To) -> Result<Tensor> {
        target.of(self)
    }
}

/// A target of [`Tensor::to`]: a [`Device`], a [`DType`], or a `&Tensor` for both of its own.
pub trait To {
    /// Moves or converts `x` to this target.
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
    /// Makes this value a leaf of the graph and forgets how it was computed. If `requires_grad`,
    /// [`backward`](Tensor::backward) computes its gradient. A leaf that is frozen (`false`) and
    /// unfrozen (`true`) stays the same variable.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `requires_grad` is true and the type is not a float.
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
    #[doc(alias = "requires_grad_")]
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

    /// Does [`set_requires_grad`](Tensor::set_requires_grad) for a tensor known to hold floats.
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

    /// Returns `value` as the successor of this parameter or buffer, after an optimiser step or a
    /// loaded state: a new leaf of the same line, frozen if this tensor is.
    pub(crate) fn succeeded_by(&self, value: Value) -> Tensor {
        let source = self.source.as_ref().map(|old| {
            let id = next_id();
            Arc::new(Source { id, line: old.line, version: id, step: None, wanted: old.wanted })
        });
        Tensor { value, source }
    }

    /// Returns the same parameter with another value; both have one gradient.
    pub(crate) fn with_value(&self, value: Value) -> Tensor {
        let source = self.source.as_ref().map(|old| {
            let Source { id, line, wanted, .. } = **old;
            Arc::new(Source { id, line, version: next_id(), step: None, wanted })
        });
        Tensor { value, source }
    }

    /// Returns whether this tensor requires a gradient.
    pub fn requires_grad(&self) -> bool {
        self.wanted().is_some()
    }

    /// Returns the graph node, if its gradient is wanted.
    pub(crate) fn wanted(&self) -> Option<&Arc<Source>> {
        self.source.as_ref().filter(|source| source.wanted)
    }

    /// Returns the id and line of a parameter whose gradient is wanted.
    pub(crate) fn wanted_leaf(&self) -> Option<(u64, u64)> {
        let leaf = self.wanted().filter(|source| source.step.is_none());
        leaf.map(|source| (source.id, source.line))
    }

    /// Returns the id that layers sharing this tensor have in common, and no other tensor has.
    pub(crate) fn identity(&self) -> Option<u64> {
        self.source.as_ref().map(|source| source.id)
    }

    /// Returns whether two holders of one parameter hold the same value of it.
    pub(crate) fn has_value_of(&self, other: &Tensor) -> bool {
        let version = |x: &Tensor| x.source.as_ref().map(|source| source.version);
        version(self) == version(other)
    }

    /// Returns the same value outside the graph.
    #[must_use]
    pub fn detach(&self) -> Tensor {
        Tensor::from(self.value.clone())
    }

    /// Computes the gradients of this scalar with respect to everything it was computed from.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless this is a scalar that requires a gradient; errors of the
    /// backward operations.
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

    /// Computes the gradients of this variable, given the gradient of a later result with respect
    /// to it.
    ///
    /// With `create_graph`, the gradients are part of the graph and can be differentiated again.
    ///
    /// # Errors
    ///
    /// As [`backward`].
    pub fn backward_from(&self, grad: Tensor, create_graph: bool) -> Result<Gradients> {
        backward(&[(self, grad)], create_graph)
    }

    /// Returns the result of an operation on `inputs`. `backward` maps the gradient of the result
    /// to that of each input, in order; it is stored only if an input requires a gradient.
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

    /// Returns a part of `input`, from `start` on along `dim`. Its gradient is that of the part
    /// with zeros around it; the gradients of many parts are joined at once.
    pub(crate) fn part_of(value: Value, input: &Tensor, dim: usize, start: usize) -> Tensor {
        if !is_wanted(&[input]) {
            return Tensor::from(value);
        }
        let shape = PerDim::from(input.shape());
        Tensor::recorded(value, &[input], Backward::Part { dim, start, shape })
    }

    /// Returns the result of an operation whose gradient is a sum. `backward` takes the gradient of
    /// the result and the gradient of `input` found so far, and returns the sum of all.
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

    /// Returns the results of an operation on `inputs`, of which one requires a gradient.
    /// `backward` takes the gradients of the results that were reached, and returns that of each
    /// input, in order. Only results that hold floats require a gradient.
    pub(crate) fn computed_jointly(
        values: Vec<Value>,
        inputs: &[&Tensor],
        backward: Box<Joint>,
    ) -> Vec<Tensor> {
        let wanted = values.iter().map(|value| value.dtype().is_float()).collect();
        Tensor::results(values, wanted, inputs, |ids| Backward::Joint { ids, backward })
    }

    /// Returns the results of a computation on `inputs` that the backward pass repeats. Those that
    /// are `wanted` require a gradient.
    pub(crate) fn computed_again(
        values: Vec<Value>,
        wanted: Vec<bool>,
        inputs: &[&Tensor],
        compute: Box<Again>,
    ) -> Vec<Tensor> {
        Tensor::results(values, wanted, inputs, |ids| Backward::Again { ids, compute })
    }

    fn results(
        values: Vec<Value>,
        wanted: Vec<bool>,
        inputs: &[&Tensor],
        backward: impl FnOnce(Vec<Option<u64>>) -> Backward,
    ) -> Vec<Tensor> {
        // The joint node precedes its results, so that all of them are visited before it.
        let id = next_id();
        let ids = wanted.into_iter().map(|wanted| wanted.then(next_id)).collect();
        let inputs = inputs.iter().map(|input| input.wanted().cloned()).collect();
        let step = Step { inputs, module: module(), backward: backward(ids) };
        let joint = Arc::new(Source::computed(id, step));
        let results = values.into_iter().enumerate();
        results.map(|(number, value)| Tensor::result_of(&joint, number, value)).collect()
    }

    /// Returns a result of a joint node as a variable, so that gradients which use it can be
    /// differentiated again.
    pub(crate) fn result_of(joint: &Arc<Source>, number: usize, value: Value) -> Tensor {
        let Some(Step { module, backward, .. }) = &joint.step else {
            return Tensor::from(value);
        };
        let (Backward::Joint { ids, .. } | Backward::Again { ids, .. }) = backward else {
            return Tensor::from(value);
        };
        let source = ids[number].map(|id| {
            let backward = Backward::ResultOf { number, results: ids.len() };
            let inputs = vec![Some(joint.clone())];
            Arc::new(Source::computed(id, Step { inputs, module: module.clone(), backward }))
        });
        Tensor { value, source }
    }

    /// Returns `value` as a function of `others` and of the inputs of a joint node whose derivative
    /// is an error with this message.
    pub(crate) fn without_derivative(
        value: Value,
        joint: &Source,
        others: &[&Tensor],
        op: &'static str,
        message: &'static str,
    ) -> Tensor {
        let inputs = joint.step.iter().flat_map(|step| step.inputs.iter().cloned());
        let inputs: Vec<_> =
            inputs.chain(others.iter().map(|other| other.wanted().cloned())).collect();
        if !is_recording() || !value.dtype().is_float() || inputs.iter().all(Option::is_none) {
            return Tensor::from(value);
        }
        let backward = Backward::Each(Box::new(move |_| Err(Error::invalid(op, message))));
        let step = Step { inputs, module: module(), backward };
        Tensor { value, source: Some(Arc::new(Source::computed(next_id(), step))) }
    }

    fn recorded(value: Value, inputs: &[&Tensor], backward: Backward) -> Tensor {
        let step = Step {
            inputs: inputs.iter().map(|input| input.wanted().cloned()).collect(),
            module: module(),
            backward,
        };
        Tensor { value, source: Some(Arc::new(Source::computed(next_id(), step))) }
    }
}

/// Returns whether the graph is recorded and one of the inputs requires a gradient.
pub(crate) fn is_wanted(inputs: &[&Tensor]) -> bool {
    is_recording() && inputs.iter().any(|input| input.requires_grad())
}

/// Writes type, shape and device. [`Display`](fmt::Display) writes the elements.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, {:?}, {}", self.dtype(), self.shape(), self.device())?;
        if self.requires_grad() {
            f.write_str(", requires_grad")?;
        }
        f.write_str(")")
    }
}

/// The gradients that a backward pass computed.
#[derive(Debug, Default)]
pub struct Gradients {
    pub(crate) by_id: BTreeMap<u64, Tensor>,
    /// The ids of leaves among them, each with the line of succeeding tensors that it belongs to.
    pub(crate) leaves: BTreeMap<u64, u64>,
}

impl Gradients {
    /// Returns the gradient of `variable`, or `None` if the result does not depend on it.
    #[doc(alias = "grad")]
    pub fn of(&self, variable: &Tensor) -> Option<&Tensor> {
        self.by_id.get(&variable.source.as_ref()?.id)
    }

    /// Returns whether `variable` has no gradient here, but another tensor of its line has.
    pub(crate) fn are_stale(&self, variable: &Tensor) -> bool {
        self.of(variable).is_none()
            && variable
                .source
                .as_ref()
                .is_some_and(|source| self.leaves.values().any(|&line| line == source.line))
    }
}

/// Computes the gradients of several results together, each paired with the gradient of a later
/// result with respect to it. If several results depend on a variable, it gets the sum.
///
/// With `create_graph`, the gradients are part of the graph and can be differentiated again.
///
/// # Determinism
///
/// Walks the graph in reverse order of creation. The order of `results` matters only if one result
/// is listed twice.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if a result does not require a gradient, [`Error::ShapeMismatch`] if
/// a gradient has another shape; errors of the backward operations.
#[doc(alias = "grad")]
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
        with_autocast(None, || {
            if create_graph { accumulate(pending) } else { no_grad(|| accumulate(pending)) }
        })
    })
}

/// Runs `f` without recording the graph, on this thread.
#[doc(alias = "inference_mode")]
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    with_recording(false, f)
}

/// Runs `f` with the graph recorded, on this thread, also inside [`no_grad`].
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    with_recording(true, f)
}

/// Runs `f` with or without recording the graph, on this thread.
pub(crate) fn with_recording<R>(recording: bool, f: impl FnOnce() -> R) -> R {
    let _restored = guard(RECORDING.replace(recording), |outer| RECORDING.set(outer));
    f()
}

/// Returns whether this thread records the graph: true unless inside [`no_grad`].
#[doc(alias = "is_grad_enabled")]
pub fn is_recording() -> bool {
    RECORDING.get()
}

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(true) };
}
