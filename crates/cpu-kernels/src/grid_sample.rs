//! Sampling of an image or a volume at given points.
//!
//! # Layouts
//!
//! `input` (batch, channels, height, width) or (batch, channels, depth, height, width), `grid`
//! (batch, points, 2 or 3): the coordinates (x, y) or (x, y, z) of each point, `out` (batch,
//! channels, points); all contiguous.
//!
//! # What is computed
//!
//! The positions and weights of a point's taps are computed in f64 by PyTorch's formulas; a weight
//! is then rounded to the element type. Taps outside the input and taps of weight 0 are skipped, so
//! an infinite input next to the point has no effect. A point with a NaN coordinate has no taps.
//!
//! - An output starts from `+0` and adds its taps in row-major order, each by one `mul_add(input,
//!   weight, sum)`.
//! - The gradient of the input is an irregular sum, see [`scatter`](crate::scatter): its addends
//!   are `gradient * weight`, rounded.
//! - The gradient of a coordinate is computed in f64, starting from `+0`. For each channel in
//!   ascending order, it adds the channel's gradient times the sum over the taps of `input *
//!   weight'`, leaving out taps with a `weight'` of 0. The result is multiplied by the derivative
//!   of the tap position and rounded once.

mod planar;
mod sums;
mod taps;

use crate::arch::TileGrid;
use crate::error::{Result, expect_len};
use crate::scatter::Sums;
use crate::scatter::{Checked, Stored};
use crate::{Float, memory, parallel};
pub(crate) use planar::Images;
use planar::{FEW, PlanarGradients, SamplePlanes};
use samebits_numerics::simd::{self, Kernel};
use taps::{ListTaps, TapList, Taps, find_taps};

pub use samebits_tensor_core::geometry::{GridMode, GridPadding, GridParams, Sampling};

/// Samples `input` at the points of `grid`.
///
/// # Shapes
///
/// See the [module](self).
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
/// use samebits_cpu_kernels::grid_sample::{
///     GridMode, GridPadding, GridParams, Sampling, grid_sample,
/// };
///
/// let params =
///     GridParams { mode: GridMode::Linear, padding: GridPadding::Zeros, align_corners: true };
/// let sampling = Sampling::new("grid_sample", &[1, 1, 2, 2], &[1, 1, 1, 2], params)?;
/// let mut out = [0.0f32];
/// grid_sample(&sampling, &[1.0, 2.0, 3.0, 4.0], &[0.0, 0.0], &mut out)?;
/// assert_eq!(out, [2.5]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
pub fn grid_sample<T: Float>(
    sampling: &Sampling,
    input: &[T],
    grid: &[T],
    out: &mut [T],
) -> Result<()> {
    check(sampling, input.len(), grid.len(), out.len())?;
    sample_images(sampling, Images::dense(sampling, input), grid, out)
}

/// Returns true if images in any layout are read where they are: the kernels can, and a copy would
/// cost more than distant reads. `size` is that of an element, in bytes.
pub(crate) fn in_place(sampling: &Sampling, size: usize) -> bool {
    let (plane, points) = (sampling.plane(), sampling.points());
    let near = sampling.channels() * plane * size <= NEAR;
    planar::pays(sampling) && (near || 4 * points <= plane)
}

/// The number of bytes of an image up to which its elements are near each other in any layout.
const NEAR: usize = 1 << 18;

/// Computes [`grid_sample`]. The images must be contiguous unless they are read
/// [in place](in_place).
pub(crate) fn sample_images<T: Float>(
    sampling: &Sampling,
    input: Images<'_, T>,
    grid: &[T],
    out: &mut [T],
) -> Result<()> {
    let (channels, points, dims) = (sampling.channels(), sampling.points(), sampling.dims());
    if out.is_empty() {
        return Ok(());
    }
    if planar::pays(sampling) {
        let rows = if channels <= FEW { channels } else { (PIECE / points).clamp(GROUP, channels) };
        let tile = ((PIECE / (rows * points)).max(1), rows, PIECE);
        return TileGrid::new(out, sampling.batch(), (channels, points), tile).try_for_each(
            |image, channel, point, out| {
                let first = [image, channel, point];
                simd::dispatch(SamplePlanes { sampling, input, grid, first, out });
                Ok(())
            },
        );
    }
    let inputs = channels * sampling.plane();
    let images = parallel::chunks_mut(out, channels * points).enumerate();
    images.try_for_each(|(n, out)| {
        let grid = &grid[n * points * dims..][..points * dims];
        let mut rows = memory::filled(sampling.op(), inputs, T::ZERO)?;
        pixels(sampling, &input.data[n * inputs..][..inputs], &mut rows);
        let mut values = memory::filled(sampling.op(), out.len(), T::ZERO)?;
        parallel::rows(channels, &mut values, |start, values| {
            let first = start / channels;
            simd::dispatch(SamplePoints { sampling, rows: &rows, grid, first, values });
        });
        planes(sampling, &values, points, out);
        Ok(())
    })
}

