//! Registers as plain arrays, for every architecture.
//!
//! LLVM compiles the lane loops to the vector instructions that every CPU of the target has. If the
//! target has no fused multiply-add, f32 uses [`soft_fma`].

use super::register_tile::{add_row, register_tiles};
use super::vector::{Partial, Vector};
use samebits_numerics::math::soft_fma;

#[derive(Clone, Copy)]
#[repr(align(16))]
pub(super) struct F32x4([f32; 4]);

#[derive(Clone, Copy)]
#[repr(align(16))]
pub(super) struct F64x2([f64; 2]);

#[inline(always)]
fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        a.mul_add(b, c)
    } else {
        soft_fma(a, b, c)
    }
}

macro_rules! array_vector {
    ($name:ident, $elem:ty, $lanes:literal, $fma:expr) => {
        // SAFETY: uses no special instruction, and uses pointers only as the trait allows.
        unsafe impl Vector for $name {
            type Elem = $elem;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn zero() -> Self {
                Self([0.0; $lanes])
            }
            #[inline(always)]
            unsafe fn splat(x: $elem) -> Self {
                Self([x; $lanes])
            }
            #[inline(always)]
            unsafe fn load(from: *const $elem) -> Self {
                // SAFETY: the caller guarantees LANES reads, and `read_unaligned` needs no
                // alignment.
                Self(unsafe { from.cast::<[$elem; $lanes]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $elem) {
                // SAFETY: the caller guarantees LANES writes.
                unsafe { to.cast::<[$elem; $lanes]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                Self(std::array::from_fn(|i| $fma(a.0[i], b.0[i], self.0[i])))
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] * other.0[i]))
            }
            #[inline(always)]
            unsafe fn div(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] / other.0[i]))
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            unsafe fn canonical(self) -> Self {
                Self(self.0.map(samebits_numerics::nan::canonical))
            }
        }
    };
}

array_vector!(F32x4, f32, 4, fma_f32);
array_vector!(F64x2, f64, 2, f64::mul_add);

// SAFETY: uses no special instruction, and uses pointers only as the trait allows.
unsafe impl Partial for F64x2 {
    #[inline(always)]
    unsafe fn load_some(from: *const f64, first: usize, end: usize) -> Self {
        let mut lanes = [0.0; 2];
        for (l, lane) in lanes.iter_mut().enumerate().take(end).skip(first) {
            // SAFETY: the caller guarantees reads of these lanes.
            *lane = unsafe { from.wrapping_add(l).read() };
        }
        Self(lanes)
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut f64, first: usize, end: usize) {
        for (l, lane) in self.0.into_iter().enumerate().take(end).skip(first) {
            // SAFETY: the caller guarantees writes of these lanes.
            unsafe { to.wrapping_add(l).write(lane) }
        }
    }
}

register_tiles!(f32_tiles, F32x4, add_row, ; 1: [1, 2, 3, 4]; 2: [1, 2, 3, 4]);
register_tiles!(f64_tiles, F64x2, add_row, ; 1: [1, 2, 3, 4]; 2: [1, 2, 3, 4]);
