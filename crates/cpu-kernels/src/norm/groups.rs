//! Normalisation of groups of channels.

use std::borrow::Cow;

use samebits_numerics::fpenv;
use samebits_numerics::reduce::{self, BLOCK, LANES, Normal};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::Groups;

use super::rows::{self, BlockGradients, TOGETHER};
use super::{RowStatistics, Scaled, element_gradient, moments_of};
use crate::error::{Result, expect_len, expect_size};
use crate::float::Float;
use crate::{memory, parallel};

const OP: &str = "group_norm";

/// Normalises each group of each sample: `out = (h + 0) · weight + bias`, each operation rounded. Also
/// writes the mean and rstd of each unscaled row. A missing weight counts as 1, a missing bias as −0.
///
/// # Errors
///
/// As [`batch_statistics`](super::batch_statistics).
pub fn group_norm<T: Float>(
    x: &[T],
    shape: Groups,
    weight: Option<&[T]>,
    bias: Option<&[T]>,
    eps: f64,
    out: &mut [T],
    [mean, rstd]: [&mut [T]; 2],
) -> Result<()> {
    let [rows, width] = expect_groups(shape, [("x", x.len()), ("out", out.len())])?;
    for (what, length) in [("mean", mean.len()), ("rstd", rstd.len())] {
        expect_len(OP, what, length, rows)?;
    }
    let weight = &PerChannel::new(shape, "weight", weight, T::ONE)?;
    let bias = &PerChannel::new(shape, "bias", bias, -T::ZERO)?;
    if x.is_empty() {
        let normal = simd::dispatch(RowStatistics { x, eps });
        let [m, _, r] = fpenv::ieee(|| moments_of(&normal));
        mean.fill(m);
        rstd.fill(r);
        return Ok(());
    }
    if rows::are_shared(rows, width) {
        for (row, (out, x)) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate() {
            let normal = rows::shared_statistics(OP, x, eps)?;
            [mean[row], _, rstd[row]] = fpenv::ieee(|| moments_of(&normal));
            let statistics = fpenv::ieee(|| Scaled::of(&normal));
            let parameters = [weight, bias].map(|all| all.of_group(row % shape.groups));
            parallel::pieces(out, |start, out| {
                let x = &x[start..][..out.len()];
                simd::dispatch_inside(Normalize { x, start, statistics, parameters, out });
            });
        }
        return Ok(());
    }
    let (several, groups) = (rows::of_task(rows, width), shape.groups);
    let moments = parallel::chunks_mut(mean, several).zip(parallel::chunks_mut(rstd, several));
    parallel::chunks_mut(out, several * width).zip(moments).enumerate().for_each(
        |(number, (out, (mean, rstd)))| {
            let first = number * several;
            let x = &x[first * width..][..out.len()];
            rows::with_statistics(x, width, eps, |row, x, normals| {
                for (i, normal) in (row..).zip(normals) {
                    [mean[i], _, rstd[i]] = moments_of(normal);
                }
                let out = &mut out[row * width..][..x.len()];
                let group = (first + row) % groups;
                simd::dispatch_inside(NormalizeRows {
                    x,
                    group,
                    groups,
                    normals,
                    weight,
                    bias,
                    out,
                });
            });
        },
    );
    Ok(())
}

