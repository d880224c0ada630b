//! Reductions over any dimensions of any layout have the bits of the same reduction along dense
//! rows, at every SIMD level and with 1 to 7 threads.

use crate::invariance::everywhere;
use samebits_numerics::nan::canonical;
use samebits_numerics::reduce::{norm_scale, sum_by};
use samebits_tensor_core::ops::{
    ArgReduce, ArgReduceKind, Logsumexp, Norm, Reduce, ReduceKind, Variance,
};
use samebits_tensor_core::{DType, Tensor, dispatch};

fn bits(x: &Tensor) -> Vec<u64> {
    match x.dtype() {
        DType::F32 => x.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits().into()).collect(),
        DType::F64 => x.to_vec::<f64>().unwrap().iter().map(|x| x.to_bits()).collect(),
        _ => x.to_vec::<i64>().unwrap().iter().map(|&x| x as u64).collect(),
    }
}

/// Returns every reduction of `x` over `dims` with its name.
fn reductions(x: &Tensor, dims: &[usize]) -> Vec<(String, Vec<u64>)> {
    use ReduceKind::{Amax, Amin, Mean, Prod, Sum};
    let mut all = Vec::new();
    let integers = x.dtype() == DType::I64;
    let kinds =
        if integers { &[Sum, Prod, Amax, Amin][..] } else { &[Sum, Mean, Prod, Amax, Amin] };
    for &kind in kinds {
        let op = Reduce { kind, x: x.clone(), dims: dims.to_vec() };
        all.push((format!("{kind:?}"), bits(&dispatch(&op).unwrap())));
    }
    if integers {
        return all;
    }
    for p in [0.0, 1.0, 2.0, 3.0, f64::INFINITY] {
        let op = Norm { x: x.clone(), dims: dims.to_vec(), p };
        all.push((format!("norm {p}"), bits(&dispatch(&op).unwrap())));
    }
    let op = Logsumexp { x: x.clone(), dims: dims.to_vec() };
    all.push(("logsumexp".to_owned(), bits(&dispatch(&op).unwrap())));
    let op = Variance { x: x.clone(), dims: dims.to_vec(), correction: 1.0 };
    let (variance, mean) = dispatch(&op).unwrap();
    all.push(("variance".to_owned(), bits(&variance)));
    all.push(("mean of variance".to_owned(), bits(&mean)));
    if let &[dim] = dims {
        for kind in [ArgReduceKind::Argmax, ArgReduceKind::Argmin] {
            let op = ArgReduce { kind, x: x.clone(), dim };
            all.push((format!("{kind:?}"), bits(&dispatch(&op).unwrap())));
        }
    }
    all
}

/// Returns a dense copy with the reduced dimensions last, and their numbers there.
fn as_rows(x: &Tensor, dims: &[usize]) -> (Tensor, Vec<usize>) {
    let kept = (0..x.rank()).filter(|dim| !dims.contains(dim));
    let order: Vec<usize> = kept.chain(dims.iter().copied()).collect();
    let rows = x.permute(&order).unwrap().contiguous().unwrap();
    (rows, (x.rank() - dims.len()..x.rank()).collect())
}

fn values(n: usize) -> Vec<f32> {
    let mut state = 1u32;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            match state >> 22 {
                0 => f32::NAN,
                1 => f32::INFINITY,
                2..=40 => -0.0,
                41..=80 => 0.0,
                _ => ((state >> 8) as f32 / 8388608.0 - 1.0) * 3.0,
            }
        })
        .collect()
}

/// Returns tensors of a shape: dense, with dimensions reversed, a part, repeated along dimension 0.
fn layouts(shape: &[usize], dtype: DType) -> Vec<Tensor> {
    let rank = shape.len();
    let make = |shape: &[usize]| {
        let all = values(shape.iter().product());
        match dtype {
            DType::F32 => Tensor::from_slice(&all, shape).unwrap(),
            DType::F64 => {
                let wide: Vec<f64> = all.iter().map(|&x| f64::from(x)).collect();
                Tensor::from_slice(&wide, shape).unwrap()
            }
            _ => {
                let whole: Vec<i64> = all.iter().map(|&x| (x * 1000.0) as i64).collect();
                Tensor::from_slice(&whole, shape).unwrap()
            }
        }
    };
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let back: Vec<usize> = (0..rank).rev().collect();
    let mut larger = shape.to_vec();
    larger.iter_mut().for_each(|size| *size += 2);
    let mut part = make(&larger);
    for (dim, &size) in shape.iter().enumerate() {
        part = part.narrow(dim, 1, size).unwrap();
    }
    let mut thin = shape.to_vec();
    thin[0] = 1;
    let repeated = make(&thin).expand(shape).unwrap();
    vec![make(shape), make(&reversed).permute(&back).unwrap(), part, repeated]
}

