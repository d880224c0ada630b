//! Dense reductions over one fixed tree.
//!
//! # The tree
//!
//! Terms `t[0], …, t[n-1]` are f64 numbers. f32 elements are converted first, which is exact; any
//! function of an element (a square, a product, an exponential) is computed in f64 and rounded
//! before it is added. All additions are f64 additions, rounded to nearest even.
//!
//! ```text
//! reduce(t[0..n]):
//!     if n == 0: return +0
//!     P = ceil(n / 4096)                                    # number of blocks
//!     for b in 0..P:
//!         lane[0..32] = +0
//!         for i in 4096*b .. min(4096*(b+1), n):            # ascending
//!             lane[i mod 32] = lane[i mod 32] + t[i]
//!         for w in 16, 8, 4, 2, 1:                          # halving
//!             for l in 0..w:
//!                 lane[l] = lane[l] + lane[l + w]
//!         partial[b] = lane[0]
//!     if P == 1: return partial[0]
//!     return reduce(partial[0..P])
//! ```
//!
//! The caller rounds the final value to the output type, once. The tree depends on `n` alone. A
//! lane with no term holds `+0`, which changes nothing: no partial is ever `-0`, because each lane
//! starts from `+0`. For the same reason a further level over a single partial would be harmless.
//!
//! # Choosing a function
//!
//! | terms come from | use |
//! |---|---|
//! | one slice | [`sum_of`], or [`dot_of`] for two slices |
//! | an index: a strided row, a composite term | [`sum_by`] |
//! | several slices, one after the other | [`Accumulator`] |
//! | columns of a matrix, one result each | [`columns`] |
//! | columns whose rows lie anywhere, block by block | [`Lanes`] |
//! | rows of a matrix, one result each | [`rows`] |
//! | the same, products | [`product_rows`] |
//! | one slice, several threads | [`block_partial`] per block, then [`combine`] |
//! | columns, several threads | [`column_partials`] per block, then [`combine_columns`] |
//!
//! The functions that take a closure are `#[inline(always)]`: inside a [`simd`](crate::simd) kernel
//! they and the closure are compiled with that level's instructions. The levels above the blocks
//! have one term per 4096 and are compiled once.

mod columns;
mod norm;
mod normal;
mod rows;
mod slabs;
mod stats;
mod tree;

pub use columns::{column_partials, columns, combine_columns};
pub use norm::{needs_no_scale, norm_leaves_range, norm_scale};
pub use normal::{MEAN_SCALE, Normal, normal_scale, unscaled_mean};
pub use rows::{product_rows, rows};
pub use slabs::{Lanes, TILE};
pub use stats::{Moments, dot, mean_var, sum, sum_squares};
pub use tree::{Accumulator, block_partial, blocks, combine, dot_of, sum_by, sum_of};

/// The number of lanes of a block: term `i` goes to lane `i mod 32`.
pub const LANES: usize = 32;

/// The number of terms of a block.
pub const BLOCK: usize = 4096;
