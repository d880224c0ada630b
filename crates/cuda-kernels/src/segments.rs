//! Irregular sums: exact accumulators in memory, and rows grouped by destination.

use crate::launch::declared::scatter::RawSegments;
use crate::launch::kernels::scatter as kernels;
use crate::launch::{Buffer, Launch};

use crate::counts::starts;
use crate::device::{Device, Float, product};
use crate::error::{CudaError, Result};
use crate::sort::Sorted;

/// The number of words of an exact accumulator in global memory.
pub(crate) const ACCUMULATOR: usize = 10;
/// The number of addends per output that an accumulator holds without propagating carries.
const MOST_ADDENDS: usize = 1 << 31;
/// The number of sources above which a segment is cut; `SB_PIECE` in `kernels/include/segments.cuh`.
const PIECE: usize = 256;

/// Rounds exact accumulators into `out`.
pub(crate) fn round(
    device: &Device,
    op: &'static str,
    out: &mut Buffer<f32>,
    sums: &Buffer<u64>,
    n: usize,
    with_old: bool,
) -> Result<()> {
    kernels::ExactRound { out, acc: sums, n, with_old: u32::from(with_old) }.threads(device, op, n)
}

/// Returns true if sums go through accumulators in memory: for few outputs with many addends each, in
/// narrow rows. The threads of wide ones read segments side by side. Both ways give the same bits, so
/// the thresholds affect only the speed.
pub(crate) fn deposits(addends: usize, outputs: usize, width: usize) -> bool {
    width < 4 && addends / 8 >= outputs
}

pub(crate) fn check_addends(op: &'static str, addends: usize) -> Result<()> {
    if addends >= MOST_ADDENDS {
        return Err(CudaError::invalid(
            op,
            format!("{addends} addends are more than the {MOST_ADDENDS} that one call can take"),
        ));
    }
    Ok(())
}

/// Source rows, grouped by destination: with a counting sort, or a stable sort if their order counts.
pub(crate) struct Segments {
    /// The source rows, segment by segment.
    pub(crate) positions: Buffer<u32>,
    /// The end of each segment.
    pub(crate) ends: Buffer<u32>,
    /// The length of each segment.
    pub(crate) counts: Buffer<u32>,
    /// The number of source rows.
    n: usize,
}

/// The order of the source rows within a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The order of arrival: for exact sums, which do not see it.
    Any,
    /// Ascending.
    Source,
}

impl Order {
    /// Returns the order for sums of this type: those of f32 are exact.
    pub(crate) fn of_sums<T: Float>() -> Order {
        if T::WIDE { Order::Source } else { Order::Any }
    }
}

impl Segments {
    pub(crate) fn new(
        device: &Device,
        op: &'static str,
        index: &Buffer<i64>,
        [n, size]: [usize; 2],
        order: Order,
        report: &mut Buffer<u64>,
    ) -> Result<Segments> {
        if u32::try_from(n).is_err() {
            return Err(CudaError::invalid(op, format!("{n} is more than 2^32 - 1 source rows")));
        }
        let mut counts = device.zeros_for::<u32>(op, size)?;
        kernels::RowsCount { counts: &mut counts, index, n, size, status: report }
            .threads(device, op, n)?;
        let mut ends = starts(device, op, &counts, size)?;
        // Bad indices leave the tail of `positions` unused.
        let positions = if order == Order::Source && n > 0 {
            kernels::RowsEnds { starts: &mut ends, counts: &counts, size }
                .threads(device, op, size)?;
            let mut keys = device.uninitialised::<i64>(op, n)?;
            kernels::RowsKeys { keys: &mut keys, index, n, size }.threads(device, op, n)?;
            Sorted::of_keys_to(device, op, &keys, n, size)?.places
        } else {
            let mut positions = device.uninitialised::<u32>(op, n)?;
            kernels::RowsFill { positions: &mut positions, cursors: &mut ends, index, n, size }
                .threads(device, op, n)?;
            positions
        };
        Ok(Segments { positions, ends, counts, n })
    }
}

/// The segments that are cut, because one thread would take too long for the exact sum of each of their
/// outputs.
pub(crate) struct LongSegments {
    /// The number of long segments and of their pieces.
    pub(crate) cursor: Buffer<u64>,
    /// The row of each long segment.
    pub(crate) rows: Buffer<u32>,
    /// The first piece of each.
    pub(crate) firsts: Buffer<u32>,
    /// The number of source rows, or 0 if no segment may be cut.
    n: usize,
}

impl LongSegments {
    /// Returns an empty list for a kernel that notes long segments. Segments whose order counts are
    /// not cut.
    pub(crate) fn new<T: Float>(
        device: &Device,
        op: &'static str,
        segments: &Segments,
    ) -> Result<LongSegments> {
        let n = if T::WIDE { 0 } else { segments.n };
        let most = n / (PIECE + 1);
        Ok(LongSegments {
            cursor: device.zeros_for(op, 1)?,
            rows: device.uninitialised(op, most)?,
            firsts: device.uninitialised(op, most)?,
            n,
        })
    }

    /// Writes the outputs of the long segments: `add` launches so many threads, which add the pieces'
    /// sums to accumulators. Does nothing if there are too few source rows for a long segment.
    pub(crate) fn sum<T: Float>(
        &self,
        device: &Device,
        op: &'static str,
        out: &mut Buffer<T>,
        outputs: RawSegments,
        with_old: bool,
        add: impl FnOnce(&mut Buffer<u64>, usize) -> Result<()>,
    ) -> Result<()> {
        let most = self.n / (PIECE + 1);
        if most == 0 || outputs.columns == 0 {
            return Ok(());
        }
        check_addends(op, self.n)?;
        let sums = product(op, &[most, outputs.columns])?;
        let mut acc = device.zeros_for(op, product(op, &[sums, ACCUMULATOR])?)?;
        // The last piece of a segment may be short; a segment of PIECE + 1 has two.
        let pieces = 2 * self.n / (PIECE + 1) + 1;
        add(&mut acc, product(op, &[pieces, outputs.columns])?)?;
        kernels::LongRound {
            out,
            acc: &acc,
            cursor: &self.cursor,
            long_rows: &self.rows,
            p: outputs,
            with_old: u32::from(with_old),
        }
        .threads(device, op, sums)
    }
}
