//! The functions as zero-sized types, for kernels that are generic over them.

#[cfg(target_arch = "x86_64")]
use super::pairs;
use super::{erf, exp, log, trig};
use crate::simd::{self, Level};

/// A function of one f32, as a zero-sized type.
///
/// [`map`](UnaryF32::map) applies it to a slice with the best available instructions. A kernel that
/// fuses it with its own work calls [`eval`](UnaryF32::eval) inside its own
/// [`Kernel`](simd::Kernel).
///
/// # Examples
///
/// ```
/// use samebits_numerics::math::{Exp, UnaryF32};
///
/// let mut y = [0.0; 3];
/// Exp.map(&[0.0, 1.0, f32::INFINITY], &mut y);
/// assert_eq!(y, [1.0, core::f32::consts::E, f32::INFINITY]);
/// ```
pub trait UnaryF32: Copy + Send + Sync {
    /// The function's name in [`math`](crate::math).
    const NAME: &'static str;

    /// Returns the function's value at `x`. Implementations are `#[inline(always)]`.
    fn eval(self, x: f32) -> f32;

    /// Applies the function to each element: the loop that [`map`](UnaryF32::map) compiles for each
    /// level.
    #[inline(always)]
    fn each(self, input: &[f32], output: &mut [f32]) {
        for (y, &x) in output.iter_mut().zip(input) {
            *y = self.eval(x);
        }
    }

    /// Sets each `output[i]` to the function's value at `input[i]`.
    ///
    /// # Shapes
    ///
    /// The slices have equal lengths.
    ///
    /// # Determinism
    ///
    /// Equal in bits to [`eval`](UnaryF32::eval), at every SIMD level.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[inline]
    fn map(self, input: &[f32], output: &mut [f32]) {
        self.map_at(simd::level(), input, output);
    }

    /// Computes [`map`](UnaryF32::map) at `level`, or at the best level of this machine if that is
    /// lower.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[inline]
    fn map_at(self, level: Level, input: &[f32], output: &mut [f32]) {
        assert_eq!(
            input.len(),
            output.len(),
            "math::{}: input and output must be equally long",
            Self::NAME
        );
        self.map_equally_long(level, input, output);
    }

    /// Computes [`map_at`](UnaryF32::map_at) of slices of equal lengths.
    #[doc(hidden)]
    #[inline]
    fn map_equally_long(self, level: Level, input: &[f32], output: &mut [f32]) {
        simd::dispatch_at(level, Map(self, input, output));
    }
}

struct Map<'a, F>(F, &'a [f32], &'a mut [f32]);

impl<F: UnaryF32> simd::Kernel for Map<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.0.each(self.1, self.2);
    }
}

/// Applies `near` to each chunk whose elements are all [`is_near`](trig::is_near), else `any`.
///
/// Both give the same bits; `near` is faster, and few slices contain an angle that needs `any`.
#[inline(always)]
fn each_angle(
    input: &[f32],
    output: &mut [f32],
    near: impl Fn(f32) -> f32,
    any: impl Fn(f32) -> f32,
) {
    const CHUNK: usize = 128;
    for (y, x) in output.chunks_mut(CHUNK).zip(input.chunks(CHUNK)) {
        if x.iter().fold(true, |all, &x| all & trig::is_near(x)) {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = near(x);
            }
        } else {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = any(x);
            }
        }
    }
}

/// Defines the functions. `near` and `each` name other loops over slices; `pairs map 2` computes slices with
/// [`pairs::map`](super::pairs), two vectors at a time, where this machine and the level have them.
macro_rules! functions {
    ($($(#[$doc:meta])* $type:ident = $name:ident $(, near $near:path)? $(, each $each:path)? $(, pairs $map:ident $together:literal)?;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $type;

            impl UnaryF32 for $type {
                const NAME: &'static str = stringify!($name);
                #[inline(always)]
                fn eval(self, x: f32) -> f32 {
                    super::$name(x)
                }
                $(
                    #[inline(always)]
                    fn each(self, input: &[f32], output: &mut [f32]) {
                        each_angle(input, output, $near, super::$name);
                    }
                )?
                $(
                    #[inline(always)]
                    fn each(self, input: &[f32], output: &mut [f32]) {
                        $each(input, output);
                    }
                )?
                $(
                    #[inline]
                    fn map_equally_long(self, level: Level, input: &[f32], output: &mut [f32]) {
                        #[cfg(target_arch = "x86_64")]
                        if pairs::$map::<pairs::$type, $together>(level, input, output) {
                            return;
                        }
                        simd::dispatch_at(level, Map(self, input, output));
                    }
                )?
            }
        )*

        /// The functions on slices.
        ///
        /// Each sets `output[i]` to its function's value at `input[i]`, equal in bits to the
        /// scalar function at every SIMD level, and panics if the slices differ in length.
        pub mod slice {
            use super::UnaryF32;
            $(
                #[doc = concat!("Computes [`", stringify!($name), "`](crate::math::", stringify!($name), "()) of each element.")]
                ///
                /// # Panics
                ///
                /// If the slices differ in length.
                pub fn $name(input: &[f32], output: &mut [f32]) {
                    super::$type.map(input, output);
                }
            )*

            pub use super::super::pow::{pow_slice as pow, pow_slice_scalar as pow_scalar};
        }
    };
}

functions! {
    /// [`exp`](super::exp()).
    Exp = exp, each exp::exp_each, pairs map 2;
    /// [`exp2`](super::exp2()).
    Exp2 = exp2;
    /// [`expm1`](super::expm1()).
    Expm1 = expm1;
    /// [`log`](super::log()).
    Log = log, each log::log_each, pairs map 2;
    /// [`log2`](super::log2()).
    Log2 = log2, each log::log2_each, pairs map 2;
    /// [`log10`](super::log10()).
    Log10 = log10, each log::log10_each, pairs map 2;
    /// [`log1p`](super::log1p()).
    Log1p = log1p, each log::log1p_each, pairs map 2;
    /// [`sin`](super::sin()).
    Sin = sin, near trig::sin_near;
    /// [`cos`](super::cos()).
    Cos = cos, near trig::cos_near;
    /// [`tan`](super::tan()).
    Tan = tan, near trig::tan_near;
    /// [`sinpi`](super::sinpi()).
    Sinpi = sinpi;
    /// [`cospi`](super::cospi()).
    Cospi = cospi;
    /// [`asin`](super::asin()).
    Asin = asin;
    /// [`acos`](super::acos()).
    Acos = acos;
    /// [`atan`](super::atan()).
    Atan = atan;
    /// [`sinh`](super::sinh()).
    Sinh = sinh;
    /// [`cosh`](super::cosh()).
    Cosh = cosh;
    /// [`tanh`](super::tanh()).
    Tanh = tanh, pairs map 2;
    /// [`sigmoid`](super::sigmoid()).
    Sigmoid = sigmoid, each exp::sigmoid_each, pairs map 4;
    /// [`erf`](super::erf()).
    Erf = erf, each erf::erf_each, pairs map_wide 2;
    /// [`erfc`](super::erfc()).
    Erfc = erfc;
    /// [`sqrt`](super::sqrt()).
    Sqrt = sqrt;
    /// [`rsqrt`](super::rsqrt()).
    Rsqrt = rsqrt, pairs map 2;
    /// [`cbrt`](super::cbrt()).
    Cbrt = cbrt;
}
