//! Resizing by interpolation: nearest, linear and cubic, in one to three dimensions.
//!
//! # Layouts
//!
//! Tensors are contiguous, and are treated as `planes` planes of one to three dimensions each.
//! (Bilinear is linear in two dimensions, trilinear in three. The mode `area` is
//! [`adaptive_avg_pool`](crate::pooling::adaptive_avg_pool).)
//!
//! # What is computed
//!
//! In each dimension an output is a weighted mean of a few inputs, its taps. The position of a tap
//! is computed in f64 by PyTorch's formulas; its weight is rounded to the element type. Taps beyond
//! the border move to the border; taps on the same input become one tap with the sum of their
//! weights.
//!
//! - An output starts from `+0` and adds its taps in ascending input index (row-major), each by one
//!   `mul_add(input, weight, sum)`.
//! - A gradient element starts from `+0` and adds the outputs that have a tap on it in ascending
//!   output index, each by one `mul_add(gradient, weight, sum)`.
//! - The weight in several dimensions is `(w_d * w_h) * w_w`, each product rounded.

use crate::error::{Result, expect_len};
use crate::lanes::{self, Lanes, Part, SIDE, each_output};
use crate::memory::{self, named};
use crate::{Float, parallel};
use samebits_numerics::memory::OutOfMemory;
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::Taps;
use std::ops::Range;

pub use samebits_tensor_core::geometry::{InterpolateMode, Resize, ResizedAxis};

/// Resizes `input`.
///
/// # Shapes
///
/// `input` has [`Resize::input_len`] elements, `out` has [`Resize::output_len`].
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::interpolate::{InterpolateMode, Resize, interpolate};
///
/// let mode = InterpolateMode::Linear { align_corners: true };
/// let resize = Resize::new("interpolate", &[1, 1, 2], &[3], &[None], mode)?;
/// let mut out = [0.0f32; 3];
/// interpolate(&resize, &[1.0, 3.0], &mut out)?;
/// assert_eq!(out, [1.0, 2.0, 3.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
pub fn interpolate<T: Float>(resize: &Resize, input: &[T], out: &mut [T]) -> Result<()> {
    expect_len(resize.op(), "input", input.len(), resize.input_len())?;
    expect_len(resize.op(), "out", out.len(), resize.output_len())?;
    sum(resize, input, out, [resize.input(), resize.output()], ResizedAxis::taps)
}

/// Computes the gradient of [`interpolate`].
///
/// # Shapes
///
/// `grad_out` has [`Resize::output_len`] elements; `grad_input` has [`Resize::input_len`] and is
/// overwritten.
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// As [`interpolate`].
pub fn interpolate_backward<T: Float>(
    resize: &Resize,
    grad_out: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    expect_len(resize.op(), "grad_out", grad_out.len(), resize.output_len())?;
    expect_len(resize.op(), "grad_input", grad_input.len(), resize.input_len())?;
    let sizes = [resize.output(), resize.input()];
    sum(resize, grad_out, grad_input, sizes, |axis| axis.taps()?.reversed(axis.input))
}

/// Computes either direction: each element of `to` is a weighted sum of elements of `from`.
fn sum<T: Float>(
    resize: &Resize,
    from: &[T],
    to: &mut [T],
    [from_size, to_size]: [[usize; 3]; 2],
    taps: impl Fn(&ResizedAxis) -> Result<Taps, OutOfMemory>,
) -> Result<()> {
    if to.is_empty() {
        return Ok(());
    }
    let op = resize.op();
    let rounded = |axis| taps(axis)?.with_weights(T::from_f64);
    let rounded = |axis| rounded(axis).map_err(named(op));
    let [depth, height, width] = resize.axes();
    let taps = &[rounded(depth)?, rounded(height)?, rounded(width)?];
    if resize.planes() >= FEW {
        let weighted = Weighted { taps, sizes: [from_size, to_size] };
        if let Some(cut) = lanes::cut::<T>(op, &weighted)? {
            return lanes::run(op, &weighted, &cut, from, to, &mut []);
        }
    }
    let columns = Columns::new(op, &taps[2])?;
    parallel::rows(to_size[2], to, |start, to| {
        let first = start / to_size[2];
        simd::dispatch(Rows { from, to, first, taps, columns: &columns, from_size, to_size });
    });
    Ok(())
}

/// The least number of planes that are worth a block of them.
const FEW: usize = 6;

/// Weighted sums of planes side by side.
struct Weighted<'a, T> {
    taps: &'a [Taps<T>; 3],
    sizes: [[usize; 3]; 2],
}

