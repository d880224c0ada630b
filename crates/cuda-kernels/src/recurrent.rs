//! The elementwise part of one step of recurrent networks.
//!
//! # Determinism
//!
//! Portable: every element is the same sequence of correctly rounded operations. The documentation
//! of the operations in [`samebits_tensor_core::ops`] defines them.

use crate::launch::kernels::recurrent as kernels;
use crate::launch::{Buffer, Launch};

use crate::device::{Device, Float, expect_len, product};
use crate::error::Result;

/// The gates of one step.
#[derive(Clone, Copy, Debug)]
pub struct Gates<'a, T> {
    /// (n, gates · size): the gates of the input.
    pub x: &'a Buffer<T>,
    /// (n, gates · size): the gates of the hidden state.
    pub h: &'a Buffer<T>,
    /// (gates · size): the bias of the gates of the input.
    pub bias_x: Option<&'a Buffer<T>>,
    /// (gates · size): the bias of the gates of the hidden state.
    pub bias_h: Option<&'a Buffer<T>>,
}

/// Computes one step of a long short-term memory; `bias_h` is not used. Returns the hidden state,
/// the new cell and the activations.
///
/// # Shapes
///
/// With `[n, size] = shape`: the gates are (n, 4 · size), `cell` (n, size); returns (n, size) twice
/// and (n, 4 · size).
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn lstm_cell<T: Float>(
    device: &Device,
    shape: [usize; 2],
    gates: Gates<'_, T>,
    cell: &Buffer<T>,
) -> Result<(Buffer<T>, Buffer<T>, Buffer<T>)> {
    let op = "lstm_cell";
    let [states, width] = sizes(op, shape, 4)?;
    expect_len(op, "the gates of the input", gates.x, 4 * states)?;
    expect_len(op, "the gates", gates.h, 4 * states)?;
    if let Some(bias) = gates.bias_x {
        expect_len(op, "the bias", bias, width)?;
    }
    expect_len(op, "the cell", cell, states)?;
    let mut hidden = device.uninitialised(op, states)?;
    let mut next_cell = device.uninitialised(op, states)?;
    let mut activations = device.uninitialised(op, 4 * states)?;
    let [n, size] = shape;
    kernels::LstmCell {
        hidden: &mut hidden,
        next_cell: &mut next_cell,
        activations: &mut activations,
        x: gates.x,
        h: gates.h,
        // Without a bias the kernel does not read this argument.
        bias: gates.bias_x.unwrap_or(gates.x),
        cell,
        n,
        size,
        biased: u32::from(gates.bias_x.is_some()),
    }
    .threads(device, op, states)?;
    Ok((hidden, next_cell, activations))
}

/// Computes the gradient of [`lstm_cell`]: that of the gates and that of the previous cell.
///
/// # Shapes
///
/// The gradients, `cell` and `next_cell` are (n, size), `activations` (n, 4 · size); returns
/// (n, 4 · size) and (n, size).
///
/// # Errors
///
/// As [`lstm_cell`].
pub fn lstm_cell_grad<T: Float>(
    device: &Device,
    shape: [usize; 2],
    [grad_hidden, grad_cell]: [&Buffer<T>; 2],
    activations: &Buffer<T>,
    [cell, next_cell]: [&Buffer<T>; 2],
) -> Result<(Buffer<T>, Buffer<T>)> {
    let op = "lstm_cell";
    let [states, _] = sizes(op, shape, 4)?;
    expect_len(op, "the gradient of the hidden state", grad_hidden, states)?;
    expect_len(op, "the gradient of the cell", grad_cell, states)?;
    expect_len(op, "the activations", activations, 4 * states)?;
    expect_len(op, "the cell", cell, states)?;
    expect_len(op, "the cell after", next_cell, states)?;
    let mut grad_gates = device.uninitialised(op, 4 * states)?;
    let mut grad_previous = device.uninitialised(op, states)?;
    let [n, size] = shape;
    kernels::LstmCellGrad {
        grad_gates: &mut grad_gates,
        grad_previous: &mut grad_previous,
        grad_hidden,
        grad_cell,
        activations,
        cell,
        next_cell,
        n,
        size,
    }
    .threads(device, op, states)?;
    Ok((grad_gates, grad_previous))
}

