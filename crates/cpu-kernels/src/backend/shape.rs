use std::ops::Range;

use samebits_tensor_core::geometry::Split;
use samebits_tensor_core::ops::{Cat, Flip, FlipGroup};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Op, Result, Tensor};

use super::elementwise::in_storage_order;
use super::reduced::merged;
use super::with_bits;
use crate::{flip, memory, parallel, short};

pub(super) fn register_all() {
    const COPY: &str = "each element is copied";
    register(Kernel::portable(
        "copy",
        &DType::ALL,
        COPY,
        |op: &Cat, (split, shape)| with_bits!(op.dtype(), T => cat::<T>(op, *split, shape)),
    ));
    register(Kernel::portable("copy", &DType::ALL, COPY, |op: &Flip, groups| flip(op, groups)));
}

/// Returns the result of a tensor that is dense but for the order of its dimensions as one that lies in
/// memory as it does.
fn flip(op: &Flip, groups: &[FlipGroup]) -> Result<Tensor> {
    match in_storage_order(&op.x)? {
        Some((stored, places)) if stored.numel() == op.x.numel() => {
            let dims = op.dims.iter().map(|&dim| places[dim]).collect();
            let op = Flip { x: stored, dims };
            flipped(&op.x, &op.plan()?)?.permute(&places)
        }
        _ => flipped(&op.x.contiguous()?, groups),
    }
}

fn flipped(x: &Tensor, groups: &[FlipGroup]) -> Result<Tensor> {
    let mut out = Tensor::scratch(x.shape(), x.dtype())?;
    with_bits!(x.dtype(), T => flip::flip::<T>(out.as_mut_slice()?, x.as_slice()?, groups)?);
    Ok(out)
}

fn cat<T: Element>(op: &Cat, split: Split, shape: &[usize]) -> Result<Tensor> {
    let mut out = Tensor::scratch(shape, op.dtype())?;
    let Split { size, inner, .. } = split;
    let row = size * inner;
    let width = |input: &Tensor| input.shape()[op.dim] * inner;
    let mut inputs = memory::with_capacity(Cat::NAME, op.inputs.len())?;
    for input in &op.inputs {
        inputs.push(match runs_of(input, op.dim, row > SHORT)? {
            None if width(input) < LONG => {
                (input.contiguous()?, Some(Runs::of_dense_rows(width(input))))
            }
            runs => (input.clone(), runs),
        });
    }
    if inputs.iter().any(|(_, runs)| runs.is_none()) {
        long_rows(&inputs, op.dim, inner, out.as_mut_slice::<T>()?)?;
        return Ok(out);
    }
    let mut parts = memory::with_capacity(Cat::NAME, inputs.len())?;
    for (input, runs) in &inputs {
        let Some(runs) = *runs else { continue };
        // An empty input, which may be of step 0 as well, has no element to begin at.
        if input.numel() > 0 {
            let data = &input.storage_slice::<T>()?[input.layout().offset()..];
            parts.push(Part { data, runs, width: width(input) });
        }
    }
    if row <= SHORT {
        parallel::rows(row, out.as_mut_slice::<T>()?, |start, to| {
            let mut skipped = 0;
            for part in &parts {
                part.write(start / row, to, row, skipped);
                skipped += part.width;
            }
        });
        return Ok(out);
    }
    // A piece may begin and end within a row, which may be all there is.
    parallel::pieces(out.as_mut_slice::<T>()?, |start, mut to| {
        let (mut i, mut skipped) = (start / row, start % row);
        while !to.is_empty() {
            for part in &parts {
                let first = skipped.min(part.width);
                skipped -= first;
                let (now, rest) = to.split_at_mut((part.width - first).min(to.len()));
                part.read(i, first, now);
                to = rest;
            }
            i += 1;
        }
    });
    Ok(out)
}

/// Rows that consist of runs of neighbours, or of one element that repeats.
#[derive(Clone, Copy)]
struct Runs {
    /// The distance between rows.
    row: usize,
    /// The distance between the runs of a row.
    run: usize,
    /// The number of elements of a run.
    size: usize,
    /// Tells if a run is one element, repeated.
    repeats: bool,
}

impl Runs {
    /// Returns the runs of rows of `width` elements, one after the other.
    fn of_dense_rows(width: usize) -> Runs {
        Runs { row: width, run: 0, size: width, repeats: false }
    }
}

