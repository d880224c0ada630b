//! Irregular sums: exact accumulators in memory, and rows grouped by destination.

use crate::launch::Buffer;

use crate::device::Device;
use crate::error::{CudaError, Result};
use crate::launch::Call;
use crate::scatter::FAMILY;

/// Words of an exact accumulator in global memory.
pub(crate) const ACCUMULATOR: usize = 10;
/// Addends per output that an accumulator takes before carries would have to be passed on.
const MOST_ADDENDS: usize = 1 << 31;
/// Counts that one block scans.
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
    device
        .kernel(op, FAMILY, "exact_round_f32")?
        .on(device.stream())
        .write(out)
        .read(sums)
        .value(&(n as u64))
        .value(&u32::from(with_old))
        .threads(n, device.block())
}

/// Whether sums go through accumulators in memory: few outputs with many addends each. Both
/// ways give the same bits, so the threshold is a matter of speed alone.
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

/// Source rows grouped by destination: a counting sort.
pub(crate) struct Segments {
    /// Source rows, segment by segment.
    pub(crate) positions: Buffer<u32>,
    /// Where each segment ends.
    pub(crate) ends: Buffer<u32>,
    /// How long it is.
    pub(crate) counts: Buffer<u32>,
    size: usize,
}

impl<'a> Call<'a> {
    /// The three buffers of grouped rows, in the order in which every kernel has them.
    pub(crate) fn segments(self, segments: &'a Segments) -> Call<'a> {
        self.read(&segments.positions).read(&segments.ends).read(&segments.counts)
    }
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
        device
            .kernel(op, FAMILY, "rows_count")?
            .on(device.stream())
            .write(&mut counts)
            .read(index)
            .value(&(n as u64))
            .value(&(size as u64))
            .write(report)
            .threads(n, device.block())?;
        let mut ends = scan(device, op, &counts, size)?;
        // Bad indices leave the tail of `positions` unused.
        let mut positions = device.uninitialised::<u32>(op, n)?;
        device
            .kernel(op, FAMILY, "rows_fill")?
            .on(device.stream())
            .write(&mut positions)
            .write(&mut ends)
            .read(index)
            .value(&(n as u64))
            .value(&(size as u64))
            .threads(n, device.block())?;
        Ok(Segments { positions, ends, counts, size })
    }

    /// Puts each segment into ascending source order.
    pub(crate) fn sort(&mut self, device: &Device, op: &'static str) -> Result<()> {
        device
            .kernel(op, FAMILY, "rows_sort")?
            .on(device.stream())
            .write(&mut self.positions)
            .read(&self.ends)
            .read(&self.counts)
            .value(&(self.size as u64))
            .threads(self.size, device.block())
    }
}

/// Exclusive prefix sums of counts.
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
    device
        .kernel(op, FAMILY, "rows_scan")?
        .on(device.stream())
        .write(&mut starts)
        .read(counts)
        .value(&(n as u64))
        .write(&mut totals)
        .grid((grid, 1, 1), (256, 1, 1))?;
    if blocks > 1 {
        let before = scan(device, op, &totals, blocks)?;
        device
            .kernel(op, FAMILY, "rows_scan_add")?
            .on(device.stream())
            .write(&mut starts)
            .value(&(n as u64))
            .read(&before)
            .threads(n, device.block())?;
    }
    Ok(starts)
}
