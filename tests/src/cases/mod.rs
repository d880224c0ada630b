//! One seeded call of every operation, with typical and with awkward arguments; one file per
//! family of operations.
//!
//! The cases of a family are compared with `snapshots/invariance__digests_FAMILY.snap`, among
//! thread counts, instruction sets and devices. Sizes are such that work is shared among threads
//! and that tails shorter than a vector are left over.

mod bincount;
mod contraction;
mod drawn;
mod elementwise;
mod embedding;
mod index;
mod loss;
mod norm;
mod optim;
mod pooling;
mod random;
mod recurrent;
mod reduce;
mod resample;
mod scan;
mod scatter;
mod sort;
mod sparse;

use std::fmt;

use samebits::numerics::fpenv;
use samebits::ops::{Affine, Cat};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Device, DeviceKind, Op, Result, Tensor, dispatch, registry};

use crate::{indices, normal_of};

pub use drawn::drawn_cases;

/// The cases of one family of operations.
#[derive(Debug)]
pub struct Family {
    /// The family's name, as its files are called.
    pub name: &'static str,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// A seeded call of an operation.
pub struct Case {
    /// The operation, its parameters and its type.
    pub name: String,
    /// Runs it and returns every result.
    pub run: Box<dyn Fn() -> Result<Vec<Value>> + Send + Sync>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Every family, with its inputs on `device`.
pub fn families(device: Device) -> Vec<Family> {
    all(Make { device, tiny: false, strided: false })
}

/// Every family with the same inputs, but every one of them strided: its neighbours along no
/// dimension lie side by side, it does not begin where its storage does, and between its elements
/// there is what no operation may read. So are the gradients that flow in.
pub fn strided_families(device: Device) -> Vec<Family> {
    all(Make { device, tiny: false, strided: true })
}

/// Every family with its inputs so small that sums and products are subnormal: where a thread
/// that flushes them to zero shows.
pub fn tiny_families(device: Device) -> Vec<Family> {
    all(Make { device, tiny: true, strided: false })
}

fn all(make: Make) -> Vec<Family> {
    let all: [(_, Add); _] = [
        ("bincount", bincount::add),
        ("contraction", contraction::add),
        ("elementwise", elementwise::add),
        ("embedding", embedding::add),
        ("index", index::add),
        ("loss", loss::add),
        ("norm", norm::add),
        ("optim", optim::add),
        ("pooling", pooling::add),
        ("random", random::add),
        ("recurrent", recurrent::add),
        ("reduce", reduce::add),
        ("resample", resample::add),
        ("scan", scan::add),
        ("scatter", scatter::add),
        ("sort", sort::add),
        ("sparse", sparse::add),
    ];
    all.into_iter()
        .map(|(name, add)| {
            let mut cases = Cases { make, all: Vec::new() };
            add(&mut cases, make);
            Family { name, cases: cases.all }
        })
        .collect()
}

/// The kernels of a kind of device that promise their bits and that no case has run in this
/// process.
pub fn unreached(device: DeviceKind) -> Vec<String> {
    registry::kernels()
        .into_iter()
        .filter(|(info, runs)| info.device == device && *runs == 0)
        .filter(|(info, _)| info.level > samebits::Determinism::NotGuaranteed)
        // The vendor's libraries, which a build may use and a machine not have.
        .filter(|(info, _)| !["cublas", "cudnn"].contains(&info.variant))
        .map(|(info, _)| format!("{} {} {} {}", info.op, info.pass, info.device, info.variant))
        .collect()
}

/// The types that most operations take.
const FLOATS: [DType; 2] = [DType::F32, DType::F64];

/// Adds the cases of a family.
type Add = fn(&mut Cases, Make);

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

    /// Adds a differentiable function and its gradients, as [`Make::with_gradients`] has them.
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
}

/// Makes the inputs of cases.
#[derive(Clone, Copy)]
struct Make {
    device: Device,
    tiny: bool,
    strided: bool,
}

impl Make {
    /// Normal numbers; each seed gives its own.
    fn normal(self, shape: &[usize], dtype: DType, seed: u64) -> Value {
        let x = normal_of(shape, dtype, seed);
        if !self.tiny {
            return self.here(x);
        }
        let scale = if dtype == DType::F32 { 1e-38 } else { 1e-308 };
        self.here(dispatch(&Affine { x, scale, shift: 0.0 }).expect("floats"))
    }

