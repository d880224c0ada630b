use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::{GruCell, GruCellGrad, LstmCell, LstmCellGrad};
use samebits_tensor_core::registry::register;

use super::memory::Input;
use super::{EACH, FLOATS, Failure, Gpu, Real, Tensors, on, portable, with_float};
use crate::recurrent::{self, Gates};

pub(super) fn register_all() {
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &LstmCell, &shape| with_float!(op.cell.dtype(), T => lstm::<T>(op, shape)),
    ));
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &LstmCellGrad, &shape| with_float!(op.cell.dtype(), T => lstm_grad::<T>(op, shape)),
    ));
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &GruCell, &shape| with_float!(op.hidden.dtype(), T => gru::<T>(op, shape)),
    ));
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &GruCellGrad, &shape| with_float!(op.hidden.dtype(), T => gru_grad::<T>(op, shape)),
    ));
}

fn lstm<T: Real>(op: &LstmCell, shape: [usize; 2]) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let (x, h, cell) =
            (gpu.input(&op.gates_x)?, gpu.input(&op.gates_h)?, gpu.input::<T>(&op.cell)?);
        let bias = bias(&gpu, &op.bias)?;
        let gates = Gates { x: &x, h: &h, bias_x: bias.as_deref(), bias_h: None };
        let (hidden, next_cell, activations) =
            recurrent::lstm_cell(gpu.device, shape, gates, &cell)?;
        Ok((
            gpu.tensor(hidden, op.cell.shape())?,
            gpu.tensor(next_cell, op.cell.shape())?,
            gpu.tensor(activations, op.gates_x.shape())?,
        ))
    })
}

fn lstm_grad<T: Real>(op: &LstmCellGrad, shape: [usize; 2]) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let (grad_hidden, grad_cell) =
            (gpu.input::<T>(&op.grad_hidden)?, gpu.input(&op.grad_cell)?);
        let activations = gpu.input(&op.activations)?;
        let (cell, next_cell) = (gpu.input(&op.cell)?, gpu.input(&op.next_cell)?);
        let (grad_gates, grad_previous) = recurrent::lstm_cell_grad(
            gpu.device,
            shape,
            [&grad_hidden, &grad_cell],
            &activations,
            [&cell, &next_cell],
        )?;
        Ok((
            gpu.tensor(grad_gates, op.activations.shape())?,
            gpu.tensor(grad_previous, op.cell.shape())?,
        ))
    })
}

fn gru<T: Real>(op: &GruCell, [n, size]: [usize; 2]) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let (x, h, hidden) =
            (gpu.input(&op.gates_x)?, gpu.input(&op.gates_h)?, gpu.input::<T>(&op.hidden)?);
        let (bias_x, bias_h) = (bias(&gpu, &op.bias_x)?, bias(&gpu, &op.bias_h)?);
        let gates = Gates { x: &x, h: &h, bias_x: bias_x.as_deref(), bias_h: bias_h.as_deref() };
        let (next, activations) = recurrent::gru_cell(gpu.device, [n, size], gates, &hidden)?;
        Ok((gpu.tensor(next, &[n, size])?, gpu.tensor(activations, &[n, 4 * size])?))
    })
}

fn gru_grad<T: Real>(op: &GruCellGrad, [n, size]: [usize; 2]) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let (grad, hidden) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.hidden)?);
        let activations = gpu.input(&op.activations)?;
        let (grad_x, grad_h, grad_previous) =
            recurrent::gru_cell_grad(gpu.device, [n, size], &grad, &activations, &hidden)?;
        Ok((
            gpu.tensor(grad_x, &[n, 3 * size])?,
            gpu.tensor(grad_h, &[n, 3 * size])?,
            gpu.tensor(grad_previous, &[n, size])?,
        ))
    })
}

fn bias<T: Real>(gpu: &Gpu<'_>, bias: &Option<Tensor>) -> Result<Option<Input<T>>, Failure> {
    bias.as_ref().map(|bias| gpu.input(bias)).transpose()
}
