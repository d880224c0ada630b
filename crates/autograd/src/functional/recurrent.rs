//! Recurrent networks: layers, directions, dropout between layers.

mod composed;
mod direction;
mod packed;
mod steps;

pub use packed::{PackedSequence, pack_padded_sequence, pad_packed_sequence};

use samebits_macros::Module;
use samebits_macros::named;
use samebits_numerics::memory;
use samebits_rng::Generator;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{Error, Result};

use super::elementwise::add;
use super::loss::expect_shape;
use super::shape::{cat, narrow, reshape, stack, transpose};
use super::{dropout_with, linear};
use crate::Tensor;
use crate::half::Holder;
use direction::{Direction, Kind, States, name};

/// The parameters of one direction of one layer, under PyTorch's names.
#[derive(Clone, Debug, Module)]
pub struct Weights {
    /// The input weights, `[gates · hidden, input]`; later layers take the output of the layer
    /// before.
    pub weight_ih: Tensor,
    /// The recurrent weights, `[gates · hidden, hidden]` or `[gates · hidden, projection]`.
    pub weight_hh: Tensor,
    /// The input bias, `[gates · hidden]`.
    pub bias_ih: Option<Tensor>,
    /// The recurrent bias, `[gates · hidden]`.
    pub bias_hh: Option<Tensor>,
    /// The projection of an LSTM's hidden state, `[projection, hidden]`.
    pub weight_hr: Option<Tensor>,
}

impl Holder for Weights {
    fn each(&self, visit: &mut dyn FnMut(&Tensor)) {
        visit(&self.weight_ih);
        visit(&self.weight_hh);
        [&self.bias_ih, &self.bias_hh, &self.weight_hr].into_iter().flatten().for_each(visit);
    }

