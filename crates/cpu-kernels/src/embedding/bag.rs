//! Sums, means and maxima of bags of rows.

use super::divide_by_counts;
use crate::error::{Error, Result, expect_len, expect_size};
use crate::scatter::Sums;
use crate::scatter::{Adder, Atomic, Checked, Exact, Stored, check, picked};
use crate::{Float, memory, parallel};
use samebits_numerics::extrema::replaces_max;
use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Kernel};

pub use samebits_tensor_core::geometry::BagBounds;
pub use samebits_tensor_core::ops::BagMode;

/// Rows of a table, grouped into bags.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::embedding::{BagBounds, BagMode, Bags, embedding_bag};
///
/// // Two bags: rows 0 and 1, and row 1.
/// let bounds = BagBounds::new("embedding_bag", 3, &[0, 2], false)?;
/// let bags = Bags::new(2, &[0, 1, 1], &bounds, None)?;
/// let mut out = [0.0f32; 2];
/// embedding_bag(&mut out, None, &[10.0, 20.0], 1, &bags, BagMode::Sum, None)?;
/// assert_eq!(out, [30.0, 20.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bags<'a> {
    rows: usize,
    index: &'a [i64],
    bounds: &'a BagBounds,
    padding_idx: Option<usize>,
}

const OP: &str = "embedding_bag";

impl<'a> Bags<'a> {
    /// Checks and returns bags over the rows `index` of a table of `rows` rows. Places that hold
    /// `padding_idx`, and those after the last bag, belong to no bag.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if the bags have more places than the index; [`Error::IndexOutOfRange`] if
    /// an index in a bag is not below `rows`.
    pub fn new(
        rows: usize,
        index: &'a [i64],
        bounds: &'a BagBounds,
        padding_idx: Option<usize>,
    ) -> Result<Bags<'a>> {
        let (expected, got) = (bounds.total(), index.len());
        let bagged = index.get(..expected);
        check(OP, bagged.ok_or(Error::Length { op: OP, what: "index", expected, got })?, rows)?;
        Ok(Bags { rows, index, bounds, padding_idx })
    }

    /// Returns the number of bags.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// Returns true if there are no bags.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// Returns the places of bag `b` and their rows, without padding.
    #[inline(always)]
    fn places(&self, b: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.bounds
            .places(b)
            .map(|place| (place, self.index[place] as usize))
            .filter(|&(_, row)| Some(row) != self.padding_idx)
    }
}

