//! Short lines, several at a time: the place of an element is the number of elements before it.

use super::lines::{Rank, Sortable, Wanted};
use crate::Result;
use crate::arch::{TileGrid, TileMut};
use samebits_numerics::simd::{self, Kernel};

/// The longest short line.
pub(super) const SHORT: usize = 16;
/// The number of lines that fill vectors.
const LANES: usize = 16;
/// The number of lines that a thread takes at a time.
const TAKEN: usize = 512;

/// Something of each element of [`LANES`] lines.
type Block<T> = [[T; LANES]; SHORT];

/// Writes the `k` elements of each line that are wanted; there are some. Lines have up to [`SHORT`] elements.
pub(super) fn select<T: Sortable>(
    input: &[T],
    shape: [usize; 3],
    k: usize,
    values: &mut [T],
    indices: &mut [i64],
    wanted: Wanted,
) -> Result<()> {
    let [outer, dim, inner] = shape;
    let tile = match inner {
        TAKEN.. => (1, k, TAKEN),
        _ => (TAKEN / inner, k, inner),
    };
    let values = TileGrid::new(values, outer, (k, inner), tile);
    let indices = TileGrid::new(indices, outer, (k, inner), tile);
    values.try_for_each_with(indices, |slab, _, column, values, indices| {
        let input = &input[slab * dim * inner + column..];
        simd::dispatch(Lines { input, dim, inner, values, indices, wanted });
        Ok(())
    })
}

/// Arguments of a kernel: lines side by side, from the first element of the first one on.
struct Lines<'a, T> {
    input: &'a [T],
    dim: usize,
    /// The distance between the elements of a line.
    inner: usize,
    values: TileMut<'a, T>,
    indices: TileMut<'a, i64>,
    wanted: Wanted,
}

impl<T: Sortable> Kernel for Lines<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(mut self) {
        let (mut elements, mut keys) = ([[self.input[0]; LANES]; SHORT], Block::default());
        let (mut ranks, mut places) = (Block::default(), Block::default());
        let lines = self.values.matrices * self.values.columns;
        for first in (0..lines).step_by(LANES) {
            let count = LANES.min(lines - first);
            self.read(first, count, &mut elements);
            for (keys, elements) in keys.iter_mut().zip(&elements).take(self.dim) {
                for (key, x) in keys.iter_mut().zip(elements) {
                    *key = self.key(*x);
                }
            }
            rank(&keys[..self.dim], &mut ranks);
            for (i, ranks) in (0..).zip(&ranks[..self.dim]) {
                for (lane, rank) in ranks.iter().enumerate() {
                    places[rank.place() % SHORT][lane] = i;
                }
            }
            match self.wanted {
                Wanted::First { .. } => {}
                Wanted::Place(place) => places[0] = places[place % SHORT],
                Wanted::Median(place) => {
                    let mut medians = [0; LANES];
                    for (lane, median) in medians.iter_mut().enumerate() {
                        let nans =
                            keys[..self.dim].iter().filter(|keys| keys[lane] == T::Rank::MOST);
                        *median = places[place(self.dim, nans.count()) % SHORT][lane];
                    }
                    places[0] = medians;
                }
            }
            self.write(first, count, &elements, &places);
        }
    }
}

/// Counts for each element those that come before it: the smaller ones, and the equal ones with a smaller
/// index.
#[inline(always)]
fn rank<R: Rank>(keys: &[[R; LANES]], ranks: &mut Block<R>) {
    for (i, key) in keys.iter().enumerate() {
        let mut rank = [R::ZERO; LANES];
        for (other, rank_of_other) in keys[..i].iter().zip(&mut *ranks) {
            for lane in 0..LANES {
                let is_before = R::from(key[lane] < other[lane]);
                rank_of_other[lane] += is_before;
                rank[lane] += R::ONE - is_before;
            }
        }
        ranks[i] = rank;
    }
}

impl<T: Sortable> Lines<'_, T> {
    /// Returns a key that sorts ascending as the elements are wanted.
    #[inline(always)]
    fn key(&self, x: T) -> T::Rank {
        match self.wanted {
            Wanted::First { descending: true, .. } => !x.rank_key(),
            _ => x.rank_key(),
        }
    }

    /// Returns the matrix and the columns of the lines from `line` on that lie side by side.
    #[inline(always)]
    fn side_by_side(&self, line: usize, count: usize) -> (usize, usize, usize) {
        let columns = self.values.columns;
        let (matrix, column) = (line / columns, line % columns);
        (matrix, column, count.min(columns - column))
    }

    #[inline(always)]
    fn read(&self, first: usize, count: usize, elements: &mut Block<T>) {
        let Lines { input, dim, inner, .. } = *self;
        if inner == 1 {
            let lines = input[first * dim..][..count * dim].chunks_exact(dim);
            for (lane, line) in lines.enumerate() {
                for (elements, &x) in elements.iter_mut().zip(line) {
                    elements[lane] = x;
                }
            }
            return;
        }
        let mut lane = 0;
        while lane < count {
            let (matrix, column, columns) = self.side_by_side(first + lane, count - lane);
            for (i, elements) in elements[..dim].iter_mut().enumerate() {
                let from = &input[(matrix * dim + i) * inner + column..][..columns];
                elements[lane..][..columns].copy_from_slice(from);
            }
            lane += columns;
        }
    }

    #[inline(always)]
    fn write(&mut self, first: usize, count: usize, elements: &Block<T>, places: &Block<u8>) {
        for (row, places) in places[..self.values.rows].iter().enumerate() {
            let mut found = elements[0];
            for (lane, (found, &place)) in found.iter_mut().zip(places).enumerate() {
                *found = elements[usize::from(place) % SHORT][lane];
            }
            let mut lane = 0;
            while lane < count {
                let (matrix, column, columns) = self.side_by_side(first + lane, count - lane);
                let values = self.values.row(matrix, row, column, column + columns);
                values.copy_from_slice(&found[lane..][..columns]);
                let indices = self.indices.row(matrix, row, column, column + columns);
                for (index, &place) in indices.iter_mut().zip(&places[lane..]) {
                    *index = place.into();
                }
                lane += columns;
            }
        }
    }
}
