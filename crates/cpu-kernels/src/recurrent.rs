//! Recurrent networks: the elementwise part of one step, and all steps at once.
//!
//! # Determinism
//!
//! `Portable`: every element is the same sequence of correctly rounded operations. The
//! documentation of the operations in `samebits_tensor_core::ops` defines them.

mod sequences;

pub use sequences::{Cell, Grads, Kept, KeptMut, Layer, Outputs, backward, forward};

use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::ops::UnaryKind;

use crate::elementwise::Elementary;
use crate::error::expect_len;
use crate::parallel::{self, CHUNK};
use crate::{Result, memory};

/// The gates of one step.
#[derive(Clone, Copy, Debug)]
pub struct Gates<'a, T> {
    /// (n, gates · size): the gates of the input.
    pub x: &'a [T],
    /// (n, gates · size): the gates of the hidden state.
    pub h: &'a [T],
    /// (gates · size): the bias of the gates of the input.
    pub bias_x: Option<&'a [T]>,
    /// (gates · size): the bias of the gates of the hidden state.
    pub bias_h: Option<&'a [T]>,
}

impl<T> Gates<'_, T> {
    /// Checks that there are `rows` rows of `width`.
    fn check(&self, op: &'static str, rows: usize, width: usize) -> Result<()> {
        expect_lens(
            op,
            &[
                ("the gates of the input", self.x.len(), [rows, width]),
                ("the gates of the hidden state", self.h.len(), [rows, width]),
                ("the bias of the input", self.bias_x.map_or(width, <[T]>::len), [1, width]),
                ("the bias of the hidden state", self.bias_h.map_or(width, <[T]>::len), [1, width]),
            ],
        )
    }

    /// Returns the gates of one row of `width` gates.
    fn row(&self, row: usize, width: usize) -> Self {
        Gates { x: &self.x[row * width..][..width], h: &self.h[row * width..][..width], ..*self }
    }
}

/// Checks slices against their rows and widths.
fn expect_lens(op: &'static str, slices: &[(&'static str, usize, [usize; 2])]) -> Result<()> {
    for &(what, got, sizes) in slices {
        expect_len(op, what, got, memory::volume(op, &sizes)?)?;
    }
    Ok(())
}

/// Returns the number of rows that a thread takes at a time: a transcendental function costs about
/// a dozen of the units that [`CHUNK`] counts.
fn rows_at_once(size: usize) -> usize {
    CHUNK.div_ceil(size.saturating_mul(12))
}

/// Computes one step of a long short-term memory of `size` units; `bias_h` is not used.
///
/// # Shapes
///
/// `cell`, `hidden` and `next_cell` are (n, size), `activations` (n, 4 · size).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length, and
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn lstm_cell<T: Elementary>(
    size: usize,
    gates: Gates<'_, T>,
    cell: &[T],
    hidden: &mut [T],
    next_cell: &mut [T],
    activations: &mut [T],
) -> Result<()> {
    let op = "lstm_cell";
    if size == 0 {
        return Ok(());
    }
    let (rows, width) = (cell.len() / size, size.saturating_mul(4));
    gates.check(op, rows, width)?;
    expect_lens(
        op,
        &[
            ("the cell", cell.len(), [rows, size]),
            ("the hidden state", hidden.len(), [rows, size]),
            ("the next cell", next_cell.len(), [rows, size]),
            ("the activations", activations.len(), [rows, width]),
        ],
    )?;
    parallel::chunks_mut(hidden, size)
        .zip(parallel::chunks_mut(next_cell, size))
        .zip(parallel::chunks_mut(activations, width))
        .zip(parallel::chunks(cell, size))
        .enumerate()
        .at_least(rows_at_once(size))
        .try_for_each_with(
            || memory::filled(op, width, T::ZERO),
            |spare, (row, (((hidden, next_cell), activations), cell))| {
                let gates = gates.row(row, width);
                lstm_row(gates, cell, hidden, next_cell, activations, spare);
                Ok(())
            },
        )
}

