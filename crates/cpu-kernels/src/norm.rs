//! Batch, group, layer and root mean square normalisation.
//!
//! # Determinism
//!
//! `Portable`. Statistics run in f64 over the contract's fixed tree, in the logical order of their
//! elements, and are rounded to the element type once. Each function documents the operations on
//! single elements, with `h = fma(x, scale, −mean) · rstd`, with mean and
//! rstd those of the elements times `scale`: a power of two, 1 for ordinary numbers
//! ([`samebits_numerics::reduce::Normal`]).

mod columns;
mod gathered;
mod groups;
mod narrow;
mod rms;
mod rows;

use samebits_numerics::reduce::{self, Accumulator, BLOCK, LANES, Normal};
use samebits_numerics::simd::{self, Kernel};

use crate::error::{Result, expect_len, expect_size};
use crate::float::Float;
use crate::reduce::column_totals;
use crate::{memory, parallel};
use samebits_numerics::fpenv;

use gathered::{CHANNEL, FEW, GATHERED, gathered, gathered_few, plane};
pub use groups::{group_norm, group_norm_backward};
pub use rms::{rms_norm, rms_norm_backward};
pub use samebits_tensor_core::geometry::{Batch, Groups};

/// Checks the number of elements of a batch.
fn expect_batch(shape: Batch, what: &'static str, got: usize) -> Result<()> {
    expect_size(BATCH, what, got, &[shape.n, shape.channels, shape.spatial])
}

const BATCH: &str = "batch_norm";
const LAYER: &str = "layer_norm";

/// Statistics of a row times `scale`, rounded to the element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaled<T> {
    /// The mean of the scaled elements.
    pub mean: T,
    /// The reciprocal of their standard deviation.
    pub rstd: T,
    /// A power of two.
    pub scale: T,
}

impl<T: Float> Scaled<T> {
    /// A place for statistics.
    const NONE: Self = Scaled { mean: T::ZERO, rstd: T::ZERO, scale: T::ONE };

    fn of(normal: &Normal) -> Self {
        let [mean, rstd, scale] =
            [normal.mean, normal.rstd, normal.scale].map(|x| T::from_f64(x).canonical());
        Scaled { mean, rstd, scale }
    }

    #[inline(always)]
    fn normal(self, x: T) -> T {
        x.mul_add(self.scale, -self.mean) * self.rstd
    }
}

/// Computes the statistics of each channel, in f64; [`Normal::true_mean`] and its neighbours are those of its elements.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if `x` does not have the shape;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn batch_statistics<T: Float>(x: &[T], shape: Batch, eps: f64) -> Result<Vec<Normal>> {
    expect_batch(shape, "x", x.len())?;
    if shape.spatial == 1 {
        return fpenv::ieee(|| columns::statistics(x, shape.n, shape.channels, eps));
    }
    let work = x.len().saturating_add(shape.channels.saturating_mul(CHANNEL));
    parallel::try_each(BATCH, shape.channels, work, |channel| {
        let mut few = [T::ZERO; FEW];
        if let Some(x) = gathered_few(x, shape, channel, &mut few) {
            return Ok(simd::dispatch(RowStatistics { x, eps }));
        }
        if shape.n * shape.spatial <= GATHERED {
            let x = &gathered(BATCH, x, shape, channel)?[..];
            return Ok(simd::dispatch(RowStatistics { x, eps }));
        }
        Ok(simd::dispatch(ChannelStatistics { x, shape, channel, eps }))
    })
}

/// Rounds statistics to the element type, for [`batch_normalize`].
///
/// # Errors
///
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn scaled<T: Float>(statistics: &[Normal]) -> Result<Vec<Scaled<T>>> {
    fpenv::ieee(|| memory::collected(BATCH, statistics.iter().map(Scaled::of)))
}

/// Computes `out = fma(h, weight, bias)` per channel.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length.
pub fn batch_normalize<T: Float>(
    x: &[T],
    shape: Batch,
    statistics: &[Scaled<T>],
    weight: &[T],
    bias: &[T],
    out: &mut [T],
) -> Result<()> {
    expect_batch(shape, "x", x.len())?;
    expect_batch(shape, "out", out.len())?;
    expect_len(BATCH, "statistics", statistics.len(), shape.channels)?;
    for (what, slice) in [("weight", weight), ("bias", bias)] {
        expect_len(BATCH, what, slice.len(), shape.channels)?;
    }
    if shape.spatial == 1 {
        return columns::normalize(x, statistics, weight, bias, out);
    }
    parallel::rows(shape.spatial, out, |start, piece| {
        let first = start / shape.spatial;
        let x = &x[start..start + piece.len()];
        simd::dispatch_inside(Planes { x, out: piece, shape, first, statistics, weight, bias });
    });
    Ok(())
}

