//! The tree of the parent module, over one sequence of terms.

use super::{BLOCK, LANES};

/// The number of levels above the terms: 4096^6 exceeds what fits in memory.
const LEVELS: usize = 6;

/// Returns the number of blocks of `n` terms: `ceil(n / BLOCK)`.
#[inline(always)]
#[must_use]
pub fn blocks(n: usize) -> usize {
    n.div_ceil(BLOCK)
}

/// Returns the sum of `term(x)` over `values`.
///
/// # Determinism
///
/// The tree of the [module](super).
///
/// # Examples
///
/// ```
/// use samebits_numerics::reduce::sum_of;
///
/// let sum_of_squares = sum_of(&[3.0f32, 4.0], |x| f64::from(x) * f64::from(x));
/// assert_eq!(sum_of_squares, 25.0);
/// assert_eq!(sum_of(&[] as &[f32], f64::from).to_bits(), 0);
/// ```
#[inline(always)]
#[must_use]
pub fn sum_of<T: Copy>(values: &[T], term: impl Fn(T) -> f64) -> f64 {
    let mut upper = None;
    for block in values.chunks(BLOCK) {
        let partial = block_of(block, &term, Sum);
        if values.len() <= BLOCK {
            return partial;
        }
        push_partial(&mut upper, partial);
    }
    sum_of_partials(upper)
}

