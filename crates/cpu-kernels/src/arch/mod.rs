//! Vector registers, register tiles, and the distribution of disjoint output tiles to threads: the
//! only module of this crate that may use `unsafe`.
//!
//! All exports are safe to call: each entry point checks that its slices hold all that the tile
//! will access before it uses pointers.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod grid;
mod portable;
mod prefetch;
mod register_tile;
pub(crate) mod transpose;
mod vector;

pub(crate) use grid::{TileGrid, TileMut};
pub(crate) use prefetch::prefetch;
pub(crate) use register_tile::{Finish, Kernels, Offsets, TileFns, kernels_f32, kernels_f64};
