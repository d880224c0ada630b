//! Functions, with the arguments for each proof.

use std::fmt;
use std::ops::Range;

use samebits::ops::Cast;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor, dispatch};

use super::{Make, Tensors};

/// The functions of one family.
#[derive(Debug, Default)]
pub struct Samples {
    /// Its functions.
    pub all: Vec<Sample>,
    /// Operations without a batch, and the reason.
    pub no_batch: Vec<(&'static str, &'static str)>,
}

/// A function, and its arguments for each proof. A proof skips samples that have no arguments for
/// it.
pub struct Sample {
    /// The function's name, with the parameters that distinguish it from other samples.
    pub name: String,
    /// For golden digests, thread counts, instruction sets, layouts and devices: large enough that
    /// work is shared.
    pub digests: Vec<Digest>,
    /// For the comparison of a batch with its parts.
    pub batches: Vec<Batch>,
    /// For finite differences in f64: small, because each element is varied.
    pub gradients: Vec<Gradient>,
    function: Box<Function>,
}

/// The arguments of a digest.
#[derive(Clone, Debug)]
pub struct Digest {
    /// Its name in the snapshot, without the type.
    pub name: String,
    /// The arguments.
    pub inputs: Vec<Input>,
}

/// Arguments, some of which have a batch dimension.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The arguments.
    pub inputs: Vec<Input>,
    /// The batch dimension of the results.
    pub dim: usize,
}

/// The arguments of a function whose gradient is checked.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// The arguments; floats are variables.
    pub inputs: Vec<Input>,
    /// The number of times the function is differentiated.
    pub order: Order,
}

/// The number of times a function is differentiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Once, for the given reason.
    Once(&'static str),
    /// Twice: its gradient too.
    Twice,
    /// Three times: the gradient of its gradient too.
    Thrice,
}

/// A function of its arguments and of the part of the batch that they represent.
type Function = dyn Fn(&[Tensor], &Range<usize>) -> Result<Vec<Tensor>> + Send + Sync;

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Samples {
    pub(super) fn of(add: fn(&mut Samples)) -> Samples {
        let mut samples = Samples::default();
        add(&mut samples);
        samples
    }

    /// Adds a function.
    pub fn add<O: Tensors<Tensor>>(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&[Tensor]) -> Result<O> + Send + Sync + 'static,
    ) -> &mut Sample {
        self.add_part(name, move |x, _| function(x))
    }

    /// Adds a function that depends on the part of the batch in its arguments.
    pub fn add_part<O: Tensors<Tensor>>(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&[Tensor], &Range<usize>) -> Result<O> + Send + Sync + 'static,
    ) -> &mut Sample {
        self.all.push(Sample {
            name: name.into(),
            digests: Vec::new(),
            batches: Vec::new(),
            gradients: Vec::new(),
            function: Box::new(move |x, part| Ok(function(x, part)?.tensors())),
        });
        self.all.last_mut().expect("one was added")
    }

    /// States the reason why an operation has no batch.
    pub(super) fn no_batch(&mut self, op: &'static str, reason: &'static str) {
        self.no_batch.push((op, reason));
    }
}

impl Sample {
    /// Takes digests of its first result and of the gradients of all arguments.
    pub(super) fn digest(&mut self, inputs: impl Into<Vec<Input>>) -> &mut Self {
        self.digest_as(self.name.clone(), inputs)
    }

    /// Takes digests under a name other than the sample's.
    pub(super) fn digest_as(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Vec<Input>>,
    ) -> &mut Self {
        self.digests.push(Digest { name: name.into(), inputs: inputs.into() });
        self
    }

    /// Adds a comparison of a batch with its parts; the results have the batch in dimension 0.
    pub fn batch(&mut self, inputs: impl Into<Vec<Input>>) -> &mut Self {
        self.batch_along(0, inputs)
    }

    /// Adds a comparison of a batch with its parts; the results have the batch in dimension `dim`.
    pub fn batch_along(&mut self, dim: usize, inputs: impl Into<Vec<Input>>) -> &mut Self {
        self.batches.push(Batch { inputs: inputs.into(), dim });
        self
    }

    /// Adds a check of the first derivative only, for the given reason.
    pub(super) fn once(
        &mut self,
        reason: &'static str,
        inputs: impl Into<Vec<Input>>,
    ) -> &mut Self {
        self.gradients.push(Gradient { inputs: inputs.into(), order: Order::Once(reason) });
        self
    }

    /// Adds a check of two derivatives.
    pub fn twice(&mut self, inputs: impl Into<Vec<Input>>) -> &mut Self {
        self.gradients.push(Gradient { inputs: inputs.into(), order: Order::Twice });
        self
    }

    /// Adds a check of three derivatives.
    pub(super) fn thrice(&mut self, inputs: impl Into<Vec<Input>>) -> &mut Self {
        self.gradients.push(Gradient { inputs: inputs.into(), order: Order::Thrice });
        self
    }

    /// Runs the function on values of `inputs`.
    ///
    /// # Errors
    ///
    /// The errors of the function.
    pub fn call(&self, inputs: &[Input], x: &[Tensor], part: &Range<usize>) -> Result<Vec<Tensor>> {
        let prepared = inputs.iter().zip(x).map(|(input, x)| input.prepared(x));
        self.apply(&prepared.collect::<Result<Vec<_>>>()?, part)
    }

