//! Matrices transposed in memory, by blocks of vectors.

use crate::memory::product;
#[cfg(target_arch = "x86_64")]
use crate::simd::{self, Level};

macro_rules! transpose {
    ($name:ident, $elem:ty, $($blocks:ident, $rows:literal by $columns:literal);+) => {
        /// Sets `to[column * width + row] = from[row * stride + column]` for all rows and columns. `ahead` tells
        /// that as many rows behind these are read next, so that they are prefetched.
        ///
        /// # Determinism
        ///
        /// Elements are moved with all their bits, so those of any type of the same size may be given.
        ///
        /// # Panics
        ///
        /// If a slice is too short, or `width` is below the number of rows.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use samebits_numerics::transpose::", stringify!($name), ";")]
        ///
        /// let mut to = [0.0; 6];
        #[doc = concat!(stringify!($name), "(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3, (2, 3), &mut to, 2, false);")]
        /// assert_eq!(to, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        /// ```
        pub fn $name(
            from: &[$elem],
            stride: usize,
            (rows, columns): (usize, usize),
            to: &mut [$elem],
            width: usize,
            ahead: bool,
        ) {
            if rows == 0 || columns == 0 {
                return;
            }
            // Computes one past the last element of `count` rows of `len` elements.
            let end = |count: usize, stride: usize, len: usize| {
                product(&[count - 1, stride])?.checked_add(len)
            };
            let read = end(rows, stride, columns);
            assert!(read.is_some_and(|end| end <= from.len()), "rows too short");
            let written = end(columns, width, rows);
            assert!(written.is_some_and(|end| end <= to.len()), "columns too short");
            assert!(width >= rows, "columns too narrow");
            $(#[cfg(target_arch = "x86_64")]
            if rows >= $rows
                && columns >= $columns
                && simd::level().min(simd::supported()) >= Level::Avx2
            {
                // SAFETY: the CPU has AVX2. There is a block of rows and columns, and the asserts above have
                // checked, without wrapping, that the last elements read and written lie in the slices.
                unsafe {
                    avx2::$blocks(from.as_ptr(), stride, (rows, columns), to.as_mut_ptr(), width, ahead);
                }
                return;
            })+
            #[cfg(not(target_arch = "x86_64"))]
            let _ = ahead;
            for row in 0..rows {
                let values = &from[row * stride..][..columns];
                for (to, &value) in to[row..].iter_mut().step_by(width).zip(values) {
                    *to = value;
                }
            }
        }
    };
}
transpose!(
    transpose_f32, f32,
    blocks_f32, 8 by 8;
    narrow_blocks_f32, 4 by 8;
    short_blocks_f32, 8 by 4;
    blocks_of_columns_f32, 4 by 2;
    blocks_of_rows_f32, 2 by 4
);
transpose!(
    transpose_f64, f64,
    blocks_f64, 4 by 4;
    short_blocks_f64, 4 by 2;
    blocks_of_rows_f64, 2 by 2
);

/// The blocks of AVX2.
#[cfg(target_arch = "x86_64")]
pub mod avx2 {
    use core::arch::x86_64::*;

    /// Prefetches the cache line of an address, which need not be valid.
    #[inline(always)]
    fn prefetch<T>(from: *const T) {
        // SAFETY: SSE is part of x86-64, and a prefetch neither faults nor changes anything.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) };
    }

    macro_rules! blocks {
        ($name:ident, $block:ident, $elem:ty, $rows:literal by $columns:literal) => {
            /// Transposes a matrix in blocks.
            ///
            /// # Safety
            ///
            /// The CPU must have AVX2; there must be as many rows and columns as a block has, valid for reads
            /// and writes.
            #[target_feature(enable = "avx2")]
            pub(super) unsafe fn $name(
                from: *const $elem,
                stride: usize,
                (rows, columns): (usize, usize),
                to: *mut $elem,
                width: usize,
                ahead: bool,
            ) {
                // The columns of a cache line: by the next visit of a row it may be evicted.
                const LINE: usize = 64 / size_of::<$elem>();
                let mut line = 0;
                while line < columns {
                    let end = columns.min(line + LINE);
                    let mut next_row = 0;
                    while next_row < rows {
                        // If the count is not a multiple of the block, the last block of rows or columns
                        // overlaps the one before and writes the same values again.
                        let row = next_row.min(rows - $rows);
                        next_row += $rows;
                        if ahead {
                            for i in 0..$rows {
                                prefetch(from.wrapping_add((row + i + rows) * stride + line));
                            }
                        }
                        let mut next_column = line;
                        while next_column < end {
                            let column = next_column.min(columns - $columns);
                            next_column += $columns;
                            // SAFETY: the block ends at most at `rows` and `columns`.
                            unsafe {
                                let from = from.add(row * stride + column);
                                $block(from, stride, to.add(column * width + row), width);
                            }
                        }
                    }
                    line = end;
                }
            }
        };
    }
    blocks!(blocks_f32, block_f32, f32, 8 by 8);
    blocks!(narrow_blocks_f32, narrow_f32, f32, 4 by 8);
    blocks!(short_blocks_f32, short_f32, f32, 8 by 4);
    blocks!(blocks_of_columns_f32, columns_of_four_f32, f32, 4 by 2);
    blocks!(blocks_of_rows_f32, rows_of_four_f32, f32, 2 by 4);
    blocks!(blocks_f64, block_f64, f64, 4 by 4);
    blocks!(short_blocks_f64, short_f64, f64, 4 by 2);
    blocks!(blocks_of_rows_f64, rows_of_two_f64, f64, 2 by 2);

