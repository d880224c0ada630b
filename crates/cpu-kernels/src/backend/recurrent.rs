use samebits_tensor_core::ops::{
    GruCell, GruCellGrad, LstmCell, LstmCellGrad, RecurrentCell, RecurrentLayer, RecurrentLayerGrad,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Result, Tensor};

use super::{Element, FLOATS, with_float};
use crate::gemm::Real;
use crate::parallel::threads;
use crate::recurrent::{self, Gates, Grads, Kept, KeptMut, Layer, Outputs};

const STEPS: &str =
    "sequences are independent; products have a fixed order, cells a fixed sequence of operations";
const EACH: &str = "each element is its own fixed sequence of correctly rounded operations";

pub(super) fn register_all() {
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &LstmCell, &shape| with_float!(op.cell.dtype(), T => lstm::<T>(op, shape)),
    ));
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &LstmCellGrad, &shape| with_float!(op.cell.dtype(), T => lstm_grad::<T>(op, shape)),
    ));
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &GruCell, &shape| with_float!(op.hidden.dtype(), T => gru::<T>(op, shape)),
    ));
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &GruCellGrad, &shape| with_float!(op.hidden.dtype(), T => gru_grad::<T>(op, shape)),
    ));
    let mut by_sequence = Kernel::portable(
        "by-sequence",
        FLOATS,
        STEPS,
        |op: &RecurrentLayer, ()| with_float!(op.gates.dtype(), T => layer::<T>(op)),
    );
    by_sequence.applies = shares_sequences;
    register(by_sequence);
    register(Kernel::portable(
        "by-sequence",
        FLOATS,
        STEPS,
        |op: &RecurrentLayerGrad, ()| with_float!(op.grad.dtype(), T => layer_grad::<T>(op)),
    ));
}

/// Returns true if there are sequences for all threads, or the products are too small to be split
/// between threads.
fn shares_sequences(op: &RecurrentLayer, (): &()) -> bool {
    let weights = op.weight_hh.numel();
    weights > 0 && (op.batch_sizes[0] >= threads() || weights <= 1 << 16)
}

fn lstm<T: Element>(op: &LstmCell, [_, size]: [usize; 2]) -> Result<(Tensor, Tensor, Tensor)> {
    let (x, h, cell) = (op.gates_x.contiguous()?, op.gates_h.contiguous()?, op.cell.contiguous()?);
    let bias = op.bias.as_ref().map(Tensor::contiguous).transpose()?;
    let mut hidden = Tensor::scratch(cell.shape(), cell.dtype())?;
    let mut next_cell = Tensor::scratch(cell.shape(), cell.dtype())?;
    let mut activations = Tensor::scratch(x.shape(), cell.dtype())?;
    let gates = Gates {
        x: x.as_slice::<T>()?,
        h: h.as_slice()?,
        bias_x: bias.as_ref().map(Tensor::as_slice).transpose()?,
        bias_h: None,
    };
    recurrent::lstm_cell(
        size,
        gates,
        cell.as_slice()?,
        hidden.as_mut_slice()?,
        next_cell.as_mut_slice()?,
        activations.as_mut_slice()?,
    )?;
    Ok((hidden, next_cell, activations))
}

fn lstm_grad<T: Element>(op: &LstmCellGrad, [_, size]: [usize; 2]) -> Result<(Tensor, Tensor)> {
    let (grad_hidden, grad_cell) = (op.grad_hidden.contiguous()?, op.grad_cell.contiguous()?);
    let activations = op.activations.contiguous()?;
    let (cell, next_cell) = (op.cell.contiguous()?, op.next_cell.contiguous()?);
    let mut grad_gates = Tensor::scratch(activations.shape(), cell.dtype())?;
    let mut grad_previous = Tensor::scratch(cell.shape(), cell.dtype())?;
    recurrent::lstm_cell_backward::<T>(
        size,
        [grad_hidden.as_slice()?, grad_cell.as_slice()?],
        activations.as_slice()?,
        [cell.as_slice()?, next_cell.as_slice()?],
        grad_gates.as_mut_slice()?,
        grad_previous.as_mut_slice()?,
    )?;
    Ok((grad_gates, grad_previous))
}

fn gru<T: Element>(op: &GruCell, [n, size]: [usize; 2]) -> Result<(Tensor, Tensor)> {
    let (x, h, hidden) =
        (op.gates_x.contiguous()?, op.gates_h.contiguous()?, op.hidden.contiguous()?);
    let bias_x = op.bias_x.as_ref().map(Tensor::contiguous).transpose()?;
    let bias_h = op.bias_h.as_ref().map(Tensor::contiguous).transpose()?;
    let mut next = Tensor::scratch(&[n, size], hidden.dtype())?;
    let mut activations = Tensor::scratch(&[n, 4 * size], hidden.dtype())?;
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
    )?;
    Ok((next, activations))
}

fn gru_grad<T: Element>(
    op: &GruCellGrad,
    [n, size]: [usize; 2],
) -> Result<(Tensor, Tensor, Tensor)> {
    let (grad, hidden) = (op.grad.contiguous()?, op.hidden.contiguous()?);
    let activations = op.activations.contiguous()?;
    let mut grad_x = Tensor::scratch(&[n, 3 * size], hidden.dtype())?;
    let mut grad_h = Tensor::scratch(&[n, 3 * size], hidden.dtype())?;
    let mut grad_previous = Tensor::scratch(&[n, size], hidden.dtype())?;
    recurrent::gru_cell_backward::<T>(
        size,
        grad.as_slice()?,
        activations.as_slice()?,
        hidden.as_slice()?,
        [grad_x.as_mut_slice()?, grad_h.as_mut_slice()?],
        grad_previous.as_mut_slice()?,
    )?;
    Ok((grad_x, grad_h, grad_previous))
}

