//! Random permutations.

use crate::{Draw, Generator};
use rayon::prelude::*;

impl Draw {
    /// A uniform permutation of `0..n`; takes [`Draw::blocks_u64`] blocks.
    ///
    /// It is the order that sorts the numbers *i* by their keys, word pairs *i* of the draw;
    /// equal keys keep the smaller *i* first. Two keys out of *n* are equal with a chance below
    /// *n*² / 2^65: 2^-21 for four million. So any way of sorting, on any number of threads,
    /// gives the same permutation.
    pub fn permutation(&self, n: usize) -> Vec<i64> {
        let mut out = vec![0; n];
        self.permutation_into(&mut out);
        out
    }

    /// [`Draw::permutation`] of as many numbers as `out` holds, into `out`.
    pub fn permutation_into(&self, out: &mut [i64]) {
        if out.len() <= SMALL {
            self.sort_few(out);
        } else if out.len() as u64 <= u64::from(u32::MAX) {
            self.sort_in_buckets(out);
        } else {
            self.sort_huge(out);
        }
    }

    fn sort_few(&self, out: &mut [i64]) {
        let mut keys = vec![0; out.len()];
        self.words64(0, &mut keys);
        for (i, out) in out.iter_mut().enumerate() {
            *out = i as i64;
        }
        out.sort_unstable_by_key(|&i| (keys[i as usize], i));
    }

    /// More numbers than a record can hold: 16 bytes for each instead of 8.
    fn sort_huge(&self, out: &mut [i64]) {
        let mut records: Vec<(u64, u64)> =
            (0..out.len() as u64).into_par_iter().map(|i| (self.word64(i), i)).collect();
        records.par_sort_unstable();
        out.par_iter_mut().zip(records).for_each(|(out, (_, i))| *out = i as i64);
    }

    /// Sorts records of (32 bits of the key, *i*) by the key's leading bits into buckets, then
    /// each bucket in a core's cache.
    ///
    /// A tile of the input groups its own records by bucket; a bucket then gathers its runs
    /// from the tiles. So no two tasks write to one place, and the order of records inside a
    /// bucket is that of *i* before it is sorted.
    fn sort_in_buckets(&self, out: &mut [i64]) {
        let n = out.len();
        let bits = (n / BUCKET).next_power_of_two().ilog2().clamp(1, MAX_BUCKET_BITS);
        let buckets = 1 << bits;

        let mut buffer = Buffer::zeroed(n);
        let records = buffer.as_mut_slice();
        let ends: Vec<Vec<u32>> = records
            .par_chunks_mut(TILE)
            .enumerate()
            .map_init(Vec::new, |keys, (tile, records)| {
                self.group_tile((tile * TILE) as u64, bits, keys, records)
            })
            .collect();

        let mut pieces = Vec::with_capacity(buckets);
        let mut rest = out;
        for bucket in 0..buckets {
            let size: usize = ends.iter().map(|ends| run(ends, bucket).len()).sum();
            let (piece, tail) = rest.split_at_mut(size);
            pieces.push(piece);
            rest = tail;
        }

        pieces.into_par_iter().enumerate().for_each_init(Scratch::default, |scratch, (b, out)| {
            scratch.records.clear();
            for (tile, ends) in records.chunks(TILE).zip(&ends) {
                scratch.records.extend_from_slice(&tile[run(ends, b)]);
            }
            self.sort_bucket(bits, scratch);
            for (out, &record) in out.iter_mut().zip(&scratch.records) {
                *out = i64::from(record as u32);
            }
        });
    }

    /// Groups the records of `start..start + records.len()` by bucket and returns where each
    /// bucket ends.
    fn group_tile(
        &self,
        start: u64,
        bits: u32,
        keys: &mut Vec<u64>,
        records: &mut [u64],
    ) -> Vec<u32> {
        keys.resize(records.len(), 0);
        self.words64(start, keys);
        let mut ends = vec![0u32; 1 << bits];
        for key in keys.iter() {
            ends[(key >> (64 - bits)) as usize] += 1;
        }
        let mut next = 0;
        for end in &mut ends {
            (*end, next) = (next, next + *end);
        }
        for (i, key) in keys.iter().enumerate() {
            let place = &mut ends[(key >> (64 - bits)) as usize];
            // The bucket's bits are known, so the 32 that follow them go into the record.
            let middle = (key << bits) >> 32;
            records[*place as usize] = middle << 32 | (start + i as u64);
            *place += 1;
        }
        ends
    }

    /// Sorts one bucket: by a counting pass with several slots for each record, an insertion
    /// sort that puts right the few that share a slot, and the whole keys where 32 bits were
    /// equal.
    fn sort_bucket(&self, bits: u32, scratch: &mut Scratch) {
        let Scratch { records, sorted, places } = scratch;
        let slot_bits = records.len().max(2).ilog2() + 2;
        let slot = |record: u64| (record >> (64 - slot_bits)) as usize;
        places.clear();
        places.resize(1 << slot_bits, 0);
        for &record in records.iter() {
            places[slot(record)] += 1;
        }
        let mut next = 0;
        for place in places.iter_mut() {
            (*place, next) = (next, next + *place);
        }
        sorted.resize(records.len(), 0);
        for &record in records.iter() {
            let place = &mut places[slot(record)];
            sorted[*place as usize] = record;
            *place += 1;
        }
        insertion_sort(sorted);
        let equal = |a: &u64, b: &u64| a >> 32 == b >> 32;
        if sorted.windows(2).any(|pair| equal(&pair[0], &pair[1])) {
            for run in sorted.chunk_by_mut(equal) {
                run.sort_unstable_by_key(|&record| {
                    let i = record & 0xffff_ffff;
                    (self.word64(i) << bits, i)
                });
            }
        }
        std::mem::swap(records, sorted);
    }
}