    fn with_each(&self, change: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Weights> {
        let mut option = |x: &Option<Tensor>| x.as_ref().map(&mut *change).transpose();
        let (bias_ih, bias_hh) = (option(&self.bias_ih)?, option(&self.bias_hh)?);
        let weight_hr = option(&self.weight_hr)?;
        let (weight_ih, weight_hh) = (change(&self.weight_ih)?, change(&self.weight_hh)?);
        Ok(Weights { weight_ih, weight_hh, bias_ih, bias_hh, weight_hr })
    }
}

/// The arrangement of a recurrent network's layers.
#[derive(Debug, Default)]
pub struct Stack<'a> {
    /// If true, every layer also runs backward in time. The weights are then ordered: layer 0
    /// forward, layer 0 backward, layer 1 forward, ..
    pub bidirectional: bool,
    /// If true, the input is `[n, steps, ..]`, else `[steps, n, ..]`.
    pub batch_first: bool,
    /// The probability of dropping an element between layers, and the generator that draws.
    pub dropout: Option<(f64, &'a mut Generator)>,
}

/// Runs a recurrent network with `tanh`: `h' = tanh(x·W_ihᵀ + (b_ih + b_hh) + h·W_hhᵀ)`.
///
/// Returns the output of the last layer at every step and the last hidden state of all layers.
///
/// # Shapes
///
/// `input` is `[steps, n, input]` (see [`Stack::batch_first`]) and `h0`
/// `[layers · directions, n, hidden]`; both may omit `n`. The output has the directions side by
/// side.
///
/// # Determinism
///
/// Composed of [`matmul`](super::matmul) and elementwise operations, step by step. The gradient of
/// `weight_hh` is one product over all steps and samples, ascending by step, then by sample.
///
/// # Errors
///
/// The shapes do not match, or there is no step.
#[named]
#[track_caller]
pub fn rnn_tanh(
    input: &Tensor,
    h0: &Tensor,
    weights: &[Weights],
    stack: Stack<'_>,
) -> Result<(Tensor, Tensor)> {
    let (output, [h_n, ..]) = dense(Kind::Tanh, input, &[h0], weights, stack)?;
    Ok((output, h_n))
}

/// Runs [`rnn_tanh`] with `max(x, 0)` instead of the hyperbolic tangent.
///
/// # Errors
///
/// As [`rnn_tanh`].
#[named]
#[track_caller]
pub fn rnn_relu(
    input: &Tensor,
    h0: &Tensor,
    weights: &[Weights],
    stack: Stack<'_>,
) -> Result<(Tensor, Tensor)> {
    let (output, [h_n, ..]) = dense(Kind::Relu, input, &[h0], weights, stack)?;
    Ok((output, h_n))
}

/// Runs a network of gated recurrent units; [`GruCell`](samebits_tensor_core::ops::GruCell) states
/// each step.
///
/// # Shapes
///
/// As [`rnn_tanh`], with three gates in the order r, z, n.
///
/// # Determinism
///
/// As [`rnn_tanh`].
///
/// # Errors
///
/// As [`rnn_tanh`].
#[named]
#[track_caller]
pub fn gru(
    input: &Tensor,
    h0: &Tensor,
    weights: &[Weights],
    stack: Stack<'_>,
) -> Result<(Tensor, Tensor)> {
    let (output, [h_n, ..]) = dense(Kind::Gru, input, &[h0], weights, stack)?;
    Ok((output, h_n))
}

/// Runs a long short-term memory network; [`LstmCell`](samebits_tensor_core::ops::LstmCell) states
/// each step.
///
/// Returns the output of the last layer at every step, and the last hidden and cell states of all
/// layers.
///
/// # Shapes
///
/// As [`rnn_tanh`], with four gates in the order i, f, g, o. `c0` has the shape of `h0`, but is
/// `hidden` wide even if the hidden state is projected.
///
/// # Determinism
///
/// As [`rnn_tanh`].
///
/// # Errors
///
/// As [`rnn_tanh`].
#[named]
#[track_caller]
pub fn lstm(
    input: &Tensor,
    h0: &Tensor,
    c0: &Tensor,
    weights: &[Weights],
    stack: Stack<'_>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (output, [h_n, c_n]) = dense(Kind::Lstm, input, &[h0, c0], weights, stack)?;
    Ok((output, h_n, c_n))
}

/// Runs [`rnn_tanh`] on packed sequences. The states are in the order of the sequences before
/// packing.
///
/// # Errors
///
/// As [`rnn_tanh`].
#[named]
#[track_caller]
pub fn rnn_tanh_packed(
    input: &PackedSequence,
    h0: &Tensor,
    weights: &[Weights],
    stack: Stack<'_>,
) -> Result<(PackedSequence, Tensor)> {
    let (output, [h_n, ..]) = packed(Kind::Tanh, input, &[h0], weights, stack)?;
    Ok((output, h_n))
}

/// Runs [`rnn_relu`] on packed sequences, as [`rnn_tanh_packed`] does.
///
/// # Errors
///
/// As [`rnn_tanh`].
#[named]
#[track_caller]
pub fn rnn_relu_packed(
    input: &PackedSequence,
    h0: &Tensor,
    weights: &[Weights],
    stack: Stack<'_>,
) -> Result<(PackedSequence, Tensor)> {
    let (output, [h_n, ..]) = packed(Kind::Relu, input, &[h0], weights, stack)?;
    Ok((output, h_n))
}

/// Runs [`gru`] on packed sequences, as [`rnn_tanh_packed`] does.
///
/// # Errors
///
/// As [`rnn_tanh`].
#[named]
#[track_caller]
pub fn gru_packed(
    input: &PackedSequence,
    h0: &Tensor,
    weights: &[Weights],
    stack: Stack<'_>,
) -> Result<(PackedSequence, Tensor)> {
    let (output, [h_n, ..]) = packed(Kind::Gru, input, &[h0], weights, stack)?;
    Ok((output, h_n))
}

/// Runs [`lstm`] on packed sequences, as [`rnn_tanh_packed`] does.
///
/// # Errors
///
/// As [`rnn_tanh`].
#[named]
#[track_caller]
pub fn lstm_packed(
    input: &PackedSequence,
    h0: &Tensor,
    c0: &Tensor,
    weights: &[Weights],
    stack: Stack<'_>,
) -> Result<(PackedSequence, Tensor, Tensor)> {
    let (output, [h_n, c_n]) = packed(Kind::Lstm, input, &[h0, c0], weights, stack)?;
    Ok((output, h_n, c_n))
}

#[track_caller]
fn dense(
    kind: Kind,
    input: &Tensor,
    states: &[&Tensor],
    weights: &[Weights],
    options: Stack<'_>,
) -> Result<(Tensor, States)> {
    let op = name(kind);
    if let [steps, width] = *input.shape() {
        // A single sequence has the same shape for both orders.
        let one = |state: &Tensor| match *state.shape() {
            [layers, width] => reshape(state, [layers, 1, width]),
            _ => Err(Error::invalid(
                op,
                format!("expected states of shape [layers, hidden], got {:?}", state.shape()),
            )),
        };
        let states = states.iter().map(|state| one(state)).collect::<Result<Vec<Tensor>>>()?;
        let states: Vec<&Tensor> = states.iter().collect();
        let input = reshape(input, [steps, 1, width])?;
        let options = Stack { batch_first: false, ..options };
        let (output, states) = dense(kind, &input, &states, weights, options)?;
        let without = |x: &Tensor| reshape(x, [x.shape()[0], x.shape()[2]]);
        return Ok((without(&output)?, [without(&states[0])?, without(&states[1])?]));
    }
    if input.shape().len() != 3 {
        return Err(Error::invalid(
            op,
            format!("expected an input of shape [steps, n, input], got {:?}", input.shape()),
        ));
    }
    let batch_first = options.batch_first;
    let input = if batch_first { transpose(input, 0, 1)? } else { input.clone() };
    let &[steps, n, width] = input.shape() else { unreachable!("its rank was checked") };
    let rows = reshape(&input, [numel(op, &[steps, n])?, width])?;
    let sizes = memory::filled(steps, n).map_err(Error::out_of_host_memory(op))?;
    let (output, states) = layers(kind, rows, &sizes, states, weights, options)?;
    let width = output.shape()[1];
    let output = reshape(&output, [steps, n, width])?;
    let output = if batch_first { transpose(&output, 0, 1)? } else { output };
    Ok((output, states))
}

#[track_caller]
fn packed(
    kind: Kind,
    input: &PackedSequence,
    states: &[&Tensor],
    weights: &[Weights],
    options: Stack<'_>,
) -> Result<(PackedSequence, States)> {
    let n = input.sequences();
    for state in states {
        let [layers, _, width] = *state.shape() else {
            return Err(Error::invalid(
                name(kind),
                format!("expected states of shape [layers, {n}, hidden], got {:?}", state.shape()),
            ));
        };
        expect_shape(name(kind), "a first state", state, &[layers, n, width])?;
    }
    let sorted = states.iter().map(|state| input.sort(state)).collect::<Result<Vec<Tensor>>>()?;
    let sorted: Vec<&Tensor> = sorted.iter().collect();
    let (output, states) =
        layers(kind, input.data().clone(), input.batch_sizes(), &sorted, weights, options)?;
    let states = [input.unsort(&states[0])?, input.unsort(&states[1])?];
    Ok((input.with_data(output), states))
}

/// Runs all layers over packed rows.
#[track_caller]
fn layers(
    kind: Kind,
    mut data: Tensor,
    batch_sizes: &[usize],
    states: &[&Tensor],
    weights: &[Weights],
    mut options: Stack<'_>,
) -> Result<(Tensor, States)> {
    let op = name(kind);
    let directions = if options.bidirectional { 2 } else { 1 };
    if weights.is_empty() || !weights.len().is_multiple_of(directions) {
        return Err(Error::invalid(
            op,
            format!("{} sets of weights for {directions} directions per layer", weights.len()),
        ));
    }
    let Some(&n) = batch_sizes.first() else {
        return Err(Error::invalid(op, "expected at least one step"));
    };
    let layer_count = weights.len() / directions;
    let mut last: [Vec<Tensor>; 2] = [Vec::new(), Vec::new()];
    for (layer, weights) in weights.chunks_exact(directions).enumerate() {
        let mut outputs = Vec::new();
        for (reverse, weights) in [false, true].into_iter().zip(weights) {
            let index = layer * directions + usize::from(reverse);
            let (input, hidden) = (data.shape()[1], weights.check(kind, data.shape()[1])?);
            debug_assert_eq!(input, weights.weight_ih.shape()[1], "checked");
            let widths = [weights.output_width(hidden), hidden];
            let first = states
                .iter()
                .zip(widths)
                .map(|(state, width)| {
                    let shape = [layer_count * directions, n, width];
                    expect_shape(op, "a first state", state, &shape)?;
                    reshape(&narrow(state, 0, index, 1)?, [n, width])
                })
                .collect::<Result<Vec<Tensor>>>()?;
            let (output, [h, c]) =
                run_direction(kind, &data, batch_sizes, &first, weights, reverse)?;
            outputs.push(output);
            last[0].push(h);
            last[1].push(c);
        }
        data = if outputs.len() == 1 { outputs.remove(0) } else { cat(&outputs, 1)? };
        if let (Some((p, generator)), true) = (&mut options.dropout, layer + 1 < layer_count) {
            data = dropout_with(&data, *p, generator)?;
        }
    }
    Ok((data, [stack(&last[0], 0)?, stack(&last[1], 0)?]))
}

#[track_caller]
fn run_direction(
    kind: Kind,
    data: &Tensor,
    batch_sizes: &[usize],
    first: &[Tensor],
    weights: &Weights,
    reverse: bool,
) -> Result<(Tensor, States)> {
    let (bias_ih, bias_hh) = (&weights.bias_ih, &weights.bias_hh);
    // If both biases are added to the same sum, they are first added to each other.
    let (mut bias_x, mut bias_h) = match kind {
        Kind::Gru => (bias_ih.clone(), bias_hh.clone()),
        _ => match (bias_ih, bias_hh) {
            (Some(x), Some(h)) => (Some(add(x, h)?), None),
            (x, h) => (x.clone().or_else(|| h.clone()), None),
        },
    };
    let in_product = if matches!(kind, Kind::Tanh | Kind::Relu) { bias_x.take() } else { None };
    let gates = linear(data, &weights.weight_ih, in_product.as_ref())?;
    let direction = Direction {
        kind,
        reverse,
        batch_sizes: batch_sizes.to_vec(),
        gates,
        weight_hh: weights.weight_hh.clone(),
        bias_x,
        bias_h: bias_h.take(),
        weight_hr: weights.weight_hr.clone(),
        h0: first[0].clone(),
        c0: first.get(1).cloned(),
    };
    direction.run()
}

impl Weights {
    /// Returns the width of the output.
    fn output_width(&self, hidden: usize) -> usize {
        self.weight_hr.as_ref().map_or(hidden, |weight| weight.shape()[0])
    }

