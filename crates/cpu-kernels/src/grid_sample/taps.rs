//! The taps of a point: the elements that it reads, and their weights.

use super::{GridMode, GridPadding, GridParams, Sampling};
use crate::arch::LANES;
use crate::{Float, Result, memory};
use samebits_numerics::simd::Kernel;
use samebits_tensor_core::geometry::cubic_weights;

/// One element that a point reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    /// The position of the element in the plane.
    pub(super) place: usize,
    pub(super) weight: f64,
    /// The derivative of the weight with respect to the position in x, y and z.
    pub(super) slopes: [f64; 3],
}

/// The taps of one point, in row-major order: at most 16.
pub(super) struct Taps {
    all: [Tap; 16],
    count: usize,
    /// The derivative of the position with respect to each coordinate (x, y, z).
    pub(super) slopes: [f64; 3],
}

impl Taps {
    /// Returns an empty list of taps.
    pub(super) fn new() -> Taps {
        let none = Tap { place: 0, weight: 0.0, slopes: [0.0; 3] };
        Taps { all: [none; 16], count: 0, slopes: [0.0; 3] }
    }

    #[inline(always)]
    pub(super) fn as_slice(&self) -> &[Tap] {
        &self.all[..self.count]
    }

    /// Returns the places of the taps and their weights in the element type, without taps of weight
    /// 0.
    #[inline(always)]
    pub(super) fn weights<T: Float>(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        let weights = self.as_slice().iter().map(|tap| (tap.place, T::from_f64(tap.weight)));
        weights.filter(|&(_, weight)| weight != T::ZERO)
    }
}

/// The taps of many points, one after the other.
pub(super) struct TapList<T> {
    pub(super) places: Vec<usize>,
    pub(super) weights: Vec<T>,
    pub(super) points: Vec<usize>,
}

impl<T: Float> TapList<T> {
    /// Returns an empty list with room for `points` points.
    pub(super) fn with_capacity(sampling: &Sampling, points: usize) -> Result<TapList<T>> {
        let op = sampling.op();
        let most = memory::volume(op, &[points, sampling.most_taps()])?;
        Ok(TapList {
            places: memory::with_capacity(op, most)?,
            weights: memory::with_capacity(op, most)?,
            points: memory::with_capacity(op, most)?,
        })
    }
}

/// Arguments of the kernel that appends the taps of an image to a [`TapList`] with room for them.
pub(super) struct ListTaps<'a, T> {
    pub(super) sampling: &'a Sampling,
    pub(super) grid: &'a [T],
    /// Added to the places and to the numbers of the points.
    pub(super) first: [usize; 2],
    pub(super) list: &'a mut TapList<T>,
}

impl<T: Float> Kernel for ListTaps<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ListTaps { first: [first_place, first_point], list, .. } = self;
        let dims = self.sampling.dims();
        if have_four(self.sampling) {
            let most = self.sampling.most_taps();
            let TapList { places: all_places, weights: all_weights, points } = list;
            for (number, at) in self.grid.chunks(2 * TOGETHER).enumerate() {
                let [_, _, width] = self.sampling.input();
                let Four { places, weights } = four_taps::<T, 4>(self.sampling, at, [width, 1]);
                let start = all_places.len();
                let room = start + at.len() / 2 * most;
                all_places.resize(room, 0);
                all_weights.resize(room, T::ZERO);
                points.resize(room, 0);
                let mut next = start;
                for point in 0..at.len() / 2 {
                    for (places, weights) in places.iter().zip(&weights).take(most) {
                        // A tap of weight 0 is replaced by the next one.
                        all_places[next] = first_place + places[point];
                        all_weights[next] = weights[point];
                        points[next] = first_point + number * TOGETHER + point;
                        next += usize::from(weights[point] != T::ZERO);
                    }
                }
                all_places.truncate(next);
                all_weights.truncate(next);
                points.truncate(next);
            }
            return;
        }
        let mut taps = Taps::new();
        for (point, at) in self.grid.chunks_exact(dims).enumerate() {
            find_taps(self.sampling, at, &mut taps);
            for (place, weight) in taps.weights() {
                list.places.push(first_place + place);
                list.weights.push(weight);
                list.points.push(first_point + point);
            }
        }
    }
}

