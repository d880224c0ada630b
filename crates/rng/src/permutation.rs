//! Random permutations.

use alloc::{vec, vec::Vec};

use crate::buffer::Buffer;
use crate::parallel::*;
use crate::{Draw, Error, Generator};
use samebits_numerics::memory::{self, OutOfMemory};

impl Draw {
    /// Draws a uniform permutation of `0..n`; takes [`Draw::blocks_u64`] blocks.
    ///
    /// Number *i* has a key, word pair *i* of the draw. The leading bits of the key choose one of
    /// 2^*b* buckets, where *b* is the smallest with *n* ≤ 4096 · 2^*b*, but at most 12. The
    /// buckets follow each other in the result. Each is shuffled by the inside-out Fisher–Yates
    /// algorithm: its numbers come in ascending order, and number *k* of them, counted from 0,
    /// takes place ⌊*u* · (*k* + 1)⌋, whose previous holder moves to place *k*; *u* in [0, 1) is
    /// the fraction formed by the remaining bits of the key. The probability of a place deviates by
    /// less than 2^(*b* − 64).
    ///
    /// # Errors
    ///
    /// If there is no memory for `n` numbers and as many keys.
    ///
    /// # References
    ///
    /// Rao 1961 and Sandelius 1962 for shuffling by buckets; Durstenfeld 1964.
    pub fn permutation(&self, n: usize) -> Result<Vec<i64>, Error> {
        let mut out = memory::zeroed(n).map_err(Error::memory(OP))?;
        self.permutation_into(&mut out)?;
        Ok(out)
    }

    /// Fills `out` with a permutation of its indices, as [`Draw::permutation`] draws it.
    ///
    /// # Errors
    ///
    /// If there is no memory for as many keys.
    pub fn permutation_into(&self, out: &mut [i64]) -> Result<(), Error> {
        let shuffled = if bucket_bits(out.len()) == 0 {
            self.shuffle_few(out);
            Ok(())
        } else if out.len() as u64 <= u64::from(u32::MAX) {
            self.shuffle_buckets(out)
        } else {
            self.shuffle_huge(out)
        };
        shuffled.map_err(Error::memory(OP))
    }

    /// Shuffles a single bucket.
    fn shuffle_few(&self, out: &mut [i64]) {
        let mut keys = vec![0; out.len()];
        self.words64(0, &mut keys);
        for (k, &key) in keys.iter().enumerate() {
            insert(out, k, place(key, k), k as i64);
        }
    }

    /// Shuffles more numbers than records can index, with 16 bytes for each instead of 8.
    fn shuffle_huge(&self, out: &mut [i64]) -> Result<(), OutOfMemory> {
        let bits = bucket_bits(out.len());
        let bucket = |key: u64| (key >> 1) >> (63 - bits);
        let mut records: Vec<(u64, u64)> = memory::zeroed(out.len())?;
        records.par_iter_mut().enumerate().for_each(|(i, record)| {
            *record = (self.word64(i as u64), i as u64);
        });
        records.par_sort_unstable_by_key(|&(key, i)| (bucket(key), i));
        let mut pieces = Vec::new();
        let mut rest = out;
        for records in records.chunk_by(|a, b| bucket(a.0) == bucket(b.0)) {
            let (piece, tail) = rest.split_at_mut(records.len());
            pieces.push((piece, records));
            rest = tail;
        }
        pieces.into_par_iter().for_each(|(out, records)| {
            for (k, &(key, i)) in records.iter().enumerate() {
                insert(out, k, place(key << bits, k), i as i64);
            }
        });
        Ok(())
    }

    /// Moves records of (32 bits of the key, *i*) to their buckets, then shuffles each bucket in a
    /// core's cache.
    ///
    /// A tile of the input groups its own records by bucket; a bucket then takes its runs from the
    /// tiles in order. No two tasks therefore write to the same place.
    fn shuffle_buckets(&self, out: &mut [i64]) -> Result<(), OutOfMemory> {
        let n = out.len();
        let bits = bucket_bits(n);
        let mut buffer = Buffer::of(n)?;
        let records = &mut buffer.as_mut_slice()[..n];
        let mut ends: Vec<u32> = memory::zeroed(n.div_ceil(TILE) << bits)?;
        let tiles = records.par_chunks_mut(TILE).zip(ends.par_chunks_mut(1 << bits)).enumerate();
        tiles.for_each_init(Vec::new, |keys, (tile, (records, ends))| {
            self.group_tile((tile * TILE) as u64, bits, keys, records, ends);
        });
        let ends = || ends.chunks(1 << bits);

        let mut pieces = Vec::with_capacity(1 << bits);
        let mut rest = out;
        for bucket in 0..1 << bits {
            let size: usize = ends().map(|ends| run(ends, bucket).len()).sum();
            let (piece, tail) = rest.split_at_mut(size);
            pieces.push(piece);
            rest = tail;
        }

        pieces.into_par_iter().enumerate().for_each(|(bucket, out)| {
            let runs = records.chunks(TILE).zip(ends());
            let numbers = runs.flat_map(|(tile, ends)| &tile[run(ends, bucket)]);
            for (k, record) in numbers.enumerate() {
                let i = record & 0xffff_ffff;
                let place = place_of_record(record >> 32, k, || self.word64(i) << bits);
                insert(out, k, place, i as i64);
            }
        });
        buffer.keep();
        Ok(())
    }

