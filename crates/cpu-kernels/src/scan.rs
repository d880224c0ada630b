//! Running sums, products and extrema: `cumsum`, `cumprod`, `logcumsumexp`, `cummax`, `cummin`
//! and their gradients.
//!
//! # The order
//!
//! Elements are converted to f64 and combined there; each result is rounded once. The dimension is
//! cut into tiles of 1024 elements, and each tile into runs of 32:
//!
//! ```text
//! scan(x[0..n]):                 # "+" from +0; a product has "*" from 1; see `logcumsumexp`
//!     carry = +0
//!     for each tile, ascending:
//!         before = +0
//!         for each run of the tile, ascending:
//!             local = +0
//!             for i in the run, ascending:
//!                 local = local + x[i]
//!                 y[i] = round(carry + (before + local))
//!             before = before + local
//!         carry = carry + before
//! ```
//!
//! The order depends only on the index in the dimension. All runs of a tile, and the totals of all
//! tiles, can be computed at the same time, so the order costs no parallelism on any device.
//!
//! # Layouts
//!
//! Tensors are contiguous slices of shape (outer, dim, inner), scanned along `dim`.

mod lines;
mod operation;

pub use lines::{cumextreme, cumprod_backward, cumprod_backward_backward, logcumsumexp_backward};

use crate::arch::{TileGrid, TileMut};
use crate::error::{Result, expect_size};
use crate::parallel::{self, CHUNK};
use crate::{Float, memory, short};
use operation::{LogSum, Operation, Product, Sum};
use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Aligned, Kernel};
use std::marker::PhantomData;

const RUN: usize = 32;
const TILE: usize = 1024;
/// The largest number of tiles per task.
const TASK: usize = 32;

/// Computes the sum of each element and all before it.
///
/// # Shapes
///
/// `input` and `out` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: the order of the [module](self).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice does not have the shape;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
///
/// ```
/// let mut out = [0.0f32; 4];
/// samebits_cpu_kernels::scan::cumsum(&[1.0, 2.0, 3.0, 4.0], [2, 2, 1], &mut out)?;
/// assert_eq!(out, [1.0, 3.0, 3.0, 7.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.cumsum`.
pub fn cumsum<T: Float>(input: &[T], shape: [usize; 3], out: &mut [T]) -> Result<()> {
    scan::<T, Sum, false>("cumsum", input, shape, out)
}

/// Computes the gradient of [`cumsum`]: the sum of each gradient and all after it.
///
/// # Shapes
///
/// `grad_out` and `grad_input` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: the order of the [module](self), from the last element to the first.
///
/// # Errors
///
/// As [`cumsum`].
pub fn cumsum_backward<T: Float>(
    grad_out: &[T],
    shape: [usize; 3],
    grad_input: &mut [T],
) -> Result<()> {
    scan::<T, Sum, true>("cumsum", grad_out, shape, grad_input)
}

/// Computes the product of each element and all before it.
///
/// # Shapes
///
/// `input` and `out` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: the order of the [module](self).
///
/// # Errors
///
/// As [`cumsum`].
///
/// # References
///
/// `torch.cumprod`.
pub fn cumprod<T: Float>(input: &[T], shape: [usize; 3], out: &mut [T]) -> Result<()> {
    scan::<T, Product, false>("cumprod", input, shape, out)
}

