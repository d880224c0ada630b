//! Scans that are computed element by element along each line.

use crate::error::{Result, expect_size};
use crate::parallel::{self, CHUNK};
use crate::{Float, memory, short};
use samebits_numerics::extrema::{replaces_max, replaces_min};
use samebits_numerics::math::f64::exp;
use samebits_numerics::simd::{self, Aligned, Kernel};
use std::hint::select_unpredictable;

/// Computes the gradient of [`cumprod`](super::cumprod).
///
/// Let `P[j]` be the product of the elements up to `j`, in f64, and `g` the gradients. Element `i`
/// is the sum of `g[j] * P[j] / x[i]` over `j >= i`, added from the last `j` down in f64 and
/// rounded once. From the first zero on, `P` leaves that zero out; elements after it get 0.
///
/// # Shapes
///
/// `input`, `grad_out` and `grad_input` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: each line is computed in the given order.
///
/// # Errors
///
/// As [`cumsum`](super::cumsum).
pub fn cumprod_backward<T: Float>(
    input: &[T],
    grad_out: &[T],
    [outer, dim, inner]: [usize; 3],
    grad_input: &mut [T],
) -> Result<()> {
    const OP: &str = "cumprod";
    expect_size(OP, "input", input.len(), &[outer, dim, inner])?;
    expect_size(OP, "grad_out", grad_out.len(), &[outer, dim, inner])?;
    expect_size(OP, "grad_input", grad_input.len(), &[outer, dim, inner])?;
    if grad_input.is_empty() {
        return Ok(());
    }
    let slab = dim * inner;
    parallel::chunks_mut(grad_input, slab).enumerate().try_for_each(|(o, grad_input)| {
        let (input, grad_out) = (&input[o * slab..][..slab], &grad_out[o * slab..][..slab]);
        let mut products = memory::zeroed(OP, dim)?;
        for j in 0..inner {
            product_line(input, grad_out, grad_input, &mut products, |k| k * inner + j);
        }
        Ok(())
    })
}

/// Computes the gradient of [`cumprod_backward`]; `v` is the gradient of its result.
///
/// Let `P[k]` be the product of the elements up to `k`. In f64, all along each line:
///
/// ```text
/// ascending:   t[k] = t[k - 1] * x[k] + P[k - 1] * v[k]              # from t = 0, P = 1
/// descending:  S = S * x[k + 1] + T * v[k + 1];  T = T * x[k + 1] + g[k]    # from S = T = 0
/// ```
///
/// Element `k` of the gradient of `grad_out` is `t[k]`, and that of `input` is
/// `T * t[k - 1] + S * P[k - 1]`, each rounded once. There is no division, so zeros are not a
/// special case.
///
/// # Shapes
///
/// All are (outer, dim, inner).
///
/// # Determinism
///
/// Portable: each line is computed in the given order, every `+` and `*` rounded to f64.
///
/// # Errors
///
/// As [`cumsum`](super::cumsum).
pub fn cumprod_backward_backward<T: Float>(
    input: &[T],
    grad_out: &[T],
    outer_grad: &[T],
    [outer, dim, inner]: [usize; 3],
    grad_of_grad: &mut [T],
    grad_input: &mut [T],
) -> Result<()> {
    const OP: &str = "cumprod_grad";
    for (what, len) in [
        ("input", input.len()),
        ("grad_out", grad_out.len()),
        ("outer_grad", outer_grad.len()),
        ("grad_of_grad", grad_of_grad.len()),
        ("grad_input", grad_input.len()),
    ] {
        expect_size(OP, what, len, &[outer, dim, inner])?;
    }
    if grad_input.is_empty() {
        return Ok(());
    }
    let slab = dim * inner;
    let outputs =
        parallel::chunks_mut(grad_of_grad, slab).zip(parallel::chunks_mut(grad_input, slab));
    outputs.enumerate().try_for_each(|(o, (grad_of_grad, grad_input))| {
        let range = o * slab..(o + 1) * slab;
        let (input, grad_out) = (&input[range.clone()], &grad_out[range.clone()]);
        let outer_grad = &outer_grad[range];
        let mut before = memory::filled(OP, dim, (0.0, 1.0))?;
        for j in 0..inner {
            let at = |k: usize| k * inner + j;
            let wide = |x: &[T], k: usize| -> f64 { x[at(k)].into() };
            let (mut t, mut product) = (0.0, 1.0);
            for (k, before) in before.iter_mut().enumerate() {
                *before = (t, product);
                t = t * wide(input, k) + product * wide(outer_grad, k);
                product *= wide(input, k);
                grad_of_grad[at(k)] = T::from_f64(t).canonical();
            }
            let (mut s, mut t) = (0.0, 0.0);
            for (k, &(tangent, product)) in before.iter().enumerate().rev() {
                if k + 1 < dim {
                    s = s * wide(input, k + 1) + t * wide(outer_grad, k + 1);
                    t *= wide(input, k + 1);
                }
                t += wide(grad_out, k);
                grad_input[at(k)] = T::from_f64(t * tangent + s * product).canonical();
            }
        }
        Ok(())
    })
}