/// Computes [`batch_statistics`] and [`batch_normalize`]; also writes mean, biased variance and rstd of
/// the unscaled elements of each channel.
///
/// # Errors
///
/// As [`batch_statistics`].
pub fn batch_norm<T: Float>(
    x: &[T],
    shape: Batch,
    weight: &[T],
    bias: &[T],
    eps: f64,
    out: &mut [T],
    moments: [&mut [T]; 3],
) -> Result<()> {
    let Batch { n, channels, spatial } = shape;
    expect_batch(shape, "x", x.len())?;
    expect_batch(shape, "out", out.len())?;
    let parameters = [("weight", weight.len()), ("bias", bias.len())];
    let [mean, var, rstd] = moments;
    let moments = [("mean", mean.len()), ("var", var.len()), ("rstd", rstd.len())];
    for (what, length) in parameters.into_iter().chain(moments) {
        expect_len(BATCH, what, length, channels)?;
    }
    if spatial == 1 && !x.is_empty() {
        let moments = [mean, var, rstd];
        return fpenv::ieee(|| columns::batch_norm(x, n, [weight, bias], eps, out, moments));
    }
    if n != 1 || x.is_empty() {
        let statistics = batch_statistics(x, shape, eps)?;
        let all = mean.iter_mut().zip(var).zip(rstd).zip(&statistics);
        fpenv::ieee(|| all.for_each(|(((m, v), r), normal)| [*m, *v, *r] = moments_of(normal)));
        return batch_normalize(x, shape, &scaled(&statistics)?, weight, bias, out);
    }
    if rows::are_shared(channels, spatial) {
        let rows = x.chunks_exact(spatial).zip(out.chunks_exact_mut(spatial));
        for (c, (x, out)) in rows.enumerate() {
            let normal = rows::shared_statistics(BATCH, x, eps)?;
            [mean[c], var[c], rstd[c]] = fpenv::ieee(|| moments_of(&normal));
            let (normals, weight, bias) = (&[normal], &weight[c..=c], &bias[c..=c]);
            parallel::pieces(out, |start, out| {
                let x = &x[start..start + out.len()];
                simd::dispatch_inside(rows::Weighted { x, n: x.len(), normals, weight, bias, out });
            });
        }
        return Ok(());
    }
    let several = rows::of_task(channels, spatial);
    let [mean, var, rstd] = [mean, var, rstd].map(|all| parallel::chunks_mut(all, several));
    parallel::chunks_mut(out, several * spatial).zip(mean.zip(var).zip(rstd)).enumerate().for_each(
        |(number, (out, ((mean, var), rstd)))| {
            let first = number * several;
            let x = &x[first * spatial..][..out.len()];
            rows::with_statistics(x, spatial, eps, |row, x, normals| {
                for (i, normal) in (row..).zip(normals) {
                    [mean[i], var[i], rstd[i]] = moments_of(normal);
                }
                let out = &mut out[row * spatial..][..x.len()];
                let (weight, bias) = (&weight[first + row..], &bias[first + row..]);
                simd::dispatch_inside(rows::Weighted { x, n: spatial, normals, weight, bias, out });
            });
        },
    );
    Ok(())
}

/// Returns mean, biased variance and rstd of unscaled elements, rounded.
fn moments_of<T: Float>(normal: &Normal) -> [T; 3] {
    [normal.true_mean(), normal.true_variance(), normal.true_rstd()]
        .map(|x| T::from_f64(x).canonical())
}

