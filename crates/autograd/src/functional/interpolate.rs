use samebits_macros::named;
use samebits_tensor_core::ops::{Interpolate, InterpolateGrad, InterpolateMode};
use samebits_tensor_core::{Error, Result};

use super::pooling::adaptive_avg_pool;
use super::shape::{permute, reshape};
use crate::{Tensor, run};

/// The target of a resize.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resize<'a> {
    /// The size of each spatial dimension of the result.
    Size(&'a [usize]),
    /// The scale factor of each spatial dimension: sizes are `floor(input · scale)`, and
    /// coordinates use the scale itself. So [`InterpolateMode::Nearest`] takes input
    /// `floor(o / scale)`, not `floor(o · input / output)`.
    Scale(&'a [f64]),
    /// A scale factor as in `Scale`, but coordinates use the quotient of the sizes, as with `Size`:
    /// PyTorch's `recompute_scale_factor`.
    RecomputedScale(&'a [f64]),
}

/// Resizes the input by interpolation. PyTorch's modes `linear`, `bilinear` and `trilinear` are all
/// [`InterpolateMode::Linear`], `bicubic` is [`InterpolateMode::Cubic`], and [`interpolate_area`]
/// is the mode `area`.
///
/// With antialiasing, the dimensions are resized one by one, the last first, and each result is
/// rounded. An input of weight 0 has no influence: even next to an infinite input, an output at the
/// position of an input equals that input.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]` with one to three spatial dimensions.
///
/// # Errors
///
/// The sizes do not match the shape, a size is 0, or a scale is not a positive number.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_tensor_core::ops::InterpolateMode;
///
/// let x = Tensor::from_slice(&[1.0f32, 3.0], &[1, 1, 2])?;
/// let mode = InterpolateMode::Linear { align_corners: true };
/// let y = functional::interpolate(&x, functional::Resize::Size(&[3]), mode)?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
#[doc(alias = "upsample")]
#[doc(alias = "resize")]
pub fn interpolate(input: &Tensor, resize: Resize<'_>, mode: InterpolateMode) -> Result<Tensor> {
    let (size, scales) = target(input.shape(), resize)?;
    if !matches!(
        mode,
        InterpolateMode::LinearAntialias { .. } | InterpolateMode::CubicAntialias { .. }
    ) {
        return resized(input, &size, &scales, mode);
    }
    let mut result = input.clone();
    for dim in (0..size.len()).rev() {
        let mut one = result.shape()[2..].to_vec();
        let mut scale = vec![None; size.len()];
        (one[dim], scale[dim]) = (size[dim], scales[dim]);
        result = resized(&result, &one, &scale, mode)?;
    }
    Ok(result)
}

/// Resizes the input by averaging the inputs that each output covers: PyTorch's mode `area`.
///
/// # Shapes
///
/// As [`interpolate`].
///
/// # Errors
///
/// As [`interpolate`].
#[named]
#[track_caller]
pub fn interpolate_area(input: &Tensor, resize: Resize<'_>) -> Result<Tensor> {
    adaptive_avg_pool(input, &target(input.shape(), resize)?.0)
}

/// Rearranges blocks of `factor²` channels into squares: `[.., c · factor², h, w]` becomes
/// `[.., c, h · factor, w · factor]`.
///
/// # Errors
///
/// There are fewer than three dimensions, or the channels are not a multiple of `factor²`.
#[named]
pub fn pixel_shuffle(input: &Tensor, factor: usize) -> Result<Tensor> {
    let op = "pixel_shuffle";
    let (outer, [channels, height, width]) = image(op, input)?;
    let square = factor.checked_mul(factor).filter(|&square| square > 0);
    let Some(square) = square.filter(|&square| channels.is_multiple_of(square)) else {
        return Err(Error::invalid(
            op,
            format!("{channels} channels are not a multiple of the square of {factor}"),
        ));
    };
    let fine = [outer, &[channels / square, factor, factor, height, width]].concat();
    let n = outer.len();
    let order: Vec<usize> = (0..=n).chain([n + 3, n + 1, n + 4, n + 2]).collect();
    let moved = permute(&reshape(input, &fine)?, &order)?;
    reshape(&moved, [outer, &[channels / square, height * factor, width * factor]].concat())
}

/// Rearranges squares into channels, the inverse of [`pixel_shuffle`]:
/// `[.., c, h · factor, w · factor]` becomes `[.., c · factor², h, w]`.
///
/// # Errors
///
/// There are fewer than three dimensions, or height or width is not a multiple of `factor`.
#[named]
pub fn pixel_unshuffle(input: &Tensor, factor: usize) -> Result<Tensor> {
    let op = "pixel_unshuffle";
    let (outer, [channels, height, width]) = image(op, input)?;
    if factor == 0 || !height.is_multiple_of(factor) || !width.is_multiple_of(factor) {
        return Err(Error::invalid(
            op,
            format!("a size of {height} x {width} is not a multiple of {factor}"),
        ));
    }
    let (height, width) = (height / factor, width / factor);
    let fine = [outer, &[channels, height, factor, width, factor]].concat();
    let n = outer.len();
    let order: Vec<usize> = (0..=n).chain([n + 2, n + 4, n + 1, n + 3]).collect();
    let moved = permute(&reshape(input, &fine)?, &order)?;
    let channels = channels.checked_mul(factor).and_then(|n| n.checked_mul(factor));
    let channels = channels.ok_or_else(|| Error::invalid(op, "too many channels"))?;
    reshape(&moved, [outer, &[channels, height, width]].concat())
}

/// Returns the leading dimensions; then channels, height and width.
fn image<'a>(op: &'static str, input: &'a Tensor) -> Result<(&'a [usize], [usize; 3])> {
    match input.shape().split_last_chunk::<3>() {
        Some((outer, &last)) => Ok((outer, last)),
        None => Err(Error::invalid(
            op,
            format!("expected [.., channels, height, width], got {:?}", input.shape()),
        )),
    }
}

/// Returns the sizes of the result, and the scales that coordinates use.
fn target(input: &[usize], resize: Resize<'_>) -> Result<(Vec<usize>, Vec<Option<f64>>)> {
    let op = "interpolate";
    let dims = match resize {
        Resize::Size(size) => size.len(),
        Resize::Scale(scale) | Resize::RecomputedScale(scale) => scale.len(),
    };
    if input.len() != dims + 2 || !(1..=3).contains(&dims) {
        return Err(Error::invalid(
            op,
            format!("{resize:?} does not match an input of shape {input:?}"),
        ));
    }
    let (scale, keep) = match resize {
        Resize::Size(size) => {
            if size.contains(&0) {
                return Err(Error::invalid(op, format!("sizes must not be 0, got {size:?}")));
            }
            return Ok((size.to_vec(), vec![None; size.len()]));
        }
        Resize::Scale(scale) => (scale, true),
        Resize::RecomputedScale(scale) => (scale, false),
    };
    let size: Vec<usize> =
        input[2..].iter().zip(scale).map(|(&n, scale)| (n as f64 * scale) as usize).collect();
    if size.contains(&0) {
        return Err(Error::invalid(
            op,
            format!("an input of shape {input:?} with scales {scale:?} would become empty"),
        ));
    }
    let scales = scale.iter().map(|&scale| keep.then_some(scale)).collect();
    Ok((size, scales))
}

#[track_caller]
fn resized(
    input: &Tensor,
    size: &[usize],
    scales: &[Option<f64>],
    mode: InterpolateMode,
) -> Result<Tensor> {
    let value = run(&Interpolate {
        input: input.value().clone(),
        output_size: size.to_vec(),
        scales: scales.to_vec(),
        mode,
    })?;
    let (input_shape, scales) = (input.shape().to_vec(), scales.to_vec());
    Ok(Tensor::computed(value, &[input], move |grad| {
        let value = run(&InterpolateGrad {
            grad: grad.value().clone(),
            input_shape: input_shape.clone(),
            scales: scales.clone(),
            mode,
        })?;
        // Resizing is linear: the derivative of its gradient is resizing again.
        let (size, scales) = (grad.shape()[2..].to_vec(), scales.clone());
        Ok(vec![Some(Tensor::computed(value, &[grad], move |outer| {
            Ok(vec![Some(resized(outer, &size, &scales, mode)?)])
        }))])
    }))
}
