//! Maximum, minimum and sort order with defined ties.
//!
//! The rules for [`max`], [`min`], [`argmax`], [`argmin`] and all that is built from them:
//!
//! - NaN wins over every number, for the maximum *and* for the minimum, so a NaN is never hidden.
//!   The value returned is the canonical NaN; the index is that of the first NaN.
//! - Ties go to the lowest index. `+0` and `-0` are equal, so a zero result has the sign of the
//!   first zero.
//!
//! For sorting, NaN is the largest value and `-0` equals `+0`; see [`Ordered::sort_key`].

mod rows;

pub use rows::{argmax_rows, argmin_rows, max_rows, min_rows};

use crate::nan::Canonical;

/// The number of elements per update of the running extremum: small enough to be rescanned from the
/// first-level cache.
const BLOCK: usize = 1024;

/// The number of elements compared at a time.
const LANES: usize = 32;

/// A floating-point type with the order of this module.
pub trait Ordered: Canonical + PartialOrd + Default + core::ops::Add<Output = Self> {
    /// An unsigned integer as wide as the type.
    type Key: Copy + Ord + Default + core::fmt::Debug;
    /// Negative infinity.
    const LOWEST: Self;
    /// Positive infinity.
    const HIGHEST: Self;

    /// Returns a key that sorts as the value does: `a < b` if and only if `key(a) < key(b)`; `-0`
    /// and `+0` have the same key, and all NaNs have the same, largest key.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_numerics::extrema::Ordered;
    ///
    /// assert!((-1.0f32).sort_key() < 0.5f32.sort_key());
    /// assert_eq!((-0.0f32).sort_key(), 0.0f32.sort_key());
    /// assert!(f32::INFINITY.sort_key() < (-f32::NAN).sort_key());
    /// ```
    fn sort_key(self) -> Self::Key;

    /// Returns the complement of [`sort_key`](Ordered::sort_key), which sorts from the largest
    /// (NaN) down.
    fn descending_key(self) -> Self::Key;

    /// Returns true for any NaN.
    fn is_nan(self) -> bool;
}

impl Ordered for f32 {
    type Key = u32;
    const LOWEST: f32 = f32::NEG_INFINITY;
    const HIGHEST: f32 = f32::INFINITY;

    #[inline(always)]
    fn sort_key(self) -> u32 {
        // Adding +0 turns -0 into +0 and changes nothing else.
        let bits = (self + 0.0).to_bits();
        let key = bits ^ (((bits as i32 >> 31) as u32) | 0x8000_0000);
        if self.is_nan() { u32::MAX } else { key }
    }

    #[inline(always)]
    fn descending_key(self) -> u32 {
        !self.sort_key()
    }

    #[inline(always)]
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

impl Ordered for f64 {
    type Key = u64;
    const LOWEST: f64 = f64::NEG_INFINITY;
    const HIGHEST: f64 = f64::INFINITY;

    #[inline(always)]
    fn sort_key(self) -> u64 {
        let bits = (self + 0.0).to_bits();
        let key = bits ^ (((bits as i64 >> 63) as u64) | (1 << 63));
        if self.is_nan() { u64::MAX } else { key }
    }

    #[inline(always)]
    fn descending_key(self) -> u64 {
        !self.sort_key()
    }

