//! Elementwise kernels: functions of one and two elements, comparisons, selection, copies of
//! strided views, casts.
//!
//! # Determinism
//!
//! Portable: every element is the same sequence of correctly rounded operations, whichever
//! thread computes it. NaN results are canonical.

pub mod activation;
pub mod formula;
pub mod gelu;
pub mod integer;
pub mod logits;

pub use crate::launch::declared::elementwise::MAX_RANK;
use crate::launch::declared::elementwise::{RawPair, RawView};
use crate::launch::kernels::elementwise as kernels;
use crate::launch::{Buffer, Launch};
use bytemuck::Zeroable;
use samebits_tensor_core::{bf16, f16};

use crate::device::{Device, Float, Word, expect_len, product};
use crate::error::{CudaError, Result};

pub use samebits_tensor_core::ops::{BinaryKind, CompareKind, UnaryKind};

/// The functions of one element that no operation has. For f32 they are correctly rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `1 − erf(x)`; there is no kernel for f64.
    Erfc,
    /// sin(πx).
    Sinpi,
    /// cos(πx).
    Cospi,
}

/// The positions of a view's elements in its buffer: `offset + Σ index[d] · strides[d]`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The stride of each dimension; 0 repeats its elements.
    pub strides: &'a [isize],
    /// The position of the first element.
    pub offset: usize,
}

/// The pairing of the elements of two operands.
#[derive(Clone, Copy, Debug)]
pub enum Pairing<'a> {
    /// Both operands are dense, with this number of elements.
    Dense(usize),
    /// Each operand is a view in the shape of the result, with stride 0 along broadcast dimensions.
    Strided {
        /// The shape of the result.
        shape: &'a [usize],
        /// The first operand.
        a: View<'a>,
        /// The second operand.
        b: View<'a>,
    },
}

/// Computes `f(x)` for each element. For f32 the transcendental functions are correctly rounded.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] for a function without a kernel.
pub fn unary<T: Float>(device: &Device, kind: UnaryKind, x: &Buffer<T>) -> Result<Buffer<T>> {
    let (op, n) = ("unary", x.len());
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($how:ident: $($kernel:ident)*;)*) => {
            match kind {
                $($(UnaryKind::$kernel => {
                    kernels::$kernel { out: &mut out, input: x, n }.$how(device, op, n)?;
                })*)*
                _ => return Err(without_kernel(op, kind)),
            }
        };
    }
    launch! {
        fours: Neg Abs Exp Log Sqrt Erf Tanh Sigmoid Relu Reciprocal Square;
        threads: Exp2 Expm1 Log2 Log10 Log1p Rsqrt Sin Cos;
    }
    Ok(out)
}

/// Computes `f(x)` for each element, for a function that no operation has.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] for [`Special::Erfc`] of f64, which has no kernel.
pub fn special<T: Float>(device: &Device, kind: Special, x: &Buffer<T>) -> Result<Buffer<T>> {
    let (op, n) = ("unary", x.len());
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($kernel:ident)*) => {
            match kind {
                $(Special::$kernel => {
                    kernels::$kernel { out: &mut out, input: x, n }.threads(device, op, n)?;
                })*
            }
        };
    }
    launch! { Erfc Sinpi Cospi }
    Ok(out)
}

/// Returns the error for a function that has no kernel for the type.
fn without_kernel(op: &'static str, kind: impl std::fmt::Debug) -> CudaError {
    CudaError::invalid(op, format!("{kind:?} has no kernel for this type"))
}

/// Computes `x · scale + shift` for each element, with two roundings.
///
/// # Errors
///
/// [`CudaError::Driver`], as for every function here.
pub fn affine<T: Float>(device: &Device, x: &Buffer<T>, scale: T, shift: T) -> Result<Buffer<T>> {
    let op = "affine";
    let mut out = device.uninitialised(op, x.len())?;
    kernels::Affine { out: &mut out, input: x, n: x.len(), scale, shift }.fours(
        device,
        op,
        x.len(),
    )?;
    Ok(out)
}

