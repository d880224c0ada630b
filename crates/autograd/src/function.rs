//! Operations of the user's own, with gradients of their own.

use std::fmt;
use std::sync::Arc;

use samebits_rng::Generator;
use samebits_tensor_core::device::DeviceKind;
use samebits_tensor_core::registry::{Kernel, register_if_none};
use samebits_tensor_core::rerun::Output;
use samebits_tensor_core::{DType, Determinism, Device, Error, Op, Pass, Result, Tensor as Value};

use crate::graph::Source;
use crate::tensor::is_wanted;
use crate::{Tensor, no_grad, run};

/// An operation of your own: its result, its gradient, and the level that both promise.
///
/// [`apply`](Function::apply) runs it as any other operation runs: it is refused if it does not
/// meet the level in force, or warned about in warn-only mode; ledgers record it under its
/// [`NAME`](Function::NAME); re-run mode runs it again and compares the bits. An operation that is
/// only composed of others needs none of this: write a function.
///
/// Kernels of your own for each device are an [`Op`], registered by
/// [`register`](samebits_tensor_core::registry::register) and called by
/// [`dispatch`](samebits_tensor_core::dispatch) from `forward` and `backward`.
///
/// # Determinism
///
/// [`LEVEL`](Function::LEVEL) is your promise about the code in `forward` and `backward`. The
/// library's own operations in them are held to the level in force in any case. An operation that
/// draws random numbers keeps a [`Generator`] at the start of its draw and draws from a clone: so
/// it can be computed again. Advance the caller's generator by what is drawn.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Function, Result, Save, Saved, Tensor, gradcheck};
/// use samebits_tensor_core::Determinism;
///
/// /// `x³`
/// struct Cube;
///
/// impl Function for Cube {
///     const NAME: &'static str = "cube";
///     const LEVEL: Determinism = Determinism::Portable;
///     const WHY: &'static str = "composed of portable operations";
///
///     fn forward(&self, inputs: &[Tensor], save: &mut Save) -> Result<Vec<Tensor>> {
///         save.input(0);
///         Ok(vec![inputs[0].square()?.mul(&inputs[0])?])
///     }
///
///     fn backward(&self, saved: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
///         let slope = saved.input(0)?.square()?.affine(3.0, 0.0)?;
///         Ok(vec![Some(grads[0].mul(&slope)?)])
///     }
/// }
///
/// let x = Tensor::new([1.0f64, -2.0])?.set_requires_grad(true)?;
/// let [y] = Cube.apply(&[&x])?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, -8.0]);
/// assert_eq!(y.sum_all()?.backward()?.of(&x).unwrap().to_vec::<f64>()?, [3.0, 12.0]);
/// gradcheck(|x| Cube.apply::<1>(&[&x[0]]), &[&x])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
///
/// `torch.autograd.Function`.
#[doc(alias = "autograd.Function")]
#[doc(alias = "CustomOp")]
#[doc(alias = "CustomOp1")]
pub trait Function: Send + Sync + Sized + 'static {
    /// The name in errors and ledgers.
    const NAME: &'static str;
    /// The level that results and gradients promise.
    const LEVEL: Determinism;
    /// The reason why the level holds, in one line.
    const WHY: &'static str;
    /// True if `backward` computes on values and not on variables, so that its gradients cannot be
    /// differentiated again: then doing so is an error. PyTorch's `once_differentiable`.
    const ONCE: bool = false;

    /// Returns the level on a kind of device, for one of the passes; `None` if the operation does
    /// not run there. [`LEVEL`](Function::LEVEL) unless overridden.
    fn level(_device: DeviceKind, _pass: Pass) -> Option<Determinism> {
        Some(Self::LEVEL)
    }

    /// Computes the results, on the device of the inputs. The inputs are outside the graph; `save`
    /// notes the tensors that `backward` needs.
    ///
    /// # Errors
    ///
    /// Inputs that do not fit, as [`Error::invalid`] with [`NAME`](Function::NAME).
    fn forward(&self, inputs: &[Tensor], save: &mut Save) -> Result<Vec<Tensor>>;

    /// Computes the gradient of each input from that of each result: one per input, in order, of
    /// the input's shape, type and device; `None` for 0. Results that nothing depends on have a
    /// gradient of zeros.
    ///
    /// If it is composed of differentiable operations on the tensors of `saved` and on `grads`, its
    /// gradients can be differentiated again.
    ///
    /// # Errors
    ///
    /// Those of the operations in it.
    fn backward(&self, saved: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>>;

    /// Returns the arguments other than tensors, by name, for ledgers;
    /// [`parameters!`](samebits_tensor_core::parameters) declares them.
    fn parameters(&self) -> Vec<(&'static str, &dyn fmt::Debug)> {
        Vec::new()
    }

    /// Returns its generator, at the start of the draw, if it draws, for ledgers.
    fn generator(&self) -> Option<&Generator> {
        None
    }

    /// Runs the operation on `inputs` and returns its `N` results.
    ///
    /// # Errors
    ///
    /// Those of [`forward`](Function::forward); [`Error::LevelUnavailable`] if the level in force
    /// is higher than the operation's; [`Error::NoKernel`] if it does not run on the device;
    /// [`Error::InvalidFunction`] if the number of results is not `N`, a result is on another
    /// device, or a saved tensor does not exist.
    #[track_caller]
    fn apply<const N: usize>(self, inputs: &[&Tensor]) -> Result<[Tensor; N]> {
        let results = self.apply_all(inputs)?;
        let message = format!("returned {} results, expected {N}", results.len());
        results.try_into().map_err(|_| Error::InvalidFunction { op: Self::NAME, message })
    }

    /// Runs the operation as [`apply`](Function::apply) does, for any number of results.
    ///
    /// # Errors
    ///
    /// As [`apply`](Function::apply).
    #[track_caller]
    fn apply_all(self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        register_if_none(|| kernels::<Forward<Self>>(forward));
        let plain = inputs.iter().map(|x| x.detach()).collect();
        let op = Forward { function: Arc::new(self), inputs: plain };
        let Forwarded { results, save } = run(&op)?;
        if !is_wanted(inputs) {
            return Ok(results.into_iter().map(Tensor::from).collect());
        }
        let record = Arc::new(Record::new(op.function, inputs, &results, save));
        let backward = Box::new(move |joint: &_, grads| record.backward(joint, grads));
        Ok(Tensor::computed_jointly(results, inputs, backward))
    }
}