impl<T: Float> Lanes<T> for Weighted<'_, T> {
    fn sizes(&self) -> [[usize; 3]; 2] {
        self.sizes
    }

    fn reach(&self, dim: usize, output: usize) -> Range<usize> {
        let mut places = self.taps[dim].of(output).map(|(place, _)| place);
        // Places ascend.
        places.next().map_or(0..0, |first| first..places.last().unwrap_or(first) + 1)
    }

    #[inline(always)]
    fn compute(&self, part: Part, from: &[[T; SIDE]], to: &mut [[T; SIDE]], _: &mut [[T; SIDE]]) {
        let [_, height, width] = self.sizes[0];
        each_output!(part, number, [d, h, w], {
            let mut sums = [T::ZERO; SIDE];
            for (d, depth_weight) in self.taps[0].of(d) {
                for (h, height_weight) in self.taps[1].of(h) {
                    let outer_weight = depth_weight * height_weight;
                    let line = ((d * height + h) * width).wrapping_sub(part.first);
                    for (w, weight) in self.taps[2].of(w) {
                        let weight = outer_weight * weight;
                        for (sum, &x) in sums.iter_mut().zip(&from[line.wrapping_add(w)]) {
                            *sum = x.mul_add(weight, *sum);
                        }
                    }
                }
            }
            for (to, sum) in to[number].iter_mut().zip(sums) {
                *to = sum.canonical();
            }
        });
    }
}

/// The taps of a row in columns: the first tap of all elements, then the second, and so on. The
/// inner loop then runs over the elements of a row.
struct Columns<T> {
    count: usize,
    width: usize,
    places: Vec<usize>,
    weights: Vec<T>,
    /// True for each column in which every element has a tap.
    full: Vec<bool>,
}

impl<T: Float> Columns<T> {
    fn new(op: &'static str, taps: &Taps<T>) -> Result<Columns<T>> {
        let width = taps.lists();
        let length = |at: usize| taps.of(at).len();
        let count = (0..width).map(length).max().unwrap_or(0);
        let size = memory::volume(op, &[count, width])?;
        let mut columns = Columns {
            count,
            width,
            places: memory::filled(op, size, usize::MAX)?,
            weights: memory::filled(op, size, T::ZERO)?,
            full: memory::filled(op, count, true)?,
        };
        for at in 0..width {
            for (tap, (place, weight)) in taps.of(at).enumerate() {
                columns.places[tap * width + at] = place;
                columns.weights[tap * width + at] = weight;
            }
            columns.full[length(at)..].iter_mut().for_each(|full| *full = false);
        }
        Ok(columns)
    }
}

struct Rows<'a, T> {
    from: &'a [T],
    to: &'a mut [T],
    first: usize,
    taps: &'a [Taps<T>; 3],
    columns: &'a Columns<T>,
    from_size: [usize; 3],
    to_size: [usize; 3],
}

impl<T: Float> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let [depth, height, width] = self.from_size;
        let lines = self.to_size[0] * self.to_size[1];
        for (offset, sums) in self.to.chunks_exact_mut(self.to_size[2]).enumerate() {
            let row = self.first + offset;
            sums.fill(T::ZERO);
            let plane =
                &self.from[row / lines * depth * height * width..][..depth * height * width];
            for (d, depth_weight) in self.taps[0].of(row % lines / self.to_size[1]) {
                for (h, height_weight) in self.taps[1].of(row % self.to_size[1]) {
                    let line = &plane[(d * height + h) * width..][..width];
                    self.columns.add(sums, line, depth_weight * height_weight);
                }
            }
            sums.iter_mut().for_each(|sum| *sum = sum.canonical());
        }
    }
}

impl<T: Float> Columns<T> {
    #[inline(always)]
    fn add(&self, sums: &mut [T], line: &[T], outer_weight: T) {
        for tap in 0..self.count {
            let places = &self.places[tap * self.width..][..self.width];
            let weights = &self.weights[tap * self.width..][..self.width];
            let taps = sums.iter_mut().zip(places).zip(weights);
            if self.full[tap] {
                for ((sum, &place), &weight) in taps {
                    *sum = line[place].mul_add(outer_weight * weight, *sum);
                }
            } else {
                // An element without this tap must not add a product with a weight of zero: that
                // would be NaN if the input is infinite.
                for ((sum, &place), &weight) in taps {
                    if let Some(&x) = line.get(place) {
                        *sum = x.mul_add(outer_weight * weight, *sum);
                    }
                }
            }
        }
    }
}
