//! The binary cross entropy of logits and its gradient, in one pass over memory each.

use samebits_numerics::simd::{self, Aligned, Kernel};

use super::{Elementary, Operand, weighed};
use crate::error::{Result, expect_len};
use crate::parallel::pieces;

/// The number of elements that go through each step together.
const BLOCK: usize = 256;

const OP: &str = "binary_cross_entropy_with_logits";

/// Computes the losses; see [`LogitLoss`](samebits_tensor_core::ops::LogitLoss).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn logit_loss<T: Elementary>(x: &[T], target: &[T], out: &mut [T]) -> Result<()> {
    expect_len(OP, "x", x.len(), out.len())?;
    expect_len(OP, "target", target.len(), out.len())?;
    pieces(out, |start, out| {
        let range = start..start + out.len();
        simd::dispatch(Losses { x: &x[range.clone()], target: &target[range], out });
    });
    Ok(())
}

struct Losses<'a, T> {
    x: &'a [T],
    target: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Losses<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let infinity = T::from_f64(f64::INFINITY);
        let (mut falling, mut tail) = (Aligned([T::ZERO; BLOCK]), Aligned([T::ZERO; BLOCK]));
        let pieces = self.x.chunks(BLOCK).zip(self.target.chunks(BLOCK));
        for (out, (x, target)) in self.out.chunks_mut(BLOCK).zip(pieces) {
            let (falling, tail) = (&mut falling[..x.len()], &mut tail[..x.len()]);
            for (falling, &x) in falling.iter_mut().zip(x) {
                *falling = -x.abs();
            }
            T::exp_each(falling, tail);
            T::log1p_each(tail, out);
            for (out, (&x, &target)) in out.iter_mut().zip(x.iter().zip(target)) {
                // Written so that NaN falls through to x.
                let low = if x > T::ZERO { T::ZERO } else { x };
                let loss = weighed(x, T::ONE - target) - (low - *out);
                let limit = weighed(infinity, target);
                *out = (if x == -infinity { limit } else { loss }).canonical();
            }
        }
    }
}

/// Computes the gradient; see [`LogitLossGrad`](samebits_tensor_core::ops::LogitLossGrad).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn logit_loss_backward<T: Elementary>(
    grad: Operand<'_, T>,
    x: &[T],
    target: &[T],
    found: Option<&[T]>,
    out: &mut [T],
) -> Result<()> {
    grad.expect_len(OP, "grad", out.len())?;
    for (what, slice) in [("x", Some(x)), ("target", Some(target)), ("found", found)] {
        expect_len(OP, what, slice.map_or(out.len(), <[T]>::len), out.len())?;
    }
    pieces(out, |start, out| {
        let part = |all| -> &[T] { &<[T]>::as_ref(all)[start..][..out.len()] };
        let (x, target, found) = (part(x), part(target), found.map(part));
        let grad = grad.part(start, out.len());
        simd::dispatch(Backward { grad, x, target, found, out });
    });
    Ok(())
}

struct Backward<'a, T> {
    grad: Operand<'a, T>,
    x: &'a [T],
    target: &'a [T],
    found: Option<&'a [T]>,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Backward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Backward { grad, x, target, found, out } = self;
        let mut turned = Aligned([T::ZERO; BLOCK]);
        let mut slopes = Aligned([T::ZERO; BLOCK]);
        let mut repeated = Aligned([T::ZERO; BLOCK]);
        if let Operand::Splat(grad) = grad {
            repeated.fill(grad);
        }
        let pieces = x.chunks(BLOCK).zip(target.chunks(BLOCK));
        for (number, (out, (x, target))) in out.chunks_mut(BLOCK).zip(pieces).enumerate() {
            let (start, n) = (number * BLOCK, x.len());
            let (turned, slopes) = (&mut turned[..n], &mut slopes[..n]);
            for (turned, &x) in turned.iter_mut().zip(x) {
                *turned = -x;
            }
            T::sigmoid_each(turned, slopes);
            let grad = match grad {
                Operand::Each(grad) => &grad[start..][..n],
                Operand::Splat(_) => &repeated[..n],
            };
            for (out, (&grad, &target)) in out.iter_mut().zip(grad.iter().zip(target)) {
                *out = grad * (T::ONE - target);
            }
            if let Some(found) = found {
                for (out, &found) in out.iter_mut().zip(&found[start..]) {
                    *out = found + *out;
                }
            }
            for (out, (&grad, &slope)) in out.iter_mut().zip(grad.iter().zip(&*slopes)) {
                *out = (*out + -grad * slope).canonical();
            }
        }
    }
}
