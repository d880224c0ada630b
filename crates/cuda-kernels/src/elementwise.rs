//! Each element on its own: functions of one and two elements, comparisons, selection, copies
//! of strided views, casts.
//!
//! # Determinism
//!
//! Portable: every element is the same sequence of correctly rounded operations, whichever
//! thread computes it. NaN results are canonical.

use crate::launch::Buffer;
use bytemuck::{Pod, Zeroable};
use samebits_tensor_core::{bf16, f16};

use crate::device::{Device, Float, Word, expect_len, product, sized};
use crate::error::{CudaError, Result};

const FAMILY: &str = "elementwise";
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
    /// Whether there is a kernel for f64.
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
    /// `a` where `b > 0`, else +0.
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
    let op = "unary";
    let names = match kind {
        Unary::Neg => ["neg_f32", "neg_f64"],
        Unary::Abs => ["abs_f32", "abs_f64"],
        Unary::Sqrt => ["sqrt_f32", "sqrt_f64"],
        Unary::Relu => ["relu_f32", "relu_f64"],
        Unary::Reciprocal => ["reciprocal_f32", "reciprocal_f64"],
        Unary::Square => ["square_f32", "square_f64"],
        Unary::Exp => ["exp_f32", "exp_f64"],
        Unary::Exp2 => ["exp2_f32", "exp2_f64"],
        Unary::Expm1 => ["expm1_f32", "expm1_f64"],
        Unary::Log => ["log_f32", "log_f64"],
        Unary::Log2 => ["log2_f32", "log2_f64"],
        Unary::Log10 => ["log10_f32", "log10_f64"],
        Unary::Log1p => ["log1p_f32", "log1p_f64"],
        Unary::Rsqrt => ["rsqrt_f32", "rsqrt_f64"],
        Unary::Sin => ["sin_f32", "sin_f64"],
        Unary::Cos => ["cos_f32", "cos_f64"],
        Unary::Erf => ["erf_f32", "erf_f64"],
        Unary::Erfc => ["erfc_f32", ""],
        Unary::Tanh => ["tanh_f32", "tanh_f64"],
        Unary::Sigmoid => ["sigmoid_f32", "sigmoid_f64"],
        Unary::Sinpi => ["sinpi_f32", "sinpi_f64"],
        Unary::Cospi => ["cospi_f32", "cospi_f64"],
    };
    let name = names[T::WIDE as usize];
    if name.is_empty() {
        return Err(CudaError::invalid(op, format!("{kind:?} has no f64 kernel; use f32")));
    }
    map(device, op, name, x)
}

/// `x · scale + shift` for each element, two roundings.
///
/// # Errors
///
/// [`CudaError::Driver`], as every function here.
pub fn affine<T: Float>(device: &Device, x: &Buffer<T>, scale: T, shift: T) -> Result<Buffer<T>> {
    let op = "affine";
    let mut out = device.uninitialised(op, x.len())?;
    device
        .kernel(op, FAMILY, ["affine_f32", "affine_f64"][T::WIDE as usize])?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .value(&(x.len() as u64))
        .value(&scale)
        .value(&shift)
        .threads(x.len(), device.block())?;
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
    let names = match kind {
        Binary::Add => ["add_f32", "add_f64"],
        Binary::Sub => ["sub_f32", "sub_f64"],
        Binary::Mul => ["mul_f32", "mul_f64"],
        Binary::Div => ["div_f32", "div_f64"],
        Binary::Maximum => ["maximum_f32", "maximum_f64"],
        Binary::Minimum => ["minimum_f32", "minimum_f64"],
        Binary::Pow => ["pow_f32", "pow_f64"],
        Binary::ReluGrad => ["relu_grad_f32", "relu_grad_f64"],
        Binary::TanhGrad => ["tanh_grad_f32", "tanh_grad_f64"],
        Binary::SigmoidGrad => ["sigmoid_grad_f32", "sigmoid_grad_f64"],
    };
    pairs(device, "binary", names[T::WIDE as usize], a, b, pairing)
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
    let names = match kind {
        Compare::Eq => ["eq_f32", "eq_f64", "eq_i64", "eq_b8"],
        Compare::Ne => ["ne_f32", "ne_f64", "ne_i64", "ne_b8"],
        Compare::Lt => ["lt_f32", "lt_f64", "lt_i64", "lt_b8"],
        Compare::Le => ["le_f32", "le_f64", "le_i64", "le_b8"],
        Compare::Gt => ["gt_f32", "gt_f64", "gt_i64", "gt_b8"],
        Compare::Ge => ["ge_f32", "ge_f64", "ge_i64", "ge_b8"],
    };
    pairs(device, "compare", names[T::PLACE], a, b, pairing)
}