/// Computes one row of [`lstm_cell`]; `spare` is scratch space of the length of `activations`.
fn lstm_row<T: Elementary>(
    gates: Gates<'_, T>,
    cell: &[T],
    hidden: &mut [T],
    next_cell: &mut [T],
    activations: &mut [T],
    spare: &mut [T],
) {
    let size = cell.len();
    simd::dispatch(Sum { x: gates.x, h: gates.h, bias: gates.bias_x, out: spare });
    let (input_forget, cells, out) = (0..2 * size, 2 * size..3 * size, 3 * size..4 * size);
    for (kind, part) in [
        (UnaryKind::Sigmoid, input_forget),
        (UnaryKind::Tanh, cells),
        (UnaryKind::Sigmoid, out.clone()),
    ] {
        T::elementary(kind, &spare[part.clone()], &mut activations[part]);
    }
    simd::dispatch(LstmForward { activations, cell, next_cell });
    let tanh = &mut spare[..size];
    T::elementary(UnaryKind::Tanh, next_cell, tanh);
    for ((hidden, &o), &t) in hidden.iter_mut().zip(&activations[out]).zip(&*tanh) {
        *hidden = (o * t).canonical();
    }
}

/// Computes the gradient of [`lstm_cell`].
///
/// # Shapes
///
/// `grad_gates` is (n, 4 · size); the others are as in the forward pass.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length, and
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn lstm_cell_backward<T: Elementary>(
    size: usize,
    [grad_hidden, grad_cell]: [&[T]; 2],
    activations: &[T],
    [cell, next_cell]: [&[T]; 2],
    grad_gates: &mut [T],
    grad_previous: &mut [T],
) -> Result<()> {
    let op = "lstm_cell";
    if size == 0 {
        return Ok(());
    }
    let (rows, width) = (cell.len() / size, size.saturating_mul(4));
    expect_lens(
        op,
        &[
            ("the cell", cell.len(), [rows, size]),
            ("the gradient of the hidden state", grad_hidden.len(), [rows, size]),
            ("the gradient of the cell", grad_cell.len(), [rows, size]),
            ("the next cell", next_cell.len(), [rows, size]),
            ("the activations", activations.len(), [rows, width]),
            ("the gradient of the gates", grad_gates.len(), [rows, width]),
            ("the gradient of the previous cell", grad_previous.len(), [rows, size]),
        ],
    )?;
    parallel::chunks_mut(grad_gates, width)
        .zip(parallel::chunks_mut(grad_previous, size))
        .enumerate()
        .at_least(rows_at_once(size))
        .try_for_each_with(
            || memory::filled(op, size, T::ZERO),
            |spare, (row, (grad_gates, grad_previous))| {
                let at = row * size..(row + 1) * size;
                lstm_row_backward(
                    [&grad_hidden[at.clone()], &grad_cell[at.clone()]],
                    &activations[4 * at.start..4 * at.end],
                    [&cell[at.clone()], &next_cell[at]],
                    grad_gates,
                    grad_previous,
                    spare,
                );
                Ok(())
            },
        )
}

/// Computes one row of [`lstm_cell_backward`]; `spare` is scratch space of the length of
/// `grad_previous`.
fn lstm_row_backward<T: Elementary>(
    [grad_hidden, grad_cell]: [&[T]; 2],
    activations: &[T],
    [cell, next_cell]: [&[T]; 2],
    grad_gates: &mut [T],
    grad_previous: &mut [T],
    spare: &mut [T],
) {
    T::elementary(UnaryKind::Tanh, next_cell, spare);
    simd::dispatch(LstmBackward {
        grad_hidden,
        grad_cell,
        activations,
        cell,
        tanh: spare,
        grad_gates,
        grad_previous,
    });
}

/// Computes one step of a gated recurrent unit of `size` units.
///
/// # Shapes
///
/// `hidden` and `next` are (n, size), `activations` (n, 4 · size).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length, and
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn gru_cell<T: Elementary>(
    size: usize,
    gates: Gates<'_, T>,
    hidden: &[T],
    next: &mut [T],
    activations: &mut [T],
) -> Result<()> {
    let op = "gru_cell";
    if size == 0 {
        return Ok(());
    }
    let rows = hidden.len() / size;
    gates.check(op, rows, size.saturating_mul(3))?;
    expect_lens(
        op,
        &[
            ("the hidden state", hidden.len(), [rows, size]),
            ("the next hidden state", next.len(), [rows, size]),
            ("the activations", activations.len(), [rows, size.saturating_mul(4)]),
        ],
    )?;
    parallel::chunks_mut(next, size)
        .zip(parallel::chunks_mut(activations, size.saturating_mul(4)))
        .zip(parallel::chunks(hidden, size))
        .enumerate()
        .at_least(rows_at_once(size))
        .try_for_each_with(
            || memory::filled(op, size.saturating_mul(6), T::ZERO),
            |spare, (row, ((next, activations), before))| {
                gru_row(gates.row(row, 3 * size), before, next, activations, spare);
                Ok(())
            },
        )
}

