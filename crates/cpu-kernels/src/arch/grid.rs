//! A matrix cut into tiles that threads may write at the same time.

use crate::parallel;
use samebits_numerics::{fpenv, memory};
use std::marker::PhantomData;

/// Consecutive row-major matrices, cut into disjoint rectangular tiles.
///
/// `new` has checked that `count * rows * columns` does not wrap around and is at most the length
/// of the slice behind `data`.
#[derive(Debug)]
pub(crate) struct TileGrid<'a, T> {
    data: *mut T,
    count: usize,
    rows: usize,
    columns: usize,
    tile: (usize, usize, usize),
    _borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: the grid represents the `&mut [T]` it was made from, and its tiles are disjoint.
unsafe impl<T: Send> Sync for TileGrid<'_, T> {}

/// One tile of a [`TileGrid`]; no other tile shares an element with it.
///
/// For each `matrix < matrices` and `row < rows`, the `columns` elements from `matrix *
/// matrix_stride + row * stride` on lie in one exclusively borrowed slice, and none of these
/// numbers wraps around: [`TileGrid::new`] or [`TileMut::from_slice`] has checked this.
#[derive(Debug)]
pub(crate) struct TileMut<'a, T> {
    data: *mut T,
    /// The number of matrices in this tile.
    pub(crate) matrices: usize,
    /// The number of rows of this tile; at the bottom edge, fewer than requested.
    pub(crate) rows: usize,
    /// The number of columns of this tile; at the right edge, fewer than requested.
    pub(crate) columns: usize,
    stride: usize,
    matrix_stride: usize,
    _borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: a tile is an exclusive borrow of its elements.
unsafe impl<T: Send> Send for TileMut<'_, T> {}

impl<'a, T: Send> TileGrid<'a, T> {
    /// Cuts `data`, `count` contiguous matrices, into tiles of the given number of matrices, rows
    /// and columns.
    ///
    /// # Panics
    ///
    /// If the matrices do not fit into `data` or a tile is empty.
    pub(crate) fn new(
        data: &'a mut [T],
        count: usize,
        (rows, columns): (usize, usize),
        tile: (usize, usize, usize),
    ) -> Self {
        assert!(tile.0 > 0 && tile.1 > 0 && tile.2 > 0, "empty tile");
        let len = memory::product(&[count, rows, columns]);
        assert!(len.is_some_and(|len| len <= data.len()), "matrices out of bounds");
        TileGrid { data: data.as_mut_ptr(), count, rows, columns, tile, _borrow: PhantomData }
    }

