use samebits::Tensor;
use samebits::functional::{self as f, BatchReduction, ClassLoss, Reduction};

use super::{indices, normal_of};

use super::{check, check_twice};

const REDUCTIONS: [Reduction; 3] = [Reduction::None, Reduction::Mean, Reduction::Sum];

#[test]
fn losses_of_classes() {
    let target = indices(12, 5, 3).reshape([4, 3]).unwrap();
    let weight = normal_of(&[5], samebits::DType::F64, 4);
    for reduction in REDUCTIONS {
        for weight in [None, Some(&weight)] {
            let options = ClassLoss { weight, ignore_index: 2, label_smoothing: 0.0, reduction };
            check_twice("nll_loss", &[&[4, 5, 3]], &|x| {
                f::nll_loss_with(&x[0].square()?, &target, &options)
            });
            let options = ClassLoss { label_smoothing: 0.3, ..options };
            check_twice("cross_entropy", &[&[4, 5, 3]], &|x| {
                f::cross_entropy_with(&x[0], &target, &options)
            });
            check_twice("cross_entropy_probabilities", &[&[4, 5, 3], &[4, 5, 3]], &|x| {
                f::cross_entropy_probabilities(&x[0], &f::softmax(&x[1], 1)?, &options)
            });
        }
    }
    let one = Tensor::scalar(3i64);
    check_twice("cross_entropy of one", &[&[5]], &|x| f::cross_entropy(&x[0], &one));
}

#[test]
fn sequences_of_labels() {
    // The gradient is that for log-probabilities which a softmax normalises.
    for reduction in REDUCTIONS {
        let options = f::CtcOptions { blank: 2, reduction, zero_infinity: true };
        let padded = Tensor::from_slice(&[0i64, 0, 3, 9, 1, 3, 1, 0, 0, 0, 0, 9], &[4, 3]).unwrap();
        check("ctc_loss", &[&[6, 4, 4]], &|x| {
            let log_probs = f::log_softmax(&x[0], 2)?;
            // The last sequence does not fit into its two steps.
            f::ctc_loss(&log_probs, &padded, &[6, 4, 5, 2], &[3, 0, 2, 2], options)
        });
        let joined = Tensor::from_slice(&[0i64, 0, 3, 1, 3], &[5]).unwrap();
        check("ctc_loss", &[&[6, 3, 4]], &|x| {
            let log_probs = f::log_softmax(&x[0], 2)?;
            f::ctc_loss(&log_probs, &joined, &[6, 4, 5], &[3, 0, 2], options)
        });
    }
    let labels = Tensor::from_slice(&[1i64, 1], &[2]).unwrap();
    check("ctc_loss of one", &[&[6, 3]], &|x| {
        let log_probs = f::log_softmax(&x[0], 1)?;
        f::ctc_loss(&log_probs, &labels, &[5], &[2], f::CtcOptions::default())
    });
}

/// As in PyTorch.
#[test]
fn the_gradient_of_ctc_is_not_differentiable() {
    let log_probs = normal_of(&[6, 1, 3], samebits::DType::F64, 6).set_requires_grad(true);
    let labels = Tensor::from_slice(&[1i64, 2], &[1, 2]).unwrap();
    let loss = f::ctc_loss(&log_probs, &labels, &[6], &[2], f::CtcOptions::default()).unwrap();
    let one = Tensor::ones(loss.shape(), loss.dtype()).unwrap();
    let grads = loss.backward_from(one, true).unwrap();
    let grad = grads.of(&log_probs).unwrap().square().unwrap().sum_all().unwrap();
    let error = grad.backward().unwrap_err().to_string();
    assert_eq!(error, "ctc_loss: this gradient cannot be differentiated again");
}

#[test]
fn pointwise_losses() {
    let shapes: [&[usize]; 2] = [&[4, 5], &[4, 5]];
    let weight = normal_of(&[5], samebits::DType::F64, 5);
    for reduction in REDUCTIONS {
        check_twice("mse_loss", &shapes, &|x| f::mse_loss(&x[0], &x[1], reduction));
        check("l1_loss", &shapes, &|x| f::l1_loss(&x[0], &x[1], reduction));
        check("smooth_l1_loss", &shapes, &|x| f::smooth_l1_loss(&x[0], &x[1], 0.8, reduction));
        check("smooth_l1_loss", &shapes, &|x| f::smooth_l1_loss(&x[0], &x[1], 0.0, reduction));
        check("huber_loss", &shapes, &|x| f::huber_loss(&x[0], &x[1], 0.8, reduction));
        check_twice("binary_cross_entropy", &shapes, &|x| {
            let (x, t) = (x[0].sigmoid()?, x[1].sigmoid()?);
            f::binary_cross_entropy(&x, &t, Some(&weight), reduction)
        });
        check_twice("binary_cross_entropy_with_logits", &shapes, &|x| {
            let (weight, positive) = (Some(&weight), Some(&weight));
            f::binary_cross_entropy_with_logits(&x[0], &x[1], weight, positive, reduction)
        });
        check_twice("kl_div", &shapes, &|x| {
            f::kl_div(&x[0], &x[1].sigmoid()?, BatchReduction::Of(reduction), false)
        });
        check_twice("kl_div log_target", &shapes, &|x| {
            f::kl_div(&x[0], &x[1], BatchReduction::Of(reduction), true)
        });
    }
}

#[test]
fn the_ends_of_the_range_give_what_pytorch_gives() {
    let x = Tensor::from_slice(&[0.0f32, 0.0, 1.0, 1.0], &[4]).unwrap().set_requires_grad(true);
    let t = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 1.0], &[4]).unwrap();
    let loss = f::binary_cross_entropy(&x, &t, None, Reduction::None).unwrap();
    assert_eq!(loss.to_vec::<f32>().unwrap(), [0.0, 100.0, 100.0, 0.0]);
    let grad = loss.sum_all().unwrap().backward().unwrap();
    assert_eq!(grad.of(&x).unwrap().to_vec::<f32>().unwrap(), [0.0, -1e12, 1e12, 0.0]);
    let x = Tensor::from_slice(&[-1e4f32, 1e4, -1e4], &[3]).unwrap().set_requires_grad(true);
    let t = Tensor::from_slice(&[1.0f32, 0.0, 0.0], &[3]).unwrap();
    let loss = f::binary_cross_entropy_with_logits(&x, &t, None, None, Reduction::None).unwrap();
    assert_eq!(loss.to_vec::<f32>().unwrap(), [1e4, 1e4, 0.0]);
    let x = Tensor::zeros(&[2, 3], samebits::DType::F32).unwrap().set_requires_grad(true);
    let ignored = Tensor::full(&[2], -100.0, samebits::DType::I64).unwrap();
    let loss = f::cross_entropy(&x, &ignored).unwrap();
    assert!(loss.item::<f32>().unwrap().is_nan());
}