/// A type that [`compare`] and [`cast`] take.
pub trait Comparable: Word {
    /// Which kernel.
    #[doc(hidden)]
    const PLACE: usize;
}
impl Comparable for f32 {
    const PLACE: usize = 0;
}
impl Comparable for f64 {
    const PLACE: usize = 1;
}
impl Comparable for i64 {
    const PLACE: usize = 2;
}
impl Comparable for u8 {
    const PLACE: usize = 3;
}

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
    device
        .kernel(op, FAMILY, sized::<T>(["select_b8", "select_b16", "select_b32", "select_b64"]))?
        .on(device.stream())
        .write(&mut out)
        .read(condition)
        .read(a)
        .read(b)
        .value(&(n as u64))
        .threads(n, device.block())?;
    Ok(out)
}

/// The elements of a view, dense and in order.
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
    raw.n = n as u64;
    raw.rank = shape.len() as u64;
    raw.shape = dims(op, shape)?;
    raw.stride = checked_strides(op, "the view", shape, view, x.len())?;
    raw.offset = view.offset as i64;
    let mut out = device.uninitialised(op, n)?;
    device
        .kernel(op, FAMILY, sized::<T>(["copy_b8", "copy_b16", "copy_b32", "copy_b64"]))?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .value(&raw)
        .threads(n, device.block())?;
    Ok(out)
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
        device
            .kernel(op, FAMILY, sized::<T>(["join_b8", "join_b16", "join_b32", "join_b64"]))?
            .on(device.stream())
            .write(&mut out)
            .read(input)
            .value(&(n as u64))
            .value(&(width as u64))
            .value(&(row as u64))
            .value(&(first as u64))
            .threads(n, device.block())?;
        first += width;
    }
    Ok(out)
}

/// A buffer of `n` times the same value.
///
/// # Errors
///
/// [`CudaError::OutOfMemory`].
pub fn fill<T: Word>(device: &Device, n: usize, value: T) -> Result<Buffer<T>> {
    let op = "fill";
    let mut out = device.uninitialised::<T>(op, n)?;
    let bytes = bytemuck::bytes_of(&value);
    if let Ok(word) = <[u8; 2]>::try_from(bytes) {
        device
            .kernel(op, FAMILY, "fill_b16")?
            .on(device.stream())
            .write(&mut out)
            .value(&(n as u64))
            .value(&u16::from_ne_bytes(word))
            .threads(n, device.block())?;
    } else if let Ok(word) = <[u8; 4]>::try_from(bytes) {
        device
            .kernel(op, FAMILY, "fill_b32")?
            .on(device.stream())
            .write(&mut out)
            .value(&(n as u64))
            .value(&u32::from_ne_bytes(word))
            .threads(n, device.block())?;
    } else if let Ok(word) = <[u8; 8]>::try_from(bytes) {
        device
            .kernel(op, FAMILY, "fill_b64")?
            .on(device.stream())
            .write(&mut out)
            .value(&(n as u64))
            .value(&u64::from_ne_bytes(word))
            .threads(n, device.block())?;
    } else {
        out.set(op, bytes[0])?;
    }
    Ok(out)
}

/// The same values as another type: rounded to nearest even from f64 to f32, truncated towards
/// zero and saturated from floats to integers, NaN to 0; the low bits from i64 to u8.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn cast<T: Comparable, R: Comparable>(device: &Device, x: &Buffer<T>) -> Result<Buffer<R>> {
    const NAMES: [[&str; 4]; 4] = [
        ["keep_b32", "cast_f32_f64", "cast_f32_i64", "cast_f32_b8"],
        ["cast_f64_f32", "keep_b64", "cast_f64_i64", "cast_f64_b8"],
        ["cast_i64_f32", "cast_i64_f64", "keep_b64", "cast_i64_b8"],
        ["cast_b8_f32", "cast_b8_f64", "cast_b8_i64", "keep_b8"],
    ];
    map(device, "cast", NAMES[T::PLACE][R::PLACE], x)
}

