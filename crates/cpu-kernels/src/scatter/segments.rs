//! Exact sums of wide f32 rows: the sources of one output row are brought together, so that its
//! sums stay in registers.

use super::Addends;
use super::ascending::{Entry, Visitor};
use samebits_numerics::exact::{ExactSum, two_sum};

/// Neighbouring elements that are summed together.
const GROUP: usize = 16;

/// Sums addends.
pub(super) struct Segments<'a, A> {
    pub(super) addends: &'a A,
    pub(super) width: usize,
    /// What is in the output means nothing.
    pub(super) fresh: bool,
}

impl<A: Addends<f32>> Visitor for Segments<'_, A> {
    type Element = f32;
    /// Row and source of everything sent to the stretch.
    type State = Vec<(u32, usize)>;

    #[inline(always)]
    fn start(&self, _: &mut [f32]) -> Vec<(u32, usize)> {
        Vec::new()
    }

    #[inline(always)]
    fn visit(&self, sent: &mut Vec<(u32, usize)>, _: &mut [f32], base: usize, entries: &[Entry]) {
        sent.extend(entries.iter().map(|entry| (entry.row, base + entry.packed as usize)));
    }

    #[inline(always)]
    fn finish(&self, sent: Vec<(u32, usize)>, out: &mut [f32]) {
        // A counting sort by row. Afterwards `ends[r]` is where the sources of row r end.
        let rows = out.len() / self.width;
        let mut ends = vec![0usize; rows + 1];
        for &(row, _) in &sent {
            ends[row as usize + 1] += 1;
        }
        for row in 0..rows {
            ends[row + 1] += ends[row];
        }
        let mut sources = vec![0; sent.len()];
        for (row, source) in sent {
            let place = &mut ends[row as usize];
            sources[*place] = source;
            *place += 1;
        }
        let mut start = 0;
        for (out, &end) in out.chunks_exact_mut(self.width).zip(&ends) {
            if self.fresh {
                out.fill(0.0);
            }
            // Without a source a fresh row is done, and no row but that is read from memory.
            if !self.fresh || start < end {
                self.sum_row(out, &sources[start..end]);
            }
            start = end;
        }
    }
}

impl<A: Addends<f32>> Segments<'_, A> {
    #[inline(always)]
    fn sum_row(&self, out: &mut [f32], sources: &[usize]) {
        let mut groups = out.chunks_exact_mut(GROUP);
        let mut first = 0;
        for group in &mut groups {
            let group: &mut [f32; GROUP] = group.try_into().expect("the chunk is GROUP long");
            self.sum_group(group, first, sources);
            first += GROUP;
        }
        for (j, x) in groups.into_remainder().iter_mut().enumerate() {
            let mut sum = f64::from(*x);
            let mut lost = false;
            for &source in sources {
                let (new, error) = two_sum(sum, self.addend(source, first + j).into());
                sum = new;
                lost |= error != 0.0;
            }
            // The sum is not a number if `x` was not: no addition may have told.
            *x = if lost || !sum.is_finite() {
                self.sum_exactly(*x, first + j, sources)
            } else {
                (sum + 0.0) as f32
            };
        }
    }

    #[inline(always)]
    fn sum_group(&self, group: &mut [f32; GROUP], first: usize, sources: &[usize]) {
        let mut sums = group.map(f64::from);
        let mut lost = [0u64; GROUP];
        for &source in sources {
            let row: &[f32; GROUP] = self
                .addends
                .row(source, first, GROUP)
                .try_into()
                .expect("the row has as many elements as were asked for");
            for j in 0..GROUP {
                let (sum, error) = two_sum(sums[j], self.addends.form(source, row[j]).into());
                sums[j] = sum;
                // The sign of a zero error means nothing.
                lost[j] |= error.to_bits() << 1;
            }
        }
        for j in 0..GROUP {
            let fine = lost[j] == 0 && sums[j].is_finite();
            group[j] = if fine {
                (sums[j] + 0.0) as f32
            } else {
                self.sum_exactly(group[j], first + j, sources)
            };
        }
    }

    #[cold]
    fn sum_exactly(&self, old: f32, j: usize, sources: &[usize]) -> f32 {
        let mut sum = ExactSum::new();
        sum.add(old);
        for &source in sources {
            sum.add(self.addend(source, j));
        }
        sum.to_f32()
    }

    #[inline(always)]
    fn addend(&self, source: usize, j: usize) -> f32 {
        self.addends.form(source, self.addends.row(source, j, 1)[0])
    }
}
