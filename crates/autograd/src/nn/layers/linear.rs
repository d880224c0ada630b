use samebits_rng::Generator;
use samebits_tensor_core::Result;

use super::{bound, uniform};
use crate::nn::{Context, Module, Slot, join};
use crate::{Tensor, functional};

/// A fully connected layer: `x · weightᵀ + bias`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out, in]`
    pub weight: Tensor,
    /// `[out]`
    pub bias: Option<Tensor>,
}

impl Linear {
    /// Weight and bias uniform in ±1/√in, as PyTorch draws them.
    ///
    /// # Errors
    ///
    /// `inputs` is 0.
    pub fn new(inputs: usize, outputs: usize, generator: &mut Generator) -> Result<Linear> {
        let bound = bound(inputs, "Linear")?;
        Ok(Linear {
            weight: uniform(&[outputs, inputs], bound, generator)?,
            bias: Some(uniform(&[outputs], bound, generator)?),
        })
    }
}

impl Module for Linear {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::linear(x, &self.weight, self.bias.as_ref())
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
        if let Some(bias) = &mut self.bias {
            visit(&join(path, "bias"), Slot::Parameter(bias));
        }
    }
}