/// The tensors of a [`RecurrentLayer`], contiguous.
struct Operands {
    gates: Tensor,
    weight_hh: Tensor,
    bias_x: Option<Tensor>,
    bias_h: Option<Tensor>,
    weight_hr: Option<Tensor>,
    hidden: Tensor,
    cells: Option<Tensor>,
}

impl Operands {
    fn new(op: &RecurrentLayer) -> Result<Operands> {
        let optional = |x: &Option<Tensor>| x.as_ref().map(Tensor::contiguous).transpose();
        Ok(Operands {
            gates: op.gates.contiguous()?,
            weight_hh: op.weight_hh.contiguous()?,
            bias_x: optional(&op.bias_x)?,
            bias_h: optional(&op.bias_h)?,
            weight_hr: optional(&op.weight_hr)?,
            hidden: op.hidden.contiguous()?,
            cells: optional(&op.cells)?,
        })
    }

    fn layer<'a, T: Element>(&'a self, op: &'a RecurrentLayer) -> Result<Layer<'a, T>> {
        let optional = |x: &'a Option<Tensor>| x.as_ref().map(Tensor::as_slice).transpose();
        Ok(Layer {
            cell: op.cell,
            reverse: op.reverse,
            batch_sizes: &op.batch_sizes,
            size: op.size(),
            state: self.hidden.shape()[1],
            gates: self.gates.as_slice()?,
            weight_hh: self.weight_hh.as_slice()?,
            bias_x: optional(&self.bias_x)?,
            bias_h: optional(&self.bias_h)?,
            weight_hr: optional(&self.weight_hr)?,
            hidden: self.hidden.as_slice()?,
            cells: optional(&self.cells)?,
        })
    }
}

fn layer<T: Element + Real>(op: &RecurrentLayer) -> Result<(Tensor, Vec<Tensor>)> {
    let operands = Operands::new(op)?;
    let layer = operands.layer::<T>(op)?;
    let (rows, n) = (op.gates.shape()[0], op.batch_sizes[0]);
    let (size, state) = (layer.size, layer.state);
    let lstm = op.cell == RecurrentCell::Lstm;
    let new =
        |wanted: bool, width| wanted.then(|| Tensor::scratch(&[rows, width], T::DTYPE)).transpose();
    let gated = matches!(op.cell, RecurrentCell::Gru | RecurrentCell::Lstm);
    let mut kept: [Option<Tensor>; 3] = [
        new(op.keep && gated, 4 * size)?,
        new(op.keep && lstm, size)?,
        new(op.keep && op.weight_hr.is_some(), size)?,
    ];
    let flat = (rows + n) * state + if lstm { n * size } else { 0 };
    let mut result = Tensor::scratch(&[flat], T::DTYPE)?;
    let (output, last) = result.as_mut_slice()?.split_at_mut(rows * state);
    let (hidden, cells) = last.split_at_mut(n * state);
    let [activations, kept_cells, unprojected] =
        kept.each_mut().map(|x| x.as_mut().map_or(Ok(Default::default()), Tensor::as_mut_slice));
    let (activations, kept_cells) = (activations?, kept_cells?);
    let kept_slices = KeptMut { activations, cells: kept_cells, unprojected: unprojected? };
    recurrent::forward(&layer, Outputs { output, hidden, cells, kept: Some(kept_slices) })?;
    Ok((result, kept.into_iter().flatten().collect()))
}

fn layer_grad<T: Element + Real>(op: &RecurrentLayerGrad) -> Result<Vec<Tensor>> {
    let operands = Operands::new(&op.layer)?;
    let layer = operands.layer::<T>(&op.layer)?;
    let (rows, n) = (op.layer.gates.shape()[0], op.layer.batch_sizes[0]);
    let (size, state, width) = (layer.size, layer.state, op.layer.gates.shape()[1]);
    let (grad, result) = (op.grad.contiguous()?, op.result.contiguous()?);
    let kept = op.kept.iter().map(Tensor::contiguous).collect::<Result<Vec<_>>>()?;
    let kept = |i: usize| kept.get(i).map_or(Ok(Default::default()), Tensor::as_slice::<T>);
    let kept = Kept {
        output: &result.as_slice()?[..rows * state],
        activations: kept(0)?,
        cells: kept(1)?,
    };
    let (output, last) = grad.as_slice()?.split_at(rows * state);
    let (hidden, cells) = last.split_at(n * state);
    let new = |wanted: bool, rows: usize, width: usize| {
        wanted.then(|| Tensor::scratch(&[rows, width], T::DTYPE)).transpose()
    };
    let cell = op.layer.cell;
    let mut grads = [
        new(true, rows, width)?,
        new(true, n, state)?,
        new(cell == RecurrentCell::Lstm, n, size)?,
        new(cell == RecurrentCell::Gru, rows, width)?,
        new(op.layer.weight_hr.is_some(), rows, state)?,
    ];
    let [gates, to_hidden, to_cells, gates_h, projected] =
        grads.each_mut().map(|x| x.as_mut().map_or(Ok(Default::default()), Tensor::as_mut_slice));
    let (gates, gates_h, projected) = (gates?, gates_h?, projected?);
    let slices = Grads { gates, gates_h, projected, hidden: to_hidden?, cells: to_cells? };
    recurrent::backward(&layer, [output, hidden, cells], kept, slices)?;
    Ok(grads.into_iter().flatten().collect())
}