/// Copies rows of the inputs, of which one or more have no runs, one after the other, each on several
/// threads.
fn long_rows<T: Element>(
    inputs: &[(Tensor, Option<Runs>)],
    dim: usize,
    inner: usize,
    mut out: &mut [T],
) -> Result<()> {
    let mut i = 0;
    while !out.is_empty() {
        for (input, runs) in inputs {
            let width = input.shape()[dim] * inner;
            let (row, rest) = out.split_at_mut(width);
            out = rest;
            match *runs {
                Some(_) if width == 0 => {}
                Some(runs) => {
                    let data = &input.storage_slice::<T>()?[input.layout().offset()..];
                    let part = Part { data, runs, width };
                    parallel::pieces(row, |first, to| part.read(i, first, to));
                }
                None => {
                    let (mut view, mut number) = (input.clone(), i);
                    for dim in (0..dim).rev() {
                        let size = input.shape()[dim];
                        view = view.narrow(dim, number % size, 1)?;
                        number /= size;
                    }
                    view.copy_to(row)?;
                }
            }
        }
        i += 1;
    }
    Ok(())
}

/// Returns the runs of the rows of an input, which begin at dimension `dim`, if it has them. If `several`, a
/// row may have more than one.
fn runs_of(input: &Tensor, dim: usize, several: bool) -> Result<Option<Runs>> {
    let layout = input.layout();
    let merged =
        |dims: Range<usize>| merged(&layout.shape()[dims.clone()], &layout.strides()[dims]);
    let (rows, row) = (merged(0..dim)?, merged(dim..layout.rank())?);
    let width = row.numel();
    let outer = match rows.strides() {
        [] => Some(0),
        &[stride] => Some(stride),
        _ => None,
    };
    let runs = match (row.shape(), row.strides()) {
        ([], _) => Some((0, 1, true)),
        (_, &[step @ 0..=1]) => Some((0, width, step == 0)),
        (&[_, size], &[run, step @ 0..=1]) if several && size >= RUN => {
            Some((run, size, step == 0))
        }
        _ => None,
    };
    Ok(match (outer, runs) {
        (Some(row), Some((run, size, repeats))) => Some(Runs { row, run, size, repeats }),
        _ => None,
    })
}

/// The number of elements of a row without runs from which it is copied to its place; shorter ones are
/// copied to dense memory first, all together.
const LONG: usize = 1 << 15;

/// The number of elements from which the runs of a row are copied one by one.
const RUN: usize = 16;

/// The number of elements of a row up to which its parts are copied without a call for each.
const SHORT: usize = 64;

/// What an input holds of each row.
struct Part<'a, T> {
    data: &'a [T],
    runs: Runs,
    /// The number of elements of a row.
    width: usize,
}

impl<T: Copy> Part<'_, T> {
    /// Copies elements of row `row`, from element `first` on.
    fn read(&self, row: usize, first: usize, mut to: &mut [T]) {
        let Runs { row: stride, run, size, repeats } = self.runs;
        let (mut at, mut skipped) = (row * stride, first);
        if size < self.width {
            at += first / size * run;
            skipped = first % size;
        }
        while !to.is_empty() {
            let (now, rest) = to.split_at_mut((size - skipped).min(to.len()));
            if repeats {
                now.fill(self.data[at]);
            } else {
                now.copy_from_slice(&self.data[at + skipped..][..now.len()]);
            }
            (to, at, skipped) = (rest, at + run, 0);
        }
    }

    /// Writes rows of one run, from row `first` on, to places `skipped` elements into rows of `row`.
    fn write(&self, first: usize, to: &mut [T], row: usize, skipped: usize) {
        let Part { data, runs: Runs { row: stride, repeats, .. }, width } = *self;
        let rows = to.chunks_exact_mut(row).zip(first..);
        if repeats {
            rows.for_each(|(to, i)| to[skipped..skipped + width].fill(data[i * stride]));
            return;
        }
        match width {
            0 => {}
            1 => self.copy::<1>(first, to, row, skipped),
            2 => self.copy::<2>(first, to, row, skipped),
            3 => self.copy::<3>(first, to, row, skipped),
            4 => self.copy::<4>(first, to, row, skipped),
            5 => self.copy::<5>(first, to, row, skipped),
            6 => self.copy::<6>(first, to, row, skipped),
            7 => self.copy::<7>(first, to, row, skipped),
            8 => self.copy::<8>(first, to, row, skipped),
            9..=short::MOST => rows.for_each(|(to, i)| {
                short::copy(&data[i * stride..][..width], &mut to[skipped..skipped + width]);
            }),
            _ => rows.for_each(|(to, i)| {
                to[skipped..skipped + width].copy_from_slice(&data[i * stride..][..width]);
            }),
        }
    }

    /// Computes [`write`](Part::write) of rows of `N` elements.
    fn copy<const N: usize>(&self, first: usize, to: &mut [T], row: usize, skipped: usize) {
        let stride = self.runs.row;
        let from = &self.data[first * stride..];
        let to = to.chunks_exact_mut(row);
        if stride == N {
            // Without a check for each row.
            for (to, from) in to.zip(from.as_chunks::<N>().0) {
                to[skipped..skipped + N].copy_from_slice(from);
            }
            return;
        }
        for (i, to) in to.enumerate() {
            to[skipped..skipped + N].copy_from_slice(&from[i * stride..][..N]);
        }
    }
}