/// Computes the gradients of batch normalisation with respect to input, weight and bias.
///
/// The bias gradient is `Σ g` and the weight gradient `Σ g · h` (the product in f64), each rounded once; the
/// input gradient is `fma(−h, Σgh / m, g − Σg / m) · (weight · rstd) · scale` with both quotients computed
/// in f64 and rounded once. The statistics are those of the unscaled elements; `eps` is that of the forward pass.
///
/// # Errors
///
/// As [`batch_statistics`].
pub fn batch_norm_backward<T: Float>(
    grad: &[T],
    x: &[T],
    shape: Batch,
    [mean, rstd]: [&[T]; 2],
    weight: &[T],
    eps: f64,
    grad_x: &mut [T],
) -> Result<(Vec<T>, Vec<T>)> {
    expect_batch(shape, "grad", grad.len())?;
    expect_batch(shape, "x", x.len())?;
    expect_batch(shape, "grad_x", grad_x.len())?;
    for (what, slice) in [("mean", mean), ("rstd", rstd), ("weight", weight)] {
        expect_len(BATCH, what, slice.len(), shape.channels)?;
    }
    let m = x.len().checked_div(shape.channels).unwrap_or(0) as f64;
    let known = |channel: usize| {
        let known = [mean[channel].into(), rstd[channel].into()];
        Scaled::of(&Normal::known(known, eps, shape.n * shape.spatial, T::WIDE, &|i| {
            plane(x, shape, i / shape.spatial, channel)[i % shape.spatial].into()
        }))
    };
    if shape.spatial == 1 {
        return fpenv::ieee(|| {
            let fields = columns::Fields::new(shape.channels, known)?;
            let [sums, dots] = columns::gradients(grad, x, shape.n, &fields)?;
            let means = |sums: &[f64]| {
                memory::collected(BATCH, sums.iter().map(|sum| T::from_f64(sum / m)))
            };
            let factors = weight.iter().zip(&fields.rstd).map(|(&weight, &rstd)| weight * rstd);
            let factors = memory::collected(BATCH, factors)?;
            let parts = [&means(&sums)?[..], &means(&dots)?, &factors];
            columns::input_gradient(grad, x, &fields, parts, grad_x);
            let [sums, dots] = [sums, dots].map(|sums| rounded(BATCH, sums.into_iter()));
            Ok((dots?, sums?))
        });
    }
    if shape.n == 1 && !x.is_empty() {
        return rows::gradients([grad, x], shape.spatial, &known, weight, grad_x);
    }
    let work = x.len().saturating_add(shape.channels.saturating_mul(CHANNEL));
    let sums = parallel::try_each(BATCH, shape.channels, work, |channel| {
        let statistics = known(channel);
        let [mut few, mut few_grads] = [[T::ZERO; FEW]; 2];
        if let Some(x) = gathered_few(x, shape, channel, &mut few)
            && let Some(grad) = gathered_few(grad, shape, channel, &mut few_grads)
        {
            return Ok((statistics, simd::dispatch(GatheredGradients { grad, x, statistics })));
        }
        if shape.n * shape.spatial <= GATHERED {
            let (grad, x) =
                (gathered(BATCH, grad, shape, channel)?, gathered(BATCH, x, shape, channel)?);
            let gradients = GatheredGradients { grad: &grad, x: &x, statistics };
            return Ok((statistics, simd::dispatch(gradients)));
        }
        let products = &mut memory::zeroed(BATCH, shape.spatial)?;
        let gradients = ChannelGradients { grad, x, shape, channel, statistics, products };
        Ok((statistics, simd::dispatch(gradients)))
    })?;
    parallel::rows(shape.spatial, grad_x, |start, out| {
        let (first, range) = (start / shape.spatial, start..start + out.len());
        let (grad, x, sums) = (&grad[range.clone()], &x[range], &sums[..]);
        simd::dispatch(InputGradients { grad, x, shape, first, sums, weight, m, out });
    });
    Ok((
        rounded(BATCH, sums.iter().map(|(_, sums)| sums[1]))?,
        rounded(BATCH, sums.iter().map(|(_, sums)| sums[0]))?,
    ))
}

/// Rounds each number to the element type.
fn rounded<T: Float>(op: &'static str, wide: impl ExactSizeIterator<Item = f64>) -> Result<Vec<T>> {
    fpenv::ieee(|| memory::collected(op, wide.map(|x| T::from_f64(x).canonical())))
}

