//! Batch normalisation of rows without spatial dimensions: channels side by side.

use samebits_numerics::reduce::{BLOCK, Lanes, Normal};
use samebits_numerics::simd::{self, Kernel};

use super::{BATCH, Scaled, element_gradient, moments_of};
use crate::error::Result;
use crate::float::Float;
use crate::memory;
use crate::parallel;
use crate::reduce::columns::{sums_of, tiles};

/// Computes the statistics of each of `channels` columns of `n` rows.
pub(super) fn statistics<T: Float>(
    x: &[T],
    n: usize,
    channels: usize,
    eps: f64,
) -> Result<Vec<Normal>> {
    let count = n as f64;
    let [means, squares] = sums(x, n, channels)?;
    let columns = means.iter().zip(&squares).enumerate();
    memory::collected(
        BATCH,
        columns.map(|(column, (&mean, &squares))| {
            let at = |i: usize| x[i * channels + column].into();
            Normal::new([mean, squares / count], eps, n, T::WIDE, &at)
        }),
    )
}

/// Returns the mean of each column, and the sum of its squared deviations from that.
fn sums<T: Float>(x: &[T], n: usize, channels: usize) -> Result<[Vec<f64>; 2]> {
    let mut means = memory::zeroed(BATCH, channels)?;
    sums_of(BATCH, n, &mut means, |column, block, out| {
        simd::dispatch(ColumnSums { x, channels, column, block, out });
    })?;
    means.iter_mut().for_each(|mean| *mean /= n as f64);
    let mut squares = memory::zeroed(BATCH, channels)?;
    sums_of(BATCH, n, &mut squares, |column, block, out| {
        let means = &means[column..][..out.len()];
        simd::dispatch(ColumnSquares { x, channels, means, column, block, out });
    })?;
    Ok([means, squares])
}

/// Computes [`batch_norm`](super::batch_norm) without spatial dimensions.
pub(super) fn batch_norm<T: Float>(
    x: &[T],
    n: usize,
    [weight, bias]: [&[T]; 2],
    eps: f64,
    out: &mut [T],
    moments: [&mut [T]; 3],
) -> Result<()> {
    let channels = weight.len();
    let [means, mut squares] = sums(x, n, channels)?;
    let (squares, mut fields) = (&mut squares[..], Fields::zeros(channels)?);
    let [mean, var, rstd] = moments;
    let moments = [&mut *mean, &mut *var, &mut *rstd];
    let (means, fields_of) = (&means[..], &mut fields);
    if !simd::dispatch(Finish { means, squares, n, eps, fields: fields_of, moments }) {
        for c in 0..channels {
            let at = |i: usize| x[i * channels + c].into();
            let normal = Normal::new([means[c], squares[c]], eps, n, T::WIDE, &at);
            [mean[c], var[c], rstd[c]] = moments_of(&normal);
            fields.set(c, Scaled::of(&normal));
        }
    }
    normalize_by(x, &fields, weight, bias, out);
    Ok(())
}

/// Turns sums of squares into variances, and takes the statistics of each column. Returns false if any is not
/// [ordinary](Normal::is_ordinary), and then they have no meaning.
struct Finish<'a, T> {
    means: &'a [f64],
    squares: &'a mut [f64],
    n: usize,
    eps: f64,
    fields: &'a mut Fields<T>,
    /// Mean, variance and rstd.
    moments: [&'a mut [T]; 3],
}

impl<T: Float> Kernel for Finish<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let Finish { means, squares, n, eps, fields, moments } = self;
        let (count, channels) = (n as f64, means.len());
        let squares = &mut squares[..channels];
        let [mean, var, rstd] = moments.map(|moments| &mut moments[..channels]);
        let (means_of, rstds_of) = (&mut fields.mean[..channels], &mut fields.rstd[..channels]);
        fields.scale.fill(T::ONE);
        let mut ordinary = true;
        for c in 0..channels {
            let variance = squares[c] / count;
            let root = 1.0 / (variance + eps).sqrt();
            ordinary &= Normal::is_ordinary(root, T::WIDE);
            squares[c] = variance;
            mean[c] = T::from_f64(means[c]);
            var[c] = T::from_f64(variance);
            rstd[c] = T::from_f64(root);
            (means_of[c], rstds_of[c]) = (mean[c], rstd[c]);
        }
        ordinary
    }
}