/// Computes the gradient of [`grid_sample`] with respect to the input.
///
/// # Shapes
///
/// `grad_out` as the output; `grad_input` as the input, overwritten.
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn grid_sample_input_backward<T: Sums>(
    sampling: &Sampling,
    grad_out: &[T],
    grid: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    let (channels, points, dims) = (sampling.channels(), sampling.points(), sampling.dims());
    check(sampling, grad_input.len(), grid.len(), grad_out.len())?;
    if grad_out.is_empty() {
        grad_input.fill(T::ZERO);
        return Ok(());
    }
    if sums::pays(sampling) {
        return sums::sum(sampling, grad_out, grid, grad_input);
    }
    let (outputs, plane) = (channels * points, sampling.plane());
    let each = channels * plane;
    // Small images are summed together.
    let images = (PIECE / (4 * points).max(plane)).max(1);
    parallel::chunks_mut(grad_input, images * each).enumerate().try_for_each(
        |(task, grad_input)| {
            let (first, count) = (task * images, grad_input.len() / each);
            let mut taps = TapList::with_capacity(sampling, count * points)?;
            let mut grads = memory::filled(sampling.op(), count * outputs, T::ZERO)?;
            for (image, grads) in grads.chunks_exact_mut(outputs).enumerate() {
                let grid = &grid[(first + image) * points * dims..][..points * dims];
                let (list, first_taps) = (&mut taps, [image * plane, image * points]);
                simd::dispatch(ListTaps { sampling, grid, first: first_taps, list });
                pixels(sampling, &grad_out[(first + image) * outputs..][..outputs], grads);
            }
            let places = if count == 1 && 8 * points <= plane {
                Some(touched(sampling, &mut taps)?)
            } else {
                None
            };
            let rows = places.as_ref().map_or(count * plane, Vec::len);
            let mut sums = memory::filled(sampling.op(), rows * channels, T::ZERO)?;
            let addends = Stored {
                data: &grads,
                place: |i: usize| taps.points[i] * channels,
                dense: false,
                form: |i: usize, g: T| g * taps.weights[i],
            };
            T::add_rows(
                &mut sums,
                true,
                channels,
                &Checked(sampling.op(), &taps.places),
                &addends,
            )?;
            match places {
                None => {
                    let sums = sums.chunks_exact(each);
                    for (sums, grad_input) in sums.zip(grad_input.chunks_exact_mut(each)) {
                        planes(sampling, sums, plane, grad_input);
                    }
                }
                Some(places) => parallel::rows(plane, grad_input, |start, planes| {
                    planes.fill(T::ZERO);
                    for (channel, plane) in (start / plane..).zip(planes.chunks_exact_mut(plane)) {
                        for (&place, sums) in places.iter().zip(sums.chunks_exact(channels)) {
                            plane[place] = sums[channel];
                        }
                    }
                }),
            }
            Ok(())
        },
    )
}

/// Returns the places of the taps in ascending order, each once, and numbers the taps by them.
fn touched<T>(sampling: &Sampling, taps: &mut TapList<T>) -> Result<Vec<usize>> {
    let mut places = memory::collected(sampling.op(), taps.places.iter().copied())?;
    parallel::sort_unstable(&mut places);
    places.dedup();
    for place in &mut taps.places {
        // Every place of a tap is among them.
        *place = places.partition_point(|at| at < place);
    }
    Ok(places)
}

