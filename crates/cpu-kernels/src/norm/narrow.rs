//! Gradients of layer normalisation of many narrow rows.

use samebits_numerics::reduce::{self, BLOCK, LANES, Normal, combine_columns};
use samebits_numerics::simd::{self, Aligned, Kernel};

use super::{LAYER, Scaled, element_gradient, rounded};
use crate::error::Result;
use crate::float::Float;
use crate::reduce::sums_of_rows;
use crate::{memory, parallel};

/// The number of elements of the widest group of rows.
const GROUP: usize = LANES * LANES;

/// Computes [`layer_norm_backward`](super::layer_norm_backward) of rows of at most [`LANES`] elements.
pub(super) fn layer_norm_backward<T: Float>(
    [grad, x]: [&[T]; 2],
    weight: &[T],
    [mean, rstd]: [&[T]; 2],
    eps: f64,
    grad_x: &mut [T],
) -> Result<(Vec<T>, Vec<T>)> {
    let width = weight.len();
    let blocks = reduce::blocks(mean.len());
    let mut partials = memory::zeroed(LAYER, memory::volume(LAYER, &[blocks, 2, width])?)?;
    parallel::chunks_mut(grad_x, BLOCK * width)
        .zip(parallel::chunks_mut(&mut partials, 2 * width))
        .zip(parallel::chunks(mean, BLOCK).zip(parallel::chunks(rstd, BLOCK)))
        .enumerate()
        .for_each(|(block, ((out, partials), (mean, rstd)))| {
            let range = block * BLOCK * width..block * BLOCK * width + out.len();
            let (grad, x) = (&grad[range.clone()], &x[range]);
            simd::dispatch(BlockOfRows { grad, x, weight, mean, rstd, eps, out, partials });
        });
    let mut totals = memory::zeroed(LAYER, 2 * width)?;
    combine_columns(&partials, 2 * width, &mut totals);
    let (grad_weight, grad_bias) = totals.split_at(width);
    let rounded = |totals: &[f64]| rounded(LAYER, totals.iter().copied());
    Ok((rounded(grad_weight)?, rounded(grad_bias)?))
}

/// The gradients of a block of the tree down the rows.
struct BlockOfRows<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    weight: &'a [T],
    mean: &'a [T],
    rstd: &'a [T],
    eps: f64,
    out: &'a mut [T],
    /// The sums of `g · h` and of `g` of each column.
    partials: &'a mut [f64],
}

impl<T: Float> Kernel for BlockOfRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let BlockOfRows { grad, x, weight, mean, rstd, eps, out, partials } = self;
        let width = weight.len();
        let m = width as f64;
        let mut weights = Aligned([T::ZERO; GROUP]);
        spread(&mut weights[..LANES * width], LANES, |_, out| out.copy_from_slice(weight));
        let mut known = [Scaled::NONE; LANES];
        let [mut normals, mut factors, mut scales] = [Aligned([T::ZERO; GROUP]); 3];
        let [mut scaled, mut mean_grads, mut mean_dots] = [Aligned([T::ZERO; GROUP]); 3];
        let mut products = Aligned([0.0f64; GROUP]);
        let [mut of_grad, mut of_products] = [Aligned([0.0f64; LANES]); 2];
        // A row of each lane side by side: the elements of a group add to as many sums.
        let [mut all_dots, mut all_sums] = [Aligned([0.0f64; GROUP]); 2];
        let groups = grad.chunks(LANES * width).zip(x.chunks(LANES * width));
        let statistics = mean.chunks(LANES).zip(rstd.chunks(LANES));
        for ((out, (grad, x)), (mean, rstd)) in
            out.chunks_mut(LANES * width).zip(groups).zip(statistics)
        {
            let (count, rows) = (grad.len(), mean.len());
            for (row, known) in known[..rows].iter_mut().enumerate() {
                let moments = [mean[row].into(), rstd[row].into()];
                let x = |i: usize| x[row * width + i].into();
                *known = Scaled::of(&Normal::known(moments, eps, width, T::WIDE, &x));
            }
            let (normals, factors) = (&mut normals[..count], &mut factors[..count]);
            let (scaled, scales) = (&mut scaled[..count], &mut scales[..count]);
            spread(normals, rows, |row, out| out.fill(known[row].mean));
            spread(factors, rows, |row, out| out.fill(known[row].rstd));
            spread(scales, rows, |row, out| out.fill(known[row].scale));
            let products = &mut products[..count];
            let (dots, sums) = (&mut all_dots[..count], &mut all_sums[..count]);
            for i in 0..count {
                let statistics = Scaled { mean: normals[i], rstd: factors[i], scale: scales[i] };
                let (normal, wide): (T, f64) = (statistics.normal(x[i]), grad[i].into());
                normals[i] = normal;
                scaled[i] = grad[i] * weights[i];
                products[i] = scaled[i].into() * normal.into();
                dots[i] += wide * normal.into();
                sums[i] += wide;
            }
            let (of_grad, of_products) = (&mut of_grad[..rows], &mut of_products[..rows]);
            if width == 1 {
                for row in 0..rows {
                    of_grad[row] = scaled[row].into() + 0.0;
                    of_products[row] = products[row] + 0.0;
                }
            } else {
                sums_of_rows(scaled, width, of_grad);
                sums_of_rows(products, width, of_products);
            }
            let (mean_grads, mean_dots) = (&mut mean_grads[..count], &mut mean_dots[..count]);
            spread(mean_grads, rows, |row, out| out.fill(T::from_f64(of_grad[row] / m)));
            spread(mean_dots, rows, |row, out| out.fill(T::from_f64(of_products[row] / m)));
            for i in 0..count {
                let means = [mean_grads[i], mean_dots[i]];
                out[i] = element_gradient(scaled[i], normals[i], means, [factors[i], scales[i]]);
            }
        }
        for (sums, out) in [all_dots, all_sums].iter_mut().zip(partials.chunks_exact_mut(width)) {
            for half in [16, 8, 4, 2, 1] {
                let (low, high) = sums.split_at_mut(half * width);
                for (low, high) in low.iter_mut().zip(high) {
                    *low += *high;
                }
            }
            out.copy_from_slice(&sums[..width]);
        }
    }
}

/// Calls `f` with the number of each of `rows` rows and its elements.
#[inline(always)]
fn spread<T>(out: &mut [T], rows: usize, mut f: impl FnMut(usize, &mut [T])) {
    let width = out.len() / rows;
    for (row, out) in out.chunks_exact_mut(width).enumerate() {
        f(row, out);
    }
}