/// Notes of [`Function::forward`]: the tensors that its gradient needs.
#[derive(Debug, Default)]
pub struct Save {
    inputs: Vec<usize>,
    results: Vec<usize>,
    tensors: Vec<(Value, bool)>,
}

impl Save {
    /// Saves an input, by its number; a gradient that uses it can be differentiated again.
    pub fn input(&mut self, number: usize) {
        self.inputs.push(number);
    }

    /// Saves a result, by its number; a gradient that uses it can be differentiated again.
    pub fn result(&mut self, number: usize) {
        self.results.push(number);
    }

    /// Saves another tensor that depends on the inputs. A gradient that uses it can be computed,
    /// but not differentiated again: doing so is an error. Return the tensor as one more result to
    /// allow it.
    pub fn tensor(&mut self, tensor: &Tensor) {
        self.tensors.push((tensor.value().clone(), true));
    }

    /// Saves another tensor whose derivative by the inputs is 0, such as a mask or a draw.
    pub fn constant(&mut self, tensor: &Tensor) {
        self.tensors.push((tensor.value().clone(), false));
    }
}

/// The tensors that [`Function::forward`] saved, for [`Function::backward`].
#[derive(Debug)]
pub struct Saved<'a> {
    op: &'static str,
    inputs: &'a [(Like, Option<Tensor>, bool)],
    results: &'a [Option<Tensor>],
    tensors: &'a [Tensor],
}

impl Saved<'_> {
    /// Returns an input by its number.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidFunction`] if it was not saved.
    pub fn input(&self, number: usize) -> Result<&Tensor> {
        let saved = self.inputs.get(number).and_then(|(_, input, _)| input.as_ref());
        saved.ok_or_else(|| self.unsaved("input", number))
    }

    /// Returns a result by its number.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidFunction`] if it was not saved.
    pub fn result(&self, number: usize) -> Result<&Tensor> {
        let saved = self.results.get(number).and_then(Option::as_ref);
        saved.ok_or_else(|| self.unsaved("result", number))
    }

    /// Returns another tensor: the tensors given to [`Save::tensor`] and [`Save::constant`] have
    /// one count, in the order of the calls.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidFunction`] if it was not saved.
    pub fn tensor(&self, number: usize) -> Result<&Tensor> {
        self.tensors.get(number).ok_or_else(|| self.unsaved("tensor", number))
    }

    /// Returns the shape of an input, which need not be saved.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidFunction`] if there is no such input.
    pub fn input_shape(&self, number: usize) -> Result<&[usize]> {
        let input = self.inputs.get(number).map(|(like, ..)| like.shape.as_slice());
        input.ok_or_else(|| self.unsaved("input", number))
    }

    /// Returns whether the gradient of an input is wanted; if not, `None` will do.
    #[doc(alias = "needs_input_grad")]
    pub fn needs(&self, number: usize) -> bool {
        self.inputs.get(number).is_some_and(|&(.., needed)| needed)
    }

    fn unsaved(&self, what: &str, number: usize) -> Error {
        let message = format!("backward: {what} {number} was not saved by forward");
        Error::InvalidFunction { op: self.op, message }
    }
}

