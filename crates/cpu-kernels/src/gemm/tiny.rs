//! Many products of a few elements each: a lane of a vector for each product.

use super::Real;
use super::pack::{Factors, Lanes};
use crate::parallel;
use samebits_numerics::simd::{self, Aligned, Kernel};

/// The number of products that are computed together.
const TOGETHER: usize = 16;
/// The largest number of elements of a factor or a product.
const MOST: usize = 24;
/// The largest number of elements of both factors and the product: above, a product of its own takes as
/// long as moving its elements to and from a lane.
const ELEMENTS: usize = 40;
/// The number of elements of both factors and the product that a task moves.
const TASK: usize = 1 << 15;

/// Returns true for products that are computed side by side.
pub(crate) fn are_tiny(count: usize, (rows, columns, k): (usize, usize, usize)) -> bool {
    let most = |sizes: [usize; 2]| sizes.iter().all(|&size| (1..=MOST).contains(&size));
    count >= 2 * TOGETHER
        && most([rows, columns])
        && most([k, rows * columns])
        && most([rows * k, k * columns])
        && rows * columns + (rows + columns) * k <= ELEMENTS
}

/// Returns the distance between offsets, if all distances are the same.
pub(crate) fn progression(offsets: &[usize]) -> Option<usize> {
    let &[first, second, ..] = offsets else { return None };
    let distance = second.checked_sub(first)?;
    let are_even = offsets.windows(2).fold(true, |all, pair| {
        let [before, after] = [pair[0], pair[1]];
        all & (after.wrapping_sub(before) == distance)
    });
    are_even.then_some(distance)
}

/// Computes products whose factors begin at even distances, of which `first` has the first.
pub(crate) fn products<T: Real>(
    (rows, columns, k): (usize, usize, usize),
    first: Factors<'_, T>,
    distances: [usize; 2],
    out: &mut [T],
) {
    let product = rows * columns;
    let some = TASK / (product + (rows + columns) * k);
    let size = parallel::even(out.len(), some * product, TOGETHER * product);
    parallel::pieces_of(size, out, |start, out| {
        let from = start / product;
        let factors = Factors {
            a: moved(first.a, from, distances[0]),
            b: moved(first.b, from, distances[1]),
        };
        simd::dispatch(Tiny { sizes: [rows, columns, k], factors, distances, out });
    });
}

/// Returns the factor `count` products later.
fn moved<T>(lanes: Lanes<'_, T>, count: usize, distance: usize) -> Lanes<'_, T> {
    Lanes { data: &lanes.data[count * distance..], ..lanes }
}

struct Tiny<'a, T> {
    sizes: [usize; 3],
    factors: Factors<'a, T>,
    distances: [usize; 2],
    out: &'a mut [T],
}

impl<T: Real> Kernel for Tiny<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Tiny { sizes: [rows, columns, k], factors: Factors { a, b }, distances, out } = self;
        let product = rows * columns;
        let mut left = Aligned([[T::default(); TOGETHER]; MOST]);
        let mut right = Aligned([[T::default(); TOGETHER]; MOST]);
        let mut results = Aligned([[T::default(); TOGETHER]; MOST]);
        for (group, out) in out.chunks_mut(TOGETHER * product).enumerate() {
            let (first, count) = (group * TOGETHER, out.len() / product);
            load(
                &a.data[first * distances[0]..],
                [a.lane_stride, a.step_stride],
                [rows, k],
                (distances[0], count),
                &mut left,
            );
            load(
                &b.data[first * distances[1]..],
                [b.lane_stride, b.step_stride],
                [columns, k],
                (distances[1], count),
                &mut right,
            );
            for i in 0..rows {
                for j in 0..columns {
                    let mut sums = [T::default(); TOGETHER];
                    for step in 0..k {
                        let (x, y) = (&left[i * k + step], &right[j * k + step]);
                        for lane in 0..TOGETHER {
                            sums[lane] = x[lane].fma(y[lane], sums[lane]);
                        }
                    }
                    for lane in 0..TOGETHER {
                        results[i * columns + j][lane] = sums[lane].canonical();
                    }
                }
            }
            for (lane, out) in out.chunks_exact_mut(product).enumerate() {
                for (out, values) in out.iter_mut().zip(&results.0) {
                    *out = values[lane];
                }
            }
        }
    }
}

/// Sets lane `l` of `to[i * k + step]` to the element of lane `i` and `step` of factor `l`. Lanes without
/// a factor repeat the last one.
#[inline(always)]
fn load<T: Real>(
    data: &[T],
    [lane_stride, step_stride]: [usize; 2],
    [lanes, k]: [usize; 2],
    (distance, count): (usize, usize),
    to: &mut [[T; TOGETHER]; MOST],
) {
    let mut starts = [0; TOGETHER];
    for (l, start) in starts.iter_mut().enumerate() {
        *start = l.min(count - 1) * distance;
    }
    for i in 0..lanes {
        for step in 0..k {
            let data = &data[i * lane_stride + step * step_stride..];
            let values = &mut to[i * k + step];
            for l in 0..TOGETHER {
                values[l] = data[starts[l]];
            }
        }
    }
}