impl Generator {
    /// A uniform permutation of `0..n`; moves on by ⌈n/2⌉ blocks. See [`Draw::permutation`].
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut order = Generator::new(0).permutation(5);
    /// order.sort();
    /// assert_eq!(order, [0, 1, 2, 3, 4]);
    /// ```
    pub fn permutation(&mut self, n: usize) -> Vec<i64> {
        self.draw(Draw::blocks_u64(n)).permutation(n)
    }

    /// [`Generator::permutation`] of as many numbers as `out` holds, into `out`.
    pub fn fill_permutation(&mut self, out: &mut [i64]) {
        self.draw(Draw::blocks_u64(out.len())).permutation_into(out);
    }

    /// Puts `items` into a uniform order: item *i* afterwards is item `permutation[i]` before.
    /// Moves on by ⌈n/2⌉ blocks.
    pub fn shuffle<T: Clone>(&mut self, items: &mut [T]) {
        let before = items.to_vec();
        for (item, i) in items.iter_mut().zip(self.permutation(before.len())) {
            item.clone_from(&before[i as usize]);
        }
    }
}

/// Numbers that begin as zero, in large pages where the system has them: at four million
/// numbers, asking for every small page takes a third of a permutation's time.
enum Buffer {
    Mapped(memmap2::MmapMut),
    Owned(Vec<u64>),
}

impl Buffer {
    fn zeroed(n: usize) -> Buffer {
        match memmap2::MmapMut::map_anon(n * size_of::<u64>()) {
            Ok(map) => {
                // Refusal costs time and nothing else.
                #[cfg(target_os = "linux")]
                let _ = map.advise(memmap2::Advice::HugePage);
                Buffer::Mapped(map)
            }
            Err(_) => Buffer::Owned(vec![0; n]),
        }
    }

    fn as_mut_slice(&mut self) -> &mut [u64] {
        match self {
            // A map starts at a page, so it is aligned.
            Buffer::Mapped(map) => bytemuck::cast_slice_mut(map),
            Buffer::Owned(numbers) => numbers,
        }
    }
}

/// Buffers that a task reuses from bucket to bucket.
#[derive(Default)]
struct Scratch {
    records: Vec<u64>,
    sorted: Vec<u64>,
    places: Vec<u32>,
}

// None of these affects a bit.
/// Up to here a comparison sort is as fast.
const SMALL: usize = 1 << 8;
/// Records per tile, so that a tile's keys and records stay in a core's cache.
const TILE: usize = 1 << 16;
/// Records per bucket to aim for: three arrays of them stay in a core's cache.
const BUCKET: usize = 1 << 11;
/// More buckets would make a tile's runs shorter than a few cache lines.
const MAX_BUCKET_BITS: u32 = 12;

/// The run of `bucket` in a tile whose buckets end at `ends`.
fn run(ends: &[u32], bucket: usize) -> std::ops::Range<usize> {
    let start = if bucket == 0 { 0 } else { ends[bucket - 1] as usize };
    start..ends[bucket] as usize
}

fn insertion_sort(records: &mut [u64]) {
    for i in 1..records.len() {
        let record = records[i];
        let mut j = i;
        while j > 0 && records[j - 1] > record {
            records[j] = records[j - 1];
            j -= 1;
        }
        records[j] = record;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, computed the plain way.
    fn by_definition(draw: &Draw, n: usize) -> Vec<i64> {
        let mut order: Vec<i64> = (0..n as i64).collect();
        order.sort_by_key(|&i| draw.word64(i as u64));
        order
    }

    #[test]
    fn every_way_of_sorting_gives_the_defined_order() {
        let draw = Draw::new(5, 1, 1000);
        for n in [0, 1, 2, 255, 256, 257, 5000, TILE - 1, TILE + 1, 300_000] {
            let expected = by_definition(&draw, n);
            assert_eq!(draw.permutation(n), expected, "{n} numbers");
            let mut huge = vec![0; n];
            draw.sort_huge(&mut huge);
            assert_eq!(huge, expected, "{n} numbers, large records");
        }
    }

    #[test]
    fn equal_32_bits_of_the_key_are_told_apart_by_the_rest() {
        // Records with one middle, in the wrong order for about half of the neighbours.
        let draw = Draw::new(11, 0, 0);
        let mut scratch = Scratch { records: (0..1000).collect(), ..Scratch::default() };
        draw.sort_bucket(3, &mut scratch);
        let keys: Vec<u64> = scratch.records.iter().map(|&i| draw.word64(i) << 3).collect();
        assert!(keys.is_sorted());
    }
}
