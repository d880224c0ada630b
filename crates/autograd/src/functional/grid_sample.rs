use samebits_macros::named;
use samebits_numerics::memory::{self, OutOfMemory};
use samebits_tensor_core::ops::{self, GridParams, GridSampleGridGrad, GridSampleInputGrad};
use samebits_tensor_core::{Error, Result};

use super::broadcast::expand;
use super::elementwise::wanted;
use super::linear::matmul;
use super::once_differentiable;
use super::shape::{reshape, transpose};
use crate::{Tensor, run, untracked};

/// Samples `input` at the points of a grid.
///
/// # Shapes
///
/// `input` is `[n, channels, height, width]` and `grid` `[n, height', width', 2]`, with the
/// coordinates (x, y) of each point of the result, from -1 to 1. For volumes, both have one more
/// dimension in front of the height, and the coordinates are (x, y, z).
///
/// # Determinism
///
/// The gradient of the input is an irregular sum: exact on f32, rounded once.
///
/// # Errors
///
/// The shapes do not match, or a volume is sampled with cubic interpolation.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_tensor_core::ops::{GridMode, GridPadding, GridParams};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?;
/// let centre = Tensor::from_slice(&[0.0f32, 0.0], &[1, 1, 1, 2])?;
/// let params =
///     GridParams { mode: GridMode::Linear, padding: GridPadding::Zeros, align_corners: true };
/// let y = functional::grid_sample(&x, &centre, params)?;
/// assert_eq!(y.to_vec::<f32>()?, [2.5]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn grid_sample(input: &Tensor, grid: &Tensor, params: GridParams) -> Result<Tensor> {
    let value =
        run(&ops::GridSample { input: input.value().clone(), grid: grid.value().clone(), params })?;
    let (x, points) = (input.clone(), grid.clone());
    Ok(Tensor::computed(value, &[input, grid], move |grad| {
        Ok(vec![
            wanted(&x, || input_grad(grad, &points, x.shape(), params))?,
            wanted(&points, || {
                let value = run(&GridSampleGridGrad {
                    grad: grad.value().clone(),
                    input: x.value().clone(),
                    grid: points.value().clone(),
                    params,
                })?;
                Ok(once_differentiable("grid_sample", value, &[grad, &x, &points]))
            })?,
        ])
    }))
}

/// Returns the grid with which [`grid_sample`] applies an affine map to an image or a volume:
/// `theta` times the coordinates of each point of the result, extended by a 1.
///
/// # Shapes
///
/// `theta` is `[n, 2, 3]` and `size` `[n, channels, height, width]`; the result is
/// `[n, height, width, 2]`. For volumes, `theta` is `[n, 3, 4]`, `size` has one more entry, and the
/// result is `[n, depth, height, width, 3]`.
///
/// # Errors
///
/// The shapes do not match, or a size is 0.
#[named]
#[track_caller]
pub fn affine_grid(theta: &Tensor, size: &[usize], align_corners: bool) -> Result<Tensor> {
    let op = "affine_grid";
    let dims = size.len().saturating_sub(2);
    let fits = theta.shape() == [size.first().copied().unwrap_or(0), dims, dims + 1];
    if !(2..=3).contains(&dims) || !fits || size.contains(&0) || !theta.dtype().is_float() {
        return Err(Error::invalid(
            op,
            format!(
                "theta of {} and shape {:?} does not match the size {size:?}",
                theta.dtype(),
                theta.shape()
            ),
        ));
    }
    let points = samebits_tensor_core::layout::numel(op, &size[2..])?;
    samebits_tensor_core::layout::numel(op, &[size[0], points, dims + 1])?;
    let base = base_points(&size[2..], align_corners).map_err(Error::out_of_host_memory(op))?;
    let base = Tensor::from_slice(&base, &[points, dims + 1])?;
    let base = untracked(&ops::Cast { x: base.into(), to: theta.dtype() })?.to(theta.device())?;
    let base = expand(&base, &[size[0], points, dims + 1])?;
    let grid = matmul(&base, &transpose(theta, 1, 2)?)?;
    reshape(&grid, [&[size[0]], &size[2..], &[dims]].concat())
}

/// Returns the gradient of the input. It is linear in `grad`, so its derivative samples again.
#[track_caller]
fn input_grad(grad: &Tensor, grid: &Tensor, shape: &[usize], params: GridParams) -> Result<Tensor> {
    let value = run(&GridSampleInputGrad {
        grad: grad.value().clone(),
        grid: grid.value().clone(),
        input_shape: shape.to_vec(),
        params,
    })?;
    let (saved, g) = (grid.clone(), grad.clone());
    Ok(Tensor::computed(value, &[grad, grid], move |outer| {
        Ok(vec![
            wanted(&g, || grid_sample(outer, &saved, params))?,
            // The inner product of `outer` and the input's gradient equals that of `grad` and the
            // samples of `outer`.
            wanted(&saved, || {
                let value = run(&GridSampleGridGrad {
                    grad: g.value().clone(),
                    input: outer.value().clone(),
                    grid: saved.value().clone(),
                    params,
                })?;
                Ok(once_differentiable("grid_sample", value, &[&g, outer, &saved]))
            })?,
        ])
    }))
}

/// Returns the points (x, y, 1) or (x, y, z, 1) of a grid in row-major order.
fn base_points(size: &[usize], align_corners: bool) -> Result<Vec<f64>, OutOfMemory> {
    let along = |dim: usize, at: usize| {
        let n = size[dim] as f64;
        match (size[dim], align_corners) {
            (1, true) => 0.0,
            (_, true) => 2.0 * at as f64 / (n - 1.0) - 1.0,
            (_, false) => (2.0 * at as f64 + 1.0) / n - 1.0,
        }
    };
    let count: usize = size.iter().product();
    let mut points = memory::with_capacity(count * (size.len() + 1))?;
    for mut number in 0..count {
        // The last dimension is x and comes first.
        for dim in (0..size.len()).rev() {
            points.push(along(dim, number % size[dim]));
            number /= size[dim];
        }
        points.push(1.0);
    }
    Ok(points)
}
