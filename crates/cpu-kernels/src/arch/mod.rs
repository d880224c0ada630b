//! The only module of this crate that may use `unsafe`: vector registers, register tiles and
//! the hand-out of disjoint output tiles to threads.
//!
//! Everything exported from here is safe to call: each entry point checks its slices against
//! what the tile will touch before it goes down to pointers.

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
