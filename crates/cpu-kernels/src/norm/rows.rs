//! Normalisation of rows: elements of a mean side by side.

use samebits_numerics::reduce::{self, BLOCK, LANES, Lanes, Normal, TILE};
use samebits_numerics::simd::{self, Aligned, Kernel};

use super::{
    BATCH, GatheredGradients, InputGradient, LAYER, RowStatistics, Scaled, element_gradient,
    rounded,
};
use crate::error::Result;
use crate::float::Float;
use crate::reduce::sums_of_rows;
use crate::{memory, parallel};
use samebits_numerics::fpenv;

/// The number of rows whose statistics are computed together.
pub(super) const TOGETHER: usize = 64;

/// The number of elements from which threads share a row.
const WIDE: usize = 8 * BLOCK;

/// Returns true if threads must share rows of `width` elements to be busy.
pub(super) fn are_shared(rows: usize, width: usize) -> bool {
    width >= WIDE && rows < 2 * parallel::threads()
}

/// Computes the statistics of up to [`TOGETHER`] rows of `n` elements.
struct Statistics<'a, T> {
    x: &'a [T],
    n: usize,
    eps: f64,
    normals: &'a mut [Normal],
}

impl<T: Float> Kernel for Statistics<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Statistics { x, n, eps, normals } = self;
        if n > BLOCK {
            for (x, normal) in x.chunks_exact(n).zip(normals) {
                *normal = RowStatistics { x, eps }.run();
            }
            return;
        }
        let (mut means, mut squares) = ([0.0f64; TOGETHER], [0.0f64; TOGETHER]);
        let (means, squares) = (&mut means[..normals.len()], &mut squares[..normals.len()]);
        sums_of_rows(x, n, means);
        means.iter_mut().for_each(|mean| *mean /= n as f64);
        let term = |row: usize| {
            let mean = means[row];
            move |x: T| {
                let deviation = x.into() - mean;
                deviation * deviation
            }
        };
        reduce::rows(x, n, term, squares);
        for (row, normal) in normals.iter_mut().enumerate() {
            let moments = [means[row], squares[row] / n as f64];
            *normal = Normal::new(moments, eps, n, T::WIDE, &|i| x[row * n + i].into());
        }
    }
}

/// Calls `f(row, rows, statistics)` for groups of consecutive rows of `n` elements; the results are
/// numbers of the first row of the group, counted from 0, its elements and its statistics.
pub(super) fn with_statistics<T: Float>(
    x: &[T],
    n: usize,
    eps: f64,
    mut f: impl FnMut(usize, &[T], &[Normal]),
) {
    let none = Normal { mean: 0.0, variance: 0.0, rstd: 0.0, scale: 1.0 };
    let mut normals = [none; TOGETHER];
    // Rows are normalised while they are still in a cache.
    let together = if n > LANES { (BLOCK / n).clamp(1, TOGETHER) } else { TOGETHER };
    for (number, x) in x.chunks(together * n).enumerate() {
        let normals = &mut normals[..x.len() / n];
        simd::dispatch_inside(Statistics { x, n, eps, normals });
        f(number * together, x, normals);
    }
}

/// Returns the number of rows of a task, of `count` rows. An element takes as long as four of a copy.
pub(super) fn of_task(count: usize, width: usize) -> usize {
    let unit = if width > LANES { 1 } else { TOGETHER };
    let size = (parallel::CHUNK / 4).div_ceil(width.max(1)).next_multiple_of(unit);
    parallel::even(count, size, unit)
}

/// Computes the statistics of one row that threads share.
pub(super) fn shared_statistics<T: Float>(op: &'static str, x: &[T], eps: f64) -> Result<Normal> {
    let n = x.len() as f64;
    let partials = |mean: Option<f64>| {
        parallel::chunks(x, BLOCK).collect(op, |x| simd::dispatch(BlockMoment { x, mean }))
    };
    let mean_of = |partials: &[f64]| fpenv::ieee(|| reduce::combine(partials) / n);
    let mean = mean_of(&partials(None)?);
    let moments = [mean, mean_of(&partials(Some(mean))?)];
    Ok(fpenv::ieee(|| Normal::new(moments, eps, x.len(), T::WIDE, &|i| x[i].into())))
}

/// The partial sum of a block: of its elements, or of their squared deviations from a mean.
struct BlockMoment<'a, T> {
    x: &'a [T],
    mean: Option<f64>,
}

