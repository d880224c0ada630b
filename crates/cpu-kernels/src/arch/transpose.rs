//! Rows along `k`, read across `k` and added up at once.

use samebits_numerics::memory::product;
#[cfg(target_arch = "x86_64")]
use samebits_numerics::simd::{self, Level};

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
    use samebits_numerics::transpose::avx2::{columns_f32, columns_f64};
    use std::arch::x86_64::*;

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
}
