//! A zero-padded copy of a piece of the source, with a layout in which neighbouring target
//! positions read neighbouring elements at every tap, for any stride.

use super::geometry::{DIMS, Dims, Phase};
use crate::gemm::Real;
use crate::short;
use samebits_numerics::memory::{self, OutOfMemory, product};
use samebits_numerics::simd;
use std::ops::Range;

/// The largest mean number of elements of stretches whose surroundings are not filled one by one.
const SHORT: usize = 64;

/// The layout of the copy for a box of target coordinates of one phase.
///
/// In each dimension a source coordinate is `start + q · step + residue`. Coordinates of one
/// residue are contiguous, and so are those that consecutive target positions read.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The source coordinate of the first element; negative in the padding.
    start: [isize; DIMS],
    step: Dims,
    /// The least offset of a tap.
    least: [isize; DIMS],
    /// The residues that taps read in each dimension, ascending.
    residues: [Vec<usize>; DIMS],
    /// The number of coordinates of one residue.
    pub(crate) extent: Dims,
    /// The number of elements of one channel.
    pub(crate) channel: usize,
}

impl Window {
    /// Returns the layout for target coordinates `first..first + count` of `phase`.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if the number of elements of a channel overflows.
    pub(crate) fn new(phase: &Phase, first: Dims, count: Dims) -> Result<Window, OutOfMemory> {
        let mut window = Window {
            start: [0; DIMS],
            step: phase.source_step,
            least: [0; DIMS],
            residues: [const { Vec::new() }; DIMS],
            extent: count,
            channel: 0,
        };
        for d in 0..DIMS {
            let step = phase.source_step[d];
            let offsets = || phase.taps.iter().map(|tap| tap.offset[d]);
            let (least, most) = (offsets().min().unwrap_or(0), offsets().max().unwrap_or(0));
            let residues = &mut window.residues[d];
            for offset in offsets() {
                let residue = (offset - least) as usize % step;
                if let Err(place) = residues.binary_search(&residue) {
                    residues.insert(place, residue);
                }
            }
            window.least[d] = least;
            window.extent[d] = count[d] + (most - least) as usize / step;
        }
        window.move_to(first);
        let [e0, e1, e2] = window.extent;
        let [r0, r1, r2] = window.residues.each_ref().map(Vec::len);
        window.channel = product(&[e0, e1, e2, r0, r1, r2])
            .filter(|&channel| channel <= isize::MAX as usize)
            .ok_or(OutOfMemory { bytes: usize::MAX })?;
        Ok(window)
    }

    /// Returns the position that target coordinate 0 of the box reads at a tap.
    pub(crate) fn tap(&self, phase: &Phase, tap: usize) -> usize {
        let mut residue = 0;
        let mut at = 0;
        for d in 0..DIMS {
            let reach = (phase.taps[tap].offset[d] - self.least[d]) as usize;
            let place = self.residues[d].binary_search(&(reach % self.step[d]));
            let place = place.expect("the residues are those of the taps");
            residue = residue * self.residues[d].len() + place;
            at = at * self.extent[d] + reach / self.step[d];
        }
        residue * self.extent.iter().product::<usize>() + at
    }

    /// Returns the position of a target coordinate (relative to the box) among those that a tap
    /// reads.
    pub(crate) fn position(&self, at: Dims) -> usize {
        (at[0] * self.extent[1] + at[1]) * self.extent[2] + at[2]
    }

    /// Returns the number of positions from the first to the last target coordinate of a box,
    /// including the meaningless ones between rows.
    pub(crate) fn flat_len(&self, count: Dims) -> usize {
        self.position([count[0] - 1, count[1] - 1, count[2] - 1]) + 1
    }

    /// Moves the layout to target coordinates from `first` on.
    pub(crate) fn move_to(&mut self, first: Dims) {
        for d in 0..DIMS {
            self.start[d] = (first[d] * self.step[d]) as isize + self.least[d];
        }
    }

