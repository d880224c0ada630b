//! Padding of up to three dimensions: constant, reflect, replicate, circular.

use crate::launch::Buffer;
use bytemuck::{Pod, Zeroable};

use crate::Variant;
use crate::device::{Device, Float, Word, atomic, expect_len, narrow, of, sized};
use crate::error::Result;

pub use samebits_tensor_core::geometry::{PadMode, PaddedAxis, Padding};

const FAMILY: &str = "padding";

/// The padded input. `value` stands outside in [`PadMode::Constant`].
///
/// # Determinism
///
/// Copies bits.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length); [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for a size of 2^31 or more.
pub fn pad<T: Word>(
    device: &Device,
    x: &Buffer<T>,
    padding: &Padding,
    value: T,
) -> Result<Buffer<T>> {
    let (op, n_in, n) = (padding.op(), padding.input_len(), padding.output_len());
    expect_len(op, "the input", x, n_in)?;
    let name = sized::<T>(["pad_b8", "pad_b16", "pad_b32", "pad_b64"]);
    let mut out = device.uninitialised(op, n)?;
    device
        .kernel(op, FAMILY, name)?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .value(&RawPad::new(padding)?)
        .bits(&value)
        .threads(n, device.block())?;
    Ok(out)
}

/// The gradient of [`pad`] with respect to its input.
///
/// # Determinism
///
/// Deterministic: the outputs that copied an element are added in ascending output index from
/// +0. Atomic: in the order of arrival.
///
/// # Errors
///
/// As [`pad`].
pub fn pad_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    padding: &Padding,
    variant: Variant,
) -> Result<Buffer<T>> {
    let (op, n_in, n) = (padding.op(), padding.input_len(), padding.output_len());
    expect_len(op, "the gradient", grad, n)?;
    let mut out = device.zeros_for::<T>(op, n_in)?;
    let (name, threads) = match variant {
        Variant::Deterministic => (of::<T>(["pad_grad_f32", "pad_grad_f64"]), n_in),
        Variant::Atomic => (atomic::<T>(op, "pad_grad_f32_atomic")?, n),
    };
    device
        .kernel(op, FAMILY, name)?
        .on(device.stream())
        .write(&mut out)
        .read(grad)
        .value(&RawPad::new(padding)?)
        .threads(threads, device.block())?;
    Ok(out)
}

/// `SbPad` of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct RawPad {
    planes: u64,
    input: [u32; 3],
    output: [u32; 3],
    before: [i32; 3],
    mode: u32,
}

impl RawPad {
    fn new(padding: &Padding) -> Result<RawPad> {
        let (op, axes) = (padding.op(), padding.axes());
        Ok(RawPad {
            planes: padding.planes() as u64,
            input: narrow(op, "input", padding.input())?,
            output: narrow(op, "output", padding.output())?,
            before: narrow(op, "padding", axes.map(|axis| axis.before))?,
            mode: padding.mode() as u32,
        })
    }
}
