//! Pooling to an output of a given size.

use bytemuck::{Pod, Zeroable};
use cudarc::driver::CudaSlice;

use super::{FAMILY, sizes, volume};
use crate::Variant;
use crate::device::{Device, Float, atomic, expect_len, of, product};
use crate::error::{CudaError, Result};

/// The sizes of a pooling to a given output size. Output `o` of a dimension covers the inputs
/// from `floor(o · input / output)` to `ceil((o + 1) · input / output)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptive {
    raw: RawAdaptive,
}

impl Adaptive {
    /// `planes` planes of size `input` to size `output`.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] if the sizes are not 1 to 3 numbers each, as many, above 0
    /// for the input and below 2^31.
    pub fn new(planes: usize, input: &[usize], output: &[usize]) -> Result<Adaptive> {
        let op = "adaptive_pool";
        Ok(Adaptive {
            raw: RawAdaptive {
                planes: planes as u64,
                input: sizes(op, "input", input, input.len(), 1)?,
                output: sizes(op, "output", output, input.len(), 0)?,
            },
        })
    }

    fn lengths(&self, op: &'static str) -> Result<(usize, usize)> {
        Ok((
            volume(op, self.raw.planes, self.raw.input)?,
            volume(op, self.raw.planes, self.raw.output)?,
        ))
    }
}

/// The average of each window.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn adaptive_avg_pool<T: Float>(
    device: &Device,
    x: &CudaSlice<T>,
    sizes: Adaptive,
) -> Result<CudaSlice<T>> {
    let op = "adaptive_avg_pool";
    let (n_in, n) = sizes.lengths(op)?;
    expect_len(op, "the input", x, n_in)?;
    let mut out = device.uninitialised(op, n)?;
    device
        .kernel(op, FAMILY, of::<T>(["adaptive_avg_pool_f32", "adaptive_avg_pool_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .value(&sizes.raw)
        .threads(n, device.block())?;
    Ok(out)
}

/// The gradient of [`adaptive_avg_pool`].
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn adaptive_avg_pool_grad<T: Float>(
    device: &Device,
    grad: &CudaSlice<T>,
    sizes: Adaptive,
    variant: Variant,
) -> Result<CudaSlice<T>> {
    let op = "adaptive_avg_pool";
    let (n_in, n) = sizes.lengths(op)?;
    expect_len(op, "the gradient", grad, n)?;
    let mut out = device.zeros_for::<T>(op, n_in)?;
    let (name, threads) = match variant {
        Variant::Deterministic => {
            (of::<T>(["adaptive_avg_pool_grad_f32", "adaptive_avg_pool_grad_f64"]), n_in)
        }
        Variant::Atomic => (atomic::<T>(op, "adaptive_avg_pool_grad_f32_atomic")?, n),
    };
    device
        .kernel(op, FAMILY, name)?
        .on(device.stream())
        .write(&mut out)
        .read(grad)
        .value(&sizes.raw)
        .threads(threads, device.block())?;
    Ok(out)
}

/// The largest element of each window, and its position in its plane. Its gradient is
/// [`pool_indices_grad`](super::pool_indices_grad).
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn adaptive_max_pool<T: Float>(
    device: &Device,
    x: &CudaSlice<T>,
    sizes: Adaptive,
) -> Result<(CudaSlice<T>, CudaSlice<i64>)> {
    let op = "adaptive_max_pool";
    let (n_in, n) = sizes.lengths(op)?;
    expect_len(op, "the input", x, n_in)?;
    let mut out = device.uninitialised(op, n)?;
    let mut indices = device.uninitialised(op, n)?;
    device
        .kernel(op, FAMILY, of::<T>(["adaptive_max_pool_f32", "adaptive_max_pool_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .write(&mut indices)
        .read(x)
        .value(&sizes.raw)
        .threads(n, device.block())?;
    Ok((out, indices))
}

/// The largest element of each of `output` windows of size `kernel` whose places depend on one
/// sample in `[0, 1)` per plane and dimension. Its gradient is
/// [`pool_indices_grad`](super::pool_indices_grad).
///
/// # Shapes
///
/// `samples: [planes, dimensions]`, in PyTorch's order: (W, H) or (D, H, W).
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] if the sizes do not go together.
///
/// # References
///
/// B. Graham, *Fractional Max-Pooling*, 2014.
pub fn fractional_max_pool<T: Float>(
    device: &Device,
    x: &CudaSlice<T>,
    samples: &CudaSlice<T>,
    planes: usize,
    [input, output, kernel]: [&[usize]; 3],
) -> Result<(CudaSlice<T>, CudaSlice<i64>)> {
    let op = "fractional_max_pool";
    let dims = input.len();
    if !(2..=3).contains(&dims) {
        return Err(CudaError::invalid(op, format!("input {input:?} must have 2 or 3 sizes")));
    }
    let raw = RawFractional {
        planes: planes as u64,
        input: sizes(op, "input", input, dims, 1)?,
        output: sizes(op, "output", output, dims, 1)?,
        kernel: sizes(op, "kernel", kernel, dims, 1)?,
        dims: dims as u32,
    };
    if (0..dims).any(|d| output[d] + kernel[d] - 1 > input[d]) {
        return Err(CudaError::invalid(
            op,
            format!("{output:?} windows of {kernel:?} do not fit an input of {input:?}"),
        ));
    }
    expect_len(op, "the input", x, volume(op, raw.planes, raw.input)?)?;
    expect_len(op, "the samples", samples, product(op, &[planes, dims])?)?;
    let n = volume(op, raw.planes, raw.output)?;
    let mut out = device.uninitialised(op, n)?;
    let mut indices = device.uninitialised(op, n)?;
    device
        .kernel(op, FAMILY, of::<T>(["fractional_max_pool_f32", "fractional_max_pool_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .write(&mut indices)
        .read(x)
        .read(samples)
        .value(&raw)
        .threads(n, device.block())?;
    Ok((out, indices))
}

/// `SbAdaptive` of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct RawAdaptive {
    planes: u64,
    input: [u32; 3],
    output: [u32; 3],
}

/// `SbFractional` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawFractional {
    planes: u64,
    input: [u32; 3],
    output: [u32; 3],
    kernel: [u32; 3],
    dims: u32,
}
