use samebits_macros::named;
use samebits_rng::Generator;
use samebits_tensor_core::ops::{FractionalMaxPool, Uniform};
use samebits_tensor_core::{Error, Result};

use super::indexed::{Windows, sum_by_index};
use crate::functional::blocks;
use crate::functional::spatial::{batched_with_indices, by_dims};
use crate::scope::with_generator_if;
use crate::{Tensor, run, untracked};

/// Returns the largest element of each window, and its index in the flattened spatial dimensions.
/// Random samples set the positions of the windows, which are about evenly spaced.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]` or `[channels, ..]` with two or three spatial dimensions;
/// `kernel` and `output_size` have one entry for each. `samples` is `[n, channels, dimensions]`,
/// with numbers in `[0, 1)`; if missing, [`fractional_samples`] draws them.
///
/// # Errors
///
/// The sizes do not match, a sample is not in `[0, 1)`, or none are given and this thread was not
/// seeded (see [`with_default`](samebits_tensor_core::random::with_default)).
///
/// # References
///
/// B. Graham, *Fractional Max-Pooling*, 2014.
#[named]
#[track_caller]
pub fn fractional_max_pool(
    input: &Tensor,
    kernel: &[usize],
    output_size: &[usize],
    samples: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    batched_with_indices(input, kernel.len(), |input| {
        let samples = match samples {
            None => fractional_samples(input, kernel.len())?,
            Some(samples) if samples.rank() == 2 => samples.unsqueeze(0)?,
            Some(samples) => samples.clone(),
        };
        let (value, indices) = run(&FractionalMaxPool {
            input: input.value().clone(),
            samples: samples.into(),
            kernel: kernel.to_vec(),
            output_size: output_size.to_vec(),
        })?;
        let indices = Tensor::from(indices);
        let (saved, shape) = (indices.clone(), input.shape().to_vec());
        let result = Tensor::computed(value, &[input], move |grad| {
            Ok(vec![Some(sum_by_index(grad, &saved, &shape, &Windows::Fractional)?)])
        });
        Ok((result, indices))
    })
}

/// Draws samples for [`fractional_max_pool`] over `dims` dimensions, from the generator in force.
///
/// # Errors
///
/// The input has neither `dims + 1` nor `dims + 2` dimensions, or is not a float, or this thread
/// was not seeded (see [`with_default`](samebits_tensor_core::random::with_default)).
#[named]
pub fn fractional_samples(input: &Tensor, dims: usize) -> Result<Tensor> {
    with_generator_if(input.numel() != 0, "fractional_samples", input.device(), |generator| {
        fractional_samples_with(input, dims, generator)
    })
}

/// Draws [`fractional_samples`] from `generator`, which advances by a quarter of their number, or
/// half of it for f64, rounded up.
///
/// # Errors
///
/// As [`fractional_samples`].
#[named]
pub fn fractional_samples_with(
    input: &Tensor,
    dims: usize,
    generator: &mut Generator,
) -> Result<Tensor> {
    let op = "fractional_samples_with";
    let shape = input.shape();
    let planes = match shape.len().checked_sub(dims) {
        Some(planes @ 1..=2) if input.dtype().is_float() => &shape[..planes],
        _ => {
            return Err(Error::invalid(
                op,
                format!(
                    "expected floats with {dims} spatial dimensions, got {} of shape {shape:?}",
                    input.dtype()
                ),
            ));
        }
    };
    let samples = untracked(&Uniform {
        shape: [planes, &[dims]].concat(),
        dtype: input.dtype(),
        device: input.device(),
        low: 0.0,
        high: 1.0,
        generator: generator.clone(),
    })?;
    generator.advance(blocks(input.dtype(), samples.numel()));
    Ok(samples)
}

by_dims! {
    fractional_max_pool(
        input: &Tensor,
        kernel: &[usize],
        output_size: &[usize],
        samples: Option<&Tensor>
    ) -> (Tensor, Tensor), dims: kernel.len();
    fractional_max_pool2d: 2, "two dimensions";
    fractional_max_pool3d: 3, "three dimensions";
}