/// The number of points whose taps are found together.
pub(super) const TOGETHER: usize = LANES;

/// The first `N` of the four taps of each of several points in an image, in row-major order. A weight
/// of 0 means that there is no such tap; the nearest element is the first one.
pub(super) struct Four<T, const N: usize> {
    pub(super) places: [[usize; TOGETHER]; N],
    pub(super) weights: [[T; TOGETHER]; N],
}

/// Returns true if [`four_taps`] finds the taps that [`find_taps`] finds.
pub(super) fn have_four(sampling: &Sampling) -> bool {
    let GridParams { mode, padding, .. } = sampling.params();
    sampling.dims() == 2 && mode != GridMode::Cubic && padding != GridPadding::Reflection
}

/// Finds the taps of up to [`TOGETHER`] points, given by their coordinates, in an image with the
/// given distances between rows and columns. `N` is 4, or 1 if only the nearest element is wanted.
#[inline(always)]
pub(super) fn four_taps<T: Float, const N: usize>(
    sampling: &Sampling,
    points: &[T],
    [row, column]: [usize; 2],
) -> Four<T, N> {
    let [_, height, width] = sampling.input();
    // Points that are missing have no taps.
    let [mut x, mut y] = [[f64::NAN; TOGETHER]; 2];
    for (point, (x, y)) in points.as_chunks::<2>().0.iter().zip(x.iter_mut().zip(&mut y)) {
        (*x, *y) = (point[0].into(), point[1].into());
    }
    let across = two_taps::<N>(sampling.params(), x, width);
    let down = two_taps::<N>(sampling.params(), y, height);
    let mut four = Four { places: [[0; TOGETHER]; N], weights: [[T::ZERO; TOGETHER]; N] };
    for tap in 0..sampling.most_taps().min(N) {
        let ((x, wx), (y, wy)) = (&across[tap % 2], &down[tap / 2]);
        for point in 0..TOGETHER {
            four.places[tap][point] = y[point] * row + x[point] * column;
            four.weights[tap][point] = T::from_f64(wy[point] * wx[point]);
        }
    }
    four
}

/// Returns the two taps in a dimension, as [`axis`]: places, and weights that are 0 outside. Only the
/// first, which must be the nearest element, if `N` is 1.
#[inline(always)]
fn two_taps<const N: usize>(
    params: GridParams,
    coordinates: [f64; TOGETHER],
    size: usize,
) -> [([usize; TOGETHER], [f64; TOGETHER]); 2] {
    let length = size as f64;
    let mut taps = [([0; TOGETHER], [0.0; TOGETHER]); 2];
    for (point, coordinate) in coordinates.into_iter().enumerate() {
        let (at, _) = position(params, coordinate, size);
        let at = if params.padding == GridPadding::Border { clip(at, size).0 } else { at };
        let nearest = N == 1 || params.mode == GridMode::Nearest;
        let left = if nearest { at.round_ties_even() } else { at.floor() };
        let part = if nearest { 0.0 } else { at - left };
        for (tap, (place, weight)) in
            [(left, 1.0 - part), (left + 1.0, part)].into_iter().enumerate().take(N)
        {
            let inside = place >= 0.0 && place < length;
            taps[tap].0[point] = whole(if inside { place } else { 0.0 });
            taps[tap].1[point] = if inside { weight } else { 0.0 };
        }
    }
    taps
}

/// The four taps of each of several points, as [`Four`], with the derivatives of their weights in x
/// and y, and the derivatives of the positions. A derivative of 0 changes nothing.
pub(super) struct FourSlopes {
    pub(super) places: [[usize; TOGETHER]; 4],
    pub(super) slopes: [[[f64; TOGETHER]; 2]; 4],
    pub(super) factors: [[f64; TOGETHER]; 2],
}