/// Computes `f(a, b)` for each pair of elements.
///
/// # Errors
///
/// [`CudaError::Length`] or [`CudaError::InvalidArgument`] if the views do not fit the buffers, or
/// the function has no kernel.
pub fn binary<T: Float>(
    device: &Device,
    kind: BinaryKind,
    a: &Buffer<T>,
    b: &Buffer<T>,
    pairing: Pairing<'_>,
) -> Result<Buffer<T>> {
    let op = "binary";
    let (p, n) = pair(op, a, b, pairing)?;
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($how:ident: $($kernel:ident)*;)*) => {
            match kind {
                $($(BinaryKind::$kernel => {
                    kernels::$kernel { out: &mut out, left: a, right: b, p }.$how(device, op, n)?;
                })*)*
                _ => return Err(without_kernel(op, kind)),
            }
        };
    }
    launch! {
        fours: Add Sub Mul Div Maximum Minimum Weigh ReluGrad TanhGrad SigmoidGrad;
        threads: Pow;
    }
    Ok(out)
}

/// Computes 1 if the comparison holds, else 0.
///
/// # Errors
///
/// As [`binary`].
pub fn compare<T: Comparable>(
    device: &Device,
    kind: CompareKind,
    a: &Buffer<T>,
    b: &Buffer<T>,
    pairing: Pairing<'_>,
) -> Result<Buffer<u8>> {
    let op = "compare";
    let (p, n) = pair(op, a, b, pairing)?;
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($kernel:ident)*) => {
            match kind {
                $(CompareKind::$kernel => {
                    kernels::$kernel { out: &mut out, left: a, right: b, p }.fours(device, op, n)?;
                })*
            }
        };
    }
    launch! { Eq Ne Lt Le Gt Ge }
    Ok(out)
}

/// A type that [`compare`] and [`cast`] take.
pub trait Comparable: Word {}
impl Comparable for f32 {}
impl Comparable for f64 {}
impl Comparable for i64 {}
impl Comparable for u8 {}

/// Selects `a` if the condition is not 0, else `b`.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn select<T: Word>(
    device: &Device,
    condition: &Buffer<u8>,
    a: &Buffer<T>,
    b: &Buffer<T>,
) -> Result<Buffer<T>> {
    let op = "where";
    let n = condition.len();
    expect_len(op, "the first choice", a, n)?;
    expect_len(op, "the second choice", b, n)?;
    let mut out = device.uninitialised(op, n)?;
    kernels::Select { out: &mut out, condition, a, b, n }.fours(device, op, n)?;
    Ok(out)
}

/// Copies the elements of a view, dense and in order.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if the view reaches outside the buffer.
pub fn copy<T: Word>(
    device: &Device,
    x: &Buffer<T>,
    shape: &[usize],
    view: View<'_>,
) -> Result<Buffer<T>> {
    let op = "copy";
    let n = product(op, shape)?;
    let mut raw = RawView::zeroed();
    raw.n = n;
    raw.rank = shape.len();
    raw.shape = dims(op, shape)?;
    raw.stride = checked_strides(op, "the view", shape, view, x.len())?;
    raw.offset = view.offset as i64;
    let mut out = device.uninitialised(op, n)?;
    match transposed(shape, &raw.stride) {
        Some((dense, blocks)) => {
            let block = SQUARE * SQUARE_ROWS;
            kernels::Transpose { out: &mut out, input: x, p: raw, dense }.grid(
                device,
                op,
                (blocks, 1, 1),
                (block, 1, 1),
            )?;
        }
        None => kernels::Copy { out: &mut out, input: x, p: raw }.fours(device, op, n)?,
    }
    Ok(out)
}

/// The side of the squares of a transposing copy, and the number of rows of threads.
const SQUARE: u32 = 32;
const SQUARE_ROWS: u32 = 8;

