//! The sort itself: short lines in tiles, those of a few thousand elements in one block each, and
//! longer ones by all blocks, digit by digit.

use crate::device::{Device, Sortable, product};
use crate::error::Result;
use crate::launch::declared::sort::RawSort;
use crate::launch::kernels::sort as kernels;
use crate::launch::{Buffer, Launch};
use crate::reduce::grid;

use super::Found;
use super::select::{THREADS, TILE, dense_lines, short_enough};

/// The longest line that one block sorts, and the elements that it moves at once.
const LINE: usize = 4096;
/// The number of tiles of all lines above which a block takes several of a line.
const PARTS: usize = 1024;
/// A digit's bits.
const DIGIT: u32 = 8;

/// The elements of every line in order.
pub(crate) struct Sorted<T: Sortable> {
    /// The elements as unsigned integers in the same order: the sign bit of an i64 is inverted. The
    /// buffer may be longer.
    pub(crate) keys: Buffer<T::Key>,
    /// The original position of each element. The buffer may be longer.
    pub(crate) places: Buffer<u32>,
    /// The number of places of each line.
    pub(super) stride: usize,
}

/// What to sort.
struct Lines<'a, T: Sortable> {
    input: &'a Buffer<T>,
    picks: &'a Buffer<u32>,
    p: RawSort,
    /// The number of bits in which keys can differ.
    bits: u32,
}

impl Sorted<i64> {
    /// Sorts keys from 0 to `most`.
    pub(crate) fn of_keys_to(
        device: &Device,
        op: &'static str,
        keys: &Buffer<i64>,
        n: usize,
        most: usize,
    ) -> Result<Sorted<i64>> {
        let bits = usize::BITS - most.leading_zeros();
        Sorted::with_bits(device, op, keys, [1, n, 1], false, None, bits)
    }
}

impl<T: Sortable> Sorted<T> {
    /// Sorts lines that are not empty.
    pub(crate) fn new(
        device: &Device,
        op: &'static str,
        x: &Buffer<T>,
        shape: [usize; 3],
        descending: bool,
    ) -> Result<Sorted<T>> {
        Sorted::of(device, op, x, shape, descending, None)
    }

    /// Sorts lines, or only the elements at some positions: so many of each line, in ascending order.
    pub(super) fn of(
        device: &Device,
        op: &'static str,
        x: &Buffer<T>,
        shape: [usize; 3],
        descending: bool,
        picks: Option<(&Buffer<u32>, usize)>,
    ) -> Result<Sorted<T>> {
        let bits = 8 * size_of::<T>() as u32;
        Sorted::with_bits(device, op, x, shape, descending, picks, bits)
    }

    fn with_bits(
        device: &Device,
        op: &'static str,
        x: &Buffer<T>,
        [outer, source, inner]: [usize; 3],
        descending: bool,
        picks: Option<(&Buffer<u32>, usize)>,
        bits: u32,
    ) -> Result<Sorted<T>> {
        short_enough(op, source)?;
        let lines = product(op, &[outer, inner])?;
        let n = picks.map_or(source, |(_, n)| n);
        let none;
        let (picks, picked) = match picks {
            Some((picks, _)) => (picks, 1),
            None => {
                none = device.uninitialised::<u32>(op, 0)?;
                (&none, 0)
            }
        };
        let mut p = RawSort::new(op, lines, n, descending)?;
        (p.source, p.inner, p.picked) = (source, inner, picked);
        if n <= LINE {
            return Lines { input: x, picks, p, bits }.sort_in_blocks(device, op);
        }
        // The digits of long lines are read several times.
        let dense = dense_lines(device, x, [outer, source, inner])?;
        p.inner = 1;
        Lines { input: dense.as_ref().unwrap_or(x), picks, p, bits }.sort_by_digits(device, op)
    }
}

