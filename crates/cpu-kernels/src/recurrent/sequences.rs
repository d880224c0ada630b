//! All steps of one direction of a layer. Threads share the sequences, which are independent of
//! each other, so no step waits for another thread.

use std::ops::Range;

use samebits_numerics::memory::{self, OutOfMemory};
use samebits_tensor_core::ops::{BinaryKind, UnaryKind};

use super::{Gates, GruBackward, expect_lens, gru_row, lstm_row, lstm_row_backward};
use crate::elementwise::{self, Elementary, Operand};
use crate::gemm::Real;
use crate::gemm::pack::Lanes;
use crate::gemm::reused::Reused;
use crate::parallel::{self, threads};
use crate::{Error, Result};

pub use samebits_tensor_core::ops::RecurrentCell as Cell;

/// The operands of all steps. Rows are packed: the rows of step 0, then those of step 1, and so on.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a, T> {
    /// The computation of a step.
    pub cell: Cell,
    /// True if the last step comes first.
    pub reverse: bool,
    /// The number of sequences in each step; these are the first ones, and the numbers never
    /// ascend.
    pub batch_sizes: &'a [usize],
    /// The number of hidden units.
    pub size: usize,
    /// The number of elements of a hidden state: `size`, or that of the projection.
    pub state: usize,
    /// (rows, gates · size): the inputs times their weights.
    pub gates: &'a [T],
    /// (gates · size, state)
    pub weight_hh: &'a [T],
    /// (gates · size)
    pub bias_x: Option<&'a [T]>,
    /// (gates · size)
    pub bias_h: Option<&'a [T]>,
    /// (state, size)
    pub weight_hr: Option<&'a [T]>,
    /// (sequences, state)
    pub hidden: &'a [T],
    /// (sequences, size), of an LSTM.
    pub cells: Option<&'a [T]>,
}

/// The outputs of [`forward`].
#[derive(Debug)]
pub struct Outputs<'a, T> {
    /// (rows, state)
    pub output: &'a mut [T],
    /// (sequences, state)
    pub hidden: &'a mut [T],
    /// (sequences, size), of an LSTM; empty otherwise.
    pub cells: &'a mut [T],
    /// The intermediate results that [`backward`] needs, if there will be a gradient.
    pub kept: Option<KeptMut<'a, T>>,
}

/// The intermediate results for the gradient, as outputs.
#[derive(Debug, Default)]
pub struct KeptMut<'a, T> {
    /// (rows, 4 · size), of gated cells.
    pub activations: &'a mut [T],
    /// (rows, size), of an LSTM.
    pub cells: &'a mut [T],
    /// (rows, size): the hidden state before its projection.
    pub unprojected: &'a mut [T],
}

/// The intermediate results for the gradient, from [`forward`].
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a, T> {
    /// (rows, state)
    pub output: &'a [T],
    /// (rows, 4 · size), of gated cells.
    pub activations: &'a [T],
    /// (rows, size), of an LSTM.
    pub cells: &'a [T],
}

/// The outputs of [`backward`].
#[derive(Debug)]
pub struct Grads<'a, T> {
    /// (rows, gates · size): the gradient of the sums of gates.
    pub gates: &'a mut [T],
    /// (rows, gates · size): for a GRU, the gradient of the gates of the hidden state; otherwise
    /// empty.
    pub gates_h: &'a mut [T],
    /// (rows, state): with a projection, the gradient of the projected hidden state; otherwise
    /// empty.
    pub projected: &'a mut [T],
    /// (sequences, state)
    pub hidden: &'a mut [T],
    /// (sequences, size), of an LSTM; otherwise empty.
    pub cells: &'a mut [T],
}

