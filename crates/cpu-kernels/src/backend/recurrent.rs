use samebits_tensor_core::ops::{GruCell, GruCellGrad, LstmCell, LstmCellGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Result, Tensor};

use super::{Element, FLOATS, with_float};
use crate::recurrent::{self, Gates};

const EACH: &str = "each element is its own fixed sequence of correctly rounded operations";

pub(super) fn register_all() {
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &LstmCell| with_float!(op.cell.dtype(), T => lstm::<T>(op)),
    ));
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &LstmCellGrad| with_float!(op.cell.dtype(), T => lstm_grad::<T>(op)),
    ));
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &GruCell| with_float!(op.hidden.dtype(), T => gru::<T>(op)),
    ));
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &GruCellGrad| with_float!(op.hidden.dtype(), T => gru_grad::<T>(op)),
    ));
}

fn lstm<T: Element>(op: &LstmCell) -> Result<(Tensor, Tensor, Tensor)> {
    let (x, h, cell) = (op.gates_x.contiguous()?, op.gates_h.contiguous()?, op.cell.contiguous()?);
    let bias = op.bias.as_ref().map(Tensor::contiguous).transpose()?;
    let mut hidden = Tensor::scratch(cell.shape(), cell.dtype());
    let mut next_cell = Tensor::scratch(cell.shape(), cell.dtype());
    let mut activations = Tensor::scratch(x.shape(), cell.dtype());
    let gates = Gates {
        x: x.as_slice::<T>()?,
        h: h.as_slice()?,
        bias_x: bias.as_ref().map(Tensor::as_slice).transpose()?,
        bias_h: None,
    };
    recurrent::lstm_cell(
        cell.shape()[1],
        gates,
        cell.as_slice()?,
        hidden.as_mut_slice()?,
        next_cell.as_mut_slice()?,
        activations.as_mut_slice()?,
    );
    Ok((hidden, next_cell, activations))
}

fn lstm_grad<T: Element>(op: &LstmCellGrad) -> Result<(Tensor, Tensor)> {
    let (grad_hidden, grad_cell) = (op.grad_hidden.contiguous()?, op.grad_cell.contiguous()?);
    let activations = op.activations.contiguous()?;
    let (cell, next_cell) = (op.cell.contiguous()?, op.next_cell.contiguous()?);
    let mut grad_gates = Tensor::scratch(activations.shape(), cell.dtype());
    let mut grad_previous = Tensor::scratch(cell.shape(), cell.dtype());
    recurrent::lstm_cell_backward::<T>(
        cell.shape()[1],
        [grad_hidden.as_slice()?, grad_cell.as_slice()?],
        activations.as_slice()?,
        [cell.as_slice()?, next_cell.as_slice()?],
        grad_gates.as_mut_slice()?,
        grad_previous.as_mut_slice()?,
    );
    Ok((grad_gates, grad_previous))
}

fn gru<T: Element>(op: &GruCell) -> Result<(Tensor, Tensor)> {
    let (x, h, hidden) =
        (op.gates_x.contiguous()?, op.gates_h.contiguous()?, op.hidden.contiguous()?);
    let bias_x = op.bias_x.as_ref().map(Tensor::contiguous).transpose()?;
    let bias_h = op.bias_h.as_ref().map(Tensor::contiguous).transpose()?;
    let &[n, size] = hidden.shape() else { unreachable!("the operation checked its rank") };
    let mut next = Tensor::scratch(&[n, size], hidden.dtype());
    let mut activations = Tensor::scratch(&[n, 4 * size], hidden.dtype());
    let gates = Gates {
        x: x.as_slice::<T>()?,
        h: h.as_slice()?,
        bias_x: bias_x.as_ref().map(Tensor::as_slice).transpose()?,
        bias_h: bias_h.as_ref().map(Tensor::as_slice).transpose()?,
    };
    recurrent::gru_cell(
        size,
        gates,
        hidden.as_slice()?,
        next.as_mut_slice()?,
        activations.as_mut_slice()?,
    );
    Ok((next, activations))
}

fn gru_grad<T: Element>(op: &GruCellGrad) -> Result<(Tensor, Tensor, Tensor)> {
    let (grad, hidden) = (op.grad.contiguous()?, op.hidden.contiguous()?);
    let activations = op.activations.contiguous()?;
    let &[n, size] = hidden.shape() else { unreachable!("the operation checked its rank") };
    let mut grad_x = Tensor::scratch(&[n, 3 * size], hidden.dtype());
    let mut grad_h = Tensor::scratch(&[n, 3 * size], hidden.dtype());
    let mut grad_previous = Tensor::scratch(&[n, size], hidden.dtype());
    recurrent::gru_cell_backward::<T>(
        size,
        grad.as_slice()?,
        activations.as_slice()?,
        hidden.as_slice()?,
        [grad_x.as_mut_slice()?, grad_h.as_mut_slice()?],
        grad_previous.as_mut_slice()?,
    );
    Ok((grad_x, grad_h, grad_previous))
}