impl<T: Float> Kernel for BlockMoment<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        match self.mean {
            None => reduce::block_partial(self.x, |x| x.into()),
            Some(mean) => reduce::block_partial(self.x, |x| {
                let deviation = x.into() - mean;
                deviation * deviation
            }),
        }
    }
}

/// Normalises rows with a weight and a bias each.
pub(super) struct Weighted<'a, T> {
    pub(super) x: &'a [T],
    pub(super) n: usize,
    pub(super) normals: &'a [Normal],
    pub(super) weight: &'a [T],
    pub(super) bias: &'a [T],
    pub(super) out: &'a mut [T],
}

impl<T: Float> Kernel for Weighted<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Weighted { x, n, normals, weight, bias, out } = self;
        let rows = x.chunks_exact(n).zip(out.chunks_exact_mut(n));
        let parameters = normals.iter().zip(weight.iter().zip(bias));
        for ((x, out), (normal, (&weight, &bias))) in rows.zip(parameters) {
            let statistics = Scaled::of(normal);
            for (out, &x) in out.iter_mut().zip(x) {
                *out = statistics.normal(x).mul_add(weight, bias).canonical();
            }
        }
    }
}

/// Computes the gradients of rows with a weight each, from their known statistics.
pub(super) struct WeightedGradients<'a, T> {
    pub(super) grad: &'a [T],
    pub(super) x: &'a [T],
    pub(super) n: usize,
    pub(super) statistics: &'a [Scaled<T>],
    pub(super) weight: &'a [T],
    pub(super) out: &'a mut [T],
    pub(super) grad_weight: &'a mut [T],
    pub(super) grad_bias: &'a mut [T],
}

impl<T: Float> Kernel for WeightedGradients<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let WeightedGradients { grad, x, n, statistics, weight, out, .. } = self;
        let m = n as f64;
        let rows = || grad.chunks_exact(n).zip(x.chunks_exact(n)).zip(statistics);
        let (mut sums, mut dots) = ([0.0f64; TOGETHER], [0.0f64; TOGETHER]);
        let (sums, dots) = (&mut sums[..statistics.len()], &mut dots[..statistics.len()]);
        if n > LANES {
            for (((grad, x), &statistics), (sum, dot)) in
                rows().zip(sums.iter_mut().zip(dots.iter_mut()))
            {
                [*sum, *dot] = GatheredGradients { grad, x, statistics }.run();
            }
        } else {
            narrow_sums([grad, x], n, statistics, [sums, dots]);
        }
        let out = out.chunks_exact_mut(n).zip(weight);
        for (row, (((grad, x), &statistics), (out, &weight))) in rows().zip(out).enumerate() {
            let (sum, dot) = (sums[row], dots[row]);
            self.grad_bias[row] = T::from_f64(sum).canonical();
            self.grad_weight[row] = T::from_f64(dot).canonical();
            let (mean_grad, mean_dot) = (T::from_f64(sum / m), T::from_f64(dot / m));
            let factor = weight * statistics.rstd;
            InputGradient { grad, x, statistics, mean_grad, mean_dot, factor, out }.run();
        }
    }
}

/// Computes the sums of the gradients of up to [`TOGETHER`] rows of at most [`LANES`] elements, and of
/// their products with the normalised elements.
#[inline(always)]
pub(super) fn narrow_sums<T: Float>(
    [grad, x]: [&[T]; 2],
    n: usize,
    statistics: &[Scaled<T>],
    [sums, dots]: [&mut [f64]; 2],
) {
    let mut products = [0.0f64; TOGETHER * LANES];
    let products = &mut products[..grad.len()];
    let rows = grad.chunks_exact(n).zip(x.chunks_exact(n)).zip(statistics);
    for (((grad, x), statistics), products) in rows.zip(products.chunks_exact_mut(n)) {
        for ((product, &g), &x) in products.iter_mut().zip(grad).zip(x) {
            *product = g.into() * statistics.normal(x).into();
        }
    }
    sums_of_rows(grad, n, sums);
    sums_of_rows(products, n, dots);
}

