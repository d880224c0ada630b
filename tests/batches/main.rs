//! A batch does not show: an element of a batched result, and of each gradient, has the bits that
//! it has alone. One file per family of operations.
//!
//! One test function, because it counts which kernels have run.

mod contraction;
mod elementwise;
mod embedding;
mod index;
mod loss;
mod norm;
mod optim;
mod pooling;
mod recurrent;
mod reduce;
mod resample;
mod scan;
mod scatter;
mod sort;
mod sparse;

use std::ops::Range;

use rayon::{ThreadPool, ThreadPoolBuilder};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, DeviceKind, Result, Tensor, backward, registry};
use workspace_tests::{indices, normal_of};

/// Operations of which no part of the result belongs to a part of the input, or whose inputs
/// make a batch of nothing.
const WHOLE: [(&str, &str); 13] = [
    ("batch_norm", "the statistics are the batch's"),
    ("bincount", "one histogram of all"),
    ("bincount_weighted", "one histogram of all"),
    ("dropout", "an element's number is its place in the whole"),
    ("embedding", "the gradient of a table adds up all places"),
    ("embedding_bag", "the gradient of a table adds up all bags"),
    ("histc", "one histogram of all"),
    ("index_put", "the index says the first place"),
    ("nonzero", "as many results as are found"),
    ("normal", "an element's number is its place in the whole"),
    ("uniform", "an element's number is its place in the whole"),
    ("unique", "one list of all"),
    ("unique_dim", "one list of all"),
];

#[test]
fn a_batch_does_not_show() {
    let mut batches = Batches(Vec::new());
    for dtype in [DType::F32, DType::F64] {
        for add in [
            contraction::add,
            elementwise::add,
            embedding::add,
            index::add,
            loss::add,
            norm::add,
            optim::add,
            pooling::add,
            recurrent::add,
            reduce::add,
            resample::add,
            scan::add,
            scatter::add,
            sort::add,
            sparse::add,
        ] {
            add(&mut batches, Make(dtype));
        }
    }
    let pools = [3, 1].map(|n| ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let different: Vec<String> =
        batches.0.iter().flat_map(|batch| batch.differences(&pools)).collect();
    assert!(different.is_empty(), "other bits alone than in a batch: {different:#?}");
    let missing: Vec<String> = registry::kernels()
        .into_iter()
        .filter(|(info, runs)| info.device == DeviceKind::Cpu && *runs == 0)
        .filter(|(info, _)| info.level == samebits::Determinism::Portable)
        .filter(|(info, _)| !WHOLE.iter().any(|(op, _)| *op == info.op))
        .map(|(info, _)| format!("{} {} {}", info.op, info.pass, info.variant))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "kernels that no batch reaches");
}