/// Computes the logarithm of the sum of the exponentials of each element and all before it.
///
/// The scan runs over pairs `(m, s)` that represent `s * exp(m)` and starts from `(-inf, 1)`. An
/// element `x` is `(x, 1)`, and the result is `m + log(s)`, or `m` if that is infinite. The pairs
/// `(m, s)` and `(n, t)` combine to `(m, s + t * exp(n - m))` if `m > n`, to `(m, s + t)` if they
/// are equal, and to the mirror image if `m < n`; if one of `m` and `n` is minus infinity, the
/// result is the other pair.
///
/// # Shapes
///
/// `input` and `out` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: the order of the [module](self).
///
/// # Errors
///
/// As [`cumsum`].
///
/// # Examples
///
/// ```
/// let mut out = [0.0f32; 2];
/// samebits_cpu_kernels::scan::logcumsumexp(&[1000.0, 1000.0], [1, 2, 1], &mut out)?;
/// assert_eq!(out, [1000.0, 1000.6932]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.logcumsumexp`.
pub fn logcumsumexp<T: Float>(input: &[T], shape: [usize; 3], out: &mut [T]) -> Result<()> {
    scan::<T, LogSum, false>("logcumsumexp", input, shape, out)
}

/// Computes [`cumsum`] of integers, which wrap around; if `reverse`, from the last element to the
/// first.
///
/// # Shapes
///
/// `input` and `out` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: integers are not rounded.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice does not have the shape.
pub fn integer_cumsum(
    input: &[i64],
    shape: [usize; 3],
    reverse: bool,
    out: &mut [i64],
) -> Result<()> {
    integers("cumsum", input, shape, reverse, i64::wrapping_add, out)
}

/// Computes [`cumprod`] of integers, which wrap around.
///
/// # Shapes
///
/// `input` and `out` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: integers are not rounded.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice does not have the shape.
pub fn integer_cumprod(input: &[i64], shape: [usize; 3], out: &mut [i64]) -> Result<()> {
    integers("cumprod", input, shape, false, i64::wrapping_mul, out)
}

fn integers(
    op: &'static str,
    input: &[i64],
    [outer, dim, inner]: [usize; 3],
    reverse: bool,
    join: fn(i64, i64) -> i64,
    out: &mut [i64],
) -> Result<()> {
    expect_size(op, "input", input.len(), &[outer, dim, inner])?;
    expect_size(op, "out", out.len(), &[outer, dim, inner])?;
    if out.is_empty() {
        return Ok(());
    }
    parallel::rows(dim * inner, out, |start, out| {
        out.copy_from_slice(&input[start..start + out.len()]);
        for slab in out.chunks_exact_mut(dim * inner) {
            for k in 1..dim {
                let (row, before) = if reverse { (dim - 1 - k, dim - k) } else { (k, k - 1) };
                for j in 0..inner {
                    let so_far = slab[before * inner + j];
                    slab[row * inner + j] = join(so_far, slab[row * inner + j]);
                }
            }
        }
    });
    Ok(())
}

fn scan<T: Float, O: Operation, const REVERSE: bool>(
    op: &'static str,
    input: &[T],
    [outer, dim, inner]: [usize; 3],
    out: &mut [T],
) -> Result<()> {
    expect_size(op, "input", input.len(), &[outer, dim, inner])?;
    expect_size(op, "out", out.len(), &[outer, dim, inner])?;
    if out.is_empty() {
        return Ok(());
    }
    if dim == 1 {
        parallel::pieces(out, |start, out| {
            for (out, &x) in out.iter_mut().zip(&input[start..]) {
                *out = T::from_f64(O::alone(x.into())).canonical();
            }
        });
        return Ok(());
    }
    if inner > 1 {
        let slab = dim * inner;
        let tile = ((CHUNK / slab).max(1), dim, (CHUNK / dim).max(LANES));
        let columns = |matrix: usize, _, column, out: TileMut<'_, T>| {
            let input = &input[matrix * slab + column..];
            let stride = inner;
            if out.columns <= FEW {
                let scan =
                    ScanColumns::<_, O, FEW, REVERSE> { input, stride, out, of: PhantomData };
                simd::dispatch(scan);
            } else {
                let scan =
                    ScanColumns::<_, O, LANES, REVERSE> { input, stride, out, of: PhantomData };
                simd::dispatch(scan);
            }
            Ok(())
        };
        return TileGrid::new(out, outer, (dim, inner), tile).try_for_each(columns);
    }
    // A row that several threads share is read twice.
    if dim <= CHUNK || outer >= parallel::threads() {
        parallel::rows(dim, out, |start, out| {
            let input = &input[start..][..out.len()];
            simd::dispatch(ScanTiles::<T, O, REVERSE>(input, dim, out, None, PhantomData));
        });
        return Ok(());
    }
    for (input, out) in input.chunks_exact(dim).zip(out.chunks_exact_mut(dim)) {
        scan_long_row::<T, O, REVERSE>(op, input, out)?;
    }
    Ok(())
}

