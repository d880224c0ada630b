use samebits::functional as f;
use samebits::ops::*;
use samebits::sparse::{SparseCoo, SparseCsr, sparse_bmm, sparse_mm};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Tensor};

use super::sample::{Samples, each, given, normal};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        products(cases, make, dtype);
        decompositions(cases, make, dtype);
    }
}

fn products(cases: &mut Cases, make: Make, dtype: DType) {
    let (rows, columns) = (make.indices(9000, 40, 60), make.indices(9000, 700, 61));
    for width in [1, 33, 100] {
        let (values, dense) =
            (make.normal(&[9000], dtype, 62), make.normal(&[700, width], dtype, 63));
        let (rows, columns) = (rows.clone(), columns.clone());
        let op = SparseMm { rows, columns, values, dense, size: 40, period: 350 };
        cases.add(format!("sparse_mm {dtype} {width}"), op);
    }
    let values = make.wild(&[9000], dtype, 64);
    let dense = make.wild(&[700, 20], dtype, 65);
    let (size, period) = (40, 700);
    cases.add(
        format!("sparse_mm {dtype} wild"),
        SparseMm { rows: rows.clone(), columns: columns.clone(), values, dense, size, period },
    );
    let (left, right) = (make.normal(&[40, 77], dtype, 66), make.normal(&[700, 77], dtype, 67));
    cases.add(format!("sampled_product {dtype}"), SampledProduct { rows, columns, left, right });
    let matrix: Vec<i64> =
        make_indices(500, 13, 68).into_iter().chain(make_indices(500, 29, 69)).collect();
    let batch: Vec<i64> = make_indices(500, 3, 70).into_iter().chain(matrix.clone()).collect();
    let matrix = make.here(Value::from_slice(&matrix, &[2, 500]).expect("as many indices"));
    let batch = make.here(Value::from_slice(&batch, &[3, 500]).expect("as many indices"));
    cases.call(format!("sparse matrix {dtype}"), move || {
        let arguments = [make.normal(&[500], dtype, 71), make.normal(&[29, 40], dtype, 72)];
        make.with_gradients(&arguments, |x| {
            let sparse = SparseCoo::new(&Tensor::from(&matrix), &x[0], &[13, 29])?;
            let rows = sparse.to_csr()?.to_coo();
            let both = f::add(&sparse_mm(&sparse, &x[1])?, &sparse_mm(&rows, &x[1])?)?;
            let dense = SparseCsr::from_dense(&sparse.to_dense()?)?.to_dense()?;
            f::add(&both, &f::matmul(&dense, &x[1])?)
        })
    });
    cases.call(format!("sparse batch {dtype}"), move || {
        let arguments = [make.normal(&[500], dtype, 73), make.normal(&[3, 29, 40], dtype, 74)];
        make.with_gradients(&arguments, |x| {
            sparse_bmm(&SparseCoo::new(&Tensor::from(&batch), &x[0], &[3, 13, 29])?, &x[1])
        })
    });
}

/// Returns the places of `count` elements of a matrix, or of several.
fn places(count: usize, sizes: &[usize]) -> Vec<i64> {
    let of = |(i, &n): (usize, &usize)| make_indices(count, n as i64, 150 + i as u64);
    sizes.iter().enumerate().flat_map(of).collect()
}

fn make_indices(count: usize, bound: i64, seed: u64) -> Vec<i64> {
    super::indices(count, bound, seed).to_vec().expect("indices are i64")
}

fn decompositions(cases: &mut Cases, make: Make, dtype: DType) {
    for shape in [vec![3, 40, 17], vec![2, 17, 40], vec![30, 30], vec![5, 0], vec![2, 0, 3]] {
        for mode in [QrMode::Reduced, QrMode::Complete] {
            let x = make.normal(&shape, dtype, 75);
            cases.add(format!("qr {dtype} {shape:?} {mode:?}"), Qr { x, mode });
        }
        let x = make.normal(&shape, dtype, 76);
        cases.add(format!("svd {dtype} {shape:?}"), Svd { x: x.clone() });
        let again = x.clone();
        cases.call(format!("svd gradients {dtype} {shape:?}"), move || {
            make.with_gradients(std::slice::from_ref(&again), |x| {
                let (u, s, v) = f::svd(&x[0])?;
                let flat = |x: &Tensor| f::reshape(x, [x.numel()]);
                f::cat(&[flat(&u)?, flat(&s)?, flat(&v)?], 0)
            })
        });
        cases.call(format!("qr gradients {dtype} {shape:?}"), move || {
            make.with_gradients(std::slice::from_ref(&x), |x| {
                let (q, r) = f::qr(&x[0], QrMode::Reduced)?;
                let flat = |x: &Tensor| f::reshape(x, [x.numel()]);
                f::cat(&[flat(&q)?, flat(&r)?], 0)
            })
        });
    }
    cases.call(format!("svd_lowrank {dtype}"), move || {
        let mut generator = samebits::Generator::new(77);
        let x = make.normal(&[2, 30, 50], dtype, 78);
        let (u, s, v) = f::svd_lowrank_with(&Tensor::from(&x), 4, 2, None, &mut generator)?;
        let (a, b, c) = f::pca_lowrank_with(&Tensor::from(&x), Some(5), true, 1, &mut generator)?;
        Ok(vec![u.into(), s.into(), v.into(), a.into(), b.into(), c.into()])
    });
}

