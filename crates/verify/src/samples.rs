//! The only table of operations, with one file per family. A family has
//!
//! - `add`: the cases whose digests are compared with `golden/FAMILY.snap` and between thread
//!   counts, instruction sets, layouts and devices. Sizes are large enough to be shared between
//!   threads, and leave tails shorter than a vector. Every operation of the registry has a case.
//! - `samples`: differentiable functions, each with the arguments for each proof: digests, a batch
//!   against its parts, gradients against differences. `add` takes the digests of these.

mod bincount;
mod contraction;
mod drawn;
mod elementwise;
mod embedding;
mod half;
mod index;
mod integers;
mod loss;
mod norm;
mod optim;
mod pooling;
mod random;
mod recurrent;
mod reduce;
mod resample;
mod sample;
mod scan;
mod scatter;
mod shape;
mod sort;
mod sparse;
mod stored;

use std::fmt;
use std::sync::Arc;

use samebits::numerics::fpenv;
use samebits::ops::{Affine, Cast, Cat, Normal};
use samebits::registry::{self, KernelInfo};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Determinism, Device, DeviceKind, Generator, Op, Result, Tensor, dispatch};

pub use drawn::drawn_cases;
pub use sample::{Batch, Digest, Gradient, Input, Order, Sample, Samples, each, normal};

/// The cases of one family of operations.
#[derive(Debug)]
pub struct Family {
    /// The family's name, which is also that of its files.
    pub name: &'static str,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// A seeded call of an operation.
pub struct Case {
    /// The operation, with its parameters and type.
    pub name: String,
    /// Runs the case and returns every result.
    pub run: Box<dyn Fn() -> Result<Vec<Value>> + Send + Sync>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns every family, with its inputs on `device`.
pub fn families(device: Device) -> Vec<Family> {
    all(Make::on(device))
}

/// Returns every family with the same inputs, all of them strided: no dimension has neighbouring
/// elements, the first element is not at the start of the storage, and between the elements there
/// are values that no operation may read. Incoming gradients are strided too.
pub fn strided_families(device: Device) -> Vec<Family> {
    all(Make { placed: Placed::Strided, ..Make::on(device) })
}

/// Returns every family with the same inputs, each contiguous but `offset` elements after the start
/// of its storage: no vector load may rely on the alignment of an allocation.
pub fn offset_families(device: Device, offset: usize) -> Vec<Family> {
    all(Make { placed: Placed::Offset(offset), ..Make::on(device) })
}

/// Returns every family with inputs so small that sums and products are subnormal, which reveals a
/// thread that flushes them to zero.
pub fn tiny_families(device: Device) -> Vec<Family> {
    all(Make { tiny: true, ..Make::on(device) })
}

/// Returns the differentiable functions of every family.
pub fn samples() -> Vec<(&'static str, Samples)> {
    let samples = |&(name, _, add): &(_, Add, AddSamples)| (name, Samples::of(add));
    FAMILIES.iter().map(samples).collect()
}

fn all(make: Make) -> Vec<Family> {
    let cases = |&(name, add, _): &(_, Add, AddSamples)| {
        let mut cases = Cases { make, all: Vec::new() };
        add(&mut cases, make);
        Family { name, cases: cases.all }
    };
    FAMILIES.iter().map(cases).filter(|family| !family.cases.is_empty()).collect()
}

/// A function that adds the cases of a family.
type Add = fn(&mut Cases, Make);

/// A function that adds the differentiable functions of a family.
type AddSamples = fn(&mut Samples);

/// All families: name, cases and functions.
const FAMILIES: &[(&str, Add, AddSamples)] = &[
    ("bincount", bincount::add, bincount::samples),
    ("contraction", contraction::add, contraction::samples),
    ("elementwise", elementwise::add, elementwise::samples),
    ("embedding", embedding::add, embedding::samples),
    ("half", half::add, |_| {}),
    ("index", index::add, index::samples),
    ("integers", integers::add, integers::samples),
    ("loss", loss::add, loss::samples),
    ("norm", norm::add, norm::samples),
    ("optim", optim::add, optim::samples),
    ("pooling", pooling::add, pooling::samples),
    ("random", random::add, random::samples),
    ("recurrent", recurrent::add, recurrent::samples),
    ("reduce", reduce::add, reduce::samples),
    ("resample", resample::add, resample::samples),
    ("scan", scan::add, scan::samples),
    ("scatter", scatter::add, scatter::samples),
    ("shape", |_, _| {}, shape::samples),
    ("sort", sort::add, sort::samples),
    ("sparse", sparse::add, sparse::samples),
    ("stored", stored::add, |_| {}),
];

/// Returns the kernels of a kind of device that promise `level` or more and have not run in this
/// process.
pub fn unreached(device: DeviceKind, level: Determinism) -> Vec<KernelInfo> {
    let is_meant = |info: &KernelInfo| {
        // The vendor's libraries are left out: a machine may lack them.
        let vendor = ["cublas", "cudnn"].contains(&info.variant);
        info.device == device && info.level >= level && !vendor
    };
    let kernels = registry::kernels().into_iter();
    kernels.filter(|(info, runs)| *runs == 0 && is_meant(info)).map(|(info, _)| info).collect()
}

/// The types that most operations support.
const FLOATS: [DType; 2] = [DType::F32, DType::F64];

struct Cases {
    make: Make,
    all: Vec<Case>,
}

impl Cases {
    /// Adds one operation.
    fn add<O: Op>(&mut self, name: impl Into<String>, op: O)
    where
        O::Output: Tensors,
    {
        let name = name.into();
        self.make.check(&name, op.inputs());
        self.call(name, move || Ok(dispatch(&op)?.tensors()));
    }