/// Sums down some columns of a block, from column `column` on.
struct ColumnSums<'a, T> {
    x: &'a [T],
    channels: usize,
    column: usize,
    block: usize,
    out: &'a mut [f64],
}

impl<T: Float> Kernel for ColumnSums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ColumnSums { x, channels, column, block, out } = self;
        let x = block_of(x, channels, block);
        let mut lanes = Lanes::new();
        for (first, count) in tiles(out.len()) {
            let start = column + first;
            let rows = x.chunks_exact(channels).map(|row| &row[start..]);
            lanes.sums(rows, |_| |x: T| x.into(), &mut out[first..first + count]);
        }
    }
}

/// Sums the squared deviations from the means down some columns of a block, from column `column` on.
struct ColumnSquares<'a, T> {
    x: &'a [T],
    channels: usize,
    means: &'a [f64],
    column: usize,
    block: usize,
    out: &'a mut [f64],
}

impl<T: Float> Kernel for ColumnSquares<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ColumnSquares { x, channels, means, column, block, out } = self;
        let x = block_of(x, channels, block);
        let rows = x.len() / channels;
        let mut lanes = Lanes::new();
        let mut made = [0.0; Lanes::MADE];
        for (first, count) in tiles(out.len()) {
            let means = &means[first..first + count];
            for (row, several) in Lanes::made(rows, count) {
                let made = &mut made[..several * count];
                for (r, made) in made.chunks_exact_mut(count).enumerate() {
                    let x = &x[(row + r) * channels + column + first..][..count];
                    for c in 0..count {
                        let deviation = x[c].into() - means[c];
                        made[c] = deviation * deviation;
                    }
                }
                lanes.add_made(row, count, made);
            }
            lanes.finish_made(rows, &mut out[first..first + count]);
        }
    }
}

/// Returns the rows of a block of terms.
#[inline(always)]
fn block_of<T>(x: &[T], channels: usize, block: usize) -> &[T] {
    let x = &x[block * BLOCK * channels..];
    &x[..x.len().min(BLOCK * channels)]
}

/// Statistics of channels by field, so that those of neighbouring channels fill vectors.
pub(super) struct Fields<T> {
    mean: Vec<T>,
    pub(super) rstd: Vec<T>,
    scale: Vec<T>,
}

impl<T: Float> Fields<T> {
    fn zeros(channels: usize) -> Result<Fields<T>> {
        let zeros = || memory::filled(BATCH, channels, T::ZERO);
        Ok(Fields { mean: zeros()?, rstd: zeros()?, scale: zeros()? })
    }

    /// Takes the statistics of `channels` channels.
    pub(super) fn new(channels: usize, of: impl Fn(usize) -> Scaled<T>) -> Result<Fields<T>> {
        let mut fields = Fields::zeros(channels)?;
        for channel in 0..channels {
            fields.set(channel, of(channel));
        }
        Ok(fields)
    }

    fn set(&mut self, channel: usize, Scaled { mean, rstd, scale }: Scaled<T>) {
        (self.mean[channel], self.rstd[channel], self.scale[channel]) = (mean, rstd, scale);
    }
}

/// Computes [`batch_normalize`](super::batch_normalize) without spatial dimensions.
pub(super) fn normalize<T: Float>(
    x: &[T],
    statistics: &[Scaled<T>],
    weight: &[T],
    bias: &[T],
    out: &mut [T],
) -> Result<()> {
    let fields = Fields::new(statistics.len(), |channel| statistics[channel])?;
    normalize_by(x, &fields, weight, bias, out);
    Ok(())
}

fn normalize_by<T: Float>(x: &[T], fields: &Fields<T>, weight: &[T], bias: &[T], out: &mut [T]) {
    parallel::rows(weight.len(), out, |start, out| {
        let x = &x[start..][..out.len()];
        simd::dispatch(Normalize { x, fields, weight, bias, out });
    });
}

struct Normalize<'a, T> {
    x: &'a [T],
    fields: &'a Fields<T>,
    weight: &'a [T],
    bias: &'a [T],
    out: &'a mut [T],
}

