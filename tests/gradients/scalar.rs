//! What PyTorch accepts of tensors without dimensions: dimension 0, as if it had size 1.

use samebits::functional as f;
use samebits::ops::ScatterReduceKind::{Mean, Prod};

use samebits::{DType, Result, Tensor};

use super::check_twice;

/// A function of one variable.
type Function = fn(&Tensor) -> Result<Tensor>;

#[test]
fn dimension_zero_of_no_dimensions() {
    let functions: [(_, Function); _] = [
        ("sum", |x| f::sum(x, [0], true)),
        ("mean", |x| f::mean(x, [0], true)),
        ("prod", |x| f::prod(x, [0], false)),
        ("norm", |x| f::norm(x, 2.0, [0], true)),
        ("logsumexp", |x| f::logsumexp(x, [0], false)),
        ("amax", |x| f::amax(x, [0], true)),
        ("amin", |x| f::amin(x, [0], false)),
        ("var", |x| f::var(x, [0], 0.0, false)),
        ("max", |x| Ok(f::max(x, 0, true)?.0)),
        ("cumsum", |x| f::cumsum(x, 0)),
        ("cumprod", |x| f::cumprod(x, 0)),
        ("logcumsumexp", |x| f::logcumsumexp(x, 0)),
        ("cummax", |x| Ok(f::cummax(x, 0)?.0)),
        ("sort", |x| Ok(f::sort(x, 0, true)?.0)),
        ("topk", |x| Ok(f::topk(x, 1, 0, true)?.0)),
        ("kthvalue", |x| Ok(f::kthvalue(x, 1, 0, true)?.0)),
        ("median", |x| Ok(f::median_dim(x, 0, false)?.0)),
        ("nanmedian", |x| Ok(f::nanmedian_dim(x, 0, true)?.0)),
        ("softmax", |x| f::softmax(x, 0)),
        ("log_softmax", |x| f::log_softmax(x, 0)),
    ];
    for (name, function) in functions {
        check_twice(name, &[&[]], &|x| {
            let y = function(&x[0])?;
            assert_eq!(y.shape(), [0; 0], "{name}");
            Ok(y)
        });
    }
    let places: [Tensor; 2] = [Tensor::scalar(0i64), Tensor::from_slice(&[0i64], &[1]).unwrap()];
    for index in &places {
        let scalar = |y: Tensor| {
            assert_eq!(y.shape(), [0; 0]);
            Ok(y)
        };
        check_twice("index_select", &[&[]], &|x| scalar(f::index_select(&x[0], 0, index)?));
        check_twice("index_add", &[&[], &[]], &|x| {
            scalar(f::index_add(&x[0], 0, index, &x[1], 0.5)?)
        });
        check_twice("index_copy", &[&[], &[1]], &|x| {
            scalar(f::index_copy(&x[0], 0, index, &x[1])?)
        });
        check_twice("index_fill", &[&[]], &|x| scalar(f::index_fill(&x[0], 0, index, 2.0)?));
        check_twice("gather", &[&[]], &|x| {
            let y = f::gather(&x[0], 0, index)?;
            assert_eq!(y.shape(), index.shape());
            Ok(y)
        });
        check_twice("scatter", &[&[], &[]], &|x| scalar(f::scatter(&x[0], 0, index, &x[1])?));
        check_twice("scatter_add", &[&[], &[1]], &|x| {
            scalar(f::scatter_add(&x[0], 0, index, &x[1])?)
        });
        for kind in [Mean, Prod] {
            check_twice("scatter_reduce", &[&[], &[]], &|x| {
                scalar(f::scatter_reduce(&x[0], 0, index, &x[1], kind, true)?)
            });
            check_twice("index_reduce", &[&[], &[]], &|x| {
                scalar(f::index_reduce(&x[0], 0, index, &x[1], kind, true)?)
            });
        }
        // One index into a line.
        check_twice("index_select of a line", &[&[3]], &|x| f::index_select(&x[0], 0, index));
    }
}

#[test]
fn searches_of_no_dimensions() {
    let x = Tensor::scalar(3.0f32);
    for found in [
        f::argmax(&x, Some(0), true).unwrap(),
        f::argmin(&x, Some(0), false).unwrap(),
        f::argsort(&x, 0, true).unwrap(),
    ] {
        assert_eq!((found.shape(), found.item::<i64>().unwrap()), (&[][..], 0));
    }
    assert_eq!(f::any(&x, [0], true).unwrap().to_bools().unwrap(), [true]);
    assert_eq!(f::all(&Tensor::scalar(0.0f32), [0], false).unwrap().to_bools().unwrap(), [false]);
    assert_eq!(f::flatten_from(&x.clone(), 0).unwrap().shape(), [1]);
}

#[test]
fn there_is_no_other_dimension() {
    let x = Tensor::scalar(3.0f32);
    let index = Tensor::from_slice(&[0i64, 0], &[2]).unwrap();
    assert!(f::sum(&x, [1], true).is_err());
    assert!(f::cumsum(&x, 1).is_err());
    assert!(f::sort(&x, 1, false).is_err());
    assert!(f::topk(&x, 2, 0, true).is_err());
    assert!(f::topk(&x, 0, 0, true).is_err());
    assert!(f::kthvalue(&x, 2, 0, true).is_err());
    assert!(f::log_softmax(&x, 1).is_err());
    assert!(f::narrow(&x, 0, 0, 1).is_err());
    assert!(f::split(&x, &[1], 0).is_err());
    let error = f::index_select(&x, 0, &index).unwrap_err().to_string();
    assert_eq!(error, "index_select: 2 indices into a tensor without dimensions");
}

#[test]
fn integers_are_added_as_integers() {
    let x = Tensor::from_slice(&[i64::MAX, 2, 3, -4], &[2, 2]).unwrap();
    let var = x.clone();
    let sums = |y: Tensor| y.to_vec::<i64>().unwrap();
    assert_eq!(sums(f::sum(&var, [1], true).unwrap()), [i64::MIN + 1, -1]);
    assert_eq!(sums(f::sum(&var, [0, 1], true).unwrap()), [i64::MIN]);
    assert_eq!(sums(f::prod(&var, [0], false).unwrap()), [i64::MAX.wrapping_mul(3), -8]);
    assert_eq!(sums(f::amax(&var, [0], false).unwrap()), [i64::MAX, 2]);
    assert_eq!(sums(f::amin(&var, [1], false).unwrap()), [2, -4]);
    let none = Tensor::zeros(&[0], DType::I64).unwrap();
    assert_eq!(sums(f::sum(&none, [0], true).unwrap()), [0]);
    assert_eq!(sums(f::prod(&none, [0], false).unwrap()), [1]);
    assert!(f::amax(&none, [0], false).is_err());
    for dtype in [DType::U8, DType::Bool] {
        let ones = Tensor::ones(&[300], dtype).unwrap();
        assert_eq!(sums(f::sum(&ones, [0], true).unwrap()), [300]);
        assert_eq!(sums(f::prod(&ones, [0], false).unwrap()), [1]);
    }
    let error = f::mean(&var, [0], true).unwrap_err().to_string();
    assert!(error.starts_with("reduce: "), "{error}");
}
