//! Attention in strips of scores, so that memory grows with the sequence, not with its square.
//!
//! # Determinism
//!
//! `Portable`. Results have the bits of the composition under *Attention* in `docs/book/numerics.md`:
//! scores and averages are contractions, sums of exponentials run in f64 over the fixed tree. The
//! cuts into strips and blocks follow from sizes alone.

mod backward;
mod forward;
mod narrow;
mod products;
mod single;
mod strips;
mod sums;
mod thin;
mod weigh;

use std::cmp::Ordering;
use std::ops::Range;

use samebits_numerics::simd::{self, Kernel};
use samebits_rng::Draw;
use samebits_tensor_core::geometry::AttentionSizes;

use crate::elementwise::Elementary;
use crate::error::{Error, Result, expect_len};
use crate::gemm::Real;
use crate::gemm::pack::Lanes;
use crate::memory;

pub use backward::attention_backward;
pub use forward::attention;

const ATTENTION: &str = "scaled_dot_product_attention";

/// An element type of attention: f32 or f64.
pub trait Number: Real + Elementary {}

impl<T: Real + Elementary> Number for T {}

/// Matrices of one size in a slice: element (i, j) of matrix `m` is `data[starts[m] + i *
/// strides[0] + j * strides[1]]`. Strides may be zero.
#[derive(Clone, Copy, Debug)]
pub struct Matrices<'a, T> {
    data: &'a [T],
    starts: &'a [usize],
    sizes: [usize; 2],
    strides: [usize; 2],
}

impl<'a, T: Copy> Matrices<'a, T> {
    /// Returns matrices of `sizes` rows and columns.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if an element lies outside of the slice.
    pub fn new(
        data: &'a [T],
        starts: &'a [usize],
        sizes: [usize; 2],
        strides: [usize; 2],
    ) -> Result<Self> {
        let new = Matrices { data, starts, sizes, strides };
        if starts.is_empty() || sizes.contains(&0) {
            return Ok(Matrices { strides: [0; 2], ..new });
        }
        let start = starts.iter().copied().max().unwrap_or(0);
        let last = sizes.iter().zip(strides).try_fold(start, |last, (&size, stride)| {
            (size - 1).checked_mul(stride)?.checked_add(last)
        });
        if last.is_some_and(|last| last < data.len()) {
            return Ok(new);
        }
        let message = format!(
            "matrices of {sizes:?} with strides {strides:?} from {start} need more than the {} \
             elements of their slice",
            data.len()
        );
        Err(Error::argument(ATTENTION, message))
    }