/// Computes [`batch_norm_backward`](super::batch_norm_backward) of a single sample: its channels are rows.
pub(super) fn gradients<T: Float>(
    [grad, x]: [&[T]; 2],
    n: usize,
    known: &(impl Fn(usize) -> Scaled<T> + Sync),
    weight: &[T],
    grad_x: &mut [T],
) -> Result<(Vec<T>, Vec<T>)> {
    let channels = weight.len();
    if are_shared(channels, n) {
        let statistics = fpenv::ieee(|| memory::collected(BATCH, (0..channels).map(known)))?;
        let sums = shared_sums(BATCH, [grad, x], n, None, &statistics)?;
        let all = statistics.iter().zip(weight).zip(&sums);
        for (row, (out, ((&statistics, &weight), sums))) in
            grad_x.chunks_exact_mut(n).zip(all).enumerate()
        {
            parallel::pieces(out, |start, out| {
                let first = row * n + start;
                let range = first..first + out.len();
                let (grad, x) = (&grad[range.clone()], &x[range]);
                let [mean_grad, mean_dot] = sums.map(|sum| T::from_f64(sum / n as f64));
                let factor = weight * statistics.rstd;
                simd::dispatch_inside(InputGradient {
                    grad,
                    x,
                    statistics,
                    mean_grad,
                    mean_dot,
                    factor,
                    out,
                });
            });
        }
        let field = |at: usize| rounded(BATCH, sums.iter().map(|sums| sums[at]));
        return Ok((field(1)?, field(0)?));
    }
    let mut grad_weight = memory::filled(BATCH, channels, T::ZERO)?;
    let mut grad_bias = memory::filled(BATCH, channels, T::ZERO)?;
    let several = of_task(channels, n);
    let parameters = parallel::chunks_mut(&mut grad_weight, several)
        .zip(parallel::chunks_mut(&mut grad_bias, several));
    parallel::chunks_mut(grad_x, several * n).zip(parameters).enumerate().for_each(
        |(number, (out, (grad_weight, grad_bias)))| {
            let first = number * several;
            let groups = out
                .chunks_mut(TOGETHER * n)
                .zip(grad_weight.chunks_mut(TOGETHER).zip(grad_bias.chunks_mut(TOGETHER)));
            for (group, (out, (grad_weight, grad_bias))) in groups.enumerate() {
                let first = first + group * TOGETHER;
                let range = first * n..first * n + out.len();
                let mut statistics = [Scaled::NONE; TOGETHER];
                let statistics = &mut statistics[..out.len() / n];
                for (row, statistics) in (first..).zip(statistics.iter_mut()) {
                    *statistics = known(row);
                }
                let (grad, x, weight) = (&grad[range.clone()], &x[range], &weight[first..]);
                simd::dispatch_inside(WeightedGradients {
                    grad,
                    x,
                    n,
                    statistics,
                    weight,
                    out,
                    grad_weight,
                    grad_bias,
                });
            }
        },
    );
    Ok((grad_weight, grad_bias))
}

/// Computes the partial sums of a block of a row's gradients and of their products with the
/// normalised elements; the gradients are multiplied with `weight`, if given.
pub(super) struct BlockGradients<'a, T> {
    pub(super) grad: &'a [T],
    pub(super) x: &'a [T],
    pub(super) weight: Option<&'a [T]>,
    pub(super) statistics: Scaled<T>,
}

impl<T: Float> Kernel for BlockGradients<'_, T> {
    type Output = [f64; 2];
    #[inline(always)]
    fn run(self) -> [f64; 2] {
        let BlockGradients { grad, x, weight, statistics } = self;
        let mut scaled = Aligned([T::ZERO; BLOCK]);
        let mut all = grad;
        if let Some(weight) = weight {
            let scaled = &mut scaled[..grad.len()];
            for ((scaled, &grad), &weight) in scaled.iter_mut().zip(grad).zip(weight) {
                *scaled = grad * weight;
            }
            all = scaled;
        }
        // One block: its sum is its partial.
        let dot = reduce::dot_of(all, x, |g, x| g.into() * statistics.normal(x).into());
        [reduce::block_partial(all, |g| g.into()), dot]
    }
}

/// Returns the sums of each row's gradients and of their products with the normalised elements, as
/// threads that share the rows compute them.
pub(super) fn shared_sums<T: Float>(
    op: &'static str,
    [grad, x]: [&[T]; 2],
    width: usize,
    weight: Option<&[T]>,
    statistics: &[Scaled<T>],
) -> Result<Vec<[f64; 2]>> {
    let blocks = reduce::blocks(width);
    let partials = parallel::try_each(op, statistics.len() * blocks, x.len(), |number| {
        let (row, start) = (number / blocks, number % blocks * BLOCK);
        let columns = start..(start + BLOCK).min(width);
        let range = row * width + columns.start..row * width + columns.end;
        let (grad, x) = (&grad[range.clone()], &x[range]);
        let weight = weight.map(|weight| &weight[columns]);
        Ok(simd::dispatch(BlockGradients { grad, x, weight, statistics: statistics[row] }))
    })?;
    let mut sums = memory::with_capacity(op, statistics.len())?;
    for partials in partials.chunks(blocks) {
        let field = |at: usize| memory::collected(op, partials.iter().map(|sums| sums[at]));
        sums.push([reduce::combine(&field(0)?), reduce::combine(&field(1)?)]);
    }
    Ok(sums)
}

