//! The elements that a caller needs of every line along a dimension, in their order.

use crate::error::Result;
use crate::{memory, parallel};
use samebits_numerics::extrema::Ordered;
use std::ops::{AddAssign, Not, Sub};

/// A type with a sort order.
pub trait Sortable: Copy + Send + Sync {
    /// A signed integer as wide as the type.
    type Rank: Rank;

    /// Returns a signed key that sorts ascending as the values do.
    fn rank_key(self) -> Self::Rank;

    /// Returns a key that sorts ascending as the values do.
    fn key(self) -> u64;

    /// Returns the value of a key, for a type in which each key has one value.
    fn of_key(_key: u64) -> Option<Self> {
        None
    }

    /// Returns true if [`unique`](super::unique) treats the values as equal. Unlike in a sort, a NaN does not
    /// equal another NaN.
    fn same(self, other: Self) -> bool;
}

impl Sortable for f32 {
    type Rank = i32;

    #[inline(always)]
    fn rank_key(self) -> i32 {
        self.sort_key() as i32 ^ i32::MIN
    }

    #[inline(always)]
    fn key(self) -> u64 {
        self.sort_key().into()
    }

    fn same(self, other: f32) -> bool {
        self == other
    }
}

impl Sortable for f64 {
    type Rank = i64;

    #[inline(always)]
    fn rank_key(self) -> i64 {
        self.sort_key() as i64 ^ i64::MIN
    }

    #[inline(always)]
    fn key(self) -> u64 {
        self.sort_key()
    }

    fn same(self, other: f64) -> bool {
        self == other
    }
}

impl Sortable for i64 {
    type Rank = i64;

    #[inline(always)]
    fn rank_key(self) -> i64 {
        self
    }

    #[inline(always)]
    fn key(self) -> u64 {
        self as u64 ^ (1 << 63)
    }

    fn of_key(key: u64) -> Option<i64> {
        Some((key ^ 1 << 63) as i64)
    }

    fn same(self, other: i64) -> bool {
        self == other
    }
}

/// A signed key, or the number of elements before another.
pub trait Rank:
    Copy + Ord + Default + From<bool> + AddAssign + Sub<Output = Self> + Not<Output = Self>
{
    /// None.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The largest key, that of NaN.
    const MOST: Self;

    /// Returns a number of elements.
    fn place(self) -> usize;
}

macro_rules! rank {
    ($($type:ident)*) => {$(
        impl Rank for $type {
            const ZERO: $type = 0;
            const ONE: $type = 1;
            const MOST: $type = $type::MAX;

            #[inline(always)]
            fn place(self) -> usize {
                self as usize
            }
        }
    )*};
}
rank!(i32 i64);

/// The number of elements of a line from which several threads sort it together.
const LONG: usize = 1 << 15;

/// An element of a line as its key and its index in one integer. No two pairs of a line are equal, so
/// any sorting algorithm gives the stable order.
pub(super) trait Pair: Ord + Copy + Send {
    /// No pair is larger.
    const LARGEST: Self;
    /// What turns the order of keys round.
    const FLIP: u64;

    fn new(key: u64, index: usize) -> Self;

    fn key(self) -> u64;

    fn index(self) -> usize;
}

/// A 32-bit key and a 32-bit index.
impl Pair for u64 {
    const LARGEST: u64 = u64::MAX;
    const FLIP: u64 = u32::MAX as u64;

    fn new(key: u64, index: usize) -> u64 {
        key << 32 | index as u64
    }

    fn key(self) -> u64 {
        self >> 32
    }

    fn index(self) -> usize {
        (self & u64::from(u32::MAX)) as usize
    }
}

impl Pair for u128 {
    const LARGEST: u128 = u128::MAX;
    const FLIP: u64 = u64::MAX;

    fn new(key: u64, index: usize) -> u128 {
        u128::from(key) << 64 | index as u128
    }

    fn key(self) -> u64 {
        (self >> 64) as u64
    }

    fn index(self) -> usize {
        self as u64 as usize
    }
}

/// Returns true if the key and the index of a line's elements fit into 64 bits together.
pub(super) fn is_narrow<T>(n: usize) -> bool {
    size_of::<T>() == 4 && n <= 1 << 32
}