/// Computes one row per bag.
///
/// # Shapes
///
/// `weight` (rows, width), `out` (bags, width); with [`BagMode::Max`], `max_rows` (bags, width)
/// receives the table row of each maximum, or -1 for an empty bag. `per_sample_weights`, one number
/// per place, is for [`BagMode::Sum`] only.
///
/// # Determinism
///
/// Portable. The rows of a bag are added in ascending order of places in f64 from `+0` (each times
/// its weight, rounded to f64); a mean is divided by their number in f64; the result is rounded
/// once. An empty bag gives 0. A maximum takes the first of equal elements, and NaN counts as the
/// largest.
///
/// # Errors
///
/// [`Error::Length`] if a slice has the wrong length; [`Error::Argument`] for weights with a mode
/// other than the sum; [`Error::OutOfMemory`].
///
/// # References
///
/// `torch.nn.functional.embedding_bag`.
pub fn embedding_bag<T: Float>(
    out: &mut [T],
    max_rows: Option<&mut [i64]>,
    weight: &[T],
    width: usize,
    bags: &Bags<'_>,
    mode: BagMode,
    per_sample_weights: Option<&[T]>,
) -> Result<()> {
    expect_size(OP, "weight", weight.len(), &[bags.rows, width])?;
    expect_size(OP, "out", out.len(), &[bags.len(), width])?;
    check_weights(bags, mode, per_sample_weights)?;
    if let Some(max_rows) = &max_rows {
        expect_len(OP, "max_rows", max_rows.len(), out.len())?;
    }
    if out.is_empty() {
        return Ok(());
    }
    if mode != BagMode::Max {
        let mean = mode == BagMode::Mean;
        let work = width.saturating_mul(bags.index.len() / bags.len());
        let together = parallel::several(bags.len(), work) * width;
        return parallel::try_pieces_of(together, out, |start, out| {
            let first = start / width;
            let mine = first..first + out.len() / width;
            let largest = mine.map(|bag| bags.bounds.places(bag).len()).max().unwrap_or(0);
            let rows = memory::with_capacity(OP, largest)?;
            let weights = per_sample_weights;
            simd::dispatch(SumBags { out, first, weight, width, bags, weights, mean, rows });
            Ok(())
        });
    }
    let mut winners = memory::filled(OP, out.len(), -1i64)?;
    parallel::rows(width, &mut winners, |start, winners| {
        for (offset, winners) in winners.chunks_exact_mut(width).enumerate() {
            for (_, row) in bags.places(start / width + offset) {
                for (j, winner) in winners.iter_mut().enumerate() {
                    let replaces = *winner < 0
                        || replaces_max(
                            weight[*winner as usize * width + j],
                            weight[row * width + j],
                        );
                    *winner = if replaces { row as i64 } else { *winner };
                }
            }
        }
    });
    for (place, (out, &winner)) in out.iter_mut().zip(&winners).enumerate() {
        *out = match usize::try_from(winner) {
            Ok(row) => weight[row * width + place % width].canonical(),
            Err(_) => T::ZERO,
        };
    }
    if let Some(max_rows) = max_rows {
        max_rows.copy_from_slice(&winners);
    }
    Ok(())
}

/// Computes the gradient of the table of [`embedding_bag`].
///
/// Row `r` is the exact sum of the bags' gradients over the places that hold it. A gradient is
/// first multiplied with the place's weight and rounded, if there are weights; for a mean, divided
/// by the bag's size and rounded; for a maximum, used only at the places named by `max_rows`. With
/// `scale_grad_by_freq` the sum is then divided by the number of places that hold `r`.
///
/// # Shapes
///
/// `grad_out` (bags, width), `grad_weight` (rows, width), overwritten; `max_rows` from
/// [`embedding_bag`].
///
/// # Determinism
///
/// Portable: an irregular sum; see [`scatter`](crate::scatter).
///
/// # Errors
///
/// As [`embedding_bag`]; [`Error::Argument`] if [`BagMode::Max`] is used without `max_rows`;
/// [`Error::IndexOutOfRange`] if `max_rows` names no row.
///
/// # References
///
/// `torch.nn.functional.embedding_bag`.
pub fn embedding_bag_backward<T: Sums>(
    grad_weight: &mut [T],
    width: usize,
    grad_out: &[T],
    bags: &Bags<'_>,
    mode: BagMode,
    max_rows: Option<&[i64]>,
    per_sample_weights: Option<&[T]>,
    scale_grad_by_freq: bool,
) -> Result<()> {
    let (weights, scale) = (per_sample_weights, scale_grad_by_freq);
    backward::<T, Exact>(grad_weight, width, grad_out, bags, mode, max_rows, weights, scale)
}

/// Computes [`embedding_bag_backward`] with float atomics.
///
/// # Shapes
///
/// As [`embedding_bag_backward`].
///
/// # Determinism
///
/// Not guaranteed: the bits depend on the schedule.
///
/// # Errors
///
/// As [`embedding_bag_backward`].
pub fn embedding_bag_backward_fast(
    grad_weight: &mut [f32],
    width: usize,
    grad_out: &[f32],
    bags: &Bags<'_>,
    mode: BagMode,
    max_rows: Option<&[i64]>,
    per_sample_weights: Option<&[f32]>,
    scale_grad_by_freq: bool,
) -> Result<()> {
    let (weights, scale) = (per_sample_weights, scale_grad_by_freq);
    backward::<f32, Atomic>(grad_weight, width, grad_out, bags, mode, max_rows, weights, scale)
}

