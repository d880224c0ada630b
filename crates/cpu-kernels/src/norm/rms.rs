//! Division of rows by the root of their mean square.
//!
//! # Determinism
//!
//! `Portable`; [`RmsNorm`](samebits_tensor_core::ops::RmsNorm) and
//! [`RmsNormGrad`](samebits_tensor_core::ops::RmsNormGrad) have the order of the operations.

use samebits_numerics::reduce::{self, BLOCK, LANES};
use samebits_numerics::simd::{self, Aligned, Kernel};

use super::rows::{self, TOGETHER, are_shared};
use crate::elementwise::Elementary;
use crate::error::{Error, Result, expect_len, expect_size};
use crate::float::Float;
use crate::reduce::{self as reduce_rows, sums_of_rows};
use crate::{memory, parallel};
use samebits_numerics::fpenv;
use samebits_tensor_core::Layout;

const RMS: &str = "rms_norm";

/// Divides each row of `width` elements by the root of its mean square. Also writes the power of two that
/// each row is multiplied with and the reciprocal of the root.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn rms_norm<T: Elementary>(
    x: &[T],
    width: usize,
    weight: Option<&[T]>,
    eps: f64,
    out: &mut [T],
    [factor, rstd]: [&mut [T]; 2],
) -> Result<()> {
    expect_len(RMS, "rstd", rstd.len(), factor.len())?;
    expect_size(RMS, "x", x.len(), &[factor.len(), width])?;
    expect_len(RMS, "out", out.len(), x.len())?;
    if let Some(weight) = weight {
        expect_len(RMS, "weight", weight.len(), width)?;
    }
    if x.is_empty() {
        return Ok(());
    }
    if are_shared(factor.len(), width) {
        for (row, (out, x)) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate() {
            [factor[row], rstd[row]] = shared_statistics(x, eps)?;
            let [factor, rstd] = [factor[row], rstd[row]];
            parallel::pieces(out, |start, out| {
                let columns = start..start + out.len();
                let weight = weight.map(|weight| &weight[columns.clone()]);
                let width = out.len();
                simd::dispatch(Rows {
                    x: &x[columns],
                    width,
                    weight,
                    out,
                    factor: &[factor],
                    rstd: &[rstd],
                });
            });
        }
        return Ok(());
    }
    let rows = rows::of_task(factor.len(), width);
    parallel::chunks_mut(out, rows * width)
        .zip(parallel::chunks_mut(factor, rows))
        .zip(parallel::chunks_mut(rstd, rows))
        .zip(parallel::chunks(x, rows * width))
        .for_each(|(((out, factor), rstd), x)| {
            // A wide row is divided while it is still in a cache.
            let together = if width > LANES { 1 } else { TOGETHER };
            let statistics = factor.chunks_mut(together).zip(rstd.chunks_mut(together));
            let rows = x.chunks(together * width).zip(out.chunks_mut(together * width));
            for ((x, out), (factor, rstd)) in rows.zip(statistics) {
                simd::dispatch(Statistics { x, width, eps, factor, rstd });
                simd::dispatch(Rows { x, width, weight, out, factor, rstd });
            }
        });
    Ok(())
}