/// The elements of a line that a caller needs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// The first `count` elements in order, at least 1.
    First { count: usize, descending: bool },
    /// The element at this place of the ascending order.
    Place(usize),
    /// The element at the place that this function returns for the numbers of all elements and of NaNs.
    Median(fn(usize, usize) -> usize),
}

impl Wanted {
    /// Returns the place of the first wanted element in a line whose elements are in order already.
    fn place_in_order<T: Sortable>(self, line: &[T]) -> Option<usize> {
        let (place, descending) = match self {
            Wanted::First { descending, .. } => (0, descending),
            Wanted::Place(place) => (place, false),
            Wanted::Median(_) => return None,
        };
        let is_ordered = match descending {
            false => line.is_sorted_by(|a, b| a.rank_key() <= b.rank_key()),
            true => line.is_sorted_by(|a, b| a.rank_key() >= b.rank_key()),
        };
        is_ordered.then_some(place)
    }
}

/// Sorts pairs, on several threads if there are many.
pub(super) fn sort_pairs<P: Pair>(pairs: &mut [P]) {
    match pairs.len() {
        LONG.. => parallel::sort_unstable(pairs),
        _ => pairs.sort_unstable(),
    }
}

/// Puts the wanted elements of a line into `pairs`, in order.
pub(super) fn arrange<T: Sortable, P: Pair>(
    op: &'static str,
    line: &[T],
    wanted: Wanted,
    pairs: &mut Vec<P>,
) -> Result<()> {
    let flip = if let Wanted::First { descending: true, .. } = wanted { P::FLIP } else { 0 };
    let all = line.iter().enumerate().map(|(i, x)| P::new(x.key() ^ flip, i));
    pairs.clear();
    match wanted {
        Wanted::First { count: 1, .. } | Wanted::Place(0) => {
            memory::reserve(op, pairs, 1)?;
            pairs.extend(all.min());
        }
        Wanted::First { count, .. } if count < line.len() && count <= FEW => {
            first_few(op, count, all, pairs)?;
        }
        Wanted::First { count, .. } if count < line.len() => {
            first(op, count, all, pairs)?;
        }
        Wanted::First { .. } => {
            memory::reserve(op, pairs, line.len())?;
            pairs.extend(all);
            sort_pairs(pairs);
        }
        Wanted::Place(place) => nth(op, place, all, pairs)?,
        Wanted::Median(place) => {
            let nans = line.iter().filter(|x| x.rank_key() == T::Rank::MOST).count();
            nth(op, place(line.len(), nans), all, pairs)?;
        }
    }
    Ok(())
}

/// Puts the pair at `place` of their order into `found`.
fn nth<P: Pair>(
    op: &'static str,
    place: usize,
    all: impl ExactSizeIterator<Item = P>,
    found: &mut Vec<P>,
) -> Result<()> {
    memory::reserve(op, found, all.len())?;
    found.extend(all);
    let pair = *found.select_nth_unstable(place).1;
    found.clear();
    found.push(pair);
    Ok(())
}

/// The number of pairs among which each new one is put at its place.
const FEW: usize = 8;

/// Puts the `k` smallest of some pairs into `kept`, in order; `k` is at most [`FEW`], and there are more.
fn first_few<P: Pair>(
    op: &'static str,
    k: usize,
    mut all: impl Iterator<Item = P>,
    kept: &mut Vec<P>,
) -> Result<()> {
    memory::reserve(op, kept, k)?;
    kept.extend(all.by_ref().take(k));
    kept.sort_unstable();
    let kept = &mut kept[..k];
    for pair in all {
        if pair > kept[k - 1] {
            continue;
        }
        let mut at = k - 1;
        while at > 0 && pair < kept[at - 1] {
            kept[at] = kept[at - 1];
            at -= 1;
        }
        kept[at] = pair;
    }
    Ok(())
}

/// Puts the `k` smallest of some pairs into `kept`, in order.
///
/// It keeps only pairs that can still be among them: few, unless the line descends.
fn first<P: Pair>(
    op: &'static str,
    k: usize,
    all: impl ExactSizeIterator<Item = P>,
    kept: &mut Vec<P>,
) -> Result<()> {
    let room = all.len().min(k.saturating_mul(4).max(256));
    memory::reserve(op, kept, room)?;
    let mut bound = P::LARGEST;
    for pair in all {
        if pair > bound {
            continue;
        }
        if kept.len() == room {
            bound = *kept.select_nth_unstable(k - 1).1;
            kept.truncate(k);
            if pair > bound {
                continue;
            }
        }
        kept.push(pair);
    }
    kept.sort_unstable();
    kept.truncate(k);
    Ok(())
}

