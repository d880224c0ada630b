//! Reductions along one dimension: sums over the contract's fixed tree, and extrema.
//!
//! A tensor is treated as `[outer, n, inner]` and reduced over `n`.
//!
//! # Determinism
//!
//! Sums run in f64 over the tree of [`samebits_numerics::reduce`], whose shape depends on `n`
//! alone, and are rounded once; products likewise. Of equal extrema the first is taken; NaN counts
//! as the extremum.

use std::any::Any;

use crate::launch::declared::reduce::RawReduce;
use crate::launch::kernels::reduce as kernels;
use crate::launch::{Buffer, Launch};
use samebits_numerics::reduce::norm_leaves_range;

use crate::Variant;
use crate::device::{Device, Float, expect_len, product};
use crate::elementwise::{BinaryKind, Pairing, UnaryKind, binary, fill, unary};
use crate::error::{CudaError, Result};

/// The number of terms of a block of the tree.
pub(crate) const BLOCK: usize = samebits_numerics::reduce::BLOCK;
/// The number of rows of a block of columns whose extrema are found or whose integers are joined;
/// `SB_COLUMN_PART` in `kernels/reduce.cu`.
const COLUMN_PART: usize = 512;
/// The number of blocks' extrema that a warp compares.
const FOUND_BLOCK: usize = 256;
/// The number of columns of a thread block that sums down a matrix, and the shape of the block.
const COLUMNS: usize = 8;
pub(crate) const COLUMN_BLOCK: (u32, u32, u32) = (COLUMNS as u32, 32, 1);

/// The operation on the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Rounds the sum.
    Sum,
    /// Divides the sum by `n` in f64 and rounds.
    Mean,
    /// Sums the squares, which are exact for f32 and rounded to f64 otherwise.
    Squares,
}

/// Sums over the middle dimension.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns `[outer, inner]`.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn sum<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
    kind: Sum,
) -> Result<Buffer<T>> {
    let op = "sum";
    let terms = if kind == Sum::Squares { Terms::Squares } else { Terms::Plain };
    let wide = sums(device, op, x, [outer, n, inner], terms)?;
    let divisor = if kind == Sum::Mean { n as f64 } else { 1.0 };
    let mut out = finish(device, op, &wide, outer * inner, divisor)?;
    let any: &mut dyn Any = &mut out;
    if let (Sum::Mean, Some(means)) = (kind, any.downcast_mut()) {
        mend_means(device, op, means, x, [outer, n, inner])?;
    }
    Ok(out)
}

/// Computes means again whose sums left the range of f64: from the elements times 2^-64, divided by that
/// power. Sums of f32 stay in the range.
fn mend_means<T: Float>(
    device: &Device,
    op: &'static str,
    means: &mut Buffer<f64>,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
) -> Result<()> {
    let Some(x) = (x as &dyn Any).downcast_ref() else { return Ok(()) };
    let p = RawReduce::new(outer, n, inner, n.div_ceil(BLOCK));
    kernels::MendedMeans { means, input: x, p }.threads(
        device,
        op,
        product(op, &[outer, inner, 32])?,
    )
}

/// Divides f64 numbers by the divisor and rounds them.
pub(crate) fn finish<T: Float>(
    device: &Device,
    op: &'static str,
    wide: &Buffer<f64>,
    n: usize,
    divisor: f64,
) -> Result<Buffer<T>> {
    let mut out = device.uninitialised(op, n)?;
    kernels::Finish { out: &mut out, input: wide, n, divisor }.threads(device, op, n)?;
    Ok(out)
}

/// Computes the product over the middle dimension: the tree of the sum with `*` instead of `+`; 1
/// for no elements.
///
/// # Shapes
///
/// As [`sum`].
///
/// # Errors
///
/// As [`sum`].
pub fn prod<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
) -> Result<Buffer<T>> {
    let op = "prod";
    expect_len(op, "the input", x, product(op, &[outer, n, inner])?)?;
    let outputs = product(op, &[outer, inner])?;
    if n == 0 {
        return fill(device, outputs, T::from_f64(1.0));
    }
    finish(device, op, &products(device, op, x, [outer, n, inner])?, outputs, 1.0)
}

