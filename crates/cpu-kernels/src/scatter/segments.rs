//! Exact sums of wide f32 rows: the sources of one output row are gathered, so that its sums stay
//! in registers.

use super::ascending::{Entry, Visitor};
use super::start::start;
use super::{Addends, Destinations};
use crate::arch::prefetch;
use crate::{Result, memory, parallel};
use samebits_numerics::exact::{ExactSum, tested_sum};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::buffer::Buffer;

/// The number of neighbouring elements that are summed together.
const GROUP: usize = 16;
/// The prefetch distance, in sources, because rows may lie anywhere in memory.
const AHEAD: usize = 24;

/// The largest number of sources that are sorted by their rows.
pub(super) const MOST_SPARSE: usize = 1 << NUMBER;
/// The bits of a number below that.
const NUMBER: u32 = 16;

/// Sums addends.
pub(super) struct Segments<'a, A> {
    pub(super) op: &'static str,
    pub(super) addends: &'a A,
    pub(super) width: usize,
    /// True if the content of the output is to be ignored.
    pub(super) fresh: bool,
}

impl<A: Addends<f32>> Visitor for Segments<'_, A> {
    type Element = f32;
    type State = Sorted;

    const COUNTS: bool = true;

    #[inline(always)]
    fn start(&self, out: &mut [f32]) -> Result<Sorted> {
        Ok(Sorted { ends: memory::zeroed(self.op, out.len() / self.width + 1)?, sources: None })
    }

    fn count(&self, sorted: &mut Sorted, entries: &[Entry]) {
        entries.iter().for_each(|entry| sorted.ends[entry.row as usize + 1] += 1);
    }

    #[inline(always)]
    fn visit(
        &self,
        sorted: &mut Sorted,
        _: &mut [f32],
        base: usize,
        entries: &[Entry],
    ) -> Result<()> {
        let sources = match &mut sorted.sources {
            Some(sources) => sources,
            none => none.insert(memory::scratch::<usize>(self.op, total(&mut sorted.ends))?),
        };
        let sources = sources.as_mut_slice();
        for entry in entries {
            let place = &mut sorted.ends[entry.row as usize];
            sources[*place] = base + entry.packed as usize;
            *place += 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn finish(&self, sorted: Sorted, out: &mut [f32]) -> Result<()> {
        let sources: &[usize] = sorted.sources.as_ref().map_or(&[], Buffer::as_slice);
        let mut start = 0;
        for (out, &end) in out.chunks_exact_mut(self.width).zip(&sorted.ends) {
            self.sum_row(out, |first| {
                (start..end).map(move |at| {
                    if let Some(&later) = sources.get(at + AHEAD) {
                        prefetch(&self.addends.row(later, first, 1)[0]);
                    }
                    sources[at]
                })
            });
            start = end;
        }
        Ok(())
    }
}

/// A counting sort of sources by output row.
pub(super) struct Sorted {
    /// During the sort: the number of sources of the row before, then the position of a row's next
    /// source. At the end: the end of each row's sources.
    ends: Vec<usize>,
    sources: Option<Buffer>,
}

/// Makes each count the total up to it; returns the total of all.
fn total(counts: &mut [usize]) -> usize {
    let mut total = 0;
    for count in counts {
        total += *count;
        *count = total;
    }
    total
}

/// Returns the end of each output row's sources, if the sources come in the order of their rows.
///
/// # Errors
///
/// As [`Destinations::fill`].
pub(super) fn ends_in_order(
    destinations: &dyn Destinations,
    rows: usize,
) -> Result<Option<Vec<usize>>> {
    let n = destinations.count();
    let mut ends = memory::zeroed(destinations.op(), rows)?;
    let mut batch = [0; 256];
    let mut last = 0;
    for start in (0..n).step_by(batch.len()) {
        let batch = &mut batch[..256.min(n - start)];
        destinations.fill(start, batch)?;
        for (offset, &mut row) in batch.iter_mut().enumerate() {
            if row < last {
                return Ok(None);
            }
            ends[row] = start + offset + 1;
            last = row;
        }
    }
    let mut end = 0;
    for at in &mut ends {
        end = end.max(*at);
        *at = end;
    }
    Ok(Some(ends))
}

impl<A: Addends<f32>> Segments<'_, A> {
    /// Sums sources that come in the order of their rows; the sources of row `r` end at `ends[r]`.
    pub(super) fn sum_in_order(&self, ends: &[usize], out: &mut [f32]) {
        parallel::rows(self.width, out, |start, out| {
            simd::dispatch(InOrder { segments: self, ends, first: start / self.width, out });
        });
    }

    /// Sums sources that are far fewer than the output rows: it looks for the rows that receive any.
    ///
    /// # Errors
    ///
    /// As [`Destinations::fill`], and then the output is unchanged;
    /// [`OutOfMemory`](crate::Error::OutOfMemory).
    pub(super) fn sum_sparse(
        &self,
        destinations: &dyn Destinations,
        out: &mut [f32],
    ) -> Result<()> {
        let n = destinations.count();
        let mut rows = memory::zeroed(self.op, n)?;
        destinations.fill(0, &mut rows)?;
        let sources = rows.into_iter().enumerate();
        let mut sources = memory::collected(self.op, sources.map(|(i, row)| Source::new(row, i)))?;
        sources.sort_unstable();
        start(out, self.fresh);
        simd::dispatch(Sparse { segments: self, sources: &sources, out });
        Ok(())
    }

    /// Sums one row; `sources` lists its sources again for each element.
    #[inline(always)]
    fn sum_row<I>(&self, out: &mut [f32], sources: impl Fn(usize) -> I)
    where
        I: Iterator<Item = usize> + Clone,
    {
        if self.fresh {
            out.fill(0.0);
            if sources(0).next().is_none() {
                return;
            }
        }
        let mut groups = out.chunks_exact_mut(GROUP);
        let mut first = 0;
        for group in &mut groups {
            let group: &mut [f32; GROUP] = group.try_into().expect("the chunk is GROUP long");
            self.sum_group(group, first, sources(first));
            first += GROUP;
        }
        for (j, x) in groups.into_remainder().iter_mut().enumerate() {
            let mut sum = f64::from(*x);
            let mut lost = 0;
            for source in sources(first + j) {
                let (new, bits) = tested_sum(sum, self.addend(source, first + j).into());
                sum = new;
                lost |= bits;
            }
            // If `x` was not finite, the sum is not finite, although the bits may not show it.
            *x = if lost << 1 != 0 || !sum.is_finite() {
                self.sum_exactly(*x, first + j, sources(first + j))
            } else {
                (sum + 0.0) as f32
            };
        }
    }

    #[inline(always)]
    fn sum_group(
        &self,
        group: &mut [f32; GROUP],
        first: usize,
        sources: impl Iterator<Item = usize> + Clone,
    ) {
        let mut sums = group.map(f64::from);
        let mut lost = [0u64; GROUP];
        for source in sources.clone() {
            let row: &[f32; GROUP] = self
                .addends
                .row(source, first, GROUP)
                .try_into()
                .expect("the row has as many elements as were asked for");
            for j in 0..GROUP {
                let (sum, bits) = tested_sum(sums[j], self.addends.form(source, row[j]).into());
                sums[j] = sum;
                lost[j] |= bits;
            }
        }
        // One test for all elements, because almost always all are exact.
        let mut doubt = false;
        for j in 0..GROUP {
            doubt |= (lost[j] << 1 != 0) | !sums[j].is_finite();
        }
        let old = *group;
        for j in 0..GROUP {
            group[j] = (sums[j] + 0.0) as f32;
        }
        if doubt {
            for j in 0..GROUP {
                if lost[j] << 1 != 0 || !sums[j].is_finite() {
                    group[j] = self.sum_exactly(old[j], first + j, sources.clone());
                }
            }
        }
    }

    #[cold]
    fn sum_exactly(&self, old: f32, j: usize, sources: impl Iterator<Item = usize>) -> f32 {
        let mut sum = ExactSum::new();
        sum.add(old);
        for source in sources {
            sum.add(self.addend(source, j));
        }
        sum.to_f32()
    }

    #[inline(always)]
    fn addend(&self, source: usize, j: usize) -> f32 {
        self.addends.form(source, self.addends.row(source, j, 1)[0])
    }
}