/// The shape, type and device of a tensor.
#[derive(Debug)]
struct Like {
    shape: Vec<usize>,
    dtype: DType,
    device: Device,
}

impl Like {
    fn of(value: &Value) -> Like {
        Like { shape: value.shape().to_vec(), dtype: value.dtype(), device: value.device() }
    }

    fn zeros(&self) -> Result<Tensor> {
        Tensor::zeros(&[], self.dtype)?.to(self.device)?.expand(&self.shape)
    }
}

impl fmt::Display for Like {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} on {}", self.dtype, self.shape, self.device)
    }
}

/// The data that the gradient of one call needs.
struct Record<F> {
    function: Arc<F>,
    /// For each input its kind, the variable if it was saved, and whether it requires a gradient.
    inputs: Vec<(Like, Option<Tensor>, bool)>,
    /// For each result its kind, and the value if it was saved.
    results: Vec<(Like, Option<Value>)>,
    /// Other tensors, and whether they depend on the inputs.
    tensors: Vec<(Value, bool)>,
}

const SAVED_VALUE: &str = "a tensor that forward saved as a value cannot be differentiated; save \
    it as an input or a result, or by `Save::constant` if its derivative is 0";

const ONCE: &str = "this gradient cannot be differentiated again";

impl<F: Function> Record<F> {
    fn new(function: Arc<F>, inputs: &[&Tensor], results: &[Value], save: Save) -> Record<F> {
        let input = |(number, x): (usize, &&Tensor)| {
            let saved = save.inputs.contains(&number).then(|| Tensor::clone(x));
            (Like::of(x.value()), saved, x.requires_grad())
        };
        let result = |(number, y): (usize, &Value)| {
            (Like::of(y), save.results.contains(&number).then(|| y.clone()))
        };
        Record {
            function,
            inputs: inputs.iter().enumerate().map(input).collect(),
            results: results.iter().enumerate().map(result).collect(),
            tensors: save.tensors,
        }
    }

    /// Runs the backward pass with the saved tensors as variables.
    fn backward(
        self: &Arc<Self>,
        joint: &Arc<Source>,
        grads: Vec<Option<Tensor>>,
    ) -> Result<Vec<Option<Tensor>>> {
        register_if_none(|| kernels::<Backward<F>>(backward));
        let grads: Result<Vec<Tensor>> = grads
            .into_iter()
            .zip(&self.results)
            .map(|(grad, (like, _))| grad.map_or_else(|| like.zeros(), Ok))
            .collect();
        let result = |(number, (_, value)): (usize, &(Like, Option<Value>))| {
            value.clone().map(|value| Tensor::result_of(joint, number, value))
        };
        let tensor = |(value, depends): &(Value, bool)| match depends {
            true => Tensor::without_derivative(value.clone(), joint, &[], F::NAME, SAVED_VALUE),
            false => Tensor::from(value),
        };
        let op = Backward {
            record: self.clone(),
            results: self.results.iter().enumerate().map(result).collect(),
            tensors: self.tensors.iter().map(tensor).collect(),
            grads: grads?,
        };
        if !F::ONCE {
            return Ok(run(&op)?.0);
        }
        let found = no_grad(|| run(&op))?.0;
        let others: Vec<&Tensor> = op.grads.iter().collect();
        let once = |grad: Tensor| {
            let value = grad.value().clone();
            Tensor::without_derivative(value, joint, &others, F::NAME, ONCE)
        };
        Ok(found.into_iter().map(|grad| grad.map(once)).collect())
    }

    /// Checks the gradients that the user's code returned.
    fn check(&self, grads: &[Option<Tensor>]) -> Result<()> {
        let wrong = |message| Err(Error::InvalidFunction { op: F::NAME, message });
        let (expected, got) = (self.inputs.len(), grads.len());
        if expected != got {
            return wrong(format!(
                "backward: expected {expected} gradients, one for each input, got {got}"
            ));
        }
        for (number, (grad, (like, ..))) in grads.iter().zip(&self.inputs).enumerate() {
            let Some(grad) = grad else { continue };
            let fits = grad.shape() == like.shape
                && grad.dtype() == like.dtype
                && grad.device() == like.device;
            if !fits {
                let got = Like::of(grad.value());
                return wrong(format!(
                    "backward: expected {like} for the gradient of input {number}, got {got}"
                ));
            }
        }
        Ok(())
    }
}

/// The forward pass, as the registry sees it.
struct Forward<F> {
    function: Arc<F>,
    inputs: Vec<Tensor>,
}

struct Forwarded {
    results: Vec<Value>,
    save: Save,
}