    /// Returns what a copy has of a source of size `dims`.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if the list does not fit into memory.
    pub(crate) fn inside(&self, dims: Dims) -> Result<Inside, OutOfMemory> {
        let [planes, height, width] = self.extent;
        let step = self.step[2];
        let most = self.channel.checked_div(width).unwrap_or(0);
        let mut stretches: Vec<Stretch> = memory::with_capacity(most)?;
        let (mut covered, mut plane) = (0, 0);
        for &r0 in &self.residues[0] {
            for &r1 in &self.residues[1] {
                let rows = self.range(1, r1, dims[1]);
                for &r2 in &self.residues[2] {
                    let columns = self.range(2, r2, dims[2]);
                    let x2 = self.coordinate(2, columns.start, r2);
                    for q0 in 0..planes {
                        let x0 = self.coordinate(0, q0, r0);
                        let is_inside = x0 < dims[0] && !columns.is_empty();
                        for q1 in rows.clone().filter(|_| is_inside) {
                            let x1 = self.coordinate(1, q1, r1);
                            let next = Stretch {
                                from: (x0 * dims[1] + x1) * dims[2] + x2,
                                to: plane + q1 * width + columns.start,
                                len: columns.len(),
                            };
                            covered += next.len;
                            match stretches.last_mut() {
                                Some(last) if last.is_followed_by(next, step) => {
                                    last.len += next.len;
                                }
                                _ => stretches.push(next),
                            }
                        }
                        plane += height * width;
                    }
                }
            }
        }
        let len = self.channel;
        let are_short = covered < len && covered <= SHORT * stretches.len();
        Ok(Inside { stretches, step, len, are_short })
    }

    /// Returns a source coordinate; a negative one wraps to a huge number.
    #[inline(always)]
    fn coordinate(&self, d: usize, q: usize, residue: usize) -> usize {
        (self.start[d] + (q * self.step[d] + residue) as isize) as usize
    }

    /// Returns the q of a residue that lie inside a source of `size`.
    fn range(&self, d: usize, residue: usize, size: usize) -> Range<usize> {
        let step = self.step[d] as isize;
        let start = self.start[d] + residue as isize;
        let extent = self.extent[d] as isize;
        // start + q * step >= 0 and < size
        let from = (-start + step - 1).div_euclid(step).clamp(0, extent);
        let to = (size as isize - start + step - 1).div_euclid(step).clamp(from, extent);
        from as usize..to as usize
    }
}

/// Elements of a source, `step` apart, that are neighbours in its copy.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: usize,
    to: usize,
    len: usize,
}

impl Stretch {
    /// Returns true if another stretch goes on where this one ends, in the source and in the copy.
    fn is_followed_by(self, next: Stretch, step: usize) -> bool {
        self.to + self.len == next.to && self.from + self.len * step == next.from
    }
}

/// The elements of one channel that its copy has; everything else in the copy is +0.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    /// In the order of the copy.
    stretches: Vec<Stretch>,
    /// The distance between the elements of a stretch in the source.
    step: usize,
    /// The number of elements of the copy.
    len: usize,
    /// True if one long fill is cheaper than many short ones beside the stretches.
    are_short: bool,
}

impl Inside {
    /// Copies one channel.
    #[inline(always)]
    pub(crate) fn copy<T: Copy + Default>(&self, channel: &[T], to: &mut [T]) {
        let to = &mut to[..self.len];
        if self.are_short {
            to.fill(T::default());
        }
        let mut end = 0;
        for &Stretch { from, to: start, len } in &self.stretches {
            if !self.are_short {
                to[end..start].fill(T::default());
                end = start + len;
            }
            let (from, to) = (&channel[from..], &mut to[start..][..len]);
            if self.step > 1 {
                for (to, from) in to.iter_mut().zip(from.iter().step_by(self.step)) {
                    *to = *from;
                }
            } else if len <= short::MOST {
                short::copy(&from[..len], to);
            } else {
                to.copy_from_slice(&from[..len]);
            }
        }
        if !self.are_short {
            to[end..].fill(T::default());
        }
    }
}

/// Arguments of a kernel that copies all channels of some images into the scratch source.
pub(crate) struct Fill<'a, T> {
    pub(crate) inside: &'a Inside,
    /// The number of elements of a channel of the source.
    pub(crate) channel: usize,
    pub(crate) channels: usize,
    pub(crate) images: Range<usize>,
    pub(crate) from: &'a [T],
    pub(crate) image_stride: usize,
    pub(crate) to: &'a mut [T],
}

impl<T: Real> simd::Kernel for Fill<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Fill { inside, channel, channels, images, from, image_stride, mut to } = self;
        for image in images {
            for c in 0..channels {
                let from = &from[image * image_stride + c * channel..][..channel];
                let (copy, rest) = to.split_at_mut(inside.len);
                inside.copy(from, copy);
                to = rest;
            }
        }
        // Lanes beyond the last position read here.
        to.fill(T::default());
    }
}
