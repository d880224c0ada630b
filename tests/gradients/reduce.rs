use samebits::functional as f;

use samebits::{Result, Tensor};

use super::{check, check_twice, with_zeros};

#[test]
fn statistics() {
    let shape: &[usize] = &[3, 4, 2];
    for (dims, keepdim) in [(vec![1], false), (vec![0, 2], true), (vec![0, 1, 2], false)] {
        let dims = &dims[..];
        check_twice("var", &[shape], &|x| f::var(&x[0], dims, 1.0, keepdim));
        check_twice("std", &[shape], &|x| f::std(&x[0], dims, 0.0, keepdim));
        check_twice("var_mean", &[shape], &|x| {
            let (var, mean) = f::var_mean(&x[0], dims, 0.5, keepdim)?;
            var.mul(&mean)
        });
        check_twice("logsumexp", &[shape], &|x| f::logsumexp(&x[0], dims, keepdim));
        check_twice("prod", &[shape], &|x| f::prod(&x[0], dims, keepdim));
        check_twice("amax", &[shape], &|x| f::amax(&x[0].square()?, dims, keepdim));
        check_twice("amin", &[shape], &|x| f::amin(&x[0].square()?, dims, keepdim));
        for p in [1.0, 2.0, 3.5, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
            let name = format!("norm {p}");
            check_twice(&name, &[shape], &|x| f::norm(&x[0], p, dims, keepdim));
        }
        check("norm 0", &[shape], &|x| f::norm(&x[0], 0.0, dims, keepdim));
    }
    for keepdim in [false, true] {
        check_twice("max", &[shape], &|x| Ok(f::max(&x[0].square()?, 1, keepdim)?.0));
        check_twice("min", &[shape], &|x| Ok(f::min(&x[0].square()?, 1, keepdim)?.0));
    }
}

/// Zeros make some products vanish, but not how they change.
#[test]
fn products_with_zeros_twice() {
    for zeros in [&[2][..], &[0, 7], &[1, 3, 5]] {
        for dims in [&[1][..], &[0, 2], &[0, 1, 2]] {
            check_twice("prod with zeros", &[&[3, 4, 2]], &|x| {
                f::prod(&with_zeros(&x[0], 0, |at| zeros.contains(&at))?, dims, true)
            });
        }
    }
}

/// The gradient of a function of `values` to one number.
fn gradient(values: &[f64], function: impl Fn(&Tensor) -> Result<Tensor>) -> Vec<f64> {
    let x = Tensor::from_slice(values, &[values.len()]).unwrap().set_requires_grad(true);
    let gradients = function(&x).unwrap().backward().unwrap();
    gradients.of(&x).unwrap().to_vec().unwrap()
}

#[test]
fn zeros_and_ties() {
    let prod = |x: &Tensor| f::prod(x, [0], false);
    assert_eq!(gradient(&[2.0, 3.0, 4.0], prod), [12.0, 8.0, 6.0]);
    assert_eq!(gradient(&[2.0, 0.0, 4.0], prod), [0.0, 8.0, 0.0]);
    assert_eq!(gradient(&[0.0, 0.0, 4.0], prod), [0.0, 0.0, 0.0]);
    assert_eq!(gradient(&[1.0, 3.0, 3.0], |x| f::amax(x, [0], false)), [0.0, 0.5, 0.5]);
    assert_eq!(gradient(&[1.0, 1.0, 3.0], |x| f::amin(x, [0], false)), [0.5, 0.5, 0.0]);
    assert_eq!(gradient(&[1.0, 3.0, 3.0], |x| Ok(f::max(x, 0, false)?.0)), [0.0, 1.0, 0.0]);
    assert_eq!(gradient(&[2.0, 2.0], |x| f::std(x, [0], 1.0, false)), [0.0, 0.0]);
    for p in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
        assert_eq!(gradient(&[0.0, 0.0], |x| f::norm(x, p, [0], false)), [0.0, 0.0], "p = {p}");
    }
    let infinite = |x: &Tensor| f::norm(x, f64::INFINITY, [0], false);
    assert_eq!(gradient(&[0.0, -3.0, 3.0, 2.0], infinite), [0.0, -0.5, 0.5, 0.0]);
    assert_eq!(gradient(&[0.0, -3.0, 3.0], |x| f::norm(x, 1.0, [0], false)), [0.0, -1.0, 1.0]);
}