/// Normalises each row: `out = fma(h, weight, bias)`. Also writes the mean and rstd of each unscaled
/// row.
///
/// # Errors
///
/// As [`batch_statistics`].
pub fn layer_norm<T: Float>(
    x: &[T],
    weight: &[T],
    bias: &[T],
    eps: f64,
    out: &mut [T],
    mean: &mut [T],
    rstd: &mut [T],
) -> Result<()> {
    let width = weight.len();
    expect_len(LAYER, "bias", bias.len(), width)?;
    expect_len(LAYER, "rstd", rstd.len(), mean.len())?;
    expect_size(LAYER, "x", x.len(), &[mean.len(), width])?;
    expect_len(LAYER, "out", out.len(), x.len())?;
    if width == 0 {
        let normal = simd::dispatch(RowStatistics { x, eps });
        let [m, _, r] = fpenv::ieee(|| moments_of(&normal));
        mean.fill(m);
        rstd.fill(r);
        return Ok(());
    }
    if rows::are_shared(mean.len(), width) {
        for (row, (out, x)) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate() {
            let normal = rows::shared_statistics(LAYER, x, eps)?;
            [mean[row], _, rstd[row]] = fpenv::ieee(|| moments_of(&normal));
            parallel::pieces(out, |start, out| {
                let columns = start..start + out.len();
                let (weight, bias) = (&weight[columns.clone()], &bias[columns.clone()]);
                simd::dispatch_inside(Rows {
                    x: &x[columns],
                    normals: &[normal],
                    weight,
                    bias,
                    out,
                });
            });
        }
        return Ok(());
    }
    // Normalises a row while it is still in a cache.
    let rows = rows::of_task(mean.len(), width);
    parallel::chunks_mut(out, rows * width)
        .zip(parallel::chunks_mut(mean, rows))
        .zip(parallel::chunks_mut(rstd, rows))
        .zip(parallel::chunks(x, rows * width))
        .for_each(|(((out, mean), rstd), x)| {
            rows::with_statistics(x, width, eps, |row, x, normals| {
                for (i, normal) in (row..).zip(normals) {
                    [mean[i], _, rstd[i]] = moments_of(normal);
                }
                let out = &mut out[row * width..][..x.len()];
                simd::dispatch_inside(Rows { x, normals, weight, bias, out });
            });
        });
    Ok(())
}

/// Computes the gradients of layer normalisation with respect to input, weight and bias.
///
/// As [`batch_norm_backward`], with two differences: the sums of a row run over `g · weight`
/// (rounded to the element type), and the weight and bias gradients are sums down the rows.
///
/// # Errors
///
/// As [`batch_statistics`].
pub fn layer_norm_backward<T: Float>(
    grad: &[T],
    x: &[T],
    weight: &[T],
    [mean, rstd]: [&[T]; 2],
    eps: f64,
    grad_x: &mut [T],
) -> Result<(Vec<T>, Vec<T>)> {
    let width = weight.len();
    expect_len(LAYER, "rstd", rstd.len(), mean.len())?;
    expect_size(LAYER, "x", x.len(), &[mean.len(), width])?;
    expect_len(LAYER, "grad", grad.len(), x.len())?;
    expect_len(LAYER, "grad_x", grad_x.len(), x.len())?;
    let zeros = || memory::filled(LAYER, width, T::ZERO);
    if x.is_empty() {
        return Ok((zeros()?, zeros()?));
    }
    if mean.len() <= LANES && x.len() > parallel::CHUNK {
        let known = mean.iter().zip(rstd).enumerate().map(|(row, (&mean, &rstd))| {
            let x = &x[row * width..][..width];
            let known = [mean.into(), rstd.into()];
            Scaled::of(&Normal::known(known, eps, width, T::WIDE, &|i| x[i].into()))
        });
        let statistics = fpenv::ieee(|| memory::collected(LAYER, known))?;
        return rows::few_rows_backward([grad, x], weight, &statistics, grad_x);
    }
    if width <= LANES {
        return narrow::layer_norm_backward([grad, x], weight, [mean, rstd], eps, grad_x);
    }
    // Rows that share a lane of the tree are processed together: the sums of their weight and bias
    // gradients stay in a cache, and so does each row while all its results are computed.
    let count = mean.len();
    let per_block = LANES.min(count);
    let lanes = reduce::blocks(count) * per_block;
    let mut rows = memory::with_capacity(LAYER, lanes)?;
    for _ in 0..lanes {
        let capacity = count.div_ceil(per_block).min(BLOCK / LANES);
        rows.push(memory::with_capacity(LAYER, capacity)?);
    }
    for (row, out) in grad_x.chunks_exact_mut(width).enumerate() {
        rows[row / BLOCK * per_block + row % LANES].push((row, out));
    }
    let mut sums = memory::zeroed(LAYER, memory::volume(LAYER, &[lanes, 2, width])?)?;
    let at_least = if x.len() <= parallel::CHUNK { lanes } else { 1 };
    parallel::chunks_mut(&mut sums, 2 * width)
        .zip(parallel::chunks_mut(&mut rows, 1))
        .at_least(at_least)
        .try_for_each_with(zeros, |scaled, (sums, rows)| {
            let (grad_weight, grad_bias) = sums.split_at_mut(width);
            for (row, out) in rows.iter_mut().flatten() {
                let range = *row * width..(*row + 1) * width;
                let x = &x[range.clone()];
                let known = [mean[*row].into(), rstd[*row].into()];
                let statistics = Normal::known(known, eps, width, T::WIDE, &|i| x[i].into());
                simd::dispatch_inside(RowGradient {
                    grad: &grad[range],
                    x,
                    weight,
                    statistics: Scaled::of(&statistics),
                    out,
                    grad_weight,
                    grad_bias,
                    scaled,
                });
            }
            Ok(())
        })?;
    let mut totals = memory::zeroed(LAYER, 2 * width)?;
    column_totals(LAYER, &sums, per_block, 2 * width, &mut totals)?;
    let (grad_weight, grad_bias) = totals.split_at(width);
    let rounded = |totals: &[f64]| rounded(LAYER, totals.iter().copied());
    Ok((rounded(grad_weight)?, rounded(grad_bias)?))
}