    /// Adds a function that is built from several operations.
    fn call(
        &mut self,
        name: impl Into<String>,
        run: impl Fn() -> Result<Vec<Value>> + Send + Sync + 'static,
    ) {
        self.all.push(Case { name: name.into(), run: Box::new(run) });
    }

    /// Adds a differentiable function and its gradients, as computed by [`Make::with_gradients`].
    fn graded(
        &mut self,
        name: impl Into<String>,
        arguments: Vec<Value>,
        function: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
    ) {
        let (name, make) = (name.into(), self.make);
        make.check(&name, &arguments);
        self.call(name, move || make.with_gradients(&arguments, &function));
    }

    /// Adds the digests of a family's functions for a type.
    fn functions(&mut self, dtype: DType, add: AddSamples) {
        let make = self.make;
        for sample in Samples::of(add).all.into_iter().map(Arc::new) {
            for Digest { name, inputs } in sample.digests.clone() {
                let values = inputs.iter().enumerate().map(|(i, x)| x.make(make, dtype, i));
                let values: Vec<Value> = values.collect();
                let (name, sample) = (format!("{name} {dtype}"), Arc::clone(&sample));
                make.check(&name, &values);
                self.call(name, move || {
                    let variables: Vec<Tensor> = inputs
                        .iter()
                        .zip(&values)
                        .map(|(input, x)| Tensor::from(x).set_requires_grad(!input.constant))
                        .collect::<Result<_>>()?;
                    let results = sample.call(&inputs, &variables, &(0..0))?;
                    make.gradients(&results[0], &variables)
                });
            }
        }
    }
}

/// A factory for the inputs of cases.
#[derive(Clone, Copy, Debug)]
pub struct Make {
    device: Device,
    tiny: bool,
    placed: Placed,
}

/// The position of an input in its storage.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Placed {
    /// The whole storage.
    Whole,
    /// As laid out by [`spread`].
    Strided,
    /// Contiguous, with this number of elements before it.
    Offset(usize),
}

impl Make {
    /// A factory of dense inputs of ordinary magnitude on the host.
    pub const HOST: Make = Make::on(Device::Cpu);

    /// Returns a factory of dense inputs of ordinary magnitude.
    const fn on(device: Device) -> Make {
        Make { device, tiny: false, placed: Placed::Whole }
    }