    /// Returns the slice from an element on; it is empty if the matrices are.
    fn from(&self, matrix: usize, row: usize) -> &'a [T] {
        let start = self.starts[matrix] + row * self.strides[0];
        self.data.get(start..).unwrap_or(&[])
    }

    /// Returns a row of a matrix whose columns are neighbours.
    #[inline(always)]
    fn row(&self, matrix: usize, row: usize) -> &'a [T] {
        &self.from(matrix, row)[..self.sizes[1]]
    }

    /// Returns rows as lanes and columns as steps, from row `row` on.
    fn rows(&self, matrix: usize, row: usize) -> Lanes<'a, T> {
        let [lane_stride, step_stride] = self.strides;
        Lanes { data: self.from(matrix, row), lane_stride, step_stride }
    }

    /// Returns columns as lanes and rows as steps, from row `row` on.
    fn columns(&self, matrix: usize, row: usize) -> Lanes<'a, T> {
        let [step_stride, lane_stride] = self.strides;
        Lanes { data: self.from(matrix, row), lane_stride, step_stride }
    }

    /// Returns whether tiles of `tile` lanes can read all matrices in place.
    fn in_tiles(&self, lane: usize, tile: usize) -> bool {
        let last = (0..self.starts.len()).max_by_key(|&matrix| self.starts[matrix]);
        last.is_some_and(|last| self.fits_tiles(last, lane, tile))
    }

    /// Returns whether tiles of `tile` lanes can read a matrix in place, with rows (`lane` = 0) or
    /// columns (1) as lanes: consecutive lanes are neighbours, and whole tiles end in the slice.
    fn fits_tiles(&self, matrix: usize, lane: usize, tile: usize) -> bool {
        let (lanes, steps, step) = (self.sizes[lane], self.sizes[1 - lane], self.strides[1 - lane]);
        let end = lanes.checked_next_multiple_of(tile).and_then(|lanes| {
            let last = steps.checked_sub(1)?.checked_mul(step)?;
            last.checked_add(self.starts[matrix])?.checked_add(lanes)
        });
        self.strides[lane] == 1 && end.is_some_and(|end| end <= self.data.len())
    }

    /// Replaces each value by `change` of it and its element: those of a row from some column on.
    #[inline(always)]
    fn change_beside<U: Copy>(
        &self,
        (matrix, row, column): (usize, usize, usize),
        values: &mut [U],
        change: impl Fn(U, T) -> U,
    ) {
        const BLOCK: usize = 16;
        if self.strides[1] != 1 || values.is_empty() {
            for (j, value) in values.iter_mut().enumerate() {
                *value = change(*value, self.at(matrix, row, column + j));
            }
            return;
        }
        let elements = &self.from(matrix, row)[column..][..values.len()];
        let (blocks, rest) = values.as_chunks_mut::<BLOCK>();
        let (elements, last) = elements.as_chunks::<BLOCK>();
        for (block, elements) in blocks.iter_mut().zip(elements) {
            // Whole vectors are written: single ones behind a mask take long.
            let mut changed = *block;
            for (value, &element) in changed.iter_mut().zip(elements) {
                *value = change(*value, element);
            }
            *block = changed;
        }
        for (value, &element) in rest.iter_mut().zip(last) {
            *value = change(*value, element);
        }
    }

    #[inline(always)]
    fn at(&self, matrix: usize, row: usize, column: usize) -> T {
        self.data[self.starts[matrix] + row * self.strides[0] + column * self.strides[1]]
    }
}

/// The arguments of an attention; all have as many matrices as the sizes say.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a, T> {
    /// The sizes.
    pub sizes: AttentionSizes,
    /// The scaled queries, queries by width.
    pub query: Matrices<'a, T>,
    /// Keys by width.
    pub key: Matrices<'a, T>,
    /// Keys by features.
    pub value: Matrices<'a, T>,
    /// Numbers to add to the scores, queries by keys; −∞ excludes a key.
    pub added: Option<Matrices<'a, T>>,
    /// Other than 0 for excluded keys, queries by keys.
    pub hidden: Option<Matrices<'a, u8>>,
    /// Excludes keys after `i + offset` for query `i`.
    pub causal: Option<usize>,
    /// Drops weights after they are summed, if there is one.
    pub dropout: Option<Dropout<'a>>,
}

/// Drops weight number i, in row-major order of matrices, queries and keys, as [`Draw::dropout`] drops
/// element i.
#[derive(Clone, Copy, Debug)]
pub struct Dropout<'a> {
    /// The draw.
    pub draw: &'a Draw,
    /// The probability of dropping a weight.
    pub p: f64,
}

/// The gradients and numbers of the forward pass that [`attention_backward`] needs.
#[derive(Clone, Copy, Debug)]
pub struct Upstream<'a, T> {
    /// The gradient of the averages, divided by the sums; queries by features.
    pub grad: Matrices<'a, T>,
    /// The sum of `grad` times the averages of each query.
    pub shared: &'a [T],
    /// The largest score of each query.
    pub largest: &'a [T],
}

