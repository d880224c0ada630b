//! PyTorch's `test_mem_eff_backwards_determinism`, which it skips because its nondeterministic
//! half does not fail reliably.

use samebits::functional as f;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Determinism, Result, Tensor, determinism};
use workspace_tests::normal_of;

use super::{forward_then_backward, repeats};

fn attention(query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor> {
    let width = query.shape()[3] as f64;
    let scores = f::matmul(query, &f::transpose(key, 2, 3)?)?.affine(1.0 / width.sqrt(), 0.0)?;
    f::matmul(&f::softmax(&scores, 3)?, value)
}

#[test]
fn a_hundred_backward_passes_of_attention_have_the_same_bits() {
    let inputs: Vec<Value> =
        (0..3).map(|seed| normal_of(&[2, 4, 33, 16], DType::F32, seed)).collect();
    let run = || forward_then_backward(&inputs, |x| attention(&x[0], &x[1], &x[2]));
    let first = repeats("attention", run);
    for _ in 0..100 {
        let again = determinism::scope(Determinism::Portable, run).unwrap();
        for (first, again) in first.iter().zip(&again) {
            assert!(samebits::rerun::same_bits(first, again).unwrap());
        }
    }
}

/// A row of attention must not depend on the rows computed with it.
#[test]
fn a_batch_element_of_attention_does_not_depend_on_the_batch() {
    let inputs: Vec<Tensor> =
        (0..3).map(|seed| Tensor::from(normal_of(&[5, 4, 33, 16], DType::F32, seed))).collect();
    let all = attention(&inputs[0], &inputs[1], &inputs[2]).unwrap();
    for i in 0..5 {
        let one: Vec<Tensor> =
            inputs.iter().map(|x| Tensor::from(x.value().narrow(0, i, 1).unwrap())).collect();
        let one = attention(&one[0], &one[1], &one[2]).unwrap();
        let expected = all.value().narrow(0, i, 1).unwrap();
        assert!(samebits::rerun::same_bits(one.value(), &expected).unwrap(), "element {i}");
    }
}
