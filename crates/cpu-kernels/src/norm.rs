//! Batch and layer normalisation.
//!
//! # Determinism
//!
//! `Portable`. Statistics run in f64 over the contract's fixed tree, in the logical order of the
//! elements they are taken over, and are rounded to the element type once; what is done to each
//! element afterwards is written at each function.

use samebits_numerics::reduce::{self, Accumulator};
use samebits_numerics::simd::{self, Kernel};

use crate::float::Float;
use crate::parallel;

/// The shape `[n, channels, spatial]` of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Samples.
    pub n: usize,
    /// Channels.
    pub channels: usize,
    /// Elements per sample and channel.
    pub spatial: usize,
}

/// Mean, biased variance and `1 / sqrt(variance + eps)` of each channel, in f64.
pub fn batch_statistics<T: Float>(x: &[T], shape: Batch, eps: f64) -> Vec<[f64; 3]> {
    parallel::each(shape.channels, x.len(), |channel| {
        simd::dispatch(ChannelStatistics { x, shape, channel, eps })
    })
}

/// `out = fma((x − mean) · rstd, weight, bias)` per channel.
pub fn batch_normalize<T: Float>(
    x: &[T],
    shape: Batch,
    mean: &[T],
    rstd: &[T],
    weight: &[T],
    bias: &[T],
    out: &mut [T],
) {
    parallel::rows(shape.spatial, out, |start, piece| {
        let first = start / shape.spatial;
        let x = &x[start..start + piece.len()];
        let planes = x.chunks_exact(shape.spatial).zip(piece.chunks_exact_mut(shape.spatial));
        for (plane, (x, out)) in planes.enumerate() {
            let c = (first + plane) % shape.channels;
            let shift =
                Normalize { mean: mean[c], rstd: rstd[c], weight: weight[c], bias: bias[c] };
            simd::dispatch(Plane { x, out, shift });
        }
    });
}

/// The gradients of batch normalisation with respect to input, weight and bias.
///
/// With `h = (x − mean) · rstd`: the bias gradient is `Σ g` and the weight gradient `Σ g · h` (the
/// product in f64), each rounded once; the input gradient is `fma(−h, Σgh / m, g − Σg / m) · (weight ·
/// rstd)` with both quotients taken in f64 and rounded once.
pub fn batch_norm_backward<T: Float>(
    grad: &[T],
    x: &[T],
    shape: Batch,
    mean: &[T],
    rstd: &[T],
    weight: &[T],
    grad_x: &mut [T],
) -> (Vec<T>, Vec<T>) {
    let sums = parallel::each(shape.channels, x.len(), |channel| {
        simd::dispatch(ChannelGradients {
            grad,
            x,
            shape,
            channel,
            mean: mean[channel],
            rstd: rstd[channel],
        })
    });
    let m = (shape.n * shape.spatial) as f64;
    parallel::rows(shape.spatial, grad_x, |start, piece| {
        let first = start / shape.spatial;
        let range = start..start + piece.len();
        let inputs = grad[range.clone()]
            .chunks_exact(shape.spatial)
            .zip(x[range].chunks_exact(shape.spatial));
        for (plane, ((grad, x), out)) in
            inputs.zip(piece.chunks_exact_mut(shape.spatial)).enumerate()
        {
            let c = (first + plane) % shape.channels;
            let [sum, dot] = sums[c];
            simd::dispatch(InputGradient {
                grad,
                x,
                mean: mean[c],
                rstd: rstd[c],
                mean_grad: T::from_f64(sum / m),
                mean_dot: T::from_f64(dot / m),
                scale: weight[c] * rstd[c],
                out,
            });
        }
    });
    let weights = sums.iter().map(|&[_, dot]| T::from_f64(dot).canonical()).collect();
    let biases = sums.iter().map(|&[sum, _]| T::from_f64(sum).canonical()).collect();
    (weights, biases)
}

