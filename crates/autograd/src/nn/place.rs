//! The type and device of a layer's tensors, and random numbers there.

use samebits_tensor_core::ops::{Normal, Uniform};
use samebits_tensor_core::{DType, Device, Result};

use super::with_generator;
use crate::functional::blocks;
use crate::{Tensor, run};

/// The type and device of a layer's tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) dtype: DType,
    pub(super) device: Device,
}

impl Default for Place {
    fn default() -> Place {
        Place { dtype: DType::F32, device: Device::Cpu }
    }
}

impl Place {
    /// Returns a tensor filled with `value`.
    pub(super) fn full(self, shape: &[usize], value: f64) -> Result<Tensor> {
        Tensor::full(shape, value, self.dtype)?.to(self.device)
    }

    /// Returns a parameter filled with `value`.
    pub(super) fn constant(self, shape: &[usize], value: f64) -> Result<Tensor> {
        self.full(shape, value)?.set_requires_grad(true)
    }

    /// Returns a parameter drawn uniformly from ±`bound`.
    pub(super) fn uniform(self, op: &'static str, shape: &[usize], bound: f64) -> Result<Tensor> {
        let numbers = Numbers::Uniform { low: -bound, high: bound };
        drawn(op, shape, self, numbers)?.set_requires_grad(true)
    }

    /// Returns a parameter of standard normal numbers.
    pub(super) fn normal(self, op: &'static str, shape: &[usize]) -> Result<Tensor> {
        let numbers = Numbers::Normal { mean: 0.0, std: 1.0 };
        drawn(op, shape, self, numbers)?.set_requires_grad(true)
    }
}

/// A distribution that every device can draw from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbers {
    Uniform { low: f64, high: f64 },
    Normal { mean: f64, std: f64 },
}

/// Draws a tensor of random numbers; errors name `op`.
pub(super) fn drawn(
    op: &'static str,
    shape: &[usize],
    place: Place,
    numbers: Numbers,
) -> Result<Tensor> {
    let Place { dtype, device } = place;
    with_generator(op, device, |generator| {
        let (shape, from) = (shape.to_vec(), generator.clone());
        let value = match numbers {
            Numbers::Uniform { low, high } => {
                run(&Uniform { shape, dtype, device, low, high, generator: from })
            }
            Numbers::Normal { mean, std } => {
                run(&Normal { shape, dtype, device, mean, std, generator: from })
            }
        }
        .map_err(|error| error.called(op))?;
        generator.advance(blocks(dtype, value.numel()));
        Ok(value.into())
    })
}