    /// Groups the records of `start..start + records.len()` by bucket and adds the end of each
    /// bucket to `ends`, which must be zero.
    fn group_tile(
        &self,
        start: u64,
        bits: u32,
        keys: &mut Vec<u64>,
        records: &mut [u64],
        ends: &mut [u32],
    ) {
        keys.resize(records.len(), 0);
        self.words64(start, keys);
        for key in keys.iter() {
            ends[(key >> (64 - bits)) as usize] += 1;
        }
        let mut next = 0;
        for end in ends.iter_mut() {
            (*end, next) = (next, next + *end);
        }
        for (i, key) in keys.iter().enumerate() {
            let place = &mut ends[(key >> (64 - bits)) as usize];
            // The bucket's bits are known, so the record holds the next 32.
            let middle = (key << bits) >> 32;
            records[*place as usize] = middle << 32 | (start + i as u64);
            *place += 1;
        }
    }
}

impl Generator {
    /// Draws a uniform permutation of `0..n`; advances by ⌈n/2⌉ blocks. See [`Draw::permutation`].
    ///
    /// # Errors
    ///
    /// If there is no memory for `n` numbers and as many keys. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut order = Generator::new(0).permutation(5)?;
    /// order.sort();
    /// assert_eq!(order, [0, 1, 2, 3, 4]);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn permutation(&mut self, n: usize) -> Result<Vec<i64>, Error> {
        self.draw_if(Draw::blocks_u64(n), |draw| draw.permutation(n))
    }

    /// Fills `out` with a permutation of its indices, as [`Generator::permutation`] draws it.
    ///
    /// # Errors
    ///
    /// If there is no memory for as many keys. The generator is then unchanged.
    pub fn fill_permutation(&mut self, out: &mut [i64]) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u64(out.len()), |draw| draw.permutation_into(out))
    }

    /// Shuffles `items` uniformly: item *i* afterwards is item `permutation[i]` before. Advances by
    /// ⌈n/2⌉ blocks.
    ///
    /// # Errors
    ///
    /// If there is no memory for as many numbers and keys. The generator and the items are then
    /// unchanged.
    pub fn shuffle<T>(&mut self, items: &mut [T]) -> Result<(), Error> {
        let mut order = self.permutation(items.len())?;
        // Along each cycle, an item moves to its place, and the next one is swapped into the freed
        // place. A finished place points to itself.
        for start in 0..items.len() {
            let mut here = start;
            loop {
                let from = core::mem::replace(&mut order[here], here as i64) as usize;
                if from == start {
                    break;
                }
                items.swap(here, from);
                here = from;
            }
        }
        Ok(())
    }
}

/// The operation's name in errors.
const OP: &str = "permutation";

/// Returns the number of leading bits of a key that choose a bucket; part of the definition.
fn bucket_bits(n: usize) -> u32 {
    n.div_ceil(BUCKET).next_power_of_two().ilog2().min(12)
}

/// The number of numbers in a bucket: few enough to shuffle in a core's first-level cache.
const BUCKET: usize = 1 << 12;

/// The number of records in a tile: few enough that keys and records stay in a core's cache. It
/// affects no bit.
const TILE: usize = 1 << 16;

/// Returns the place among `0..=k` chosen by a 64-bit fraction.
#[inline(always)]
fn place(fraction: u64, k: usize) -> usize {
    ((u128::from(fraction) * (k as u128 + 1)) >> 64) as usize
}

/// Returns [`place`] from the fraction's leading 32 bits; calls `fraction` only if they do not
/// decide.
#[inline(always)]
fn place_of_record(leading: u64, k: usize, fraction: impl FnOnce() -> u64) -> usize {
    let count = k as u64 + 1;
    let product = leading * count;
    // The remaining bits add less than `count` to the product.
    if (product & 0xffff_ffff) + count > 1 << 32 {
        return place(fraction(), k);
    }
    (product >> 32) as usize
}

/// Puts `number` at `place` and moves the previous holder to the new place `k`.
#[inline(always)]
fn insert(out: &mut [i64], k: usize, place: usize, number: i64) {
    out[k] = out[place];
    out[place] = number;
}

/// Returns the run of `bucket` in a tile whose buckets end at `ends`.
fn run(ends: &[u32], bucket: usize) -> core::ops::Range<usize> {
    let start = if bucket == 0 { 0 } else { ends[bucket - 1] as usize };
    start..ends[bucket] as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the definition directly.
    fn by_definition(draw: &Draw, n: usize) -> Vec<i64> {
        let bits = bucket_bits(n);
        let mut out = Vec::new();
        for bucket in 0..1u128 << bits {
            let mut shuffled: Vec<i64> = Vec::new();
            for i in 0..n as u64 {
                let key = u128::from(draw.word64(i));
                if key >> (64 - bits) != bucket {
                    continue;
                }
                let fraction = (key << bits) & u128::from(u64::MAX);
                let k = shuffled.len();
                let place = ((fraction * (k as u128 + 1)) >> 64) as usize;
                shuffled.push(i as i64);
                shuffled.swap(place, k);
            }
            out.extend(shuffled);
        }
        out
    }

    #[test]
    fn every_way_of_shuffling_gives_the_defined_order() {
        let draw = Draw::new(5, 1, 1000);
        for n in [0, 1, 2, 255, 4096, 4097, 8193, TILE - 1, TILE + 1, 300_000] {
            let expected = by_definition(&draw, n);
            assert_eq!(draw.permutation(n).unwrap(), expected, "{n} numbers");
            let mut huge = vec![0; n];
            draw.shuffle_huge(&mut huge).unwrap();
            assert_eq!(huge, expected, "{n} numbers, large records");
        }
    }

    #[test]
    fn open_places_are_decided_by_all_bits() {
        // The leading bits alone would give the previous place.
        let fraction = 0x5555_5555_ffff_ffff;
        assert_eq!(place(fraction, 2), 1);
        assert_eq!(place_of_record(fraction >> 32, 2, || fraction), 1);
        assert_eq!(((fraction >> 32) * 3) >> 32, 0);
    }
}