/// Computes the gradient of the input of [`group_norm`], and writes the gradient times `h + 0`, rounded,
/// whose sums over samples and positions are the gradient of the weight.
///
/// With `g` the gradient times the weight, rounded, the gradient of the input is that of
/// [`batch_norm_backward`](super::batch_norm_backward) with a weight of 1 for a channel that holds the
/// group. The statistics are those of the unscaled elements; `eps` is that of the forward pass.
///
/// # Errors
///
/// As [`batch_statistics`](super::batch_statistics).
pub fn group_norm_backward<T: Float>(
    [grad, x]: [&[T]; 2],
    shape: Groups,
    weight: Option<&[T]>,
    [mean, rstd]: [&[T]; 2],
    eps: f64,
    grad_x: &mut [T],
    products: Option<&mut [T]>,
) -> Result<()> {
    let products_len = products.as_ref().map_or(x.len(), |products| products.len());
    let lengths = [("x", x.len()), ("grad", grad.len()), ("grad_x", grad_x.len())];
    let [rows, width] = expect_groups(shape, lengths)?;
    expect_len(OP, "products", products_len, x.len())?;
    for (what, length) in [("mean", mean.len()), ("rstd", rstd.len())] {
        expect_len(OP, what, length, rows)?;
    }
    let weight = &PerChannel::new(shape, "weight", weight, T::ONE)?;
    if x.is_empty() {
        return Ok(());
    }
    let known = |row: usize| {
        let (x, known) = (&x[row * width..][..width], [mean[row].into(), rstd[row].into()]);
        Scaled::of(&Normal::known(known, eps, width, T::WIDE, &|i| x[i].into()))
    };
    if rows::are_shared(rows, width) {
        let statistics = fpenv::ieee(|| memory::collected(OP, (0..rows).map(known)))?;
        let sizes = [width, shape.groups];
        return shared_gradients([grad, x], sizes, &statistics, weight, grad_x, products);
    }
    let several = rows::of_task(rows, width);
    let together = (BLOCK / width).clamp(1, TOGETHER);
    let mut parts = parts(several * width, grad_x, products)?;
    let partials = || {
        let blocks = reduce::blocks(width);
        Ok([memory::with_capacity(OP, blocks)?, memory::with_capacity(OP, blocks)?])
    };
    parallel::chunks_mut(&mut parts, 1).try_for_each_with(partials, |partials, parts| {
        for Part { start, out, products } in parts {
            let mut products = products.as_mut().map(|all| all.chunks_mut(together * width));
            for (number, out) in out.chunks_mut(together * width).enumerate() {
                let first = *start / width + number * together;
                let mut statistics = [Scaled::NONE; TOGETHER];
                let statistics = &mut statistics[..out.len() / width];
                for (row, statistics) in (first..).zip(statistics.iter_mut()) {
                    *statistics = known(row);
                }
                let range = first * width..first * width + out.len();
                simd::dispatch_inside(Gradients {
                    grad: &grad[range.clone()],
                    x: &x[range],
                    group: first % shape.groups,
                    groups: shape.groups,
                    width,
                    statistics,
                    weight,
                    out,
                    products: products.as_mut().and_then(Iterator::next),
                    partials,
                });
            }
        }
        Ok(())
    })
}

/// Checks the lengths of slices of all elements, and returns the number of rows and their width.
fn expect_groups<const N: usize>(
    Groups { n, groups, channels, spatial }: Groups,
    lengths: [(&'static str, usize); N],
) -> Result<[usize; 2]> {
    for (what, length) in lengths {
        expect_size(OP, what, length, &[n, groups, channels, spatial])?;
    }
    Ok([memory::volume(OP, &[n, groups])?, memory::volume(OP, &[channels, spatial])?])
}

/// Numbers of the channels, in runs of equal columns of a row.
struct PerChannel<'a, T: Float> {
    values: Cow<'a, [T]>,
    /// The number of values of a row.
    count: usize,
    /// The number of columns of a value.
    run: usize,
}

/// The numbers of the channels of one row, each repeated if channels are short, and the number of columns
/// of each.
type OfRow<'a, T> = (&'a [T], usize);

impl<'a, T: Float> PerChannel<'a, T> {
    /// Repeats numbers of short channels, so that neighbours fill vectors.
    fn new(
        shape: Groups,
        what: &'static str,
        values: Option<&'a [T]>,
        missing: T,
    ) -> Result<PerChannel<'a, T>> {
        let Groups { groups, channels, spatial, .. } = shape;
        let all = memory::volume(OP, &[groups, channels])?;
        if let Some(values) = values {
            expect_len(OP, what, values.len(), all)?;
        }
        let (times, run) = if spatial >= LANES { (1, spatial) } else { (spatial, 1) };
        let values = match values {
            Some(values) if times == 1 => Cow::Borrowed(values),
            values => {
                let mut repeated = memory::filled(OP, memory::volume(OP, &[all, times])?, missing)?;
                let runs = repeated.chunks_exact_mut(times.max(1));
                runs.zip(values.into_iter().flatten()).for_each(|(run, &value)| run.fill(value));
                Cow::Owned(repeated)
            }
        };
        Ok(PerChannel { values, count: channels * times, run })
    }

    #[inline(always)]
    fn of_group(&self, group: usize) -> OfRow<'_, T> {
        (&self.values[group * self.count..][..self.count], self.run)
    }
}

/// Calls `$each` with the elements of a part of a row, `$start` columns after its beginning, and with the
/// value of each column.
///
/// A macro, because a closure would be compiled without the vectors of its caller.
macro_rules! by_channel {
    ($values:expr, $start:expr, $len:expr, |$range:ident, $value:ident| $each:block) => {{
        let (values, run) = $values;
        let (start, end) = ($start, $start + $len);
        let mut column = start;
        while column < end {
            let channel = column / run;
            let stop = ((channel + 1) * run).min(end);
            let ($range, $value) = (column - start..stop - start, values[channel]);
            $each
            column = stop;
        }
    }};
}