/// Finds the derivatives for up to [`TOGETHER`] points, as [`find_taps`] does for linear weights.
#[inline(always)]
pub(super) fn four_slopes<T: Float>(
    sampling: &Sampling,
    points: &[T],
    [row, column]: [usize; 2],
) -> FourSlopes {
    let [_, height, width] = sampling.input();
    let [mut x, mut y] = [[f64::NAN; TOGETHER]; 2];
    for (point, (x, y)) in points.as_chunks::<2>().0.iter().zip(x.iter_mut().zip(&mut y)) {
        (*x, *y) = (point[0].into(), point[1].into());
    }
    let (across, x_factors) = two_slopes(sampling.params(), x, width);
    let (down, y_factors) = two_slopes(sampling.params(), y, height);
    let mut places = [[0; TOGETHER]; 4];
    let mut slopes = [[[0.0; TOGETHER]; 2]; 4];
    for tap in 0..4 {
        let ((x, wx, sx), (y, wy, sy)) = (&across[tap % 2], &down[tap / 2]);
        for point in 0..TOGETHER {
            places[tap][point] = y[point] * row + x[point] * column;
            slopes[tap][0][point] = wy[point] * sx[point];
            slopes[tap][1][point] = sy[point] * wx[point];
        }
    }
    FourSlopes { places, slopes, factors: [x_factors, y_factors] }
}

/// Places, weights and derivatives of one of the two taps of several points in a dimension.
type Slopes = ([usize; TOGETHER], [f64; TOGETHER], [f64; TOGETHER]);

/// Returns the two taps in a dimension, as [`axis`] with linear weights, and the derivatives of the
/// positions; weights and derivatives are 0 outside.
#[inline(always)]
fn two_slopes(
    params: GridParams,
    coordinates: [f64; TOGETHER],
    size: usize,
) -> ([Slopes; 2], [f64; TOGETHER]) {
    let length = size as f64;
    let mut taps = [([0; TOGETHER], [0.0; TOGETHER], [0.0; TOGETHER]); 2];
    let mut factors = [0.0; TOGETHER];
    for (point, coordinate) in coordinates.into_iter().enumerate() {
        let (mut at, scale) = position(params, coordinate, size);
        let mut slope = 1.0;
        if params.padding == GridPadding::Border {
            (at, slope) = clip(at, size);
        }
        factors[point] = scale * slope;
        let left = at.floor();
        let part = at - left;
        for (tap, (place, weight, slope)) in
            [(left, 1.0 - part, -1.0), (left + 1.0, part, 1.0)].into_iter().enumerate()
        {
            let inside = place >= 0.0 && place < length;
            taps[tap].0[point] = whole(if inside { place } else { 0.0 });
            taps[tap].1[point] = if inside { weight } else { 0.0 };
            taps[tap].2[point] = if inside { slope } else { 0.0 };
        }
    }
    (taps, factors)
}

/// Converts a whole number of at least 0 and below 2^52. The usual conversion, which also knows all other
/// numbers, has no vectors.
#[inline(always)]
fn whole(x: f64) -> usize {
    const SHIFT: f64 = (1u64 << 52) as f64;
    (x + SHIFT).to_bits() as usize & ((1 << 52) - 1)
}

/// The taps in one dimension: place, weight, derivative of the weight.
type Axis = ([(Option<usize>, f64, f64); 4], usize);

/// Replaces the taps with those of the given point.
#[inline(always)]
pub(super) fn find_taps<T: Float>(sampling: &Sampling, at: &[T], taps: &mut Taps) {
    taps.count = 0;
    let mut axes: [Axis; 3] = [([(Some(0), 1.0, 0.0); 4], 1); 3];
    for (d, &coordinate) in at.iter().enumerate() {
        // The coordinates are in the reverse order of the dimensions.
        let size = sampling.input()[2 - d];
        (axes[d], taps.slopes[d]) = axis(sampling.params(), coordinate.into(), size);
    }
    let [_, height, width] = sampling.input();
    let [(x_taps, nx), (y_taps, ny), (z_taps, nz)] = axes;
    for &(z, wz, sz) in &z_taps[..nz] {
        for &(y, wy, sy) in &y_taps[..ny] {
            for &(x, wx, sx) in &x_taps[..nx] {
                if let (Some(x), Some(y), Some(z)) = (x, y, z) {
                    taps.all[taps.count] = Tap {
                        place: (z * height + y) * width + x,
                        weight: wz * wy * wx,
                        slopes: [wz * wy * sx, wz * sy * wx, sz * wy * wx],
                    };
                    taps.count += 1;
                }
            }
        }
    }
}

