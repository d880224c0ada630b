//! Resizing by interpolation: nearest, linear and cubic, in one to three dimensions.
//!
//! # Determinism
//!
//! The position of a tap is computed in f64, on the host; its weight is rounded to the element
//! type. Taps beyond the border move to the border, and taps on the same input become one tap with
//! the sum of their weights. An output starts from +0 and adds its taps in ascending input index,
//! each by one `fma(input, weight, sum)`. A gradient element adds the outputs that have a tap on it
//! in ascending output index, each by one `fma(gradient, weight, sum)`. The weight in several
//! dimensions is `(w_d · w_h) · w_w`, each product rounded.

use crate::launch::declared::interpolate::RawTaps;
use crate::launch::kernels::interpolate as kernels;
use crate::launch::{Buffer, Launch};
use samebits_numerics::memory::{self, OutOfMemory};
use samebits_tensor_core::geometry::Taps;

use crate::Variant;
use crate::device::{Device, Float, expect_len, narrow, plane_threads, product};
use crate::error::{CudaError, Result};

pub use samebits_tensor_core::geometry::{InterpolateMode, Resize, ResizedAxis};

/// Resizes `x`.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for a size of 2^31 or more.
pub fn interpolate<T: Float>(device: &Device, x: &Buffer<T>, resize: &Resize) -> Result<Buffer<T>> {
    expect_len(resize.op(), "the input", x, resize.input_len())?;
    let sizes = [resize.input(), resize.output()];
    let table = Table::new(device, resize, sizes, ResizedAxis::taps)?;
    table.sum(device, x, resize, resize.output_plane())
}

/// Computes the gradient of [`interpolate`].
///
/// # Errors
///
/// As [`interpolate`].
pub fn interpolate_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    resize: &Resize,
    variant: Variant,
) -> Result<Buffer<T>> {
    let (op, n) = (resize.op(), resize.output_len());
    expect_len(op, "the gradient", grad, n)?;
    let [input, output] = [resize.input(), resize.output()];
    if variant == Variant::Deterministic {
        let reversed = |axis: &ResizedAxis| axis.taps()?.reversed(axis.input);
        let table = Table::new(device, resize, [output, input], reversed)?;
        return table.sum(device, grad, resize, resize.input_plane());
    }
    let table = Table::<T>::new(device, resize, [input, output], ResizedAxis::taps)?;
    let mut out = device.zeros_for::<T>(op, resize.input_len())?;
    kernels::TapScatterAtomic {
        grad_in: &mut out,
        grad,
        starts: &table.starts,
        places: &table.places,
        weights: &table.weights,
        p: table.raw,
    }
    .threads(device, op, n)?;
    Ok(out)
}

/// The taps of three dimensions, on the device.
struct Table<T> {
    starts: Buffer<u32>,
    places: Buffer<u32>,
    weights: Buffer<T>,
    raw: RawTaps,
}

impl<T: Float> Table<T> {
    fn new(
        device: &Device,
        resize: &Resize,
        [from, to]: [[usize; 3]; 2],
        taps: impl Fn(&ResizedAxis) -> Result<Taps, OutOfMemory>,
    ) -> Result<Table<T>> {
        let op = resize.op();
        let mut raw = RawTaps {
            planes: resize.planes(),
            from: narrow(op, "sizes", from)?,
            to: narrow(op, "sizes", to)?,
            base: [0; 3],
            pad: 0,
        };
        let mut lists = || {
            let [depth, height, width] = resize.axes();
            let dims = [taps(depth)?, taps(height)?, taps(width)?];
            let count = |of: fn(&Taps) -> usize| dims.iter().map(of).sum::<usize>();
            let taps = count(|taps| taps.places().len());
            let mut starts = memory::with_capacity::<usize>(count(|taps| taps.starts().len()))?;
            let (mut places, mut weights) =
                (memory::with_capacity(taps)?, memory::with_capacity(taps)?);
            for (base, taps) in raw.base.iter_mut().zip(&dims) {
                *base = starts.len() as u32;
                starts.extend(taps.starts().iter().map(|start| places.len() + start));
                // A place is below a size, which was narrowed above.
                places.extend(taps.places().iter().map(|&place| place as u32));
                weights.extend(taps.weights().iter().map(|&weight| T::from_f64(weight)));
            }
            Ok((starts, places, weights))
        };
        let (starts, places, weights) = lists().map_err(|OutOfMemory { bytes }| {
            CudaError::invalid(op, format!("the host has no memory left for {bytes} bytes of taps"))
        })?;
        let [_, _] = narrow::<_, u32, 2>(op, "numbers of taps", [starts.len(), places.len()])?;
        let starts: Vec<u32> = starts.into_iter().map(|start| start as u32).collect();
        Ok(Table {
            starts: device.upload(&starts)?,
            places: device.upload(&places)?,
            weights: device.upload(&weights)?,
            raw,
        })
    }

    /// Computes the sums over the taps of all elements; each plane has `plane` of them.
    fn sum(
        &self,
        device: &Device,
        x: &Buffer<T>,
        resize: &Resize,
        plane: usize,
    ) -> Result<Buffer<T>> {
        let (op, planes) = (resize.op(), resize.planes());
        let mut out = device.uninitialised(op, product(op, &[planes, plane])?)?;
        kernels::TapSum {
            to: &mut out,
            from: x,
            starts: &self.starts,
            places: &self.places,
            weights: &self.weights,
            p: self.raw,
        }
        .threads(device, op, plane_threads(op, planes, plane)?)?;
        Ok(out)
    }
}