/// Computes the gradients of [`rms_norm`] with respect to input and, if there is one, weight. The weight's
/// gradient is a sum down the rows; but if `alone`, the only row itself.
///
/// # Errors
///
/// As [`rms_norm`].
pub fn rms_norm_backward<T: Elementary>(
    grad: &[T],
    x: &[T],
    width: usize,
    weight: Option<&[T]>,
    [factor, rstd]: [&[T]; 2],
    alone: bool,
    grad_x: &mut [T],
) -> Result<Option<Vec<T>>> {
    expect_len(RMS, "rstd", rstd.len(), factor.len())?;
    expect_size(RMS, "x", x.len(), &[factor.len(), width])?;
    expect_len(RMS, "grad", grad.len(), x.len())?;
    expect_len(RMS, "grad_x", grad_x.len(), x.len())?;
    if let Some(weight) = weight {
        expect_len(RMS, "weight", weight.len(), width)?;
    }
    let zeros = |n| memory::filled(RMS, n, T::ZERO);
    if x.is_empty() {
        return weight.map(|_| zeros(width)).transpose();
    }
    let shared = match are_shared(factor.len(), width) {
        true => Some(shared_dots([grad, x], width, weight, factor)?),
        false => None,
    };
    if let Some(weight) =
        weight.filter(|_| shared.is_none() && width > LANES && factor.len() > LANES)
    {
        return many_rows([grad, x], weight, [factor, rstd], grad_x).map(Some);
    }
    let mut products = zeros(if weight.is_some() { x.len() } else { 0 })?;
    // Shared rows have pieces of blocks; others have whole rows.
    let several = match &shared {
        Some(_) => BLOCK,
        None => rows::of_task(factor.len(), width) * width,
    };
    let piece = |start: usize, mut out: &mut [T], mut products: &mut [T]| {
        let mut start = start;
        while !out.is_empty() {
            let (row, column) = (start / width, start % width);
            let limit = match &shared {
                Some(_) => width - column,
                None if width > LANES => width,
                None => TOGETHER * width,
            };
            let (now, rest) = out.split_at_mut(out.len().min(limit));
            let kept = products.len().min(now.len());
            let (made, others) = products.split_at_mut(kept);
            let range = start..start + now.len();
            let count = now.len().div_ceil(width);
            start += now.len();
            simd::dispatch(Gradients {
                grad: &grad[range.clone()],
                x: &x[range],
                width: width.min(now.len()),
                terms: width,
                weight: weight.map(|weight| &weight[column..]),
                factor: &factor[row..row + count],
                rstd: &rstd[row..row + count],
                dot: shared.as_ref().map(|dots| dots[row]),
                out: now,
                products: made,
            });
            (out, products) = (rest, others);
        }
    };
    if weight.is_none() {
        parallel::pieces_of(several, grad_x, |start, out| piece(start, out, &mut []));
        return Ok(None);
    }
    parallel::chunks_mut(grad_x, several)
        .zip(parallel::chunks_mut(&mut products, several))
        .enumerate()
        .for_each(|(number, (out, products))| piece(number * several, out, products));
    if alone {
        return Ok(Some(products));
    }
    if factor.len() == 1 {
        // A sum of one term has no −0.
        parallel::pieces(&mut products, |_, piece| {
            piece.iter_mut().for_each(|product| *product = *product + T::ZERO);
        });
        return Ok(Some(products));
    }
    let mut sums = zeros(width)?;
    let layout = |sizes: &[usize], strides: &[usize]| {
        let checked = Layout::strided(sizes, strides, 0);
        checked.map_err(|error| Error::Argument { op: RMS, message: error.to_string() })
    };
    let (starts, terms) = (&layout(&[], &[])?, &layout(&[factor.len()], &[width])?);
    let slabs = reduce_rows::Slabs { data: &products, starts, terms, inner: width };
    let columns = match width {
        1 => reduce_rows::Rows::dense(RMS, &products, 1, factor.len())?,
        _ => reduce_rows::Rows::Slabs(reduce_rows::Part { slabs: &slabs, first: 0 }),
    };
    reduce_rows::sum(RMS, columns, &mut sums)?;
    Ok(Some(sums))
}

/// Computes [`rms_norm_backward`] of many wide rows. Rows that share a lane of the tree are processed
/// together: the sums of their weight gradients stay in a cache.
fn many_rows<T: Float>(
    [grad, x]: [&[T]; 2],
    weight: &[T],
    [factor, rstd]: [&[T]; 2],
    grad_x: &mut [T],
) -> Result<Vec<T>> {
    let (width, count) = (weight.len(), factor.len());
    let lanes = reduce::blocks(count) * LANES;
    let mut rows = memory::with_capacity(RMS, lanes)?;
    for _ in 0..lanes {
        rows.push(memory::with_capacity(RMS, count.div_ceil(LANES).min(BLOCK / LANES))?);
    }
    for (row, out) in grad_x.chunks_exact_mut(width).enumerate() {
        rows[row / BLOCK * LANES + row % LANES].push((row, out));
    }
    let mut sums = memory::zeroed(RMS, memory::volume(RMS, &[lanes, width])?)?;
    let at_least = if x.len() <= parallel::CHUNK { lanes } else { 1 };
    let scratch = || memory::filled(RMS, width, T::ZERO);
    parallel::chunks_mut(&mut sums, width)
        .zip(parallel::chunks_mut(&mut rows, 1))
        .at_least(at_least)
        .try_for_each_with(scratch, |products, (sums, rows)| {
            for (row, out) in rows.iter_mut().flatten() {
                let range = *row * width..(*row + 1) * width;
                let (grad, x) = (&grad[range.clone()], &x[range]);
                let (factor, rstd) = (&factor[*row..=*row], &rstd[*row..=*row]);
                let (weight, terms, dot) = (Some(weight), width, None);
                let row =
                    Gradients { grad, x, width, terms, weight, factor, rstd, dot, out, products };
                simd::dispatch(Added { row, sums });
            }
            Ok(())
        })?;
    let mut totals = memory::zeroed(RMS, width)?;
    reduce_rows::column_totals(RMS, &sums, LANES, width, &mut totals)?;
    super::rounded(RMS, totals.into_iter())
}