pub(super) fn samples(samples: &mut Samples) {
    let matrix = |count: usize, sizes: &[usize]| {
        given(Value::from_slice(&places(count, sizes), &[sizes.len(), count]))
    };
    // The columns of the dense matrix form a batch.
    samples
        .add("sparse_mm", |x| {
            sparse_mm(&SparseCoo::new(&x[2], &x[1], &[40, x[0].shape()[0]])?, &x[0])
        })
        .batch_along(1, [normal(&[700, 37]).along(1), normal(&[5000]), matrix(5000, &[40, 700])]);
    samples
        .add("sparse_mm of squares", |x| sparse_mm(&SparseCoo::new(&x[2], &x[0], &[3, 4])?, &x[1]))
        .twice([normal(&[9]).squared(), normal(&[4, 2]), matrix(9, &[3, 4])]);
    samples
        .add("to_dense", |x| SparseCoo::new(&x[1], &x[0], &[3, 4])?.transpose(0, 1)?.to_dense())
        .twice([normal(&[9]).squared(), matrix(9, &[3, 4])]);
    samples
        .add("from_dense", |x| sparse_mm(&SparseCsr::from_dense(&x[0])?.to_coo(), &x[1]))
        .twice([normal(&[3, 4]).squared(), normal(&[4, 2])]);
    samples
        .add("sparse_bmm of squares", |x| {
            sparse_bmm(&SparseCoo::new(&x[2], &x[0], &[2, 3, 4])?, &x[1])
        })
        .twice([normal(&[12]).squared(), normal(&[2, 4, 2]), matrix(12, &[2, 3, 4])]);
    // Each matrix of the batch has the same number of elements, so that the values form a batch
    // too.
    let (n, elements) = (5, 300);
    let all = places(n * elements, &[13, 29]);
    samples
        .add_part("sparse_bmm", move |x, part| {
            let mut places = Vec::new();
            (0..part.len()).for_each(|i| places.extend(vec![i as i64; elements]));
            for line in all.chunks_exact(n * elements) {
                places.extend_from_slice(&line[part.start * elements..part.end * elements]);
            }
            let count = part.len() * elements;
            let (places, values) =
                (Tensor::from_slice(&places, &[3, count])?, f::reshape(&x[0], [count])?);
            sparse_bmm(&SparseCoo::new(&places, &values, &[part.len(), 13, 29])?, &x[1])
        })
        .batch([each(&[n, elements]), each(&[n, 29, 40])]);
    samples
        .add("qr, svd", |x| {
            let (q, r) = f::qr(&x[0], QrMode::Reduced)?;
            let (u, s, v) = f::svd(&x[0])?;
            Ok(vec![q, r, u, s, v])
        })
        .batch([each(&[5, 40, 17])])
        .batch([each(&[4, 17, 40])]);
    for shape in [&[2, 5, 3][..], &[3, 3], &[3, 5]] {
        samples.add(format!("u {shape:?}"), |x| Ok(f::svd(&x[0])?.0)).twice([normal(shape)]);
        samples.add(format!("s {shape:?}"), |x| Ok(f::svd(&x[0])?.1)).twice([normal(shape)]);
        samples.add(format!("v {shape:?}"), |x| Ok(f::svd(&x[0])?.2)).twice([normal(shape)]);
        samples
            .add(format!("u, s and v {shape:?}"), |x| {
                let (u, s, v) = f::svd(&x[0])?;
                f::matmul(&f::mul(&u.square()?, &s.unsqueeze(-2)?)?, &v.transpose(-2, -1)?)
            })
            .twice([normal(shape)]);
        let reduced = |x: &Tensor| f::qr(x, QrMode::Reduced);
        samples.add(format!("q {shape:?}"), move |x| Ok(reduced(&x[0])?.0)).twice([normal(shape)]);
        samples.add(format!("r {shape:?}"), move |x| Ok(reduced(&x[0])?.1)).twice([normal(shape)]);
        samples
            .add(format!("q and r {shape:?}"), move |x| {
                let (q, r) = reduced(&x[0])?;
                f::matmul(&q, &r.square()?)
            })
            .twice([normal(shape)]);
    }
    samples.add("q, complete", |x| Ok(f::qr(&x[0], QrMode::Complete)?.0)).twice([normal(&[3, 5])]);
}