/// Scans a row that several threads share: first the totals of the tiles, then their carries, then
/// the results.
fn scan_long_row<T: Float, O: Operation, const REVERSE: bool>(
    op: &'static str,
    input: &[T],
    out: &mut [T],
) -> Result<()> {
    let tiles = input.len().div_ceil(TILE);
    let together = tiles.div_ceil(parallel::threads()).min(TASK);
    let mut carries = memory::filled(op, tiles, O::IDENTITY)?;
    parallel::pieces_of(together, &mut carries, |first, totals| {
        simd::dispatch(TileTotals::<T, O, REVERSE>(input, first, totals, PhantomData));
    });
    fpenv::ieee(|| {
        let mut carry = O::IDENTITY;
        for slot in &mut carries {
            let total = std::mem::replace(slot, carry);
            carry = O::apply(carry, total);
        }
    });
    // A scan from the end counts its tiles from there, so the short one is in front.
    let task = together * TILE;
    let run = |(number, (out, input)): (usize, (&mut [T], &[T]))| {
        let carry = (number > 0).then(|| carries[number * together]);
        simd::dispatch(ScanTiles::<T, O, REVERSE>(input, input.len(), out, carry, PhantomData));
    };
    if REVERSE {
        parallel::rchunks_mut(out, task)
            .zip(parallel::rchunks(input, task))
            .enumerate()
            .for_each(run);
    } else {
        parallel::chunks_mut(out, task)
            .zip(parallel::chunks(input, task))
            .enumerate()
            .for_each(run);
    }
    Ok(())
}

/// Returns the positions of elements `start..end` of a row, counted from the end if the scan runs
/// backwards.
#[inline(always)]
fn part<const REVERSE: bool>(n: usize, start: usize, end: usize) -> std::ops::Range<usize> {
    if REVERSE { n - end..n - start } else { start..end }
}

/// Returns the position of element `i` of a row, counted from the end if the scan runs backwards.
#[inline(always)]
fn place<const REVERSE: bool>(n: usize, i: usize) -> usize {
    if REVERSE { n - 1 - i } else { i }
}

/// Arguments of a kernel: rows of a length, or some tiles of a row, all whole except the last of
/// the row. The carry is the total of the tiles before, if there are any.
struct ScanTiles<'a, T, O: Operation, const REVERSE: bool>(
    &'a [T],
    usize,
    &'a mut [T],
    Option<O::State>,
    PhantomData<fn() -> O>,
);

impl<T: Float, O: Operation, const REVERSE: bool> Kernel for ScanTiles<'_, T, O, REVERSE> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ScanTiles(input, n, out, carry, _) = self;
        let mut locals = Aligned([O::IDENTITY; TILE]);
        if n < CHAINS * RUN {
            let together = TILE / n / CHAINS * CHAINS * n;
            for (input, out) in input.chunks(together).zip(out.chunks_mut(together)) {
                let locals = &mut locals[..input.len()];
                scan_short_rows::<T, O, REVERSE>(input, n, locals);
                for (out, local) in out.iter_mut().zip(locals) {
                    *out = T::from_f64(O::result(*local)).canonical();
                }
            }
            return;
        }
        for (input, out) in input.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            scan_tiles::<T, O, REVERSE>(input, out, carry, &mut locals);
        }
    }
}

/// The number of runs that are scanned together: each is a chain of dependent operations.
const CHAINS: usize = 4;

