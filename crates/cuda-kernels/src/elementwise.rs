//! Each element on its own: functions of one and two elements, comparisons, selection, copies
//! of strided views, casts.
//!
//! # Determinism
//!
//! Portable: every element is the same sequence of correctly rounded operations, whichever
//! thread computes it. NaN results are canonical.

pub mod gelu;
pub mod integer;

use crate::launch::kernels::elementwise as kernels;
use crate::launch::{Buffer, Launch};
use bytemuck::{Pod, Zeroable};
use samebits_tensor_core::{bf16, f16};

use crate::device::{Device, Float, Word, expect_len, product};
use crate::error::{CudaError, Result};

/// Dimensions that a strided view can have.
pub const MAX_RANK: usize = 8;

/// A function of one element. On f32 the transcendental ones are correctly rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum Unary {
    Neg,
    Abs,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Sqrt,
    /// `1 / sqrt(x)`, rounded once.
    Rsqrt,
    Sin,
    Cos,
    Erf,
    Erfc,
    Tanh,
    Sigmoid,
    /// sin(πx).
    Sinpi,
    /// cos(πx).
    Cospi,
    /// `max(x, 0)`; NaN stays NaN, and −0 becomes +0.
    Relu,
    Reciprocal,
    Square,
}

impl Unary {
    /// Returns true if there is a kernel for f64.
    pub fn has_f64(self) -> bool {
        self != Unary::Erfc
    }
}

/// A function of two elements, each operation rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The larger; NaN if either is; the first of equal ones.
    Maximum,
    /// The smaller; NaN if either is; the first of equal ones.
    Minimum,
    /// `a` to the power `b`: correctly rounded on f32, below 1 ulp on f64.
    Pow,
    /// `a · b`, and a zero where `b` is 0, also of an infinite `a`.
    Weigh,
    /// `a` where `b > 0`, NaN where `b` is, else +0.
    ReluGrad,
    /// `a · (1 − b·b)`, three roundings.
    TanhGrad,
    /// `a · ((1 − b) · b)`, three roundings.
    SigmoidGrad,
}

/// A comparison of IEEE 754: all but `Ne` are false for NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the comparison of its name")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Where a view's elements are in its buffer: `offset + Σ index[d] · strides[d]`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// One per dimension; 0 repeats.
    pub strides: &'a [isize],
    /// The place of the first element.
    pub offset: usize,
}

/// How the elements of two operands meet.
#[derive(Clone, Copy, Debug)]
pub enum Pairing<'a> {
    /// Both are dense, with this many elements.
    Dense(usize),
    /// Each is a view in the shape of the result, with stride 0 along what is broadcast.
    Strided {
        /// The shape of the result.
        shape: &'a [usize],
        /// The first operand.
        a: View<'a>,
        /// The second operand.
        b: View<'a>,
    },
}

/// `f(x)` for each element.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] for [`Unary::Erfc`] of f64, which has no kernel.
pub fn unary<T: Float>(device: &Device, kind: Unary, x: &Buffer<T>) -> Result<Buffer<T>> {
    let (op, n) = ("unary", x.len());
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($kernel:ident)*) => {
            match kind {
                $(Unary::$kernel => {
                    kernels::$kernel { out: &mut out, input: x, n }.threads(device, op, n)?;
                })*
            }
        };
    }
    launch! {
        Neg Abs Sqrt Relu Reciprocal Square Exp Exp2 Expm1 Log Log2 Log10 Log1p Rsqrt Sin Cos Erf
        Erfc Tanh Sigmoid Sinpi Cospi
    }
    Ok(out)
}

/// `x · scale + shift` for each element, two roundings.
///
/// # Errors
///
/// [`CudaError::Driver`], as every function here.
pub fn affine<T: Float>(device: &Device, x: &Buffer<T>, scale: T, shift: T) -> Result<Buffer<T>> {
    let op = "affine";
    let mut out = device.uninitialised(op, x.len())?;
    kernels::Affine { out: &mut out, input: x, n: x.len(), scale, shift }.threads(
        device,
        op,
        x.len(),
    )?;
    Ok(out)
}

