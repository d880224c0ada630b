//! Rows along `k`, read across `k`: packed into panels, or added up at once.

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
pack_transposed!(
    pack_transposed_f32, f32,
    avx2::block_f32, 8 by 8;
    avx2::narrow_f32, 4 by 8;
    avx2::short_f32, 8 by 4;
    avx2::steps_f32, 4 by 2;
    avx2::lanes_f32, 2 by 4
);
pack_transposed!(
    pack_transposed_f64, f64,
    avx2::block_f64, 4 by 4;
    avx2::short_f64, 4 by 2;
    avx2::lanes_f64, 2 by 2
);

/// The number of rows whose sums go through the steps together.
pub(crate) const CHAINS: usize = 32;

macro_rules! add_products {
    ($name:ident, $elem:ty, $chains:ident, $side:literal) => {
        /// Adds `factors[r][step] * from[lane * stride + step]` to the sum of each of `lanes` lanes for each
        /// of `R` rows of factors, step by step with fused multiply-adds, and returns the number of steps
        /// that it took.
        ///
        /// It takes none, or leaves the last few, where no vector fits. Rows of factors are as long as the
        /// first.
        ///
        /// # Panics
        ///
        /// If `from` or a row of factors is too short.
        #[inline(always)]
        pub(crate) fn $name<const R: usize>(
            factors: [&[$elem]; R],
            from: &[$elem],
            stride: usize,
            lanes: usize,
            sums: &mut [[$elem; CHAINS]; R],
        ) -> usize {
            let steps = factors[0].len() / $side * $side;
            if steps == 0 || lanes == 0 || lanes > CHAINS || !lanes.is_multiple_of(8) {
                return 0;
            }
            let end = product(&[lanes - 1, stride]).and_then(|start| start.checked_add(steps));
            assert!(end.is_some_and(|end| end <= from.len()), "rows too short");
            #[cfg(target_arch = "x86_64")]
            if simd::level().min(simd::supported()) >= Level::Avx2 {
                let mut rows = factors;
                for row in &mut rows {
                    *row = &row[..steps];
                }
                let from = from.as_ptr();
                // SAFETY: the CPU has AVX2 and FMA. The assert above checked that the last of
                // `lanes` rows has `steps` elements, as many as each row of factors.
                unsafe {
                    match lanes {
                        8 => avx2::$chains::<8, R>(rows, from, stride, sums),
                        16 => avx2::$chains::<16, R>(rows, from, stride, sums),
                        24 => avx2::$chains::<24, R>(rows, from, stride, sums),
                        _ => avx2::$chains::<32, R>(rows, from, stride, sums),
                    }
                }
                return steps;
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = sums;
            0
        }
    };
}
add_products!(add_products_f32, f32, chains_f32, 8);
add_products!(add_products_f64, f64, chains_f64, 4);

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    use super::CHAINS;
    use std::arch::x86_64::*;

    /// Loads four columns of eight rows.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 8 rows of 4 must be valid for reads.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) unsafe fn columns_f32(from: *const f32, stride: usize) -> [__m256; 4] {
        // SAFETY: the caller guarantees that rows 0 to 7 are valid.
        unsafe {
            // Row r next to row r + 4.
            let pair = |r: usize| {
                let low = _mm_loadu_ps(from.add(r * stride));
                let high = _mm_loadu_ps(from.add((r + 4) * stride));
                _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
            };
            let (a, b, c, d) = (pair(0), pair(1), pair(2), pair(3));
            let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            [
                _mm256_shuffle_ps::<0x44>(ab0, cd0),
                _mm256_shuffle_ps::<0xee>(ab0, cd0),
                _mm256_shuffle_ps::<0x44>(ab1, cd1),
                _mm256_shuffle_ps::<0xee>(ab1, cd1),
            ]
        }
    }

    /// Adds the products of `LANES` lanes and `R` rows of factors to their sums.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2 and FMA; `LANES` rows of as many elements as the first row of factors has, a
    /// multiple of 8, must be valid for reads, and all rows of factors must be as long.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn chains_f32<const LANES: usize, const R: usize>(
        factors: [&[f32]; R],
        from: *const f32,
        stride: usize,
        sums: &mut [[f32; CHAINS]; R],
    ) {
        // SAFETY: the caller guarantees that the rows are valid, and sums have at least `LANES` elements.
        unsafe {
            let mut vectors = [[_mm256_setzero_ps(); CHAINS / 8]; R];
            for (vectors, sums) in vectors.iter_mut().zip(&*sums) {
                for (vector, sums) in vectors[..LANES / 8].iter_mut().zip(sums.chunks_exact(8)) {
                    *vector = _mm256_loadu_ps(sums.as_ptr());
                }
            }
            // The groups take turns, so that their chains overlap. Each is one cache line behind the
            // one before: lines of rows whose stride is a power of two share a set of the cache.
            let parts = factors[0].len() / 4;
            for turn in 0..parts + 4 * (LANES / 8 - 1) {
                for group in 0..LANES / 8 {
                    let part = turn.wrapping_sub(4 * group);
                    if part < parts {
                        let from = from.add(group * 8 * stride + part * 4);
                        // Four parts read a line of each row.
                        for row in 0..2 {
                            prefetch(from, (part % 4 * 2 + row) * stride);
                        }
                        let columns = columns_f32(from, stride);
                        for (factors, vectors) in factors.iter().zip(&mut vectors) {
                            let factors = factors.get_unchecked(part * 4..part * 4 + 4);
                            let sum = &mut vectors[group];
                            for (&factor, column) in factors.iter().zip(columns) {
                                *sum = _mm256_fmadd_ps(_mm256_set1_ps(factor), column, *sum);
                            }
                        }
                    }
                }
            }
            for (vectors, sums) in vectors.into_iter().zip(sums) {
                for (vector, sums) in vectors[..LANES / 8].iter().zip(sums.chunks_exact_mut(8)) {
                    _mm256_storeu_ps(sums.as_mut_ptr(), *vector);
                }
            }
        }
    }

    /// Prefetches what a row holds 512 bytes after `from`: the processor does not follow as many rows
    /// as chains read.
    #[inline(always)]
    fn prefetch<T>(from: *const T, row: usize) {
        let ahead = from.wrapping_add(row + 512 / size_of::<T>());
        // SAFETY: SSE is part of x86-64, and a prefetch neither faults nor changes anything.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.cast()) };
    }

    /// Transposes an 8 by 8 block.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 8 rows of 8 must be valid for reads and writes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn block_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller guarantees that rows 0 to 7 are valid.
        unsafe {
            for half in 0..2 {
                let columns = columns_f32(from.add(4 * half), stride);
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

    /// Transposes 8 lanes of 4 steps.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 8 rows of 4 must be valid for reads and 4 rows of 8 for writes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn short_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            for (i, column) in columns_f32(from, stride).into_iter().enumerate() {
                _mm256_storeu_ps(to.add(i * width), column);
            }
        }
    }

    /// Transposes 4 lanes of 2 steps.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 4 rows of 2 must be valid for reads and 2 rows of 4 for writes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn steps_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            // Two numbers are as long as an f64, which only moves them.
            let pair = |r: usize| {
                let low = _mm_load_sd(from.add(r * stride).cast());
                _mm_castpd_ps(_mm_loadh_pd(low, from.add((r + 1) * stride).cast()))
            };
            let (ab, cd) = (pair(0), pair(2));
            _mm_storeu_ps(to, _mm_shuffle_ps::<0x88>(ab, cd));
            _mm_storeu_ps(to.add(width), _mm_shuffle_ps::<0xdd>(ab, cd));
        }
    }

    /// Transposes 2 lanes of 4 steps.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 2 rows of 4 must be valid for reads and 4 rows of 2 for writes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn lanes_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            let (a, b) = (_mm_loadu_ps(from), _mm_loadu_ps(from.add(stride)));
            let steps = [_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b)].map(|x| _mm_castps_pd(x));
            for (i, pair) in steps.into_iter().enumerate() {
                _mm_storel_pd(to.add(2 * i * width).cast(), pair);
                _mm_storeh_pd(to.add((2 * i + 1) * width).cast(), pair);
            }
        }
    }

    /// Loads two columns of four rows.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 4 rows of 2 must be valid for reads.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) unsafe fn columns_f64(from: *const f64, stride: usize) -> [__m256d; 2] {
        // SAFETY: the caller guarantees that rows 0 to 3 are valid.
        unsafe {
            // Row r next to row r + 2.
            let pair = |r: usize| {
                let low = _mm_loadu_pd(from.add(r * stride));
                let high = _mm_loadu_pd(from.add((r + 2) * stride));
                _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(low), high)
            };
            let (a, b) = (pair(0), pair(1));
            [_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b)]
        }
    }

    /// Adds the products of `LANES` lanes and `R` rows of factors to their sums.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2 and FMA; `LANES` rows of as many elements as the first row of factors has, a
    /// multiple of 4, must be valid for reads, and all rows of factors must be as long.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn chains_f64<const LANES: usize, const R: usize>(
        factors: [&[f64]; R],
        from: *const f64,
        stride: usize,
        sums: &mut [[f64; CHAINS]; R],
    ) {
        // SAFETY: the caller guarantees that the rows are valid, and sums have at least `LANES` elements.
        unsafe {
            let mut vectors = [[_mm256_setzero_pd(); CHAINS / 4]; R];
            for (vectors, sums) in vectors.iter_mut().zip(&*sums) {
                for (vector, sums) in vectors[..LANES / 4].iter_mut().zip(sums.chunks_exact(4)) {
                    *vector = _mm256_loadu_pd(sums.as_ptr());
                }
            }
            // In turns, each group a line behind, as in `chains_f32`.
            let parts = factors[0].len() / 2;
            for turn in 0..parts + 4 * (LANES / 4 - 1) {
                for group in 0..LANES / 4 {
                    let part = turn.wrapping_sub(4 * group);
                    if part < parts {
                        let from = from.add(group * 4 * stride + part * 2);
                        prefetch(from, part % 4 * stride);
                        let columns = columns_f64(from, stride);
                        for (factors, vectors) in factors.iter().zip(&mut vectors) {
                            let factors = factors.get_unchecked(part * 2..part * 2 + 2);
                            let sum = &mut vectors[group];
                            for (&factor, column) in factors.iter().zip(columns) {
                                *sum = _mm256_fmadd_pd(_mm256_set1_pd(factor), column, *sum);
                            }
                        }
                    }
                }
            }
            for (vectors, sums) in vectors.into_iter().zip(sums) {
                for (vector, sums) in vectors[..LANES / 4].iter().zip(sums.chunks_exact_mut(4)) {
                    _mm256_storeu_pd(sums.as_mut_ptr(), *vector);
                }
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
            for half in 0..2 {
                let columns = columns_f64(from.add(2 * half), stride);
                for (i, column) in columns.into_iter().enumerate() {
                    _mm256_storeu_pd(to.add((2 * half + i) * width), column);
                }
            }
        }
    }

    /// Transposes 4 lanes of 2 steps.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 4 rows of 2 must be valid for reads and 2 rows of 4 for writes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn short_f64(from: *const f64, stride: usize, to: *mut f64, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            for (i, column) in columns_f64(from, stride).into_iter().enumerate() {
                _mm256_storeu_pd(to.add(i * width), column);
            }
        }
    }

    /// Transposes 2 lanes of 2 steps.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 2 rows of 2 must be valid for reads and for writes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn lanes_f64(from: *const f64, stride: usize, to: *mut f64, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            let (a, b) = (_mm_loadu_pd(from), _mm_loadu_pd(from.add(stride)));
            _mm_storeu_pd(to, _mm_unpacklo_pd(a, b));
            _mm_storeu_pd(to.add(width), _mm_unpackhi_pd(a, b));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_of_any_size_are_transposed_and_nothing_else_is_written() {
        for lanes in 0..=19 {
            for steps in 0..=19 {
                for (stride, width) in [(steps, lanes), (steps + 3, lanes + 2)] {
                    let from: Vec<u16> = (0..lanes * stride).map(|i| i as u16 + 1).collect();
                    let mut expected = vec![0; steps * width];
                    for lane in 0..lanes {
                        for step in 0..steps {
                            expected[step * width + lane] = from[lane * stride + step];
                        }
                    }
                    let from32: Vec<f32> = from.iter().map(|&x| x.into()).collect();
                    let mut to = vec![0.0f32; expected.len()];
                    pack_transposed_f32(&from32, stride, (lanes, steps), &mut to, width);
                    assert!(to.iter().zip(&expected).all(|(&x, &y)| x == y.into()));
                    let from64: Vec<f64> = from.iter().map(|&x| x.into()).collect();
                    let mut to = vec![0.0f64; expected.len()];
                    pack_transposed_f64(&from64, stride, (lanes, steps), &mut to, width);
                    assert!(to.iter().zip(&expected).all(|(&x, &y)| x == y.into()));
                }
            }
        }
    }
}
