//! A batch has no influence: an element of a batched result, and of each gradient, has the bits
//! that it has alone, for every sample that has a batch.
//!
//! A single test function, because it counts the kernels that have run.

use std::ops::Range;

use rayon::{ThreadPool, ThreadPoolBuilder};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Determinism, DeviceKind, Result, Tensor, backward};
use workspace_tests::{Batch, Make, Sample, Samples, each, normal_of, samples, unreached};

#[test]
fn a_batch_does_not_show() {
    let pools = [3, 1].map(|n| ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let samples = samples();
    let mut different = Vec::new();
    let mut batches = 0;
    for sample in samples.iter().flat_map(|(_, samples)| &samples.all) {
        for batch in &sample.batches {
            // Products of halves have kernels of their own.
            let half = (sample.name == "matmul").then_some(DType::BF16);
            for dtype in [DType::F32, DType::F64].into_iter().chain(half) {
                batches += 1;
                different.extend(differences(sample, batch, dtype, &pools));
            }
        }
    }
    assert!(different.is_empty(), "other bits alone than in a batch: {different:#?}");
    let exceptions: Vec<&str> =
        samples.iter().flat_map(|(_, samples)| &samples.no_batch).map(|&(op, _)| op).collect();
    let unreached = unreached(DeviceKind::Cpu, Determinism::Portable);
    let missing: Vec<_> =
        unreached.into_iter().filter(|kernel| !exceptions.contains(&kernel.op)).collect();
    assert!(missing.is_empty(), "kernels that no batch reaches: {missing:#?}");
    assert!(batches >= 600, "only {batches} batches");
}

/// A batch that is mixed up is detected.
#[test]
fn a_mixed_batch_would_be_seen() {
    let pools = [3, 1].map(|n| ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let mut samples = Samples::default();
    samples
        .add("centred", |x| x[0].sub(&samebits::functional::mean(&x[0], [0], true)?))
        .batch([each(&[5, 3])]);
    samples
        .add("scaled by the number", |x| x[0].affine(1.0 / x[0].shape()[0] as f64, 0.0))
        .batch([each(&[5, 3])]);
    for sample in &samples.all {
        let found = differences(sample, &sample.batches[0], DType::F32, &pools);
        assert!(!found.is_empty(), "{sample:?}");
    }
}

/// A tensor and its batch dimension, if any.
struct Batched(Value, Option<usize>);

/// Returns the positions at which the batch differs from its parts.
fn differences(
    sample: &Sample,
    batch: &Batch,
    dtype: DType,
    pools: &[ThreadPool; 2],
) -> Vec<String> {
    let name = format!("{} {:?} {dtype}", sample.name, batch.inputs);
    let inputs = batch.inputs.iter().enumerate();
    let inputs: Vec<Batched> =
        inputs.map(|(i, input)| Batched(input.make(Make::HOST, dtype, i), input.batch)).collect();
    let n = inputs
        .iter()
        .find_map(|Batched(x, dim)| dim.map(|dim| x.shape()[dim]))
        .expect("an input has a batch");
    let run = |pool: &ThreadPool, range: Range<usize>, whole: Option<&[Batched]>| {
        let found = pool.install(|| part(sample, batch, &inputs, range, whole));
        found.unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let whole = run(&pools[0], 0..n, None);
    let mut parts: Vec<Range<usize>> = (0..n).map(|i| i..i + 1).collect();
    parts.push(1..n);
    let differs = |part: &Range<usize>| {
        let found = run(&pools[1], part.clone(), Some(&whole));
        let same = |(whole, found): (&Batched, &Batched)| {
            cut(whole, part).to_bytes().unwrap() == found.0.to_bytes().unwrap()
        };
        assert_eq!(whole.len(), found.len(), "{name}");
        let different: Vec<usize> =
            (0..whole.len()).filter(|&i| !same((&whole[i], &found[i]))).collect();
        (!different.is_empty()).then(|| format!("{name}, {part:?}: results {different:?}"))
    };
    parts.iter().filter_map(differs).collect()
}

/// Returns the results for a part of the batch and, from a part of the same gradients, the
/// gradients of the inputs that have a batch.
fn part(
    sample: &Sample,
    batch: &Batch,
    inputs: &[Batched],
    range: Range<usize>,
    whole: Option<&[Batched]>,
) -> Result<Vec<Batched>> {
    let variables: Vec<Tensor> = inputs
        .iter()
        .zip(&batch.inputs)
        .map(|(x, input)| Tensor::from(cut(x, &range)).set_requires_grad(!input.constant))
        .collect::<Result<_>>()?;
    let results = sample.call(&batch.inputs, &variables, &range)?;
    let mut all: Vec<Batched> =
        results.iter().map(|y| Batched(y.value().clone(), Some(batch.dim))).collect();
    let mut seeded = Vec::new();
    for (i, y) in results.iter().enumerate().filter(|(_, y)| y.requires_grad()) {
        let shape = whole.map_or(y.shape(), |whole| whole[i].0.shape());
        let seed = Batched(normal_of(shape, y.dtype(), 900 + i as u64), Some(batch.dim));
        seeded.push((y, Tensor::from(if whole.is_some() { cut(&seed, &range) } else { seed.0 })));
    }
    if seeded.is_empty() {
        return Ok(all);
    }
    let gradients = backward(&seeded, false)?;
    for (variable, Batched(_, dim)) in variables.iter().zip(inputs) {
        if let (Some(grad), Some(_)) = (gradients.of(variable), dim) {
            all.push(Batched(grad.value().clone(), *dim));
        }
    }
    Ok(all)
}

fn cut(Batched(x, dim): &Batched, part: &Range<usize>) -> Value {
    match dim {
        Some(dim) => x.narrow(*dim, part.start, part.len()).unwrap().contiguous().unwrap(),
        None => x.clone(),
    }
}