/// `f(a, b)` for each pair of elements.
///
/// # Errors
///
/// [`CudaError::Length`] or [`CudaError::InvalidArgument`] if the views do not fit the buffers.
pub fn binary<T: Float>(
    device: &Device,
    kind: Binary,
    a: &Buffer<T>,
    b: &Buffer<T>,
    pairing: Pairing<'_>,
) -> Result<Buffer<T>> {
    let op = "binary";
    let (p, n) = pair(op, a, b, pairing)?;
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($kernel:ident)*) => {
            match kind {
                $(Binary::$kernel => {
                    kernels::$kernel { out: &mut out, left: a, right: b, p }
                        .threads(device, op, n)?;
                })*
            }
        };
    }
    launch! { Add Sub Mul Div Maximum Minimum Pow Weigh ReluGrad TanhGrad SigmoidGrad }
    Ok(out)
}

/// 1 where the comparison holds, else 0.
///
/// # Errors
///
/// As [`binary`].
pub fn compare<T: Comparable>(
    device: &Device,
    kind: Compare,
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
                $(Compare::$kernel => {
                    kernels::$kernel { out: &mut out, left: a, right: b, p }
                        .threads(device, op, n)?;
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

/// `a` where the condition is not 0, else `b`.
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
    kernels::Select { out: &mut out, condition, a, b, n }.threads(device, op, n)?;
    Ok(out)
}

/// Returns the elements of a view, dense and in order.
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
        None => kernels::Copy { out: &mut out, input: x, p: raw }.threads(device, op, n)?,
    }
    Ok(out)
}

/// The side of the squares that a transposing copy takes, and the rows that its threads are.
const SQUARE: u32 = 32;
const SQUARE_ROWS: u32 = 8;

/// Returns the dimension along which a view's elements lie side by side, and the squares of it and
/// the last, if those dimensions differ and most of a square is used.
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

/// Puts tensors one after the other along a dimension.
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
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] unless there are as many widths as inputs.
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
        kernels::Join { out: &mut out, input, n, width, row, first }.threads(device, op, n)?;
        first += width;
    }
    Ok(out)
}

/// Returns a buffer of `n` times the same value.
///
/// # Errors
///
/// [`CudaError::OutOfMemory`].
pub fn fill<T: Word>(device: &Device, n: usize, value: T) -> Result<Buffer<T>> {
    let op = "fill";
    let mut out = device.uninitialised::<T>(op, n)?;
    match bytemuck::bytes_of(&value) {
        &[byte] => out.set(op, byte)?,
        _ => kernels::Fill { out: &mut out, n, value }.threads(device, op, n)?,
    }
    Ok(out)
}

/// Returns the same values as another type: rounded to nearest even from f64 to f32, truncated
/// towards zero and saturated from floats to integers, NaN to 0; the low bits from i64 to u8.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn cast<T: Comparable, R: Comparable>(device: &Device, x: &Buffer<T>) -> Result<Buffer<R>> {
    convert(device, x)
}

/// A type that is moved and cast, but has no other kernels: those of a wider type do its work.
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

/// A type that [`narrow`] takes, as it holds every value of all but the other.
pub trait Widest: Word {}
impl Widest for f64 {}
impl Widest for i64 {}

/// Returns the same values as a wider type, exactly.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn widen<T: Narrow>(device: &Device, x: &Buffer<T>) -> Result<Buffer<T::Wide>> {
    convert(device, x)
}

/// Returns the same values as a narrower type: floats as [`cast`] does, integers to halves rounded
/// to nearest even, to integers by their low bits.
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
    kernels::Cast { out: &mut out, input: x, n }.threads(device, op, n)?;
    Ok(out)
}

/// Returns whether each element is not 0, as 0 or 1; a NaN is not 0.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn truth<T: Comparable>(device: &Device, x: &Buffer<T>) -> Result<Buffer<u8>> {
    let (op, n) = ("cast", x.len());
    let mut out = device.uninitialised(op, n)?;
    kernels::Truth { out: &mut out, input: x, n }.threads(device, op, n)?;
    Ok(out)
}

/// How a kernel finds the pairs of elements, and how many there are.
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
            // Rank 0 means dense to the kernel; a scalar is a view of shape [1].
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

/// Returns the strides of a view whose every element lies inside a buffer of `len`.
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

/// How to walk two operands: rank 0 if both are dense in the result's shape, else the result's
/// shape and each operand's strides, 0 along repeated dimensions.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawPair {
    n: usize,
    rank: usize,
    shape: [usize; MAX_RANK],
    stride_a: [i64; MAX_RANK],
    stride_b: [i64; MAX_RANK],
    offset_a: i64,
    offset_b: i64,
}

/// Any strided view.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawView {
    n: usize,
    rank: usize,
    shape: [usize; MAX_RANK],
    stride: [i64; MAX_RANK],
    offset: i64,
}
