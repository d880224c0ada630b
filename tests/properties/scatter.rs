use std::sync::Arc;

use proptest::prelude::*;
use samebits::functional as f;
use samebits::numerics::exact::ExactSum;
use samebits::ops::ScatterReduceKind::{self, Amax, Amin, Mean, Prod, Sum};
use samebits::ops::{
    BagMode, BagParams, BincountWeighted, Bins, Cast, EmbeddingBag, EmbeddingBagGrad,
    EmbeddingGrad, IndexAdd, IndexPutAdd, ScatterAdd, ScatterReduce,
};
use samebits::tensor_core::Tensor as Value;
use samebits::tensor_core::geometry::BagBounds;
use samebits::{DType, Op, Tensor, dispatch, registry};
use workspace_tests::{indices, normal_of};

use super::index::{flat, index_for, places, positions};
use super::{cases, shape};

/// Computes the definition, value by value.
fn reduced(kind: ScatterReduceKind, values: &[f32]) -> f32 {
    let sum = || {
        let mut sum = ExactSum::new();
        values.iter().for_each(|&x| sum.add(x));
        sum.to_f32()
    };
    let extreme = |better: fn(f32, f32) -> f32| values.iter().copied().reduce(better).unwrap();
    match kind {
        Sum => sum(),
        Mean => sum() / values.len() as f32,
        Prod => values.iter().product(),
        Amax => extreme(f32::max),
        Amin => extreme(f32::min),
    }
}

