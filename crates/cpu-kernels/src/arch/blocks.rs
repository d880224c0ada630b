//! Chains of several blocks of steps, side by side in the lanes of a vector: for products of one row
//! (or column) by a few columns over many steps.

use samebits_numerics::memory::product;
#[cfg(target_arch = "x86_64")]
use samebits_numerics::simd::{self, Level};

/// The steps of a block; see [`gemm::K_BLOCK`](crate::gemm::K_BLOCK).
const STEPS: usize = crate::gemm::K_BLOCK;

/// The layout of the factors that the outputs do not share.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outputs {
    /// The steps of each output, one after the other, at this distance from those of the next.
    Apart(usize),
    /// The outputs of each step, one after the other, as many as there are.
    Beside,
}

macro_rules! block_chains {
    ($name:ident, $elem:ty, $side:literal, $apart:ident, $beside:ident) => {
        /// Computes the chains of as many blocks as a vector has lanes, for `count` outputs: sets
        /// `sums[output * lanes + block]` to the sum of `shared[step] * factors[output, step]`, where
        /// `block` has the steps from `block * STEPS` on, by fused multiply-adds from +0.
        ///
        /// Returns the number of blocks, which is 0 if there is no vector that fits, or if the slices
        /// hold fewer blocks.
        ///
        /// # Panics
        ///
        /// If `sums` has fewer than `count` vectors.
        pub(crate) fn $name(
            shared: &[$elem],
            factors: &[$elem],
            outputs: Outputs,
            count: usize,
            sums: &mut [$elem],
        ) -> usize {
            const BLOCKS: usize = $side * STEPS;
            let needed = match (outputs, count) {
                (Outputs::Apart(stride), 1..) => {
                    product(&[count - 1, stride]).and_then(|start| start.checked_add(BLOCKS))
                }
                (Outputs::Beside, 2..=8) => product(&[count, BLOCKS]),
                _ => None,
            };
            if shared.len() < BLOCKS || needed.is_none_or(|needed| needed > factors.len()) {
                return 0;
            }
            #[cfg(target_arch = "x86_64")]
            if simd::level().min(simd::supported()) >= Level::Avx2 {
                let sums = &mut sums[..count * $side];
                // SAFETY: the CPU has AVX2 and FMA. The checks above found the steps of all blocks in
                // `shared`, and those of all `count` outputs in `factors`, so those of a part too.
                unsafe {
                    let (x, y) = (shared.as_ptr(), factors.as_ptr());
                    match outputs {
                        Outputs::Apart(stride) => {
                            for (part, sums) in sums.chunks_mut(4 * $side).enumerate() {
                                let y = y.add(part * 4 * stride);
                                match sums.len() / $side {
                                    1 => avx2::$apart::<1>(x, y, stride, sums),
                                    2 => avx2::$apart::<2>(x, y, stride, sums),
                                    3 => avx2::$apart::<3>(x, y, stride, sums),
                                    _ => avx2::$apart::<4>(x, y, stride, sums),
                                }
                            }
                        }
                        Outputs::Beside => match count {
                            2 => avx2::$beside::<2>(x, y, sums),
                            3 => avx2::$beside::<3>(x, y, sums),
                            4 => avx2::$beside::<4>(x, y, sums),
                            5 => avx2::$beside::<5>(x, y, sums),
                            6 => avx2::$beside::<6>(x, y, sums),
                            7 => avx2::$beside::<7>(x, y, sums),
                            _ => avx2::$beside::<8>(x, y, sums),
                        },
                    }
                }
                return $side;
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = sums;
            0
        }
    };
}
block_chains!(block_chains_f32, f32, 8, apart_f32, beside_f32);
block_chains!(block_chains_f64, f64, 4, apart_f64, beside_f64);

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::STEPS;
    use samebits_numerics::transpose::avx2::{columns_f32, columns_f64};
    use std::arch::x86_64::*;

    macro_rules! kernels {
        ($elem:ty, $side:literal, $steps:literal, $apart:ident, $beside:ident, $columns:ident,
            $zero:ident, $fmadd:ident, $store:ident) => {
            /// Computes the chains of `N` outputs whose steps are neighbours.
            ///
            /// # Safety
            ///
            /// The CPU must have AVX2 and FMA; the steps of the blocks of a vector must be valid for
            /// reads from `x` on, and from `y` on at each of `N` multiples of `stride`.
            ///
            /// # Panics
            ///
            /// If `sums` does not have `N` vectors.
            #[target_feature(enable = "avx2,fma")]
            pub(super) unsafe fn $apart<const N: usize>(
                x: *const $elem,
                y: *const $elem,
                stride: usize,
                sums: &mut [$elem],
            ) {
                assert_eq!(sums.len(), N * $side);
                let mut chains = [$zero(); N];
                for step in (0..STEPS).step_by($steps) {
                    // SAFETY: these are steps of the blocks that the caller guarantees, and `sums`
                    // has `N` vectors.
                    unsafe {
                        let shared = $columns(x.add(step), STEPS);
                        for (j, chain) in chains.iter_mut().enumerate() {
                            let columns = $columns(y.add(j * stride + step), STEPS);
                            for (x, y) in shared.into_iter().zip(columns) {
                                *chain = $fmadd(x, y, *chain);
                            }
                        }
                    }
                }
                for (sums, chain) in sums.chunks_exact_mut($side).zip(chains) {
                    // SAFETY: the chunk has the length of a vector.
                    unsafe { $store(sums.as_mut_ptr(), chain) };
                }
            }

            /// Computes the chains of `N` outputs that are neighbours at each step.
            ///
            /// # Safety
            ///
            /// The CPU must have AVX2 and FMA; the steps of the blocks of a vector must be valid for
            /// reads from `x` on, and `N` times as many elements from `y` on.
            ///
            /// # Panics
            ///
            /// If `sums` does not have `N` vectors.
            #[target_feature(enable = "avx2,fma")]
            pub(super) unsafe fn $beside<const N: usize>(
                x: *const $elem,
                y: *const $elem,
                sums: &mut [$elem],
            ) {
                assert_eq!(sums.len(), N * $side);
                let mut chains = [$zero(); N];
                for step in (0..STEPS).step_by($steps) {
                    // SAFETY: these are steps of the blocks that the caller guarantees.
                    unsafe {
                        let shared = $columns(x.add(step), STEPS);
                        // `N` parts of as many elements as the part of the steps has.
                        for part in 0..N {
                            let at = step * N + part * $steps;
                            let columns = $columns(y.add(at), STEPS * N);
                            for (i, column) in columns.into_iter().enumerate() {
                                let element = part * $steps + i;
                                let chain = &mut chains[element % N];
                                *chain = $fmadd(shared[element / N], column, *chain);
                            }
                        }
                    }
                }
                for (sums, chain) in sums.chunks_exact_mut($side).zip(chains) {
                    // SAFETY: the chunk has the length of a vector.
                    unsafe { $store(sums.as_mut_ptr(), chain) };
                }
            }
        };
    }
    kernels!(
        f32,
        8,
        4,
        apart_f32,
        beside_f32,
        columns_f32,
        _mm256_setzero_ps,
        _mm256_fmadd_ps,
        _mm256_storeu_ps
    );
    kernels!(
        f64,
        4,
        2,
        apart_f64,
        beside_f64,
        columns_f64,
        _mm256_setzero_pd,
        _mm256_fmadd_pd,
        _mm256_storeu_pd
    );
}
