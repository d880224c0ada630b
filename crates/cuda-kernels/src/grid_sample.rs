//! Sampling of an image or a volume at given points.
//!
//! # Shapes
//!
//! Input `[batch, channels, height, width]`, or with a depth before the height; grid
//! `[batch, points, 2 or 3]` with the coordinates x, y and perhaps z of each point; output
//! `[batch, channels, points]`.
//!
//! # Determinism
//!
//! Where the taps of a point lie and what they weigh is computed in f64; a weight is then rounded
//! to the element type. Taps outside the input are skipped. An output starts from +0 and takes its taps in
//! row-major order, each by one `fma(input, weight, sum)`. The gradient of the input is a sum
//! of `gradient · weight`, rounded: exact in f32, in ascending order of the taps in f64. The gradient of a coordinate is computed in f64, channels
//! ascending and taps in row-major order, and rounded once.

use bytemuck::{Pod, Zeroable};
use cudarc::driver::CudaSlice;

use crate::Variant;
use crate::device::{Device, Float, atomic, expect_len, of, product};
use crate::error::{CudaError, Result};
use crate::pooling::sizes;
use crate::segments::Segments;

const FAMILY: &str = "grid_sample";

/// How values between the input's elements are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridMode {
    /// The nearest element; halfway, the one with the even coordinate.
    Nearest,
    /// The two neighbours in each dimension.
    Linear,
    /// The four neighbours in each dimension, by cubic convolution with a = −0.75; for images.
    Cubic,
}

/// What lies outside the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridPadding {
    /// Zeros.
    Zeros,
    /// The nearest element of the border.
    Border,
    /// The input mirrored at its border.
    Reflection,
}

/// The sizes and the options of one sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridSample {
    raw: RawGrid,
}

/// Where the taps of all points are and what they weigh.
#[derive(Debug)]
struct Taps<T> {
    places: CudaSlice<i64>,
    weights: CudaSlice<T>,
}

impl GridSample {
    /// The sampling of `points` points in each of `batch` inputs of `channels` channels of size
    /// `input`. With `align_corners` the coordinates −1 and 1 are the centres of the corner
    /// elements, otherwise their outer corners.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] if the input has not two or three nonzero sizes, or for
    /// [`GridMode::Cubic`] in three dimensions.
    pub fn new(
        batch: usize,
        channels: usize,
        input: &[usize],
        points: usize,
        mode: GridMode,
        padding: GridPadding,
        align_corners: bool,
    ) -> Result<GridSample> {
        let op = "grid_sample";
        let dims = input.len();
        if !(2..=3).contains(&dims) || (dims == 3 && mode == GridMode::Cubic) {
            return Err(CudaError::invalid(
                op,
                format!("input {input:?}: 2 or 3 sizes, and 2 for cubic sampling"),
            ));
        }
        let per_axis: u32 = match mode {
            GridMode::Nearest => 1,
            GridMode::Linear => 2,
            GridMode::Cubic => 4,
        };
        Ok(GridSample {
            raw: RawGrid {
                batch: batch as u64,
                channels: channels as u64,
                points: points as u64,
                input: sizes(op, "input", input, dims, 1)?,
                dims: dims as u32,
                mode: mode as u32,
                padding: padding as u32,
                align_corners: u32::from(align_corners),
                taps: per_axis.pow(dims as u32),
            },
        })
    }

