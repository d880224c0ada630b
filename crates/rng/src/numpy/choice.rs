//! Common parts of `choice` in both of NumPy's generators, and `default_rng`'s method without
//! replacement.

use alloc::vec::Vec;

use crate::Error;
use samebits_numerics::exact::ExactSum64;
use samebits_numerics::memory::{self, OutOfMemory};

/// NumPy's tolerance for the sum of probabilities: the square root of f64's epsilon.
const TOLERANCE: f64 = 1.4901161193847656e-8;

pub(super) fn check(
    op: &'static str,
    n: usize,
    size: usize,
    replace: bool,
    p: Option<&[f64]>,
) -> Result<(), Error> {
    if n == 0 && size > 0 {
        return Err(Error::parameter(op, "n", n, "at least 1 to choose from"));
    }
    if !replace && size > n {
        return Err(Error::parameter(op, "size", size, "at most n without replacement"));
    }
    let Some(p) = p else { return Ok(()) };
    if p.len() != n {
        return Err(Error::length(op, "p", p.len(), "n", n));
    }
    if let Some(p) = p.iter().find(|p| p.is_nan() || **p < 0.0) {
        return Err(Error::parameter(op, "a probability", p, "at least 0"));
    }
    let mut sum = ExactSum64::new();
    p.iter().for_each(|p| sum.add(*p));
    let sum = sum.to_f64();
    if n > 0 && (sum - 1.0).abs() > TOLERANCE {
        return Err(Error::parameter(op, "the sum of p", sum, "1"));
    }
    let positive = p.iter().filter(|p| **p > 0.0).count();
    if !replace && size > positive {
        let needed = "at least size without replacement";
        return Err(Error::parameter(op, "the number of positive p", positive, needed));
    }
    Ok(())
}

/// Draws with probabilities, by the inverse of their running sum. Without replacement, it draws as
/// many numbers as are missing, drops repeats, sets the probabilities of the drawn numbers to 0,
/// and continues until none is missing.
pub(super) fn weighted(
    op: &'static str,
    p: &[f64],
    size: usize,
    replace: bool,
    mut random: impl FnMut() -> f64,
) -> Result<Vec<i64>, Error> {
    let mut found = memory::with_capacity(size).map_err(Error::memory(op))?;
    let mut p = memory::collected(p.iter().copied()).map_err(Error::memory(op))?;
    let mut sums = memory::with_capacity(p.len()).map_err(Error::memory(op))?;
    while found.len() < size {
        sums.clear();
        let mut total = 0.0;
        sums.extend(p.iter().map(|p| {
            total += p;
            total
        }));
        sums.iter_mut().for_each(|sum| *sum /= total);
        for _ in found.len()..size {
            let u = random();
            let chosen = sums.partition_point(|&sum| sum <= u);
            if replace || p[chosen] > 0.0 {
                found.push(chosen as i64);
            }
            if !replace {
                p[chosen] = 0.0;
            }
        }
    }
    Ok(found)
}

/// Draws `size` different numbers below `n` in random order. `at_most(m)` must draw uniformly from
/// 0 to `m`, inclusive.
pub(super) fn without_replacement(
    n: usize,
    size: usize,
    mut at_most: impl FnMut(u64) -> u64,
) -> Result<Vec<i64>, OutOfMemory> {
    // From a fiftieth of `n` on: the end of a shuffle.
    if n > 10000 && size > n / 50 {
        let mut all = memory::collected((0..n).map(|i| i as i64))?;
        shuffle_from(&mut all, (n - size).max(1), at_most);
        return memory::collected(all[n - size..].iter().copied());
    }
    // Floyd's method: a number already drawn is replaced by the largest of the range, which cannot
    // have been drawn.
    let mut seen = Seen::new(size)?;
    let mut chosen = memory::with_capacity(size)?;
    for most in n - size..n {
        let drawn = at_most(most as u64) as usize;
        let new = if seen.insert(drawn) { drawn } else { most };
        seen.insert(new);
        chosen.push(new as i64);
    }
    shuffle_from(&mut chosen, 1, at_most);
    Ok(chosen)
}

fn shuffle_from(items: &mut [i64], first: usize, mut at_most: impl FnMut(u64) -> u64) {
    for i in (first..items.len()).rev() {
        items.swap(i, at_most(i as u64) as usize);
    }
}

/// Set of numbers, as an open-addressing hash table with at least twice as many slots as numbers;
/// each number is in the first free slot from its own on.
struct Seen(Vec<Option<usize>>);

impl Seen {
    fn new(size: usize) -> Result<Seen, OutOfMemory> {
        let places = size.max(1).checked_next_power_of_two().and_then(|size| size.checked_mul(2));
        let places = places.ok_or(OutOfMemory { bytes: usize::MAX })?;
        Ok(Seen(memory::filled(places, None)?))
    }

    /// Inserts `number`; returns true if it was not there yet.
    fn insert(&mut self, number: usize) -> bool {
        let mask = self.0.len() - 1;
        let mut place = number & mask;
        while let Some(other) = self.0[place] {
            if other == number {
                return false;
            }
            place = (place + 1) & mask;
        }
        self.0[place] = Some(number);
        true
    }
}
