//! Work on the columns of one slab, whose rows follow each other.

use samebits_numerics::reduce::{BLOCK, TILE, combine_columns};

use crate::error::Result;
use crate::memory;
use crate::parallel::{self, CHUNK, chunks_mut};

/// The columns of a piece whose blocks of rows are shared by threads.
const WIDE: usize = 256;

/// Calls `f(column, blocks, piece)` for pieces of the columns of a slab of `size` rows, with the
/// number of blocks of terms.
pub(crate) fn by_columns<R: Send>(
    size: usize,
    out: &mut [R],
    f: impl Fn(usize, usize, &mut [R]) -> Result<()> + Sync + Send,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    // Of narrow pieces each would read a part of every row.
    let wide = if size > BLOCK { WIDE } else { TILE.min(out.len().div_ceil(parallel::threads())) };
    let columns = CHUNK.div_ceil(size.max(1)).max(wide).next_multiple_of(16);
    let even = out.len().div_ceil(out.len().div_ceil(columns)).next_multiple_of(16);
    parallel::try_pieces_of(even, out, |column, out| f(column, size.div_ceil(BLOCK), out))
}

/// Sums the columns of a slab of `size` rows over the tree; `f(column, block, out)` sums one block
/// of the columns from `column` on.
pub(crate) fn sums_of(
    op: &'static str,
    size: usize,
    out: &mut [f64],
    f: impl Fn(usize, usize, &mut [f64]) + Sync + Send,
) -> Result<()> {
    by_columns(size, out, |column, blocks, out| {
        if blocks <= 1 {
            f(column, 0, out);
            return Ok(());
        }
        let columns = out.len();
        let mut partials = memory::zeroed(op, memory::volume(op, &[blocks, columns])?)?;
        chunks_mut(&mut partials, columns).enumerate().for_each(|(block, out)| {
            f(column, block, out);
        });
        combine_columns(&partials, columns, out);
        Ok(())
    })
}

/// Returns the first column and the number of columns of tiles of `columns` columns.
///
/// An iterator, since a closure in its place would not always be inlined, and what is not inlined
/// into a kernel has no vectors.
#[inline(always)]
pub(crate) fn tiles(columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..columns).step_by(TILE).map(move |column| (column, TILE.min(columns - column)))
}