/// Computes the gradient of [`grid_sample`] with respect to the grid.
///
/// # Shapes
///
/// `grad_out` as the output, `input` and `grid` as for the forward pass; `grad_grid` as the
/// grid, overwritten.
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn grid_sample_grid_backward<T: Float>(
    sampling: &Sampling,
    grad_out: &[T],
    input: &[T],
    grid: &[T],
    grad_grid: &mut [T],
) -> Result<()> {
    check(sampling, input.len(), grid.len(), grad_out.len())?;
    expect_len(sampling.op(), "grad_grid", grad_grid.len(), sampling.grid_len())?;
    let input = Images::dense(sampling, input);
    images_grid_backward(sampling, grad_out, input, grid, grad_grid)
}

/// Computes [`grid_sample_grid_backward`]. The images must be contiguous unless they are read
/// [in place](in_place).
pub(crate) fn images_grid_backward<T: Float>(
    sampling: &Sampling,
    grad_out: &[T],
    input: Images<'_, T>,
    grid: &[T],
    grad_grid: &mut [T],
) -> Result<()> {
    let (channels, points, dims) = (sampling.channels(), sampling.points(), sampling.dims());
    if sampling.params().mode == GridMode::Nearest || grad_grid.is_empty() || grad_out.is_empty() {
        grad_grid.fill(T::ZERO);
        return Ok(());
    }
    if planar::gradients_pay(sampling) {
        let piece = (PIECE / channels).max(64) * dims;
        parallel::pieces_of(piece, grad_grid, |start, grad_grid| {
            let first = start / dims;
            let all = PlanarGradients { sampling, input, grad_out, grid, first, grad_grid };
            simd::dispatch(all);
        });
        return Ok(());
    }
    let (inputs, outputs) = (channels * sampling.plane(), channels * points);
    let coordinates = points * dims;
    parallel::chunks_mut(grad_grid, coordinates).enumerate().try_for_each(|(n, grad_grid)| {
        let mut rows = memory::filled(sampling.op(), inputs, T::ZERO)?;
        pixels(sampling, &input.data[n * inputs..][..inputs], &mut rows);
        let mut grads = memory::filled(sampling.op(), outputs, T::ZERO)?;
        pixels(sampling, &grad_out[n * outputs..][..outputs], &mut grads);
        let grid = &grid[n * coordinates..][..coordinates];
        parallel::pieces_of(64 * dims, grad_grid, |start, grad_grid| {
            let grid = &grid[start..start + grad_grid.len()];
            let grads = &grads[start / dims * channels..];
            simd::dispatch(PointGradients { sampling, rows: &rows, grads, grid, grad_grid });
        });
        Ok(())
    })
}

fn check(sampling: &Sampling, input: usize, grid: usize, out: usize) -> Result<()> {
    expect_len(sampling.op(), "the input", input, sampling.input_len())?;
    expect_len(sampling.op(), "grid", grid, sampling.grid_len())?;
    expect_len(sampling.op(), "the output", out, sampling.output_len())
}

/// Transposes (channels, places) to (places, channels), so that the elements of a point, over all
/// channels, are neighbours.
fn pixels<T: Float>(sampling: &Sampling, planes: &[T], pixels: &mut [T]) {
    let channels = sampling.channels();
    let places = planes.len() / channels.max(1);
    parallel::rows(channels, pixels, |start, pixels| {
        let first = start / channels;
        let count = pixels.len() / channels;
        T::transpose(&planes[first..], places, (channels, count), pixels, channels);
    });
}

/// Inverts [`pixels`].
fn planes<T: Float>(sampling: &Sampling, pixels: &[T], places: usize, planes: &mut [T]) {
    // Takes as many planes at a time as fill a cache line of each pixel, or some more.
    let some = (PIECE / places.max(1)).next_multiple_of(GROUP).max(GROUP);
    parallel::pieces_of(some * places, planes, |start, planes| {
        let (first, count) = (start / places, planes.len() / places);
        T::transpose(&pixels[first..], sampling.channels(), (places, count), planes, places);
    });
}

/// The number of channels computed together.
const GROUP: usize = 16;

/// The number of points of a task that samples channel by channel.
const PIECE: usize = 4096;

/// Arguments of a kernel: the values of consecutive points, all channels of each.
struct SamplePoints<'a, T> {
    sampling: &'a Sampling,
    rows: &'a [T],
    grid: &'a [T],
    first: usize,
    values: &'a mut [T],
}

