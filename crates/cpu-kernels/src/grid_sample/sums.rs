//! The gradient of the input, for some channels of some images together: the sums of a place over the
//! channels are neighbours.

use super::planar::{Span, move_places, spans};
use super::taps::{Four, TOGETHER, four_taps, have_four};
use super::{PIECE, Sampling};
use crate::arch::{TileGrid, TileMut};
use crate::scatter::Rest;
use crate::{Float, Result, memory, parallel, short};
use samebits_numerics::exact::two_sum;
use samebits_numerics::simd::{self, Aligned, Kernel};

/// The number of channels whose sums are neighbours.
const CHANNELS: usize = 4;
/// The number of places up to which small images are summed together.
const PLACES: usize = 1 << 11;
/// The largest plane whose sums fit into a cache.
const LARGE: usize = 1 << 15;

/// Returns true if [`sum`] computes the gradient, and is faster than a list of all taps.
pub(super) fn pays(sampling: &Sampling) -> bool {
    let (plane, points) = (sampling.plane(), sampling.points());
    let tasks = sampling.batch() * sampling.channels().div_ceil(CHANNELS);
    // The result is the same, however many threads there are.
    let busy = tasks >= parallel::threads() || points <= 8 * PIECE;
    let sparse = plane > PLACES && 8 * points <= plane;
    have_four(sampling) && plane <= LARGE && busy && !sparse
}

/// Computes the gradient of the input.
pub(super) fn sum<T: Float>(
    sampling: &Sampling,
    grad_out: &[T],
    grid: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    let (plane, channels) = (sampling.plane(), sampling.channels());
    let images = (PLACES / plane).min(PIECE / sampling.points()).max(1);
    let tile = (images, CHANNELS, plane);
    let size = (channels, plane);
    TileGrid::new(grad_input, sampling.batch(), size, tile).try_for_each(
        |image, channel, _, out| {
            let mut sums = memory::filled(sampling.op(), out.matrices * plane, [0.0f64; CHANNELS])?;
            let (first, sums) = ([image, channel], &mut sums);
            simd::dispatch(SumPlanes { sampling, grad_out, grid, first, sums, out });
            Ok(())
        },
    )
}

/// Arguments of a kernel: the gradient of up to [`CHANNELS`] channels of consecutive images.
struct SumPlanes<'a, T> {
    sampling: &'a Sampling,
    grad_out: &'a [T],
    grid: &'a [T],
    /// The first image and channel.
    first: [usize; 2],
    /// Zeros, for each place of the images.
    sums: &'a mut [[f64; CHANNELS]],
    out: TileMut<'a, T>,
}

impl<T: Float> Kernel for SumPlanes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let SumPlanes { sampling, grad_out, grid, first: [image, channel], sums, mut out } = self;
        let (points, plane) = (sampling.points(), sampling.plane());
        let [_, _, width] = sampling.input();
        let (channels, taps) = (sampling.channels(), sampling.most_taps());
        let mut rest = Rest::default();
        let grid = &grid[image * points * 2..][..out.matrices * points * 2];
        let (mut number, mut point) = (0, 0);
        for at in grid.chunks(2 * TOGETHER) {
            let count = at.len() / 2;
            let Four { mut places, weights } = four_taps::<T, 4>(sampling, at, [width, 1]);
            move_places(&mut places, (point, points, count), plane);
            let mut grads = Aligned([[T::ZERO; CHANNELS]; TOGETHER]);
            for k in 0..out.rows {
                for Span { image: next, point, lane, count } in spans(point, points, count) {
                    let row = (image + number + next) * channels + channel + k;
                    let from = &grad_out[row * points + point..][..count];
                    for (grads, &grad) in grads[lane..lane + count].iter_mut().zip(from) {
                        grads[k] = grad;
                    }
                }
            }
            let mut finite = true;
            for &grad in grads.as_flattened() {
                finite &= grad * T::ZERO == T::ZERO;
            }
            let base = number * plane;
            for (lane, grads) in grads.iter().enumerate().take(count) {
                for (places, weights) in places.iter().zip(&weights).take(taps) {
                    let (place, weight) = (base + places[lane], weights[lane]);
                    // There is no such tap. Without infinities its addend is 0 and changes nothing,
                    // because no sum is -0.
                    if !finite && weight == T::ZERO {
                        continue;
                    }
                    let mut addends = [0.0; CHANNELS];
                    for (addend, &grad) in addends.iter_mut().zip(grads) {
                        *addend = (grad * weight).into();
                    }
                    add::<T>(&mut sums[place], addends, place, &mut rest);
                }
            }
            point += count;
            number += point / points;
            point %= points;
        }
        write(sums, &mut out);
        for (at, x) in rest.values(sums.as_flattened()) {
            let (place, k) = (at / CHANNELS, at % CHANNELS);
            if k < out.rows {
                let at = place % plane;
                out.row(place / plane, k, at, at + 1)[0] = T::from_f64(x.into()).canonical();
            }
        }
    }
}

/// Adds to the sums of one place, whose number is `place`: f64 in f64, and f32 without any rounding.
#[inline(always)]
fn add<T: Float>(
    sums: &mut [f64; CHANNELS],
    addends: [f64; CHANNELS],
    place: usize,
    rest: &mut Rest,
) {
    if T::WIDE {
        for (sum, addend) in sums.iter_mut().zip(addends) {
            *sum += addend;
        }
        return;
    }
    let mut new = [0.0; CHANNELS];
    let mut inexact = 0;
    for k in 0..CHANNELS {
        let (sum, error) = two_sum(sums[k], addends[k]);
        new[k] = sum;
        // Also true if the addend is not finite, because the error is NaN then.
        inexact |= u64::from(error != 0.0);
    }
    if inexact == 0 {
        *sums = new;
    } else {
        add_inexact(sums, addends, place, rest);
    }
}

#[cold]
#[inline(never)]
fn add_inexact(
    sums: &mut [f64; CHANNELS],
    addends: [f64; CHANNELS],
    place: usize,
    rest: &mut Rest,
) {
    for (k, (sum, addend)) in sums.iter_mut().zip(addends).enumerate() {
        rest.add(sum, CHANNELS * place + k, addend);
    }
}

/// Rounds the sums to the elements of a tile.
#[inline(always)]
fn write<T: Float>(sums: &[[f64; CHANNELS]], out: &mut TileMut<'_, T>) {
    let plane = out.columns;
    for (number, sums) in sums.chunks_exact(plane).enumerate() {
        let mut start = 0;
        for sums in sums.chunks(TOGETHER) {
            let mut rounded = Aligned([[T::ZERO; TOGETHER]; CHANNELS]);
            for (lane, sums) in sums.iter().enumerate() {
                for (rounded, &sum) in rounded.iter_mut().zip(sums) {
                    rounded[lane] = T::from_f64(sum).canonical();
                }
            }
            for (k, rounded) in rounded.iter().enumerate().take(out.rows) {
                let to = out.row(number, k, start, start + sums.len());
                short::copy(&rounded[..sums.len()], to);
            }
            start += sums.len();
        }
    }
}
