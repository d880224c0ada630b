//! Losses, normalisation, recurrent networks and optimisers.

use samebits::functional::{self as f, BatchReduction, ClassLoss, CtcOptions, Stack, Weights};
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor};

use super::{Calls, graded};
use crate::fuzz::Draw;

const REDUCTIONS: [Reduction; 3] = [Reduction::None, Reduction::Mean, Reduction::Sum];

pub(super) fn add(calls: &mut Calls) {
    classes(calls);
    pointwise(calls);
    sequences(calls);
    norms(calls);
    optimizers(calls);
    cells(calls);
    layers(calls);
}

/// Log-probabilities and target classes.
struct Classes {
    input: Vec<usize>,
    target: Value,
    weight: Option<Value>,
    ignore_index: i64,
    reduction: Reduction,
}

fn drawn_classes(d: &mut Draw, dtype: DType) -> Classes {
    let rank = d.between(1, 4);
    let mut input = d.shape(rank);
    let at = usize::from(rank > 1);
    input[at] = input[at].max(1);
    let mut target = input.clone();
    let classes = target.remove(at);
    Classes {
        target: d.indices(&target, classes),
        weight: d.flag().then(|| d.tensor(&[classes], dtype)),
        ignore_index: d.int(-100),
        reduction: d.pick(&REDUCTIONS),
        input,
    }
}

fn classes(calls: &mut Calls) {
    calls.op("log_softmax", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        Ok(LogSoftmax { x: d.tensor(&shape, dtype), dim: d.dim(shape.len()) })
    });
    calls.op("log_softmax_grad", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let [grad, y] = [(); 2].map(|()| d.tensor(&shape, dtype));
        Ok(LogSoftmaxGrad { grad, y, dim: d.dim(shape.len()) })
    });
    calls.op("softmax", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        Ok(Softmax { x: d.tensor(&shape, dtype), dim: d.dim(shape.len()) })
    });
    calls.op("softmax_grad", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let [grad, y] = [(); 2].map(|()| d.tensor(&shape, dtype));
        Ok(SoftmaxGrad { grad, y, dim: d.dim(shape.len()) })
    });
    calls.op("nll_loss", |d| {
        let dtype = d.float();
        let Classes { input, target, weight, ignore_index, reduction } = drawn_classes(d, dtype);
        let log_probs = d.tensor(&input, dtype);
        Ok(NllLoss { log_probs, target, weight, ignore_index, reduction })
    });
    calls.op("nll_loss_grad", |d| {
        let dtype = d.float();
        let Classes { input, target, weight, ignore_index, reduction } = drawn_classes(d, dtype);
        let shape = if reduction == Reduction::None { target.shape() } else { &[] };
        let small = target.numel() < 1 << 20;
        let grad = d.tensor(if small { shape } else { &[] }, dtype);
        let input_shape = d.counts(&input);
        Ok(NllLossGrad { grad, target, weight, ignore_index, reduction, input_shape })
    });
    calls.op("cross_entropy_grad", |d| {
        let dtype = d.float();
        let Classes { input, target, weight, ignore_index, reduction } = drawn_classes(d, dtype);
        let shape = if reduction == Reduction::None { target.shape() } else { &[] };
        let (grad, log_probs) = (d.tensor(shape, dtype), d.tensor(&input, dtype));
        Ok(CrossEntropyGrad { grad, log_probs, target, weight, ignore_index, reduction })
    });
    calls.function("class_losses", |d| {
        let (dtype, which) = (d.float(), d.below(3));
        let Classes { input, target, weight, ignore_index, reduction } = drawn_classes(d, dtype);
        let label_smoothing = d.real(0.1);
        let arguments = vec![d.tensor(&input, dtype), d.tensor(&input, dtype)];
        graded(d, arguments, |x| {
            let (target, weight) = (Tensor::from(&target), weight.as_ref().map(Tensor::from));
            let weight = weight.as_ref();
            let options = ClassLoss { weight, ignore_index, label_smoothing, reduction };
            match which {
                0 => f::nll_loss_with(&x[0], &target, &options),
                1 => f::cross_entropy_with(&x[0], &target, &options),
                _ => f::cross_entropy_probabilities(&x[0], &x[1], &options),
            }
        })
    });
}