    #[inline(always)]
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}

/// Returns true if `new` replaces the earlier element `old` as the maximum.
///
/// # Examples
///
/// ```
/// use samebits_numerics::extrema::replaces_max;
///
/// assert!(replaces_max(1.0f32, 2.0));
/// assert!(!replaces_max(1.0f32, 1.0));
/// assert!(!replaces_max(-0.0f32, 0.0));
/// assert!(replaces_max(f32::INFINITY, f32::NAN));
/// assert!(!replaces_max(f32::NAN, f32::NAN));
/// ```
#[inline(always)]
pub fn replaces_max<T: Ordered>(old: T, new: T) -> bool {
    (new > old) | (new.is_nan() & !old.is_nan())
}

/// Returns true if `new` replaces the earlier element `old` as the minimum.
#[inline(always)]
pub fn replaces_min<T: Ordered>(old: T, new: T) -> bool {
    (new < old) | (new.is_nan() & !old.is_nan())
}

/// Returns the larger of `first` and `second`; `first` if they are equal; the canonical NaN if
/// either is NaN.
#[inline(always)]
pub fn max2<T: Ordered>(first: T, second: T) -> T {
    if replaces_max(first, second) { second.canonical() } else { first.canonical() }
}

/// Returns the smaller of `first` and `second`; `first` if they are equal; the canonical NaN if
/// either is NaN.
#[inline(always)]
pub fn min2<T: Ordered>(first: T, second: T) -> T {
    if replaces_min(first, second) { second.canonical() } else { first.canonical() }
}

/// Returns the largest value and the index of its first occurrence, or `None` if `values` is empty.
///
/// # Determinism
///
/// By the rules of the [module](self); independent of the instruction set.
///
/// # Examples
///
/// ```
/// use samebits_numerics::extrema::argmax;
///
/// assert_eq!(argmax(&[1.0f32, 3.0, 3.0]), Some((1, 3.0)));
/// let (index, value) = argmax(&[1.0f32, f32::NAN, 9.0]).unwrap();
/// assert!(index == 1 && value.is_nan());
/// assert_eq!(argmax::<f32>(&[]), None);
/// ```
#[inline(always)]
pub fn argmax<T: Ordered>(values: &[T]) -> Option<(usize, T)> {
    arg_extremum(values, T::LOWEST, larger, |old, new| replaces_max(old, new))
}

/// Returns the smallest value (NaN first of all) and the index of its first occurrence, or `None`
/// if `values` is empty.
#[inline(always)]
pub fn argmin<T: Ordered>(values: &[T]) -> Option<(usize, T)> {
    arg_extremum(values, T::HIGHEST, smaller, |old, new| replaces_min(old, new))
}

/// Returns the largest value, or `None` if `values` is empty. See [`argmax`].
#[inline(always)]
pub fn max<T: Ordered>(values: &[T]) -> Option<T> {
    extremum(values, T::LOWEST, larger)
}

/// Returns the smallest value, or `None` if `values` is empty. See [`argmin`].
#[inline(always)]
pub fn min<T: Ordered>(values: &[T]) -> Option<T> {
    extremum(values, T::HIGHEST, smaller)
}

#[inline(always)]
fn larger<T: Ordered>(best: T, x: T) -> T {
    if x > best { x } else { best }
}

#[inline(always)]
fn smaller<T: Ordered>(best: T, x: T) -> T {
    if x < best { x } else { best }
}

/// Returns the extremum in one vector pass; a zero result needs a search for the first zero, for
/// its sign.
#[inline(always)]
fn extremum<T: Ordered>(values: &[T], worst: T, better: impl Fn(T, T) -> T) -> Option<T> {
    let (best, any_nan) = block_extremum(values, worst, better);
    if any_nan || best == T::default() {
        let wanted = |x: &T| if any_nan { x.is_nan() } else { *x == best };
        return values.iter().copied().find(wanted).map(T::canonical);
    }
    (!values.is_empty()).then_some(best)
}

/// Finds the extremum block by block: a vector pass for the value, then a second pass over one
/// block for its first index and the sign of a zero.
#[inline(always)]
fn arg_extremum<T: Ordered>(
    values: &[T],
    worst: T,
    better: impl Fn(T, T) -> T + Copy,
    replaces: impl Fn(T, T) -> bool,
) -> Option<(usize, T)> {
    let mut found: Option<(usize, T)> = None;
    for (number, block) in values.chunks(BLOCK).enumerate() {
        let (best, any_nan) = block_extremum(block, worst, better);
        if found.is_some_and(|(_, old)| !any_nan && !replaces(old, best)) {
            continue;
        }
        let at = if any_nan {
            first_place(block, |x| x.is_nan())
        } else {
            first_place(block, |x| x == best)
        };
        found = Some((number * BLOCK + at, block[at].canonical()));
        if any_nan {
            break;
        }
    }
    found
}

#[inline(always)]
fn block_extremum<T: Ordered>(block: &[T], worst: T, better: impl Fn(T, T) -> T) -> (T, bool) {
    let mut lanes = [worst; LANES];
    // A comparison drops a NaN, a sum keeps it.
    let mut sums = [T::default(); LANES];
    let mut take = |group: &[T; LANES]| {
        for l in 0..LANES {
            lanes[l] = better(lanes[l], group[l]);
            sums[l] = sums[l] + group[l];
        }
    };
    let (groups, rest) = block.as_chunks();
    groups.iter().for_each(&mut take);
    if !rest.is_empty() {
        // Some elements are compared twice, which changes nothing.
        let mut padded = [rest[0]; LANES];
        take(block.last_chunk().unwrap_or_else(|| {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        }));
    }
    // Any of the equal lanes will do: the caller searches for the first.
    for w in [16, 8, 4, 2, 1] {
        for l in 0..w {
            lanes[l] = better(lanes[l], lanes[l + w]);
        }
    }
    // The sum of infinities of both signs is NaN, too.
    let suspect = sums.iter().fold(false, |any, sum| any | sum.is_nan());
    (lanes[0], suspect && block.iter().any(|x| x.is_nan()))
}

/// Returns the position of the first element for which `is` holds; there must be one.
#[inline(always)]
fn first_place<T: Ordered>(block: &[T], is: impl Fn(T) -> bool) -> usize {
    let (groups, _) = block.as_chunks::<LANES>();
    let found = |group: &&[T; LANES]| group.iter().fold(false, |any, &x| any | is(x));
    let before = LANES * groups.iter().take_while(|group| !found(group)).count();
    let at = block[before..].iter().position(|&x| is(x));
    before + at.expect("the extremum of a block is one of its elements")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive_argmax(values: &[f32]) -> Option<(usize, f32)> {
        let mut found: Option<(usize, f32)> = None;
        for (i, &x) in values.iter().enumerate() {
            match found {
                Some((_, old)) if !replaces_max(old, x) => {}
                _ => found = Some((i, x.canonical())),
            }
        }
        found
    }

    fn bits(found: Option<(usize, f32)>) -> Option<(usize, u32)> {
        found.map(|(i, x)| (i, x.to_bits()))
    }

    #[test]
    fn argmax_equals_a_sequential_search() {
        let mut state = 1u32;
        for n in [0usize, 1, 2, 31, 32, 33, 1023, 1024, 1025, 5000] {
            for kind in 0..4 {
                let values: Vec<f32> = (0..n)
                    .map(|i| {
                        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                        let small = (state >> 29) as f32 - 7.0;
                        match kind {
                            0 => small,
                            1 if state >> 20 == 7 => f32::from_bits(0xffc0_0001),
                            2 => {
                                if state >> 31 == 0 {
                                    0.0
                                } else {
                                    -0.0
                                }
                            }
                            3 => f32::NEG_INFINITY,
                            _ => small + (i % 3) as f32,
                        }
                    })
                    .collect();
                assert_eq!(bits(argmax(&values)), bits(naive_argmax(&values)), "n {n} kind {kind}");
                let negated: Vec<f32> = values.iter().map(|x| -x).collect();
                let low = argmin(&negated).map(|(i, x)| (i, (-x).canonical()));
                assert_eq!(bits(low), bits(naive_argmax(&values)), "n {n} kind {kind}");
            }
        }
    }

    #[test]
    fn rows_equal_one_row_at_a_time() {
        let special = [f32::NAN, -f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1.0];
        let mut state = 3u32;
        for n in [1usize, 2, 15, 16, 23, 24, 25, 31, 32, 33, 64, 100, 1030] {
            for rows in [0usize, 1, 15, 16, 17, 40] {
                let values: Vec<f32> = (0..rows * n)
                    .map(|_| {
                        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                        let i = (state >> 26) as usize;
                        // Some rows of zeros, some with a NaN, most with neither.
                        if i < 7 * n.min(5) / 5 { special[i] } else { -((i / 16) as f32) }
                    })
                    .collect();
                let one = |row: usize| &values[row * n..][..n];
                let (mut found, mut indices) = (vec![1.0; rows], vec![-1; rows]);
                max_rows(&values, n, &mut found);
                argmax_rows(&values, n, &mut indices);
                for (row, (value, &index)) in found.iter().zip(&indices).enumerate() {
                    let found = Some((index as usize, value.to_bits()));
                    assert_eq!(found, bits(naive_argmax(one(row))), "row {row} of {n}");
                }
                min_rows(&values, n, &mut found);
                argmin_rows(&values, n, &mut indices);
                for (row, (value, &index)) in found.iter().zip(&indices).enumerate() {
                    assert_eq!(Some((index as usize, value.to_bits())), bits(argmin(one(row))));
                }
            }
        }
    }

    #[test]
    fn keys_sort_as_values_do() {
        let values = [
            f32::NEG_INFINITY,
            f32::MIN,
            -1.0,
            -f32::MIN_POSITIVE,
            -f32::from_bits(1),
            0.0,
            f32::from_bits(1),
            1.0,
            f32::MAX,
            f32::INFINITY,
        ];
        for pair in values.windows(2) {
            assert!(pair[0].sort_key() < pair[1].sort_key());
            assert!(pair[0].descending_key() > pair[1].descending_key());
            assert!(f64::from(pair[0]).sort_key() < f64::from(pair[1]).sort_key());
        }
        assert_eq!((-0.0f32).sort_key(), 0.0f32.sort_key());
        assert_eq!((-0.0f64).sort_key(), 0.0f64.sort_key());
        assert_eq!((-f32::NAN).sort_key(), u32::MAX);
        assert_eq!(f64::NAN.sort_key(), u64::MAX);
        assert!(f32::INFINITY.sort_key() < u32::MAX);
    }
}
