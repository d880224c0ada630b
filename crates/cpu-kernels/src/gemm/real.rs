//! The element types of contractions.

// The sealed half of the trait mentions kernels and buffers, which are private.
#![allow(private_bounds, private_interfaces)]

use super::scratch::{Scratch, ScratchCell};
use crate::arch::blocks::Outputs;
use crate::arch::transpose::CHAINS;
use crate::arch::{self, Kernels};
use samebits_numerics::simd::Level;

/// An element type that contractions accept: `f32` or `f64`.
///
/// # Determinism
///
/// All arithmetic of a contraction is in the element type: a product of `f32` matrices is a chain
/// of `f32` fused multiply-adds.
pub trait Real:
    sealed::Sealed
    + Copy
    + Default
    + PartialEq
    + PartialOrd
    + Send
    + Sync
    + std::fmt::Debug
    + bytemuck::Pod
    + 'static
{
    /// Returns `self * b + c`, rounded once.
    #[must_use]
    fn fma(self, b: Self, c: Self) -> Self;

    /// Returns `self + other`, rounded once.
    #[must_use]
    fn plus(self, other: Self) -> Self;

    /// Returns the canonical NaN for a NaN, and any other value unchanged.
    #[must_use]
    fn canonical(self) -> Self;
}

/// The part of [`Real`] that kernels need and callers do not.
pub(crate) mod sealed {
    use super::{Kernels, Level, Scratch};
    use crate::arch::blocks::Outputs;
    use crate::arch::transpose::CHAINS;

    pub trait Sealed: Sized + 'static {
        fn kernels(level: Level) -> &'static Kernels<Self>;
        /// Lends buffers of the calling thread; a nested call gets other buffers.
        fn with_scratch<R>(work: impl FnOnce(&mut Scratch<Self>) -> R) -> R;
        fn finite(self) -> bool;
        fn negative_zero(self) -> bool;
        /// Sets `to[step * width + lane] = from[lane * stride + step]`.
        fn pack_transposed(
            from: &[Self],
            stride: usize,
            lanes_and_steps: (usize, usize),
            to: &mut [Self],
            width: usize,
        );
        /// Adds `factors[r][step] * from[lane * stride + step]` to the sum of each lane for each row of
        /// factors, step by step, and returns the number of steps that it took.
        fn add_products<const R: usize>(
            factors: [&[Self]; R],
            from: &[Self],
            stride: usize,
            lanes: usize,
            sums: &mut [[Self; CHAINS]; R],
        ) -> usize;
        /// Computes the chains of some blocks of steps, for `count` outputs, as
        /// [`block_chains_f32`](crate::arch::blocks::block_chains_f32).
        fn block_chains(
            shared: &[Self],
            factors: &[Self],
            outputs: Outputs,
            count: usize,
            sums: &mut [Self],
        ) -> usize;
        /// Returns the exponent of the last mantissa bit of a finite value, or a large number for
        /// zero.
        fn last_bit_exponent(self) -> i32;
        /// The exponent of the smallest subnormal number.
        const MIN_EXPONENT: i32;
    }
}

macro_rules! real {
    ($elem:ty, $kernels:ident, $transpose:ident, $add_products:ident, $block_chains:ident, $cell:ident, $bias:expr, $mantissa:expr, $mask:expr) => {
        thread_local! {
            static $cell: ScratchCell<$elem> = const { ScratchCell::new() };
        }

        impl sealed::Sealed for $elem {
            fn kernels(level: Level) -> &'static Kernels<Self> {
                arch::$kernels(level)
            }
            fn with_scratch<R>(work: impl FnOnce(&mut Scratch<Self>) -> R) -> R {
                $cell.with(|cell| cell.lend(work))
            }
            #[inline(always)]
            fn finite(self) -> bool {
                self.is_finite()
            }
            #[inline(always)]
            fn negative_zero(self) -> bool {
                self.to_bits() == <$elem>::to_bits(-0.0)
            }
            fn pack_transposed(
                from: &[Self],
                stride: usize,
                lanes_and_steps: (usize, usize),
                to: &mut [Self],
                width: usize,
            ) {
                samebits_numerics::transpose::$transpose(
                    from,
                    stride,
                    lanes_and_steps,
                    to,
                    width,
                    false,
                );
            }
            #[inline(always)]
            fn add_products<const R: usize>(
                factors: [&[Self]; R],
                from: &[Self],
                stride: usize,
                lanes: usize,
                sums: &mut [[Self; CHAINS]; R],
            ) -> usize {
                arch::transpose::$add_products(factors, from, stride, lanes, sums)
            }
            #[inline(always)]
            fn block_chains(
                shared: &[Self],
                factors: &[Self],
                outputs: Outputs,
                count: usize,
                sums: &mut [Self],
            ) -> usize {
                arch::blocks::$block_chains(shared, factors, outputs, count, sums)
            }
            #[inline(always)]
            fn last_bit_exponent(self) -> i32 {
                if self == 0.0 {
                    return i32::MAX / 4;
                }
                let biased = ((self.to_bits() >> $mantissa) & $mask) as i32;
                biased.max(1) - $bias - $mantissa
            }
            const MIN_EXPONENT: i32 = 1 - $bias - $mantissa;
        }

        impl Real for $elem {
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn canonical(self) -> Self {
                samebits_numerics::nan::canonical(self)
            }
        }
    };
}
real!(
    f32,
    kernels_f32,
    transpose_f32,
    add_products_f32,
    block_chains_f32,
    SCRATCH_F32,
    127,
    23,
    0xff
);
real!(
    f64,
    kernels_f64,
    transpose_f64,
    add_products_f64,
    block_chains_f64,
    SCRATCH_F64,
    1023,
    52,
    0x7ff
);