/// Layer normalisation of each row: `out = fma((x − mean) · rstd, weight, bias)`. Fills in the
/// mean and rstd of each row.
pub fn layer_norm<T: Float>(
    x: &[T],
    weight: &[T],
    bias: &[T],
    eps: f64,
    out: &mut [T],
    mean: &mut [T],
    rstd: &mut [T],
) {
    let width = weight.len();
    let statistics = parallel::each(mean.len(), x.len(), |row| {
        let [mean, _, rstd] =
            simd::dispatch(RowStatistics { x: &x[row * width..(row + 1) * width], eps });
        (T::from_f64(mean).canonical(), T::from_f64(rstd).canonical())
    });
    for (row, &(m, r)) in statistics.iter().enumerate() {
        (mean[row], rstd[row]) = (m, r);
    }
    parallel::rows(width, out, |start, piece| {
        for (i, out) in piece.chunks_exact_mut(width).enumerate() {
            let (mean, rstd) = statistics[start / width + i];
            let x = &x[start + i * width..][..width];
            simd::dispatch(Row { x, mean, rstd, weight, bias, out });
        }
    });
}

/// The gradients of layer normalisation with respect to input, weight and bias.
///
/// As [`batch_norm_backward`], with the row's sums taken over `g · weight` (rounded to the element
/// type), and the weight and bias gradients summed down the rows.
pub fn layer_norm_backward<T: Float>(
    grad: &[T],
    x: &[T],
    weight: &[T],
    mean: &[T],
    rstd: &[T],
    grad_x: &mut [T],
) -> (Vec<T>, Vec<T>) {
    let width = weight.len();
    parallel::rows(width, grad_x, |start, piece| {
        for (i, out) in piece.chunks_exact_mut(width).enumerate() {
            let row = start / width + i;
            let range = row * width..(row + 1) * width;
            let (grad, x) = (&grad[range.clone()], &x[range]);
            simd::dispatch(RowGradient { grad, x, weight, mean: mean[row], rstd: rstd[row], out });
        }
    });
    let (rows, tiles) = (mean.len(), width.div_ceil(TILE));
    let blocks = reduce::blocks(rows);
    let partials = parallel::each(blocks * tiles, x.len(), |piece| {
        let (block, first) = (piece / tiles, piece % tiles * TILE);
        let rows = block * reduce::BLOCK..((block + 1) * reduce::BLOCK).min(rows);
        simd::dispatch(ColumnGradients { grad, x, width, rows, first, mean, rstd })
    });
    let total = |of: usize| -> Vec<T> {
        let by_block: Vec<f64> = partials
            .chunks(tiles)
            .flat_map(|block| block.iter().flat_map(|sums| sums[of].iter().copied()))
            .collect();
        // The last tile can be wider than what is left of a row.
        let mut sums = vec![0.0; tiles * TILE];
        reduce::combine_columns(&by_block, tiles * TILE, &mut sums);
        sums[..width].iter().map(|&sum| T::from_f64(sum).canonical()).collect()
    };
    (total(0), total(1))
}

/// Columns that are summed together: a cache line of f32 from each row.
const TILE: usize = 16;

/// The sums of `g · h` and of `g` over one block of rows, for a tile of columns.
struct ColumnGradients<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    width: usize,
    rows: std::ops::Range<usize>,
    first: usize,
    mean: &'a [T],
    rstd: &'a [T],
}

impl<T: Float> Kernel for ColumnGradients<'_, T> {
    type Output = [[f64; TILE]; 2];
    #[inline(always)]
    fn run(self) -> [[f64; TILE]; 2] {
        let count = TILE.min(self.width - self.first);
        let mut products = vec![0.0f64; self.rows.len() * TILE];
        let mut grads = vec![0.0f64; self.rows.len() * TILE];
        let tiles = products.chunks_exact_mut(TILE).zip(grads.chunks_exact_mut(TILE));
        for (row, (products, grads)) in self.rows.zip(tiles) {
            let start = row * self.width + self.first;
            let (mean, rstd) = (self.mean[row], self.rstd[row]);
            let pairs = self.grad[start..][..count].iter().zip(&self.x[start..][..count]);
            for ((product, wide), (&grad, &x)) in products.iter_mut().zip(grads).zip(pairs) {
                let normal = (x - mean) * rstd;
                *wide = grad.into();
                *product = *wide * normal.into();
            }
        }
        let mut sums = [[0.0; TILE]; 2];
        reduce::column_partials(&products, TILE, 0, |x| x, &mut sums[0]);
        reduce::column_partials(&grads, TILE, 0, |x| x, &mut sums[1]);
        sums
    }
}

struct ChannelStatistics<'a, T> {
    x: &'a [T],
    shape: Batch,
    channel: usize,
    eps: f64,
}

