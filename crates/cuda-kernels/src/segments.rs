//! Irregular sums: exact accumulators in memory, and rows grouped by destination.

use crate::launch::kernels::scatter as kernels;
use crate::launch::{Buffer, Launch};

use crate::device::Device;
use crate::error::{CudaError, Result};

/// The number of words of an exact accumulator in global memory.
pub(crate) const ACCUMULATOR: usize = 10;
/// The number of addends per output that an accumulator holds without propagating carries.
const MOST_ADDENDS: usize = 1 << 31;
/// The number of counts that one block scans.
const SCAN: usize = 1024;

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

/// Returns true if sums go through accumulators in memory: for few outputs with many addends each.
/// Both ways give the same bits, so the threshold affects only the speed.
pub(crate) fn deposits(addends: usize, outputs: usize) -> bool {
    addends / 8 >= outputs
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

/// Source rows, grouped by destination with a counting sort.
pub(crate) struct Segments {
    /// The source rows, segment by segment.
    pub(crate) positions: Buffer<u32>,
    /// The end of each segment.
    pub(crate) ends: Buffer<u32>,
    /// The length of each segment.
    pub(crate) counts: Buffer<u32>,
    size: usize,
}

impl Segments {
    pub(crate) fn new(
        device: &Device,
        op: &'static str,
        index: &Buffer<i64>,
        n: usize,
        size: usize,
        report: &mut Buffer<u64>,
    ) -> Result<Segments> {
        if u32::try_from(n).is_err() {
            return Err(CudaError::invalid(op, format!("{n} is more than 2^32 - 1 source rows")));
        }
        let mut counts = device.zeros_for::<u32>(op, size)?;
        kernels::RowsCount { counts: &mut counts, index, n, size, status: report }
            .threads(device, op, n)?;
        let mut ends = scan(device, op, &counts, size)?;
        // Bad indices leave the tail of `positions` unused.
        let mut positions = device.uninitialised::<u32>(op, n)?;
        kernels::RowsFill { positions: &mut positions, cursors: &mut ends, index, n, size }
            .threads(device, op, n)?;
        Ok(Segments { positions, ends, counts, size })
    }

    /// Puts each segment into ascending source order.
    pub(crate) fn sort(&mut self, device: &Device, op: &'static str) -> Result<()> {
        kernels::RowsSort {
            positions: &mut self.positions,
            ends: &self.ends,
            counts: &self.counts,
            size: self.size,
        }
        .threads(device, op, self.size)
    }
}

/// Computes the exclusive prefix sums of counts.
pub(crate) fn scan(
    device: &Device,
    op: &'static str,
    counts: &Buffer<u32>,
    n: usize,
) -> Result<Buffer<u32>> {
    let blocks = n.div_ceil(SCAN);
    let mut starts = device.uninitialised::<u32>(op, n)?;
    let mut totals = device.uninitialised::<u32>(op, blocks)?;
    let grid = u32::try_from(blocks)
        .map_err(|_| CudaError::invalid(op, format!("{n} rows are too many")))?;
    kernels::RowsScan { starts: &mut starts, counts, n, totals: &mut totals }.grid(
        device,
        op,
        (grid, 1, 1),
        (256, 1, 1),
    )?;
    if blocks > 1 {
        let before = scan(device, op, &totals, blocks)?;
        kernels::RowsScanAdd { starts: &mut starts, n, block_starts: &before }
            .threads(device, op, n)?;
    }
    Ok(starts)
}
