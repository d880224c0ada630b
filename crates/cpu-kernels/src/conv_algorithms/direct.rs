//! Rows of the target from rows of the source, computed exactly as the contract states.
//!
//! The source is copied with zeros at both ends of each row, so that loads need no check; for a
//! stride, elements that meet the same tap are moved together. A tap in the padding is skipped by a
//! mask and not multiplied, so the bits are the contract's for any data.

use samebits_numerics::memory::{self, OutOfMemory};
use samebits_numerics::simd;

use super::shape::{Gather, buffer, count};
use crate::conv::volume;
use crate::matmul::K_BLOCK;
use crate::parallel;
use samebits_numerics::nan::canonical;

/// The number of elements of a target row that are computed together.
pub(super) const LANES: usize = 16;

/// The layout of rows of the copy.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The stride: element `s · t + offset` is element `t + offset / s` of phase `offset mod s`.
    step: usize,
    /// The phases that taps read, ascending.
    phases: Vec<usize>,
    /// The number of elements of one phase.
    width: usize,
    /// The index of the first stored element of a phase.
    first: isize,
}

/// The data of one tap: its position in the kernel, the position it reads, and the mask of
/// positions that are not in the padding; `None` means all.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    tap: usize,
    offset: usize,
    mask: Option<&'a Mask>,
}

/// An entry without its row: the position in the kernel row, and the position it reads in a row.
struct RowEntry {
    tap: usize,
    offset: usize,
    mask: Option<Mask>,
}

/// A mask: all ones for each position that counts.
type Mask = [u32; MOST];

/// The largest number of elements of a tile.
const MOST: usize = 32;

/// Returns the number of elements of workspace.
pub(super) fn workspace(gather: &Gather) -> usize {
    let plane = count(&Layout::new(gather).sizes(gather));
    count(&[gather.batch, gather.groups, gather.channels, plane])
}

/// Computes every element of `target`.
pub(super) fn run(
    gather: &Gather,
    source: &[f32],
    weights: &[f32],
    target: &mut [f32],
) -> Result<(), OutOfMemory> {
    if target.is_empty() {
        return Ok(());
    }
    let layout = Layout::new(gather);
    let plane = count(&layout.sizes(gather));
    let mut copy = buffer(&[source.len() / volume(gather.source), plane])?;
    parallel::chunks_mut(&mut copy, plane)
        .zip(parallel::chunks(source, volume(gather.source)))
        .for_each(|(to, from)| layout.fill(gather, from, to));
    let positions = volume(gather.target);
    let most = if gather.target[2] <= LANES { 8 } else { 4 };
    let per_image = gather.rows / most + gather.rows % most;
    let mut jobs = memory::with_capacity(gather.batch * gather.groups * per_image)?;
    let mut rest = target;
    for image in 0..gather.batch * gather.groups {
        let mut row = 0;
        while row < gather.rows {
            let rows = if gather.rows - row >= most { most } else { 1 };
            let (part, after) = rest.split_at_mut(rows * positions);
            rest = after;
            jobs.push(Some((image, row, rows, part)));
            row += rows;
        }
    }
    parallel::tasks(&mut jobs).try_for_each(|(image, row, rows, part)| {
        let task = Task {
            gather,
            layout: &layout,
            source: &copy[image * gather.channels * plane..][..gather.channels * plane],
            weights,
            group: image % gather.groups,
            row,
        };
        task.run(rows, part)
    })
}

/// Arguments of a kernel: a block of rows of one image and group.
pub(super) struct Task<'a> {
    pub(super) gather: &'a Gather,
    pub(super) layout: &'a Layout,
    /// The copy of the group's channels.
    pub(super) source: &'a [f32],
    pub(super) weights: &'a [f32],
    pub(super) group: usize,
    pub(super) row: usize,
}

