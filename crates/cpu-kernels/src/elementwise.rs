//! Elementwise kernels.
//!
//! # Determinism
//!
//! `Portable`: every element is the same sequence of correctly rounded operations, whichever thread
//! or instruction set computes it.

mod activation;
mod formula;
mod function;
mod gelu;
pub(crate) mod halves;
mod logits;
mod wide;

use std::hint::select_unpredictable;

use samebits_numerics::math::{self, UnaryF32};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::ops::{BinaryKind, CompareKind, UnaryKind};

use crate::error::{Result, expect_len};
use crate::float::Float;
use crate::parallel::{costly_pieces, pieces};
use function::{Function1, Function2};
use wide::{
    Cos64, Erf64, Exp64, Exp264, Expm164, Log1p64, Log64, Log264, Log1064, Rsqrt64, Sigmoid64,
    Sin64, Tanh64,
};

pub use activation::{ramp, ramp_backward, silu, silu_backward};
pub(crate) use formula::Prepared;
pub use formula::formula;
pub use gelu::{gelu, gelu_backward};
pub use logits::{logit_loss, logit_loss_backward};

/// Computes `out[i] = f(x[i])`.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn unary<T: Elementary>(kind: UnaryKind, x: &[T], out: &mut [T]) -> Result<()> {
    expect_len("unary", "x", x.len(), out.len())?;
    costly_pieces(cost::<T>(is_simple(kind)), out, |start, out| {
        unary_piece(kind, &x[start..][..out.len()], out);
    });
    Ok(())
}

/// Returns true for a single IEEE operation.
fn is_simple(kind: UnaryKind) -> bool {
    use UnaryKind::{Abs, Neg, Reciprocal, Relu, Sqrt, Square};
    matches!(kind, Neg | Abs | Sqrt | Relu | Reciprocal | Square)
}

/// Returns how many simple functions take as long.
fn cost<T>(is_simple: bool) -> usize {
    match size_of::<T>() {
        _ if is_simple => 1,
        4 => 2,
        _ => 8,
    }
}

/// Computes a piece of [`unary`]; this and the functions of other pieces run inside
/// [`fpenv::ieee`](samebits_numerics::fpenv::ieee).
fn unary_piece<T: Elementary>(kind: UnaryKind, x: &[T], out: &mut [T]) {
    match kind {
        UnaryKind::Neg => map1(Neg, x, out),
        UnaryKind::Abs => map1(Abs, x, out),
        UnaryKind::Sqrt => map1(Sqrt, x, out),
        UnaryKind::Relu => map1(Relu, x, out),
        UnaryKind::Reciprocal => map1(Reciprocal, x, out),
        UnaryKind::Square => map1(Square, x, out),
        _ => T::elementary(kind, x, out),
    }
}

/// A float type with the elementary functions of [`math`]: correctly rounded for f32, fixed
/// sequences of basic operations for f64.
///
/// Functions of slices are compiled once for each instruction set, not again in each kernel that calls
/// them.
pub trait Elementary: Float {
    /// Computes e to the power of each element of a slice; the slices have equal lengths.
    fn exp_each(x: &[Self], out: &mut [Self]);

    /// Computes the natural logarithm of each element of a slice; the slices have equal lengths.
    fn log_each(x: &[Self], out: &mut [Self]);

    /// Computes the hyperbolic tangent of each element of a slice; the slices have equal lengths.
    fn tanh_each(x: &[Self], out: &mut [Self]);

    /// Returns the logarithm to base 2.
    #[must_use]
    fn log2(self) -> Self;

    /// Returns the reciprocal of the square root.
    #[must_use]
    fn rsqrt(self) -> Self;

    /// Computes the error function of each element of a slice; the slices have equal lengths.
    fn erf_each(x: &[Self], out: &mut [Self]);

    /// Computes log(1 + x) of each element of a slice; the slices have equal lengths.
    fn log1p_each(x: &[Self], out: &mut [Self]);

    /// Computes the logistic function of each element of a slice; the slices have equal lengths.
    fn sigmoid_each(x: &[Self], out: &mut [Self]);

    /// Computes `out[i] = f(x[i])` for a function that is not a single IEEE operation, on this thread.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[doc(hidden)]
    fn elementary(kind: UnaryKind, x: &[Self], out: &mut [Self]);