impl<T: Float> Kernel for ChannelStatistics<'_, T> {
    type Output = [f64; 3];
    #[inline(always)]
    fn run(self) -> [f64; 3] {
        let count = (self.shape.n * self.shape.spatial) as f64;
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
        let variance = squares.finish() / count;
        [mean, variance, 1.0 / (variance + self.eps).sqrt()]
    }
}

struct ChannelGradients<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    shape: Batch,
    channel: usize,
    mean: T,
    rstd: T,
}

impl<T: Float> Kernel for ChannelGradients<'_, T> {
    type Output = [f64; 2];
    #[inline(always)]
    fn run(self) -> [f64; 2] {
        let (mut sum, mut dot) = (Accumulator::new(), Accumulator::new());
        let mut products = vec![0.0f64; self.shape.spatial];
        for n in 0..self.shape.n {
            let grad = plane(self.grad, self.shape, n, self.channel);
            let x = plane(self.x, self.shape, n, self.channel);
            sum.push_slice(grad, |g| g.into());
            for ((product, &g), &x) in products.iter_mut().zip(grad).zip(x) {
                let normal = (x - self.mean) * self.rstd;
                *product = g.into() * normal.into();
            }
            dot.push_slice(&products, |product| product);
        }
        [sum.finish(), dot.finish()]
    }
}

/// Sample `n` of one channel.
#[inline(always)]
fn plane<T>(x: &[T], shape: Batch, n: usize, channel: usize) -> &[T] {
    &x[(n * shape.channels + channel) * shape.spatial..][..shape.spatial]
}

struct Normalize<T> {
    mean: T,
    rstd: T,
    weight: T,
    bias: T,
}

struct Plane<'a, T> {
    x: &'a [T],
    out: &'a mut [T],
    shift: Normalize<T>,
}

impl<T: Float> Kernel for Plane<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Normalize { mean, rstd, weight, bias } = self.shift;
        for (out, &x) in self.out.iter_mut().zip(self.x) {
            *out = ((x - mean) * rstd).mul_add(weight, bias).canonical();
        }
    }
}

struct RowStatistics<'a, T> {
    x: &'a [T],
    eps: f64,
}

impl<T: Float> Kernel for RowStatistics<'_, T> {
    type Output = [f64; 3];
    #[inline(always)]
    fn run(self) -> [f64; 3] {
        let moments = reduce::mean_var(self.x);
        let variance = moments.variance(0.0);
        [moments.mean, variance, 1.0 / (variance + self.eps).sqrt()]
    }
}

struct Row<'a, T> {
    x: &'a [T],
    mean: T,
    rstd: T,
    weight: &'a [T],
    bias: &'a [T],
    out: &'a mut [T],
}

impl<T: Float> Kernel for Row<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let parameters = self.weight.iter().zip(self.bias);
        for ((out, &x), (&weight, &bias)) in self.out.iter_mut().zip(self.x).zip(parameters) {
            *out = ((x - self.mean) * self.rstd).mul_add(weight, bias).canonical();
        }
    }
}

struct RowGradient<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    weight: &'a [T],
    mean: T,
    rstd: T,
    out: &'a mut [T],
}

impl<T: Float> Kernel for RowGradient<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let width = self.x.len();
        let mut scaled = vec![T::ZERO; width];
        let mut products = vec![0.0f64; width];
        for i in 0..width {
            scaled[i] = self.grad[i] * self.weight[i];
            let normal = (self.x[i] - self.mean) * self.rstd;
            products[i] = scaled[i].into() * normal.into();
        }
        let sum = reduce::sum_of(&scaled, |x| x.into());
        let dot = reduce::sum_of(&products, |x| x);
        InputGradient {
            grad: &scaled,
            x: self.x,
            mean: self.mean,
            rstd: self.rstd,
            mean_grad: T::from_f64(sum / width as f64),
            mean_dot: T::from_f64(dot / width as f64),
            scale: self.rstd,
            out: self.out,
        }
        .run();
    }
}

struct InputGradient<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    mean: T,
    rstd: T,
    mean_grad: T,
    mean_dot: T,
    scale: T,
    out: &'a mut [T],
}

impl<T: Float> Kernel for InputGradient<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for ((out, &grad), &x) in self.out.iter_mut().zip(self.grad).zip(self.x) {
            let normal = (x - self.mean) * self.rstd;
            let centred = (-normal).mul_add(self.mean_dot, grad - self.mean_grad);
            *out = (centred * self.scale).canonical();
        }
    }
}
