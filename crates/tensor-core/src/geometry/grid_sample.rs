//! Sampling at given points.

use super::spatial;
use crate::layout::numel;
use crate::{Error, Result};

/// The interpolation between elements of the input. The discriminants are those of the CUDA
/// kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum GridMode {
    /// The nearest element; halfway between two, the one with the even coordinate.
    Nearest = 0,
    /// Linear interpolation between the two neighbours in each dimension.
    Linear = 1,
    /// Cubic convolution of the four neighbours in each dimension, with a = -0.75; for images.
    Cubic = 2,
}

/// The values outside the input. The discriminants are those of the CUDA kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum GridPadding {
    /// Zeros.
    Zeros = 0,
    /// The nearest element of the border.
    Border = 1,
    /// The input, mirrored at its border.
    Reflection = 2,
}

/// The options of grid sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GridParams {
    /// The interpolation between elements of the input.
    pub mode: GridMode,
    /// The values outside the input.
    pub padding: GridPadding,
    /// If true, the coordinates -1 and 1 are the centres of the corner elements, not their outer
    /// corners.
    pub align_corners: bool,
}

/// The checked geometry of sampling images or volumes at given points.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::{GridMode, GridPadding, GridParams, Sampling};
///
/// let params =
///     GridParams { mode: GridMode::Linear, padding: GridPadding::Zeros, align_corners: true };
/// let sampling = Sampling::new("grid_sample", &[4, 3, 5, 7], &[4, 2, 9, 2], params)?;
/// assert_eq!(sampling.output_shape(), [4, 3, 2, 9]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.grid_sample`; `GridSampler.h` in ATen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampling {
    op: &'static str,
    batch: usize,
    channels: usize,
    dims: usize,
    input: [usize; 3],
    points: usize,
    params: GridParams,
    output_shape: Vec<usize>,
}

impl Sampling {
    /// Checks and returns the sampling of an input `[n, channels, height, width]` or `[n, channels,
    /// depth, height, width]` at the points of a grid `[n, .., 2]` or `[n, .., 3]`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the shapes do not fit together, a spatial dimension is empty,
    /// the mode is [`GridMode::Cubic`] in three dimensions, or there are too many elements.
    pub fn new(
        op: &'static str,
        input: &[usize],
        grid: &[usize],
        params: GridParams,
    ) -> Result<Sampling> {
        let (planes, size) = spatial(op, input, 2..=3)?;
        let dims = size.len();
        if grid.len() != dims + 2 || grid[0] != planes[0] || grid[dims + 1] != dims {
            return Err(Error::invalid(
                op,
                format!(
                    "an input of shape {input:?} needs a grid with {} dimensions, the first of \
                     size {} and the last of size {dims}, got {grid:?}",
                    dims + 2,
                    planes[0]
                ),
            ));
        }
        if size.contains(&0) {
            return Err(Error::invalid(
                op,
                format!("the spatial dimensions of the input must not be empty, got {input:?}"),
            ));
        }
        if dims == 3 && params.mode == GridMode::Cubic {
            return Err(Error::invalid(op, "cubic sampling is for two spatial dimensions, got 3"));
        }
        let output_shape = [planes, &grid[1..=dims]].concat();
        for shape in [input, grid, &output_shape] {
            numel(op, shape)?;
        }
        let mut sizes = [1; 3];
        sizes[3 - dims..].copy_from_slice(size);
        Ok(Sampling {
            op,
            batch: planes[0],
            channels: planes[1],
            dims,
            input: sizes,
            points: grid[1..=dims].iter().product(),
            params,
            output_shape,
        })
    }

    /// Returns the operation's name.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// Returns the number of images or volumes.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Returns the number of channels.
    #[inline(always)]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Returns the number of coordinates of a point: 2 or 3.
    #[inline(always)]
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Returns the depth, height and width of the input; the depth of an image is 1.
    #[inline(always)]
    pub fn input(&self) -> [usize; 3] {
        self.input
    }

    /// Returns the number of points of each image or volume.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Returns the options.
    #[inline(always)]
    pub fn params(&self) -> GridParams {
        self.params
    }

    /// Returns the shape of the result.
    pub fn output_shape(&self) -> &[usize] {
        &self.output_shape
    }

    /// Returns the largest number of taps of a point.
    pub fn most_taps(&self) -> usize {
        let each: usize = match self.params.mode {
            GridMode::Nearest => 1,
            GridMode::Linear => 2,
            GridMode::Cubic => 4,
        };
        each.pow(self.dims as u32)
    }

    /// Returns the number of elements in one channel of an input.
    pub fn plane(&self) -> usize {
        self.input.iter().product()
    }

    /// Returns the number of elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.channels * self.plane()
    }

    /// Returns the number of elements of the grid.
    pub fn grid_len(&self) -> usize {
        self.batch * self.points * self.dims
    }

    /// Returns the number of elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.channels * self.points
    }
}