fn products<T: Float>(
    device: &Device,
    op: &'static str,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
) -> Result<Buffer<f64>> {
    let blocks = n.div_ceil(BLOCK);
    let outputs = product(op, &[outer, blocks, inner])?;
    let mut out = device.uninitialised::<f64>(op, outputs)?;
    kernels::ProductBlocks { out: &mut out, input: x, p: RawReduce::new(outer, n, inner, blocks) }
        .threads(device, op, product(op, &[outputs, 32])?)?;
    if blocks == 1 { Ok(out) } else { products(device, op, &out, [outer, blocks, inner]) }
}

/// A reduction of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Integers {
    /// The sum, which wraps around; 0 for no elements.
    Sum,
    /// The product, which wraps around; 1 for no elements.
    Product,
    /// The largest element.
    Largest,
    /// The smallest element.
    Smallest,
}

/// Reduces integers over the middle dimension.
///
/// # Shapes
///
/// As [`sum`].
///
/// # Determinism
///
/// Each reduction gives the same result in any order.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for an extremum of no elements.
pub fn integers(
    device: &Device,
    x: &Buffer<i64>,
    [outer, n, inner]: [usize; 3],
    kind: Integers,
) -> Result<Buffer<i64>> {
    let (op, first) = match kind {
        Integers::Sum => ("sum", 0),
        Integers::Product => ("prod", 1),
        Integers::Largest => ("amax", i64::MIN),
        Integers::Smallest => ("amin", i64::MAX),
    };
    if n == 0 && matches!(kind, Integers::Largest | Integers::Smallest) {
        return Err(CudaError::invalid(op, "there are no elements to choose from"));
    }
    expect_len(op, "the input", x, product(op, &[outer, n, inner])?)?;
    let by_columns = inner >= COLUMNS;
    let blocks = n.div_ceil(if by_columns { COLUMN_PART } else { BLOCK }).max(1);
    let outputs = product(op, &[outer, blocks, inner])?;
    let mut out = device.uninitialised::<i64>(op, outputs)?;
    let (p, kind_of) = (RawReduce::new(outer, n, inner, blocks), kind as u32);
    if by_columns {
        let grid = column_grid(op, product(op, &[outer, blocks])?, inner)?;
        kernels::IntegerColumns { out: &mut out, input: x, p, kind: kind_of, first }.grid(
            device,
            op,
            grid,
            COLUMN_BLOCK,
        )?;
    } else {
        kernels::IntegerBlocks { out: &mut out, input: x, p, kind: kind_of, first }.threads(
            device,
            op,
            product(op, &[outputs, 32])?,
        )?;
    }
    if blocks == 1 { Ok(out) } else { integers(device, &out, [outer, blocks, inner], kind) }
}

/// Computes the variance and the mean over the middle dimension. The deviations from the f64 mean
/// are squared and summed over the tree, then divided by `n − correction` (by 0 if that is
/// negative) in f64; each result is rounded once. If the sum of squares leaves the range of f64, it is
/// computed again from elements and mean times 2^-600.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns two of `[outer, inner]`.
///
/// # Errors
///
/// As [`sum`].
pub fn variance<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
    correction: f64,
) -> Result<(Buffer<T>, Buffer<T>)> {
    let (op, shape) = ("var", [outer, n, inner]);
    let outputs = product(op, &[outer, inner])?;
    let totals = sums(device, op, x, shape, Terms::Plain)?;
    let mut means = finish::<f64>(device, op, &totals, outputs, n as f64)?;
    mend_means(device, op, &mut means, x, shape)?;
    let squares = sums(device, op, x, shape, Terms::Deviations(&means))?;
    let divisor = (n as f64 - correction).max(0.0);
    let mut variances = finish(device, op, &squares, outputs, divisor)?;
    let any: &mut dyn Any = &mut variances;
    if let (Some(variances), Some(x)) = (any.downcast_mut(), (x as &dyn Any).downcast_ref()) {
        let p = RawReduce::new(outer, n, inner, n.div_ceil(BLOCK));
        kernels::MendedVariances {
            variances,
            squares: &squares,
            means: &means,
            input: x,
            p,
            divisor,
        }
        .threads(device, op, product(op, &[outputs, 32])?)?;
    }
    Ok((variances, finish(device, op, &means, outputs, 1.0)?))
}