/// A type that is moved and cast, but has no other kernels: those of a wider type do its work.
pub trait Narrow: Word {
    /// A type that holds every value.
    type Wide: Comparable;
    /// The kernel of [`widen`].
    #[doc(hidden)]
    const WIDEN: &'static str;
    /// The kernels of [`narrow`] from f64 and from i64.
    #[doc(hidden)]
    const NARROW: [&'static str; 2];
}
impl Narrow for i32 {
    type Wide = i64;
    const WIDEN: &'static str = "cast_i32_i64";
    const NARROW: [&'static str; 2] = ["cast_f64_i32", "cast_i64_b32"];
}
impl Narrow for u32 {
    type Wide = i64;
    const WIDEN: &'static str = "cast_u32_i64";
    const NARROW: [&'static str; 2] = ["cast_f64_u32", "cast_i64_b32"];
}
impl Narrow for f16 {
    type Wide = f32;
    const WIDEN: &'static str = "cast_f16_f32";
    const NARROW: [&'static str; 2] = ["cast_f64_f16", "cast_i64_f16"];
}
impl Narrow for bf16 {
    type Wide = f32;
    const WIDEN: &'static str = "cast_bf16_f32";
    const NARROW: [&'static str; 2] = ["cast_f64_bf16", "cast_i64_bf16"];
}

/// A type that [`narrow`] takes, as it holds every value of all but the other.
pub trait Widest: Word {
    /// Which kernel.
    #[doc(hidden)]
    const PLACE: usize;
}
impl Widest for f64 {
    const PLACE: usize = 0;
}
impl Widest for i64 {
    const PLACE: usize = 1;
}

/// The same values as a wider type, exactly.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn widen<T: Narrow>(device: &Device, x: &Buffer<T>) -> Result<Buffer<T::Wide>> {
    map(device, "cast", T::WIDEN, x)
}

/// The same values as a narrower type: floats as [`cast`] does, integers to halves rounded to nearest
/// even, to integers by their low bits.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn narrow<T: Widest, R: Narrow>(device: &Device, x: &Buffer<T>) -> Result<Buffer<R>> {
    map(device, "cast", R::NARROW[T::PLACE], x)
}

/// Whether each element is not 0, as 0 or 1; a NaN is not 0.
///
/// # Errors
///
/// [`CudaError::Driver`].
pub fn truth<T: Comparable>(device: &Device, x: &Buffer<T>) -> Result<Buffer<u8>> {
    let names = ["truth_f32", "truth_f64", "truth_i64", "truth_b8"];
    map(device, "cast", names[T::PLACE], x)
}

fn map<T: Word, R: Word>(
    device: &Device,
    op: &'static str,
    name: &'static str,
    x: &Buffer<T>,
) -> Result<Buffer<R>> {
    let mut out = device.uninitialised(op, x.len())?;
    device
        .kernel(op, FAMILY, name)?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .value(&(x.len() as u64))
        .threads(x.len(), device.block())?;
    Ok(out)
}

fn pairs<T: Word, R: Word>(
    device: &Device,
    op: &'static str,
    name: &'static str,
    a: &Buffer<T>,
    b: &Buffer<T>,
    pairing: Pairing<'_>,
) -> Result<Buffer<R>> {
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
            raw.rank = shape.len() as u64;
            raw.shape = dims(op, shape)?;
            raw.stride_a = checked_strides(op, "the first operand", shape, left, a.len())?;
            raw.stride_b = checked_strides(op, "the second operand", shape, right, b.len())?;
            raw.offset_a = left.offset as i64;
            raw.offset_b = right.offset as i64;
            product(op, shape)?
        }
    };
    raw.n = n as u64;
    let mut out = device.uninitialised(op, n)?;
    device
        .kernel(op, FAMILY, name)?
        .on(device.stream())
        .write(&mut out)
        .read(a)
        .read(b)
        .value(&raw)
        .threads(n, device.block())?;
    Ok(out)
}

fn dims(op: &'static str, shape: &[usize]) -> Result<[u64; MAX_RANK]> {
    let mut found = [0; MAX_RANK];
    if shape.len() > MAX_RANK {
        return Err(CudaError::invalid(
            op,
            format!("{} dimensions; at most {MAX_RANK} are possible", shape.len()),
        ));
    }
    for (to, &from) in found.iter_mut().zip(shape) {
        *to = from as u64;
    }
    Ok(found)
}

/// The strides of a view whose every element lies inside a buffer of `len`.
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

/// `SbPair` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawPair {
    n: u64,
    rank: u64,
    shape: [u64; MAX_RANK],
    stride_a: [i64; MAX_RANK],
    stride_b: [i64; MAX_RANK],
    offset_a: i64,
    offset_b: i64,
}

/// `SbView` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawView {
    n: u64,
    rank: u64,
    shape: [u64; MAX_RANK],
    stride: [i64; MAX_RANK],
    offset: i64,
}