impl<T: Number> Call<'_, T> {
    fn check(&self) -> Result<()> {
        let AttentionSizes { count, queries, keys, width, features } = self.sizes;
        expect_matrices("query", &self.query, count, [queries, width])?;
        expect_matrices("key", &self.key, count, [keys, width])?;
        expect_matrices("value", &self.value, count, [keys, features])?;
        if let Some(added) = &self.added {
            expect_matrices("added", added, count, [queries, keys])?;
        }
        if let Some(hidden) = &self.hidden {
            expect_matrices("hidden", hidden, count, [queries, keys])?;
        }
        if let Some(Dropout { p, .. }) = self.dropout {
            memory::volume(ATTENTION, &[count, queries, keys])?;
            if !(0.0..=1.0).contains(&p) {
                let message = format!("expected 0 <= p <= 1, got {p}");
                return Err(Error::argument(ATTENTION, message));
            }
        }
        Ok(())
    }

    /// Writes to `kept`, which is empty without dropout, 0 for dropped weights of a query for the keys
    /// from `key` on.
    #[inline(always)]
    fn keep(&self, (matrix, query, key): (usize, usize, usize), kept: &mut [u8]) {
        if let Some(Dropout { draw, p }) = self.dropout {
            let AttentionSizes { queries, keys, .. } = self.sizes;
            let start = (matrix * queries + query) * keys + key;
            // `check` has seen that the probability is one.
            let drawn = draw.dropout_mask(start as u64, p, kept);
            debug_assert!(drawn.is_ok(), "{drawn:?}");
        }
    }

    /// Returns the number of bytes that [`keep`](Self::keep) needs for rows of `keys` keys.
    fn kept_len(&self, keys: usize) -> usize {
        if self.dropout.is_some() { keys } else { 0 }
    }

    /// Applies dropout in place.
    #[inline(always)]
    fn drop_some(&self, kept: &[u8], values: &mut [T]) {
        if let Some(Dropout { p, .. }) = self.dropout {
            let scale = T::from_f64(if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) });
            for (value, &keep) in values.iter_mut().zip(kept) {
                let scaled = Real::canonical(*value * scale);
                *value = if keep != 0 { scaled } else { T::ZERO };
            }
        }
    }

    /// Returns true if tensors exclude keys.
    fn is_masked(&self) -> bool {
        self.added.is_some() || self.hidden.is_some()
    }

    /// Returns the number of keys that a causal mask shows to a query.
    #[inline(always)]
    fn seen(&self, query: usize) -> usize {
        self.sizes.seen(query, self.causal)
    }

    /// Adds the mask of numbers to the scores of a query for the keys from `key` on, and replaces
    /// those of excluded keys with −∞.
    #[inline(always)]
    fn mask(&self, matrix: usize, query: usize, key: usize, scores: &mut [T]) {
        if let Some(added) = &self.added {
            added.change_beside((matrix, query, key), scores, |score, number| {
                if number == T::LOWEST { number } else { score + number }
            });
        }
        if let Some(hidden) = &self.hidden {
            hidden.change_beside((matrix, query, key), scores, |score, hidden| {
                if hidden != 0 { T::LOWEST } else { score }
            });
        }
    }

    /// Replaces the values of excluded keys with +0.
    #[inline(always)]
    fn clear(&self, matrix: usize, query: usize, key: usize, values: &mut [T]) {
        if let Some(added) = &self.added {
            added.change_beside((matrix, query, key), values, |value, number| {
                if number == T::LOWEST { T::ZERO } else { value }
            });
        }
        if let Some(hidden) = &self.hidden {
            hidden.change_beside((matrix, query, key), values, |value, hidden| {
                if hidden != 0 { T::ZERO } else { value }
            });
        }
    }

    /// Computes `exp(score − largest)` of a query for the keys from `key` on, in place, and +0 for
    /// excluded keys and for scores after the first `seen`. The masks have been applied to the scores.
    #[inline(always)]
    fn exponentials(
        &self,
        (matrix, query, key): (usize, usize, usize),
        largest: T,
        (scores, seen): (&mut [T], usize),
        differences: &mut [T],
    ) {
        let differences = &mut differences[..scores.len()];
        for (difference, &score) in differences.iter_mut().zip(&*scores) {
            *difference = score - largest;
        }
        T::exp_each(differences, scores);
        let (scores, rest) = scores.split_at_mut(seen);
        rest.fill(T::ZERO);
        self.clear_spoilt((matrix, query, key), largest, scores);
    }

    /// Replaces the exponentials of excluded keys with +0, where `exp(−∞ − largest)` is none.
    #[inline(always)]
    fn clear_spoilt(
        &self,
        (matrix, query, key): (usize, usize, usize),
        largest: T,
        exponentials: &mut [T],
    ) {
        // The exponential of −∞ less a number is 0 already; less NaN or −∞ it is NaN.
        if self.is_masked() && largest.partial_cmp(&T::LOWEST) != Some(Ordering::Greater) {
            self.clear(matrix, query, key, exponentials);
        }
    }
}

