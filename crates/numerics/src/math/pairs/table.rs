//! Tables of 32 numbers in two registers.

use core::arch::x86_64::*;

use crate::simd::Aligned;

/// A number for each value of five bits.
pub(super) type Table = Aligned<[f32; 32]>;

/// Returns element `i` of the table, where the low five bits are `i`.
///
/// # Safety
///
/// The CPU must have AVX-512.
#[inline(always)]
pub(super) unsafe fn lookup(bits: __m512i, table: &Table) -> __m512 {
    // SAFETY: the table has two vectors, and the caller guarantees the instructions.
    unsafe {
        let (low, high) = (table.as_ptr(), table.as_ptr().add(16));
        _mm512_permutex2var_ps(_mm512_load_ps(low), bits, _mm512_load_ps(high))
    }
}