/// Computes the p-norm over the middle dimension, `(Σ |x|^p)^(1/p)` in f64 over the tree, rounded
/// once, with scales if a power could leave the range of f64. For p = 0 it counts the elements that
/// are not zero; for ∞ it is the largest magnitude, for −∞ the smallest.
///
/// # Shapes
///
/// As [`sum`].
///
/// # Errors
///
/// As [`sum`]; [`CudaError::InvalidArgument`] if `p` is infinite and `n` is 0.
pub fn norm<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
    p: f64,
) -> Result<Buffer<T>> {
    let (op, shape) = ("norm", [outer, n, inner]);
    if p.is_infinite() {
        let magnitudes = unary(device, UnaryKind::Abs, x)?;
        return Ok(extreme(device, &magnitudes, shape, p < 0.0)?.0);
    }
    let (outputs, root) = (outer * inner, if p == 2.0 { 1 } else { 2 });
    if n > 0 && norm_leaves_range(p, if T::WIDE { 1074 } else { 149 }) {
        let magnitudes = unary(device, UnaryKind::Abs, x)?;
        let (most, _) = extreme(device, &magnitudes, shape, p < 0.0)?;
        let mut scales = device.uninitialised(op, outputs)?;
        kernels::NormScales { out: &mut scales, input: &most, n: outputs, exponent: p }
            .threads(device, op, outputs)?;
        let sums = sums(device, op, x, shape, Terms::ScaledPowers(&scales, p))?;
        let norms = roots::<f64>(device, &sums, root, p)?;
        let norms = binary(device, BinaryKind::Mul, &norms, &scales, Pairing::Dense(outputs))?;
        return finish(device, op, &norms, outputs, 1.0);
    }
    let (terms, root) = match p {
        0.0 => (Terms::NonZeros, 0),
        1.0 => (Terms::Magnitudes, 0),
        2.0 => (Terms::Squares, root),
        _ => (Terms::Powers(p), root),
    };
    roots(device, &sums(device, op, x, shape, terms)?, root, p)
}

/// Computes the roots of sums of `p`-th powers. `kind` is 0 for none, 1 for the square root, 2 for
/// the power.
fn roots<T: Float>(device: &Device, sums: &Buffer<f64>, kind: u32, p: f64) -> Result<Buffer<T>> {
    let op = "norm";
    let mut out = device.uninitialised(op, sums.len())?;
    kernels::Roots { out: &mut out, input: sums, n: sums.len(), kind, exponent: 1.0 / p }.threads(
        device,
        op,
        sums.len(),
    )?;
    Ok(out)
}

/// Computes the logarithm of the sum of the exponentials over the middle dimension: the
/// exponentials of the differences to the largest element are summed in f64 over the tree; the
/// logarithm of that sum plus the largest element is rounded once. If the largest is infinite or
/// NaN, it is the result. No elements give minus infinity.
///
/// # Shapes
///
/// As [`sum`].
///
/// # Errors
///
/// As [`sum`].
pub fn logsumexp<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
) -> Result<Buffer<T>> {
    let (op, shape) = ("logsumexp", [outer, n, inner]);
    expect_len(op, "the input", x, product(op, &shape)?)?;
    let outputs = product(op, &[outer, inner])?;
    if n == 0 {
        return fill(device, outputs, T::from_f64(f64::NEG_INFINITY));
    }
    let (largest, _) = extreme(device, x, shape, false)?;
    let sums = sums(device, op, x, shape, Terms::Exponentials(&largest))?;
    let mut out = device.uninitialised(op, outputs)?;
    kernels::LogsumexpFinish { out: &mut out, sums: &sums, largest: &largest, n: outputs }
        .threads(device, op, outputs)?;
    Ok(out)
}

