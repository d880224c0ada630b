//! Inputs: arbitrary, adversarial, equal on every machine.

use std::fmt::LowerExp;
use std::ops::{Add, Div, Mul};

use samebits_cuda_kernels::Float;
use samebits_cuda_kernels::scatter::Summed;
use samebits_numerics::extrema::Ordered;

/// A linear congruential generator: tests need variety, not quality.
pub(crate) struct Source(u64);

impl Source {
    pub(crate) fn new(seed: u64) -> Source {
        Source(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }

    /// Draws a number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.next()) * bound as u64) >> 31) as usize
    }

    /// Draws ordinary numbers in [-1, 1).
    pub(crate) fn plain(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.next() as f32 / 1073741824.0) - 1.0).collect()
    }

    /// Draws finite numbers of every magnitude, including subnormals and zeros of both signs.
    pub(crate) fn wild(&mut self, n: usize) -> Vec<f32> {
        (0..n)
            .map(|_| {
                let bits = (self.next() << 1) ^ self.next();
                match self.next() % 16 {
                    0 => f32::from_bits(bits & 0x8000_0000),
                    1 => f32::from_bits(bits & 0x807f_ffff),
                    2 => f32::from_bits((bits & 0x807f_ffff) | 0x7f00_0000),
                    3..8 => f32::from_bits((bits & 0x87ff_ffff) | 0x3c00_0000),
                    _ => f32::from_bits(bits & 0xbfff_ffff),
                }
            })
            .collect()
    }

    /// Draws as [`wild`](Source::wild), with NaN and infinities.
    pub(crate) fn broken(&mut self, n: usize) -> Vec<f32> {
        let mut values = self.wild(n);
        for x in &mut values {
            match self.next() % 64 {
                0 => *x = f32::from_bits(0x7f80_0001 | (self.next() << 1)),
                1 => *x = f32::INFINITY,
                2 => *x = f32::NEG_INFINITY,
                _ => {}
            }
        }
        values
    }

    /// Draws indices below `size`, with repeats.
    pub(crate) fn indices(&mut self, n: usize, size: usize) -> Vec<i64> {
        (0..n).map(|_| self.below(size) as i64).collect()
    }
}

/// Returns 1, 2^24 and −2^24 in turn, whose sum is 1 or 0 by the order of additions.
pub(crate) fn order_sensitive(n: usize) -> Vec<f32> {
    (0..n).map(|i| [1.0, 16777216.0, -16777216.0][i % 3]).collect()
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Fails at the first difference.
#[track_caller]
pub(crate) fn same(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{what}: lengths");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            g.to_bits() == e.to_bits(),
            "{what}: element {i} is {g:e} ({:08x}), expected {e:e} ({:08x})",
            g.to_bits(),
            e.to_bits()
        );
    }
}

#[track_caller]
pub(crate) fn same64(what: &str, got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{what}: lengths");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(g.to_bits() == e.to_bits(), "{what}: element {i} is {g:e}, expected {e:e}");
    }
}

/// Returns the canonical form of a result.
pub(crate) fn clean(x: f32) -> f32 {
    samebits_numerics::nan::canonical(x)
}

/// Returns the exact sum, rounded once.
pub(crate) fn exact(addends: impl IntoIterator<Item = f32>) -> f32 {
    let mut sum = samebits_numerics::exact::ExactSum::new();
    addends.into_iter().for_each(|x| sum.add(x));
    sum.to_f32()
}

/// f32 or f64, for tests of both.
pub(crate) trait Real:
    Float
    + Summed
    + Ordered
    + LowerExp
    + Into<f64>
    + Add<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// Draws as [`Source::broken`], extended to the digits of this type.
    fn broken(source: &mut Source, n: usize) -> Vec<Self>;
    /// Draws as [`Source::wild`], extended to the digits of this type.
    fn wild(source: &mut Source, n: usize) -> Vec<Self>;
    /// Returns the sum of an irregular sum's addends, in their order.
    fn sum(addends: impl IntoIterator<Item = Self>) -> Self;
    /// Returns `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Returns the bits as a number.
    fn number(self) -> u64;
}

impl Real for f32 {
    fn broken(source: &mut Source, n: usize) -> Vec<f32> {
        source.broken(n)
    }
    fn wild(source: &mut Source, n: usize) -> Vec<f32> {
        source.wild(n)
    }
    fn sum(addends: impl IntoIterator<Item = f32>) -> f32 {
        exact(addends)
    }
    fn fma(self, b: f32, c: f32) -> f32 {
        self.mul_add(b, c)
    }
    fn number(self) -> u64 {
        self.to_bits().into()
    }
}

/// Returns a number with all bits of its significand, sometimes with an exponent that f32 lacks.
fn widen(x: f32) -> f64 {
    let wide = f64::from(x) * 1.1;
    match x.to_bits() % 16 {
        1 => wide * 1e250,
        2 => wide * 1e-250,
        3 => wide * 5e-324,
        _ => wide,
    }
}

impl Real for f64 {
    fn broken(source: &mut Source, n: usize) -> Vec<f64> {
        source.broken(n).into_iter().map(widen).collect()
    }
    fn wild(source: &mut Source, n: usize) -> Vec<f64> {
        source.wild(n).into_iter().map(widen).collect()
    }
    fn sum(addends: impl IntoIterator<Item = f64>) -> f64 {
        samebits_numerics::nan::canonical(addends.into_iter().fold(0.0, |sum, x| sum + x))
    }
    fn fma(self, b: f64, c: f64) -> f64 {
        self.mul_add(b, c)
    }
    fn number(self) -> u64 {
        self.to_bits()
    }
}

pub(crate) fn numbers<T: Real>(values: &[T]) -> Vec<u64> {
    values.iter().map(|x| x.number()).collect()
}

/// Fails at the first difference.
#[track_caller]
pub(crate) fn same_as<T: Real>(what: &str, got: &[T], expected: &[T]) {
    assert_eq!(got.len(), expected.len(), "{what}: lengths");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        let (a, b) = (g.number(), e.number());
        assert!(a == b, "{what}: element {i} is {g:e} ({a:x}), expected {e:e} ({b:x})");
    }
}