    /// Indices below `bound`.
    fn indices(self, count: usize, bound: i64, seed: u64) -> Value {
        self.here(indices(count, bound, seed))
    }

    /// The same in a shape.
    fn indices_of(self, shape: &[usize], bound: i64, seed: u64) -> Value {
        let flat = indices(shape.iter().product(), bound, seed);
        self.here(flat.reshape(shape).expect("as many indices"))
    }

    /// Numbers of every kind: ordinary, huge, tiny, subnormal, infinite, NaN, both zeros.
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
        // The conversion to f32 is not the operation that is being tested.
        let tensor = fpenv::ieee(|| match dtype {
            DType::F32 => Value::from_slice(&mixed.map(|x| x as f32).collect::<Vec<_>>(), shape),
            _ => Value::from_slice(&mixed.collect::<Vec<_>>(), shape),
        });
        self.here(tensor.expect("as many values"))
    }

    /// A tensor on the device of the cases, in their layout.
    fn here(self, tensor: Value) -> Value {
        let tensor = tensor.to(self.device).expect("room on the device");
        if self.strided { spread(&tensor).expect("room on the device") } else { tensor }
    }

    /// Requires the layout of the cases.
    fn check<'a>(self, case: &str, inputs: impl IntoIterator<Item = &'a Value>) {
        let dense = |x: &Value| self.strided && x.numel() > 1 && x.is_contiguous();
        let found = inputs.into_iter().position(dense);
        assert_eq!(found, None, "{case}: an input that is not strided");
    }

    /// The value of a function and, for a seeded gradient of it, the gradients of its arguments.
    fn with_gradients(
        self,
        arguments: &[Value],
        function: impl FnOnce(&[Tensor]) -> Result<Tensor>,
    ) -> Result<Vec<Value>> {
        self.check("a function", arguments);
        let variables: Vec<Tensor> =
            arguments.iter().cloned().map(|x| Tensor::from(x).set_requires_grad(true)).collect();
        let value = function(&variables)?;
        let seed = self.here(normal_of(value.shape(), value.dtype(), 99));
        let gradients = value.backward_from(Tensor::from(seed), false)?;
        let mut results = vec![value.value().clone()];
        results.extend(variables.iter().filter_map(|x| gradients.of(x)).map(Value::from));
        Ok(results)
    }
}

/// The same tensor with its first dimension last in memory, in every second place from the second
/// on. In the others are numbers that would show, and indices that are out of range.
fn spread(x: &Value) -> Result<Value> {
    let reversed: Vec<usize> = (0..x.rank()).rev().collect();
    let x = x.permute(&reversed)?;
    let other = Value::full(&[], f64::MAX, x.dtype()).unwrap().to(x.device())?.expand(x.shape())?;
    let last = x.rank();
    let pairs = Cat { inputs: vec![other.unsqueeze(last)?, x.unsqueeze(last)?], dim: last };
    dispatch(&pairs)?.select(last, 1)?.permute(&reversed)
}

/// Results as a list.
pub(crate) trait Tensors {
    fn tensors(self) -> Vec<Value>;
}

impl Tensors for Value {
    fn tensors(self) -> Vec<Value> {
        vec![self]
    }
}

impl Tensors for Vec<Value> {
    fn tensors(self) -> Vec<Value> {
        self
    }
}

impl Tensors for (Value, Vec<Value>) {
    fn tensors(self) -> Vec<Value> {
        [vec![self.0], self.1].concat()
    }
}

impl Tensors for (Value, Value) {
    fn tensors(self) -> Vec<Value> {
        vec![self.0, self.1]
    }
}

impl Tensors for (Value, Option<Value>) {
    fn tensors(self) -> Vec<Value> {
        [Some(self.0), self.1].into_iter().flatten().collect()
    }
}

impl Tensors for (Value, Value, Value) {
    fn tensors(self) -> Vec<Value> {
        vec![self.0, self.1, self.2]
    }
}

impl Tensors for (Value, Value, Value, Value) {
    fn tensors(self) -> Vec<Value> {
        vec![self.0, self.1, self.2, self.3]
    }
}