/// Scans runs of one length on their own.
#[inline(always)]
fn scan_runs<T: Float, O: Operation, const REVERSE: bool, const N: usize>(
    runs: [&[T]; N],
    locals: [&mut [O::State]; N],
) {
    let n = runs[0].len();
    let runs = runs.map(|run| &run[..n]);
    let mut local = [O::IDENTITY; N];
    for i in 0..n {
        let at = place::<REVERSE>(n, i);
        for k in 0..N {
            local[k] = O::apply(local[k], O::element(runs[k][at].into()));
            locals[k][at] = local[k];
        }
    }
}

/// Adds the total of the runs before to the elements of each run of a short row. The first run stays
/// as it is: [`Operation::IDENTITY`] would not change it.
#[inline(always)]
fn join_runs<O: Operation, const REVERSE: bool>(locals: &mut [O::State]) {
    let n = locals.len();
    let mut before = O::IDENTITY;
    for start in (0..n).step_by(RUN) {
        let end = n.min(start + RUN);
        let run = part::<REVERSE>(n, start, end);
        let run = &mut locals[run];
        if start > 0 {
            for local in &mut *run {
                *local = O::apply(before, *local);
            }
        }
        before = run[place::<REVERSE>(run.len(), run.len() - 1)];
    }
}

/// Scans rows of fewer than [`CHAINS`] runs, several together.
#[inline(always)]
fn scan_short_rows<T: Float, O: Operation, const REVERSE: bool>(
    input: &[T],
    n: usize,
    locals: &mut [O::State],
) {
    let mut groups = input.chunks_exact(CHAINS * n);
    let mut group_locals = locals.chunks_exact_mut(CHAINS * n);
    for (rows, locals) in groups.by_ref().zip(group_locals.by_ref()) {
        let (rows, locals) = (quarters(rows), quarters_mut(locals));
        let mut locals = locals;
        for start in (0..n).step_by(RUN) {
            let run = part::<REVERSE>(n, start, n.min(start + RUN));
            let locals = locals.each_mut().map(|locals| &mut locals[run.clone()]);
            scan_runs::<T, O, REVERSE, CHAINS>(rows.map(|row| &row[run.clone()]), locals);
        }
    }
    let rest = groups.remainder().chunks_exact(n);
    for (row, locals) in rest.zip(group_locals.into_remainder().chunks_exact_mut(n)) {
        for start in (0..n).step_by(RUN) {
            let run = part::<REVERSE>(n, start, n.min(start + RUN));
            scan_runs::<T, O, REVERSE, 1>([&row[run.clone()]], [&mut locals[run]]);
        }
    }
    if n > RUN {
        for locals in locals.chunks_exact_mut(n) {
            join_runs::<O, REVERSE>(locals);
        }
    }
}

/// Cuts a slice into four of the same length.
#[inline(always)]
fn quarters<T>(all: &[T]) -> [&[T]; CHAINS] {
    let (first, second) = all.split_at(all.len() / 2);
    let half = first.len() / 2;
    let ((a, b), (c, d)) = (first.split_at(half), second.split_at(half));
    [a, b, c, d]
}

/// Cuts a slice into eight of the same length.
#[inline(always)]
fn eighths<T>(all: &[T]) -> [&[T]; 2 * CHAINS] {
    let (first, second) = all.split_at(all.len() / 2);
    let ([a, b, c, d], [e, f, g, h]) = (quarters(first), quarters(second));
    [a, b, c, d, e, f, g, h]
}

/// Cuts a slice as [`quarters`].
#[inline(always)]
fn quarters_mut<T>(all: &mut [T]) -> [&mut [T]; CHAINS] {
    let (first, second) = all.split_at_mut(all.len() / 2);
    let half = first.len() / 2;
    let ((a, b), (c, d)) = (first.split_at_mut(half), second.split_at_mut(half));
    [a, b, c, d]
}

