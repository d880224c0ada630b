//! Sliding windows as columns.

use std::num::NonZero;

use samebits_macros::named;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::ops::PadMode;
use samebits_tensor_core::{Error, Result};

use super::spatial::batched;
use super::{index_add, index_select, movedim, narrow, pad, permute, reshape, unflatten, zeros_of};
use crate::Tensor;
use crate::dims::Dim;

/// The windows of [`unfold`] and [`fold`]; all but the size have PyTorch's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Height and width of a window.
    pub kernel_size: [usize; 2],
    /// The distance between elements of a window: 1 by default.
    pub dilation: [usize; 2],
    /// The padding at each border: 0 by default.
    pub padding: [usize; 2],
    /// The distance between windows: 1 by default.
    pub stride: [usize; 2],
}

impl Windows {
    /// Creates windows of a size, with PyTorch's other defaults.
    pub fn new(kernel_size: [usize; 2]) -> Windows {
        Windows { kernel_size, dilation: [1, 1], padding: [0, 0], stride: [1, 1] }
    }

    /// Counts the windows along each dimension of an image of this size.
    fn counts(&self, op: &'static str, size: [usize; 2]) -> Result<[usize; 2]> {
        let count = |d: usize| {
            let padded = self.padding[d].checked_mul(2)?.checked_add(size[d])?;
            let dilation = NonZero::new(self.dilation[d])?.get();
            let reach = dilation.checked_mul(self.kernel_size[d].checked_sub(1)?)?;
            let room = padded.checked_sub(reach.checked_add(1)?)?;
            // The padded size must also fit an i64.
            i64::try_from(padded).ok()?;
            Some(room.checked_div(self.stride[d])? + 1)
        };
        match (count(0), count(1)) {
            (Some(rows), Some(columns)) => Ok([rows, columns]),
            _ => Err(Error::invalid(op, format!("{self:?} do not fit an image of {size:?}"))),
        }
    }

    /// Returns the positions of all windows' elements along a padded dimension: `[kernel, count]`.
    fn places(&self, d: usize, count: usize, like: &Tensor) -> Result<Tensor> {
        let steps = |n: usize, step: usize| {
            Tensor::arange_step(0, ((n - 1) * step + 1) as i64, step as i64)
        };
        let inner = steps(self.kernel_size[d], self.dilation[d])?;
        let places = super::add(&inner.unsqueeze(1)?, &steps(count, self.stride[d])?)?;
        reshape(&places, [-1])?.to(like.device())
    }
}

/// Returns the windows of an image as columns.
///
/// # Shapes
///
/// `x` is `[n, channels, height, width]` and may omit `n`; the result is
/// `[n, channels · kernel height · kernel width, windows]`.
///
/// # Errors
///
/// `x` has another number of dimensions, or no window fits.
///
/// # Examples
///
/// ```
/// use samebits_autograd::functional::{Windows, unfold};
/// use samebits_autograd::{DType, Tensor};
///
/// let x = Tensor::ones(&[2, 3, 5, 5], DType::F32)?;
/// assert_eq!(unfold(&x, Windows::new([2, 3]))?.shape(), [2, 18, 12]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.unfold`.
#[doc(alias = "im2col")]
#[named]
#[track_caller]
pub fn unfold(x: &Tensor, windows: Windows) -> Result<Tensor> {
    let op = "unfold";
    batched(x, 2, |x| {
        let &[n, channels, height, width] = x.shape() else {
            let message = format!("expected [n, channels, height, width], got {:?}", x.shape());
            return Err(Error::invalid(op, message));
        };
        let Windows { kernel_size: [rows, columns], padding: [y, x_pad], .. } = windows;
        let [down, across] = windows.counts(op, [height, width])?;
        let [y, x_pad] = [y, x_pad].map(|size| size as i64);
        let padded = pad(x, &[x_pad, x_pad, y, y], PadMode::Constant, 0.0)?;
        let lines = index_select(&padded, 2, &windows.places(0, down, x)?)?;
        let parts = index_select(&lines, 3, &windows.places(1, across, x)?)?;
        let parts = reshape(&parts, [n, channels, rows, down, columns, across])?;
        let sizes = [channels, rows, columns, down, across];
        let shape = [n, numel(op, &sizes[..3])?, numel(op, &sizes[3..])?];
        reshape(&permute(&parts, [0, 1, 2, 4, 3, 5])?, shape)
    })
}