fn backward<T: Float, A: Adder<T>>(
    grad_weight: &mut [T],
    width: usize,
    grad_out: &[T],
    bags: &Bags<'_>,
    mode: BagMode,
    max_rows: Option<&[i64]>,
    per_sample_weights: Option<&[T]>,
    scale_grad_by_freq: bool,
) -> Result<()> {
    expect_size(OP, "grad_weight", grad_weight.len(), &[bags.rows, width])?;
    expect_size(OP, "grad_out", grad_out.len(), &[bags.len(), width])?;
    check_weights(bags, mode, per_sample_weights)?;
    if mode == BagMode::Max {
        let max_rows = max_rows
            .ok_or_else(|| Error::argument(OP, "the gradient of a maximum needs max_rows"))?;
        return max_backward::<T, A>(grad_weight, width, grad_out, bags, max_rows);
    }
    if grad_weight.is_empty() {
        return Ok(());
    }
    // For each place: its bag, its row, and the divisor or factor of the bag's gradient.
    let mut sources = memory::with_capacity(OP, bags.index.len())?;
    let mut rows = memory::with_capacity(OP, bags.index.len())?;
    for b in 0..bags.len() {
        let size = if mode == BagMode::Mean { bags.places(b).count() } else { 1 };
        let divisor = T::from_usize(size);
        for (place, row) in bags.places(b) {
            let factor = per_sample_weights.map_or(divisor, |weights| weights[place]);
            sources.push((b * width, factor));
            rows.push(row);
        }
    }
    let destinations = Checked(OP, &rows);
    let place = |i: usize| sources[i].0;
    if per_sample_weights.is_some() {
        let addends =
            Stored { data: grad_out, place, dense: false, form: |i: usize, g| g * sources[i].1 };
        A::add_rows(grad_weight, true, width, &destinations, &addends)?;
    } else {
        let addends =
            Stored { data: grad_out, place, dense: false, form: |i: usize, g| g / sources[i].1 };
        A::add_rows(grad_weight, true, width, &destinations, &addends)?;
    }
    if scale_grad_by_freq {
        divide_by_counts(OP, grad_weight, width, &rows)?;
    }
    Ok(())
}

/// Computes the gradient of the per-sample weights of [`embedding_bag`]: the scalar product of the
/// bag's gradient and the place's row; 0 at padding.
///
/// # Shapes
///
/// `grad_out` (bags, width), `weight` (rows, width), `grad_weights` (places), overwritten.
///
/// # Determinism
///
/// Portable: products and sum in f64 over the tree of
/// [`reduce`](samebits_numerics::reduce), rounded once.
///
/// # Errors
///
/// As [`embedding_bag`].
pub fn embedding_bag_weights_backward<T: Float>(
    grad_weights: &mut [T],
    width: usize,
    grad_out: &[T],
    weight: &[T],
    bags: &Bags<'_>,
) -> Result<()> {
    expect_len(OP, "grad_weights", grad_weights.len(), bags.index.len())?;
    expect_size(OP, "weight", weight.len(), &[bags.rows, width])?;
    expect_size(OP, "grad_out", grad_out.len(), &[bags.len(), width])?;
    grad_weights.fill(T::ZERO);
    fpenv::ieee(|| {
        for b in 0..bags.len() {
            let grad = &grad_out[b * width..][..width];
            for (place, row) in bags.places(b) {
                let product = samebits_numerics::reduce::dot(grad, &weight[row * width..][..width]);
                grad_weights[place] = T::from_f64(product).canonical();
            }
        }
    });
    Ok(())
}

fn check_weights<T>(bags: &Bags<'_>, mode: BagMode, weights: Option<&[T]>) -> Result<()> {
    match weights {
        Some(_) if mode != BagMode::Sum => {
            Err(Error::argument(OP, "per-sample weights are for the sum only"))
        }
        Some(weights) => expect_len(OP, "per_sample_weights", weights.len(), bags.index.len()),
        None => Ok(()),
    }
}