    /// Loads four columns of eight rows.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 8 rows of 4 must be valid for reads.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn columns_f32(from: *const f32, stride: usize) -> [__m256; 4] {
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

    /// Transposes an 8 by 8 block.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 8 rows of 8 must be valid for reads and writes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn block_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
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

    /// Transposes 4 rows of 8 columns, for the panels of tiles with fewer than 8 rows.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 4 rows of 8 must be valid for reads and 8 rows of 4 for writes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn narrow_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            let row = |r: usize| _mm256_loadu_ps(from.add(r * stride));
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            // Column i next to column i + 4.
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

    /// Transposes 8 rows of 4 columns.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 8 rows of 4 must be valid for reads and 4 rows of 8 for writes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn short_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            for (i, column) in columns_f32(from, stride).into_iter().enumerate() {
                _mm256_storeu_ps(to.add(i * width), column);
            }
        }
    }

    /// Transposes 4 rows of 2 columns.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 4 rows of 2 must be valid for reads and 2 rows of 4 for writes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn columns_of_four_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
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

    /// Transposes 2 rows of 4 columns.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 2 rows of 4 must be valid for reads and 4 rows of 2 for writes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn rows_of_four_f32(from: *const f32, stride: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            let (a, b) = (_mm_loadu_ps(from), _mm_loadu_ps(from.add(stride)));
            let columns = [_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b)].map(|x| _mm_castps_pd(x));
            for (i, pair) in columns.into_iter().enumerate() {
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
    pub unsafe fn columns_f64(from: *const f64, stride: usize) -> [__m256d; 2] {
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

    /// Transposes a 4 by 4 block.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 4 rows of 4 must be valid for reads and writes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn block_f64(from: *const f64, stride: usize, to: *mut f64, width: usize) {
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

    /// Transposes 4 rows of 2 columns.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 4 rows of 2 must be valid for reads and 2 rows of 4 for writes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn short_f64(from: *const f64, stride: usize, to: *mut f64, width: usize) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            for (i, column) in columns_f64(from, stride).into_iter().enumerate() {
                _mm256_storeu_pd(to.add(i * width), column);
            }
        }
    }

    /// Transposes 2 rows of 2 columns.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2; 2 rows of 2 must be valid for reads and for writes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn rows_of_two_f64(from: *const f64, stride: usize, to: *mut f64, width: usize) {
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
    fn matrices_of_any_size_are_transposed_and_nothing_else_is_written() {
        for rows in 0..=19 {
            for columns in 0..=19 {
                for (stride, width) in [(columns, rows), (columns + 3, rows + 2)] {
                    let from: Vec<u16> = (0..rows * stride).map(|i| i as u16 + 1).collect();
                    let mut expected = vec![0; columns * width];
                    for row in 0..rows {
                        for column in 0..columns {
                            expected[column * width + row] = from[row * stride + column];
                        }
                    }
                    let from32: Vec<f32> = from.iter().map(|&x| x.into()).collect();
                    let mut to = vec![0.0f32; expected.len()];
                    transpose_f32(&from32, stride, (rows, columns), &mut to, width, rows > 9);
                    assert!(to.iter().zip(&expected).all(|(&x, &y)| x == y.into()));
                    let from64: Vec<f64> = from.iter().map(|&x| x.into()).collect();
                    let mut to = vec![0.0f64; expected.len()];
                    transpose_f64(&from64, stride, (rows, columns), &mut to, width, rows > 9);
                    assert!(to.iter().zip(&expected).all(|(&x, &y)| x == y.into()));
                }
            }
        }
    }
}
