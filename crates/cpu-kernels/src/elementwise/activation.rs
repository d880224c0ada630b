//! Activation functions and gradients that have several steps, in one pass over memory each.

use samebits_numerics::simd::{self, Aligned, Kernel};
use samebits_tensor_core::ops::RampKind;

use super::{Elementary, weighed, within};
use crate::error::{Result, expect_len};
use crate::parallel::pieces;

/// The number of elements that go through each step together.
const BLOCK: usize = 256;

/// The bound beyond which the slope of a gate is 0.
const STEADY: f64 = 1024.0;

/// Computes `out[i] = x[i] · sigmoid(x[i])`; see [`Silu`](samebits_tensor_core::ops::Silu).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn silu<T: Elementary>(x: &[T], out: &mut [T]) -> Result<()> {
    expect_len("silu", "x", x.len(), out.len())?;
    pieces(out, |start, out| simd::dispatch(Silu { x: &x[start..][..out.len()], out }));
    Ok(())
}

struct Silu<'a, T> {
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Silu<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (out, x) in self.out.chunks_mut(BLOCK).zip(self.x.chunks(BLOCK)) {
            T::sigmoid_each(x, out);
            for (out, &x) in out.iter_mut().zip(x) {
                *out = weighed(x, *out).canonical();
            }
        }
    }
}

/// Computes `out[i] = found[i] + …`: the terms of the gradient in the order that
/// [`SiluGrad`](samebits_tensor_core::ops::SiluGrad) states.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn silu_backward<T: Elementary>(
    grad: &[T],
    x: &[T],
    found: Option<&[T]>,
    out: &mut [T],
) -> Result<()> {
    for (what, slice) in [("grad", Some(grad)), ("x", Some(x)), ("found", found)] {
        expect_len("silu", what, slice.map_or(out.len(), <[T]>::len), out.len())?;
    }
    pieces(out, |start, out| {
        let part = |all| -> &[T] { &<[T]>::as_ref(all)[start..][..out.len()] };
        simd::dispatch(SiluBackward { grad: part(grad), x: part(x), found: found.map(part), out });
    });
    Ok(())
}

struct SiluBackward<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    found: Option<&'a [T]>,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for SiluBackward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let slope = |grad: T, x: T, gate: T| {
            grad * within(x, T::from_f64(STEADY)) * ((T::ONE - gate) * gate)
        };
        let pieces = self.grad.chunks(BLOCK).zip(self.x.chunks(BLOCK));
        for (number, (out, (grad, x))) in self.out.chunks_mut(BLOCK).zip(pieces).enumerate() {
            T::sigmoid_each(x, out);
            let inputs = grad.iter().zip(x);
            match self.found {
                Some(found) => {
                    let found = &found[number * BLOCK..];
                    for ((out, &found), (&grad, &x)) in out.iter_mut().zip(found).zip(inputs) {
                        let gate = *out;
                        *out = (found + grad * gate + slope(grad, x, gate)).canonical();
                    }
                }
                None => {
                    for (out, (&grad, &x)) in out.iter_mut().zip(inputs) {
                        let gate = *out;
                        *out = (grad * gate + slope(grad, x, gate)).canonical();
                    }
                }
            }
        }
    }
}

/// Computes a smooth form of a ramp; see [`Ramp`](samebits_tensor_core::ops::Ramp).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn ramp<T: Elementary>(kind: RampKind, x: &[T], out: &mut [T]) -> Result<()> {
    expect_len("ramp", "x", x.len(), out.len())?;
    pieces(out, |start, out| {
        let x = &x[start..][..out.len()];
        match kind {
            RampKind::LogSigmoid => simd::dispatch(LogSigmoid { x, out }),
            RampKind::Softplus { beta, threshold } => {
                let [beta, threshold, inverse] = [beta, threshold, 1.0 / beta].map(T::from_f64);
                simd::dispatch(Softplus { x, beta, threshold, inverse, out });
            }
        }
    });
    Ok(())
}

struct LogSigmoid<'a, T> {
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for LogSigmoid<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (mut falling, mut tail) = (Aligned([T::ZERO; BLOCK]), Aligned([T::ZERO; BLOCK]));
        for (out, x) in self.out.chunks_mut(BLOCK).zip(self.x.chunks(BLOCK)) {
            for (falling, &x) in falling.iter_mut().zip(x) {
                *falling = -x.abs();
            }
            let (falling, tail) = (&mut falling[..x.len()], &mut tail[..x.len()]);
            T::exp_each(falling, tail);
            T::log1p_each(tail, out);
            for (out, &x) in out.iter_mut().zip(x) {
                // Written so that NaN falls through to x.
                let low = if x > T::ZERO { T::ZERO } else { x };
                *out = (low - *out).canonical();
            }
        }
    }
}

struct Softplus<'a, T> {
    x: &'a [T],
    beta: T,
    threshold: T,
    inverse: T,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Softplus<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (mut scaled, mut tail) = (Aligned([T::ZERO; BLOCK]), Aligned([T::ZERO; BLOCK]));
        for (out, x) in self.out.chunks_mut(BLOCK).zip(self.x.chunks(BLOCK)) {
            let (scaled, tail) = (&mut scaled[..x.len()], &mut tail[..x.len()]);
            for (scaled, &x) in scaled.iter_mut().zip(x) {
                *scaled = x * self.beta;
            }
            T::exp_each(scaled, tail);
            T::log1p_each(tail, out);
            for ((out, &x), &scaled) in out.iter_mut().zip(x).zip(&*scaled) {
                let curve = *out * self.inverse;
                *out = (if scaled > self.threshold { x } else { curve }).canonical();
            }
        }
    }
}

/// Computes the gradient of [`ramp`]; see [`RampGrad`](samebits_tensor_core::ops::RampGrad).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn ramp_backward<T: Elementary>(
    kind: RampKind,
    grad: &[T],
    x: &[T],
    out: &mut [T],
) -> Result<()> {
    expect_len("ramp", "grad", grad.len(), out.len())?;
    expect_len("ramp", "x", x.len(), out.len())?;
    pieces(out, |start, out| {
        let range = start..start + out.len();
        let (grad, x) = (&grad[range.clone()], &x[range]);
        let (beta, threshold) = match kind {
            RampKind::LogSigmoid => (-T::ONE, None),
            RampKind::Softplus { beta, threshold } => {
                (T::from_f64(beta), Some(T::from_f64(threshold)))
            }
        };
        simd::dispatch(RampBackward { grad, x, beta, threshold, out });
    });
    Ok(())
}

struct RampBackward<'a, T> {
    grad: &'a [T],
    x: &'a [T],
    beta: T,
    threshold: Option<T>,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for RampBackward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let RampBackward { grad, x, beta, threshold, out } = self;
        let mut scaled = Aligned([T::ZERO; BLOCK]);
        let pieces = grad.chunks(BLOCK).zip(x.chunks(BLOCK));
        for (out, (grad, x)) in out.chunks_mut(BLOCK).zip(pieces) {
            let scaled = &mut scaled[..x.len()];
            for (scaled, &x) in scaled.iter_mut().zip(x) {
                *scaled = x * beta;
            }
            T::sigmoid_each(scaled, out);
            if let Some(threshold) = threshold {
                for (slope, &scaled) in out.iter_mut().zip(&*scaled) {
                    *slope = if scaled > threshold { T::ONE } else { *slope };
                }
            }
            for (out, &grad) in out.iter_mut().zip(grad) {
                *out = (grad * *out).canonical();
            }
        }
    }
}