fn pointwise(calls: &mut Calls) {
    calls.op("logit_loss", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let [x, target] = [(); 2].map(|()| d.tensor(&shape, dtype));
        Ok(LogitLoss { x, target })
    });
    calls.op("logit_loss_grad", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let [grad, x, target] = [(); 3].map(|()| d.tensor(&shape, dtype));
        let found = d.flag().then(|| d.tensor(&shape, dtype));
        Ok(LogitLossGrad { grad, x, target, found })
    });
    calls.function("losses", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.float(), d.below(14));
        let (reduction, number) = (d.pick(&REDUCTIONS), d.real(1.0));
        let weight = d.flag().then(|| Tensor::from(d.tensor(&shape, dtype)));
        let arguments = vec![d.tensor(&shape, dtype), d.tensor(&shape, dtype)];
        graded(d, arguments, |x| {
            let [x, y] = [&x[0], &x[1]];
            let weight = weight.as_ref();
            match which {
                0 => f::mse_loss(x, y, reduction),
                1 => f::l1_loss(x, y, reduction),
                2 => f::smooth_l1_loss(x, y, number, reduction),
                3 => f::huber_loss(x, y, number, reduction),
                4 => f::binary_cross_entropy(&x.sigmoid()?, y, weight, reduction),
                5 => f::binary_cross_entropy_with_logits(x, y, weight, weight, reduction),
                6 => f::kl_div(x, y, BatchReduction::Of(reduction), number > 0.0),
                7 => f::poisson_nll_loss(x, y, number > 0.0, true, 1e-8, reduction),
                8 => f::gaussian_nll_loss(x, y, &y.square()?, false, number, reduction),
                9 => f::hinge_embedding_loss(x, y, number, reduction),
                10 => f::soft_margin_loss(x, y, reduction),
                11 => f::multilabel_soft_margin_loss(x, y, weight, reduction),
                12 => f::triplet_margin_loss(x, y, y, number, 2.0, 1e-6, true, reduction),
                _ => f::kl_div(x, y, BatchReduction::BatchMean, number > 0.0),
            }
        })
    });
}

/// Draws the arguments of CTC: shapes that usually match.
fn targets(d: &mut Draw, n: usize, steps: usize, classes: usize) -> CtcTargets {
    let width = d.between(0, 5);
    let target_lengths: Vec<usize> = (0..n).map(|_| d.between(0, width)).collect();
    let shape = if d.flag() { vec![n, width] } else { vec![target_lengths.iter().sum::<usize>()] };
    let input_lengths: Vec<usize> = (0..n).map(|_| d.between(0, steps)).collect();
    CtcTargets {
        labels: d.indices(&shape, classes),
        input_lengths: d.counts(&input_lengths),
        target_lengths: d.counts(&target_lengths),
        blank: d.count(classes.saturating_sub(1)),
    }
}