struct ChannelStatistics<'a, T> {
    x: &'a [T],
    shape: Batch,
    channel: usize,
    eps: f64,
}

impl<T: Float> Kernel for ChannelStatistics<'_, T> {
    type Output = Normal;
    #[inline(always)]
    fn run(self) -> Normal {
        let terms = self.shape.n * self.shape.spatial;
        let count = terms as f64;
        let mut sum = Accumulator::new();
        for n in 0..self.shape.n {
            sum.push_slice(plane(self.x, self.shape, n, self.channel), |x| x.into());
        }
        let mean = sum.finish() / count;
        let mut squares = Accumulator::new();
        for n in 0..self.shape.n {
            squares.push_slice(plane(self.x, self.shape, n, self.channel), |x| {
                let deviation = x.into() - mean;
                deviation * deviation
            });
        }
        Normal::new([mean, squares.finish() / count], self.eps, terms, T::WIDE, &|i| {
            let spatial = self.shape.spatial;
            plane(self.x, self.shape, i / spatial, self.channel)[i % spatial].into()
        })
    }
}

struct ChannelGradients<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    shape: Batch,
    channel: usize,
    statistics: Scaled<T>,
    /// Scratch memory for the products of a plane.
    products: &'a mut [f64],
}

impl<T: Float> Kernel for ChannelGradients<'_, T> {
    type Output = [f64; 2];
    #[inline(always)]
    fn run(self) -> [f64; 2] {
        let (mut sum, mut dot) = (Accumulator::new(), Accumulator::new());
        let products = self.products;
        for n in 0..self.shape.n {
            let grad = plane(self.grad, self.shape, n, self.channel);
            let x = plane(self.x, self.shape, n, self.channel);
            sum.push_slice(grad, |g| g.into());
            for ((product, &g), &x) in products.iter_mut().zip(grad).zip(x) {
                *product = g.into() * self.statistics.normal(x).into();
            }
            dot.push_slice(products, |product| product);
        }
        [sum.finish(), dot.finish()]
    }
}

/// The gradients of a channel whose elements lie side by side.
struct GatheredGradients<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    statistics: Scaled<T>,
}

impl<T: Float> Kernel for GatheredGradients<'_, T> {
    type Output = [f64; 2];
    #[inline(always)]
    fn run(self) -> [f64; 2] {
        let GatheredGradients { grad, x, statistics } = self;
        let dot = reduce::dot_of(grad, x, |g, x| g.into() * statistics.normal(x).into());
        [reduce::sum_of(grad, |g| g.into()), dot]
    }
}

/// Normalises consecutive planes, from plane `first` on.
struct Planes<'a, T> {
    x: &'a [T],
    out: &'a mut [T],
    shape: Batch,
    first: usize,
    statistics: &'a [Scaled<T>],
    weight: &'a [T],
    bias: &'a [T],
}

impl<T: Float> Kernel for Planes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Planes { x, out, shape: Batch { channels, spatial, .. }, first, .. } = self;
        let planes = x.chunks_exact(spatial).zip(out.chunks_exact_mut(spatial));
        for (plane, (x, out)) in planes.enumerate() {
            let c = (first + plane) % channels;
            let (statistics, weight, bias) = (self.statistics[c], self.weight[c], self.bias[c]);
            for (out, &x) in out.iter_mut().zip(x) {
                *out = statistics.normal(x).mul_add(weight, bias).canonical();
            }
        }
    }
}

/// Computes the input gradients of consecutive planes, from plane `first` on.
struct InputGradients<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    shape: Batch,
    first: usize,
    sums: &'a [(Scaled<T>, [f64; 2])],
    weight: &'a [T],
    m: f64,
    out: &'a mut [T],
}