/// Returns every subset of the dimensions but the empty one.
fn subsets(rank: usize) -> impl Iterator<Item = Vec<usize>> {
    (1..1usize << rank).map(move |set| (0..rank).filter(|dim| set >> dim & 1 == 1).collect())
}

#[test]
fn any_dimensions_of_any_layout_are_rows() {
    samebits_cpu_kernels::install();
    let shapes: [&[usize]; 11] = [
        &[3, 5, 9],
        &[5, 33, 70],
        &[2, 70, 3],
        &[2, 100, 40],
        &[3, 4, 5, 17],
        &[4100, 9],
        &[2, 4097, 10],
        &[17, 3, 130],
        &[9000, 2],
        &[3, 67, 8],
        &[2, 300, 4],
    ];
    for shape in shapes {
        for dtype in [DType::F32, DType::F64, DType::I64] {
            if dtype != DType::F32 && shape.iter().product::<usize>() > 12_000 {
                continue;
            }
            for (layout, x) in layouts(shape, dtype).iter().enumerate() {
                for dims in subsets(shape.len()) {
                    let (rows, last) = as_rows(x, &dims);
                    let wanted = reductions(&rows, &last);
                    for (found, wanted) in reductions(x, &dims).into_iter().zip(wanted) {
                        assert!(
                            found == wanted,
                            "{dtype} {shape:?} layout {layout} {dims:?}: {}",
                            found.0
                        );
                    }
                }
            }
        }
    }
}

/// Numbers whose sums in f64 are not exact and finite, so that they show every order.
#[test]
fn long_rows_in_runs_keep_their_order() {
    samebits_cpu_kernels::install();
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0) * (1u64 << (state >> 60)) as f64
    };
    let shapes = [
        [3, 2, 700],
        [9, 2, 40],
        [30, 3, 301],
        [3, 2, 9000],
        [2, 2, 4096],
        [3, 1, 5000],
        [9, 3, 544],
        [40, 2, 512],
        [3, 70, 71],
        [5, 40, 170],
    ];
    for shape in shapes {
        let [a, b, c] = shape;
        let all: Vec<f64> = (0..a * b * (c + 1)).map(|_| next()).collect();
        let x = Tensor::from_slice(&all, &[a, b, c + 1]).unwrap().narrow(2, 1, c).unwrap();
        for dims in [&[0, 2][..], &[1, 2], &[0, 1, 2], &[2]] {
            let (rows, last) = as_rows(&x, dims);
            for (found, wanted) in reductions(&x, dims).iter().zip(&reductions(&rows, &last)) {
                assert!(found == wanted, "{shape:?} {dims:?}: {}", found.0);
            }
        }
    }
}

#[test]
fn neither_level_nor_threads_show() {
    samebits_cpu_kernels::install();
    let x = layouts(&[5, 130, 37], DType::F32);
    let all = || -> Vec<_> {
        let dims = [&[0][..], &[1], &[0, 1], &[0, 2], &[0, 1, 2]];
        dims.iter().flat_map(|dims| x.iter().flat_map(|x| reductions(x, dims))).collect()
    };
    let wanted = all();
    test_support::at_every_level(|level| {
        for threads in 1..=7 {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(all) == wanted, "{level:?} with {threads} threads");
        }
    });
}

#[test]
fn columns_follow_the_tree() {
    samebits_cpu_kernels::install();
    for (outer, n, inner) in [(3, 70, 720), (2, 5000, 40), (1, 9000, 3), (5, 33, 64), (4, 31, 7)] {
        let data: Vec<f32> = values(outer * n * inner).iter().map(|x| x.clamp(-3.0, 3.0)).collect();
        let x = Tensor::from_slice(&data, &[outer, n, inner]).unwrap();
        let op = Reduce { kind: ReduceKind::Sum, x, dims: vec![1] };
        let found = dispatch(&op).unwrap().to_vec::<f32>().unwrap();
        for (i, &sum) in found.iter().enumerate() {
            let (o, c) = (i / inner, i % inner);
            let tree = sum_by(n, |k| f64::from(data[(o * n + k) * inner + c])) as f32;
            assert!(
                sum.to_bits() == tree.to_bits() || sum.is_nan() && tree.is_nan(),
                "{outer} {n} {inner}, result {i}"
            );
        }
    }
}

