use samebits::functional as f;
use samebits::ops::QrMode;
use samebits::sparse::{SparseCoo, SparseCsr, sparse_bmm, sparse_mm};

use super::{indices, normal_of};
use samebits::{DType, Generator, Tensor};

use super::check_twice;

fn places(count: usize, shape: &[usize]) -> Tensor {
    let flat: Vec<i64> = shape
        .iter()
        .enumerate()
        .flat_map(|(i, &n)| indices(count, n as i64, 70 + i as u64).to_vec::<i64>().unwrap())
        .collect();
    Tensor::from_slice(&flat, &[shape.len(), count]).unwrap()
}

#[test]
fn products() {
    let matrix = places(9, &[3, 4]);
    check_twice("sparse_mm", &[&[9], &[4, 2]], &|x| {
        sparse_mm(&SparseCoo::new(&matrix, &x[0].square()?, &[3, 4])?, &x[1])
    });
    check_twice("to_dense", &[&[9]], &|x| {
        SparseCoo::new(&matrix, &x[0].square()?, &[3, 4])?.transpose(0, 1)?.to_dense()
    });
    check_twice("from_dense", &[&[3, 4], &[4, 2]], &|x| {
        sparse_mm(&SparseCsr::from_dense(&x[0].square()?)?.to_coo(), &x[1])
    });
    let batch = places(12, &[2, 3, 4]);
    check_twice("sparse_bmm", &[&[12], &[2, 4, 2]], &|x| {
        sparse_bmm(&SparseCoo::new(&batch, &x[0].square()?, &[2, 3, 4])?, &x[1])
    });
}

#[test]
fn qr() {
    for shape in [&[2, 5, 3][..], &[3, 3], &[3, 5]] {
        check_twice("q", &[shape], &|x| Ok(f::qr(&x[0], QrMode::Reduced)?.0));
        check_twice("r", &[shape], &|x| Ok(f::qr(&x[0], QrMode::Reduced)?.1));
        check_twice("q and r", &[shape], &|x| {
            let (q, r) = f::qr(&x[0], QrMode::Reduced)?;
            f::matmul(&q, &r.square()?)
        });
    }
    check_twice("complete", &[&[3, 5]], &|x| Ok(f::qr(&x[0], QrMode::Complete)?.0));
    let x = normal_of(&[5, 3], DType::F32, 1).set_requires_grad(true);
    let (q, _) = f::qr(&x, QrMode::Complete).unwrap();
    let error = q.sum_all().unwrap().backward().unwrap_err().to_string();
    assert_eq!(error, "qr: the complete mode of a 5 by 3 matrix is not differentiable");
}

#[test]
fn low_rank_matrices_are_found_again() {
    let normal = |shape: &[usize], seed| normal_of(shape, DType::F64, seed);
    for shape in [[2, 60, 40], [2, 40, 60]] {
        let [_, m, n] = shape;
        let x = f::matmul(&normal(&[2, m, 4], 1), &normal(&[2, 4, n], 2)).unwrap();
        let mut generator = Generator::new(3);
        let (u, s, v) = f::svd_lowrank(&x, 6, 2, None, &mut generator).unwrap();
        assert_eq!(
            (u.shape(), s.shape(), v.shape()),
            (&[2, m, 6][..], &[2, 6][..], &[2, n, 6][..])
        );
        let scaled = f::mul(&u, &f::reshape(&s, [2, 1, 6]).unwrap());
        let vt = v.transpose(1, 2).unwrap();
        let again = f::matmul(&scaled.unwrap(), &vt).unwrap();
        let error = f::sub(&again, &x).unwrap().to_vec::<f64>().unwrap();
        assert!(error.iter().all(|e| e.abs() < 1e-11), "the product is not the matrix");
        assert!(s.to_vec::<f64>().unwrap()[4] < 1e-12);
        let (_, centred, v) = f::pca_lowrank(&x, None, true, 2, &mut generator).unwrap();
        assert_eq!((centred.shape(), v.shape()), (&[2, 6][..], &[2, n, 6][..]));
    }
}