/// The term of each element, in f64.
#[derive(Clone, Copy)]
pub(crate) enum Terms<'a, T> {
    /// The element itself.
    Plain,
    Squares,
    Magnitudes,
    /// 1 for every element that is not zero.
    NonZeros,
    /// The given power of the magnitude.
    Powers(f64),
    /// The square of the difference to its row's number.
    Deviations(&'a Buffer<f64>),
    /// The exponential of the difference to its row's number.
    Exponentials(&'a Buffer<T>),
    /// The given power of the magnitude of the quotient with its row's number.
    ScaledPowers(&'a Buffer<f64>, f64),
}

/// Computes the sums in f64, before rounding.
pub(crate) fn sums<T: Float>(
    device: &Device,
    op: &'static str,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
    terms: Terms<'_, T>,
) -> Result<Buffer<f64>> {
    expect_len(op, "the input", x, product(op, &[outer, n, inner])?)?;
    if n == 0 {
        return device.zeros_for(op, product(op, &[outer, inner])?);
    }
    let blocks = n.div_ceil(BLOCK);
    let raw = RawReduce::new(outer, n, inner, blocks);
    let outputs = product(op, &[outer, blocks, inner])?;
    let mut out = device.uninitialised::<f64>(op, outputs)?;
    let threads = product(op, &[outputs, 32])?;
    macro_rules! launch {
        ($kernel:ident $($more:tt)*) => {
            kernels::$kernel { out: &mut out, input: x, p: raw $($more)* }
                .threads(device, op, threads)?
        };
    }
    macro_rules! columns {
        ($kernel:ident $($more:tt)*) => {
            kernels::$kernel { out: &mut out, input: x, p: raw $($more)* }.grid(
                device,
                op,
                column_grid(op, product(op, &[outer, blocks])?, inner)?,
                COLUMN_BLOCK,
            )?
        };
    }
    let by_columns = inner >= COLUMNS;
    match terms {
        Terms::Plain if by_columns => columns!(SumColumns),
        Terms::Squares if by_columns => columns!(SumSquaresColumns),
        Terms::Magnitudes if by_columns => columns!(SumMagnitudesColumns),
        Terms::Deviations(rows) if by_columns => columns!(SumDeviationsColumns, rows),
        Terms::Plain => launch!(SumBlocks),
        Terms::Squares => launch!(SumSquaresBlocks),
        Terms::Magnitudes => launch!(SumMagnitudesBlocks),
        Terms::NonZeros => launch!(CountNonzeroBlocks),
        Terms::Powers(exponent) => launch!(SumPowersBlocks, exponent),
        Terms::Deviations(rows) => launch!(SumDeviationsBlocks, rows),
        Terms::Exponentials(rows) => launch!(SumExpBlocks, rows),
        Terms::ScaledPowers(rows, exponent) => launch!(SumScaledPowersBlocks, rows, exponent),
    }
    if blocks == 1 {
        return Ok(out);
    }
    sums(device, op, &out, [outer, blocks, inner], Terms::Plain)
}

/// Sums f32 with float atomics: one addition per 2048 neighbouring elements, or per 2 elements of a
/// column.
///
/// # Shapes
///
/// As [`sum`].
///
/// # Determinism
///
/// Not guaranteed: the bits depend on the schedule.
///
/// # Errors
///
/// As [`sum`].
pub fn sum_atomic(
    device: &Device,
    x: &Buffer<f32>,
    [outer, n, inner]: [usize; 3],
) -> Result<Buffer<f32>> {
    let op = "sum";
    let elements = product(op, &[outer, n, inner])?;
    expect_len(op, "the input", x, elements)?;
    let mut out = device.zeros_for(op, product(op, &[outer, inner])?)?;
    let (lanes, taken) = if inner == 1 { (32, 2048) } else { (1, 2) };
    let blocks = n.div_ceil(taken);
    let threads = product(op, &[outer, blocks, inner, lanes])?;
    kernels::SumAtomic { out: &mut out, input: x, p: RawReduce::new(outer, n, inner, blocks) }
        .threads(device, op, threads)?;
    Ok(out)
}

/// Computes [`sum`] or [`sum_atomic`].
///
/// # Errors
///
/// As [`sum`].
pub fn sum_with(
    device: &Device,
    x: &Buffer<f32>,
    shape: [usize; 3],
    variant: Variant,
) -> Result<Buffer<f32>> {
    match variant {
        Variant::Deterministic => sum(device, x, shape, Sum::Sum),
        Variant::Atomic => sum_atomic(device, x, shape),
    }
}

/// Computes the largest (or, with `minimum`, the smallest) elements over the middle dimension and
/// their indices along it.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns two of `[outer, inner]`.
///
/// # Errors
///
/// [`CudaError::Length`], and [`CudaError::InvalidArgument`] if `n` is 0.
pub fn extreme<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [outer, n, inner]: [usize; 3],
    minimum: bool,
) -> Result<(Buffer<T>, Buffer<i64>)> {
    let op = if minimum { "amin" } else { "amax" };
    if n == 0 {
        return Err(CudaError::invalid(op, "there are no elements to choose from"));
    }
    expect_len(op, "the input", x, product(op, &[outer, n, inner])?)?;
    let by_columns = inner >= COLUMNS;
    let mut blocks = n.div_ceil(if by_columns { COLUMN_PART } else { BLOCK });
    let (raw, minimum) = (RawReduce::new(outer, n, inner, blocks), u32::from(minimum));
    let found = product(op, &[outer, blocks, inner])?;
    let mut values = device.uninitialised(op, found)?;
    let mut indices = device.uninitialised(op, found)?;
    if by_columns {
        let grid = column_grid(op, product(op, &[outer, blocks])?, inner)?;
        kernels::ExtremeColumns {
            values: &mut values,
            indices: &mut indices,
            input: x,
            p: raw,
            minimum,
        }
        .grid(device, op, grid, COLUMN_BLOCK)?;
    } else {
        kernels::ExtremeBlocks {
            values: &mut values,
            indices: &mut indices,
            input: x,
            p: raw,
            minimum,
        }
        .threads(device, op, product(op, &[found, 32])?)?;
    }
    while blocks > 1 {
        let n = blocks;
        blocks = n.div_ceil(FOUND_BLOCK);
        let found = product(op, &[outer, blocks, inner])?;
        let mut best = device.uninitialised(op, found)?;
        let mut places = device.uninitialised(op, found)?;
        kernels::ExtremeFound {
            values: &mut best,
            indices: &mut places,
            input: &values,
            at: &indices,
            p: RawReduce::new(outer, n, inner, blocks),
            minimum,
        }
        .threads(device, op, product(op, &[found, 32])?)?;
        (values, indices) = (best, places);
    }
    Ok((values, indices))
}

/// Returns a grid for `rows` times `columns`, in blocks of [`COLUMN_BLOCK`].
pub(crate) fn column_grid(
    op: &'static str,
    rows: usize,
    columns: usize,
) -> Result<(u32, u32, u32)> {
    Ok((grid(op, product(op, &[rows, columns.div_ceil(COLUMNS)])?)?, 1, 1))
}

/// Returns the number of blocks as the grid's type.
pub(crate) fn grid(op: &'static str, blocks: usize) -> Result<u32> {
    u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32).ok_or_else(|| {
        CudaError::invalid(op, format!("{blocks} blocks are more than a grid takes"))
    })
}

impl RawReduce {
    fn new(outer: usize, n: usize, inner: usize, blocks: usize) -> RawReduce {
        RawReduce { outer, n, inner, blocks }
    }
}