    /// Calls `work(first_matrix, first_row, first_column, tile)` once for each tile, in parallel,
    /// until a call fails.
    pub(crate) fn try_for_each<E: Send>(
        self,
        work: impl Fn(usize, usize, usize, TileMut<'_, T>) -> Result<(), E> + Sync + Send,
    ) -> Result<(), E> {
        let grid = &self;
        self.each_place(|place @ [matrix, row, column]| {
            // SAFETY: each place is visited once.
            work(matrix, row, column, unsafe { grid.tile(place) })
        })
    }

    /// Calls `work(first_matrix, first_row, first_column, tile, other_tile)` once for each tile and that
    /// of `other` at the same place, in parallel, until a call fails.
    ///
    /// # Panics
    ///
    /// If the tiles of the two differ in size or number.
    pub(crate) fn try_for_each_with<U: Send, E: Send>(
        self,
        other: TileGrid<'_, U>,
        work: impl Fn(usize, usize, usize, TileMut<'_, T>, TileMut<'_, U>) -> Result<(), E>
        + Sync
        + Send,
    ) -> Result<(), E> {
        assert_eq!(self.tile, other.tile, "tiles of one size");
        let sizes = [self.count, self.rows, self.columns];
        assert_eq!(sizes, [other.count, other.rows, other.columns], "matrices of one size");
        let (grid, other) = (&self, &other);
        self.each_place(|place @ [matrix, row, column]| {
            // SAFETY: each place is visited once, and both grids have tiles at the same places.
            work(matrix, row, column, unsafe { grid.tile(place) }, unsafe { other.tile(place) })
        })
    }

    /// Calls `visit` once for the first matrix, row and column of each tile, in parallel, until a call
    /// fails.
    fn each_place<E: Send>(
        &self,
        visit: impl Fn([usize; 3]) -> Result<(), E> + Sync + Send,
    ) -> Result<(), E> {
        if self.count == 0 || self.rows == 0 || self.columns == 0 {
            return Ok(());
        }
        // There are at most as many tiles as elements, whose number `new` has checked.
        let across = self.columns.div_ceil(self.tile.2);
        let down = self.rows.div_ceil(self.tile.1);
        let visit = |index: usize| {
            let [matrix, row, column] =
                [index / across / down, index / across % down, index % across];
            visit([matrix * self.tile.0, row * self.tile.1, column * self.tile.2])
        };
        match self.count.div_ceil(self.tile.0) * down * across {
            1 => fpenv::ieee(|| visit(0)),
            tiles => parallel::items(0..tiles).at_most(1).try_for_each(visit),
        }
    }

    /// Returns the tile that begins at a matrix, row and column.
    ///
    /// # Safety
    ///
    /// A tile must begin there, and there must be no other value for it.
    unsafe fn tile(&self, [matrix, row, column]: [usize; 3]) -> TileMut<'_, T> {
        let start = (matrix * self.rows + row) * self.columns + column;
        // Tiles at different places are disjoint, so the exclusive borrow of the whole is split without
        // overlap.
        TileMut {
            // SAFETY: matrix, row and column are less than `count`, `rows` and `columns`, so `start` is
            // less than their product, which `new` found to be at most the length.
            data: unsafe { self.data.add(start) },
            matrices: self.tile.0.min(self.count - matrix),
            rows: self.tile.1.min(self.rows - row),
            columns: self.tile.2.min(self.columns - column),
            stride: self.columns,
            matrix_stride: self.rows * self.columns,
            _borrow: PhantomData,
        }
    }
}

impl<'a, T> TileMut<'a, T> {
    /// Returns a contiguous slice as a tile.
    ///
    /// # Panics
    ///
    /// If `data` is too short.
    pub(crate) fn from_slice(data: &'a mut [T], rows: usize, columns: usize) -> Self {
        let len = memory::product(&[rows, columns]).filter(|&len| len <= data.len());
        let matrix_stride = len.expect("tile inside its slice");
        let (data, stride) = (data.as_mut_ptr(), columns);
        TileMut { data, matrices: 1, rows, columns, stride, matrix_stride, _borrow: PhantomData }
    }

    /// Returns the part of this tile in one matrix.
    ///
    /// # Panics
    ///
    /// If the tile has too few matrices.
    pub(crate) fn matrix(&mut self, index: usize) -> TileMut<'_, T> {
        assert!(index < self.matrices, "outside the tile");
        // SAFETY: the rows of this matrix lie in the slice that this value borrows exclusively, and
        // the distance to them does not wrap around.
        let data = unsafe { self.data.add(index * self.matrix_stride) };
        TileMut { data, matrices: 1, _borrow: PhantomData, ..*self }
    }

    /// Returns a pointer to a block of the first matrix, and the distance between its rows.
    ///
    /// # Panics
    ///
    /// If the block is not inside the tile.
    pub(super) fn block(
        &mut self,
        (row, column): (usize, usize),
        (rows, columns): (usize, usize),
    ) -> (*mut T, usize) {
        let inside = |at: usize, count: usize, size: usize| count <= size && at <= size - count;
        assert!(rows >= 1 && inside(row, rows, self.rows), "block outside the tile");
        assert!(inside(column, columns, self.columns), "block outside the tile");
        // SAFETY: the asserts above put the block inside the tile.
        (unsafe { self.data.add(row * self.stride + column) }, self.stride)
    }

    /// Returns columns `from..to` of one row of one matrix.
    ///
    /// # Panics
    ///
    /// If they are not inside the tile.
    pub(crate) fn row(&mut self, matrix: usize, row: usize, from: usize, to: usize) -> &mut [T] {
        assert!(matrix < self.matrices && row < self.rows, "outside the tile");
        assert!(from <= to && to <= self.columns, "outside the tile");
        let start = matrix * self.matrix_stride + row * self.stride + from;
        // SAFETY: the asserts above put the elements inside the tile, which this value borrows
        // exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(start), to - from) }
    }
}
