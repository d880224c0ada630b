//! Correctly rounded elementary functions.
//!
//! Each f32 function returns the f32 nearest to the true value (ties to even) for every one of the
//! 2^32 inputs: `cargo xtask verify-math` compares them all with an independent correctly rounded
//! library. ([`pow`] has two arguments; its documentation states what is proved.) So the result is
//! a mathematical fact, not a property of this implementation, and agrees with any other correctly
//! rounded implementation on any device. [`mod@f64`] has the same functions for f64, with errors
//! below one unit in the last place.
//!
//! They are evaluated in f64 with basic IEEE operations and fused multiply-add, without branches,
//! so that a loop over a slice becomes vector code ([`mod@slice`], [`UnaryF32`]). (With AVX2 and AVX-512
//! some functions of [`mod@slice`] compute with pairs of f32, and in f64 where their error could matter.) The scalar
//! functions are `#[inline(always)]` for use inside a [`Kernel`](crate::simd::Kernel). They assume
//! the IEEE environment that [`dispatch`](crate::simd::dispatch) sets up.
//!
//! A NaN result is always the canonical one, 0x7fc00000. Zeros, infinities and subnormals
//! follow IEEE 754 and Annex F of the C standard.
//!
//! # References
//!
//! * A. Sibidanov, P. Zimmermann and S. Glondu, *The CORE-MATH project*, ARITH 2022: the oracle
//!   of the exhaustive check.
//! * J. P. Lim and S. Nagarakatte, *RLIBM*, PLDI 2021: the idea that an f32 function needs only an
//!   f64 evaluation that is correct for the inputs nearest to a rounding boundary.
//! * J.-M. Muller, *Elementary Functions*, 3rd edition, 2016.

mod blocks;
mod dd;
mod erf;
mod exp;
pub mod f64;
mod fma;
mod inv_pi;
mod inverse;
mod log;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod pow;
mod root;
mod soft_fma;
mod trig;
mod unary;

pub use erf::{erf, erfc};
pub use exp::{cosh, exp, exp2, expm1, sigmoid, sinh, tanh};
pub use inverse::{acos, asin, atan};
pub use log::{log, log1p, log2, log10};
pub use pow::pow;
#[doc(hidden)]
pub use pow::{Exponents, pow_slice_at};
pub use root::{cbrt, rsqrt, sqrt};
pub use soft_fma::soft_fma;
pub use trig::{cos, cospi, sin, sinpi, tan};
pub use unary::{
    Acos, Asin, Atan, Cbrt, Cos, Cosh, Cospi, Erf, Erfc, Exp, Exp2, Expm1, Log, Log1p, Log2, Log10,
    Rsqrt, Sigmoid, Sin, Sinh, Sinpi, Sqrt, Tan, Tanh, UnaryF32, slice,
};