/// Computes all steps of one direction.
///
/// # Determinism
///
/// Portable: the bits of a [`matmul`](crate::matmul::matmul) with `weight_hh` and a cell for each
/// step.
///
/// # Errors
///
/// [`Error::Length`] or [`Error::Argument`] if the slices do not fit together, and
/// [`Error::OutOfMemory`].
pub fn forward<T: Elementary + Real>(layer: &Layer<'_, T>, outputs: Outputs<'_, T>) -> Result<()> {
    let rows = layer.check()?;
    layer.check_outputs(rows, &outputs)?;
    let Layer { size, state, .. } = *layer;
    let width = layer.cell.gates() * size;
    let groups = layer.groups();
    let rows = groups.first().map_or(0, Range::len);
    let recurrent = Reused::pack(transposed(layer.weight_hh, state), width, state, rows)
        .map_err(short_of(OP))?;
    let projection = layer
        .weight_hr
        .map(|weight| Reused::pack(transposed(weight, size), state, size, rows))
        .transpose()
        .map_err(short_of(OP))?;
    let kept = outputs.kept.unwrap_or_default();
    let spread = |data, width| by_group(data, width, layer.batch_sizes, &groups);
    let mut tasks: Vec<Option<Task<'_, T>>> =
        groups
            .iter()
            .cloned()
            .zip(spread(outputs.output, state))
            .zip(split(outputs.hidden, state, &groups))
            .zip(split(outputs.cells, size, &groups))
            .zip(spread(kept.activations, 4 * size))
            .zip(spread(kept.cells, size))
            .zip(spread(kept.unprojected, size))
            .map(|((((((sequences, output), hidden), cells), activations), kept_cells), raw)| {
                Task { sequences, output, hidden, cells, activations, kept_cells, unprojected: raw }
            })
            .map(Some)
            .collect();
    parallel::tasks(&mut tasks)
        .try_for_each(|task| task.run(layer, &recurrent, projection.as_ref()))
        .map_err(short_of(OP))
}

const OP: &str = "recurrent_layer";

fn short_of(op: &'static str) -> impl FnOnce(OutOfMemory) -> Error {
    move |OutOfMemory { bytes }| Error::OutOfMemory { op, bytes }
}

/// The sequences of one thread.
struct Task<'a, T> {
    sequences: Range<usize>,
    output: Vec<&'a mut [T]>,
    hidden: &'a mut [T],
    cells: &'a mut [T],
    activations: Vec<&'a mut [T]>,
    kept_cells: Vec<&'a mut [T]>,
    unprojected: Vec<&'a mut [T]>,
}

impl<T: Elementary + Real> Task<'_, T> {
    fn run(
        mut self,
        layer: &Layer<'_, T>,
        recurrent: &Reused<T>,
        projection: Option<&Reused<T>>,
    ) -> Result<(), OutOfMemory> {
        let Layer { size, state, .. } = *layer;
        let width = layer.cell.gates() * size;
        let (start, end) = (self.sequences.start, self.sequences.end);
        self.hidden.copy_from_slice(&layer.hidden[start * state..end * state]);
        if let Some(cells) = layer.cells {
            self.cells.copy_from_slice(&cells[start * size..end * size]);
        }
        let rows = end - start;
        let stride = projection.map_or(0, Reused::row_stride).max(recurrent.row_stride());
        let mut sums = zeros(rows, stride)?;
        let mut raw = zeros(rows, size)?;
        let mut spare = Spare::new(size)?;
        for step in layer.steps(layer.reverse)? {
            let Some(at) = step.rows_of(&self.sequences) else { continue };
            let count = at.len();
            recurrent.product(&self.hidden[..count * state], count, &mut sums)?;
            for row in 0..count {
                let gates = Gates {
                    x: &layer.gates[(at.start + row) * width..][..width],
                    h: &sums[row * recurrent.row_stride()..][..width],
                    bias_x: layer.bias_x,
                    bias_h: layer.bias_h,
                };
                let units = row * size..(row + 1) * size;
                let (hidden, before) = match projection {
                    // These cells do not read it.
                    Some(_) => (&mut raw[units.clone()], &[][..]),
                    None => {
                        let hidden = &mut self.hidden[units.clone()];
                        spare.before.copy_from_slice(hidden);
                        (hidden, &spare.before[..])
                    }
                };
                let activations = match self.activations[step.index].chunks_exact_mut(4 * size) {
                    mut kept if kept.len() > 0 => kept.nth(row).expect("a row for each sequence"),
                    _ => &mut spare.activations[..],
                };
                match layer.cell {
                    Cell::Lstm => {
                        let cells = &mut self.cells[units];
                        let next = &mut spare.cells[..];
                        lstm_row(gates, cells, hidden, next, activations, &mut spare.sums[..width]);
                        cells.copy_from_slice(next);
                    }
                    Cell::Gru => gru_row(gates, before, hidden, activations, &mut spare.sums),
                    Cell::Tanh | Cell::Relu => {
                        let sums = &mut spare.sums[..size];
                        let (x, h) = (Operand::Each(gates.x), Operand::Each(gates.h));
                        elementwise::binary(BinaryKind::Add, x, h, sums)
                            .expect("the slices are of one length");
                        let tanh = layer.cell == Cell::Tanh;
                        let kind = if tanh { UnaryKind::Tanh } else { UnaryKind::Relu };
                        elementwise::unary(kind, sums, hidden)
                            .expect("the slices are of one length");
                    }
                }
            }
            if let Some(projection) = projection {
                projection.product(&raw[..count * size], count, &mut sums)?;
                copy_rows(&sums, projection.row_stride(), self.hidden, state, count);
                let kept = &mut *self.unprojected[step.index];
                kept.copy_from_slice(&raw[..kept.len()]);
            }
            let kept_cells = &mut *self.kept_cells[step.index];
            kept_cells.copy_from_slice(&self.cells[..kept_cells.len()]);
            self.output[step.index].copy_from_slice(&self.hidden[..count * state]);
        }
        Ok(())
    }
}