    /// Computes `out[i] = a[i]` to the power `b[i]`, on this thread.
    ///
    /// # Panics
    ///
    /// If an operand is too short.
    #[doc(hidden)]
    fn power(a: Operand<'_, Self>, b: Operand<'_, Self>, out: &mut [Self]);
}

impl Elementary for f32 {
    fn exp_each(x: &[f32], out: &mut [f32]) {
        math::slice::exp(x, out);
    }

    fn log_each(x: &[f32], out: &mut [f32]) {
        math::slice::log(x, out);
    }

    fn tanh_each(x: &[f32], out: &mut [f32]) {
        math::slice::tanh(x, out);
    }

    #[inline(always)]
    fn log2(self) -> f32 {
        math::log2(self)
    }

    #[inline(always)]
    fn rsqrt(self) -> f32 {
        math::rsqrt(self)
    }

    fn erf_each(x: &[f32], out: &mut [f32]) {
        math::slice::erf(x, out);
    }

    fn log1p_each(x: &[f32], out: &mut [f32]) {
        math::slice::log1p(x, out);
    }

    fn sigmoid_each(x: &[f32], out: &mut [f32]) {
        math::slice::sigmoid(x, out);
    }

    fn elementary(kind: UnaryKind, x: &[f32], out: &mut [f32]) {
        match kind {
            UnaryKind::Exp => math::Exp.map(x, out),
            UnaryKind::Exp2 => math::Exp2.map(x, out),
            UnaryKind::Expm1 => math::Expm1.map(x, out),
            UnaryKind::Log => math::Log.map(x, out),
            UnaryKind::Log2 => math::Log2.map(x, out),
            UnaryKind::Log10 => math::Log10.map(x, out),
            UnaryKind::Log1p => math::Log1p.map(x, out),
            UnaryKind::Rsqrt => math::Rsqrt.map(x, out),
            UnaryKind::Sin => math::Sin.map(x, out),
            UnaryKind::Cos => math::Cos.map(x, out),
            UnaryKind::Tanh => math::Tanh.map(x, out),
            UnaryKind::Sigmoid => math::Sigmoid.map(x, out),
            UnaryKind::Erf => math::Erf.map(x, out),
            _ => unreachable!("every kind has its function: {kind:?}"),
        }
    }

    fn power(a: Operand<'_, f32>, b: Operand<'_, f32>, out: &mut [f32]) {
        let repeated;
        let x = match a {
            Operand::Each(a) => a,
            Operand::Splat(a) => {
                repeated = vec![a; out.len()];
                &repeated
            }
        };
        match b {
            Operand::Each(b) => math::slice::pow(x, b, out),
            Operand::Splat(b) => math::slice::pow_scalar(x, b, out),
        }
    }
}

impl Elementary for f64 {
    fn exp_each(x: &[f64], out: &mut [f64]) {
        simd::dispatch(Map1 { f: Exp64, x, out });
    }

    fn log_each(x: &[f64], out: &mut [f64]) {
        simd::dispatch(Map1 { f: Log64, x, out });
    }

    fn tanh_each(x: &[f64], out: &mut [f64]) {
        simd::dispatch(Map1 { f: Tanh64, x, out });
    }

    #[inline(always)]
    fn log2(self) -> f64 {
        math::f64::log2(self)
    }

    #[inline(always)]
    fn rsqrt(self) -> f64 {
        math::f64::rsqrt(self)
    }

    fn erf_each(x: &[f64], out: &mut [f64]) {
        simd::dispatch(Map1 { f: Erf64, x, out });
    }

    fn log1p_each(x: &[f64], out: &mut [f64]) {
        simd::dispatch(Map1 { f: Log1p64, x, out });
    }

    fn sigmoid_each(x: &[f64], out: &mut [f64]) {
        simd::dispatch(Map1 { f: Sigmoid64, x, out });
    }

    fn elementary(kind: UnaryKind, x: &[f64], out: &mut [f64]) {
        match kind {
            UnaryKind::Exp => map1(Exp64, x, out),
            UnaryKind::Exp2 => map1(Exp264, x, out),
            UnaryKind::Expm1 => map1(Expm164, x, out),
            UnaryKind::Log => map1(Log64, x, out),
            UnaryKind::Log2 => map1(Log264, x, out),
            UnaryKind::Log10 => map1(Log1064, x, out),
            UnaryKind::Log1p => map1(Log1p64, x, out),
            UnaryKind::Rsqrt => map1(Rsqrt64, x, out),
            UnaryKind::Sin => map1(Sin64, x, out),
            UnaryKind::Cos => map1(Cos64, x, out),
            UnaryKind::Tanh => map1(Tanh64, x, out),
            UnaryKind::Sigmoid => map1(Sigmoid64, x, out),
            UnaryKind::Erf => map1(Erf64, x, out),
            _ => unreachable!("every kind has its function: {kind:?}"),
        }
    }