/// Normalises a part of a row, from column `start` on.
struct Normalize<'a, T> {
    x: &'a [T],
    start: usize,
    statistics: Scaled<T>,
    /// Weight and bias.
    parameters: [OfRow<'a, T>; 2],
    out: &'a mut [T],
}

impl<T: Float> Kernel for Normalize<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Normalize { x, start, statistics, parameters: [(weight, run), (bias, _)], out } = self;
        let x = &x[..out.len()];
        if run == 1 {
            let columns = start..start + out.len();
            let (weight, bias) = (&weight[columns.clone()], &bias[columns]);
            for i in 0..out.len() {
                out[i] = ((statistics.normal(x[i]) + T::ZERO) * weight[i] + bias[i]).canonical();
            }
            return;
        }
        by_channel!((weight, run), start, out.len(), |range, weight| {
            let bias = bias[(start + range.start) / run];
            for (out, &x) in out[range.clone()].iter_mut().zip(&x[range]) {
                *out = ((statistics.normal(x) + T::ZERO) * weight + bias).canonical();
            }
        });
    }
}

/// Normalises consecutive rows.
struct NormalizeRows<'a, T: Float> {
    x: &'a [T],
    /// The group of the first row.
    group: usize,
    groups: usize,
    normals: &'a [Normal],
    weight: &'a PerChannel<'a, T>,
    bias: &'a PerChannel<'a, T>,
    out: &'a mut [T],
}

impl<T: Float> Kernel for NormalizeRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let NormalizeRows { x, mut group, groups, normals, weight, bias, out } = self;
        let width = x.len() / normals.len();
        let rows = x.chunks_exact(width).zip(out.chunks_exact_mut(width));
        for ((x, out), normal) in rows.zip(normals) {
            let statistics = Scaled::of(normal);
            let parameters = [weight.of_group(group), bias.of_group(group)];
            Normalize { x, start: 0, statistics, parameters, out }.run();
            group = next(group, groups);
        }
    }
}

/// Returns the group of the next row.
#[inline(always)]
fn next(group: usize, groups: usize) -> usize {
    if group + 1 == groups { 0 } else { group + 1 }
}

/// Multiplies the gradients of a part of a row with the weights, from column `start` on, and with the
/// normalised elements.
struct Weigh<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    start: usize,
    statistics: Scaled<T>,
    weight: OfRow<'a, T>,
    out: &'a mut [T],
    products: Option<&'a mut [T]>,
}

impl<T: Float> Kernel for Weigh<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Weigh { grad, x, start, statistics, weight: (weight, run), out, products } = self;
        if run == 1 {
            let weight = &weight[start..start + out.len()];
            for ((out, &grad), &weight) in out.iter_mut().zip(grad).zip(weight) {
                *out = grad * weight;
            }
        } else {
            by_channel!((weight, run), start, out.len(), |range, weight| {
                for (out, &grad) in out[range.clone()].iter_mut().zip(&grad[range]) {
                    *out = grad * weight;
                }
            });
        }
        let Some(products) = products else { return };
        for ((product, &grad), &x) in products.iter_mut().zip(grad).zip(x) {
            *product = (grad * (statistics.normal(x) + T::ZERO)).canonical();
        }
    }
}

/// Computes the input gradients of a part of a row from the weighted gradients, which they replace.
struct Finish<'a, T> {
    x: &'a [T],
    statistics: Scaled<T>,
    /// The means of the weighted gradients and of their products with the normalised elements.
    means: [T; 2],
    out: &'a mut [T],
}

impl<T: Float> Kernel for Finish<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Finish { x, statistics, means, out } = self;
        let factors = [statistics.rstd, statistics.scale];
        for (out, &x) in out.iter_mut().zip(x) {
            *out = element_gradient(*out, statistics.normal(x), means, factors);
        }
    }
}

/// Computes the gradients of up to [`TOGETHER`] consecutive rows.
struct Gradients<'a, T: Float> {
    grad: &'a [T],
    x: &'a [T],
    /// The group of the first row.
    group: usize,
    groups: usize,
    width: usize,
    statistics: &'a [Scaled<T>],
    weight: &'a PerChannel<'a, T>,
    out: &'a mut [T],
    products: Option<&'a mut [T]>,
    /// Scratch memory for the sums of the blocks of a row.
    partials: &'a mut [Vec<f64>; 2],
}