impl<T: Float> Kernel for Normalize<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Normalize { x, fields, weight, bias, out } = self;
        let n = weight.len();
        let (mean, rstd, scale) = (&fields.mean[..n], &fields.rstd[..n], &fields.scale[..n]);
        let bias = &bias[..n];
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            for c in 0..n {
                let normal = Scaled { mean: mean[c], rstd: rstd[c], scale: scale[c] }.normal(x[c]);
                out[c] = normal.mul_add(weight[c], bias[c]).canonical();
            }
        }
    }
}

/// Computes the sums of the gradients of each column, and of their products with the normalised
/// elements.
pub(super) fn gradients<T: Float>(
    grad: &[T],
    x: &[T],
    n: usize,
    fields: &Fields<T>,
) -> Result<[Vec<f64>; 2]> {
    let channels = fields.mean.len();
    let mut sums = memory::zeroed(BATCH, channels)?;
    sums_of(BATCH, n, &mut sums, |column, block, out| {
        simd::dispatch(ColumnSums { x: grad, channels, column, block, out });
    })?;
    let mut dots = memory::zeroed(BATCH, channels)?;
    sums_of(BATCH, n, &mut dots, |column, block, out| {
        simd::dispatch(ColumnDots { grad, x, fields, column, block, out });
    })?;
    Ok([sums, dots])
}

struct ColumnDots<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    fields: &'a Fields<T>,
    column: usize,
    block: usize,
    out: &'a mut [f64],
}

impl<T: Float> Kernel for ColumnDots<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ColumnDots { grad, x, fields, column, block, out } = self;
        let channels = fields.mean.len();
        let (grad, x) = (block_of(grad, channels, block), block_of(x, channels, block));
        let mut lanes = Lanes::new();
        let mut made = [0.0; Lanes::MADE];
        for (first, count) in tiles(out.len()) {
            let start = column + first;
            let [mean, rstd, scale] = [&fields.mean, &fields.rstd, &fields.scale]
                .map(|field| &field[start..start + count]);
            let rows = x.len() / channels;
            for (row, several) in Lanes::made(rows, count) {
                let made = &mut made[..several * count];
                for (r, made) in made.chunks_exact_mut(count).enumerate() {
                    let at = (row + r) * channels + start;
                    let (grad, x) = (&grad[at..at + count], &x[at..at + count]);
                    for c in 0..count {
                        let statistics = Scaled { mean: mean[c], rstd: rstd[c], scale: scale[c] };
                        made[c] = grad[c].into() * statistics.normal(x[c]).into();
                    }
                }
                lanes.add_made(row, count, made);
            }
            lanes.finish_made(rows, &mut out[first..first + count]);
        }
    }
}

/// Computes the gradient of the input from the means of [`gradients`] and the factor of each
/// channel.
pub(super) fn input_gradient<T: Float>(
    grad: &[T],
    x: &[T],
    fields: &Fields<T>,
    [mean_grad, mean_dot, factor]: [&[T]; 3],
    out: &mut [T],
) {
    parallel::rows(factor.len(), out, |start, out| {
        let range = start..start + out.len();
        let (grad, x) = (&grad[range.clone()], &x[range]);
        simd::dispatch(InputGradient { grad, x, fields, mean_grad, mean_dot, factor, out });
    });
}

struct InputGradient<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    fields: &'a Fields<T>,
    mean_grad: &'a [T],
    mean_dot: &'a [T],
    factor: &'a [T],
    out: &'a mut [T],
}

impl<T: Float> Kernel for InputGradient<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let InputGradient { grad, x, fields, mean_grad, mean_dot, factor, out } = self;
        let n = factor.len();
        let (mean, rstd, scale) = (&fields.mean[..n], &fields.rstd[..n], &fields.scale[..n]);
        let (mean_grad, mean_dot) = (&mean_grad[..n], &mean_dot[..n]);
        let rows = grad.chunks_exact(n).zip(x.chunks_exact(n));
        for (out, (grad, x)) in out.chunks_exact_mut(n).zip(rows) {
            for c in 0..n {
                let normal = Scaled { mean: mean[c], rstd: rstd[c], scale: scale[c] }.normal(x[c]);
                let means = [mean_grad[c], mean_dot[c]];
                out[c] = element_gradient(grad[c], normal, means, [factor[c], scale[c]]);
            }
        }
    }
}
