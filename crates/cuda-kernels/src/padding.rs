//! Padding of up to three dimensions: constant, reflect, replicate, circular.

use crate::launch::declared::padding::RawPad;
use crate::launch::kernels::padding as kernels;
use crate::launch::{Buffer, Launch};

use crate::Variant;
use crate::device::{Device, Float, Word, expect_len, narrow, plane_threads};
use crate::error::Result;

pub use samebits_tensor_core::geometry::{PadMode, PaddedAxis, Padding};

/// Pads the input. `value` fills the outside in [`PadMode::Constant`].
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
    let p = RawPad::new(padding)?;
    let mut out = device.uninitialised(op, n)?;
    let threads = plane_threads(op, padding.planes(), padding.output_plane())?;
    kernels::Pad { out: &mut out, input: x, p, value }.threads(device, op, threads)?;
    Ok(out)
}

/// Computes the gradient of [`pad`] with respect to its input.
///
/// # Determinism
///
/// Deterministic: the outputs that copied an element are added in ascending output index from +0.
/// Atomic: they are added in the order of arrival.
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
    let mut out = device.sums_for::<T>(op, n_in, variant)?;
    let p = RawPad::new(padding)?;
    match variant {
        Variant::Deterministic => {
            let threads = plane_threads(op, padding.planes(), padding.input_plane())?;
            kernels::PadGrad { grad_in: &mut out, grad, p }.threads(device, op, threads)?;
        }
        Variant::Atomic => {
            kernels::PadGradAtomic { grad_in: &mut out, grad, p }.threads(device, op, n)?;
        }
    }
    Ok(out)
}

impl RawPad {
    fn new(padding: &Padding) -> Result<RawPad> {
        let (op, axes) = (padding.op(), padding.axes());
        Ok(RawPad {
            planes: padding.planes(),
            input: narrow(op, "input", padding.input())?,
            output: narrow(op, "output", padding.output())?,
            before: narrow(op, "padding", axes.map(|axis| axis.before))?,
            mode: padding.mode() as u32,
        })
    }
}