/// Computes the gradients of at most [`LANES`] rows, which all threads share, with respect to input,
/// weight and bias.
pub(super) fn few_rows_backward<T: Float>(
    [grad, x]: [&[T]; 2],
    weight: &[T],
    statistics: &[Scaled<T>],
    grad_x: &mut [T],
) -> Result<(Vec<T>, Vec<T>)> {
    let width = weight.len();
    let sums = shared_sums(LAYER, [grad, x], width, Some(weight), statistics)?;
    let m = width as f64;
    parallel::pieces_of(BLOCK, grad_x, |start, mut out| {
        let mut start = start;
        while !out.is_empty() {
            let (row, column) = (start / width, start % width);
            let (piece, rest) = out.split_at_mut(out.len().min(width - column));
            let range = start..start + piece.len();
            simd::dispatch(PieceGradient {
                grad: &grad[range.clone()],
                x: &x[range],
                weight: &weight[column..column + piece.len()],
                statistics: statistics[row],
                means: sums[row].map(|sum| T::from_f64(sum / m)),
                out: piece,
            });
            start += piece.len();
            out = rest;
        }
    });
    let mut totals = memory::zeroed(LAYER, memory::volume(LAYER, &[2, width])?)?;
    let (dots, sums) = totals.split_at_mut(width);
    parallel::chunks_mut(dots, BLOCK).zip(parallel::chunks_mut(sums, BLOCK)).enumerate().for_each(
        |(number, (dots, sums))| {
            let first = number * BLOCK;
            simd::dispatch(FewColumns { grad, x, width, statistics, first, dots, sums });
        },
    );
    Ok((rounded(LAYER, dots.iter().copied())?, rounded(LAYER, sums.iter().copied())?))
}

/// The gradient of a piece of a row whose sums are known.
struct PieceGradient<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    weight: &'a [T],
    statistics: Scaled<T>,
    /// The means of the weighted gradients and of their products with the normalised elements.
    means: [T; 2],
    out: &'a mut [T],
}

impl<T: Float> Kernel for PieceGradient<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let PieceGradient { grad, x, weight, statistics, means, out } = self;
        let factors = [statistics.rstd, statistics.scale];
        for (((out, &grad), &weight), &x) in out.iter_mut().zip(grad).zip(weight).zip(x) {
            *out = element_gradient(grad * weight, statistics.normal(x), means, factors);
        }
    }
}

/// The sums down at most [`LANES`] rows, of gradients and of their products with the normalised
/// elements, for some columns from column `first` on.
struct FewColumns<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    width: usize,
    statistics: &'a [Scaled<T>],
    first: usize,
    dots: &'a mut [f64],
    sums: &'a mut [f64],
}

impl<T: Float> Kernel for FewColumns<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let FewColumns { grad, x, width, statistics, first, dots, sums } = self;
        let mut lanes = Lanes::new();
        let mut made = [0.0; Lanes::MADE];
        let rows = statistics.len();
        let tiles = dots.chunks_mut(TILE).zip(sums.chunks_mut(TILE));
        for (tile, (dots, sums)) in tiles.enumerate() {
            let start = first + tile * TILE;
            let count = sums.len();
            lanes.sums(
                grad.chunks_exact(width).map(|row| &row[start..]),
                |_| |g: T| g.into(),
                sums,
            );
            for (row, several) in Lanes::made(rows, count) {
                let made = &mut made[..several * count];
                for (r, made) in made.chunks_exact_mut(count).enumerate() {
                    let at = (row + r) * width + start;
                    let (grad, x) = (&grad[at..at + count], &x[at..at + count]);
                    let statistics = statistics[row + r];
                    for ((made, &g), &x) in made.iter_mut().zip(grad).zip(x) {
                        *made = g.into() * statistics.normal(x).into();
                    }
                }
                lanes.add_made(row, count, made);
            }
            lanes.finish_made(rows, dots);
        }
    }
}
