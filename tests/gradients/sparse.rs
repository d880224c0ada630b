use samebits::functional as f;
use samebits::ops::QrMode;
use samebits::{DType, Generator};

use super::normal_of;

#[test]
fn the_complete_mode_of_a_tall_matrix_is_not_differentiable() {
    let x = normal_of(&[5, 3], DType::F32, 1).set_requires_grad(true).unwrap();
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
        let (u, s, v) = f::svd_lowrank_with(&x, 6, 2, None, &mut generator).unwrap();
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
        let (_, centred, v) = f::pca_lowrank_with(&x, None, true, 2, &mut generator).unwrap();
        assert_eq!((centred.shape(), v.shape()), (&[2, 6][..], &[2, n, 6][..]));
    }
}
