//! Points of images without a transposition: several points side by side, channel by channel.

use super::taps::{Four, FourSlopes, TOGETHER, four_slopes, four_taps, have_four};
use super::{GridMode, Sampling};
use crate::Float;
use crate::arch::TileMut;
use samebits_numerics::simd::Kernel;

/// The largest number of channels that are always sampled one after the other.
pub(super) const FEW: usize = 8;

/// Returns true if sampling channel by channel is faster than to transpose the input.
pub(super) fn pays(sampling: &Sampling) -> bool {
    have_four(sampling) && (sampling.channels() <= FEW || sampling.points() <= sampling.plane() / 2)
}

/// Arguments of a kernel: the values of consecutive points of consecutive images, for some channels.
pub(super) struct SamplePlanes<'a, T> {
    pub(super) sampling: &'a Sampling,
    pub(super) input: &'a [T],
    pub(super) grid: &'a [T],
    /// The first image, channel and point.
    pub(super) first: [usize; 3],
    pub(super) out: TileMut<'a, T>,
}

impl<T: Float> Kernel for SamplePlanes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let SamplePlanes { sampling, input, grid, first: [image, channel, point], mut out } = self;
        let (plane, points) = (sampling.plane(), sampling.points());
        for number in 0..out.matrices {
            let mut out = out.matrix(number);
            let n = image + number;
            let planes = &input[(n * sampling.channels() + channel) * plane..];
            let grid = &grid[(n * points + point) * 2..][..out.columns * 2];
            for (group, at) in grid.chunks(2 * TOGETHER).enumerate() {
                let Four { places, weights } = four_taps::<T>(sampling, at);
                let first = group * TOGETHER;
                let count = at.len() / 2;
                for (channel, plane) in planes.chunks_exact(plane).take(out.rows).enumerate() {
                    let mut sums = [T::ZERO; TOGETHER];
                    for (places, weights) in places.iter().zip(&weights).take(sampling.most_taps())
                    {
                        let mut x = [T::ZERO; TOGETHER];
                        for (x, &place) in x.iter_mut().zip(places) {
                            *x = plane[place];
                        }
                        for (sum, (x, &weight)) in sums.iter_mut().zip(x.into_iter().zip(weights)) {
                            let next = x.mul_add(weight, *sum);
                            *sum = if weight == T::ZERO { *sum } else { next };
                        }
                    }
                    let to = out.row(0, channel, first, first + count);
                    for (to, sum) in to.iter_mut().zip(sums) {
                        *to = sum.canonical();
                    }
                }
            }
        }
    }
}

/// Returns true if [`PlanarGradients`] computes the gradients of coordinates, and is faster.
pub(super) fn gradients_pay(sampling: &Sampling) -> bool {
    pays(sampling) && sampling.params().mode == GridMode::Linear
}

/// Arguments of a kernel: the gradients of the coordinates of consecutive points, counted over all
/// images.
pub(super) struct PlanarGradients<'a, T> {
    pub(super) sampling: &'a Sampling,
    pub(super) input: &'a [T],
    pub(super) grad_out: &'a [T],
    pub(super) grid: &'a [T],
    pub(super) first: usize,
    pub(super) grad_grid: &'a mut [T],
}

impl<T: Float> Kernel for PlanarGradients<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let PlanarGradients { sampling, input, grad_out, grid, first, grad_grid } = self;
        let (plane, points) = (sampling.plane(), sampling.points());
        let channels = sampling.channels();
        let end = first + grad_grid.len() / 2;
        let mut at = first;
        while at < end {
            let (n, point) = (at / points, at % points);
            let count = TOGETHER.min(end - at).min(points - point);
            let FourSlopes { places, slopes, factors } =
                four_slopes::<T>(sampling, &grid[2 * at..2 * (at + count)]);
            let mut sums = [[0.0f64; TOGETHER]; 2];
            let planes = input[n * channels * plane..].chunks_exact(plane);
            let grads = grad_out[n * channels * points..].chunks_exact(points);
            for (plane, grads) in planes.zip(grads).take(channels) {
                let mut grad = [0.0f64; TOGETHER];
                for (grad, &x) in grad.iter_mut().zip(&grads[point..point + count]) {
                    *grad = x.into();
                }
                let mut inner = [[0.0f64; TOGETHER]; 2];
                for (tap, places) in places.iter().enumerate() {
                    let mut x = [0.0f64; TOGETHER];
                    for (x, &place) in x.iter_mut().zip(places) {
                        *x = plane[place].into();
                    }
                    for (inner, slopes) in inner.iter_mut().zip(&slopes[tap]) {
                        for (inner, (x, &slope)) in inner.iter_mut().zip(x.iter().zip(slopes)) {
                            let next = *inner + x * slope;
                            *inner = if slope == 0.0 { *inner } else { next };
                        }
                    }
                }
                for (sums, inner) in sums.iter_mut().zip(&inner) {
                    for (sum, (grad, inner)) in sums.iter_mut().zip(grad.iter().zip(inner)) {
                        *sum += grad * inner;
                    }
                }
            }
            let out = &mut grad_grid[2 * (at - first)..][..2 * count];
            for (k, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                *out = [0, 1].map(|d| T::from_f64(sums[d][k] * factors[d][k]).canonical());
            }
            at += count;
        }
    }
}
