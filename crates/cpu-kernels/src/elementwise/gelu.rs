//! The Gaussian error linear unit and its gradient, in one pass over memory each.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::ops::GeluForm;

use super::{Elementary, Function1, unary_with};
use crate::error::{Result, expect_len};
use crate::parallel::pieces;

const GELU: &str = "gelu";

/// `out[i] = x[i] · share`; see [`Gelu`](samebits_tensor_core::ops::Gelu).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn gelu<T: Elementary>(form: GeluForm, x: &[T], out: &mut [T]) -> Result<()> {
    expect_len(GELU, "x", x.len(), out.len())?;
    match form {
        GeluForm::Erf => unary_with(Erf, x, out),
        GeluForm::Tanh => unary_with(Tanh, x, out),
    }
    Ok(())
}

/// `out[i] = found[i] + …`, the shares of the gradient in the order that
/// [`GeluGrad`](samebits_tensor_core::ops::GeluGrad) states.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn gelu_backward<T: Elementary>(
    form: GeluForm,
    grad: &[T],
    x: &[T],
    found: Option<&[T]>,
    out: &mut [T],
) -> Result<()> {
    expect_len(GELU, "grad", grad.len(), out.len())?;
    expect_len(GELU, "x", x.len(), out.len())?;
    if let Some(found) = found {
        expect_len(GELU, "found", found.len(), out.len())?;
    }
    pieces(out, |start, out| {
        let range = start..start + out.len();
        let (grad, x) = (&grad[range.clone()], &x[range.clone()]);
        let found = found.map(|found| &found[range]);
        match form {
            GeluForm::Erf => simd::dispatch(Backward { form: Erf, grad, x, found, out }),
            GeluForm::Tanh => simd::dispatch(Backward { form: Tanh, grad, x, found, out }),
        }
    });
    Ok(())
}

/// A form of the unit and how its gradient adds up.
trait Form<T>: Function1<T> {
    /// The shares of the gradient at `x`, added to `found`.
    fn onto(self, found: T, grad: T, x: T) -> T;
}

#[derive(Clone, Copy)]
struct Erf;

impl<T: Elementary> Function1<T> for Erf {
    #[inline(always)]
    fn eval(self, x: T) -> T {
        x * half_around((x * T::from_f64(FRAC_1_SQRT_2)).erf())
    }
}

impl<T: Elementary> Form<T> for Erf {
    #[inline(always)]
    fn onto(self, found: T, grad: T, x: T) -> T {
        let scale = T::from_f64(FRAC_1_SQRT_2);
        let z = x * scale;
        let bell = (-(z * z)).exp() * T::from_f64(FRAC_2_SQRT_PI);
        let slope = grad * x * T::from_f64(0.5) * bell * scale;
        found + grad * half_around(z.erf()) + slope
    }
}

#[derive(Clone, Copy)]
struct Tanh;

impl Tanh {
    const CUBIC: f64 = 0.044715;
    /// √(2/π)
    const SCALE: f64 = FRAC_1_SQRT_2 * FRAC_2_SQRT_PI;

    #[inline(always)]
    fn curve<T: Elementary>(x: T) -> T {
        let cube = x * x * x;
        ((x + cube * T::from_f64(Self::CUBIC)) * T::from_f64(Self::SCALE)).tanh()
    }
}

impl<T: Elementary> Function1<T> for Tanh {
    #[inline(always)]
    fn eval(self, x: T) -> T {
        x * half_around(Self::curve(x))
    }
}

impl<T: Elementary> Form<T> for Tanh {
    #[inline(always)]
    fn onto(self, found: T, grad: T, x: T) -> T {
        let t = Self::curve(x);
        let slope = T::ONE - t * t;
        let h = grad * x * T::from_f64(0.5) * slope * T::from_f64(Self::SCALE);
        let k = h * T::from_f64(Self::CUBIC);
        let last = k * x * x;
        found + grad * half_around(t) + h + k * (x * x) + last + last
    }
}

/// `odd · 0.5 + 0.5`, which is between 0 and 1 for a function between −1 and 1.
#[inline(always)]
fn half_around<T: Elementary>(odd: T) -> T {
    odd * T::from_f64(0.5) + T::from_f64(0.5)
}

struct Backward<'a, T, F> {
    form: F,
    grad: &'a [T],
    x: &'a [T],
    found: Option<&'a [T]>,
    out: &'a mut [T],
}

impl<T: Elementary, F: Form<T>> Kernel for Backward<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let inputs = self.out.iter_mut().zip(self.grad).zip(self.x);
        match self.found {
            Some(found) => {
                for (((out, &grad), &x), &found) in inputs.zip(found) {
                    *out = self.form.onto(found, grad, x).canonical();
                }
            }
            None => {
                for ((out, &grad), &x) in inputs {
                    // -0 + y is y, for zeros too.
                    *out = self.form.onto(-T::ZERO, grad, x).canonical();
                }
            }
        }
    }
}
