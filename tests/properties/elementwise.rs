use proptest::prelude::*;
use samebits::functional as f;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor};
use workspace_tests::normal_of;

use super::{cases, shape};

type Function = fn(&Tensor, &Tensor) -> Result<Tensor>;

const FUNCTIONS: [Function; 9] = [
    f::maximum,
    f::minimum,
    f::pow,
    |x, y| f::where_(&Tensor::from(Value::from_bools(&[true], &[])?), x, y),
    |x, _| f::softplus(x, 0.5, 1.0),
    |x, _| f::gelu_tanh(x),
    |x, _| f::clamp(x, Some(-0.3), Some(0.4)),
    |x, _| f::elu(x, 1.2),
    |x, _| f::log_sigmoid(x),
];

/// Returns the shape that two shapes broadcast to.
fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], dim: usize| {
        (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim])
    };
    (0..rank)
        .map(|dim| match (size(a, dim), size(b, dim)) {
            (a, b) if a == b || b == 1 => Some(a),
            (1, b) => Some(b),
            _ => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(cases(1))]

    /// Every element is the function's value for it alone, or the shapes are rejected.
    #[test]
    fn elements_are_on_their_own(
        a in shape(3),
        b in shape(3),
        which in 0..FUNCTIONS.len(),
        f64 in any::<bool>(),
    ) {
        let dtype = if f64 { DType::F64 } else { DType::F32 };
        let (x, y) = (normal_of(&a, dtype, 1), normal_of(&b, dtype, 2));
        let function = FUNCTIONS[which];
        let result = function(&Tensor::from(x.clone()), &Tensor::from(y.clone()));
        let expected = if which < 4 { broadcast(&a, &b) } else { Some(a.clone()) };
        let Some(expected) = expected else {
            prop_assert!(result.is_err());
            return Ok(());
        };
        let result = result.unwrap();
        prop_assert_eq!(result.shape(), &expected[..]);
        let count: usize = expected.iter().product();
        if which >= 4 || count == 0 {
            prop_assert_eq!(result.numel(), count);
        }
        let flat = |x: &Value, shape: &[usize]| {
            x.expand(shape).unwrap().contiguous().unwrap().reshape(&[count]).unwrap()
        };
        let x = flat(&x, &expected);
        let y = if which < 4 { flat(&y, &expected) } else { x.clone() };
        let result = flat(result.value(), &expected);
        for i in 0..count {
            let one = |x: &Value| Tensor::from(x.narrow(0, i, 1).unwrap());
            let alone = function(&one(&x), &one(&y)).unwrap();
            prop_assert_eq!(
                alone.to_bytes(),
                result.narrow(0, i, 1).unwrap().to_bytes(),
                "element {}", i
            );
        }
    }
}