/// Returns the dimension along which a view's elements are neighbours and the number of squares of
/// it and the last dimension, if the two differ and most of a square is used.
fn transposed(shape: &[usize], strides: &[i64]) -> Option<(usize, u32)> {
    let (&columns, outer) = shape.split_last()?;
    let dense = (0..outer.len()).find(|&d| strides[d] == 1 && outer[d] > 1)?;
    if strides[outer.len()] == 1 || columns.min(outer[dense]) < SQUARE as usize / 2 {
        return None;
    }
    let sides = outer.iter().enumerate().map(|(d, &size)| match d == dense {
        true => size.div_ceil(SQUARE as usize),
        false => size,
    });
    let squares = sides.chain([columns.div_ceil(SQUARE as usize)]).product::<usize>();
    i32::try_from(squares).ok().map(|squares| (dense, squares as u32))
}

/// Concatenates tensors along a dimension.
///
/// # Shapes
///
/// Input `k` is `[outer, widths[k]]`, dense; returns `[outer, Σ widths]`.
///
/// # Determinism
///
/// Portable: each element is copied.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] unless there is one width per input.
pub fn cat<T: Word>(
    device: &Device,
    inputs: &[&Buffer<T>],
    outer: usize,
    widths: &[usize],
) -> Result<Buffer<T>> {
    let op = "cat";
    if inputs.len() != widths.len() {
        return Err(CudaError::invalid(
            op,
            format!("{} inputs and {} widths", inputs.len(), widths.len()),
        ));
    }
    let row = widths.iter().try_fold(0usize, |sum, &width| sum.checked_add(width));
    let row = row.ok_or_else(|| CudaError::invalid(op, "the widths do not fit 64 bits"))?;
    let mut out = device.uninitialised(op, product(op, &[outer, row])?)?;
    let mut first = 0;
    for (&input, &width) in inputs.iter().zip(widths) {
        let n = outer * width;
        expect_len(op, "an input", input, n)?;
        kernels::Join { out: &mut out, input, n, width, row, first }.fours(device, op, n)?;
        first += width;
    }
    Ok(out)
}

/// Returns a buffer with `n` copies of `value`.
///
/// # Errors
///
/// [`CudaError::OutOfMemory`].
pub fn fill<T: Word>(device: &Device, n: usize, value: T) -> Result<Buffer<T>> {
    let op = "fill";
    let mut out = device.uninitialised::<T>(op, n)?;
    match bytemuck::bytes_of(&value) {
        &[byte] => out.set(op, byte)?,
        _ => kernels::Fill { out: &mut out, n, value }.fours(device, op, n)?,
    }
    Ok(out)
}

/// Converts to another type: from f64 to f32 rounded to nearest even; from floats to integers
/// truncated towards zero and saturated, NaN to 0; from i64 to u8 the low bits.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn cast<T: Comparable, R: Comparable>(device: &Device, x: &Buffer<T>) -> Result<Buffer<R>> {
    convert(device, x)
}

/// A type that is only moved and cast; for other work it is converted to a wider type.
pub trait Narrow: Word {
    /// A type that holds every value.
    type Wide: Comparable;
}
impl Narrow for i32 {
    type Wide = i64;
}
impl Narrow for u32 {
    type Wide = i64;
}
impl Narrow for f16 {
    type Wide = f32;
}
impl Narrow for bf16 {
    type Wide = f32;
}

/// A type that [`narrow`] converts from: it holds every value of all types but the other such type.
pub trait Widest: Word {}
impl Widest for f64 {}
impl Widest for i64 {}

/// Converts to a wider type, exactly.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn widen<T: Narrow>(device: &Device, x: &Buffer<T>) -> Result<Buffer<T::Wide>> {
    convert(device, x)
}

/// Converts to a narrower type: floats as [`cast`] does, integers to halves rounded to nearest
/// even, integers to integers by their low bits.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn narrow<T: Widest, R: Narrow>(device: &Device, x: &Buffer<T>) -> Result<Buffer<R>> {
    convert(device, x)
}

