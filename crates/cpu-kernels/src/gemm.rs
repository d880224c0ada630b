//! The common part of matrix products and convolutions: the element trait, the block of `k`,
//! packing, and the strided matrix product.

pub(crate) mod driver;
pub(crate) mod halves;
pub(crate) mod pack;
pub(crate) mod real;
pub(crate) mod reused;
pub(crate) mod scratch;
mod source;
pub(crate) mod split_k;
mod thin;
pub(crate) mod tiny;

pub use real::Real;
pub(crate) use source::Source;
pub(crate) use thin::Row;

/// The number of steps of `k` in one chain of fused multiply-adds.
///
/// This is part of the numerics contract: the chains of consecutive blocks are added in ascending
/// order.
pub const K_BLOCK: usize = 256;

/// Cuts `count` into the fewest parts of at most `most`, as equal as possible.
pub(crate) fn even_parts(
    count: usize,
    most: usize,
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let parts = count.div_ceil(most);
    (0..parts).map(move |p| p * count / parts..(p + 1) * count / parts)
}
