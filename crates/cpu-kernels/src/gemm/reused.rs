//! A right factor that is packed once for many products.

use super::pack::{Lanes, PackPanels, pack_all};
use super::scratch::Buffer;
use super::{K_BLOCK, Real, even_parts};
use crate::arch::{Finish, Offsets, TileMut, Tiling};
use samebits_numerics::memory::OutOfMemory;
use samebits_numerics::simd;

/// A packed factor; its products have the bits of [`products`](super::driver::products).
pub(crate) struct Reused<T: 'static> {
    tiles: Tiling<T>,
    columns: usize,
    k: usize,
    /// The packed panels, `[panel][step][width]`.
    panels: Buffer<T>,
    /// The positions of the steps of a block in a panel.
    steps: Offsets,
}

impl<T: Real> Reused<T> {
    /// Packs `columns` lanes of `k` steps, for products of up to `rows` rows.
    pub(crate) fn pack(
        b: Lanes<'_, T>,
        columns: usize,
        k: usize,
        rows: usize,
    ) -> Result<Self, OutOfMemory> {
        let kernels = T::kernels(simd::level());
        let tiles = kernels.tiling(kernels.fitting(rows, columns), columns);
        let width = tiles.columns();
        let mut panels = Buffer::new();
        pack_all(b, columns, 0..k, width, panels.slice(&[columns.div_ceil(width), width, k])?);
        let steps = Offsets::linear(k.min(K_BLOCK), width);
        Ok(Reused { tiles, columns, k, panels, steps })
    }

    /// Returns the number of elements from one row of a product to the next; those beyond the
    /// columns are meaningless.
    pub(crate) fn row_stride(&self) -> usize {
        self.columns.next_multiple_of(self.tiles.columns())
    }

    /// Multiplies `rows` rows of `k` elements in `a` with this factor, on the calling thread.
    ///
    /// # Panics
    ///
    /// If a slice is too short.
    pub(crate) fn product(&self, a: &[T], rows: usize, out: &mut [T]) -> Result<(), OutOfMemory> {
        let (width, stride) = (self.tiles.columns(), self.row_stride());
        if rows == 0 || self.columns == 0 {
            return Ok(());
        }
        if self.k == 0 {
            out[..rows * stride].fill(T::default());
            return Ok(());
        }
        let parts: Vec<_> = even_parts(rows, self.tiles.max_rows()).collect();
        let source = Lanes { data: a, lane_stride: self.k, step_stride: 1 };
        let panels = self.panels.get(stride * self.k);
        let mut out = TileMut::from_slice(out, rows, stride);
        T::with_scratch(|scratch| {
            for block in (0..self.k).step_by(K_BLOCK) {
                let k = K_BLOCK.min(self.k - block);
                let finish = Finish { add: block > 0, last: block + k == self.k };
                let packed = scratch.a.slice(&[rows, k])?;
                let steps = block..block + k;
                simd::dispatch(PackPanels {
                    source,
                    panels: &parts,
                    steps,
                    width: 0,
                    out: &mut *packed,
                });
                for (panel, b) in panels.chunks_exact(width * self.k).enumerate() {
                    let b = &b[block * width..][..k * width];
                    let tiles = self.tiles.of(self.columns - panel * width);
                    for part in &parts {
                        let a = &packed[part.start * k..part.end * k];
                        let at = (part.start, panel * width);
                        let steps = (&self.steps, 0, k);
                        tiles.run_packed(part.len(), a, b, steps, &mut out, at, finish);
                    }
                }
            }
            Ok(())
        })
    }
}