proptest! {
    #![proptest_config(cases(4))]

    #[test]
    fn reductions_are_right_or_an_error(
        (shape, dim, index) in shape(3).prop_flat_map(index_for),
        kind in prop_oneof![Just(Sum), Just(Mean), Just(Prod), Just(Amax), Just(Amin)],
        include_self in any::<bool>(),
        extra in 0usize..2,
    ) {
        let x = normal_of(&shape, DType::F32, 1);
        let wide: Vec<usize> = index.shape().iter().map(|size| size + extra).collect();
        let source = normal_of(&wide, DType::F32, 2);
        let (var, sources) = (Tensor::from(x.clone()), Tensor::from(source.clone()));
        let found = f::scatter_reduce(&var, dim, &Tensor::from(&index), &sources, kind, include_self);
        let added = f::scatter_add(&var, dim, &Tensor::from(&index), &sources);
        let Some(places) = places(&shape, dim, &index) else {
            prop_assert!(found.is_err() && added.is_err());
            return Ok(());
        };
        let own = x.to_vec::<f32>().unwrap();
        let mut sent = vec![Vec::new(); own.len()];
        let source = source.to_vec::<f32>().unwrap();
        for (at, &place) in positions(index.shape()).iter().zip(&places) {
            sent[place].push(source[flat(&wide, at)]);
        }
        let found = found.unwrap().to_vec::<f32>().unwrap();
        let added = added.unwrap().to_vec::<f32>().unwrap();
        for (place, (sent, &own)) in sent.iter().zip(&own).enumerate() {
            let mut values = sent.clone();
            values.insert(0, own);
            prop_assert_eq!(added[place].to_bits(), reduced(Sum, &values).to_bits());
            if !include_self && !sent.is_empty() {
                values.remove(0);
            }
            prop_assert_eq!(found[place].to_bits(), reduced(kind, &values).to_bits());
        }
    }

    /// One repeated zero, which kernels need not read, gives the results of stored zeros.
    #[test]
    fn zeros_are_zeros(
        n in 0usize..400,
        size in 1usize..400,
        width in 1usize..20,
        seed in 0u64..1000,
        dtype in prop_oneof![Just(DType::F32), Just(DType::F64)],
        sign in prop_oneof![Just(0.0), Just(-0.0)],
    ) {
        let at = indices(n, size as i64, seed);
        let each = at.reshape(&[n, 1]).unwrap().expand(&[n, width]).unwrap();
        let source = Tensor::from(normal_of(&[n, width], dtype, seed));
        let dense = Value::full(&[size, width], sign, dtype).unwrap();
        let repeated = Value::full(&[], sign, dtype).unwrap().expand(&[size, width]).unwrap();
        let all = |start: Value| {
            let start = Tensor::from(start);
            [
                f::index_add(&start, 0, &Tensor::from(&at), &source, 0.7).unwrap(),
                f::scatter_add(&start, 0, &Tensor::from(&each), &source).unwrap(),
                f::index_put(&start, std::slice::from_ref(&Tensor::from(&at)), &source, true).unwrap(),
            ]
            .map(|y| y.to_bytes().unwrap())
        };
        prop_assert_eq!(all(dense), all(repeated));
    }

    /// Sums of small integers are exact in any order, so the variants over float atomics give the
    /// results of the others.
    #[test]
    fn atomics_give_valid_results(
        n in 0usize..400,
        size in 1usize..30,
        width in 1usize..20,
        seed in 0u64..1000,
        scale_grad_by_freq in any::<bool>(),
    ) {
        let whole = |shape: &[usize], seed| {
            let values = indices(shape.iter().product(), 100, seed).reshape(shape).unwrap();
            dispatch(&Cast { x: values, to: DType::F32 }).unwrap()
        };
        let (input, source) = (whole(&[size, width], seed), whole(&[n, width], seed + 1));
        let (rows, dim) = (size, 0);
        let index = indices(n, size as i64, seed + 2);
        let each = index.reshape(&[n, 1]).unwrap().expand(&[n, width]).unwrap();
        let (x, at, src) = (input.clone(), index.clone(), source.clone());
        same_by_atomics(&IndexAdd { input: x, dim, index: at, source: src, alpha: 2.0 })?;
        let (x, at, src) = (input.clone(), each.clone(), source.clone());
        same_by_atomics(&ScatterAdd { input: x, dim, index: at, source: src })?;
        let (x, indices, values) = (input.clone(), vec![index.clone()], source.clone());
        same_by_atomics(&IndexPutAdd { input: x, indices, values })?;
        for include_self in [false, true] {
            let (input, index, source) = (input.clone(), each.clone(), source.clone());
            same_by_atomics(&ScatterReduce { input, dim, index, source, kind: Mean, include_self })?;
        }
        let (x, weights) = (index.clone(), whole(&[n], seed + 3));
        same_by_atomics(&BincountWeighted { x, weights: weights.clone(), bins: Bins::AtLeast(size) })?;
        let (grad, at, padding_idx) = (source.clone(), index.clone(), Some(0));
        let op = EmbeddingGrad { grad, index: at, rows, padding_idx, scale_grad_by_freq };
        same_by_atomics(&op)?;
        let bags = Arc::new(BagBounds::of_size("embedding_bag", n, 1).unwrap());
        for mode in [BagMode::Sum, BagMode::Mean, BagMode::Max] {
            let params = BagParams { mode, padding_idx };
            let forward = EmbeddingBag {
                weight: input.clone(),
                index: index.clone(),
                bags: bags.clone(),
                per_sample_weights: (mode == BagMode::Sum).then(|| weights.clone()),
                params: params.clone(),
            };
            let (_, max_rows) = dispatch(&forward).unwrap();
            same_by_atomics(&EmbeddingBagGrad {
                grad: source.clone(),
                index: index.clone(),
                bags: bags.clone(),
                per_sample_weights: forward.per_sample_weights,
                max_rows,
                params,
                rows,
                scale_grad_by_freq,
            })?;
        }
    }

    /// Every irregular sum has the same bits for every permutation of its addends.
    #[test]
    fn the_order_of_addends_does_not_matter(
        n in 1usize..300,
        size in 1usize..20,
        seed in 0u64..1000,
        keys in proptest::collection::vec(any::<u32>(), 300),
        scale in prop_oneof![Just(1.0f32), Just(1e30), Just(1e-40)],
    ) {
        let width = 3;
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&i| keys[i]);
        let index = indices(n, size as i64, seed).to_vec::<i64>().unwrap();
        // Neighbours of very different magnitude, so that a sum in f32 or f64 would show its order.
        let mut values = normal_of(&[n, width], DType::F32, seed).to_vec::<f32>().unwrap();
        for (i, x) in values.iter_mut().enumerate() {
            *x *= if i % 3 == 0 { scale } else { 1.0 };
        }
        let mixed_index: Vec<i64> = order.iter().map(|&i| index[i]).collect();
        let mixed: Vec<f32> =
            order.iter().flat_map(|&i| values[i * width..][..width].to_vec()).collect();
        let straight = sums(&index, &values, size, width);
        let permuted = sums(&mixed_index, &mixed, size, width);
        for ((name, a), (_, b)) in straight.iter().zip(&permuted) {
            prop_assert_eq!(a, b, "{}", name);
        }
    }
}