    /// Returns normal numbers, different for each seed.
    fn normal(self, shape: &[usize], dtype: DType, seed: u64) -> Value {
        let x = normal_of(shape, dtype, seed);
        if !self.tiny {
            return self.here(x);
        }
        let scale = if dtype == DType::F32 { 1e-38 } else { 1e-308 };
        self.here(dispatch(&Affine { x, scale, shift: 0.0 }).expect("floats"))
    }

    /// Returns rows of normal numbers, each row times another power of ten: tiny, small, 1, large,
    /// huge.
    fn scaled_rows(self, shape: &[usize], dtype: DType, seed: u64) -> Value {
        let scales = match dtype {
            DType::F32 => [1e-42, 1e-20, 1.0, 1e20, 1e37],
            _ => [1e-320, 1e-200, 1.0, 1e200, 1e307],
        };
        let width: usize = shape[1..].iter().product();
        let mut x: Vec<f64> = normal_of(shape, DType::F64, seed).to_vec().expect("of this type");
        for (row, scale) in x.chunks_mut(width).zip(scales.iter().cycle()) {
            row.iter_mut().for_each(|x| *x *= scale);
        }
        let tensor = fpenv::ieee(|| match dtype {
            DType::F32 => {
                Value::from_slice(&x.iter().map(|&x| x as f32).collect::<Vec<_>>(), shape)
            }
            _ => Value::from_slice(&x, shape),
        });
        self.here(tensor.expect("as many values"))
    }

    /// Returns indices below `bound`.
    fn indices(self, count: usize, bound: i64, seed: u64) -> Value {
        self.here(indices(count, bound, seed))
    }

    /// Returns indices below `bound` in a shape.
    fn indices_of(self, shape: &[usize], bound: i64, seed: u64) -> Value {
        let flat = indices(shape.iter().product(), bound, seed);
        self.here(flat.reshape(shape).expect("as many indices"))
    }

    /// Returns numbers of every kind: ordinary, huge, tiny, subnormal, infinite, NaN, both zeros.
    fn wild(self, shape: &[usize], dtype: DType, seed: u64) -> Value {
        let special = [
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1e-40,
            -1e-45,
            3e38,
            -1e30,
            1e-20,
            17.0,
        ];
        let values: Vec<f64> = normal_of(shape, DType::F64, seed).to_vec().expect("of this type");
        let mixed = values
            .iter()
            .enumerate()
            .map(|(i, &x)| if i % 7 == 3 { special[i / 7 % special.len()] } else { x });
        // The conversion to f32 is not part of the test.
        let tensor = fpenv::ieee(|| match dtype {
            DType::F32 => Value::from_slice(&mixed.map(|x| x as f32).collect::<Vec<_>>(), shape),
            _ => Value::from_slice(&mixed.collect::<Vec<_>>(), shape),
        });
        self.here(tensor.expect("as many values"))
    }

    /// Returns a tensor on the device of the cases, in their layout.
    fn here(self, tensor: Value) -> Value {
        let tensor = tensor.to(self.device).expect("room on the device");
        let placed = match self.placed {
            Placed::Whole => Ok(tensor),
            Placed::Strided => spread(&tensor),
            Placed::Offset(offset) => shifted(&tensor, offset),
        };
        placed.expect("room on the device")
    }

    /// Checks that inputs have the layout of the cases.
    fn check<'a>(self, case: &str, inputs: impl IntoIterator<Item = &'a Value>) {
        let other = |x: &Value| match self.placed {
            Placed::Whole => false,
            Placed::Strided => x.numel() > 1 && x.is_contiguous(),
            Placed::Offset(offset) => x.numel() > 0 && x.layout().offset() != offset,
        };
        let found = inputs.into_iter().position(other);
        assert_eq!(found, None, "{case}: an input that is not {:?}", self.placed);
    }

    /// Returns the value of a function and, for a seeded gradient of it, the gradients of its
    /// arguments.
    fn with_gradients(
        self,
        arguments: &[Value],
        function: impl FnOnce(&[Tensor]) -> Result<Tensor>,
    ) -> Result<Vec<Value>> {
        self.check("a function", arguments);
        let variable = |x: &Value| Tensor::from(x).set_requires_grad(true);
        let variables: Vec<Tensor> = arguments.iter().map(variable).collect::<Result<_>>()?;
        self.gradients(&function(&variables)?, &variables)
    }

