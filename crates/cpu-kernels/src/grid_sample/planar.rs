//! Points of images without a transposition: several points side by side, channel by channel.

use super::taps::{Four, FourSlopes, TOGETHER, four_slopes, four_taps, have_four};
use super::{GridMode, Sampling};
use crate::arch::{Places, TileMut};
use crate::{Float, short};
use samebits_numerics::simd::{Aligned, Kernel};
use std::hint::select_unpredictable;

/// The largest number of channels that are always sampled one after the other; by the nearest element, all
/// are.
pub(super) const FEW: usize = 32;

/// Returns true if sampling channel by channel is faster than to transpose the input.
pub(super) fn pays(sampling: &Sampling) -> bool {
    let few = sampling.params().mode == GridMode::Nearest || sampling.channels() <= FEW;
    have_four(sampling) && (few || sampling.points() <= sampling.plane() / 2)
}

/// Images in any layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Images<'a, T> {
    /// Starts with the first element.
    pub(crate) data: &'a [T],
    /// The distances between images, channels, rows and columns.
    pub(crate) strides: [usize; 4],
}

impl<'a, T> Images<'a, T> {
    /// Returns contiguous images of the size of the input.
    pub(crate) fn dense(sampling: &Sampling, data: &'a [T]) -> Images<'a, T> {
        let (plane, width) = (sampling.plane(), sampling.input()[2]);
        Images { data, strides: [sampling.channels() * plane, plane, width, 1] }
    }

    /// Returns the distances between rows and columns.
    #[inline(always)]
    fn steps(&self) -> [usize; 2] {
        [self.strides[2], self.strides[3]]
    }

    /// Returns the place of the last element of a channel, counted from that channel of `images` images before.
    #[inline(always)]
    fn last(&self, sampling: &Sampling, images: usize) -> usize {
        let [_, height, width] = sampling.input();
        let [row, column] = self.steps();
        images * self.strides[0] + height.saturating_sub(1) * row + width.saturating_sub(1) * column
    }

    /// Returns the data from the given channel of an image on.
    #[inline(always)]
    fn channel(&self, image: usize, channel: usize) -> &'a [T] {
        &self.data[image * self.strides[0] + channel * self.strides[1]..]
    }
}

/// Consecutive points of one image among the points that are computed together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The number of the image, counted from that of the first point.
    pub(super) image: usize,
    /// The number of the first of these points in the image.
    pub(super) point: usize,
    /// The position of that point among those computed together.
    pub(super) lane: usize,
    pub(super) count: usize,
}

/// Cuts `count` points, of which the first has number `point` in its image of `points` points, where
/// an image ends.
#[inline(always)]
pub(super) fn spans(mut point: usize, points: usize, count: usize) -> impl Iterator<Item = Span> {
    let (mut image, mut lane) = (0, 0);
    std::iter::from_fn(move || {
        if lane == count {
            return None;
        }
        let span = Span { image, point, lane, count: (points - point).min(count - lane) };
        (image, point, lane) = (image + 1, 0, lane + span.count);
        Some(span)
    })
}

/// Adds the distances of images `distance` apart to the places of their points.
#[inline(always)]
pub(super) fn move_places<const N: usize>(
    places: &mut [[usize; TOGETHER]; N],
    (point, points, count): (usize, usize, usize),
    distance: usize,
) {
    if point + count <= points {
        return;
    }
    let mut moves = Aligned([0; TOGETHER]);
    for Span { image, lane, count, .. } in spans(point, points, count) {
        for to in &mut moves[lane..lane + count] {
            *to = image * distance;
        }
    }
    for places in places {
        for (place, to) in places.iter_mut().zip(*moves) {
            *place += to;
        }
    }
}

/// Arguments of a kernel: the values of consecutive points of consecutive images, for some channels.
pub(super) struct SamplePlanes<'a, T> {
    pub(super) sampling: &'a Sampling,
    pub(super) input: Images<'a, T>,
    pub(super) grid: &'a [T],
    /// The first image, channel and point. Tiles of several images have all their points.
    pub(super) first: [usize; 3],
    pub(super) out: TileMut<'a, T>,
}