/// Computes the gradient of [`forward`]; `grad` holds the gradients of the output, the last hidden
/// states and, for an LSTM, the last cells.
///
/// # Determinism
///
/// Portable, as [`forward`].
///
/// # Errors
///
/// [`Error::Length`] or [`Error::Argument`] if the slices do not fit together, and
/// [`Error::OutOfMemory`].
pub fn backward<T: Elementary + Real>(
    layer: &Layer<'_, T>,
    grad: [&[T]; 3],
    kept: Kept<'_, T>,
    grads: Grads<'_, T>,
) -> Result<()> {
    let rows = layer.check()?;
    layer.check_grads(rows, grad, &kept, &grads)?;
    let Layer { size, state, .. } = *layer;
    let width = layer.cell.gates() * size;
    let groups = layer.groups();
    let rows = groups.first().map_or(0, Range::len);
    let recurrent =
        Reused::pack(as_it_is(layer.weight_hh, state), state, width, rows).map_err(short_of(OP))?;
    let projection = layer
        .weight_hr
        .map(|weight| Reused::pack(as_it_is(weight, size), size, state, rows))
        .transpose()
        .map_err(short_of(OP))?;
    let spread = |data, width| by_group(data, width, layer.batch_sizes, &groups);
    let mut tasks: Vec<Option<GradTask<'_, T>>> = groups
        .iter()
        .cloned()
        .zip(spread(grads.gates, width))
        .zip(spread(grads.gates_h, width))
        .zip(spread(grads.projected, state))
        .zip(split(grads.hidden, state, &groups))
        .zip(split(grads.cells, size, &groups))
        .map(|(((((sequences, gates), gates_h), projected), hidden), cells)| GradTask {
            sequences,
            gates,
            gates_h,
            projected,
            hidden,
            cells,
        })
        .map(Some)
        .collect();
    parallel::tasks(&mut tasks)
        .try_for_each(|task| task.run(layer, grad, kept, &recurrent, projection.as_ref()))
        .map_err(short_of(OP))
}

struct GradTask<'a, T> {
    sequences: Range<usize>,
    gates: Vec<&'a mut [T]>,
    gates_h: Vec<&'a mut [T]>,
    projected: Vec<&'a mut [T]>,
    hidden: &'a mut [T],
    cells: &'a mut [T],
}