    fn power(a: Operand<'_, f64>, b: Operand<'_, f64>, out: &mut [f64]) {
        simd::dispatch_inside(Power64 { a, b, out });
    }
}

/// One operand of a binary kernel.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a, T> {
    /// One element per element of the result.
    Each(&'a [T]),
    /// One element, repeated.
    Splat(T),
}

impl<T: Copy> Operand<'_, T> {
    /// Returns the elements for `count` elements of the result from `start` on.
    pub(crate) fn part(&self, start: usize, count: usize) -> Self {
        match *self {
            Operand::Each(x) => Operand::Each(&x[start..start + count]),
            splat @ Operand::Splat(_) => splat,
        }
    }
}

impl<T> Operand<'_, T> {
    pub(crate) fn expect_len(
        &self,
        op: &'static str,
        what: &'static str,
        expected: usize,
    ) -> Result<()> {
        match self {
            Operand::Each(x) => expect_len(op, what, x.len(), expected),
            Operand::Splat(_) => Ok(()),
        }
    }
}

/// Computes `out[i] = f(a[i], b[i])`.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if an operand differs from the result in length.
pub fn binary<T: Elementary>(
    kind: BinaryKind,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) -> Result<()> {
    a.expect_len("binary", "a", out.len())?;
    b.expect_len("binary", "b", out.len())?;
    let cost = if kind == BinaryKind::Pow { 8 } else { 1 };
    costly_pieces(cost, out, |start, out| {
        binary_piece(kind, a.part(start, out.len()), b.part(start, out.len()), out);
    });
    Ok(())
}

fn binary_piece<T: Elementary>(
    kind: BinaryKind,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) {
    match kind {
        BinaryKind::Add => map2(Add, a, b, out),
        BinaryKind::Sub => map2(Sub, a, b, out),
        BinaryKind::Mul => map2(Mul, a, b, out),
        BinaryKind::Div => map2(Div, a, b, out),
        BinaryKind::Maximum => map2(Maximum, a, b, out),
        BinaryKind::Minimum => map2(Minimum, a, b, out),
        BinaryKind::Pow => T::power(a, b, out),
        BinaryKind::Weigh => map2(Weigh, a, b, out),
        BinaryKind::ReluGrad => map2(ReluGrad, a, b, out),
        BinaryKind::TanhGrad => map2(TanhGrad, a, b, out),
        BinaryKind::SigmoidGrad => map2(SigmoidGrad, a, b, out),
        _ => unreachable!("every kind has its function: {kind:?}"),
    }
}

/// Computes `out[i] = x[i] · scale + shift`, with two roundings.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length.
pub fn affine<T: Float>(x: &[T], scale: T, shift: T, out: &mut [T]) -> Result<()> {
    expect_len("affine", "x", x.len(), out.len())?;
    pieces(out, |start, out| affine_piece(&x[start..][..out.len()], scale, shift, out));
    Ok(())
}

fn affine_piece<T: Float>(x: &[T], scale: T, shift: T, out: &mut [T]) {
    map1(Affine(scale, shift), x, out);
}

/// Computes `out[i] = 1` if the comparison holds, else 0.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if an operand differs from the result in length.
pub fn compare<T: PartialOrd + Copy + Send + Sync>(
    kind: CompareKind,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [u8],
) -> Result<()> {
    a.expect_len("compare", "a", out.len())?;
    b.expect_len("compare", "b", out.len())?;
    pieces(out, |start, out| {
        compare_piece(kind, a.part(start, out.len()), b.part(start, out.len()), out);
    });
    Ok(())
}