/// Computes one step of a gated recurrent unit. Returns the hidden state and the activations.
///
/// # Shapes
///
/// With `[n, size] = shape`: the gates are (n, 3 · size), `hidden` (n, size); returns (n, size) and
/// (n, 4 · size).
///
/// # Errors
///
/// As [`lstm_cell`].
pub fn gru_cell<T: Float>(
    device: &Device,
    shape: [usize; 2],
    gates: Gates<'_, T>,
    hidden: &Buffer<T>,
) -> Result<(Buffer<T>, Buffer<T>)> {
    let op = "gru_cell";
    let [states, _] = sizes(op, shape, 4)?;
    let width = 3 * shape[1];
    expect_len(op, "the gates of the input", gates.x, 3 * states)?;
    expect_len(op, "the gates", gates.h, 3 * states)?;
    for bias in [gates.bias_x, gates.bias_h].into_iter().flatten() {
        expect_len(op, "the bias", bias, width)?;
    }
    expect_len(op, "the hidden state", hidden, states)?;
    let mut next = device.uninitialised(op, states)?;
    let mut activations = device.uninitialised(op, 4 * states)?;
    let [n, size] = shape;
    let biased = u32::from(gates.bias_x.is_some()) | u32::from(gates.bias_h.is_some()) << 1;
    kernels::GruCell {
        next: &mut next,
        activations: &mut activations,
        x: gates.x,
        h: gates.h,
        // Without a bias the kernel does not read this argument.
        bias_x: gates.bias_x.unwrap_or(gates.x),
        bias_h: gates.bias_h.unwrap_or(gates.h),
        hidden,
        n,
        size,
        biased,
    }
    .threads(device, op, states)?;
    Ok((next, activations))
}

/// Computes the gradient of [`gru_cell`]: that of the gates of the input, of the gates of the
/// hidden state, and of the previous hidden state.
///
/// # Shapes
///
/// `grad` and `hidden` are (n, size), `activations` (n, 4 · size); returns (n, 3 · size) twice and
/// (n, size).
///
/// # Errors
///
/// As [`lstm_cell`].
pub fn gru_cell_grad<T: Float>(
    device: &Device,
    shape: [usize; 2],
    grad: &Buffer<T>,
    activations: &Buffer<T>,
    hidden: &Buffer<T>,
) -> Result<(Buffer<T>, Buffer<T>, Buffer<T>)> {
    let op = "gru_cell";
    let [states, _] = sizes(op, shape, 4)?;
    expect_len(op, "the gradient", grad, states)?;
    expect_len(op, "the activations", activations, 4 * states)?;
    expect_len(op, "the hidden state", hidden, states)?;
    let mut grad_x = device.uninitialised(op, 3 * states)?;
    let mut grad_h = device.uninitialised(op, 3 * states)?;
    let mut grad_previous = device.uninitialised(op, states)?;
    let [n, size] = shape;
    kernels::GruCellGrad {
        grad_x: &mut grad_x,
        grad_h: &mut grad_h,
        grad_previous: &mut grad_previous,
        grad,
        activations,
        hidden,
        n,
        size,
    }
    .threads(device, op, states)?;
    Ok((grad_x, grad_h, grad_previous))
}

/// Returns the number of elements of a state and the width of its `gates` gates, if the number of
/// all gates does not overflow.
fn sizes(op: &'static str, [n, size]: [usize; 2], gates: usize) -> Result<[usize; 2]> {
    product(op, &[n, size, gates])?;
    Ok([n * size, gates * size])
}