#[test]
fn means_and_variances_that_leave_the_range_are_those_of_rows() {
    samebits_cpu_kernels::install();
    for shape in [[5, 33, 70], [2, 9, 3], [1, 600, 260], [3, 4100, 9]] {
        for size in [5e307, 4e152, 1e154] {
            let all = values(shape.iter().product());
            let wide: Vec<f64> = all.iter().map(|&x| f64::from(x.abs().min(3.0)) * size).collect();
            let x = Tensor::from_slice(&wide, &shape).unwrap();
            for dims in [&[0][..], &[1], &[0, 1], &[0, 2]] {
                let (rows, last) = as_rows(&x, dims);
                let wanted = reductions(&rows, &last);
                for (found, wanted) in reductions(&x, dims).into_iter().zip(wanted) {
                    assert!(found == wanted, "{shape:?} times {size} {dims:?}: {}", found.0);
                }
            }
        }
    }
}

/// Computes the norm of a row from its definition.
fn square_norm(row: &[f64]) -> f64 {
    let most = row.iter().fold(0.0, |most: f64, x| if x.abs() > most { x.abs() } else { most });
    let scale = norm_scale(most, 2.0);
    let sum = sum_by(row.len(), |i| (row[i].abs() / scale) * (row[i].abs() / scale));
    sum.sqrt() * scale
}

#[test]
fn squares_that_leave_the_range_of_f64_are_scaled_in_rows_and_columns() {
    samebits_cpu_kernels::install();
    let sizes = [1.0, 1e200, 1e-200, 5e-324, 0.0, 1e160, 1e-150, f64::INFINITY, f64::NAN, f64::MAX];
    for (n, columns) in [(1, 10), (3, 25), (300, 40), (9000, 20)] {
        let element = |i: usize| {
            let (row, column) = (i / columns, i % columns);
            // Of some columns, one element is large.
            let is_mixed = column >= 10 && row != n / 2;
            let size = if is_mixed { 0.1 } else { sizes[column % 10] };
            size * (1.0 + (row * 7 % 11) as f64 / 11.0)
        };
        let x: Vec<f64> = (0..n * columns).map(element).collect();
        let column =
            |c: usize| -> Vec<f64> { x.iter().skip(c).step_by(columns).copied().collect() };
        let want: Vec<u64> =
            (0..columns).map(|c| canonical(square_norm(&column(c))).to_bits()).collect();
        let x = Tensor::from_slice(&x, &[n, columns]).unwrap();
        let rows = x.permute(&[1, 0]).unwrap().contiguous().unwrap();
        for (x, dim) in [(x, 0), (rows, 1)] {
            let got = everywhere(|| {
                bits(&dispatch(&Norm { x: x.clone(), dims: vec![dim], p: 2.0 }).unwrap())
            });
            assert_eq!(got, want, "{n} x {columns}, dim {dim}");
        }
    }
}

#[test]
fn of_zeros_the_first_in_logical_order_is_the_extremum() {
    samebits_cpu_kernels::install();
    for step in 1..20 {
        let signs = (0..210).map(|i| if i * step % 11 < 5 { 0.0 } else { -0.0 });
        let zeros = Tensor::from_slice(&signs.collect::<Vec<f32>>(), &[5, 6, 7]).unwrap();
        let mut views: Vec<Tensor> =
            [[70, 3], [105, 2]].iter().map(|shape| zeros.reshape(shape).unwrap()).collect();
        for order in [[2, 1, 0], [1, 2, 0], [2, 0, 1], [0, 2, 1]] {
            let x = zeros.permute(&order).unwrap();
            let mut shape = x.shape().to_vec();
            shape[0] *= 3;
            views.push(x.narrow(0, 2, 1).unwrap().expand(&shape).unwrap());
            views.push(x);
        }
        for x in views {
            for dims in subsets(x.rank()) {
                let (rows, last) = as_rows(&x, &dims);
                let (found, expected) = (reductions(&x, &dims), reductions(&rows, &last));
                assert_eq!(found, expected, "over {dims:?} of {:?}", x.layout());
            }
        }
    }
}
