//! Vector registers, register tiles, and the distribution of disjoint output tiles to threads: the
//! only module of this crate that may use `unsafe`.
//!
//! All exports are safe to call: each entry point checks that its slices hold all that the tile
//! will access before it uses pointers.

#![allow(unsafe_code)]

pub(crate) mod abreast;
pub(crate) mod along;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod blocks;
pub(crate) mod columns;
mod gather;
pub(crate) mod grid;
mod passes;
mod portable;
mod prefetch;
pub(crate) mod reflect;
mod register_tile;
mod stream;
pub(crate) mod transpose;
mod vector;

pub(crate) use gather::{LANES, Places};
pub(crate) use grid::{TileGrid, TileMut};
pub(crate) use prefetch::prefetch;
pub(crate) use register_tile::{Finish, Kernels, Offsets, TileFns, Tiling};
pub(crate) use stream::stream;

use samebits_numerics::simd::Level;

/// Defines the function that returns the tiles of each level for one element type.
macro_rules! kernels {
    ($name:ident, $elem:ty, $tiles:ident) => {
        /// Returns the tiles of `level`, or of the best level of this machine if that is lower.
        pub(crate) fn $name(level: Level) -> &'static Kernels<$elem> {
            #[cfg(target_arch = "x86_64")]
            {
                static AVX512: Kernels<$elem> = Kernels { shapes: avx512::$tiles::SHAPES };
                static AVX2: Kernels<$elem> = Kernels { shapes: avx2::$tiles::SHAPES };
                match level.min(samebits_numerics::simd::supported()) {
                    Level::Avx512 => return &AVX512,
                    Level::Avx2 => return &AVX2,
                    Level::Portable => {}
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = level;
            static PORTABLE: Kernels<$elem> = Kernels { shapes: portable::$tiles::SHAPES };
            &PORTABLE
        }
    };
}
kernels!(kernels_f32, f32, f32_tiles);
kernels!(kernels_f64, f64, f64_tiles);