impl<T: Float> Kernel for SamplePoints<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (channels, dims) = (self.sampling.channels(), self.sampling.dims());
        let points = self.grid.chunks_exact(dims).skip(self.first);
        let mut found = Taps::new();
        for (at, values) in points.zip(self.values.chunks_exact_mut(channels)) {
            find_taps(self.sampling, at, &mut found);
            let mut groups = values.chunks_exact_mut(GROUP);
            let mut c = 0;
            for group in &mut groups {
                let mut sums = [T::ZERO; GROUP];
                for (place, weight) in found.weights() {
                    let row = &self.rows[place * channels + c..][..GROUP];
                    for (sum, &x) in sums.iter_mut().zip(row) {
                        *sum = x.mul_add(weight, *sum);
                    }
                }
                for (value, sum) in group.iter_mut().zip(sums) {
                    *value = sum.canonical();
                }
                c += GROUP;
            }
            let rest = groups.into_remainder();
            let mut sums = [T::ZERO; GROUP];
            let sums = &mut sums[..rest.len()];
            for (place, weight) in found.weights() {
                let row = &self.rows[place * channels + c..][..rest.len()];
                for (sum, &x) in sums.iter_mut().zip(row) {
                    *sum = x.mul_add(weight, *sum);
                }
            }
            for (value, sum) in rest.iter_mut().zip(sums) {
                *value = sum.canonical();
            }
        }
    }
}

/// Arguments of a kernel: the gradients of consecutive points' coordinates.
struct PointGradients<'a, T> {
    sampling: &'a Sampling,
    rows: &'a [T],
    /// The gradients from the first of these points on.
    grads: &'a [T],
    grid: &'a [T],
    grad_grid: &'a mut [T],
}

impl<T: Float> Kernel for PointGradients<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let dims = self.sampling.dims();
        let mut taps = Taps::new();
        let points =
            self.grid.chunks_exact(dims).zip(self.grads.chunks_exact(self.sampling.channels()));
        for ((at, grads), out) in points.zip(self.grad_grid.chunks_exact_mut(dims)) {
            // An image has no slope in the third dimension.
            let sums = match dims {
                2 => point_gradient::<T, 2>(self.sampling, self.rows, grads, at, &mut taps),
                _ => point_gradient::<T, 3>(self.sampling, self.rows, grads, at, &mut taps),
            };
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = T::from_f64(sum).canonical();
            }
        }
    }
}

/// Computes the gradient of the coordinates (x, y, z) of one point.
#[inline(always)]
fn point_gradient<T: Float, const DIMS: usize>(
    sampling: &Sampling,
    rows: &[T],
    grads: &[T],
    at: &[T],
    taps: &mut Taps,
) -> [f64; 3] {
    find_taps(sampling, at, taps);
    let mut sums = [0.0; DIMS];
    let mut c = 0;
    let mut groups = grads.chunks_exact(GROUP);
    for grads in &mut groups {
        let mut inner = [[0.0f64; GROUP]; DIMS];
        for tap in taps.as_slice() {
            let row = &rows[tap.place * sampling.channels() + c..][..GROUP];
            for (inner, slope) in inner.iter_mut().zip(tap.slopes) {
                if slope != 0.0 {
                    for (inner, &x) in inner.iter_mut().zip(row) {
                        *inner += x.into() * slope;
                    }
                }
            }
        }
        for (sum, inner) in sums.iter_mut().zip(inner) {
            for (inner, &grad) in inner.iter().zip(grads) {
                *sum += grad.into() * inner;
            }
        }
        c += GROUP;
    }
    for (offset, &grad) in groups.remainder().iter().enumerate() {
        let mut inner = [0.0f64; DIMS];
        for tap in taps.as_slice() {
            let x: f64 = rows[tap.place * sampling.channels() + c + offset].into();
            for (inner, slope) in inner.iter_mut().zip(tap.slopes) {
                if slope != 0.0 {
                    *inner += x * slope;
                }
            }
        }
        for (sum, inner) in sums.iter_mut().zip(inner) {
            *sum += grad.into() * inner;
        }
    }
    let mut result = [0.0; 3];
    for ((result, sum), slope) in result.iter_mut().zip(sums).zip(taps.slopes) {
        *result = sum * slope;
    }
    result
}