/// The gradients of a row, whose products are added to sums.
struct Added<'a, T> {
    row: Gradients<'a, T>,
    sums: &'a mut [f64],
}

impl<T: Float> Kernel for Added<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Added { row: Gradients { products, .. }, sums } = self;
        let row = Gradients { products: &mut *products, ..self.row };
        row.run();
        for (sum, &product) in sums.iter_mut().zip(&*products) {
            *sum += product.into();
        }
    }
}

/// Returns the power of two that a row is multiplied with, by its largest magnitude or a larger number.
#[inline(always)]
fn factor_of<T: Elementary>(size: T) -> T {
    let (factor, near) = plain_factor(size);
    if near { power(-floor_log2(size)) } else { factor }
}

/// Returns the factor of a number whose logarithm is not rounded up to an integer, and true for a number
/// for which it may be.
#[inline(always)]
fn plain_factor<T: Float>(size: T) -> (T, bool) {
    /// A bound of the distance of such numbers from the next power of two, as a number of f64.
    const NEAR: [u64; 2] = [1 << 37, 1 << 12];
    // The exponent of 0 or of a subnormal number is beyond the reach, as the logarithm is.
    let bits = Into::<f64>::into(size).to_bits();
    let below = (1 << 52) - (bits & ((1 << 52) - 1));
    (power(1023 - (bits >> 52) as i64), below <= NEAR[usize::from(T::WIDE)])
}

/// Returns 2 to the power of `exponent`, within reach.
#[inline(always)]
fn power<T: Float>(exponent: i64) -> T {
    let reach = if T::WIDE { 800 } else { 100 };
    T::from_f64(f64::from_bits(((1023 + exponent.clamp(-reach, reach)) as u64) << 52))
}

#[cold]
#[inline(never)]
fn floor_log2<T: Elementary>(size: T) -> i64 {
    Into::<f64>::into(size.log2().floor()) as i64
}

/// Returns the larger of two numbers, the first if the second is NaN.
#[inline(always)]
fn larger<T: Float>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// Returns the largest magnitude that is not NaN.
#[inline(always)]
fn largest<T: Float>(x: &[T]) -> T {
    if x.len() <= LANES {
        return x.iter().fold(T::ZERO, |most, x| larger(most, x.abs()));
    }
    let mut lanes = [T::ZERO; LANES];
    let mut groups = x.chunks_exact(LANES);
    for group in &mut groups {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], group[l].abs());
        }
    }
    let rest = groups.remainder().iter().fold(T::ZERO, |most, x| larger(most, x.abs()));
    lanes.into_iter().fold(rest, larger)
}

/// Returns the reciprocal root, from the sum of `n` squares and the factor.
#[inline(always)]
fn rstd_of<T: Elementary>(sum: f64, n: usize, eps: T, factor: T) -> T {
    (T::from_f64(sum / n as f64) + eps * factor * factor).rsqrt()
}

#[inline(always)]
fn square<T: Float>(x: T, factor: T) -> f64 {
    let x = x * factor;
    (x * x).into()
}

/// The factors and reciprocal roots of at most [`TOGETHER`] rows, or of one if it is wide.
struct Statistics<'a, T> {
    x: &'a [T],
    width: usize,
    eps: f64,
    factor: &'a mut [T],
    rstd: &'a mut [T],
}