fn sequences(calls: &mut Calls) {
    fn sizes(d: &mut Draw) -> [usize; 3] {
        [d.between(0, 9), d.between(0, 4), d.between(1, 7)]
    }
    calls.op("ctc_loss", |d| {
        let ([steps, n, classes], dtype) = (sizes(d), d.float());
        Ok(CtcLoss {
            log_probs: d.tensor(&[steps, n, classes], dtype),
            targets: targets(d, n, steps, classes),
            reduction: d.pick(&REDUCTIONS),
            zero_infinity: d.flag(),
        })
    });
    calls.op("ctc_loss_grad", |d| {
        let ([steps, n, classes], dtype) = (sizes(d), d.float());
        let reduction = d.pick(&REDUCTIONS);
        let shape: &[usize] = if reduction == Reduction::None { &[n] } else { &[] };
        Ok(CtcLossGrad {
            grad: d.tensor(shape, dtype),
            log_probs: d.tensor(&[steps, n, classes], dtype),
            targets: targets(d, n, steps, classes),
            reduction,
            zero_infinity: d.flag(),
        })
    });
    calls.function("ctc", |d| {
        let ([steps, n, classes], dtype) = (sizes(d), d.float());
        let log_probs = d.tensor(&[steps, n, classes], dtype);
        let CtcTargets { labels, input_lengths, target_lengths, blank } =
            targets(d, n, steps, classes);
        let options = CtcOptions { blank, reduction: d.pick(&REDUCTIONS), zero_infinity: d.flag() };
        graded(d, vec![log_probs], |x| {
            f::ctc_loss(&x[0], &Tensor::from(&labels), &input_lengths, &target_lengths, options)
        })
    });
}

fn norms(calls: &mut Calls) {
    /// Draws a batch with channels.
    fn channels(d: &mut Draw) -> Vec<usize> {
        let rank = d.between(2, 5);
        d.shape(rank)
    }
    /// Draws a number of groups of channels.
    fn groups(d: &mut Draw, shape: &[usize]) -> usize {
        let valid = if d.flag() { 1 } else { shape[1] };
        d.count(valid)
    }
    /// Draws rows, and the shape of one.
    fn rows(d: &mut Draw) -> (Vec<usize>, Vec<usize>) {
        let rank = d.between(1, 4);
        let (shape, from) = (d.shape(rank), d.below(rank));
        let row = shape[from..].to_vec();
        (shape, row)
    }
    calls.op("batch_norm", |d| {
        let (shape, dtype) = (channels(d), d.float());
        let [weight, bias] = [(); 2].map(|()| d.tensor(&shape[1..2], dtype));
        Ok(BatchNorm { input: d.tensor(&shape, dtype), weight, bias, eps: d.real(1e-5) })
    });
    calls.op("batch_norm_grad", |d| {
        let (shape, dtype) = (channels(d), d.float());
        let [weight, mean, rstd] = [(); 3].map(|()| d.tensor(&shape[1..2], dtype));
        let [grad, input] = [(); 2].map(|()| d.tensor(&shape, dtype));
        Ok(BatchNormGrad { grad, input, weight, mean, rstd, eps: d.real(1e-5) })
    });
    calls.op("batch_norm_inference", |d| {
        let (shape, dtype) = (channels(d), d.float());
        let [weight, bias, mean, var] = [(); 4].map(|()| d.tensor(&shape[1..2], dtype));
        let input = d.tensor(&shape, dtype);
        Ok(BatchNormInference { input, weight, bias, mean, var, eps: d.real(1e-5) })
    });
    calls.op("group_norm", |d| {
        let (shape, dtype) = (channels(d), d.float());
        let [weight, bias] = [(); 2].map(|()| d.flag().then(|| d.tensor(&shape[1..2], dtype)));
        let (groups, eps) = (groups(d, &shape), d.real(1e-5));
        Ok(GroupNorm { input: d.tensor(&shape, dtype), weight, bias, groups, eps })
    });
    calls.op("group_norm_grad", |d| {
        let (shape, dtype) = (channels(d), d.float());
        let groups = groups(d, &shape);
        let rows = shape[0] * groups.min(shape[1]);
        let [mean, rstd] = [(); 2].map(|()| d.tensor(&[rows], dtype));
        let [grad, input] = [(); 2].map(|()| d.tensor(&shape, dtype));
        let weight = d.flag().then(|| d.tensor(&shape[1..2], dtype));
        Ok(GroupNormGrad { grad, input, weight, mean, rstd, groups, eps: d.real(1e-5) })
    });
    calls.op("layer_norm", |d| {
        let ((shape, row), dtype) = (rows(d), d.float());
        let [weight, bias] = [(); 2].map(|()| d.tensor(&row, dtype));
        Ok(LayerNorm { input: d.tensor(&shape, dtype), weight, bias, eps: d.real(1e-5) })
    });
    calls.op("layer_norm_grad", |d| {
        let ((shape, row), dtype) = (rows(d), d.float());
        let count: usize = shape[..shape.len() - row.len()].iter().product();
        let [mean, rstd] = [(); 2].map(|()| d.tensor(&[count], dtype));
        let [grad, input] = [(); 2].map(|()| d.tensor(&shape, dtype));
        let weight = d.tensor(&row, dtype);
        Ok(LayerNormGrad { grad, input, weight, mean, rstd, eps: d.real(1e-5) })
    });
    calls.op("rms_norm", |d| {
        let ((shape, row), dtype) = (rows(d), d.float());
        let weight = d.flag().then(|| d.tensor(&row, dtype));
        let (input, eps) = (d.tensor(&shape, dtype), d.real(1e-5));
        Ok(RmsNorm { input, weight, normalized_shape: row, eps })
    });
    calls.op("rms_norm_grad", |d| {
        let ((shape, row), dtype) = (rows(d), d.float());
        let count: usize = shape[..shape.len() - row.len()].iter().product();
        let [factor, rstd] = [(); 2].map(|()| d.tensor(&[count], dtype));
        let [grad, input] = [(); 2].map(|()| d.tensor(&shape, dtype));
        let weight = d.flag().then(|| d.tensor(&row, dtype));
        Ok(RmsNormGrad { grad, input, weight, normalized_shape: row, factor, rstd })
    });
    calls.function("norms", |d| {
        let (shape, dtype, which) = (channels(d), d.float(), d.below(5));
        let (groups, eps) = (d.count(1), d.real(1e-5));
        let [mean, var] = [(); 2].map(|()| Tensor::from(d.tensor(&shape[1..2], dtype)));
        let row = d.counts(&shape[1..]);
        let part = if which == 4 { &shape[1..] } else { &shape[1..2] };
        let [weight, bias] = [(); 2].map(|()| d.tensor(part, dtype));
        let arguments = vec![d.tensor(&shape, dtype), weight, bias];
        graded(d, arguments, |x| {
            let [weight, bias] = [Some(&x[1]), Some(&x[2])];
            match which {
                0 => Ok(f::batch_norm(&x[0], weight, bias, eps)?.0),
                1 => f::batch_norm_inference(&x[0], weight, bias, &mean, &var, eps),
                2 => Ok(f::instance_norm(&x[0], weight, bias, eps)?.0),
                3 => f::group_norm(&x[0], groups, weight, bias, eps),
                _ => f::layer_norm(&x[0], &row, weight, bias, eps),
            }
        })
    });
}