    /// Returns a value and, for a seeded gradient of it, the gradients of the variables.
    fn gradients(self, value: &Tensor, variables: &[Tensor]) -> Result<Vec<Value>> {
        let seed = self.here(normal_of(value.shape(), value.dtype(), 99));
        let gradients = value.backward_from(Tensor::from(seed), false)?;
        let mut results = vec![value.value().clone()];
        results.extend(variables.iter().filter_map(|x| gradients.of(x)).map(Value::from));
        Ok(results)
    }
}

/// Returns the same tensor with its first dimension last in memory, in every second place from the
/// second on. The other places hold numbers that would change a result, and indices that are out of
/// range.
fn spread(x: &Value) -> Result<Value> {
    let reversed: Vec<usize> = (0..x.rank()).rev().collect();
    let x = x.permute(&reversed)?;
    let other = Value::full(&[], f64::MAX, x.dtype()).unwrap().to(x.device())?.expand(x.shape())?;
    let last = x.rank();
    let pairs = Cat { inputs: vec![other.unsqueeze(last)?, x.unsqueeze(last)?], dim: last };
    dispatch(&pairs)?.select(last, 1)?.permute(&reversed)
}

/// Returns the same tensor after `offset` numbers that would change a result.
fn shifted(x: &Value, offset: usize) -> Result<Value> {
    let other = Value::full(&[], f64::MAX, x.dtype()).unwrap().to(x.device())?.expand(&[offset])?;
    let both = Cat { inputs: vec![other, x.reshape(&[x.numel()])?], dim: 0 };
    dispatch(&both)?.narrow(0, offset, x.numel())?.reshape(x.shape())
}

/// Returns normal numbers of a shape and type, different for each seed; halves are those of f32,
/// rounded.
pub fn normal_of(shape: &[usize], dtype: DType, seed: u64) -> Value {
    if dtype.is_half() {
        let x = normal_of(shape, DType::F32, seed);
        return dispatch(&Cast { x, to: dtype }).expect("a float type");
    }
    dispatch(&Normal {
        shape: shape.to_vec(),
        dtype,
        device: Device::Cpu,
        mean: 0.0,
        std: 1.0,
        generator: Generator::new(seed),
    })
    .expect("finite parameters")
}

/// Returns indices below `bound`.
pub fn indices(count: usize, bound: i64, seed: u64) -> Value {
    let mut values = vec![0; count];
    Generator::new(seed).fill_randint(&mut values, 0, bound).expect("a positive bound");
    Value::from_slice(&values, &[count]).expect("as many values")
}

/// Results as a list: of plain tensors, or of users' tensors.
pub trait Tensors<T = Value> {
    /// Returns every result.
    fn tensors(self) -> Vec<T>;
}

macro_rules! results {
    ($tensor:ty) => {
        impl Tensors<$tensor> for $tensor {
            fn tensors(self) -> Vec<$tensor> {
                vec![self]
            }
        }

        impl Tensors<$tensor> for Vec<$tensor> {
            fn tensors(self) -> Vec<$tensor> {
                self
            }
        }

        impl Tensors<$tensor> for ($tensor, $tensor) {
            fn tensors(self) -> Vec<$tensor> {
                vec![self.0, self.1]
            }
        }

        impl Tensors<$tensor> for ($tensor, $tensor, $tensor) {
            fn tensors(self) -> Vec<$tensor> {
                vec![self.0, self.1, self.2]
            }
        }
    };
}

results!(Value);
results!(Tensor);

impl Tensors for (Value, Vec<Value>) {
    fn tensors(self) -> Vec<Value> {
        [vec![self.0], self.1].concat()
    }
}

impl Tensors for (Value, Option<Value>) {
    fn tensors(self) -> Vec<Value> {
        [Some(self.0), self.1].into_iter().flatten().collect()
    }
}

impl Tensors for (Value, Value, Value, Value) {
    fn tensors(self) -> Vec<Value> {
        vec![self.0, self.1, self.2, self.3]
    }
}