/// Cuts a slice as [`eighths`].
#[inline(always)]
fn eighths_mut<T>(all: &mut [T]) -> [&mut [T]; 2 * CHAINS] {
    let (first, second) = all.split_at_mut(all.len() / 2);
    let ([a, b, c, d], [e, f, g, h]) = (quarters_mut(first), quarters_mut(second));
    [a, b, c, d, e, f, g, h]
}

/// Adds the total of the runs before to each element of a run, then the carry, if there is one, and
/// rounds.
#[inline(always)]
fn finish_run<T: Float, O: Operation>(
    locals: &[O::State],
    before: O::State,
    carry: Option<O::State>,
    out: &mut [T],
) {
    match carry {
        None => {
            for (out, &local) in out.iter_mut().zip(locals) {
                *out = T::from_f64(O::result(O::apply(before, local))).canonical();
            }
        }
        Some(carry) => {
            for (out, &local) in out.iter_mut().zip(locals) {
                let sum = O::apply(carry, O::apply(before, local));
                *out = T::from_f64(O::result(sum)).canonical();
            }
        }
    }
}

#[inline(always)]
fn scan_tiles<T: Float, O: Operation, const REVERSE: bool>(
    input: &[T],
    out: &mut [T],
    mut carry: Option<O::State>,
    locals: &mut [O::State; TILE],
) {
    let n = input.len();
    for start in (0..n).step_by(TILE) {
        let tile = part::<REVERSE>(n, start, n.min(start + TILE));
        let (input, out) = (&input[tile.clone()], &mut out[tile]);
        let length = input.len();
        let locals = &mut locals[..length];
        let mut done = 0;
        while length - done >= 2 * CHAINS * RUN {
            let runs = part::<REVERSE>(length, done, done + 2 * CHAINS * RUN);
            let (inputs, outputs) = (eighths(&input[runs.clone()]), eighths_mut(&mut locals[runs]));
            scan_runs::<T, O, REVERSE, { 2 * CHAINS }>(inputs, outputs);
            done += 2 * CHAINS * RUN;
        }
        if length - done >= CHAINS * RUN {
            let runs = part::<REVERSE>(length, done, done + CHAINS * RUN);
            let (inputs, outputs) =
                (quarters(&input[runs.clone()]), quarters_mut(&mut locals[runs]));
            scan_runs::<T, O, REVERSE, CHAINS>(inputs, outputs);
            done += CHAINS * RUN;
        }
        for run in (done..length).step_by(RUN) {
            let run = part::<REVERSE>(length, run, length.min(run + RUN));
            scan_runs::<T, O, REVERSE, 1>([&input[run.clone()]], [&mut locals[run]]);
        }
        let mut total = O::IDENTITY;
        for run in (0..length).step_by(RUN) {
            let run = part::<REVERSE>(length, run, length.min(run + RUN));
            let (locals, out) = (&locals[run.clone()], &mut out[run]);
            finish_run::<T, O>(locals, total, carry, out);
            total = O::apply(total, locals[place::<REVERSE>(locals.len(), locals.len() - 1)]);
        }
        carry = Some(carry.map_or(total, |carry| O::apply(carry, total)));
    }
}

/// The number of columns that are scanned together, and for matrices of fewer columns.
const LANES: usize = 16;
const FEW: usize = 4;

/// Arguments of a kernel: all columns of a tile, `N` at a time.
struct ScanColumns<'a, T, O, const N: usize, const REVERSE: bool> {
    input: &'a [T],
    /// The distance between rows.
    stride: usize,
    out: TileMut<'a, T>,
    of: PhantomData<fn() -> O>,
}