    /// Runs the function on arguments that are prepared.
    ///
    /// # Errors
    ///
    /// The errors of the function.
    pub fn apply(&self, x: &[Tensor], part: &Range<usize>) -> Result<Vec<Tensor>> {
        (self.function)(x, part)
    }
}

/// An argument: its shape, its values, and the function applied to it first.
#[derive(Clone)]
pub struct Input {
    shape: Vec<usize>,
    fill: Fill,
    seed: Option<u64>,
    zeros: Vec<usize>,
    prepare: fn(&Tensor) -> Result<Tensor>,
    /// The batch dimension.
    pub batch: Option<usize>,
    /// True if the function is not differentiated with respect to it.
    pub constant: bool,
}

#[derive(Clone, Debug)]
enum Fill {
    Normal,
    Wild,
    Indices(i64),
    Given(Value),
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shape)
    }
}

/// Returns an argument of normal numbers.
pub fn normal(shape: &[usize]) -> Input {
    Input {
        shape: shape.to_vec(),
        fill: Fill::Normal,
        seed: None,
        zeros: Vec::new(),
        prepare: |x| Ok(x.clone()),
        batch: None,
        constant: false,
    }
}

/// Returns an argument of normal numbers with the batch in the first dimension.
pub fn each(shape: &[usize]) -> Input {
    normal(shape).along(0)
}

/// Returns an argument of numbers of every kind.
pub(super) fn wild(shape: &[usize]) -> Input {
    Input { fill: Fill::Wild, ..normal(shape) }
}

/// Returns an argument of indices below `bound`, with repeats.
pub(super) fn indices(shape: &[usize], bound: i64) -> Input {
    Input { fill: Fill::Indices(bound), constant: true, ..normal(shape) }
}

/// Returns an argument with these values: floats in the type of the other arguments, integers and
/// booleans in their own.
pub(super) fn given(x: Result<Value, impl fmt::Debug>) -> Input {
    let x = x.expect("as many values");
    Input { fill: Fill::Given(x.clone()), constant: true, ..normal(x.shape()) }
}

impl Input {
    /// Sets the seed, which otherwise follows from the argument's position.
    pub(super) fn seed(self, seed: u64) -> Self {
        Input { seed: Some(seed), ..self }
    }

    /// Sets the batch dimension to `dim`.
    pub(super) fn along(self, dim: usize) -> Self {
        Input { batch: Some(dim), ..self }
    }

    /// Makes the argument a constant, with respect to which the function is not differentiated.
    pub(super) fn constant(self) -> Self {
        Input { constant: true, ..self }
    }

    /// Makes the argument a variable, with respect to which the function is differentiated.
    pub(super) fn variable(self) -> Self {
        Input { constant: false, ..self }
    }

    /// Sets the elements at these places, in row-major order, to zero.
    pub(super) fn zeros_at(self, zeros: &[usize]) -> Self {
        Input { zeros: zeros.to_vec(), ..self }
    }

    /// Applies a differentiable function to the argument first.
    pub(super) fn by(self, prepare: fn(&Tensor) -> Result<Tensor>) -> Self {
        Input { prepare, ..self }
    }

    /// Squares the argument first, so that a linear function has a second derivative.
    pub(super) fn squared(self) -> Self {
        self.by(|x| x.square())
    }

    /// Maps the argument to numbers above one half.
    pub(super) fn positive(self) -> Self {
        self.by(|x| x.square()?.affine(1.0, 0.5))
    }

    /// Maps the argument to numbers between zero and one.
    pub(super) fn probability(self) -> Self {
        self.by(|x| x.sigmoid())
    }

    /// Maps the argument to numbers near one, so that products neither vanish nor overflow.
    pub(super) fn near_one(self) -> Self {
        self.by(|x| x.affine(0.01, 1.0))
    }

    /// Applies the function that precedes the sample's to the argument.
    ///
    /// # Errors
    ///
    /// The errors of that function.
    pub fn prepared(&self, x: &Tensor) -> Result<Tensor> {
        (self.prepare)(x)
    }

    /// Returns its shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the tensor, as argument number `place`.
    pub fn make(&self, make: Make, dtype: DType, place: usize) -> Value {
        let seed = self.seed.unwrap_or(100 + place as u64);
        match &self.fill {
            Fill::Normal if self.zeros.is_empty() => make.normal(&self.shape, dtype, seed),
            Fill::Normal => {
                let mut x = super::normal_of(&self.shape, DType::F64, seed);
                let values = x.as_mut_slice::<f64>().expect("dense f64");
                self.zeros.iter().for_each(|&at| values[at] = 0.0);
                make.here(cast(x, dtype))
            }
            Fill::Wild => make.wild(&self.shape, dtype, seed),
            Fill::Indices(bound) => make.indices_of(&self.shape, *bound, seed),
            Fill::Given(x) if x.dtype().is_float() => make.here(cast(x.clone(), dtype)),
            Fill::Given(x) => make.here(x.clone()),
        }
    }
}

fn cast(x: Value, to: DType) -> Value {
    dispatch(&Cast { x, to }).expect("a float type")
}
