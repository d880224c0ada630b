//! Packing of rows along `k` into panels across `k`.

use samebits_numerics::memory::product;
#[cfg(target_arch = "x86_64")]
use samebits_numerics::simd::{self, Level};

macro_rules! pack_transposed {
    ($name:ident, $elem:ty, $($block:path, $lanes:literal by $steps:literal);+) => {
        /// Sets `to[step * width + lane] = from[lane * stride + step]` for all lanes and steps.
        ///
        /// # Panics
        ///
        /// If a slice is too short.
        pub(crate) fn $name(
            from: &[$elem],
            stride: usize,
            (lanes, steps): (usize, usize),
            to: &mut [$elem],
            width: usize,
        ) {
            if lanes == 0 || steps == 0 {
                return;
            }
            // Computes one past the last element of `count` rows of `len` elements.
            let end = |count: usize, stride: usize, len: usize| {
                product(&[count - 1, stride])?.checked_add(len)
            };
            let rows = end(lanes, stride, steps);
            assert!(rows.is_some_and(|end| end <= from.len()), "rows too short");
            let panel = end(steps, width, lanes);
            assert!(panel.is_some_and(|end| end <= to.len()), "panel too short");
            assert!(width >= lanes, "panel too narrow");
            $(#[cfg(target_arch = "x86_64")]
            if lanes >= $lanes
                && steps >= $steps
                && simd::level().min(simd::supported()) >= Level::Avx2
            {
                // If the count is not a multiple of the block, the last block of lanes or steps
                // overlaps the one before and writes the same values again.
                let starts = |count: usize, side: usize| {
                    (0..count.div_ceil(side)).map(move |i| (i * side).min(count - side))
                };
                // A visit of a row reads whole cache lines: by its next one they may be evicted.
                const LINE: usize = 64 / size_of::<$elem>() / $steps;
                let visits = starts(steps, $steps).len().div_ceil(LINE);
                for visit in 0..visits {
                    for lane in starts(lanes, $lanes) {
                      for step in starts(steps, $steps).skip(visit * LINE).take(LINE) {
                        // SAFETY: the CPU has AVX2. The block ends at most at `lanes` and `steps`,
                        // so the last elements read and written lie before the ends that the
                        // asserts above computed without wrapping.
                        unsafe {
                            let from = from.as_ptr().add(lane * stride + step);
                            let to = to.as_mut_ptr().add(step * width + lane);
                            $block(from, stride, to, width);
                        }
                      }
                    }
                }
                return;
            })+
            for lane in 0..lanes {
                let values = &from[lane * stride..][..steps];
                for (to, &value) in to[lane..].iter_mut().step_by(width).zip(values) {
                    *to = value;
                }
            }
        }
    };
}
pack_transposed!(pack_transposed_f32, f32, avx2::block_f32, 8 by 8; avx2::narrow_f32, 4 by 8);
pack_transposed!(pack_transposed_f64, f64, avx2::block_f64, 4 by 4);

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    /// Transposes an 8 by 8 block.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 8 rows of 8 must be valid for reads and writes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn block_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller guarantees that rows 0 to 7 are valid.
        unsafe {
            // Row r next to row r + 4, for the left and the right half of the columns.
            let pair = |r: usize, half: usize| {
                let low = _mm_loadu_ps(from.add(r * stride + 4 * half));
                let high = _mm_loadu_ps(from.add((r + 4) * stride + 4 * half));
                _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
            };
            for half in 0..2 {
                let (a, b, c, d) = (pair(0, half), pair(1, half), pair(2, half), pair(3, half));
                let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                let columns = [
                    _mm256_shuffle_ps::<0x44>(ab0, cd0),
                    _mm256_shuffle_ps::<0xee>(ab0, cd0),
                    _mm256_shuffle_ps::<0x44>(ab1, cd1),
                    _mm256_shuffle_ps::<0xee>(ab1, cd1),
                ];
                for (i, column) in columns.into_iter().enumerate() {
                    _mm256_storeu_ps(to.add((4 * half + i) * width), column);
                }
            }
        }
    }

    /// Transposes 4 lanes of 8 steps, for the panels of tiles with fewer than 8 rows.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 4 rows of 8 must be valid for reads and 8 rows of 4 for writes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn narrow_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            let row = |r: usize| _mm256_loadu_ps(from.add(r * stride));
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            // Step i next to step i + 4.
            let columns = [
                _mm256_shuffle_ps::<0x44>(ab0, cd0),
                _mm256_shuffle_ps::<0xee>(ab0, cd0),
                _mm256_shuffle_ps::<0x44>(ab1, cd1),
                _mm256_shuffle_ps::<0xee>(ab1, cd1),
            ];
            for (i, column) in columns.into_iter().enumerate() {
                _mm_storeu_ps(to.add(i * width), _mm256_castps256_ps128(column));
                _mm_storeu_ps(to.add((i + 4) * width), _mm256_extractf128_ps::<1>(column));
            }
        }
    }

    /// Transposes a 4 by 4 block.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 4 rows of 4 must be valid for reads and writes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn block_f64(from: *const f64, stride: usize, to: *mut f64, width: usize) {
        // SAFETY: the caller guarantees that rows 0 to 3 are valid.
        unsafe {
            let pair = |r: usize, half: usize| {
                let low = _mm_loadu_pd(from.add(r * stride + 2 * half));
                let high = _mm_loadu_pd(from.add((r + 2) * stride + 2 * half));
                _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(low), high)
            };
            for half in 0..2 {
                let (a, b) = (pair(0, half), pair(1, half));
                _mm256_storeu_pd(to.add(2 * half * width), _mm256_unpacklo_pd(a, b));
                _mm256_storeu_pd(to.add((2 * half + 1) * width), _mm256_unpackhi_pd(a, b));
            }
        }
    }
}