fn convert<T: Word, R: Word>(device: &Device, x: &Buffer<T>) -> Result<Buffer<R>> {
    let (op, n) = ("cast", x.len());
    let mut out = device.uninitialised(op, n)?;
    kernels::Cast { out: &mut out, input: x, n }.fours(device, op, n)?;
    Ok(out)
}

/// Computes 1 for each element that is not 0, else 0; NaN is not 0.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn truth<T: Comparable>(device: &Device, x: &Buffer<T>) -> Result<Buffer<u8>> {
    let (op, n) = ("cast", x.len());
    let mut out = device.uninitialised(op, n)?;
    kernels::Truth { out: &mut out, input: x, n }.fours(device, op, n)?;
    Ok(out)
}

/// Returns the kernel's description of the pairs of elements, and their number.
fn pair<T: Word>(
    op: &'static str,
    a: &Buffer<T>,
    b: &Buffer<T>,
    pairing: Pairing<'_>,
) -> Result<(RawPair, usize)> {
    let mut raw = RawPair::zeroed();
    let n = match pairing {
        Pairing::Dense(n) => {
            expect_len(op, "the first operand", a, n)?;
            expect_len(op, "the second operand", b, n)?;
            n
        }
        Pairing::Strided { shape, a: left, b: right } => {
            // For the kernel rank 0 means dense, so a scalar is a view of shape [1].
            let (shape, pad): (&[usize], &[isize]) =
                if shape.is_empty() { (&[1], &[0]) } else { (shape, &[]) };
            let view = |v: View<'_>| -> Vec<isize> { [v.strides, pad].concat() };
            let (sa, sb) = (view(left), view(right));
            let left = View { strides: &sa, offset: left.offset };
            let right = View { strides: &sb, offset: right.offset };
            raw.rank = shape.len();
            raw.shape = dims(op, shape)?;
            raw.stride_a = checked_strides(op, "the first operand", shape, left, a.len())?;
            raw.stride_b = checked_strides(op, "the second operand", shape, right, b.len())?;
            raw.offset_a = left.offset as i64;
            raw.offset_b = right.offset as i64;
            product(op, shape)?
        }
    };
    raw.n = n;
    Ok((raw, n))
}

fn dims(op: &'static str, shape: &[usize]) -> Result<[usize; MAX_RANK]> {
    let mut found = [0; MAX_RANK];
    if shape.len() > MAX_RANK {
        return Err(CudaError::invalid(
            op,
            format!("{} dimensions; at most {MAX_RANK} are possible", shape.len()),
        ));
    }
    for (to, &from) in found.iter_mut().zip(shape) {
        *to = from;
    }
    Ok(found)
}

/// Returns the strides of a view, after a check that all its elements lie inside a buffer of `len`.
fn checked_strides(
    op: &'static str,
    what: &'static str,
    shape: &[usize],
    view: View<'_>,
    len: usize,
) -> Result<[i64; MAX_RANK]> {
    let mut found = [0; MAX_RANK];
    if view.strides.len() != shape.len() || shape.len() > MAX_RANK {
        return Err(CudaError::invalid(
            op,
            format!("{what} has strides {:?} for the shape {shape:?}", view.strides),
        ));
    }
    let (mut low, mut high) = (view.offset as i128, view.offset as i128);
    for (d, (&size, &stride)) in shape.iter().zip(view.strides).enumerate() {
        found[d] = stride as i64;
        let reach = (size as i128 - 1) * stride as i128;
        low += reach.min(0);
        high += reach.max(0);
    }
    let empty = shape.contains(&0);
    if !empty && (low < 0 || high >= len as i128) {
        return Err(CudaError::invalid(
            op,
            format!("{what} reaches from {low} to {high} in a buffer of {len} elements"),
        ));
    }
    Ok(found)
}
