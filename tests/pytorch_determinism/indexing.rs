//! PyTorch's tests of its deterministic paths for indices: `test_gather_backward_*`,
//! `test_scatter_add_one_dim_deterministic`, `test_index_copy_deterministic`,
//! `test_index_add_deterministic` and `test_index_put_non_accumulate_deterministic`. PyTorch
//! compares sums within a tolerance; here they are exact.

use samebits::functional as f;
use samebits::numerics::exact::ExactSum;
use samebits::ops::{Affine, Binary, BinaryKind};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Determinism, Result, Tensor, determinism, dispatch};
use workspace_tests::{indices, normal_of};

use super::{forward_then_backward, repeats};

/// Returns numbers whose f32 sum depends on the order.
fn adversarial(n: usize, seed: u64) -> Value {
    let x = normal_of(&[n], DType::F32, seed);
    let large = dispatch(&Affine { x: x.clone(), scale: 1e6, shift: 0.0 }).unwrap();
    let b = normal_of(&[n], DType::F32, seed + 1);
    dispatch(&Binary { kind: BinaryKind::Mul, a: large, b }).unwrap()
}

/// Returns the exact sum of the values that go to each of `size` positions, rounded once.
fn exact_sums(size: usize, index: &Value, values: &Value) -> Vec<f32> {
    let mut sums = vec![ExactSum::new(); size];
    let values = values.to_vec::<f32>().unwrap();
    for (&i, value) in index.to_vec::<i64>().unwrap().iter().zip(values) {
        sums[i as usize].add(value);
    }
    sums.iter().map(ExactSum::to_f32).collect()
}

#[test]
fn the_gradient_of_gather_is_the_exact_sum() {
    for (seed, m) in [(1, 2000), (2, 2571), (3, 3000)] {
        let index = indices(m * 15, m as i64, seed);
        let (x, weights) = (normal_of(&[m], DType::F32, seed), adversarial(m * 15, seed));
        let found = repeats("gather", || {
            let x = Tensor::from(x.clone()).set_requires_grad(true).unwrap();
            let y = f::gather(&x, 0, &Tensor::from(&index))?;
            let gradients = y.backward_from(Tensor::from(weights.clone()), false)?;
            Ok(vec![gradients.of(&x).expect("x was used").value().clone()])
        });
        assert_eq!(found[0].to_vec::<f32>().unwrap(), exact_sums(m, &index, &weights));
    }
}

#[test]
fn scatter_add_and_index_add_are_exact_sums() {
    let (m, n) = (25, 25 * 2500);
    let (index, source) = (indices(n, m as i64, 4), adversarial(n, 5));
    let zeros = Tensor::zeros(&[m], DType::F32).unwrap();
    let source_var = Tensor::from(source.clone());
    let run = || -> Result<Vec<Value>> {
        Ok(vec![
            f::scatter_add(&zeros, 0, &Tensor::from(&index), &source_var)?.value().clone(),
            f::index_add(&zeros, 0, &Tensor::from(&index), &source_var, 1.0)?.value().clone(),
        ])
    };
    let expected = exact_sums(m, &index, &source);
    for found in repeats("scatter_add", run) {
        assert_eq!(found.to_vec::<f32>().unwrap(), expected);
    }
    // A `NotGuaranteed` result is still approximately right.
    for found in determinism::scope(Determinism::NotGuaranteed, run).unwrap() {
        for (found, expected) in found.to_vec::<f32>().unwrap().iter().zip(&expected) {
            assert!((found - expected).abs() <= 1e-3 * 1e6 * 60.0, "{found} and {expected}");
        }
    }
}

#[test]
fn the_last_of_several_writes_wins() {
    let (m, n) = (15i64, 25_000);
    let index = indices(n, m, 6);
    let source = normal_of(&[n, 3], DType::F32, 7);
    let mut expected = vec![[0f32; 3]; m as usize];
    for (row, &i) in source.to_vec::<f32>().unwrap().chunks(3).zip(&index.to_vec::<i64>().unwrap())
    {
        expected[i as usize].copy_from_slice(row);
    }
    let zeros = Tensor::zeros(&[m as usize, 3], DType::F32).unwrap();
    let source = Tensor::from(source);
    let found = repeats("index_copy and index_put", || {
        let index = Tensor::from(&index);
        let indices = std::slice::from_ref(&index);
        Ok(vec![
            f::index_copy(&zeros, 0, &index, &source)?.value().clone(),
            f::index_put(&zeros, indices, &source, false)?.value().clone(),
        ])
    });
    for found in found {
        assert_eq!(found.to_vec::<f32>().unwrap(), expected.as_flattened());
    }
}

#[test]
fn index_copy_works_along_every_dimension() {
    for dim in 0..3 {
        let mut shape = [4, 5, 6];
        let index = indices(50, shape[dim] as i64, 8);
        let input = normal_of(&shape, DType::F32, 9);
        shape[dim] = 50;
        let source = normal_of(&shape, DType::F32, 10);
        let found = repeats("index_copy", || {
            forward_then_backward(&[input.clone(), source.clone()], |x| {
                f::index_copy(&x[0], dim, &Tensor::from(&index), &x[1])
            })
        });
        // Only the last write to a position receives a gradient.
        let written: std::collections::BTreeSet<i64> =
            index.to_vec::<i64>().unwrap().into_iter().collect();
        let nonzero = found[1].to_vec::<f32>().unwrap().iter().filter(|&&x| x != 0.0).count();
        assert_eq!(nonzero, written.len() * shape.iter().product::<usize>() / 50);
    }
}
