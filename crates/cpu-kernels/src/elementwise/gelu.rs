//! The Gaussian error linear unit and its gradient, in one pass over memory each.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use samebits_numerics::simd::{self, Aligned, Kernel};
use samebits_tensor_core::ops::GeluForm;

use super::{Elementary, weighed, within};
use crate::error::{Result, expect_len};
use crate::parallel::pieces;

const GELU: &str = "gelu";

/// Computes `out[i] = x[i] · share`; see [`Gelu`](samebits_tensor_core::ops::Gelu).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn gelu<T: Elementary>(form: GeluForm, x: &[T], out: &mut [T]) -> Result<()> {
    expect_len(GELU, "x", x.len(), out.len())?;
    pieces(out, |start, out| {
        let x = &x[start..start + out.len()];
        match form {
            GeluForm::Erf => simd::dispatch(Forward { form: Erf, x, out }),
            GeluForm::Tanh => simd::dispatch(Forward { form: Tanh, x, out }),
        }
    });
    Ok(())
}

/// Computes `out[i] = found[i] + …`: the terms of the gradient in the order that
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

/// The number of elements that go through each step together.
const BLOCK: usize = 256;

/// The bound beyond which the share is 0 or 1 and its slope 0.
const STEADY: f64 = 64.0;

/// A form of the unit, and the sum of its gradient.
trait Form<T> {
    /// Computes the odd function between −1 and 1 that determines the share of each `x`; `spare` is
    /// scratch space of equal length.
    fn odd(&self, x: &[T], spare: &mut [T], odd: &mut [T]);

    /// Computes the slopes of the odd function, unless they follow from its values; `spare` is
    /// scratch space of equal length.
    fn slopes(&self, x: &[T], spare: &mut [T], slopes: &mut [T]);

    /// Returns the terms of the gradient at `x`, added to `found`.
    fn onto(&self, found: T, grad: T, x: T, odd: T, slope: T) -> T;
}

struct Erf;

impl<T: Elementary> Form<T> for Erf {
    #[inline(always)]
    fn odd(&self, x: &[T], spare: &mut [T], odd: &mut [T]) {
        for (z, &x) in spare.iter_mut().zip(x) {
            *z = x * T::from_f64(FRAC_1_SQRT_2);
        }
        T::erf_each(spare, odd);
    }

    #[inline(always)]
    fn slopes(&self, x: &[T], spare: &mut [T], slopes: &mut [T]) {
        for (square, &x) in spare.iter_mut().zip(x) {
            let z = x * T::from_f64(FRAC_1_SQRT_2);
            *square = -(z * z);
        }
        T::exp_each(spare, slopes);
    }

    #[inline(always)]
    fn onto(&self, found: T, grad: T, x: T, odd: T, slope: T) -> T {
        let bell = slope * T::from_f64(FRAC_2_SQRT_PI);
        let last = grad * x * T::from_f64(0.5) * bell * T::from_f64(FRAC_1_SQRT_2);
        found + grad * half_around(odd) + last
    }
}

struct Tanh;

impl Tanh {
    const CUBIC: f64 = 0.044715;
    /// The constant √(2/π).
    const SCALE: f64 = FRAC_1_SQRT_2 * FRAC_2_SQRT_PI;
}

impl<T: Elementary> Form<T> for Tanh {
    #[inline(always)]
    fn odd(&self, x: &[T], spare: &mut [T], odd: &mut [T]) {
        for (inner, &x) in spare.iter_mut().zip(x) {
            let cube = x * x * x;
            *inner = (x + cube * T::from_f64(Self::CUBIC)) * T::from_f64(Self::SCALE);
        }
        T::tanh_each(spare, odd);
    }

    #[inline(always)]
    fn slopes(&self, _: &[T], _: &mut [T], _: &mut [T]) {}

    #[inline(always)]
    fn onto(&self, found: T, grad: T, x: T, odd: T, _: T) -> T {
        let slope = T::ONE - odd * odd;
        let h = grad * x * T::from_f64(0.5) * slope * T::from_f64(Self::SCALE);
        let k = h * T::from_f64(Self::CUBIC);
        let last = k * x * x;
        found + grad * half_around(odd) + h + k * (x * x) + last + last
    }
}

/// Returns `odd · 0.5 + 0.5`, which is between 0 and 1 for a function between −1 and 1.
#[inline(always)]
fn half_around<T: Elementary>(odd: T) -> T {
    odd * T::from_f64(0.5) + T::from_f64(0.5)
}

struct Forward<'a, T, F> {
    form: F,
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary, F: Form<T>> Kernel for Forward<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (mut spare, mut odd) = (Aligned([T::ZERO; BLOCK]), Aligned([T::ZERO; BLOCK]));
        for (out, x) in self.out.chunks_mut(BLOCK).zip(self.x.chunks(BLOCK)) {
            self.form.odd(x, &mut spare[..x.len()], &mut odd[..x.len()]);
            for ((out, &x), &odd) in out.iter_mut().zip(x).zip(&*odd) {
                *out = weighed(x, half_around(odd)).canonical();
            }
        }
    }
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
        let [mut near, mut spare, mut odd, mut slopes] = [Aligned([T::ZERO; BLOCK]); 4];
        for start in (0..self.x.len()).step_by(BLOCK) {
            let range = start..self.x.len().min(start + BLOCK);
            let (grad, x) = (&self.grad[range.clone()], &self.x[range.clone()]);
            let out = &mut self.out[range.clone()];
            let near = &mut near[..x.len()];
            for (near, &x) in near.iter_mut().zip(x) {
                *near = within(x, T::from_f64(STEADY));
            }
            let x = &*near;
            let (spare, odd) = (&mut spare[..x.len()], &mut odd[..x.len()]);
            let slopes = &mut slopes[..x.len()];
            self.form.odd(x, spare, odd);
            self.form.slopes(x, spare, slopes);
            let inputs = out.iter_mut().zip(grad).zip(x).zip(odd.iter().zip(&*slopes));
            match self.found {
                Some(found) => {
                    for ((((out, &grad), &x), (&odd, &slope)), &found) in inputs.zip(&found[range])
                    {
                        *out = self.form.onto(found, grad, x, odd, slope).canonical();
                    }
                }
                None => {
                    for (((out, &grad), &x), (&odd, &slope)) in inputs {
                        // -0 + y is y, even for a zero y.
                        *out = self.form.onto(-T::ZERO, grad, x, odd, slope).canonical();
                    }
                }
            }
        }
    }
}