/// The number of elements of the largest vector.
const fn vector<T>() -> usize {
    64 / size_of::<T>()
}

/// The number of scores of a row that are computed together: lengths are rounded up to a multiple,
/// because what a vector does at once takes many steps one by one.
const fn whole<T>(length: usize) -> usize {
    length.next_multiple_of(vector::<T>())
}

/// Returns true if no element of some rows of a matrix is infinite or NaN.
fn finite<T: Number>(matrices: &Matrices<'_, T>, matrix: usize, rows: Range<usize>) -> bool {
    match matrices.strides[1] {
        1 => simd::dispatch(Finite { matrices, matrix, rows }),
        _ => rows.into_iter().all(|row| {
            (0..matrices.sizes[1]).all(|column| matrices.at(matrix, row, column).finite())
        }),
    }
}

/// [`finite`] of rows whose elements are neighbours.
struct Finite<'a, T> {
    matrices: &'a Matrices<'a, T>,
    matrix: usize,
    rows: Range<usize>,
}

impl<T: Number> Kernel for Finite<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        const LANES: usize = 8;
        let Finite { matrices, matrix, rows } = self;
        let columns = matrices.sizes[1];
        let rows = if columns > 0 { rows } else { 0..0 };
        // Zero times a number is zero, unless it is infinite or NaN.
        let mut sums = [T::ZERO; LANES];
        let mut add = |elements: &[T]| {
            for (sum, &x) in sums.iter_mut().zip(elements) {
                *sum = *sum + x * T::ZERO;
            }
        };
        for row in rows {
            let (blocks, rest) = matrices.from(matrix, row)[..columns].as_chunks::<LANES>();
            blocks.iter().for_each(|block| add(block));
            add(rest);
        }
        sums.iter().all(|&sum| sum == T::ZERO)
    }
}

/// Returns true if one of the first `columns` elements of rows is −0.
fn has_negative_zero<T: Number>(rows: &[T], stride: usize, columns: usize) -> bool {
    let row = |row: &[T]| row[..columns].iter().fold(false, |any, &x| any | x.negative_zero());
    rows.chunks_exact(stride).any(row)
}

fn expect_matrices<T>(
    what: &'static str,
    matrices: &Matrices<'_, T>,
    count: usize,
    sizes: [usize; 2],
) -> Result<()> {
    expect_len(ATTENTION, what, matrices.starts.len(), count)?;
    if matrices.sizes == sizes {
        return Ok(());
    }
    let message = format!("{what} must be matrices of {sizes:?}, got {:?}", matrices.sizes);
    Err(Error::argument(ATTENTION, message))
}

/// Matrices whose keys and values are the same memory, so that they are packed once.
struct Groups {
    /// The group of each matrix.
    of: Vec<usize>,
    /// The first matrix of each group.
    first: Vec<usize>,
}

impl Groups {
    fn new<T: Number>(call: &Call<'_, T>) -> Result<Groups> {
        let count = call.sizes.count;
        let (mut of, mut first) =
            (memory::with_capacity(ATTENTION, count)?, memory::with_capacity(ATTENTION, count)?);
        let starts = |matrix: usize| (call.key.starts[matrix], call.value.starts[matrix]);
        for matrix in 0..count {
            if matrix == 0 || starts(matrix) != starts(matrix - 1) {
                first.push(matrix);
            }
            of.push(first.len() - 1);
        }
        Ok(Groups { of, first })
    }
}
