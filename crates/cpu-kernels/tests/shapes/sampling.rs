//! Sampling at a number of points, in the form that several tests use.

use samebits_cpu_kernels::grid_sample::{GridParams, Sampling};

/// Returns the sampling of `points` points in each of `batch` inputs of `channels` channels.
pub(crate) fn sampling(
    op: &'static str,
    [batch, channels, points]: [usize; 3],
    size: &[usize],
    params: GridParams,
) -> samebits_tensor_core::Result<Sampling> {
    let dims = size.len();
    let mut grid = vec![1; dims + 2];
    (grid[0], grid[dims], grid[dims + 1]) = (batch, points, dims);
    Sampling::new(op, &[&[batch, channels], size].concat(), &grid, params)
}