/// A batch that is mixed up is told from one that is not.
#[test]
fn a_mixed_batch_would_be_seen() {
    let make = Make(DType::F32);
    let pools = [3, 1].map(|n| ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let mut batches = Batches(Vec::new());
    batches.add("centred", [make.each(&[5, 3], 1)], |x| {
        Ok(vec![x[0].sub(&samebits::functional::mean(&x[0], [0], true)?)?])
    });
    batches.add("scaled by the number", [make.each(&[5, 3], 1)], |x| {
        Ok(vec![x[0].affine(1.0 / x[0].shape()[0] as f64, 0.0)?])
    });
    assert!(batches.0.iter().all(|batch| !batch.differences(&pools).is_empty()));
}

/// A function of tensors, of which some have a batch.
struct Batch {
    name: String,
    inputs: Vec<Input>,
    /// The dimension of the results that is the batch.
    dim: usize,
    function: Box<Function>,
}

/// A function of inputs, and of which part of the batch they are.
type Function = dyn Fn(&[Tensor], &Range<usize>) -> Result<Vec<Tensor>> + Send + Sync;

/// A tensor and the dimension that is the batch, if there is one.
#[derive(Clone)]
struct Input(Value, Option<usize>);

impl Batch {
    /// Where the batch has other bits than its parts.
    fn differences(&self, pools: &[ThreadPool; 2]) -> Vec<String> {
        let n = self
            .inputs
            .iter()
            .find_map(|Input(x, dim)| dim.map(|dim| x.shape()[dim]))
            .expect("an input has a batch");
        let whole = pools[0].install(|| self.part(0..n, None)).unwrap_or_else(|error| {
            panic!("{}: {error}", self.name);
        });
        let mut parts: Vec<Range<usize>> = (0..n).map(|i| i..i + 1).collect();
        parts.push(1..n);
        let differs = |part: &Range<usize>| {
            let found = pools[1].install(|| self.part(part.clone(), Some(&whole)));
            let found = found.unwrap_or_else(|error| panic!("{}: {error}", self.name));
            let same = |(whole, found): (&Input, &Input)| {
                cut(whole, part).to_bytes().unwrap() == found.0.to_bytes().unwrap()
            };
            assert_eq!(whole.len(), found.len(), "{}", self.name);
            let different: Vec<usize> =
                (0..whole.len()).filter(|&i| !same((&whole[i], &found[i]))).collect();
            (!different.is_empty())
                .then(|| format!("{}, {part:?}: results {different:?}", self.name))
        };
        parts.iter().filter_map(differs).collect()
    }

    /// The results for a part of the batch and, from a part of the same gradients, the gradients
    /// of the inputs that have one.
    fn part(&self, part: Range<usize>, whole: Option<&[Input]>) -> Result<Vec<Input>> {
        let inputs: Vec<Tensor> = self
            .inputs
            .iter()
            .map(|input| {
                let x = cut(input, &part);
                if x.dtype().is_float() {
                    Tensor::from(x).set_requires_grad(true)
                } else {
                    Tensor::from(x)
                }
            })
            .collect();
        let results = (self.function)(&inputs, &part)?;
        let mut all: Vec<Input> =
            results.iter().map(|y| Input(y.value().clone(), Some(self.dim))).collect();
        let mut seeded = Vec::new();
        for (i, y) in results.iter().enumerate().filter(|(_, y)| y.requires_grad()) {
            let shape = whole.map_or(y.shape(), |whole| whole[i].0.shape());
            let seed = Input(normal_of(shape, y.dtype(), 900 + i as u64), Some(self.dim));
            seeded
                .push((y, Tensor::from(if whole.is_some() { cut(&seed, &part) } else { seed.0 })));
        }
        if seeded.is_empty() {
            return Ok(all);
        }
        let gradients = backward(&seeded, false)?;
        for (variable, Input(_, dim)) in inputs.iter().zip(&self.inputs) {
            if let (Some(grad), Some(_)) = (gradients.of(variable), dim) {
                all.push(Input(grad.value().clone(), *dim));
            }
        }
        Ok(all)
    }
}

fn cut(Input(x, dim): &Input, part: &Range<usize>) -> Value {
    match dim {
        Some(dim) => x.narrow(*dim, part.start, part.len()).unwrap().contiguous().unwrap(),
        None => x.clone(),
    }
}

struct Batches(Vec<Batch>);

impl Batches {
    /// Adds a function whose results have the batch in their first dimension.
    fn add(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Vec<Input>>,
        function: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) {
        self.add_part(name, inputs, 0, move |x, _| function(x));
    }

    /// Adds a function that also gets which part of the batch it is given, and the dimension
    /// that is the batch in its results.
    fn add_part(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Vec<Input>>,
        dim: usize,
        function: impl Fn(&[Tensor], &Range<usize>) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) {
        let (name, inputs) = (name.into(), inputs.into());
        self.0.push(Batch { name, inputs, dim, function: Box::new(function) });
    }

    /// Adds a function of one tensor.
    fn one(
        &mut self,
        name: impl Into<String>,
        x: Input,
        function: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) {
        self.add(name, [x], move |x| Ok(vec![function(&x[0])?]));
    }
}

/// Makes inputs of a type.
#[derive(Clone, Copy)]
struct Make(DType);

impl Make {
    /// Normal numbers with the batch in the first dimension.
    fn each(self, shape: &[usize], seed: u64) -> Input {
        Input(normal_of(shape, self.0, seed), Some(0))
    }

    /// Normal numbers that are the same for every element of the batch.
    fn shared(self, shape: &[usize], seed: u64) -> Input {
        Input(normal_of(shape, self.0, seed), None)
    }

    /// Indices below `bound` with the batch in the first dimension.
    fn indices(self, shape: &[usize], bound: i64, seed: u64) -> Input {
        let flat = indices(shape.iter().product(), bound, seed);
        Input(flat.reshape(shape).unwrap(), Some(0))
    }

    /// The name of a case.
    fn name(self, name: &str) -> String {
        format!("{name} {}", self.0)
    }
}

/// A result without a gradient.
fn plain(x: Value) -> Tensor {
    Tensor::from(x)
}