impl<T: Elementary> Kernel for Statistics<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Statistics { x, width, eps, factor, rstd } = self;
        let (least, eps) = (T::from_f64(eps.sqrt()), T::from_f64(eps));
        if width == 1 {
            let mut any = false;
            for (&x, factor) in x.iter().zip(factor.iter_mut()) {
                let near;
                (*factor, near) = plain_factor(larger(least, x.abs()));
                any |= near;
            }
            if any {
                for (&x, factor) in x.iter().zip(factor.iter_mut()) {
                    *factor = factor_of(larger(least, x.abs()));
                }
            }
            for ((&x, &mut factor), rstd) in x.iter().zip(factor).zip(rstd) {
                *rstd = rstd_of(square(x, factor), 1, eps, factor).canonical();
            }
            return;
        }
        for (x, factor) in x.chunks_exact(width).zip(factor.iter_mut()) {
            *factor = factor_of(larger(least, largest(x)));
        }
        if width > LANES {
            for (x, (&mut factor, rstd)) in x.chunks_exact(width).zip(factor.iter_mut().zip(rstd)) {
                let sum = reduce::sum_of(x, |x| square(x, factor));
                *rstd = rstd_of(sum, width, eps, factor).canonical();
            }
            return;
        }
        let mut sums = [0.0f64; TOGETHER];
        let sums = &mut sums[..factor.len()];
        let factor = &*factor;
        let term = |row: usize| {
            let factor = factor[row];
            move |x: T| square(x, factor)
        };
        reduce::rows(x, width, term, sums);
        for ((rstd, &sum), &factor) in rstd.iter_mut().zip(&*sums).zip(factor) {
            *rstd = rstd_of(sum, width, eps, factor).canonical();
        }
    }
}

/// Multiplies rows with their statistics and the weight.
struct Rows<'a, T> {
    x: &'a [T],
    width: usize,
    weight: Option<&'a [T]>,
    out: &'a mut [T],
    factor: &'a [T],
    rstd: &'a [T],
}

impl<T: Float> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { x, width, weight, out, factor, rstd } = self;
        if let (1, weight) = (width, weight.map_or(T::ONE, |weight| weight[0])) {
            let statistics = factor.iter().zip(rstd);
            for ((out, &x), (&factor, &rstd)) in out.iter_mut().zip(x).zip(statistics) {
                *out = (x * factor * rstd * weight).canonical();
            }
            return;
        }
        let rows = x.chunks_exact(width).zip(out.chunks_exact_mut(width));
        for ((x, out), (&factor, &rstd)) in rows.zip(factor.iter().zip(rstd)) {
            let Some(weight) = weight else {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = (x * factor * rstd).canonical();
                }
                continue;
            };
            for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
                *out = (x * factor * rstd * weight).canonical();
            }
        }
    }
}

/// Computes the factor and the reciprocal root of a row that threads share.
fn shared_statistics<T: Elementary>(x: &[T], eps: f64) -> Result<[T; 2]> {
    let most = parallel::chunks(x, BLOCK).collect(RMS, |x| simd::dispatch(Largest(x)))?;
    let least = || T::from_f64(eps.sqrt());
    let factor = fpenv::ieee(|| factor_of(most.into_iter().fold(least(), larger)));
    let partials =
        parallel::chunks(x, BLOCK).collect(RMS, |x| simd::dispatch(BlockSquares { x, factor }))?;
    let rstd =
        || rstd_of(reduce::combine(&partials), x.len(), T::from_f64(eps), factor).canonical();
    Ok([factor, fpenv::ieee(rstd)])
}

struct Largest<'a, T>(&'a [T]);

impl<T: Float> Kernel for Largest<'_, T> {
    type Output = T;
    #[inline(always)]
    fn run(self) -> T {
        largest(self.0)
    }
}

struct BlockSquares<'a, T> {
    x: &'a [T],
    factor: T,
}

impl<T: Float> Kernel for BlockSquares<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        reduce::block_partial(self.x, |x| square(x, self.factor))
    }
}

/// Returns, for each row, the sum of the weighted gradients times the multiplied elements.
fn shared_dots<T: Float>(
    [grad, x]: [&[T]; 2],
    width: usize,
    weight: Option<&[T]>,
    factor: &[T],
) -> Result<Vec<T>> {
    let blocks = reduce::blocks(width);
    let partials = parallel::try_each(RMS, factor.len() * blocks, x.len(), |number| {
        let (row, start) = (number / blocks, number % blocks * BLOCK);
        let columns = start..(start + BLOCK).min(width);
        let range = row * width + columns.start..row * width + columns.end;
        let (grad, x) = (&grad[range.clone()], &x[range]);
        let weight = weight.map(|weight| &weight[columns]);
        Ok(simd::dispatch(BlockDot { grad, x, weight, factor: factor[row] }))
    })?;
    let dots = partials.chunks(blocks).map(|partials| T::from_f64(reduce::combine(partials)));
    fpenv::ieee(|| memory::collected(RMS, dots))
}

/// The partial sum of a block of at most [`BLOCK`] elements.
struct BlockDot<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    weight: Option<&'a [T]>,
    factor: T,
}