/// Computes one row of [`gru_cell`]; `spare` is scratch space of six times the length of `before`.
fn gru_row<T: Elementary>(
    gates: Gates<'_, T>,
    before: &[T],
    next: &mut [T],
    activations: &mut [T],
    spare: &mut [T],
) {
    let size = before.len();
    let (x, h) = spare.split_at_mut(3 * size);
    x.copy_from_slice(gates.x);
    h.copy_from_slice(gates.h);
    for (to, bias) in [(&mut *x, gates.bias_x), (&mut *h, gates.bias_h)] {
        for (to, &bias) in to.iter_mut().zip(bias.unwrap_or(&[])) {
            *to = *to + bias;
        }
    }
    let n = 2 * size;
    for (sum, &h) in x[..n].iter_mut().zip(&*h) {
        *sum = *sum + h;
    }
    T::elementary(UnaryKind::Sigmoid, &x[..n], &mut activations[..n]);
    let (reset, rest) = activations.split_at_mut(size);
    let (update, rest) = rest.split_at_mut(size);
    let (new, kept) = rest.split_at_mut(size);
    simd::dispatch(GruReset { reset, h: &h[n..], x: &mut x[n..] });
    T::elementary(UnaryKind::Tanh, &x[n..], new);
    for (to, &h) in kept.iter_mut().zip(&h[n..]) {
        *to = h.canonical();
    }
    simd::dispatch(GruForward { update, new, before, next });
}

/// Computes the gradient of [`gru_cell`].
///
/// # Shapes
///
/// `grad_x` and `grad_h` are (n, 3 · size); the others are as in the forward pass.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length, and
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn gru_cell_backward<T: Elementary>(
    size: usize,
    grad: &[T],
    activations: &[T],
    hidden: &[T],
    [grad_x, grad_h]: [&mut [T]; 2],
    grad_previous: &mut [T],
) -> Result<()> {
    let op = "gru_cell";
    if size == 0 {
        return Ok(());
    }
    let (rows, width) = (hidden.len() / size, size.saturating_mul(3));
    expect_lens(
        op,
        &[
            ("the hidden state", hidden.len(), [rows, size]),
            ("the gradient", grad.len(), [rows, size]),
            ("the activations", activations.len(), [rows, size.saturating_mul(4)]),
            ("the gradient of the gates of the input", grad_x.len(), [rows, width]),
            ("the gradient of the gates of the hidden state", grad_h.len(), [rows, width]),
            ("the gradient of the previous state", grad_previous.len(), [rows, size]),
        ],
    )?;
    parallel::chunks_mut(grad_x, width)
        .zip(parallel::chunks_mut(grad_h, width))
        .zip(parallel::chunks_mut(grad_previous, size))
        .enumerate()
        .at_least(rows_at_once(size))
        .for_each(|(row, ((grad_x, grad_h), grad_previous))| {
            let at = row * size..(row + 1) * size;
            simd::dispatch(GruBackward {
                grad: &grad[at.clone()],
                activations: &activations[4 * at.start..4 * at.end],
                before: &hidden[at],
                grad_x,
                grad_h,
                grad_previous,
            });
        });
    Ok(())
}

/// Arguments of a kernel: `(x + bias) + h`.
struct Sum<'a, T> {
    x: &'a [T],
    h: &'a [T],
    bias: Option<&'a [T]>,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Sum<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.bias {
            Some(bias) => {
                let inputs = self.x.iter().zip(self.h).zip(bias);
                for (out, ((&x, &h), &bias)) in self.out.iter_mut().zip(inputs) {
                    *out = (x + bias) + h;
                }
            }
            None => {
                for (out, (&x, &h)) in self.out.iter_mut().zip(self.x.iter().zip(self.h)) {
                    *out = x + h;
                }
            }
        }
    }
}