/// Computes the gradient of [`logcumsumexp`](super::logcumsumexp).
///
/// Element `i` is the sum over `j >= i` of `g[j] * exp(x[i] - y[j])`, computed in f64 from the last
/// element down. A pair `(m, s)` represents the sum of `g[j] * exp(-y[j])` as `s * exp(m)`. It
/// starts from `(-inf, 0)`; with `n = -y[j]` and `m' = max(m, n)`, each step sets `s` to
/// `s * exp(m - m') + g[j] * exp(n - m')`. The exponential of a difference between equal numbers is
/// left out, and so is a sum that is still empty. Element `i` is then `s * exp(m + x[i])`, rounded
/// once.
///
/// A `y[j]` of at least 2^30 in magnitude (2^59 in f64), including infinite ones, is not part of
/// that sum, because it has lost all digits of the logarithm. Its `g[j]` is split evenly among the
/// elements up to `j` that are equal to it; these parts are added in f64 from the last `j` down.
///
/// # Shapes
///
/// `input`, `output` (of the forward pass), `grad_out` and `grad_input` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: each line is computed in the given order.
///
/// # Errors
///
/// As [`cumsum`](super::cumsum).
pub fn logcumsumexp_backward<T: Float>(
    input: &[T],
    output: &[T],
    grad_out: &[T],
    [outer, dim, inner]: [usize; 3],
    grad_input: &mut [T],
) -> Result<()> {
    const OP: &str = "logcumsumexp";
    expect_size(OP, "input", input.len(), &[outer, dim, inner])?;
    expect_size(OP, "output", output.len(), &[outer, dim, inner])?;
    expect_size(OP, "grad_out", grad_out.len(), &[outer, dim, inner])?;
    expect_size(OP, "grad_input", grad_input.len(), &[outer, dim, inner])?;
    if grad_input.is_empty() {
        return Ok(());
    }
    let slab = dim * inner;
    parallel::chunks_mut(grad_input, slab).enumerate().for_each(|(o, grad_input)| {
        let range = o * slab..(o + 1) * slab;
        let (input, output) = (&input[range.clone()], &output[range.clone()]);
        let grad_out = &grad_out[range];
        for j in 0..inner {
            let (mut m, mut s) = (f64::NEG_INFINITY, 0.0);
            // The current large result: its value, the number of elements up to here that are equal
            // to it, and the part of the gradient for each.
            let (mut large, mut among, mut each) = (0.0, 0usize, 0.0);
            for k in (0..dim).rev() {
                let at = |k: usize| k * inner + j;
                let wide = |x: &[T], k: usize| -> f64 { x[at(k)].into() };
                let (x, y, g) = (wide(input, k), wide(output, k), wide(grad_out, k));
                let n = -y;
                if y.abs() >= T::LARGE_LOG {
                    if y != large {
                        let run = (0..=k).rev().take_while(|&k| wide(output, k) == y);
                        (large, among, each) =
                            (y, run.filter(|&k| wide(input, k) == y).count(), 0.0);
                    }
                    each += g / among as f64;
                } else if m == f64::NEG_INFINITY && s == 0.0 {
                    (m, s) = (n, g);
                } else if m > n {
                    s += g * exp(n - m);
                } else if m == n {
                    s += g;
                } else {
                    (m, s) = (n, s * exp(m - n) + g);
                }
                // After +inf the sum is 0, unless it is NaN.
                let sum = if x == f64::INFINITY && !m.is_nan() { 0.0 } else { s * exp(m + x) };
                let sum = if x == large && y == large && among > 0 {
                    among -= 1;
                    sum + each
                } else {
                    sum
                };
                grad_input[at(k)] = T::from_f64(sum).canonical();
            }
        }
    });
    Ok(())
}