impl<T: Float> Kernel for SamplePlanes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.sampling.params().mode {
            GridMode::Nearest => self.sample::<1>(),
            _ => self.sample::<4>(),
        }
    }
}

impl<T: Float> SamplePlanes<'_, T> {
    /// Samples by the first `N` of four taps: all, or the nearest element.
    #[inline(always)]
    fn sample<const N: usize>(self) {
        let SamplePlanes { sampling, input, grid, first: [image, channel, point], mut out } = self;
        let columns = out.columns;
        let grid = &grid[(image * sampling.points() + point) * 2..][..out.matrices * columns * 2];
        let (mut number, mut point) = (0, 0);
        for at in grid.chunks(2 * TOGETHER) {
            let count = at.len() / 2;
            let Four { mut places, weights } = four_taps::<T, N>(sampling, at, input.steps());
            move_places(&mut places, (point, columns, count), input.strides[0]);
            let last = input.last(sampling, (point + count - 1) / columns);
            let places = Places::new(places, last);
            for row in 0..out.rows {
                let plane = input.channel(image + number, channel + row);
                let mut sums = Aligned([T::ZERO; TOGETHER]);
                for (tap, weights) in weights.iter().enumerate() {
                    let x = places.read(tap, plane);
                    for (sum, (x, &weight)) in sums.iter_mut().zip(x.into_iter().zip(weights)) {
                        let next = x.mul_add(weight, *sum);
                        *sum = select_unpredictable(weight == T::ZERO, *sum, next);
                    }
                }
                for sum in &mut *sums {
                    *sum = sum.canonical();
                }
                if count == TOGETHER && point + TOGETHER <= columns {
                    out.row(number, row, point, point + TOGETHER).copy_from_slice(&*sums);
                    continue;
                }
                for Span { image, point, lane, count } in spans(point, columns, count) {
                    let to = out.row(number + image, row, point, point + count);
                    short::copy(&sums[lane..lane + count], to);
                }
            }
            point += count;
            number += point / columns;
            point %= columns;
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
    pub(super) input: Images<'a, T>,
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
        let (points, channels) = (sampling.points(), sampling.channels());
        let grid = &grid[2 * first..][..grad_grid.len()];
        let (mut number, mut point) = (first / points, first % points);
        for (at, out) in grid.chunks(2 * TOGETHER).zip(grad_grid.chunks_mut(2 * TOGETHER)) {
            let count = at.len() / 2;
            let FourSlopes { mut places, slopes, factors } =
                four_slopes::<T>(sampling, at, input.steps());
            move_places(&mut places, (point, points, count), input.strides[0]);
            let last = input.last(sampling, (point + count - 1) / points);
            let places = Places::new(places, last);
            let mut sums = Aligned([[0.0f64; TOGETHER]; 2]);
            let mut grads = Aligned([T::ZERO; TOGETHER]);
            for channel in 0..channels {
                for Span { image, point, lane, count } in spans(point, points, count) {
                    let row = (number + image) * channels + channel;
                    short::copy(
                        &grad_out[row * points + point..][..count],
                        &mut grads[lane..lane + count],
                    );
                }
                let plane = input.channel(number, channel);
                let mut inner = Aligned([[0.0f64; TOGETHER]; 2]);
                for (tap, slopes) in slopes.iter().enumerate() {
                    let x = places.read(tap, plane);
                    for (inner, slopes) in inner.iter_mut().zip(slopes) {
                        for (inner, (&x, &slope)) in inner.iter_mut().zip(x.iter().zip(slopes)) {
                            let next = *inner + x.into() * slope;
                            *inner = select_unpredictable(slope == 0.0, *inner, next);
                        }
                    }
                }
                for (sums, inner) in sums.iter_mut().zip(&*inner) {
                    for (sum, (&grad, inner)) in sums.iter_mut().zip(grads.iter().zip(inner)) {
                        *sum += grad.into() * inner;
                    }
                }
            }
            let mut found = Aligned([T::ZERO; 2 * TOGETHER]);
            for (k, found) in found.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                *found = [0, 1].map(|d| T::from_f64(sums[d][k] * factors[d][k]).canonical());
            }
            out.copy_from_slice(&found[..out.len()]);
            point += count;
            number += point / points;
            point %= points;
        }
    }
}