struct LstmForward<'a, T> {
    activations: &'a [T],
    cell: &'a [T],
    next_cell: &'a mut [T],
}

impl<T: Elementary> Kernel for LstmForward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let size = self.cell.len();
        let [i, f, g, _] = quarters(self.activations, size);
        for k in 0..size {
            self.next_cell[k] = f[k].mul_add(self.cell[k], i[k] * g[k]).canonical();
        }
    }
}

struct LstmBackward<'a, T> {
    grad_hidden: &'a [T],
    grad_cell: &'a [T],
    activations: &'a [T],
    cell: &'a [T],
    tanh: &'a [T],
    grad_gates: &'a mut [T],
    grad_previous: &'a mut [T],
}

impl<T: Elementary> Kernel for LstmBackward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let size = self.cell.len();
        let [i, f, g, o] = quarters(self.activations, size);
        let (cell, tanh) = (&self.cell[..size], &self.tanh[..size]);
        let (grad_hidden, grad_cell) = (&self.grad_hidden[..size], &self.grad_cell[..size]);
        let (to_i, rest) = self.grad_gates.split_at_mut(size);
        let (to_f, rest) = rest.split_at_mut(size);
        let (to_g, to_o) = rest.split_at_mut(size);
        let (to_o, previous) = (&mut to_o[..size], &mut self.grad_previous[..size]);
        for k in 0..size {
            let (t, h) = (tanh[k], grad_hidden[k]);
            let d = (h * o[k]).mul_add(T::ONE - t * t, grad_cell[k]);
            to_i[k] = ((d * g[k]) * ((T::ONE - i[k]) * i[k])).canonical();
            to_f[k] = ((d * cell[k]) * ((T::ONE - f[k]) * f[k])).canonical();
            to_g[k] = ((d * i[k]) * (T::ONE - g[k] * g[k])).canonical();
            to_o[k] = ((h * t) * ((T::ONE - o[k]) * o[k])).canonical();
            previous[k] = (d * f[k]).canonical();
        }
    }
}

struct GruReset<'a, T> {
    reset: &'a [T],
    h: &'a [T],
    x: &'a mut [T],
}

impl<T: Elementary> Kernel for GruReset<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for ((x, &r), &h) in self.x.iter_mut().zip(self.reset).zip(self.h) {
            *x = r.mul_add(h, *x);
        }
    }
}

struct GruForward<'a, T> {
    update: &'a [T],
    new: &'a [T],
    before: &'a [T],
    next: &'a mut [T],
}

impl<T: Elementary> Kernel for GruForward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let inputs = self.update.iter().zip(self.new).zip(self.before);
        for (out, ((&z, &n), &h)) in self.next.iter_mut().zip(inputs) {
            *out = z.mul_add(h - n, n).canonical();
        }
    }
}

struct GruBackward<'a, T> {
    grad: &'a [T],
    activations: &'a [T],
    before: &'a [T],
    grad_x: &'a mut [T],
    grad_h: &'a mut [T],
    grad_previous: &'a mut [T],
}

impl<T: Elementary> Kernel for GruBackward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let size = self.grad.len();
        let [r, z, n, h] = quarters(self.activations, size);
        for k in 0..size {
            let grad = self.grad[k];
            let d = (grad * (T::ONE - z[k])) * (T::ONE - n[k] * n[k]);
            let to_r = ((d * h[k]) * ((T::ONE - r[k]) * r[k])).canonical();
            let to_z = ((grad * (self.before[k] - n[k])) * ((T::ONE - z[k]) * z[k])).canonical();
            self.grad_x[k] = to_r;
            self.grad_h[k] = to_r;
            self.grad_x[size + k] = to_z;
            self.grad_h[size + k] = to_z;
            self.grad_x[2 * size + k] = d.canonical();
            self.grad_h[2 * size + k] = (d * r[k]).canonical();
            self.grad_previous[k] = (grad * z[k]).canonical();
        }
    }
}

/// Returns the four parts of a row of activations.
#[inline(always)]
fn quarters<T>(row: &[T], size: usize) -> [&[T]; 4] {
    [0, 1, 2, 3].map(|part| &row[part * size..][..size])
}