    /// Checks all shapes and returns the number of hidden units.
    fn check(&self, kind: Kind, input: usize) -> Result<usize> {
        let op = name(kind);
        let gates = kind.gates();
        let rows = match *self.weight_ih.shape() {
            [rows, columns] if columns == input && rows.is_multiple_of(gates) => rows,
            ref shape => {
                return Err(Error::invalid(
                    op,
                    format!(
                        "expected weight_ih of shape [{gates} · hidden, {input}], got {shape:?}"
                    ),
                ));
            }
        };
        let hidden = rows / gates;
        let mut state = hidden;
        if let Some(weight) = &self.weight_hr {
            match *weight.shape() {
                [projection, columns] if columns == hidden && kind == Kind::Lstm => {
                    state = projection;
                }
                ref shape => {
                    return Err(Error::invalid(
                        op,
                        format!(
                            "expected weight_hr of shape [projection, {hidden}] of an LSTM, got \
                             {shape:?}"
                        ),
                    ));
                }
            }
        }
        expect_shape(op, "weight_hh", &self.weight_hh, &[rows, state])?;
        for (what, bias) in [("bias_ih", &self.bias_ih), ("bias_hh", &self.bias_hh)] {
            if let Some(bias) = bias {
                expect_shape(op, what, bias, &[rows])?;
            }
        }
        Ok(hidden)
    }
}