impl<T: Elementary + Real> GradTask<'_, T> {
    fn run(
        mut self,
        layer: &Layer<'_, T>,
        [grad_output, grad_hidden, grad_cells]: [&[T]; 3],
        kept: Kept<'_, T>,
        recurrent: &Reused<T>,
        projection: Option<&Reused<T>>,
    ) -> Result<(), OutOfMemory> {
        let Layer { cell, size, state, .. } = *layer;
        let width = cell.gates() * size;
        let (start, end) = (self.sequences.start, self.sequences.end);
        self.hidden.copy_from_slice(&grad_hidden[start * state..end * state]);
        if cell == Cell::Lstm {
            self.cells.copy_from_slice(&grad_cells[start * size..end * size]);
        }
        let stride = projection.map_or(0, Reused::row_stride).max(recurrent.row_stride());
        let mut sums = zeros(end - start, stride)?;
        let mut incoming = zeros(end - start, state)?;
        let mut direct = zeros(end - start, size)?;
        let mut spare = Spare::new(size)?;
        for step in layer.steps(!layer.reverse)? {
            let Some(at) = step.rows_of(&self.sequences) else { continue };
            let count = at.len();
            let incoming = &mut incoming[..count * state];
            let (through, output) =
                (&self.hidden[..count * state], &grad_output[at.start * state..at.end * state]);
            add(through, output, incoming);
            if let Some(projection) = projection {
                self.projected[step.index].copy_from_slice(incoming);
                projection.product(incoming, count, &mut sums)?;
            }
            let gates = &mut *self.gates[step.index];
            for row in 0..count {
                let grad = match projection {
                    Some(projection) => &sums[row * projection.row_stride()..][..size],
                    None => &incoming[row * size..][..size],
                };
                let units = (at.start + row) * size..(at.start + row + 1) * size;
                let gates = &mut gates[row * width..][..width];
                let sequence = start + row;
                match cell {
                    Cell::Lstm => {
                        let first = layer.cells.unwrap_or_default();
                        let before = layer.before(&step, sequence, kept.cells, first, size);
                        let to = &mut self.cells[row * size..][..size];
                        spare.cells.copy_from_slice(to);
                        lstm_row_backward(
                            [grad, &spare.cells],
                            &kept.activations[4 * units.start..4 * units.end],
                            [before, &kept.cells[units]],
                            gates,
                            to,
                            &mut spare.sums[..size],
                        );
                    }
                    Cell::Gru => samebits_numerics::simd::dispatch(GruBackward {
                        grad,
                        activations: &kept.activations[4 * units.start..4 * units.end],
                        before: layer.before(&step, sequence, kept.output, layer.hidden, state),
                        grad_x: gates,
                        grad_h: &mut self.gates_h[step.index][row * width..][..width],
                        grad_previous: &mut direct[row * size..][..size],
                    }),
                    Cell::Tanh | Cell::Relu => {
                        let tanh = cell == Cell::Tanh;
                        let kind = if tanh { BinaryKind::TanhGrad } else { BinaryKind::ReluGrad };
                        let after = Operand::Each(&kept.output[units]);
                        elementwise::binary(kind, Operand::Each(grad), after, gates)
                            .expect("the slices are of one length");
                    }
                }
            }
            let gates_h = if cell == Cell::Gru { &*self.gates_h[step.index] } else { &*gates };
            recurrent.product(gates_h, count, &mut sums)?;
            if cell == Cell::Gru {
                for row in 0..count {
                    let through = &sums[row * recurrent.row_stride()..][..size];
                    let to = &mut self.hidden[row * size..][..size];
                    add(&direct[row * size..][..size], through, to);
                }
            } else {
                copy_rows(&sums, recurrent.row_stride(), self.hidden, state, count);
            }
        }
        Ok(())
    }
}

/// One step among the packed rows.
struct Step {
    index: usize,
    /// Its first row.
    start: usize,
    /// The number of its rows.
    count: usize,
}

impl Step {
    /// Returns the rows of those `sequences` that take part in the step.
    fn rows_of(&self, sequences: &Range<usize>) -> Option<Range<usize>> {
        let end = sequences.end.min(self.count);
        (sequences.start < end).then(|| self.start + sequences.start..self.start + end)
    }
}