fn optimizers(calls: &mut Calls) {
    calls.op("sgd_step", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        Ok(SgdStep {
            param: d.tensor(&shape, dtype),
            grad: d.tensor(&shape, dtype),
            velocity: d.flag().then(|| d.tensor(&shape, dtype)),
            params: SgdParams {
                lr: d.real(0.1),
                momentum: d.real(0.9),
                dampening: d.real(0.0),
                weight_decay: d.real(0.01),
                nesterov: d.flag(),
            },
        })
    });
    calls.op("adam_step", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let [param, grad, mean, square] = [(); 4].map(|()| d.tensor(&shape, dtype));
        let params = AdamParams {
            lr: d.real(0.001),
            beta1: d.real(0.9),
            beta2: d.real(0.999),
            eps: d.real(1e-8),
            weight_decay: d.real(0.01),
            decoupled: d.flag(),
        };
        Ok(AdamStep { param, grad, mean, square, step: d.count(1) as u64, params })
    });
}

fn cells(calls: &mut Calls) {
    /// Draws tensors of `[n, width * size]`.
    fn states<const N: usize>(d: &mut Draw, widths: [usize; N]) -> [Value; N] {
        let (n, size, dtype) = (d.size().min(12), d.size().min(12), d.float());
        widths.map(|width| d.tensor(&[n, width * size], dtype))
    }
    /// Draws a bias that fits the gates.
    fn bias(d: &mut Draw, gates: &Value) -> Option<Value> {
        let width = gates.shape().last().copied().unwrap_or(0).min(1000);
        d.flag().then(|| d.tensor(&[width], gates.dtype()))
    }
    calls.op("lstm_cell", |d| {
        let [gates_x, gates_h, cell] = states(d, [4, 4, 1]);
        Ok(LstmCell { bias: bias(d, &gates_x), gates_x, gates_h, cell })
    });
    calls.op("lstm_cell_grad", |d| {
        let [grad_hidden, grad_cell, activations, cell, next_cell] = states(d, [1, 1, 4, 1, 1]);
        Ok(LstmCellGrad { grad_hidden, grad_cell, activations, cell, next_cell })
    });
    calls.op("gru_cell", |d| {
        let [gates_x, gates_h, hidden] = states(d, [3, 3, 1]);
        let (bias_x, bias_h) = (bias(d, &gates_x), bias(d, &gates_h));
        Ok(GruCell { gates_x, gates_h, bias_x, bias_h, hidden })
    });
    calls.op("gru_cell_grad", |d| {
        let [grad, activations, hidden] = states(d, [1, 4, 1]);
        Ok(GruCellGrad { grad, activations, hidden })
    });
}