/// Arguments of a kernel: some rows of [`Segments::sum_in_order`].
struct InOrder<'a, 'b, A> {
    segments: &'a Segments<'b, A>,
    ends: &'a [usize],
    first: usize,
    out: &'a mut [f32],
}

impl<A: Addends<f32>> Kernel for InOrder<'_, '_, A> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let InOrder { segments, ends, first, out } = self;
        let mut start = if first == 0 { 0 } else { ends[first - 1] };
        for (out, &end) in out.chunks_exact_mut(segments.width).zip(&ends[first..]) {
            segments.sum_row(out, |_| start..end);
            start = end;
        }
    }
}

/// Arguments of a kernel: pairs of an output row and a source, in order.
struct Sparse<'a, 'b, A> {
    segments: &'a Segments<'b, A>,
    sources: &'a [Source],
    out: &'a mut [f32],
}

/// The output row of a source, and below that its number: there are at most [`MOST_SPARSE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Source(u64);

impl Source {
    fn new(row: usize, number: usize) -> Source {
        Source((row as u64) << NUMBER | number as u64)
    }

    #[inline(always)]
    fn row(self) -> usize {
        (self.0 >> NUMBER) as usize
    }

    #[inline(always)]
    fn number(self) -> usize {
        self.0 as usize % MOST_SPARSE
    }
}

impl<A: Addends<f32>> Kernel for Sparse<'_, '_, A> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Sparse { segments, sources, out } = self;
        let width = segments.width;
        for of_row in sources.chunk_by(|a, b| a.row() == b.row()) {
            let row = &mut out[of_row[0].row() * width..][..width];
            segments.sum_row(row, |_| of_row.iter().map(|source| source.number()));
        }
    }
}
