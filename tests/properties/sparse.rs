use proptest::prelude::*;
use samebits::functional as f;
use samebits::ops::QrMode;
use samebits::sparse::{SparseCoo, SparseCsr, sparse_mm};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Tensor};
use workspace_tests::normal_of;

use super::{cases, shape};

/// Returns the bits, with both zeros equal.
fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(|x| (x + 0.0).to_bits()).collect()
}

proptest! {
    #![proptest_config(cases(4))]

    /// A sparse product has the bits of the dense one, for every order of the elements.
    #[test]
    fn products_are_those_of_dense_matrices(
        (m, k, n) in (0usize..5, 0usize..400, 0usize..70),
        places in proptest::collection::vec((0usize..5, 0usize..400), 0..60),
        turn in 0usize..60,
    ) {
        let make = |places: &[(usize, usize)], values: &Value| {
            let flat: Vec<i64> = places
                .iter()
                .map(|place| place.0 as i64)
                .chain(places.iter().map(|place| place.1 as i64))
                .collect();
            let indices = Value::from_slice(&flat, &[2, places.len()]).unwrap();
            SparseCoo::new(&Tensor::from(&indices), &Tensor::from(values.clone()), &[m, k])
        };
        let count = places.len();
        let values = normal_of(&[count], DType::F32, 1);
        let sparse = make(&places, &values);
        let inside = places.iter().all(|&(row, column)| row < m && column < k);
        prop_assert_eq!(sparse.is_ok(), inside);
        let Ok(sparse) = sparse else { return Ok(()) };
        let dense = Tensor::from(normal_of(&[k, n], DType::F32, 2));
        let product = sparse_mm(&sparse, &dense).unwrap();
        let expected = f::matmul(&sparse.to_dense().unwrap(), &dense).unwrap();
        prop_assert_eq!(bits(&product), bits(&expected));
        let turn = if count == 0 { 0 } else { turn % count };
        let mut turned = values.to_vec::<f32>().unwrap();
        turned.rotate_left(turn);
        let mut places = places;
        places.rotate_left(turn);
        let turned = make(&places, &Value::from_slice(&turned, &[count]).unwrap()).unwrap();
        let again = sparse_mm(&turned, &dense).unwrap();
        prop_assert_eq!(again.to_bytes(), product.to_bytes());
        let csr = sparse.to_csr().unwrap();
        let (offsets, columns) = (csr.row_offsets().unwrap(), csr.columns().unwrap());
        let rebuilt = SparseCsr::new(&offsets, &columns, csr.values(), [m, k]).unwrap();
        prop_assert_eq!(
            rebuilt.to_dense().unwrap().to_bytes(),
            sparse.to_dense().unwrap().to_bytes()
        );
    }

    #[test]
    fn compressed_rows_are_checked(
        offsets in proptest::collection::vec(-1i64..4, 0..4),
        columns in proptest::collection::vec(-1i64..4, 0..4),
        (rows, width) in (0usize..3, 0usize..4),
    ) {
        let count = columns.len();
        let values = Tensor::ones(&[count], DType::F32).unwrap();
        let tensor = |x: &[i64]| Tensor::from_slice(x, &[x.len()]).unwrap();
        let result = SparseCsr::new(&tensor(&offsets), &tensor(&columns), &values, [rows, width]);
        let valid = offsets.len() == rows + 1
            && offsets.first() == Some(&0)
            && offsets.last() == Some(&(count as i64))
            && offsets.is_sorted()
            && columns.iter().all(|&column| (0..width as i64).contains(&column))
            && offsets.windows(2).all(|pair| {
                columns[pair[0] as usize..pair[1] as usize].is_sorted_by(|a, b| a < b)
            });
        prop_assert_eq!(result.is_ok(), valid);
    }

    #[test]
    fn decompositions_give_the_matrix_back(shape in shape(3), complete in any::<bool>()) {
        let x = Tensor::from(normal_of(&shape, DType::F64, 4));
        let mode = if complete { QrMode::Complete } else { QrMode::Reduced };
        let result = f::qr(&x, mode);
        prop_assert_eq!(result.is_ok(), shape.len() >= 2);
        prop_assert_eq!(f::svd(&x).is_ok(), shape.len() >= 2);
        let Ok((q, r)) = result else { return Ok(()) };
        let flip = |x: &Tensor| f::transpose(x, shape.len() - 2, shape.len() - 1).unwrap();
        let close = |a: &Tensor, b: &Tensor| {
            let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-13)
        };
        prop_assert!(close(&f::matmul(&q, &r).unwrap(), &x));
        let size = q.shape()[shape.len() - 1];
        let identity: Vec<f64> =
            (0..size * size).map(|i| f64::from(u8::from(i % (size + 1) == 0))).collect();
        let identity = Tensor::from_slice(&identity, &[size, size]).unwrap();
        let product = f::matmul(&flip(&q), &q).unwrap();
        let identity = f::expand(&identity, product.shape()).unwrap();
        prop_assert!(close(&product, &identity));
        let (u, s, v) = f::svd(&x).unwrap();
        let ascends = s.to_vec::<f64>().unwrap();
        let k = s.shape()[shape.len() - 2];
        prop_assert!(ascends.chunks(k.max(1)).all(|s| s.is_sorted_by(|a, b| a >= b)));
        let mut wide = s.shape().to_vec();
        wide.insert(shape.len() - 2, 1);
        let scaled = f::mul(&u, &s.reshape(&wide).unwrap()).unwrap();
        prop_assert!(close(&f::matmul(&scaled, &flip(&v)).unwrap(), &x));
    }

    #[test]
    fn singular_vectors_are_orthonormal_at_any_rank(
        (m, n, rank) in (1usize..40, 1usize..40, 0usize..40),
    ) {
        let [left, right] = [[m, rank], [rank, n]].map(|shape| normal_of(&shape, DType::F64, 4));
        let x = f::matmul(&Tensor::from(left), &Tensor::from(right)).unwrap();
        let (u, _, v) = f::svd(&x).unwrap();
        let k = m.min(n);
        for basis in [u, v] {
            let product = f::matmul(&f::transpose(&basis, 0, 1).unwrap(), &basis).unwrap();
            let product = product.to_vec::<f64>().unwrap();
            let identity = (0..k * k).map(|i| f64::from(u8::from(i % (k + 1) == 0)));
            prop_assert!(product.iter().zip(identity).all(|(x, y)| (x - y).abs() < 1e-13));
        }
    }
}