impl<T: Float, O: Operation, const N: usize, const REVERSE: bool> Kernel
    for ScanColumns<'_, T, O, N, REVERSE>
{
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ScanColumns { input, stride, mut out, .. } = self;
        let (n, columns) = (out.rows, out.columns);
        for matrix in 0..out.matrices {
            let input = &input[matrix * n * stride..];
            let mut out = out.matrix(matrix);
            for group in 0..columns.div_ceil(N) {
                // The last columns overlap those before, and the same values are written again.
                let first = (group * N).min(columns.saturating_sub(N));
                let count = N.min(columns - first);
                scan_columns::<T, O, N, REVERSE>(input, stride, &mut out, first..first + count);
            }
        }
    }
}

/// Scans at most `N` columns. Lanes without a column scan any elements.
#[inline(always)]
fn scan_columns<T: Float, O: Operation, const N: usize, const REVERSE: bool>(
    input: &[T],
    stride: usize,
    out: &mut TileMut<'_, T>,
    columns: std::ops::Range<usize>,
) {
    let [mut carry, mut before, mut local] = [[O::IDENTITY; N]; 3];
    for k in 0..out.rows {
        let row = place::<REVERSE>(out.rows, k);
        // Short rows read past their end; the excess is discarded.
        let values = &input[row * stride + columns.start..];
        let mut x = [T::ZERO; N];
        match values.first_chunk::<N>() {
            Some(values) => x = *values,
            None => short::copy(values, &mut x[..values.len()]),
        }
        let mut y = [T::ZERO; N];
        for j in 0..N {
            local[j] = O::apply(local[j], O::element(x[j].into()));
        }
        // What stands before the first run, or the first tile, would not change a sum.
        let mut sums = local;
        if k >= RUN {
            for j in 0..N {
                sums[j] = O::apply(before[j], sums[j]);
            }
        }
        if k >= TILE {
            for j in 0..N {
                sums[j] = O::apply(carry[j], sums[j]);
            }
        }
        for j in 0..N {
            y[j] = T::from_f64(O::result(sums[j])).canonical();
        }
        let to = out.row(0, row, columns.start, columns.end);
        match to.first_chunk_mut::<N>() {
            Some(to) => *to = y,
            None => short::copy_stored(&y[..to.len()], to),
        }
        if (k + 1) % RUN == 0 {
            for j in 0..N {
                before[j] = O::apply(before[j], std::mem::replace(&mut local[j], O::IDENTITY));
            }
        }
        if (k + 1) % TILE == 0 {
            for j in 0..N {
                carry[j] = O::apply(carry[j], std::mem::replace(&mut before[j], O::IDENTITY));
            }
        }
    }
}

/// Arguments of a kernel: the totals of tiles from a first one on.
struct TileTotals<'a, T, O: Operation, const REVERSE: bool>(
    &'a [T],
    usize,
    &'a mut [O::State],
    PhantomData<fn() -> O>,
);

impl<T: Float, O: Operation, const REVERSE: bool> Kernel for TileTotals<'_, T, O, REVERSE> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let TileTotals(input, first, totals, _) = self;
        let n = input.len();
        for (offset, total) in totals.iter_mut().enumerate() {
            let start = (first + offset) * TILE;
            let end = n.min(start + TILE);
            let mut before = O::IDENTITY;
            let mut run = start;
            // Four runs at a time: each is a chain of dependent additions.
            while run + 4 * RUN <= end {
                let mut local = [O::IDENTITY; 4];
                for i in 0..RUN {
                    for (k, local) in local.iter_mut().enumerate() {
                        let x = input[place::<REVERSE>(n, run + k * RUN + i)];
                        *local = O::apply(*local, O::element(x.into()));
                    }
                }
                // A fold would not be inlined into the kernel.
                for state in local {
                    before = O::apply(before, state);
                }
                run += 4 * RUN;
            }
            while run < end {
                let mut local = O::IDENTITY;
                for i in run..end.min(run + RUN) {
                    local = O::apply(local, O::element(input[place::<REVERSE>(n, i)].into()));
                }
                before = O::apply(before, local);
                run += RUN;
            }
            *total = before;
        }
    }
}
