use samebits::functional::{self as f, BatchReduction};
use samebits::ops::*;
use samebits::{DType, Result, Tensor, dispatch};

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        let x = make.normal(&[300, 67], dtype, 39);
        for dim in [0, 1] {
            let y = dispatch(&LogSoftmax { x: x.clone(), dim }).expect("a valid case");
            let y = make.here(y);
            cases.add(format!("log_softmax {dtype} {dim}"), LogSoftmax { x: x.clone(), dim });
            let grad = make.normal(&[300, 67], dtype, 40);
            cases.add(format!("log_softmax grad {dtype} {dim}"), LogSoftmaxGrad { grad, y, dim });
        }
        let x = make.wild(&[30, 40], dtype, 41);
        cases.add(format!("log_softmax {dtype} wild"), LogSoftmax { x, dim: 1 });
    }
    for dtype in FLOATS {
        let target = make.indices(300, 67, 42);
        let log_probs = make.normal(&[300, 67], dtype, 43);
        cases.add(format!("nll_loss {dtype}"), NllLoss::mean(log_probs, target.clone()));
        let grad = make.normal(&[], dtype, 44);
        cases.add(
            format!("nll_loss grad {dtype}"),
            NllLossGrad {
                grad,
                target,
                weight: None,
                ignore_index: -100,
                reduction: Reduction::Mean,
                input_shape: vec![300, 67],
            },
        );
        let target = make.indices_of(&[30, 7, 11], 11, 45);
        for reduction in [Reduction::None, Reduction::Mean, Reduction::Sum] {
            let log_probs = make.normal(&[30, 11, 7, 11], dtype, 46);
            let weight = Some(make.normal(&[11], dtype, 47));
            let (target, ignore_index) = (target.clone(), 3);
            let shape: &[usize] = if reduction == Reduction::None { &[30, 7, 11] } else { &[] };
            cases.add(
                format!("nll_loss grad weighted {reduction:?} {dtype}"),
                NllLossGrad {
                    grad: make.normal(shape, dtype, 48),
                    target: target.clone(),
                    weight: weight.clone(),
                    ignore_index,
                    reduction,
                    input_shape: log_probs.shape().to_vec(),
                },
            );
            cases.add(
                format!("nll_loss weighted {reduction:?} {dtype}"),
                NllLoss { log_probs, target, weight, ignore_index, reduction },
            );
        }
        pointwise(cases, make, dtype);
        sequences(cases, make, dtype);
    }
}

fn sequences(cases: &mut Cases, make: Make, dtype: DType) {
    let log_probs = dispatch(&LogSoftmax { x: make.normal(&[40, 9, 31], dtype, 54), dim: 2 })
        .expect("a valid case");
    let log_probs = make.here(log_probs);
    for (reduction, labels) in [
        (Reduction::None, make.indices_of(&[9, 15], 31, 55)),
        (Reduction::Mean, make.indices_of(&[9, 15], 30, 56)),
        (Reduction::Sum, make.indices(72, 30, 57)),
    ] {
        let targets = CtcTargets {
            labels,
            // The fifth does not fit.
            input_lengths: vec![40, 39, 38, 20, 3, 5, 40, 0, 30],
            target_lengths: vec![15, 0, 1, 14, 12, 2, 13, 0, 15],
            blank: 30,
        };
        let zero_infinity = reduction != Reduction::None;
        let shape: &[usize] = if reduction == Reduction::None { &[9] } else { &[] };
        cases.add(
            format!("ctc_loss grad {reduction:?} {dtype}"),
            CtcLossGrad {
                grad: make.normal(shape, dtype, 58),
                log_probs: log_probs.clone(),
                targets: targets.clone(),
                reduction,
                zero_infinity,
            },
        );
        let log_probs = log_probs.clone();
        cases.add(
            format!("ctc_loss {reduction:?} {dtype}"),
            CtcLoss { log_probs, targets, reduction, zero_infinity },
        );
    }
}

/// A loss of two tensors.
type Loss = fn(&Tensor, &Tensor) -> Result<Tensor>;

fn pointwise(cases: &mut Cases, make: Make, dtype: DType) {
    let pair = move || (make.normal(&[90, 91], dtype, 49), make.normal(&[90, 91], dtype, 50));
    let losses: [(_, Loss); _] = [
        ("mse_loss", |x, y| f::mse_loss(x, y, Reduction::Mean)),
        ("l1_loss", |x, y| f::l1_loss(x, y, Reduction::Sum)),
        ("smooth_l1_loss", |x, y| f::smooth_l1_loss(x, y, 0.7, Reduction::None)),
        ("huber_loss", |x, y| f::huber_loss(x, y, 1.3, Reduction::Mean)),
        ("binary_cross_entropy", |x, y| {
            f::binary_cross_entropy(&x.sigmoid()?, &y.sigmoid()?, None, Reduction::Mean)
        }),
        ("binary_cross_entropy_with_logits", |x, y| {
            f::binary_cross_entropy_with_logits(x, &y.sigmoid()?, None, None, Reduction::Mean)
        }),
        ("kl_div", |x, y| f::kl_div(x, &y.sigmoid()?, BatchReduction::BatchMean, false)),
        ("kl_div log_target", |x, y| f::kl_div(x, y, BatchReduction::BatchMean, true)),
        ("cross_entropy_probabilities", |x, y| {
            let options = f::ClassLoss { label_smoothing: 0.1, ..Default::default() };
            f::cross_entropy_probabilities(x, &f::softmax(y, 1)?, &options)
        }),
    ];
    for (name, loss) in losses {
        cases.call(format!("{name} {dtype}"), move || {
            let (x, y) = pair();
            make.with_gradients(&[x, y], |x| loss(&x[0], &x[1]))
        });
    }
    let target = make.indices_of(&[90, 3], 7, 51);
    let weight = make.normal(&[7], dtype, 52);
    for reduction in [Reduction::None, Reduction::Mean, Reduction::Sum] {
        let (target, weight) = (target.clone(), weight.clone());
        cases.call(format!("cross_entropy smoothed {reduction:?} {dtype}"), move || {
            make.with_gradients(&[make.normal(&[90, 7, 3], dtype, 53)], |x| {
                let options = f::ClassLoss {
                    weight: Some(&Tensor::from(&weight)),
                    ignore_index: 2,
                    label_smoothing: 0.2,
                    reduction,
                };
                f::cross_entropy_with(&x[0], &Tensor::from(&target), &options)
            })
        });
    }
}