/// Returns the taps in a dimension of `size` elements, and the derivative of the position.
#[inline(always)]
fn axis(params: GridParams, coordinate: f64, size: usize) -> (Axis, f64) {
    const NONE: (Option<usize>, f64, f64) = (None, 0.0, 0.0);
    let (at, scale) = position(params, coordinate, size);
    let inside = |place: f64| (place >= 0.0 && place < size as f64).then_some(place as usize);
    match params.mode {
        GridMode::Nearest => {
            let (at, _) = pad(params, at, size);
            (([(inside(at.round_ties_even()), 1.0, 0.0), NONE, NONE, NONE], 1), 0.0)
        }
        GridMode::Linear => {
            let (at, slope) = pad(params, at, size);
            let left = at.floor();
            let part = at - left;
            let low = (inside(left), 1.0 - part, -1.0);
            let high = (inside(left + 1.0), part, 1.0);
            (([low, high, NONE, NONE], 2), scale * slope)
        }
        GridMode::Cubic => {
            let left = at.floor();
            let weights = cubic_weights(at - left);
            let slopes = cubic_slopes(at - left);
            let mut taps = [NONE; 4];
            for (k, tap) in taps.iter_mut().enumerate() {
                let (place, _) = pad(params, left + k as f64 - 1.0, size);
                *tap = (inside(place), weights[k], slopes[k]);
            }
            ((taps, 4), scale)
        }
    }
}

/// Returns the position of a coordinate among `size` elements, and its derivative.
#[inline(always)]
fn position(params: GridParams, coordinate: f64, size: usize) -> (f64, f64) {
    if params.align_corners {
        let half = (size as f64 - 1.0) / 2.0;
        ((coordinate + 1.0) * half, half)
    } else {
        (((coordinate + 1.0) * size as f64 - 1.0) / 2.0, size as f64 / 2.0)
    }
}

/// Returns the position that replaces one outside the input, and its derivative.
#[inline(always)]
fn pad(params: GridParams, at: f64, size: usize) -> (f64, f64) {
    match params.padding {
        GridPadding::Zeros => (at, 1.0),
        GridPadding::Border => clip(at, size),
        GridPadding::Reflection => {
            let (low, high) = if params.align_corners {
                (0.0, size as f64 - 1.0)
            } else {
                (-0.5, size as f64 - 0.5)
            };
            let (reflected, slope) = reflect(at, low, high);
            let (clipped, inside) = clip(reflected, size);
            (clipped, slope * inside)
        }
    }
}

/// Clamps `at` to the range of `size` elements; NaN stays NaN.
#[inline(always)]
fn clip(at: f64, size: usize) -> (f64, f64) {
    let last = size as f64 - 1.0;
    if at <= 0.0 {
        (0.0, 0.0)
    } else if at >= last {
        (last, 0.0)
    } else {
        (at, 1.0)
    }
}

/// Mirrors `at` at `low` and `high` until it lies between them.
#[inline(always)]
fn reflect(at: f64, low: f64, high: f64) -> (f64, f64) {
    let span = high - low;
    if span == 0.0 {
        return (0.0, 0.0);
    }
    let (distance, sign) = if at < low { (low - at, -1.0) } else { (at - low, 1.0) };
    // The remainder is exact; an infinite position gives NaN.
    let rest = distance % span;
    if (distance / span).floor() % 2.0 == 0.0 {
        (rest + low, sign)
    } else {
        (span - rest + low, -sign)
    }
}

/// Returns the derivatives of [`cubic_weights`].
#[inline(always)]
fn cubic_slopes(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| (3.0 * (A + 2.0) * x - 2.0 * (A + 3.0)) * x;
    let far = |x: f64| (3.0 * A * x - 10.0 * A) * x + 8.0 * A;
    [far(t + 1.0), near(t), -near(1.0 - t), -far(2.0 - t)]
}