/// Returns the sum of `term(x, y)` over two slices; the excess of the longer one is ignored.
///
/// # Determinism
///
/// The tree of the [module](super).
///
/// # Examples
///
/// ```
/// use samebits_numerics::reduce::dot_of;
///
/// let squared_distance = dot_of(&[1.0f32, 2.0], &[4.0f32, 6.0], |x, y| {
///     let difference = f64::from(x) - f64::from(y);
///     difference * difference
/// });
/// assert_eq!(squared_distance, 25.0);
/// ```
#[inline(always)]
#[must_use]
pub fn dot_of<T: Copy, U: Copy>(x: &[T], y: &[U], term: impl Fn(T, U) -> f64) -> f64 {
    let n = x.len().min(y.len());
    let mut upper = None;
    for (x, y) in x[..n].chunks(BLOCK).zip(y[..n].chunks(BLOCK)) {
        let mut lanes = [0.0; LANES];
        let (mut xs, mut ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
        for (x, y) in (&mut xs).zip(&mut ys) {
            for l in 0..LANES {
                lanes[l] += term(x[l], y[l]);
            }
        }
        for (l, (&x, &y)) in xs.remainder().iter().zip(ys.remainder()).enumerate() {
            lanes[l] += term(x, y);
        }
        let partial = halve_apart(lanes, Sum);
        if n <= BLOCK {
            return partial;
        }
        push_partial(&mut upper, partial);
    }
    sum_of_partials(upper)
}

/// Returns the sum of `term(i)` for `i` in `0..n`: for rows with a stride and for composite terms.
///
/// # Determinism
///
/// The tree of the [module](super).
///
/// # Examples
///
/// ```
/// use samebits_numerics::reduce::sum_by;
///
/// let matrix = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let second_column = sum_by(3, |row| f64::from(matrix[2 * row + 1]));
/// assert_eq!(second_column, 12.0);
/// ```
#[inline(always)]
#[must_use]
pub fn sum_by(n: usize, term: impl Fn(usize) -> f64) -> f64 {
    let mut upper = None;
    let mut start = 0;
    while start < n {
        let length = BLOCK.min(n - start);
        let mut lanes = [0.0; LANES];
        let whole = length - length % LANES;
        let mut i = start;
        while i < start + whole {
            for l in 0..LANES {
                lanes[l] += term(i + l);
            }
            i += LANES;
        }
        for l in 0..length - whole {
            lanes[l] += term(i + l);
        }
        let partial = halve_apart(lanes, Sum);
        if n <= BLOCK {
            return partial;
        }
        push_partial(&mut upper, partial);
        start += length;
    }
    sum_of_partials(upper)
}

/// Passes the partial of a block to the levels above. They are called once per 4096 terms and
/// compiled once, not per kind of term and instruction set.
#[inline(never)]
fn push_partial(upper: &mut Option<Accumulator>, partial: f64) {
    upper.get_or_insert_default().push(partial);
}

/// Returns the sum of all partials passed; `+0` if there were none.
#[inline(never)]
fn sum_of_partials(upper: Option<Accumulator>) -> f64 {
    upper.map_or(0.0, Accumulator::finish)
}

/// Returns the partial of one block: the sum of `term(x)` over `block`, whose first element is term
/// 0 of the block.
///
/// # Determinism
///
/// The tree of the [module](super). With [`combine`], several threads can share one sum.
///
/// # Panics
///
/// If `block` is longer than [`BLOCK`].
///
/// # Examples
///
/// ```
/// use samebits_numerics::reduce::{BLOCK, block_partial, combine, sum_of};
///
/// let values: Vec<f32> = (0..10_000).map(|i| 1.0 / (i as f32 + 1.0)).collect();
/// let partials: Vec<f64> =
///     values.chunks(BLOCK).map(|block| block_partial(block, f64::from)).collect();
/// assert_eq!(combine(&partials).to_bits(), sum_of(&values, f64::from).to_bits());
/// ```
#[inline(always)]
#[must_use]
pub fn block_partial<T: Copy>(block: &[T], term: impl Fn(T) -> f64) -> f64 {
    block_of(block, &term, Sum)
}

/// Returns the sum from the partials of all blocks, in block order.
///
/// # Determinism
///
/// The upper levels of the tree of the [module](super).
#[must_use]
pub fn combine(partials: &[f64]) -> f64 {
    // A single partial passes through a further level unchanged.
    super::sum(partials)
}

/// A sum over terms that arrive piece by piece: several slices, or one term at a time.
///
/// # Determinism
///
/// The tree of the [module](super) over all terms pushed, in order, independent of their split into
/// pieces.
///
/// # Examples
///
/// ```
/// use samebits_numerics::reduce::{Accumulator, sum_of};
///
/// let values: Vec<f32> = (0..9000).map(|i| 1.0 / (i as f32 + 1.0)).collect();
/// let mut sum = Accumulator::new();
/// for piece in values.chunks(77) {
///     sum.push_slice(piece, f64::from);
/// }
/// assert_eq!(sum.finish().to_bits(), sum_of(&values, f64::from).to_bits());
/// ```
#[derive(Clone, Debug)]
pub struct Accumulator {
    levels: [Level; LEVELS],
    /// The number of levels in use.
    depth: usize,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    lanes: [f64; LANES],
    /// The number of terms in the current block.
    count: usize,
}

impl Level {
    const EMPTY: Level = Level { lanes: [0.0; LANES], count: 0 };
}

impl Default for Accumulator {
    #[inline(always)]
    fn default() -> Accumulator {
        Accumulator { levels: [Level::EMPTY; LEVELS], depth: 0 }
    }
}

impl Accumulator {
    /// Returns a sum of no terms.
    #[inline(always)]
    #[must_use]
    pub fn new() -> Accumulator {
        Accumulator::default()
    }

    /// Adds the next term.
    #[inline(always)]
    pub fn push(&mut self, term: f64) {
        let level = &mut self.levels[0];
        level.lanes[level.count % LANES] += term;
        level.count += 1;
        self.depth = self.depth.max(1);
        if level.count == BLOCK {
            self.close_block();
        }
    }

    /// Adds `term(x)` for each `x` in `values`.
    #[inline(always)]
    pub fn push_slice<T: Copy>(&mut self, values: &[T], term: impl Fn(T) -> f64) {
        let mut values = values;
        while !values.is_empty() {
            let count = self.levels[0].count;
            let (now, later) = values.split_at(values.len().min(BLOCK - count));
            // Adds terms one by one up to the next multiple of LANES, then whole groups.
            let (head, body) = now.split_at(now.len().min((LANES - count % LANES) % LANES));
            let lanes = &mut self.levels[0].lanes;
            for (l, &x) in head.iter().enumerate() {
                lanes[count % LANES + l] += term(x);
            }
            let mut local = *lanes;
            let mut groups = body.chunks_exact(LANES);
            for group in &mut groups {
                for l in 0..LANES {
                    local[l] += term(group[l]);
                }
            }
            self.levels[0].lanes = local;
            for (lane, &x) in self.levels[0].lanes.iter_mut().zip(groups.remainder()) {
                *lane += term(x);
            }
            self.levels[0].count += now.len();
            self.depth = self.depth.max(1);
            if self.levels[0].count == BLOCK {
                self.close_block();
            }
            values = later;
        }
    }

    /// Returns the sum of all terms pushed; `+0` if there were none.
    #[must_use]
    pub fn finish(mut self) -> f64 {
        for l in 0..self.depth {
            if self.levels[l].count > 0 {
                let partial = halve_apart(self.levels[l].lanes, Sum);
                let is_last = (l + 1..self.depth).all(|above| self.levels[above].count == 0);
                if is_last {
                    return partial;
                }
                let above = &mut self.levels[l + 1];
                above.lanes[above.count % LANES] += partial;
                above.count += 1;
                // A block that is full now is halved like any other, in the next iteration.
            }
        }
        0.0
    }

    /// Passes the partial of a full block to the level above, and so on upwards.
    #[cold]
    fn close_block(&mut self) {
        for l in 0..LEVELS - 1 {
            if self.levels[l].count < BLOCK {
                return;
            }
            let partial = halve_apart(self.levels[l].lanes, Sum);
            self.levels[l] = Level::EMPTY;
            let above = &mut self.levels[l + 1];
            above.lanes[above.count % LANES] += partial;
            above.count += 1;
            self.depth = self.depth.max(l + 2);
        }
    }
}

/// The operation at the nodes of a tree.
pub(super) trait Join: Copy {
    /// The value of a lane without a term, which is neutral in `join`.
    const IDENTITY: f64;
    /// Joins the value before and the value after.
    fn join(self, a: f64, b: f64) -> f64;
}

#[derive(Clone, Copy)]
pub(super) struct Sum;

impl Join for Sum {
    const IDENTITY: f64 = 0.0;
    #[inline(always)]
    fn join(self, a: f64, b: f64) -> f64 {
        a + b
    }
}

#[derive(Clone, Copy)]
pub(super) struct Product;

impl Join for Product {
    const IDENTITY: f64 = 1.0;
    #[inline(always)]
    fn join(self, a: f64, b: f64) -> f64 {
        a * b
    }
}

/// Computes [`block_partial`] with the closure behind an explicit reference. A `&F` passed on as an
/// `impl Fn` would be called through a forwarding function that the compiler may not inline; the
/// loop would then not vectorise.
#[inline(always)]
pub(super) fn block_of<T: Copy, F: Fn(T) -> f64, J: Join>(block: &[T], term: &F, join: J) -> f64 {
    start_of(block, block.len(), term, join)
}

/// Computes [`block_of`] the first `n` elements of a slice. Those that follow may be read.
#[inline(always)]
pub(super) fn start_of<T: Copy, F: Fn(T) -> f64, J: Join>(
    values: &[T],
    n: usize,
    term: &F,
    join: J,
) -> f64 {
    assert!(n <= BLOCK, "block_partial: {n} terms, at most {BLOCK}");
    let mut lanes = [J::IDENTITY; LANES];
    let mut groups = values[..n].chunks_exact(LANES);
    for group in &mut groups {
        for l in 0..LANES {
            lanes[l] = join.join(lanes[l], term(group[l]));
        }
    }
    let rest = groups.remainder();
    if let Some(&first) = rest.first() {
        // Whole vectors: single lanes would pass through memory before they are halved. The identity
        // changes no lane, since none is −0.
        let mut copy = [first; LANES];
        let last = values[n - rest.len()..].first_chunk().unwrap_or_else(|| {
            copy[..rest.len()].copy_from_slice(rest);
            &copy
        });
        for l in 0..LANES {
            let term = term(last[l]);
            lanes[l] = join.join(lanes[l], if l < rest.len() { term } else { J::IDENTITY });
        }
    }
    halve_apart(lanes, join)
}

/// Computes [`halve`] after a loop over elements.
///
/// The compiler vectorises from the last use of a value backwards. It must not see that distant
/// lanes are joined here: it would pair them in the loop over the elements too, where neighbours
/// belong together.
#[inline(always)]
fn halve_apart<J: Join>(lanes: [f64; LANES], join: J) -> f64 {
    halve(core::hint::black_box(lanes), join)
}

/// Joins the lanes, a power of two of them, by repeated halving.
#[inline(always)]
pub(super) fn halve<const L: usize, J: Join>(mut lanes: [f64; L], join: J) -> f64 {
    for w in [16, 8, 4, 2, 1] {
        if w < L {
            for l in 0..w {
                lanes[l] = join.join(lanes[l], lanes[l + w]);
            }
        }
    }
    lanes[0]
}