/// The sizes of a recurrent layer.
struct Sizes {
    cell: RecurrentCell,
    gates: usize,
    size: usize,
    /// The width of the hidden state.
    state: usize,
    batch_sizes: Vec<usize>,
}

fn sizes(d: &mut Draw) -> Sizes {
    let cell = d.pick(&[
        RecurrentCell::Tanh,
        RecurrentCell::Relu,
        RecurrentCell::Gru,
        RecurrentCell::Lstm,
    ]);
    let size = d.between(0, 6);
    let mut batch_sizes: Vec<usize> = (0..d.between(1, 5)).map(|_| d.between(0, 4)).collect();
    batch_sizes.sort_unstable_by(|a, b| b.cmp(a));
    let projected = cell == RecurrentCell::Lstm && d.chance(3);
    let state = if projected { d.between(0, 4) } else { size };
    Sizes { cell, gates: cell.gates(), size, state, batch_sizes }
}

fn layer(d: &mut Draw, dtype: DType, of: &Sizes) -> RecurrentLayer {
    let Sizes { cell, gates, size, state, .. } = *of;
    let (n, rows) = (of.batch_sizes[0], of.batch_sizes.iter().sum());
    let lstm = cell == RecurrentCell::Lstm;
    RecurrentLayer {
        cell,
        reverse: d.flag(),
        batch_sizes: d.counts(&of.batch_sizes),
        gates: d.tensor(&[rows, gates * size], dtype),
        weight_hh: d.tensor(&[gates * size, state], dtype),
        bias_x: d.flag().then(|| d.tensor(&[gates * size], dtype)),
        bias_h: d.flag().then(|| d.tensor(&[gates * size], dtype)),
        weight_hr: (state != size).then(|| d.tensor(&[state, size], dtype)),
        hidden: d.tensor(&[n, state], dtype),
        cells: lstm.then(|| d.tensor(&[n, size], dtype)),
        keep: d.flag(),
    }
}