impl<T> Layer<'_, T> {
    /// Checks the operands against each other; returns the number of packed rows.
    fn check(&self) -> Result<usize> {
        let op = OP;
        if !self.batch_sizes.is_sorted_by(|a, b| a >= b) {
            let message = format!("batch sizes must not ascend, got {:?}", self.batch_sizes);
            return Err(Error::argument(op, message));
        }
        if self.weight_hr.is_none() && self.state != self.size {
            let Layer { state, size, .. } = self;
            let message =
                format!("without a projection the state must have {size} elements, got {state}");
            return Err(Error::argument(op, message));
        }
        let rows = self.batch_sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
        let rows = rows.ok_or(Error::OutOfMemory { op, bytes: usize::MAX })?;
        let sequences = self.batch_sizes.first().copied().unwrap_or(0);
        let cells = if self.cell == Cell::Lstm { sequences } else { 0 };
        let width = self.cell.gates().saturating_mul(self.size);
        let given = |slice: Option<&[T]>, rows: usize, width: usize| match slice {
            Some(slice) => (slice.len(), [rows, width]),
            None => (0, [0, 0]),
        };
        let named = |what, (len, sizes)| (what, len, sizes);
        expect_lens(
            op,
            &[
                ("the gates", self.gates.len(), [rows, width]),
                ("the hidden weights", self.weight_hh.len(), [width, self.state]),
                ("the hidden state", self.hidden.len(), [sequences, self.state]),
                named("the bias of the input", given(self.bias_x, 1, width)),
                named("the bias of the hidden state", given(self.bias_h, 1, width)),
                named("the projection", given(self.weight_hr, self.state, self.size)),
                ("the cells", self.cells.map_or(0, <[T]>::len), [cells, self.size]),
            ],
        )?;
        Ok(rows)
    }

    fn check_outputs(&self, rows: usize, outputs: &Outputs<'_, T>) -> Result<()> {
        let sequences = self.batch_sizes.first().copied().unwrap_or(0);
        let cells = if self.cell == Cell::Lstm { sequences } else { 0 };
        // A result that is not kept is an empty slice.
        let kept = |slice: Option<usize>, width: usize| match slice {
            Some(len) if len > 0 => (len, [rows, width]),
            _ => (0, [0, 0]),
        };
        let named = |what, (len, sizes)| (what, len, sizes);
        let of = outputs.kept.as_ref();
        expect_lens(
            OP,
            &[
                ("the output", outputs.output.len(), [rows, self.state]),
                ("the last hidden state", outputs.hidden.len(), [sequences, self.state]),
                ("the last cells", outputs.cells.len(), [cells, self.size]),
                named(
                    "the activations",
                    kept(of.map(|k| k.activations.len()), self.size.saturating_mul(4)),
                ),
                named(
                    "the kept cells",
                    kept(of.map(|k| k.cells.len()).filter(|_| cells > 0), self.size),
                ),
                named("the unprojected", kept(of.map(|k| k.unprojected.len()), self.size)),
            ],
        )
    }

    fn check_grads(
        &self,
        rows: usize,
        [output, hidden, cells]: [&[T]; 3],
        kept: &Kept<'_, T>,
        grads: &Grads<'_, T>,
    ) -> Result<()> {
        let sequences = self.batch_sizes.first().copied().unwrap_or(0);
        let width = self.cell.gates().saturating_mul(self.size);
        let when = |wanted: bool, rows: usize| if wanted { rows } else { 0 };
        let (lstm, gru) = (self.cell == Cell::Lstm, self.cell == Cell::Gru);
        let of_cells = [when(lstm, sequences), self.size];
        expect_lens(
            OP,
            &[
                ("the gradient of the output", output.len(), [rows, self.state]),
                ("the gradient of the last hidden state", hidden.len(), [sequences, self.state]),
                ("the gradient of the last cells", cells.len(), of_cells),
                ("the output", kept.output.len(), [rows, self.state]),
                (
                    "the activations",
                    kept.activations.len(),
                    [when(lstm || gru, rows), self.size.saturating_mul(4)],
                ),
                ("the kept cells", kept.cells.len(), [when(lstm, rows), self.size]),
                ("the gradient of the gates", grads.gates.len(), [rows, width]),
                ("the gradient of the hidden gates", grads.gates_h.len(), [when(gru, rows), width]),
                (
                    "the gradient of the projected state",
                    grads.projected.len(),
                    [when(self.weight_hr.is_some(), rows), self.state],
                ),
                ("the gradient of the hidden state", grads.hidden.len(), [sequences, self.state]),
                ("the gradient of the cells", grads.cells.len(), of_cells),
            ],
        )
    }

    /// Returns the steps from first to last, or from last to first if `reverse`.
    fn steps(&self, reverse: bool) -> Result<Vec<Step>, OutOfMemory> {
        let mut start = 0;
        let mut steps: Vec<Step> = memory::with_capacity(self.batch_sizes.len())?;
        for (index, &count) in self.batch_sizes.iter().enumerate() {
            steps.push(Step { index, start, count });
            start += count;
        }
        if reverse {
            steps.reverse();
        }
        Ok(steps)
    }

    /// Returns the row of `sequence` in the step before `step`, from `rows`, or from `first` if
    /// there is none.
    fn before<'a>(
        &self,
        step: &Step,
        sequence: usize,
        rows: &'a [T],
        first: &'a [T],
        width: usize,
    ) -> &'a [T] {
        let row = if self.reverse {
            let later = self.batch_sizes.get(step.index + 1);
            later.filter(|&&count| sequence < count).map(|_| step.start + step.count)
        } else {
            step.index.checked_sub(1).map(|index| step.start - self.batch_sizes[index])
        };
        match row {
            Some(start) => &rows[(start + sequence) * width..][..width],
            None => &first[sequence * width..][..width],
        }
    }

    /// Returns the sequences of each thread. Sequences are independent, so the division changes no
    /// bit.
    fn groups(&self) -> Vec<Range<usize>> {
        let count = self.batch_sizes.first().copied().unwrap_or(0);
        let each = count.div_ceil(threads()).max(1);
        (0..count).step_by(each).map(|start| start..count.min(start + each)).collect()
    }
}