/// Writes the `k` elements of each line that `wanted` names, in their order; there are some.
pub(super) fn select<T: Sortable>(
    op: &'static str,
    input: &[T],
    shape: [usize; 3],
    k: usize,
    values: &mut [T],
    indices: &mut [i64],
    wanted: Wanted,
) -> Result<()> {
    let [_, dim, inner] = shape;
    let lines = Lines { op, input, shape, k, wanted };
    let find = |values: &mut [T], indices: &mut [i64]| match is_narrow::<T>(dim) {
        true => lines.select::<u64>(values, indices),
        false => lines.select::<u128>(values, indices),
    };
    if inner == 1 || k == 1 {
        return find(values, indices);
    }
    let mut found = memory::filled(op, values.len(), input[0])?;
    let mut places = memory::zeroed(op, indices.len())?;
    find(&mut found, &mut places)?;
    lines.spread(&found, values);
    lines.spread(&places, indices);
    Ok(())
}

/// The lines of a tensor.
struct Lines<'a, T> {
    op: &'static str,
    input: &'a [T],
    shape: [usize; 3],
    k: usize,
    wanted: Wanted,
}

impl<T: Sortable> Lines<'_, T> {
    /// Finds `k` elements of each line; those of a line are neighbours in the results.
    fn select<P: Pair>(&self, values: &mut [T], indices: &mut [i64]) -> Result<()> {
        let Lines { op, input, k, wanted, .. } = *self;
        let [_, dim, inner] = self.shape;
        let some = (parallel::CHUNK / dim).max(1);
        let outputs =
            parallel::chunks_mut(values, some * k).zip(parallel::chunks_mut(indices, some * k));
        let scratch = || Ok((Vec::new(), Vec::new()));
        outputs.enumerate().try_for_each_with(scratch, |(pairs, copies), (i, (values, indices))| {
            let (first, count) = (i * some, values.len() / k);
            let lines = match inner {
                1 => &input[first * dim..][..count * dim],
                _ => {
                    self.copy(first, count, copies)?;
                    &copies[..]
                }
            };
            let outputs = values.chunks_exact_mut(k).zip(indices.chunks_exact_mut(k));
            for (line, (values, indices)) in lines.chunks_exact(dim).zip(outputs) {
                if let Some(first) = wanted.place_in_order(line) {
                    values.copy_from_slice(&line[first..][..k]);
                    (first as i64..).zip(indices).for_each(|(place, index)| *index = place);
                    continue;
                }
                arrange::<T, P>(op, line, wanted, pairs)?;
                for ((value, index), pair) in values.iter_mut().zip(indices).zip(&*pairs) {
                    (*value, *index) = (line[pair.index()], pair.index() as i64);
                }
            }
            Ok(())
        })
    }

    /// Copies lines side by side to one after the other.
    fn copy(&self, first: usize, count: usize, to: &mut Vec<T>) -> Result<()> {
        let [_, dim, inner] = self.shape;
        to.clear();
        memory::reserve(self.op, to, count * dim)?;
        to.resize(count * dim, self.input[0]);
        let (mut line, mut to) = (first, &mut to[..]);
        while !to.is_empty() {
            let (slab, column) = (line / inner, line % inner);
            let columns = (inner - column).min(to.len() / dim);
            let (part, rest) = to.split_at_mut(columns * dim);
            for i in 0..dim {
                let row = &self.input[(slab * dim + i) * inner + column..][..columns];
                for (j, &x) in row.iter().enumerate() {
                    part[j * dim + i] = x;
                }
            }
            (line, to) = (line + columns, rest);
        }
        Ok(())
    }

    /// Writes results of which those of a line are neighbours as rows of a result for each line.
    fn spread<R: Copy + Send + Sync>(&self, from: &[R], to: &mut [R]) {
        let (k, inner) = (self.k, self.shape[2]);
        parallel::rows(inner, to, |start, to| {
            for (row, to) in (start / inner..).zip(to.chunks_exact_mut(inner)) {
                let from = &from[row / k * k * inner + row % k..];
                for (to, &from) in to.iter_mut().zip(from.iter().step_by(k)) {
                    *to = from;
                }
            }
        });
    }
}
