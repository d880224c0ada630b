//! Selection by rank: the key of a rank is found by its digits of 11 bits, from the highest one
//! down, and no other element is moved.

use crate::device::{Device, Sortable, product};
use crate::elementwise::{View, copy};
use crate::error::{CudaError, Result};
use crate::launch::declared::sort::{RawChosen, RawSelect};
use crate::launch::kernels::sort as kernels;
use crate::launch::{Buffer, Launch};
use crate::reduce::grid;

/// The number of elements that one block sorts, and of its threads.
pub(super) const TILE: usize = 1024;
pub(super) const THREADS: u32 = 256;
/// The number of elements that a block takes of a line that has several blocks.
const PART: usize = 8192;
/// The number of lines from which on each has only one block.
const LINES: usize = 128;
/// A digit's bits, and the counts of a line: one for each digit, and one of NaNs.
const DIGIT: usize = 11;
const BINS: usize = (1 << DIGIT) + 1;

/// The elements of a line to select.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The first ones in sorted order, in order of position.
    First(usize),
    /// The one at this place.
    Place(usize),
    /// The lower median, or the first NaN.
    Median,
    /// The lower median of the numbers.
    NanMedian,
}

impl Wanted {
    /// Tells if selection is cheaper than sorting lines of `n` elements.
    pub(super) fn is_few_of(self, n: usize) -> bool {
        match self {
            Wanted::First(k) => n > TILE && k <= n / 2,
            _ => n > TILE,
        }
    }
}

/// Returns a buffer of the same elements in which the lines of `x` are dense, if they are not.
pub(super) fn dense_lines<T: Sortable>(
    device: &Device,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
) -> Result<Option<Buffer<T>>> {
    if inner == 1 {
        return Ok(None);
    }
    let strides = [(n * inner) as isize, 1, inner as isize];
    copy(device, x, &[outer, inner, n], View { strides: &strides, offset: 0 }).map(Some)
}

/// Returns the positions of the elements wanted of each dense line of `x`, which has at least one.
pub(super) fn picks<T: Sortable>(
    device: &Device,
    op: &'static str,
    x: &Buffer<T>,
    [lines, n]: [usize; 2],
    descending: bool,
    wanted: Wanted,
) -> Result<Buffer<u32>> {
    short_enough(op, n)?;
    let (mode, k, kept) = match wanted {
        Wanted::First(k) => (0, k, k),
        Wanted::Place(place) => (1, place, 1),
        Wanted::Median => (2, 0, 1),
        Wanted::NanMedian => (3, 0, 1),
    };
    let parts = if lines < LINES { n.div_ceil(PART) } else { 1 };
    let p = RawSelect { lines, n, parts, k, descending: u32::from(descending), mode };
    let mut picks = device.uninitialised::<u32>(op, product(op, &[lines, kept])?)?;
    let blocks = (grid(op, lines * parts)?, 1, 1);
    let threads = (THREADS, 1, 1);
    if parts == 1 {
        kernels::SelectLines { picks: &mut picks, input: x, p }
            .grid(device, op, blocks, threads)?;
        return Ok(picks);
    }
    let passes = (8 * size_of::<T>()).div_ceil(DIGIT);
    let mut bins = device.zeros_for::<u32>(op, passes * lines * BINS)?;
    let mut chosen = device.uninitialised::<RawChosen>(op, (passes + 1) * lines)?;
    for pass in 0..passes as u32 {
        kernels::SelectDigits { bins: &mut bins, chosen: &mut chosen, input: x, p, pass }
            .grid(device, op, blocks, threads)?;
    }
    let pass = passes as u32;
    let mut counts = device.uninitialised::<u32>(op, 2 * lines * parts)?;
    kernels::SelectCounts {
        counts: &mut counts,
        chosen: &mut chosen,
        input: x,
        bins: &bins,
        p,
        pass,
    }
    .grid(device, op, blocks, threads)?;
    kernels::SelectWrite { picks: &mut picks, input: x, chosen: &chosen, counts: &counts, p, pass }
        .grid(device, op, blocks, threads)?;
    Ok(picks)
}

/// Checks that positions fit 32 bits.
pub(super) fn short_enough(op: &'static str, n: usize) -> Result<()> {
    if n < u32::MAX as usize {
        return Ok(());
    }
    Err(CudaError::invalid(op, format!("{n} is more than 2^32 - 2 elements")))
}