/// Sorts the rows of a matrix and returns the original index of each element, if one block sorts a row
/// and rows do not share one.
pub(super) fn rows<T: Sortable>(
    device: &Device,
    op: &'static str,
    x: &Buffer<T>,
    [rows, n]: [usize; 2],
    descending: bool,
) -> Result<Option<Found<T>>> {
    if n <= TILE || n > LINE {
        return Ok(None);
    }
    let mut values = device.uninitialised(op, rows * n)?;
    let mut indices = device.uninitialised(op, rows * n)?;
    let p = RawSort::new(op, rows, n, descending)?;
    kernels::SortRows { values: &mut values, indices: &mut indices, input: x, p }.grid(
        device,
        op,
        (grid(op, rows)?, 1, 1),
        (THREADS, 1, 1),
    )?;
    Ok(Some((values, indices)))
}

impl RawSort {
    /// All elements of dense lines.
    fn new(op: &'static str, lines: usize, n: usize, descending: bool) -> Result<RawSort> {
        let tiles = n.div_ceil(LINE);
        let part = product(op, &[lines, tiles])?.div_ceil(PARTS).clamp(1, tiles.max(1)) * LINE;
        Ok(RawSort {
            lines,
            n,
            source: n,
            inner: 1,
            parts: n.div_ceil(part),
            part,
            per_tile: (TILE / n).max(1),
            descending: u32::from(descending),
            picked: 0,
        })
    }
}

impl<T: Sortable> Lines<'_, T> {
    /// Sorts lines that fit into a block.
    fn sort_in_blocks(self, device: &Device, op: &'static str) -> Result<Sorted<T>> {
        let Lines { input, picks, p, .. } = self;
        let mut keys = device.uninitialised::<T::Key>(op, p.lines * p.n)?;
        let mut places = device.uninitialised::<u32>(op, p.lines * p.n)?;
        let threads = (THREADS, 1, 1);
        let blocks = (grid(op, p.lines.div_ceil(p.per_tile))?, 1, 1);
        if p.n <= TILE {
            kernels::SortTiles { keys: &mut keys, places: &mut places, input, picks, p }
                .grid(device, op, blocks, threads)?;
        } else {
            kernels::SortLines { keys: &mut keys, places: &mut places, input, picks, p }
                .grid(device, op, blocks, threads)?;
        }
        Ok(Sorted { keys, places, stride: p.n })
    }

    /// Sorts dense lines. Passes for which no digit is left do nothing.
    fn sort_by_digits(self, device: &Device, op: &'static str) -> Result<Sorted<T>> {
        let Lines { input, picks, p, bits } = self;
        // Passes read one half and write the other; the last one writes the first half.
        let elements = product(op, &[2, p.lines, p.n])?;
        let mut keys = device.uninitialised::<T::Key>(op, elements)?;
        let mut places = device.uninitialised::<u32>(op, elements)?;
        let digits = product(op, &[p.lines, 1 << DIGIT])?;
        let mut counts = device.uninitialised::<u32>(op, product(op, &[digits, p.parts])?)?;
        let mut totals = device.uninitialised::<u32>(op, digits)?;
        let mut differs = device.zeros_for::<u64>(op, 1)?;
        let blocks = (grid(op, product(op, &[p.lines, p.parts])?)?, 1, 1);
        let threads = (THREADS, 1, 1);
        kernels::SortDiffers { differs: &mut differs, input, picks, p }
            .grid(device, op, blocks, threads)?;
        let differs = &differs;
        for pass in 0..bits.div_ceil(DIGIT).max(1) {
            kernels::SortCounts {
                counts: &mut counts,
                keys: &keys,
                input,
                picks,
                differs,
                p,
                pass,
            }
            .grid(device, op, blocks, threads)?;
            kernels::SortStarts { counts: &mut counts, totals: &mut totals, differs, p, pass }
                .threads(device, op, product(op, &[digits, 32])?)?;
            kernels::SortMove {
                keys: &mut keys,
                places: &mut places,
                input,
                picks,
                counts: &counts,
                totals: &totals,
                differs,
                p,
                pass,
            }
            .grid(device, op, blocks, threads)?;
        }
        Ok(Sorted { keys, places, stride: p.n })
    }
}