fn max_backward<T: Float, A: Adder<T>>(
    grad_weight: &mut [T],
    width: usize,
    grad_out: &[T],
    bags: &Bags<'_>,
    max_rows: &[i64],
) -> Result<()> {
    expect_len(OP, "max_rows", max_rows.len(), grad_out.len())?;
    let mut sources = memory::with_capacity(OP, max_rows.len())?;
    let mut places = memory::with_capacity(OP, max_rows.len())?;
    for (position, &row) in max_rows.iter().enumerate().filter(|&(_, &row)| row != -1) {
        if row < 0 || row as usize >= bags.rows {
            let size = bags.rows;
            return Err(Error::IndexOutOfRange { op: OP, position, index: row, size });
        }
        sources.push(position);
        places.push(row as usize * width + position % width);
    }
    let addends = picked(grad_out, &sources, 1);
    A::add_rows(grad_weight, true, 1, &Checked(OP, &places), &addends)
}

struct SumBags<'a, T> {
    out: &'a mut [T],
    first: usize,
    weight: &'a [T],
    width: usize,
    bags: &'a Bags<'a>,
    weights: Option<&'a [T]>,
    mean: bool,
    /// Space for the rows of the largest bag: the start and the factor of each.
    rows: Vec<(usize, f64)>,
}

/// The number of neighbouring columns whose sums stay in registers.
const GROUP: usize = 32;

impl<T: Float> Kernel for SumBags<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (width, mut rows) = (self.width, self.rows);
        for (offset, out) in self.out.chunks_exact_mut(width).enumerate() {
            rows.clear();
            rows.extend(self.bags.places(self.first + offset).map(|(place, row)| {
                (row * width, self.weights.map_or(1.0, |weights| weights[place].into()))
            }));
            let divisor = if self.mean && !rows.is_empty() { rows.len() as f64 } else { 1.0 };
            for (number, out) in out.chunks_mut(GROUP).enumerate() {
                let first = number * GROUP;
                let sums = match out.len() {
                    1 => sum_columns::<1, _>(self.weight, &rows, first),
                    2 => sum_columns::<2, _>(self.weight, &rows, first),
                    3 => sum_columns::<3, _>(self.weight, &rows, first),
                    4 => sum_columns::<4, _>(self.weight, &rows, first),
                    8 => sum_columns::<8, _>(self.weight, &rows, first),
                    16 => sum_columns::<16, _>(self.weight, &rows, first),
                    GROUP => sum_columns::<GROUP, _>(self.weight, &rows, first),
                    count => sum_rest(self.weight, &rows, first, count),
                };
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = T::from_f64(sum / divisor).canonical();
                }
            }
        }
    }
}

/// Computes the sums of `N` neighbouring columns.
#[inline(always)]
fn sum_columns<const N: usize, T: Float>(
    weight: &[T],
    rows: &[(usize, f64)],
    first: usize,
) -> [f64; GROUP] {
    let mut sums = [0.0; N];
    for &(start, factor) in rows {
        let row: &[T; N] = weight[start + first..][..N].try_into().expect("the slice is N long");
        // A product with 1 is exact, so the loop needs no second form.
        for k in 0..N {
            sums[k] += factor * row[k].into();
        }
    }
    let mut all = [0.0; GROUP];
    all[..N].copy_from_slice(&sums);
    all
}

#[inline(always)]
fn sum_rest<T: Float>(
    weight: &[T],
    rows: &[(usize, f64)],
    first: usize,
    count: usize,
) -> [f64; GROUP] {
    let mut sums = [0.0; GROUP];
    for &(start, factor) in rows {
        for (sum, &x) in sums.iter_mut().zip(&weight[start + first..][..count]) {
            *sum += factor * x.into();
        }
    }
    sums
}