impl<T: Float> Kernel for BlockDot<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let BlockDot { grad, x, weight, factor } = self;
        let mut products = Aligned([T::ZERO; BLOCK]);
        let products = &mut products[..grad.len()];
        for ((product, &grad), &x) in products.iter_mut().zip(grad).zip(x) {
            *product = grad * (x * factor);
        }
        if let Some(weight) = weight {
            let terms = products.iter_mut().zip(grad).zip(weight).zip(x);
            for (((product, &grad), &weight), &x) in terms {
                *product = grad * weight * (x * factor);
            }
        }
        reduce::block_partial(products, |product| product.into())
    }
}

/// The gradients of at most [`TOGETHER`] rows, of one wide row, or of a piece of a row whose sum is known.
struct Gradients<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    /// The number of elements between rows.
    width: usize,
    /// The number of elements of a mean.
    terms: usize,
    weight: Option<&'a [T]>,
    factor: &'a [T],
    rstd: &'a [T],
    dot: Option<T>,
    out: &'a mut [T],
    /// Of which the sums down the rows are the weight's gradient.
    products: &'a mut [T],
}

impl<T: Float> Kernel for Gradients<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Gradients { grad, x, width, terms, weight, factor, rstd, dot, out, products } = self;
        let statistics = || factor.iter().zip(rstd);
        let rows = || grad.chunks_exact(width).zip(x.chunks_exact(width)).zip(statistics());
        // The result holds the weighted gradients at first.
        match weight {
            None => out.copy_from_slice(grad),
            Some(weight) if width == 1 => {
                let (weight, inputs) = (weight[0], grad.iter().zip(x).zip(statistics()));
                let products = products.iter_mut().zip(out.iter_mut());
                for (((&grad, &x), (&factor, &rstd)), (product, out)) in inputs.zip(products) {
                    *out = grad * weight;
                    *product = (grad * (x * factor * rstd)).canonical();
                }
            }
            Some(weight) => {
                let products = products.chunks_exact_mut(width).zip(out.chunks_exact_mut(width));
                for (((grad, x), (&factor, &rstd)), (products, out)) in rows().zip(products) {
                    for (((out, &grad), &weight), (product, &x)) in
                        out.iter_mut().zip(grad).zip(weight).zip(products.iter_mut().zip(x))
                    {
                        *out = grad * weight;
                        *product = (grad * (x * factor * rstd)).canonical();
                    }
                }
            }
        }
        let mut dots = Aligned([T::ZERO; TOGETHER]);
        let dots = &mut dots[..factor.len()];
        match dot {
            Some(dot) => dots.fill(dot),
            None if width == 1 => {
                for ((dot, &out), (&x, &factor)) in
                    dots.iter_mut().zip(&*out).zip(x.iter().zip(factor))
                {
                    *dot = out * (x * factor);
                }
            }
            None if width > LANES => {
                let factor = factor[0];
                let sum = reduce::dot_of(out, x, |grad, x| (grad * (x * factor)).into());
                dots[0] = T::from_f64(sum);
            }
            None => {
                let mut terms = Aligned([T::ZERO; TOGETHER * LANES]);
                let terms = &mut terms[..x.len()];
                let all = terms.chunks_exact_mut(width).zip(out.chunks_exact(width));
                for (((_, x), (&factor, _)), (terms, out)) in rows().zip(all) {
                    for ((term, &grad), &x) in terms.iter_mut().zip(out).zip(x) {
                        *term = grad * (x * factor);
                    }
                }
                let mut sums = [0.0f64; TOGETHER];
                let sums = &mut sums[..dots.len()];
                sums_of_rows(terms, width, sums);
                for (dot, &sum) in dots.iter_mut().zip(&*sums) {
                    *dot = T::from_f64(sum);
                }
            }
        }
        let share = T::from_f64(1.0 / terms as f64);
        for (dot, &rstd) in dots.iter_mut().zip(rstd) {
            let slope = rstd * rstd * rstd * T::from_f64(-0.5);
            *dot = *dot * slope * share;
        }
        let gradient = |grad: T, x: T, factor: T, rstd: T, share: T| {
            let two = T::from_f64(2.0);
            ((grad * rstd + share * (x * factor * two)) * factor).canonical()
        };
        if width == 1 {
            let statistics = statistics().zip(&*dots);
            for ((out, &x), ((&factor, &rstd), &share)) in out.iter_mut().zip(x).zip(statistics) {
                *out = gradient(*out, x, factor, rstd, share);
            }
            return;
        }
        let rows = rows().zip(out.chunks_exact_mut(width).zip(&*dots));
        for (((_, x), (&factor, &rstd)), (out, &share)) in rows {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = gradient(*out, x, factor, rstd, share);
            }
        }
    }
}