impl Output for Forwarded {
    fn first_difference(&self, other: &Forwarded) -> Result<Option<String>> {
        if let Some(difference) = self.results.first_difference(&other.results)? {
            return Ok(Some(difference));
        }
        let tensors = |output: &Forwarded| -> Vec<Value> {
            output.save.tensors.iter().map(|(value, _)| value.clone()).collect()
        };
        let difference = tensors(self).first_difference(&tensors(other))?;
        Ok(difference.map(|difference| format!("the saved tensors, {difference}")))
    }

    fn tensors<'a>(&'a self, tensors: &mut Vec<&'a Value>) {
        tensors.extend(&self.results);
    }
}

impl<F: Function> Op for Forward<F> {
    const NAME: &'static str = F::NAME;
    type Plan = ();
    type Output = Forwarded;

    fn each_input<'a>(&'a self, visit: &mut dyn FnMut(&'a Value)) {
        self.inputs.iter().for_each(|input| visit(input.value()));
    }

    fn parameters(&self) -> Vec<(&'static str, &dyn fmt::Debug)> {
        self.function.parameters()
    }

    fn generator(&self) -> Option<&Generator> {
        self.function.generator()
    }

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

/// The backward pass, as the registry sees it.
struct Backward<F> {
    record: Arc<Record<F>>,
    grads: Vec<Tensor>,
    results: Vec<Option<Tensor>>,
    tensors: Vec<Tensor>,
}

/// The gradients of the inputs, as variables.
struct Grads(Vec<Option<Tensor>>);

impl Output for Grads {
    fn first_difference(&self, other: &Grads) -> Result<Option<String>> {
        let values = |grads: &Grads| -> Vec<Option<Value>> {
            grads.0.iter().map(|grad| grad.as_ref().map(|grad| grad.value().clone())).collect()
        };
        values(self).first_difference(&values(other))
    }

    fn tensors<'a>(&'a self, tensors: &mut Vec<&'a Value>) {
        tensors.extend(self.0.iter().flatten().map(Tensor::value));
    }
}

impl<F: Function> Op for Backward<F> {
    const NAME: &'static str = F::NAME;
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Grads;

    fn each_input<'a>(&'a self, visit: &mut dyn FnMut(&'a Value)) {
        let inputs = self.record.inputs.iter().filter_map(|(_, input, _)| input.as_ref());
        let saved = inputs.chain(self.results.iter().flatten()).chain(&self.tensors);
        self.grads.iter().chain(saved).for_each(|input| visit(input.value()));
    }

    fn parameters(&self) -> Vec<(&'static str, &dyn fmt::Debug)> {
        self.record.function.parameters()
    }

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

/// Returns the variant for each kind of device that the function runs on.
fn kernels<O: OfFunction>(run: fn(&O, &()) -> Result<O::Output>) -> Vec<Kernel<O>> {
    let on = |device| {
        let level = O::Function::level(device, O::PASS)?;
        Some(Kernel {
            variant: "own",
            device,
            dtypes: &DType::ALL,
            level,
            why: O::Function::WHY,
            applies: |_, _| true,
            run,
        })
    };
    [DeviceKind::Cpu, DeviceKind::Cuda].into_iter().filter_map(on).collect()
}

/// A pass of a function of the user's own.
trait OfFunction: Op<Plan = ()> {
    type Function: Function;
}

impl<F: Function> OfFunction for Forward<F> {
    type Function = F;
}

impl<F: Function> OfFunction for Backward<F> {
    type Function = F;
}

fn forward<F: Function>(op: &Forward<F>, (): &()) -> Result<Forwarded> {
    let wrong = |message| Err(Error::InvalidFunction { op: F::NAME, message });
    let mut save = Save::default();
    let results = no_grad(|| op.function.forward(&op.inputs, &mut save))?;
    for (what, numbers, count) in
        [("input", &save.inputs, op.inputs.len()), ("result", &save.results, results.len())]
    {
        if let Some(number) = numbers.iter().find(|&&number| number >= count) {
            return wrong(format!("forward: saved {what} {number}, but there are {count}"));
        }
    }
    let device = op.device();
    for (number, result) in results.iter().enumerate() {
        let found = result.device();
        if found != device {
            return wrong(format!(
                "forward: expected result {number} on {device}, the device of the inputs, got \
                 {found}"
            ));
        }
    }
    Ok(Forwarded { results: results.into_iter().map(Value::from).collect(), save })
}

fn backward<F: Function>(op: &Backward<F>, (): &()) -> Result<Grads> {
    let saved = Saved {
        op: F::NAME,
        inputs: &op.record.inputs,
        results: &op.results,
        tensors: &op.tensors,
    };
    let grads = op.record.function.backward(&saved, &op.grads)?;
    op.record.check(&grads)?;
    Ok(Grads(grads))
}