impl Task<'_> {
    pub(super) fn run(self, rows: usize, target: &mut [f32]) -> Result<(), OutOfMemory> {
        match rows {
            8 => simd::dispatch(Tiles::<8, 16> { task: &self, target }),
            4 => simd::dispatch(Tiles::<4, 32> { task: &self, target }),
            _ => {
                for (row, target) in target.chunks_mut(volume(self.gather.target)).enumerate() {
                    let task = Task { row: self.row + row, ..self };
                    if self.gather.target[2] <= LANES {
                        simd::dispatch(Tiles::<1, 16> { task: &task, target })?;
                    } else {
                        simd::dispatch(Tiles::<1, 32> { task: &task, target })?;
                    }
                }
                Ok(())
            }
        }
    }
}

struct Tiles<'a, 'b, const R: usize, const L: usize> {
    task: &'a Task<'a>,
    target: &'b mut [f32],
}

impl<const R: usize, const L: usize> simd::Kernel for Tiles<'_, '_, R, L> {
    type Output = Result<(), OutOfMemory>;

    #[inline(always)]
    fn run(self) -> Result<(), OutOfMemory> {
        let Task { gather, layout, source, weights, group, row } = self.task;
        let taps = gather.taps();
        let plane = count(&layout.sizes(gather));
        let steps = gather.channels * taps;
        let base = group * gather.weight_group + row * gather.weight_row;
        let mut packed: Vec<[f32; R]> = memory::with_capacity(steps)?;
        for channel in 0..gather.channels {
            for tap in 0..taps {
                let at = base + channel * gather.weight_channel + tap;
                packed.push(std::array::from_fn(|r| weights[at + r * gather.weight_row]));
            }
        }
        let [depth, height, width] = gather.target;
        let [_, kernel_y, kernel_x] = gather.kernel;
        let chunks = (0..width.div_ceil(L)).map(|chunk| layout.entries(gather, chunk * L, L));
        let chunks: Vec<Vec<RowEntry>> = memory::collected(chunks)?;
        let mut list: Vec<Entry<'_>> = memory::with_capacity(taps)?;
        for z in 0..depth {
            for y in 0..height {
                for (chunk, entries) in chunks.iter().enumerate() {
                    list.clear();
                    for rows in 0..gather.kernel[0] * kernel_y {
                        let from_z = gather.at(0, z, rows / kernel_y);
                        let from_y = gather.at(1, y, rows % kernel_y);
                        let (Some(from_z), Some(from_y)) = (from_z, from_y) else { continue };
                        let row = (from_z * gather.source[1] + from_y) * layout.row();
                        for entry in entries {
                            list.push(Entry {
                                tap: rows * kernel_x + entry.tap,
                                offset: row + entry.offset,
                                mask: entry.mask.as_ref(),
                            });
                        }
                    }
                    let tile = tile::<R, L>(steps, taps, plane, &list, &packed, source);
                    let from = (z * height + y) * width + chunk * L;
                    let count = L.min(width - chunk * L);
                    for (r, values) in tile.iter().enumerate() {
                        let at = r * depth * height * width + from;
                        for (to, &value) in self.target[at..at + count].iter_mut().zip(values) {
                            *to = canonical(value);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Computes `R` rows of `L` positions.
#[inline(always)]
fn tile<const R: usize, const L: usize>(
    steps: usize,
    taps: usize,
    plane: usize,
    list: &[Entry<'_>],
    packed: &[[f32; R]],
    source: &[f32],
) -> [[f32; L]; R] {
    let mut total = [[0.0; L]; R];
    for from in (0..steps).step_by(K_BLOCK) {
        let to = (from + K_BLOCK).min(steps);
        let mut sums = [[0.0f32; L]; R];
        for channel in from / taps..=(to - 1) / taps {
            // Only the first and the last channel of a block may be cut.
            let least = from.saturating_sub(channel * taps);
            let most = to - channel * taps;
            let weights = &packed[channel * taps..][..taps];
            let source = &source[channel * plane..][..plane];
            for entry in list {
                if entry.tap < least || entry.tap >= most {
                    continue;
                }
                let w = &weights[entry.tap];
                let x: &[f32; L] =
                    source[entry.offset..entry.offset + L].try_into().expect("of this length");
                match entry.mask {
                    None => {
                        for r in 0..R {
                            for l in 0..L {
                                sums[r][l] = w[r].mul_add(x[l], sums[r][l]);
                            }
                        }
                    }
                    Some(mask) => {
                        for r in 0..R {
                            for l in 0..L {
                                let sum = w[r].mul_add(x[l], sums[r][l]);
                                sums[r][l] = if mask[l] != 0 { sum } else { sums[r][l] };
                            }
                        }
                    }
                }
            }
        }
        for r in 0..R {
            for l in 0..L {
                total[r][l] = if from == 0 { sums[r][l] } else { total[r][l] + sums[r][l] };
            }
        }
    }
    total
}

impl Layout {
    pub(super) fn new(gather: &Gather) -> Layout {
        let step = gather.step[2];
        let mut phases = Vec::new();
        let (mut least, mut most) = (isize::MAX, isize::MIN);
        for tap in 0..gather.kernel[2] {
            // A tap that is always in the padding takes no space.
            if (0..gather.target[2]).any(|t| gather.at(2, t, tap).is_some()) {
                let offset = tap as isize * gather.reach[2] + gather.shift[2];
                let place = offset.div_euclid(step);
                (least, most) = (least.min(place), most.max(place));
                phases.push(offset.rem_euclid(step) as usize);
            }
        }
        phases.sort_unstable();
        phases.dedup();
        let more = if phases.is_empty() { 0 } else { (most - least) as usize };
        let width = gather.target[2].next_multiple_of(MOST) + more;
        Layout { step: step as usize, phases, width, first: least }
    }

    fn row(&self) -> usize {
        self.phases.len() * self.width
    }

    /// Returns the sizes of the copy of one channel.
    pub(super) fn sizes(&self, gather: &Gather) -> [usize; 4] {
        [gather.source[0], gather.source[1], self.phases.len().max(1), self.width]
    }

    /// Copies one channel.
    pub(super) fn fill(&self, gather: &Gather, from: &[f32], to: &mut [f32]) {
        let width = gather.source[2];
        if self.phases.is_empty() {
            return;
        }
        for (to, from) in to.chunks_exact_mut(self.row()).zip(from.chunks_exact(width)) {
            for (&phase, to) in self.phases.iter().zip(to.chunks_exact_mut(self.width)) {
                let start = self.first * self.step as isize + phase as isize;
                let zeros = (-start).max(0).unsigned_abs().div_ceil(self.step).min(to.len());
                let begin = (start + (zeros * self.step) as isize).max(0) as usize;
                to[..zeros].fill(0.0);
                let to = &mut to[zeros..];
                let count = width.saturating_sub(begin).div_ceil(self.step).min(to.len());
                if self.step == 1 {
                    to[..count].copy_from_slice(&from[begin..begin + count]);
                } else {
                    let from = from.iter().skip(begin).step_by(self.step);
                    for (to, &from) in to[..count].iter_mut().zip(from) {
                        *to = from;
                    }
                }
                to[count..].fill(0.0);
            }
        }
    }

    /// Returns the taps of a kernel row that are inside for any of `lanes` positions from `start`
    /// on.
    fn entries(&self, gather: &Gather, start: usize, lanes: usize) -> Vec<RowEntry> {
        let step = gather.step[2];
        (0..gather.kernel[2])
            .filter_map(|tap| {
                let offset = tap as isize * gather.reach[2] + gather.shift[2];
                let phase = self.phases.binary_search(&(offset.rem_euclid(step) as usize)).ok()?;
                let mut mask = [0; MOST];
                let (mut any, mut all) = (false, true);
                for (lane, mask) in mask[..lanes].iter_mut().enumerate() {
                    // Positions past the row's end are computed and not stored.
                    let behind = start + lane >= gather.target[2];
                    let inside = gather.at(2, start + lane, tap).is_some();
                    *mask = u32::from(inside);
                    any |= inside && !behind;
                    all &= inside || behind;
                }
                any.then(|| RowEntry {
                    tap,
                    offset: phase * self.width
                        + (offset.div_euclid(step) - self.first) as usize
                        + start,
                    mask: (!all).then_some(mask),
                })
            })
            .collect()
    }
}
