//! The division of a pass into tasks. It depends on sizes alone, and changes no bit.

use super::geometry::{DIMS, Gather, volume};

/// The extent of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) images: usize,
    /// The number of target channels, over all groups: a part of a group, or whole groups.
    pub(crate) channels: usize,
    /// The dimension that strips split; strips are contiguous in it.
    pub(crate) axis: usize,
    /// The number of target coordinates of a strip.
    pub(crate) strip: usize,
}

/// The number of tasks to aim at, so that a large machine has enough to share.
const TASKS: usize = 32;
/// The number of multiply-adds below which a task is not worth the hand-over to a thread.
const LEAST_WORK: usize = 1 << 18;
/// The number of target positions over which a task should reuse the weights it reads.
const POSITIONS: usize = 128;
/// The largest number of bytes of source or target per task.
const BYTES: usize = 1 << 20;

impl Cut {
    pub(crate) fn new<T>(pass: &Gather, max_rows: usize) -> Cut {
        let axis = (0..DIMS).find(|&d| pass.target[d] > 1).unwrap_or(DIMS - 1);
        let positions = volume(pass.target);
        // The multiply-adds and bytes of one position of one group.
        let work = pass.rows * pass.channels * pass.volume;
        let per_position = pass.channels * volume(pass.source).div_ceil(positions);
        let bytes = per_position.max(pass.rows) * size_of::<T>();
        let all = positions * pass.batch;
        let wanted = (all * pass.groups / TASKS).max(LEAST_WORK / work.max(1)).max(1);
        let wanted = wanted.min(BYTES / bytes.max(1)).max(POSITIONS);
        let mut cut = Cut { images: 1, channels: pass.rows, axis, strip: pass.target[axis] };
        if positions >= 2 * wanted {
            cut.strip = pass.target[axis].div_ceil(positions / wanted);
            return cut;
        }
        if pass.groups > 1 {
            // Whole groups; their number per task divides the number of groups.
            let groups = (wanted / positions).clamp(1, pass.groups);
            let groups = (1..=groups).rev().find(|g| pass.groups.is_multiple_of(*g)).unwrap_or(1);
            cut.channels = groups * pass.rows;
            if groups < pass.groups {
                return cut;
            }
        }
        let images = wanted.div_ceil(positions * pass.groups).clamp(1, pass.batch.max(1));
        cut.images = pass.batch.div_ceil(pass.batch.div_ceil(images).max(1)).max(1);
        let tasks = pass.batch.div_ceil(cut.images);
        if pass.groups == 1 && tasks < 8 && work.saturating_mul(all) > 8 * LEAST_WORK {
            let parts = 8usize.div_ceil(tasks);
            cut.channels = pass.rows.div_ceil(parts).next_multiple_of(max_rows).max(4 * max_rows);
        }
        cut
    }
}