/// Sums overlapping windows into an image: the gradient of [`unfold`].
///
/// # Shapes
///
/// `x` is `[n, channels · kernel height · kernel width, windows]` and may omit `n`; the result is
/// `[n, channels, height, width]` with the size `output_size`.
///
/// # Determinism
///
/// Adds the windows of a row first, then rows; each sum is that of [`index_add`].
///
/// # Errors
///
/// The shapes do not match.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::functional::{Windows, fold};
///
/// let columns = Tensor::new([[1.0f32, 2.0], [10.0, 20.0]])?;
/// let y = fold(&columns, [1, 3], Windows::new([1, 2]))?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 12.0, 20.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.fold`.
#[doc(alias = "col2im")]
#[named]
#[track_caller]
pub fn fold(x: &Tensor, output_size: [usize; 2], windows: Windows) -> Result<Tensor> {
    let op = "fold";
    batched(x, 1, |x| {
        let [height, width] = output_size;
        let Windows { kernel_size: [rows, columns], padding: [y, x_pad], .. } = windows;
        let [down, across] = windows.counts(op, output_size)?;
        let (window, count) = (numel(op, &[rows, columns])?, numel(op, &[down, across])?);
        let (n, channels) = match *x.shape() {
            [n, features, columns] if columns == count && features % window == 0 => {
                (n, features / window)
            }
            _ => {
                let message = format!(
                    "expected [n, channels · {window}, {count}] for {windows:?} over an image of \
                     {output_size:?}, got {:?}",
                    x.shape()
                );
                return Err(Error::invalid(op, message));
            }
        };
        let parts = reshape(x, [n, channels, rows, columns, down, across])?;
        let parts = permute(&parts, [0, 1, 2, 4, 3, 5])?;
        let (high, long) = (numel(op, &[rows, down])?, numel(op, &[columns, across])?);
        let parts = reshape(&parts, [n, channels, high, long])?;
        let (tall, wide) = (height + 2 * y, width + 2 * x_pad);
        let lines = zeros_of(&[n, channels, high, wide], x.dtype(), x)?;
        let lines = index_add(&lines, 3, &windows.places(1, across, x)?, &parts, 1.0)?;
        let image = zeros_of(&[n, channels, tall, wide], x.dtype(), x)?;
        let image = index_add(&image, 2, &windows.places(0, down, x)?, &lines, 1.0)?;
        narrow(&narrow(&image, 2, y, height)?, 3, x_pad, width)
    })
}

/// Returns windows of `size` elements along `dim`, `step` apart, as a new last dimension: PyTorch's
/// `x.unfold(dim, size, step)`.
///
/// # Errors
///
/// There is no such dimension, it is shorter than a window, or `size` or `step` is 0.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0, 3.0, 4.0])?;
/// assert_eq!(x.windows(0, 2, 2)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// assert_eq!(x.windows(0, 3, 1)?.shape(), [2, 3]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.Tensor.unfold`.
#[named]
#[track_caller]
pub fn windows(x: &Tensor, dim: impl Dim, size: usize, step: usize) -> Result<Tensor> {
    let op = "windows";
    let dim = dim.dim(op, x.rank())?;
    let length = x.value().size(op, dim)?;
    if step == 0 || size == 0 || size > length {
        let message =
            format!("windows of size {size} and step {step} do not fit a dimension of {length}");
        return Err(Error::invalid(op, message));
    }
    let count = (length - size) / step + 1;
    let along = Windows { stride: [step, 1], ..Windows::new([size, 1]) };
    let parts = index_select(x, dim, &along.places(0, count, x)?)?;
    movedim(&unflatten(&parts, dim, [size, count])?, dim, -1)
}

/// Interleaves the channels of `groups`: writes one group per row of a matrix and reads it by
/// columns.
///
/// # Shapes
///
/// `x` is `[n, channels, ..]`.
///
/// # Errors
///
/// `groups` does not divide the channels.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::functional::channel_shuffle;
///
/// let x = Tensor::new([[[1.0f32], [2.0], [3.0], [4.0]]])?;
/// assert_eq!(channel_shuffle(&x, 2)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.channel_shuffle`.
#[named]
#[track_caller]
pub fn channel_shuffle(x: &Tensor, groups: usize) -> Result<Tensor> {
    match *x.shape() {
        [_, channels, _, ..] if groups > 0 && channels % groups == 0 => {
            let apart = unflatten(x, 1, [groups, channels / groups])?;
            reshape(&super::transpose(&apart, 1, 2)?, x.shape())
        }
        _ => {
            let shape = x.shape();
            let message = format!("{groups} groups do not divide the channels of shape {shape:?}");
            Err(Error::invalid("channel_shuffle", message))
        }
    }
}