impl<T: Float> Kernel for Gradients<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Gradients { grad, x, mut group, width, statistics, weight, out, partials, .. } = self;
        let mut products = self.products;
        let (mut sums, mut dots) = ([0.0f64; TOGETHER], [0.0f64; TOGETHER]);
        let (sums, dots) = (&mut sums[..statistics.len()], &mut dots[..statistics.len()]);
        for (row, &statistics) in statistics.iter().enumerate() {
            let weight = weight.of_group(group);
            group = next(group, self.groups);
            partials.iter_mut().for_each(Vec::clear);
            for start in (0..width).step_by(BLOCK) {
                let range = row * width + start..row * width + (start + BLOCK).min(width);
                let (grad, x) = (&grad[range.clone()], &x[range.clone()]);
                let out = &mut out[range.clone()];
                let products = products.as_mut().map(|all| &mut all[range]);
                Weigh { grad, x, start, statistics, weight, out, products }.run();
                if width > LANES {
                    [sums[row], dots[row]] =
                        BlockGradients { grad: out, x, weight: None, statistics }.run();
                    partials[0].push(sums[row]);
                    partials[1].push(dots[row]);
                }
            }
            if width > BLOCK {
                [sums[row], dots[row]] =
                    [&partials[0], &partials[1]].map(|all| reduce::combine(all));
            }
        }
        if width <= LANES {
            rows::narrow_sums([out, x], width, statistics, [sums, dots]);
        }
        let rows = out.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(statistics);
        for (((out, x), &statistics), (sum, dot)) in rows.zip(sums.iter().zip(&*dots)) {
            let means = [sum, dot].map(|sum| T::from_f64(sum / width as f64));
            Finish { x, statistics, means, out }.run();
        }
    }
}

/// Part of the results of a backward pass.
struct Part<'a, T> {
    /// The number of elements before.
    start: usize,
    out: &'a mut [T],
    products: Option<&'a mut [T]>,
}

/// Cuts the results of a backward pass into parts of `size` elements.
fn parts<'a, T>(
    size: usize,
    out: &'a mut [T],
    products: Option<&'a mut [T]>,
) -> Result<Vec<Part<'a, T>>> {
    let mut products = products.map(|products| products.chunks_mut(size));
    let parts = out.chunks_mut(size).enumerate().map(|(number, out)| Part {
        start: number * size,
        out,
        products: products.as_mut().and_then(Iterator::next),
    });
    memory::collected(OP, parts)
}

/// Computes the gradients of rows that threads share.
fn shared_gradients<T: Float>(
    [grad, x]: [&[T]; 2],
    [width, groups]: [usize; 2],
    statistics: &[Scaled<T>],
    weight: &PerChannel<'_, T>,
    out: &mut [T],
    products: Option<&mut [T]>,
) -> Result<()> {
    let mut partials = memory::filled(OP, reduce::blocks(width), [0.0; 2])?;
    for Part { start: first, out, products } in parts(width, out, products)? {
        let row = first / width;
        let (statistics, weight) = (statistics[row], weight.of_group(row % groups));
        let (grad, x) = (&grad[first..][..width], &x[first..][..width]);
        let mut blocks = parts(BLOCK, &mut *out, products)?;
        parallel::chunks_mut(&mut blocks, 1).zip(parallel::chunks_mut(&mut partials, 1)).for_each(
            |(blocks, partials)| {
                for (Part { start, out, products }, partial) in blocks.iter_mut().zip(partials) {
                    let range = *start..*start + out.len();
                    let (grad, x) = (&grad[range.clone()], &x[range]);
                    let (start, products) = (*start, products.as_deref_mut());
                    simd::dispatch_inside(Weigh {
                        grad,
                        x,
                        start,
                        statistics,
                        weight,
                        out,
                        products,
                    });
                    *partial = simd::dispatch_inside(BlockGradients {
                        grad: out,
                        x,
                        weight: None,
                        statistics,
                    });
                }
            },
        );
        let mean = |at: usize| -> Result<T> {
            let partials = memory::collected(OP, partials.iter().map(|sums| sums[at]))?;
            Ok(fpenv::ieee(|| T::from_f64(reduce::combine(&partials) / width as f64)))
        };
        let means = [mean(0)?, mean(1)?];
        parallel::pieces(out, |start, out| {
            simd::dispatch_inside(Finish { x: &x[start..][..out.len()], statistics, means, out });
        });
    }
    Ok(())
}
