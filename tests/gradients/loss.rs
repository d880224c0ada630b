use samebits::Tensor;
use samebits::functional::{self as f, Reduction};

use super::normal_of;

/// As in PyTorch.
#[test]
fn the_gradient_of_ctc_is_not_differentiable() {
    let log_probs = normal_of(&[6, 1, 3], samebits::DType::F64, 6).set_requires_grad(true).unwrap();
    let labels = Tensor::from_slice(&[1i64, 2], &[1, 2]).unwrap();
    let loss = f::ctc_loss(&log_probs, &labels, &[6], &[2], f::CtcOptions::default()).unwrap();
    let one = Tensor::ones(loss.shape(), loss.dtype()).unwrap();
    let grads = loss.backward_from(one, true).unwrap();
    let grad = grads.of(&log_probs).unwrap().square().unwrap().sum_all().unwrap();
    let error = grad.backward().unwrap_err().to_string();
    assert_eq!(error, "ctc_loss: this gradient cannot be differentiated again");
}

#[test]
fn the_ends_of_the_range_give_what_pytorch_gives() {
    let x = Tensor::from_slice(&[0.0f32, 0.0, 1.0, 1.0], &[4])
        .unwrap()
        .set_requires_grad(true)
        .unwrap();
    let t = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 1.0], &[4]).unwrap();
    let loss = f::binary_cross_entropy(&x, &t, None, Reduction::None).unwrap();
    assert_eq!(loss.to_vec::<f32>().unwrap(), [0.0, 100.0, 100.0, 0.0]);
    let grad = loss.sum_all().unwrap().backward().unwrap();
    assert_eq!(grad.of(&x).unwrap().to_vec::<f32>().unwrap(), [0.0, -1e12, 1e12, 0.0]);
    let x =
        Tensor::from_slice(&[-1e4f32, 1e4, -1e4], &[3]).unwrap().set_requires_grad(true).unwrap();
    let t = Tensor::from_slice(&[1.0f32, 0.0, 0.0], &[3]).unwrap();
    let loss = f::binary_cross_entropy_with_logits(&x, &t, None, None, Reduction::None).unwrap();
    assert_eq!(loss.to_vec::<f32>().unwrap(), [1e4, 1e4, 0.0]);
    let x = Tensor::zeros(&[2, 3], samebits::DType::F32).unwrap().set_requires_grad(true).unwrap();
    let ignored = Tensor::full(&[2], -100.0, samebits::DType::I64).unwrap();
    let loss = f::cross_entropy(&x, &ignored).unwrap();
    assert!(loss.item::<f32>().unwrap().is_nan());
}
