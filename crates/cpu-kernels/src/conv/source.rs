//! A zero-padded copy of a piece of the source, with a layout in which neighbouring target
//! positions read neighbouring elements at every tap, for any stride.

use super::geometry::{DIMS, Dims, Phase, volume};
use crate::gemm::Real;
use crate::short;
use samebits_numerics::memory::{OutOfMemory, product};
use samebits_numerics::simd;
use std::ops::Range;

/// The largest number of elements of a row whose surroundings are not filled row by row.
const NARROW: usize = 64;

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

    /// Copies one channel of size `dims`, with its [`Window::insides`]; everything outside is +0.
    #[inline(always)]
    pub(crate) fn fill<T: Copy + Default>(
        &self,
        channel: &[T],
        dims: Dims,
        [inside_rows, inside_columns]: &[Vec<Range<usize>>; 2],
        to: &mut [T],
    ) {
        let to = &mut to[..self.channel];
        let [_, height, width] = self.extent;
        // One long fill is cheaper than the many short ones beside the copies.
        let narrow = width <= NARROW;
        if narrow {
            to.fill(T::default());
        }
        let mut planes = to.chunks_exact_mut(height * width);
        for &r0 in &self.residues[0] {
            for (&r1, rows) in self.residues[1].iter().zip(inside_rows) {
                for (&r2, columns) in self.residues[2].iter().zip(inside_columns) {
                    for q0 in 0..self.extent[0] {
                        let x0 = self.coordinate(0, q0, r0);
                        let Some(plane) = planes.next() else { return };
                        if x0 >= dims[0] || rows.is_empty() || columns.is_empty() {
                            if !narrow {
                                plane.fill(T::default());
                            }
                            continue;
                        }
                        let x1 = self.coordinate(1, rows.start, r1);
                        let x2 = self.coordinate(2, columns.start, r2);
                        let from = &channel[(x0 * dims[1] + x1) * dims[2] + x2..];
                        let stride = self.step[1] * dims[2];
                        if width == 1 {
                            let from = from.iter().step_by(stride);
                            for (to, &from) in plane[rows.clone()].iter_mut().zip(from) {
                                *to = from;
                            }
                            continue;
                        }
                        if !narrow {
                            plane[..rows.start * width].fill(T::default());
                            plane[rows.end * width..].fill(T::default());
                        }
                        let plane = &mut plane[rows.start * width..rows.end * width];
                        for (q1, row) in plane.chunks_exact_mut(width).enumerate() {
                            if !narrow {
                                row[..columns.start].fill(T::default());
                                row[columns.end..].fill(T::default());
                            }
                            self.copy_row(&from[q1 * stride..], &mut row[columns.clone()]);
                        }
                    }
                }
            }
        }
    }

    /// Copies elements of a row, as far apart as neighbouring target positions read.
    #[inline(always)]
    fn copy_row<T: Copy>(&self, from: &[T], row: &mut [T]) {
        if self.step[2] == 1 {
            let from = &from[..row.len()];
            match row.len() {
                0..=short::MOST => short::copy(from, row),
                _ => row.copy_from_slice(from),
            }
            return;
        }
        for (to, from) in row.iter_mut().zip(from.iter().step_by(self.step[2])) {
            *to = *from;
        }
    }

    /// Returns, for each residue of rows and of columns, the positions inside a source of size
    /// `dims`.
    pub(crate) fn insides(&self, dims: Dims) -> [Vec<Range<usize>>; 2] {
        [1, 2].map(|d| {
            self.residues[d].iter().map(|&residue| self.inside(d, residue, dims[d])).collect()
        })
    }

    /// Returns a source coordinate; a negative one wraps to a huge number.
    #[inline(always)]
    fn coordinate(&self, d: usize, q: usize, residue: usize) -> usize {
        (self.start[d] + (q * self.step[d] + residue) as isize) as usize
    }

    /// Returns the q of a residue that lie inside a source of `size`.
    fn inside(&self, d: usize, residue: usize, size: usize) -> Range<usize> {
        let step = self.step[d] as isize;
        let start = self.start[d] + residue as isize;
        let extent = self.extent[d] as isize;
        // start + q * step >= 0 and < size
        let from = (-start + step - 1).div_euclid(step).clamp(0, extent);
        let to = (size as isize - start + step - 1).div_euclid(step).clamp(from, extent);
        from as usize..to as usize
    }
}

/// Arguments of a kernel that copies all channels of some images into the scratch source.
pub(crate) struct Fill<'a, T> {
    pub(crate) window: &'a Window,
    pub(crate) dims: Dims,
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
        let channel = volume(self.dims);
        let insides = self.window.insides(self.dims);
        let mut rest = self.to;
        for image in self.images {
            for c in 0..self.channels {
                let from = &self.from[image * self.image_stride + c * channel..][..channel];
                let (to, after) = rest.split_at_mut(self.window.channel);
                rest = after;
                self.window.fill(from, self.dims, &insides, to);
            }
        }
        // Lanes beyond the last position read here.
        rest.fill(T::default());
    }
}
