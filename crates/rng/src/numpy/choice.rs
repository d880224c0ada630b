//! What `choice` of both of NumPy's generators have in common, and the one's own way without
//! replacement.

use alloc::vec::Vec;

use crate::Error;
use samebits_numerics::exact::ExactSum64;
use samebits_numerics::memory::{self, OutOfMemory};

/// How far NumPy lets the sum of probabilities be from 1: the square root of f64's epsilon.
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

/// Draws with probabilities, by the inverse of their running sum. Without replacement, as many
/// numbers are drawn as are wanted; what comes twice is dropped, what came gets probability 0, and
/// it goes on with the missing ones.
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

/// `size` different numbers below `n` in random order. `at_most` draws uniformly from 0 up to and
/// including a number.
pub(super) fn without_replacement(
    n: usize,
    size: usize,
    mut at_most: impl FnMut(u64) -> u64,
) -> Result<Vec<i64>, OutOfMemory> {
    // From a fiftieth on, the end of a shuffle.
    if n > 10000 && size > n / 50 {
        let mut all = memory::collected((0..n).map(|i| i as i64))?;
        shuffle_from(&mut all, (n - size).max(1), at_most);
        return memory::collected(all[n - size..].iter().copied());
    }
    // Floyd's method: what was drawn already is replaced by the largest number, which was not.
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

/// A set of numbers: a table of twice as many places, each number in the first free one from its
/// own on.
struct Seen(Vec<Option<usize>>);

impl Seen {
    fn new(size: usize) -> Result<Seen, OutOfMemory> {
        let places = size.max(1).checked_next_power_of_two().and_then(|size| size.checked_mul(2));
        let places = places.ok_or(OutOfMemory { bytes: usize::MAX })?;
        Ok(Seen(memory::filled(places, None)?))
    }

    /// Whether `number` was not there yet.
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