fn compare_piece<T: PartialOrd + Copy>(
    kind: CompareKind,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [u8],
) {
    match kind {
        CompareKind::Eq => simd::dispatch_inside(Compared { holds: |a, b| a == b, a, b, out }),
        CompareKind::Ne => simd::dispatch_inside(Compared { holds: |a, b| a != b, a, b, out }),
        CompareKind::Lt => simd::dispatch_inside(Compared { holds: |a, b| a < b, a, b, out }),
        CompareKind::Le => simd::dispatch_inside(Compared { holds: |a, b| a <= b, a, b, out }),
        CompareKind::Gt => simd::dispatch_inside(Compared { holds: |a, b| b < a, a, b, out }),
        CompareKind::Ge => simd::dispatch_inside(Compared { holds: |a, b| b <= a, a, b, out }),
    }
}

/// Computes `out[i] = a[i]` if the condition is not 0, else `b[i]`.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if an operand differs from the result in length.
pub fn select<T: Copy + Send + Sync>(
    condition: Operand<'_, u8>,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) -> Result<()> {
    condition.expect_len("where", "condition", out.len())?;
    a.expect_len("where", "a", out.len())?;
    b.expect_len("where", "b", out.len())?;
    pieces(out, |start, out| {
        let n = out.len();
        select_piece(condition.part(start, n), a.part(start, n), b.part(start, n), out);
    });
    Ok(())
}

fn select_piece<T: Copy>(
    condition: Operand<'_, u8>,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) {
    match condition {
        Operand::Each(condition) => simd::dispatch_inside(Selected { condition, a, b, out }),
        Operand::Splat(condition) => match if condition != 0 { a } else { b } {
            Operand::Each(x) => out.copy_from_slice(x),
            Operand::Splat(x) => out.fill(x),
        },
    }
}

struct Compared<'a, T, F> {
    holds: F,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    out: &'a mut [u8],
}

impl<T: Copy, F: Fn(T, T) -> bool> Kernel for Compared<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Compared { holds, a, b, out } = self;
        match (a, b) {
            (Operand::Each(a), Operand::Each(b)) => {
                for (out, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
                    *out = u8::from(holds(a, b));
                }
            }
            (Operand::Each(a), Operand::Splat(b)) => {
                for (out, &a) in out.iter_mut().zip(a) {
                    *out = u8::from(holds(a, b));
                }
            }
            (Operand::Splat(a), Operand::Each(b)) => {
                for (out, &b) in out.iter_mut().zip(b) {
                    *out = u8::from(holds(a, b));
                }
            }
            (Operand::Splat(a), Operand::Splat(b)) => out.fill(u8::from(holds(a, b))),
        }
    }
}

struct Selected<'a, T> {
    condition: &'a [u8],
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    out: &'a mut [T],
}

impl<T: Copy> Kernel for Selected<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Selected { condition, a, b, out } = self;
        let out = out.iter_mut().zip(condition);
        match (a, b) {
            (Operand::Each(a), Operand::Each(b)) => {
                // Of an `if` the compiler would make a gather of what is chosen.
                for ((out, &c), (&a, &b)) in out.zip(a.iter().zip(b)) {
                    *out = select_unpredictable(c != 0, a, b);
                }
            }
            (Operand::Each(a), Operand::Splat(b)) => {
                for ((out, &c), &a) in out.zip(a) {
                    *out = if c != 0 { a } else { b };
                }
            }
            (Operand::Splat(a), Operand::Each(b)) => {
                for ((out, &c), &b) in out.zip(b) {
                    *out = if c != 0 { a } else { b };
                }
            }
            (Operand::Splat(a), Operand::Splat(b)) => {
                for (out, &c) in out {
                    *out = if c != 0 { a } else { b };
                }
            }
        }
    }
}

fn map1<T: Float>(f: impl Function1<T>, x: &[T], out: &mut [T]) {
    assert_eq!(x.len(), out.len(), "unary: input and output differ in length");
    simd::dispatch_inside(Map1 { f, x, out });
}

fn map2<T: Float>(f: impl Function2<T>, a: Operand<'_, T>, b: Operand<'_, T>, out: &mut [T]) {
    match (a, b) {
        (Operand::Each(a), Operand::Each(b)) => simd::dispatch_inside(Map2 { f, a, b, out }),
        (Operand::Each(a), Operand::Splat(b)) => {
            simd::dispatch_inside(Map1 { f: Right(f, b), x: a, out });
        }
        (Operand::Splat(a), Operand::Each(b)) => {
            simd::dispatch_inside(Map1 { f: Left(f, a), x: b, out });
        }
        (Operand::Splat(a), Operand::Splat(b)) => out.fill(f.eval(a, b).canonical()),
    }
}