/// Buffers of one thread, for one row each.
struct Spare<T> {
    before: Vec<T>,
    cells: Vec<T>,
    activations: Vec<T>,
    sums: Vec<T>,
}

impl<T: Elementary> Spare<T> {
    fn new(size: usize) -> Result<Self, OutOfMemory> {
        let row = |width| zeros(width, size);
        Ok(Spare { before: row(1)?, cells: row(1)?, activations: row(4)?, sums: row(6)? })
    }
}

fn zeros<T: Elementary>(rows: usize, width: usize) -> Result<Vec<T>, OutOfMemory> {
    let len = memory::product(&[rows, width]).ok_or(OutOfMemory { bytes: usize::MAX })?;
    memory::filled(len, T::ZERO)
}

/// Returns the columns of the transpose of a matrix with rows of `columns` elements.
fn transposed<T>(weight: &[T], columns: usize) -> Lanes<'_, T> {
    Lanes { data: weight, lane_stride: columns, step_stride: 1 }
}

/// Returns the columns of a matrix with rows of `columns` elements.
fn as_it_is<T>(weight: &[T], columns: usize) -> Lanes<'_, T> {
    Lanes { data: weight, lane_stride: 1, step_stride: columns }
}

/// Splits packed rows into those of each group, by step. An empty slice is split into empty slices.
fn by_group<'a, T>(
    mut data: &'a mut [T],
    width: usize,
    batch_sizes: &[usize],
    groups: &[Range<usize>],
) -> Vec<Vec<&'a mut [T]>> {
    let width = if data.is_empty() { 0 } else { width };
    let mut all: Vec<_> = groups.iter().map(|_| Vec::with_capacity(batch_sizes.len())).collect();
    for &count in batch_sizes {
        for (group, all) in groups.iter().zip(&mut all) {
            let rows = group.end.min(count).saturating_sub(group.start);
            let (piece, rest) = data.split_at_mut(rows * width);
            all.push(piece);
            data = rest;
        }
    }
    all
}

/// Splits a matrix with one row per sequence into the rows of each group.
fn split<'a, T>(mut data: &'a mut [T], width: usize, groups: &[Range<usize>]) -> Vec<&'a mut [T]> {
    let width = if data.is_empty() { 0 } else { width };
    let mut all = Vec::with_capacity(groups.len());
    for group in groups {
        let (piece, rest) = data.split_at_mut(group.len() * width);
        all.push(piece);
        data = rest;
    }
    all
}

fn add<T: Elementary>(a: &[T], b: &[T], out: &mut [T]) {
    elementwise::binary(BinaryKind::Add, Operand::Each(a), Operand::Each(b), out)
        .expect("the slices are of one length");
}

fn copy_rows<T: Copy>(from: &[T], stride: usize, to: &mut [T], width: usize, rows: usize) {
    for row in 0..rows {
        to[row * width..][..width].copy_from_slice(&from[row * stride..][..width]);
    }
}