fn layers(calls: &mut Calls) {
    calls.op("recurrent_layer", |d| {
        let (sizes, dtype) = (sizes(d), d.float());
        Ok(layer(d, dtype, &sizes))
    });
    calls.op("recurrent_layer_grad", |d| {
        let (sizes, dtype) = (sizes(d), d.float());
        let layer = layer(d, dtype, &sizes);
        let Sizes { size, state, .. } = sizes;
        let (n, rows): (usize, usize) = (sizes.batch_sizes[0], sizes.batch_sizes.iter().sum());
        let lstm = sizes.cell == RecurrentCell::Lstm;
        let flat = (rows + n) * state + if lstm { n * size } else { 0 };
        let widths: &[usize] = match sizes.cell {
            RecurrentCell::Tanh | RecurrentCell::Relu => &[],
            RecurrentCell::Gru => &[4],
            RecurrentCell::Lstm if state == size => &[4, 1],
            RecurrentCell::Lstm => &[4, 1, 1],
        };
        let [grad, result] = [(); 2].map(|()| d.tensor(&[flat], dtype));
        let kept = widths.iter().map(|width| d.tensor(&[rows, width * size], dtype)).collect();
        Ok(RecurrentLayerGrad { layer, grad, result, kept })
    });
    calls.function("recurrent_networks", |d| {
        let (of, dtype, which) = (sizes(d), d.float(), d.below(2));
        let Sizes { cell, gates, size, state, .. } = of;
        let (steps, n, width) = (d.between(0, 4), d.between(0, 3), d.between(0, 5));
        let both = d.flag();
        let directions = 1 + usize::from(both);
        let mut arguments = vec![
            d.tensor(&[steps, n, width], dtype),
            d.tensor(&[directions, n, state], dtype),
            d.tensor(&[directions, n, size], dtype),
        ];
        for _ in 0..directions {
            arguments.push(d.tensor(&[gates * size, width], dtype));
            arguments.push(d.tensor(&[gates * size, state], dtype));
            arguments.push(d.tensor(&[gates * size], dtype));
            arguments.push(d.tensor(&[state, size], dtype));
        }
        let lengths: Vec<usize> = (0..n).map(|_| d.between(1, steps.max(1))).collect();
        let (lengths, total) = (d.counts(&lengths), d.flag().then(|| d.count(steps)));
        graded(d, arguments, |x| {
            let weights: Vec<Weights> = x[3..]
                .chunks(4)
                .map(|x| Weights {
                    weight_ih: x[0].clone(),
                    weight_hh: x[1].clone(),
                    bias_ih: Some(x[2].clone()),
                    bias_hh: None,
                    weight_hr: (state != size).then(|| x[3].clone()),
                })
                .collect();
            let stack = Stack { bidirectional: both, ..Default::default() };
            if which == 0 {
                return dense(cell, x, &weights, stack);
            }
            let packed = f::pack_padded_sequence(&x[0], &lengths, false, false)?;
            let packed = match cell {
                RecurrentCell::Tanh => f::rnn_tanh_packed(&packed, &x[1], &weights, stack)?.0,
                RecurrentCell::Relu => f::rnn_relu_packed(&packed, &x[1], &weights, stack)?.0,
                RecurrentCell::Gru => f::gru_packed(&packed, &x[1], &weights, stack)?.0,
                RecurrentCell::Lstm => f::lstm_packed(&packed, &x[1], &x[2], &weights, stack)?.0,
            };
            Ok(f::pad_packed_sequence(&packed, false, 0.0, total)?.0)
        })
    });
}

fn dense(
    cell: RecurrentCell,
    x: &[Tensor],
    weights: &[Weights],
    stack: Stack<'_>,
) -> Result<Tensor> {
    Ok(match cell {
        RecurrentCell::Tanh => f::rnn_tanh(&x[0], &x[1], weights, stack)?.0,
        RecurrentCell::Relu => f::rnn_relu(&x[0], &x[1], weights, stack)?.0,
        RecurrentCell::Gru => f::gru(&x[0], &x[1], weights, stack)?.0,
        RecurrentCell::Lstm => f::lstm(&x[0], &x[1], &x[2], weights, stack)?.0,
    })
}