struct Map1<'a, T, F> {
    f: F,
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Float, F: Function1<T>> Kernel for Map1<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.f.each(self.x, self.out);
    }
}

struct Map2<'a, T, F> {
    f: F,
    a: &'a [T],
    b: &'a [T],
    out: &'a mut [T],
}

impl<T: Float, F: Function2<T>> Kernel for Map2<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for ((out, &a), &b) in self.out.iter_mut().zip(self.a).zip(self.b) {
            *out = self.f.eval(a, b).canonical();
        }
    }
}

/// A binary function with its first argument fixed.
#[derive(Clone, Copy)]
struct Left<F, T>(F, T);

impl<T: Float, F: Function2<T>> Function1<T> for Left<F, T> {
    #[inline(always)]
    fn eval(self, x: T) -> T {
        self.0.eval(self.1, x)
    }
}

/// A binary function with its second argument fixed.
#[derive(Clone, Copy)]
struct Right<F, T>(F, T);

impl<T: Float, F: Function2<T>> Function1<T> for Right<F, T> {
    #[inline(always)]
    fn eval(self, x: T) -> T {
        self.0.eval(x, self.1)
    }
}

#[derive(Clone, Copy)]
struct Affine<T>(T, T);

impl<T: Float> Function1<T> for Affine<T> {
    #[inline(always)]
    fn eval(self, x: T) -> T {
        x * self.0 + self.1
    }
}

macro_rules! functions {
    ($($name:ident($($x:ident),+) in $trait:ident = $value:expr;)*) => {
        $(
            #[derive(Clone, Copy)]
            struct $name;

            impl<T: Float> $trait<T> for $name {
                #[inline(always)]
                fn eval(self, $($x: T),+) -> T {
                    $value
                }
            }
        )*
    };
}

functions! {
    Neg(x) in Function1 = -x;
    Abs(x) in Function1 = if x < T::ZERO { -x } else { x + T::ZERO };
    Sqrt(x) in Function1 = x.sqrt();
    // Written so that NaN falls through to x.
    Relu(x) in Function1 = if x <= T::ZERO { T::ZERO } else { x };
    Reciprocal(x) in Function1 = T::ONE / x;
    Square(x) in Function1 = x * x;
    Add(a, b) in Function2 = a + b;
    Sub(a, b) in Function2 = a - b;
    Mul(a, b) in Function2 = a * b;
    Div(a, b) in Function2 = a / b;
    // An instruction and a choice: if a is NaN, no comparison holds.
    Maximum(a, b) in Function2 = {
        let most = if b > a { b } else { a };
        if b.is_nan() { b } else { most }
    };
    Minimum(a, b) in Function2 = {
        let least = if b < a { b } else { a };
        if b.is_nan() { b } else { least }
    };
    Weigh(a, b) in Function2 = weighed(a, b);
    // Written so that NaN falls through to b.
    ReluGrad(a, b) in Function2 = if b > T::ZERO { a } else if b <= T::ZERO { T::ZERO } else { b };
    TanhGrad(a, b) in Function2 = a * (T::ONE - b * b);
    SigmoidGrad(a, b) in Function2 = a * ((T::ONE - b) * b);
}

/// Returns `a · b`, except that a `b` of 0 gives a zero even for an infinite `a`.
#[inline(always)]
pub(crate) fn weighed<T: Float>(a: T, b: T) -> T {
    let a = if b == T::ZERO { within(a, T::ONE) } else { a };
    a * b
}

/// Returns `x` limited to `±bound`; NaN stays NaN.
#[inline(always)]
fn within<T: Float>(x: T, bound: T) -> T {
    if x > bound {
        bound
    } else if x < -bound {
        -bound
    } else {
        x
    }
}

struct Power64<'a> {
    a: Operand<'a, f64>,
    b: Operand<'a, f64>,
    out: &'a mut [f64],
}

impl Kernel for Power64<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        use Operand::{Each, Splat};
        let Power64 { a, b, out } = self;
        match (a, b) {
            (Each(a), Each(b)) => math::f64::pow_each(|i| a[i], |i| b[i], out),
            (Each(a), Splat(b)) => math::f64::pow_each(|i| a[i], |_| b, out),
            (Splat(a), Each(b)) => math::f64::pow_each(|_| a, |i| b[i], out),
            (Splat(a), Splat(b)) => out.fill(math::f64::pow(a, b)),
        }
    }
}
