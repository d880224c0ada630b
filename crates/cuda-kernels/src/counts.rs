//! Prefix sums of counts: where the parts of a list begin.

use crate::launch::kernels::scatter as kernels;
use crate::launch::{Buffer, Launch};

use crate::device::Device;
use crate::error::{CudaError, Result};

/// The number of counts that one block scans.
const SCAN: usize = 1024;

/// Computes the exclusive prefix sums of counts.
pub(crate) fn starts(
    device: &Device,
    op: &'static str,
    counts: &Buffer<u32>,
    n: usize,
) -> Result<Buffer<u32>> {
    let blocks = n.div_ceil(SCAN);
    let mut sums = device.uninitialised::<u32>(op, n)?;
    let mut totals = device.uninitialised::<u32>(op, blocks)?;
    let grid = u32::try_from(blocks)
        .map_err(|_| CudaError::invalid(op, format!("{n} rows are too many")))?;
    kernels::RowsScan { starts: &mut sums, counts, n, totals: &mut totals }.grid(
        device,
        op,
        (grid, 1, 1),
        (256, 1, 1),
    )?;
    if blocks > 1 {
        let before = starts(device, op, &totals, blocks)?;
        kernels::RowsScanAdd { starts: &mut sums, n, block_starts: &before }
            .threads(device, op, n)?;
    }
    Ok(sums)
}