/// Fails unless the variant over float atomics gives the values of the other.
fn same_by_atomics<O: Op<Output = Value>>(op: &O) -> Result<(), TestCaseError> {
    let exact = dispatch(op).unwrap().to_vec::<f32>().unwrap();
    let atomic = registry::dispatch_variant(op, "atomic").unwrap().to_vec::<f32>().unwrap();
    prop_assert_eq!(exact, atomic, "{}", O::NAME);
    Ok(())
}

/// Returns the bits of every operation that adds row `i` of `values` to position `index[i]`.
fn sums(index: &[i64], values: &[f32], size: usize, width: usize) -> Vec<(&'static str, Vec<u8>)> {
    let n = index.len();
    let at = Value::from_slice(index, &[n]).unwrap();
    let each = at.reshape(&[n, 1]).unwrap().expand(&[n, width]).unwrap();
    let source = Tensor::from_slice(values, &[n, width]).unwrap();
    let start = Tensor::from(normal_of(&[size, width], DType::F32, 7));
    let table =
        Tensor::from(normal_of(&[size, width], DType::F32, 8)).set_requires_grad(true).unwrap();
    let back = |read: Tensor| {
        let gradients = read.backward_from(source.clone(), false).unwrap();
        gradients.of(&table).unwrap().to_bytes().unwrap()
    };
    let bytes = |y: Tensor| y.to_bytes().unwrap();
    let column: Vec<f32> = values.iter().step_by(width).copied().collect();
    let weights = Value::from_slice(&column, &[n]).unwrap();
    let [at, each, offsets] = [&at, &each, &Value::arange(n).unwrap()].map(Tensor::from);
    let list = std::slice::from_ref(&at);
    let options = f::BagOptions::default();
    vec![
        ("index_add", bytes(f::index_add(&start, 0, &at, &source, 0.3).unwrap())),
        ("scatter_add", bytes(f::scatter_add(&start, 0, &each, &source).unwrap())),
        ("mean", bytes(f::scatter_reduce(&start, 0, &each, &source, Mean, true).unwrap())),
        ("index_reduce", bytes(f::index_reduce(&start, 0, &at, &source, Mean, false).unwrap())),
        ("index_put", bytes(f::index_put(&start, list, &source, true).unwrap())),
        (
            "bincount",
            f::bincount(&at, Some(&Tensor::from(&weights)), size).unwrap().to_bytes().unwrap(),
        ),
        ("index_select", back(f::index_select(&table, 0, &at).unwrap())),
        ("gather", back(f::gather(&table, 0, &each).unwrap())),
        ("index", back(f::index(&table, list).unwrap())),
        ("embedding", back(f::embedding_with(&table, &at, Some(0), true).unwrap())),
        (
            "embedding_bag",
            back(f::embedding_bag(&table, &at, Some(&offsets), None, options).unwrap()),
        ),
    ]
}
