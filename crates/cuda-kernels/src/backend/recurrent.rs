use samebits_tensor_core::ops::{GruCell, GruCellGrad, LstmCell, LstmCellGrad};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{Op, Tensor};

use super::memory::Input;
use super::{EACH, FLOATS, Failure, Gpu, Real, Tensors, on, portable, with_float};
use crate::error::CudaError;
use crate::recurrent::{self, Gates};

pub(super) fn register_all() {
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &LstmCell, ()| with_float!(op.cell.dtype(), T => lstm::<T>(op)),
    ));
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &LstmCellGrad, ()| with_float!(op.cell.dtype(), T => lstm_grad::<T>(op)),
    ));
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &GruCell, ()| with_float!(op.hidden.dtype(), T => gru::<T>(op)),
    ));
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &GruCellGrad, ()| with_float!(op.hidden.dtype(), T => gru_grad::<T>(op)),
    ));
}

fn lstm<T: Real>(op: &LstmCell) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let shape = shape::<LstmCell>(&op.cell)?;
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

fn lstm_grad<T: Real>(op: &LstmCellGrad) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let shape = shape::<LstmCellGrad>(&op.cell)?;
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

fn gru<T: Real>(op: &GruCell) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let [n, size] = shape::<GruCell>(&op.hidden)?;
        let (x, h, hidden) =
            (gpu.input(&op.gates_x)?, gpu.input(&op.gates_h)?, gpu.input::<T>(&op.hidden)?);
        let (bias_x, bias_h) = (bias(&gpu, &op.bias_x)?, bias(&gpu, &op.bias_h)?);
        let gates = Gates { x: &x, h: &h, bias_x: bias_x.as_deref(), bias_h: bias_h.as_deref() };
        let (next, activations) = recurrent::gru_cell(gpu.device, [n, size], gates, &hidden)?;
        Ok((gpu.tensor(next, &[n, size])?, gpu.tensor(activations, &[n, 4 * size])?))
    })
}

fn gru_grad<T: Real>(op: &GruCellGrad) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let [n, size] = shape::<GruCellGrad>(&op.hidden)?;
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

/// Returns the number of rows and units of a state.
fn shape<O: Op>(state: &Tensor) -> Result<[usize; 2], Failure> {
    state.shape().try_into().map_err(|_| {
        let message = format!("expected a state of shape [n, size], got {:?}", state.shape());
        CudaError::invalid(O::NAME, message).into()
    })
}

fn bias<T: Real>(gpu: &Gpu<'_>, bias: &Option<Tensor>) -> Result<Option<Input<T>>, Failure> {
    bias.as_ref().map(|bias| gpu.input(bias)).transpose()
}