/// Computes the largest (or smallest) of each element and all before it, and its index in the
/// dimension. Of equal elements the first is taken; NaN counts as both the largest and the
/// smallest.
///
/// # Shapes
///
/// `input`, `values` and `indices` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: values are only moved, except that NaN becomes canonical.
///
/// # Errors
///
/// As [`cumsum`](super::cumsum).
///
/// # Examples
///
/// ```
/// let (mut values, mut indices) = ([0.0f32; 4], [0; 4]);
/// let input = [1.0, 3.0, 3.0, 2.0];
/// samebits_cpu_kernels::scan::cumextreme(&input, [1, 4, 1], true, &mut values, &mut indices)?;
/// assert_eq!((values, indices), ([1.0, 3.0, 3.0, 3.0], [0, 1, 1, 1]));
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.cummax` and `torch.cummin`, which take the last of equal elements.
pub fn cumextreme<T: Float>(
    input: &[T],
    [outer, dim, inner]: [usize; 3],
    largest: bool,
    values: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    let op = if largest { "cummax" } else { "cummin" };
    expect_size(op, "input", input.len(), &[outer, dim, inner])?;
    expect_size(op, "values", values.len(), &[outer, dim, inner])?;
    expect_size(op, "indices", indices.len(), &[outer, dim, inner])?;
    if values.is_empty() {
        return Ok(());
    }
    let slab = dim * inner;
    let piece = (CHUNK / slab).max(1) * slab;
    let pieces = parallel::chunks_mut(values, piece).zip(parallel::chunks_mut(indices, piece));
    pieces.zip(parallel::chunks(input, piece)).for_each(|((values, indices), input)| {
        let size = [dim, inner];
        simd::dispatch(ScanExtremes { input, size, largest, values, indices });
    });
    Ok(())
}

/// Arguments of a kernel: slabs of a size (dim, inner).
struct ScanExtremes<'a, T> {
    input: &'a [T],
    size: [usize; 2],
    largest: bool,
    values: &'a mut [T],
    indices: &'a mut [i64],
}

/// The number of neighbours that are compared together, and for matrices of fewer columns.
const LANES: usize = short::MOST;
const FEW: usize = 4;

/// The length of rows up to which several are scanned together.
const SHORT: usize = 128;

impl<T: Float> Kernel for ScanExtremes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ScanExtremes { input, size: [dim, inner], largest, values, indices } = self;
        let slab = dim * inner;
        let (input, values, indices) = if inner == 1 && dim <= SHORT {
            extremes_of_short_rows(input, dim, largest, values, indices)
        } else {
            (input, values, indices)
        };
        let outputs = values.chunks_exact_mut(slab).zip(indices.chunks_exact_mut(slab));
        for (input, (values, indices)) in input.chunks_exact(slab).zip(outputs) {
            if inner == 1 {
                extreme_of_row(input, largest, values, indices);
            } else if inner <= FEW {
                let size = [dim, inner];
                extremes_of_columns::<T, FEW>(input, size, largest, 0..inner, values, indices);
            } else {
                for column in (0..inner).step_by(LANES) {
                    let (size, columns) = ([dim, inner], column..inner.min(column + LANES));
                    extremes_of_columns::<T, LANES>(input, size, largest, columns, values, indices);
                }
            }
        }
    }
}

/// Returns true if `new` replaces the earlier element `old` as the extremum.
#[inline(always)]
fn replaces<T: Float>(largest: bool, old: T, new: T) -> bool {
    (largest & replaces_max(old, new)) | (!largest & replaces_min(old, new))
}

/// Scans groups of [`FEW`] rows of length `n`, each a chain of its own; returns the rows left over.
#[inline(always)]
fn extremes_of_short_rows<'a, T: Float>(
    input: &'a [T],
    n: usize,
    largest: bool,
    values: &'a mut [T],
    indices: &'a mut [i64],
) -> (&'a [T], &'a mut [T], &'a mut [i64]) {
    let together = input.len() / n / FEW * FEW * n;
    let (input, input_rest) = input.split_at(together);
    let (values, values_rest) = values.split_at_mut(together);
    let (indices, indices_rest) = indices.split_at_mut(together);
    let outputs = values.chunks_exact_mut(FEW * n).zip(indices.chunks_exact_mut(FEW * n));
    for (input, (values, indices)) in input.chunks_exact(FEW * n).zip(outputs) {
        let (mut best, mut places) = ([T::ZERO; FEW], [0; FEW]);
        for k in 0..n {
            for row in 0..FEW {
                let x = input[row * n + k];
                let replaces = (k == 0) | replaces(largest, best[row], x);
                best[row] = select_unpredictable(replaces, x, best[row]);
                places[row] = select_unpredictable(replaces, k as i64, places[row]);
                values[row * n + k] = best[row].canonical();
                indices[row * n + k] = places[row];
            }
        }
    }
    (input_rest, values_rest, indices_rest)
}

/// Scans a row. Most neighbours replace nothing, which one test shows for all of them.
#[inline(always)]
fn extreme_of_row<T: Float>(input: &[T], largest: bool, values: &mut [T], indices: &mut [i64]) {
    let (mut best, mut place) = (input[0], 0);
    let outputs = values.chunks_mut(LANES).zip(indices.chunks_mut(LANES));
    for (number, (input, (values, indices))) in input.chunks(LANES).zip(outputs).enumerate() {
        if let (Some(input), Some(values), Some(indices)) = (
            input.first_chunk::<LANES>(),
            values.first_chunk_mut::<LANES>(),
            indices.first_chunk_mut::<LANES>(),
        ) {
            let mut any = false;
            for &x in input {
                any |= replaces(largest, best, x);
            }
            if !any {
                *values = [best.canonical(); LANES];
                *indices = [place; LANES];
                continue;
            }
        }
        let outputs = values.iter_mut().zip(indices);
        for (k, (&x, (value, index))) in (number * LANES..).zip(input.iter().zip(outputs)) {
            let replaces = replaces(largest, best, x);
            best = select_unpredictable(replaces, x, best);
            place = select_unpredictable(replaces, k as i64, place);
            (*value, *index) = (best.canonical(), place);
        }
    }
}

/// Scans up to `N` columns of a matrix of a size (rows, columns).
#[inline(always)]
fn extremes_of_columns<T: Float, const N: usize>(
    input: &[T],
    [dim, inner]: [usize; 2],
    largest: bool,
    columns: std::ops::Range<usize>,
    values: &mut [T],
    indices: &mut [i64],
) {
    let (mut best, mut places) = (Aligned([T::ZERO; N]), Aligned([0i64; N]));
    for k in 0..dim {
        // Short rows read past their end; the excess is discarded.
        let from = &input[k * inner + columns.start..];
        let mut x = [T::ZERO; N];
        match from.first_chunk::<N>() {
            Some(from) => x = *from,
            None => short::copy(from, &mut x[..from.len()]),
        }
        if k == 0 {
            *best = x;
        }
        let mut value = [T::ZERO; N];
        for lane in 0..N {
            let replaces = replaces(largest, best[lane], x[lane]);
            best[lane] = select_unpredictable(replaces, x[lane], best[lane]);
            places[lane] = select_unpredictable(replaces, k as i64, places[lane]);
            value[lane] = best[lane].canonical();
        }
        let row = k * inner + columns.start..k * inner + columns.end;
        short::copy(&value[..columns.len()], &mut values[row.clone()]);
        short::copy(&places[..columns.len()], &mut indices[row]);
    }
}

/// Computes the gradient of a line; `products` is scratch space of its length.
fn product_line<T: Float>(
    input: &[T],
    grad_out: &[T],
    grad_input: &mut [T],
    products: &mut [f64],
    at: impl Fn(usize) -> usize,
) {
    let n = products.len();
    let zero = (0..n).find(|&k| input[at(k)] == T::ZERO).unwrap_or(n);
    let second = (zero + 1..n).find(|&k| input[at(k)] == T::ZERO).unwrap_or(n);
    // The products up to each element, without the first zero, as long as they are not zero.
    let products = &mut products[..second];
    let mut product = 1.0;
    for (k, slot) in products.iter_mut().enumerate() {
        if k != zero {
            product *= input[at(k)].into();
        }
        *slot = product;
    }
    for k in zero..n {
        grad_input[at(k)] = T::ZERO;
    }
    let mut sum = 0.0;
    for k in (zero.min(second)..second).rev() {
        let grad: f64 = grad_out[at(k)].into();
        sum += grad * products[k];
    }
    if zero < n {
        grad_input[at(zero)] = T::from_f64(sum).canonical();
    }
    let mut sum = 0.0;
    for k in (0..zero).rev() {
        let grad: f64 = grad_out[at(k)].into();
        sum += grad * products[k];
        grad_input[at(k)] = T::from_f64(sum / input[at(k)].into()).canonical();
    }
}
