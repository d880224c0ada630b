use proptest::prelude::*;
use samebits::functional as f;
use samebits::{DType, Tensor};
use workspace_tests::normal_of;

use super::cases;

fn small(rank: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(
        prop_oneof![4 => Just(2usize), 2 => Just(3), 1 => Just(1), 1 => Just(0)],
        0..=rank,
    )
}

/// Returns the shape of a product by PyTorch's rule.
fn product_shape(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let row = if a.len() == 1 { [&[1], a].concat() } else { a.to_vec() };
    let column = if b.len() == 1 { [b, &[1]].concat() } else { b.to_vec() };
    let ([batch_a @ .., m, k], [batch_b @ .., inner, n]) = (&row[..], &column[..]) else {
        return None;
    };
    if k != inner {
        return None;
    }
    let rank = batch_a.len().max(batch_b.len());
    let size = |shape: &[usize], dim: usize| {
        (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim])
    };
    let mut shape = Vec::new();
    for dim in 0..rank {
        let (x, y) = (size(batch_a, dim), size(batch_b, dim));
        if x != y && x != 1 && y != 1 {
            return None;
        }
        shape.push(if x == 1 { y } else { x });
    }
    shape.extend((a.len() > 1).then_some(*m));
    shape.extend((b.len() > 1).then_some(*n));
    Some(shape)
}

proptest! {
    #![proptest_config(cases(2))]

    #[test]
    fn products_follow_the_rules_of_ranks(a in small(4), b in small(4)) {
        let (x, y) = (normal_of(&a, DType::F64, 1), normal_of(&b, DType::F64, 2));
        let result = f::matmul(&Tensor::from(x.clone()).set_requires_grad(true).unwrap(), &Tensor::from(y.clone()).set_requires_grad(true).unwrap());
        match product_shape(&a, &b) {
            None => prop_assert!(result.is_err()),
            Some(shape) => {
                let result = result.unwrap();
                prop_assert_eq!(result.shape(), &shape[..]);
                let grads = result.sum_all().unwrap().backward();
                prop_assert!(grads.is_ok());
                if let ([m, k], [_, n]) = (&a[..], &b[..]) {
                    let (x, y) = (x.to_vec::<f64>().unwrap(), y.to_vec::<f64>().unwrap());
                    let found = result.to_vec::<f64>().unwrap();
                    for i in 0..*m {
                        for j in 0..*n {
                            let sum: f64 = (0..*k).map(|l| x[i * k + l] * y[l * n + j]).sum();
                            prop_assert!((sum - found[i * n + j]).abs() < 1e-12);
                        }
                    }
                }
            }
        }
        let batched = f::bmm(&Tensor::from(x), &Tensor::from(y));
        let fits = a.len() == 3 && b.len() == 3 && a[0] == b[0] && a[2] == b[1];
        prop_assert_eq!(batched.is_ok(), fits);
    }

    #[test]
    fn a_linear_layer_takes_what_fits(x in small(3), w in small(2), bias in small(1)) {
        let make = |shape: &[usize], seed| Tensor::from(normal_of(shape, DType::F32, seed));
        let result = f::linear(&make(&x, 1), &make(&w, 2), Some(&make(&bias, 3)));
        let fits = match (&w[..], x.last()) {
            ([out, input], Some(k)) => input == k && (bias.is_empty() || bias == [*out] || bias == [1]),
            ([input], Some(k)) => input == k,
            _ => false,
        };
        if !fits {
            // A bias may also broadcast the other way, which is harmless; shapes that cannot be
            // multiplied are always rejected.
            let multiplies = w.last() == x.last() && !w.is_empty() && !x.is_empty();
            prop_assert!(result.is_err() || multiplies);
        } else if w.len() == 2 {
            let mut shape = x.clone();
            shape[x.len() - 1] = w[0];
            let result = result.unwrap();
            prop_assert_eq!(result.shape(), &shape[..]);
        }
    }
}

#[test]
fn nothing_is_multiplied_without_elements() {
    let none = Tensor::zeros(&[0], DType::F32).unwrap();
    assert_eq!(f::matmul(&none, &none).unwrap().item::<f32>().unwrap().to_bits(), 0);
}
