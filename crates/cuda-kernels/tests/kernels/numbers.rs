//! f32 and f64, for tests of kernels that exist for both.

use std::fmt::LowerExp;
use std::ops::{Add, Mul, Sub};

use samebits_cuda_kernels::Float;
use samebits_numerics::extrema::Ordered;
use samebits_numerics::math;

use crate::data::Source;

/// f32 or f64.
pub(crate) trait Number:
    Float
    + Ordered
    + LowerExp
    + Into<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
{
    const ONE: Self;
    fn bits(self) -> u64;
    fn fma(self, b: Self, c: Self) -> Self;
    fn sigmoid(self) -> Self;
    fn tanh(self) -> Self;
    /// Draws numbers of every magnitude, subnormals, zeros of both signs, NaN and infinities.
    fn broken(source: &mut Source, n: usize) -> Vec<Self>;
    /// Returns a number of this type from an f32, with digits that f32 lacks.
    fn finer(x: f32) -> Self;
}

impl Number for f32 {
    const ONE: f32 = 1.0;
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
    fn fma(self, b: f32, c: f32) -> f32 {
        self.mul_add(b, c)
    }
    fn sigmoid(self) -> f32 {
        math::sigmoid(self)
    }
    fn tanh(self) -> f32 {
        math::tanh(self)
    }
    fn broken(source: &mut Source, n: usize) -> Vec<f32> {
        source.broken(n)
    }
    fn finer(x: f32) -> f32 {
        x
    }
}

impl Number for f64 {
    const ONE: f64 = 1.0;
    fn bits(self) -> u64 {
        self.to_bits()
    }
    fn fma(self, b: f64, c: f64) -> f64 {
        self.mul_add(b, c)
    }
    fn sigmoid(self) -> f64 {
        math::f64::sigmoid(self)
    }
    fn tanh(self) -> f64 {
        math::f64::tanh(self)
    }
    fn broken(source: &mut Source, n: usize) -> Vec<f64> {
        (0..n)
            .map(|_| {
                let digits = u64::from(source.next()) << 33 ^ u64::from(source.next()) << 8;
                let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
                match source.next() % 24 {
                    0 => special[source.below(6)],
                    1 => f64::from_bits(digits & 0x800f_ffff_ffff_ffff),
                    2 => f64::from_bits((digits & 0x800f_ffff_ffff_ffff) | 0x7fe0_0000_0000_0000),
                    3..12 => {
                        f64::from_bits((digits & 0x803f_ffff_ffff_ffff) | 0x3fd0_0000_0000_0000)
                    }
                    _ => f64::from_bits(digits & 0xbfff_ffff_ffff_ffff),
                }
            })
            .collect()
    }
    fn finer(x: f32) -> f64 {
        f64::from(x) * 1.000000000123
    }
}

/// Draws ordinary numbers in [-1, 1).
pub(crate) fn plain<T: Number>(source: &mut Source, n: usize) -> Vec<T> {
    source.plain(n).into_iter().map(T::finer).collect()
}

/// Draws ordinary numbers or those of [`Number::broken`].
pub(crate) fn mixed<T: Number>(source: &mut Source, broken: bool, n: usize) -> Vec<T> {
    if broken { T::broken(source, n) } else { plain(source, n) }
}

pub(crate) fn all_bits<T: Number>(values: &[T]) -> Vec<u64> {
    values.iter().map(|x| x.bits()).collect()
}

/// Fails at the first difference.
#[track_caller]
pub(crate) fn same_bits<T: Number>(what: &str, got: &[T], expected: &[T]) {
    assert_eq!(got.len(), expected.len(), "{what}: lengths");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            g.bits() == e.bits(),
            "{what}: element {i} is {g:e} ({:x}), expected {e:e} ({:x})",
            g.bits(),
            e.bits()
        );
    }
}
