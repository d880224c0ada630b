use samebits::functional::{self as f, BatchReduction, ClassLoss};
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor, dispatch};

use super::sample::{Samples, each, given, indices, normal};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        let x = make.normal(&[300, 67], dtype, 39);
        for dim in [0, 1] {
            let y = dispatch(&LogSoftmax { x: x.clone(), dim }).expect("a valid case");
            let y = make.here(y);
            cases.add(format!("log_softmax {dtype} {dim}"), LogSoftmax { x: x.clone(), dim });
            let grad = make.normal(&[300, 67], dtype, 40);
            let of_log = LogSoftmaxGrad { grad: grad.clone(), y, dim };
            cases.add(format!("log_softmax grad {dtype} {dim}"), of_log);
            let y = dispatch(&Softmax { x: x.clone(), dim }).expect("a valid case");
            let y = make.here(y);
            cases.add(format!("softmax {dtype} {dim}"), Softmax { x: x.clone(), dim });
            cases.add(format!("softmax grad {dtype} {dim}"), SoftmaxGrad { grad, y, dim });
        }
        let x = make.wild(&[30, 40], dtype, 41);
        cases.add(format!("log_softmax {dtype} wild"), LogSoftmax { x: x.clone(), dim: 1 });
        cases.add(format!("softmax {dtype} wild"), Softmax { x, dim: 1 });
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
        let grad = make.normal(&[], dtype, 61);
        let log_probs = make.normal(&[300, 67], dtype, 62);
        cases.add(
            format!("cross_entropy grad {dtype}"),
            CrossEntropyGrad {
                grad,
                log_probs,
                target: make.indices(300, 67, 42),
                weight: Some(make.normal(&[67], dtype, 63)),
                ignore_index: 3,
                reduction: Reduction::Mean,
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
        cases.functions(dtype, golden);
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
            // The fifth sequence does not fit into its steps.
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

const REDUCTIONS: [Reduction; 3] = [Reduction::None, Reduction::Mean, Reduction::Sum];

pub(super) fn samples(samples: &mut Samples) {
    samples
        .add("log_softmax", |x| f::log_softmax(&x[0], 1))
        .batch([each(&[9, 267])])
        .twice([normal(&[3, 4])]);
    samples.add("log_softmax of columns", |x| f::log_softmax(&x[0], 0)).twice([normal(&[3, 4])]);
    samples
        .add("softmax of channels", |x| f::softmax(&x[0], 1))
        .batch([each(&[5, 17, 9])])
        .twice([normal(&[3, 4])]);
    samples
        .add("cross_entropy of one", |x| f::cross_entropy(&x[0], &x[1]))
        .twice([normal(&[5]), given(Value::from_slice(&[3i64], &[]))])
        .twice([normal(&[3, 4]), indices(&[3], 4)]);
    samples
        .add("cross_entropy of each", |x| {
            let each = ClassLoss { reduction: Reduction::None, ..Default::default() };
            f::cross_entropy_with(&x[0], &x[1], &each)
        })
        .batch([each(&[9, 267]), indices(&[9], 267).along(0)]);
    samples
        .add("softmin", |x| f::softmin(&x[0], 1))
        .batch([each(&[9, 267])])
        .twice([normal(&[3, 4])]);
    golden(samples);
    margins_and_likelihoods(samples);
    sequences_of_labels(samples);
}

/// Adds losses without digests: compositions of functions that have them. The second tensor is
/// constant.
fn margins_and_likelihoods(samples: &mut Samples) {
    let losses: [(_, Loss); _] = [
        ("cosine_embedding_loss", |x, y, r| {
            f::cosine_embedding_loss(x, &x.flip(1)?, &y.select(1, 0)?.sign()?, 0.1, r)
        }),
        ("gaussian_nll_loss", |x, y, r| {
            f::gaussian_nll_loss(x, y, &x.square()?.affine(1.0, 0.3)?, true, 1e-6, r)
        }),
        ("hinge_embedding_loss", |x, y, r| f::hinge_embedding_loss(x, &y.sign()?, 1.0, r)),
        ("margin_ranking_loss", |x, y, r| {
            f::margin_ranking_loss(x, &x.flip(0)?, &y.sign()?, 0.3, r)
        }),
        ("multi_margin_loss", |x, y, r| {
            f::multi_margin_loss(x, &y.argmax(1)?, 2, 1.0, Some(&y.i(0)?), r)
        }),
        ("multilabel_margin_loss", |x, y, r| {
            let lists = f::cat(&[y.argsort(1, true)?.narrow(1, 0, 2)?, y.argsort(1, false)?], 1)?;
            let end = lists.narrow(1, 0, 5)?.eq(3)?;
            f::multilabel_margin_loss(x, &lists.narrow(1, 0, 5)?.masked_fill(&end, -1.0)?, r)
        }),
        ("multilabel_soft_margin_loss", |x, y, r| {
            f::multilabel_soft_margin_loss(x, &y.sigmoid()?, Some(&y.i(0)?), r)
        }),
        ("poisson_nll_loss", |x, y, r| {
            f::poisson_nll_loss(x, &y.square()?.affine(3.0, 0.0)?, true, true, 1e-8, r)
        }),
        ("poisson_nll_loss of rates", |x, y, r| {
            f::poisson_nll_loss(&x.exp()?, &y.square()?, false, false, 1e-8, r)
        }),
        ("soft_margin_loss", |x, y, r| f::soft_margin_loss(x, &y.sign()?, r)),
        ("triplet_margin_loss", |x, y, r| {
            f::triplet_margin_loss(x, y, &x.flip(0)?, 1.0, 2.0, 1e-6, true, r)
        }),
    ];
    for (name, loss) in losses {
        for reduction in REDUCTIONS {
            samples
                .add(format!("{name} {reduction:?}"), move |x| loss(&x[0], &x[1], reduction))
                .twice([normal(&[4, 5]), normal(&[4, 5]).constant()]);
        }
    }
}

/// Adds the losses with digests, in the order of the snapshot.
fn golden(samples: &mut Samples) {
    pointwise(samples);
    for reduction in REDUCTIONS {
        for weighted in [false, true] {
            classes(samples, reduction, weighted);
        }
    }
}

/// Adds losses of classes, with and without weights, which are the last argument.
fn classes(samples: &mut Samples, reduction: Reduction, weighted: bool) {
    fn options(x: &[Tensor], reduction: Reduction, smoothing: f64) -> ClassLoss<'_> {
        let label_smoothing = smoothing;
        ClassLoss { weight: x.get(2), ignore_index: 2, label_smoothing, reduction }
    }
    let name = |op: &str| format!("{op} {reduction:?}, weights {weighted}");
    let arguments = |classes: usize| {
        let weight = weighted.then(|| normal(&[classes]).constant());
        [Some(normal(&[4, classes, 3])), Some(indices(&[4, 3], classes as i64)), weight]
    };
    let small = || arguments(5).into_iter().flatten().collect::<Vec<_>>();
    let batched = || [each(&[6, 11, 7]), indices(&[6, 7], 11).along(0), normal(&[11]).constant()];
    let nll = samples.add(name("nll_loss"), move |x| {
        f::nll_loss_with(&x[0], &x[1], &options(x, reduction, 0.0))
    });
    let mut squared = small();
    squared[0] = squared[0].clone().squared();
    nll.twice(squared);
    let smoothed = samples.add(name("cross_entropy smoothed"), move |x| {
        f::cross_entropy_with(&x[0], &x[1], &options(x, reduction, 0.2))
    });
    smoothed.twice(small());
    if weighted {
        let golden = [normal(&[90, 7, 3]), indices(&[90, 3], 7), normal(&[7]).constant()];
        let [x, target, weight] = golden;
        let golden = [x.seed(53), target.seed(51), weight.seed(52)];
        smoothed.digest_as(format!("cross_entropy smoothed {reduction:?}"), golden);
    }
    if weighted && reduction == Reduction::None {
        smoothed.batch(batched());
        samples
            .add("cross_entropy", move |x| {
                f::cross_entropy_with(&x[0], &x[1], &options(x, reduction, 0.0))
            })
            .batch(batched());
    }
    let mut both = small();
    both[1] = normal(&[4, 5, 3]).by(|x| f::softmax(x, 1));
    samples
        .add(name("cross_entropy_probabilities"), move |x| {
            let options = ClassLoss { ignore_index: -100, ..options(x, reduction, 0.3) };
            f::cross_entropy_probabilities(&x[0], &x[1], &options)
        })
        .twice(both);
}

/// A loss of two tensors.
type Loss = fn(&Tensor, &Tensor, Reduction) -> Result<Tensor>;

fn pointwise(samples: &mut Samples) {
    let pair = || [normal(&[90, 91]).seed(49), normal(&[90, 91]).seed(50)];
    // The reduction of the digest. Gradients and batches use all reductions.
    let losses: [(_, _, Loss); _] = [
        ("mse_loss", Reduction::Mean, f::mse_loss),
        ("l1_loss", Reduction::Sum, f::l1_loss),
        ("smooth_l1_loss", Reduction::None, |x, y, r| f::smooth_l1_loss(x, y, 0.7, r)),
        ("huber_loss", Reduction::Mean, |x, y, r| f::huber_loss(x, y, 1.3, r)),
        ("binary_cross_entropy", Reduction::Mean, |x, y, r| {
            f::binary_cross_entropy(&x.sigmoid()?, &y.sigmoid()?, None, r)
        }),
        ("binary_cross_entropy_with_logits", Reduction::Mean, |x, y, r| {
            f::binary_cross_entropy_with_logits(x, &y.sigmoid()?, None, None, r)
        }),
    ];
    for (name, golden, loss) in losses {
        for reduction in REDUCTIONS {
            let sample = samples
                .add(format!("{name} {reduction:?}"), move |x| loss(&x[0], &x[1], reduction))
                .twice([normal(&[4, 5]), normal(&[4, 5])]);
            if reduction == Reduction::None {
                sample.batch([each(&[7, 91]), each(&[7, 91])]);
            }
            if reduction == golden {
                sample.digest_as(name, pair());
            }
        }
    }
    for reduction in
        REDUCTIONS.map(BatchReduction::Of).into_iter().chain([BatchReduction::BatchMean])
    {
        for log_target in [false, true] {
            let target = if log_target { normal(&[4, 5]) } else { normal(&[4, 5]).probability() };
            let name = if log_target { "kl_div log_target" } else { "kl_div" };
            let sample = samples
                .add(format!("{name} {reduction:?}"), move |x| {
                    f::kl_div(&x[0], &x[1], reduction, log_target)
                })
                .twice([normal(&[4, 5]), target]);
            if reduction == BatchReduction::Of(Reduction::None) && !log_target {
                sample.batch([each(&[7, 91]), each(&[7, 91]).probability()]);
            }
            if reduction == BatchReduction::BatchMean {
                let [x, y] = pair();
                let y = if log_target { y } else { y.probability() };
                sample.digest_as(name, [x, y]);
            }
        }
    }
    let [x, y] = pair();
    samples
        .add("cross_entropy_probabilities", |x| {
            let options = ClassLoss { label_smoothing: 0.1, ..Default::default() };
            f::cross_entropy_probabilities(&x[0], &x[1], &options)
        })
        .digest([x, y.by(|y| f::softmax(y, 1))]);
    for reduction in REDUCTIONS {
        let weighted =
            |shapes: [&[usize]; 2]| [normal(shapes[0]), normal(shapes[1]), normal(&[5]).constant()];
        let [x, y, weight] = weighted([&[4, 5], &[4, 5]]);
        samples
            .add(format!("binary_cross_entropy weighted {reduction:?}"), move |x| {
                f::binary_cross_entropy(&x[0], &x[1], Some(&x[2]), reduction)
            })
            .twice([x.probability(), y.probability(), weight]);
        samples
            .add(format!("binary_cross_entropy_with_logits weighted {reduction:?}"), move |x| {
                let weight = Some(&x[2]);
                f::binary_cross_entropy_with_logits(&x[0], &x[1], weight, weight, reduction)
            })
            .twice(weighted([&[4, 5], &[4, 5]]));
        let sample = samples
            .add(format!("binary_cross_entropy_with_logits of targets {reduction:?}"), move |x| {
                f::binary_cross_entropy_with_logits(&x[0], &x[1], None, None, reduction)
            })
            .twice([normal(&[4, 5]), normal(&[4, 5]).probability().constant()])
            .digest([
                normal(&[90, 91]).seed(49),
                normal(&[90, 91]).seed(50).probability().constant(),
            ]);
        if reduction == Reduction::None {
            sample.batch([each(&[7, 91]), each(&[7, 91]).probability().constant()]);
        }
        samples
            .add(format!("smooth_l1_loss without a parabola {reduction:?}"), move |x| {
                f::smooth_l1_loss(&x[0], &x[1], 0.0, reduction)
            })
            .twice([normal(&[4, 5]), normal(&[4, 5])]);
    }
}

/// PyTorch has no second derivative here either.
const CTC_ONCE: &str = "the gradient of ctc_loss is not differentiable";

fn sequences_of_labels(samples: &mut Samples) {
    let normalised = |x: &Tensor| f::log_softmax(x, x.shape().len() - 1);
    for reduction in REDUCTIONS {
        let options = f::CtcOptions { blank: 2, reduction, zero_infinity: true };
        let padded = Value::from_slice(&[0i64, 0, 3, 9, 1, 3, 1, 0, 0, 0, 0, 9], &[4, 3]);
        samples
            .add(format!("ctc_loss padded {reduction:?}"), move |x| {
                // The last sequence does not fit into its two steps.
                f::ctc_loss(&x[0], &x[1], &[6, 4, 5, 2], &[3, 0, 2, 2], options)
            })
            .once(CTC_ONCE, [normal(&[6, 4, 4]).by(normalised), given(padded)]);
        let joined = Value::from_slice(&[0i64, 0, 3, 1, 3], &[5]);
        samples
            .add(format!("ctc_loss joined {reduction:?}"), move |x| {
                f::ctc_loss(&x[0], &x[1], &[6, 4, 5], &[3, 0, 2], options)
            })
            .once(CTC_ONCE, [normal(&[6, 3, 4]).by(normalised), given(joined)]);
    }
    samples
        .add("ctc_loss of one", |x| f::ctc_loss(&x[0], &x[1], &[5], &[2], f::CtcOptions::default()))
        .once(
            CTC_ONCE,
            [normal(&[6, 3]).by(normalised), given(Value::from_slice(&[1i64, 1], &[2]))],
        );
    samples
        .add_part("ctc_loss", |x, part| {
            // The fifth sequence does not fit into its steps.
            let input_lengths = &[40, 39, 38, 20, 3, 5, 40, 1, 30][part.clone()];
            let target_lengths = &[15, 0, 1, 14, 12, 2, 13, 0, 15][part.clone()];
            let reduction = Reduction::None;
            let options = f::CtcOptions { blank: 30, reduction, zero_infinity: true };
            f::ctc_loss(&x[0], &x[1], input_lengths, target_lengths, options)
        })
        .batch([normal(&[40, 9, 31]).along(1).by(normalised), indices(&[9, 15], 30).along(0)]);
}