impl<T: Float> Kernel for InputGradients<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Batch { channels, spatial, .. } = self.shape;
        let inputs = self.grad.chunks_exact(spatial).zip(self.x.chunks_exact(spatial));
        let planes = inputs.zip(self.out.chunks_exact_mut(spatial));
        for (plane, ((grad, x), out)) in planes.enumerate() {
            let c = (self.first + plane) % channels;
            let (statistics, [sum, dot]) = self.sums[c];
            let (mean_grad, mean_dot) = (T::from_f64(sum / self.m), T::from_f64(dot / self.m));
            let factor = self.weight[c] * statistics.rstd;
            InputGradient { grad, x, statistics, mean_grad, mean_dot, factor, out }.run();
        }
    }
}

struct RowStatistics<'a, T> {
    x: &'a [T],
    eps: f64,
}

impl<T: Float> Kernel for RowStatistics<'_, T> {
    type Output = Normal;
    #[inline(always)]
    fn run(self) -> Normal {
        let RowStatistics { x, eps } = self;
        let moments = reduce::mean_var(x);
        let moments = [moments.mean, moments.variance(0.0)];
        Normal::new(moments, eps, x.len(), T::WIDE, &|i| x[i].into())
    }
}

/// Rows with one weight and one bias for each column.
struct Rows<'a, T> {
    x: &'a [T],
    normals: &'a [Normal],
    weight: &'a [T],
    bias: &'a [T],
    out: &'a mut [T],
}

impl<T: Float> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { x, normals, weight, bias, out } = self;
        let width = weight.len();
        let rows = x.chunks_exact(width).zip(out.chunks_exact_mut(width));
        for ((x, out), normal) in rows.zip(normals) {
            let statistics = Scaled::of(normal);
            let parameters = weight.iter().zip(bias);
            for ((out, &x), (&weight, &bias)) in out.iter_mut().zip(x).zip(parameters) {
                *out = statistics.normal(x).mul_add(weight, bias).canonical();
            }
        }
    }
}

struct RowGradient<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    weight: &'a [T],
    statistics: Scaled<T>,
    out: &'a mut [T],
    /// The lane's sums of `g · h` and of `g` so far.
    grad_weight: &'a mut [f64],
    grad_bias: &'a mut [f64],
    /// Scratch memory for a row.
    scaled: &'a mut [T],
}

impl<T: Float> Kernel for RowGradient<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let width = self.x.len();
        let normal = |x: T| self.statistics.normal(x);
        let (grad, weight, scaled) =
            (&self.grad[..width], &self.weight[..width], &mut self.scaled[..width]);
        let (grad_weight, grad_bias) =
            (&mut self.grad_weight[..width], &mut self.grad_bias[..width]);
        for i in 0..width {
            scaled[i] = grad[i] * weight[i];
            let wide: f64 = grad[i].into();
            grad_weight[i] += wide * normal(self.x[i]).into();
            grad_bias[i] += wide;
        }
        let sum = reduce::sum_of(scaled, |x| x.into());
        let dot = reduce::dot_of(scaled, self.x, |g, x| g.into() * normal(x).into());
        InputGradient {
            grad: scaled,
            x: self.x,
            statistics: self.statistics,
            mean_grad: T::from_f64(sum / width as f64),
            mean_dot: T::from_f64(dot / width as f64),
            factor: self.statistics.rstd,
            out: self.out,
        }
        .run();
    }
}

/// Returns the gradient of an element from its weighted gradient, its normalised value, the means of the
/// weighted gradients and of their products with the normalised values, and the factors of the result.
#[inline(always)]
fn element_gradient<T: Float>(
    grad: T,
    normal: T,
    [mean_grad, mean_dot]: [T; 2],
    [factor, scale]: [T; 2],
) -> T {
    let centred = (-normal).mul_add(mean_dot, grad - mean_grad);
    (centred * factor * scale).canonical()
}

struct InputGradient<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    statistics: Scaled<T>,
    mean_grad: T,
    mean_dot: T,
    factor: T,
    out: &'a mut [T],
}

impl<T: Float> Kernel for InputGradient<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for ((out, &grad), &x) in self.out.iter_mut().zip(self.grad).zip(self.x) {
            let statistics = self.statistics;
            let means = [self.mean_grad, self.mean_dot];
            let factors = [self.factor, statistics.scale];
            *out = element_gradient(grad, statistics.normal(x), means, factors);
        }
    }
}