    /// Samples `input` at the points of `grid`.
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`].
    pub fn forward<T: Float>(
        &self,
        device: &Device,
        input: &CudaSlice<T>,
        grid: &CudaSlice<T>,
    ) -> Result<CudaSlice<T>> {
        let op = "grid_sample";
        let [n_in, n_grid, n] = self.lengths(op)?;
        expect_len(op, "the input", input, n_in)?;
        expect_len(op, "the grid", grid, n_grid)?;
        let taps = self.taps(device, grid)?;
        let mut out = device.uninitialised(op, n)?;
        device
            .kernel(op, FAMILY, of::<T>(["grid_sample_f32", "grid_sample_f64"]))?
            .on(device.stream())
            .write(&mut out)
            .read(input)
            .read(&taps.places)
            .read(&taps.weights)
            .value(&self.raw)
            .threads(n, device.block())?;
        Ok(out)
    }

    /// The gradient of [`forward`](GridSample::forward) for the input.
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`].
    pub fn input_grad<T: Float>(
        &self,
        device: &Device,
        grad: &CudaSlice<T>,
        grid: &CudaSlice<T>,
        variant: Variant,
    ) -> Result<CudaSlice<T>> {
        let op = "grid_sample";
        let [n_in, n_grid, n] = self.lengths(op)?;
        expect_len(op, "the gradient", grad, n)?;
        expect_len(op, "the grid", grid, n_grid)?;
        let taps = self.taps(device, grid)?;
        let mut out = device.zeros_for::<T>(op, n_in)?;
        if variant == Variant::Atomic {
            device
                .kernel(op, FAMILY, atomic::<T>(op, "grid_input_grad_f32_atomic")?)?
                .on(device.stream())
                .write(&mut out)
                .read(grad)
                .read(&taps.places)
                .read(&taps.weights)
                .value(&self.raw)
                .threads(n, device.block())?;
            return Ok(out);
        }
        let [d, h, w] = self.raw.input.map(|x| x as usize);
        let rows = product(op, &[self.raw.batch as usize, d, h, w])?;
        let mut reports = device.reports();
        let count = self.tap_count(op)?;
        let mut segments = Segments::new(device, op, &taps.places, count, rows, reports.ignored())?;
        if T::WIDE {
            segments.sort(device, op)?;
        }
        let names = ["grid_input_grad_f32_rows", "grid_input_grad_f64_rows"];
        device
            .kernel(op, FAMILY, of::<T>(names))?
            .on(device.stream())
            .write(&mut out)
            .read(grad)
            .read(&taps.weights)
            .segments(&segments)
            .value(&self.raw)
            .threads(n_in, device.block())?;
        Ok(out)
    }

    /// The gradient of [`forward`](GridSample::forward) for the grid.
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`].
    pub fn grid_grad<T: Float>(
        &self,
        device: &Device,
        grad: &CudaSlice<T>,
        input: &CudaSlice<T>,
        grid: &CudaSlice<T>,
    ) -> Result<CudaSlice<T>> {
        let op = "grid_sample";
        let [n_in, n_grid, n] = self.lengths(op)?;
        expect_len(op, "the gradient", grad, n)?;
        expect_len(op, "the input", input, n_in)?;
        expect_len(op, "the grid", grid, n_grid)?;
        let mut out = device.uninitialised(op, n_grid)?;
        let points = (self.raw.batch * self.raw.points) as usize;
        device
            .kernel(op, FAMILY, of::<T>(["grid_grad_f32", "grid_grad_f64"]))?
            .on(device.stream())
            .write(&mut out)
            .read(grad)
            .read(input)
            .read(grid)
            .value(&self.raw)
            .threads(points, device.block())?;
        Ok(out)
    }

    fn taps<T: Float>(&self, device: &Device, grid: &CudaSlice<T>) -> Result<Taps<T>> {
        let op = "grid_sample";
        let count = self.tap_count(op)?;
        let mut places = device.uninitialised(op, count)?;
        let mut weights = device.uninitialised(op, count)?;
        device
            .kernel(op, FAMILY, of::<T>(["grid_taps_f32", "grid_taps_f64"]))?
            .on(device.stream())
            .write(&mut places)
            .write(&mut weights)
            .read(grid)
            .value(&self.raw)
            .threads((self.raw.batch * self.raw.points) as usize, device.block())?;
        Ok(Taps { places, weights })
    }

    fn tap_count(&self, op: &'static str) -> Result<usize> {
        let RawGrid { batch, points, taps, .. } = self.raw;
        product(op, &[batch as usize, points as usize, taps as usize])
    }

    /// Lengths of input, grid and output.
    fn lengths(&self, op: &'static str) -> Result<[usize; 3]> {
        let RawGrid { batch, channels, points, input, dims, .. } = self.raw;
        let [batch, channels, points] = [batch, channels, points].map(|x| x as usize);
        let [d, h, w] = input.map(|x| x as usize);
        Ok([
            product(op, &[batch, channels, d, h, w])?,
            product(op, &[batch, points, dims as usize])?,
            product(op, &[batch, channels, points])?,
        ])
    }
}

/// `SbGrid` of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct RawGrid {
    batch: u64,
    channels: u64,
    points: u64,
    input: [u32; 3],
    dims: u32,
    mode: u32,
    padding: u32,
    align_corners: u32,
    taps: u32,
}
