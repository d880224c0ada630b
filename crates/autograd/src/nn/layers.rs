use samebits_rng::{Draw, Generator};
use samebits_tensor_core::ops::{ConvParams, Normal, Uniform};
use samebits_tensor_core::{DType, Device, Error, Result, Tensor};

use super::{Context, Module, Slot, join};
use crate::functional::{self, BatchStatistics};
use crate::{Var, run};

/// A fully connected layer: `x · weightᵀ + bias`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out, in]`
    pub weight: Var,
    /// `[out]`
    pub bias: Option<Var>,
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
    fn forward(&mut self, x: &Var, _: &mut Context<'_>) -> Result<Var> {
        functional::linear(x, &self.weight, self.bias.as_ref())
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
        if let Some(bias) = &mut self.bias {
            visit(&join(path, "bias"), Slot::Parameter(bias));
        }
    }
}

/// A convolution over two spatial dimensions.
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// `[out, in / groups, kernel, kernel]`
    pub weight: Var,
    /// `[out]`
    pub bias: Option<Var>,
    /// How the window moves.
    pub params: ConvParams,
}

impl Conv2d {
    /// A square kernel; weight and bias uniform in ±1/√(in · kernel² / groups), as PyTorch draws
    /// them.
    ///
    /// # Errors
    ///
    /// The number of channels is not a multiple of the groups, or the kernel is empty.
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: usize,
        params: ConvParams,
        generator: &mut Generator,
    ) -> Result<Conv2d> {
        if params.groups == 0
            || !inputs.is_multiple_of(params.groups)
            || !outputs.is_multiple_of(params.groups)
        {
            return Err(Error::invalid(
                "Conv2d",
                format!("{inputs} and {outputs} channels in {} groups", params.groups),
            ));
        }
        let inputs = inputs / params.groups;
        let bound = bound(inputs * kernel * kernel, "Conv2d")?;
        Ok(Conv2d {
            weight: uniform(&[outputs, inputs, kernel, kernel], bound, generator)?,
            bias: Some(uniform(&[outputs], bound, generator)?),
            params,
        })
    }
}

impl Module for Conv2d {
    fn forward(&mut self, x: &Var, _: &mut Context<'_>) -> Result<Var> {
        functional::conv(x, &self.weight, self.bias.as_ref(), &self.params)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
        if let Some(bias) = &mut self.bias {
            visit(&join(path, "bias"), Slot::Parameter(bias));
        }
    }
}

/// Batch normalisation with running statistics.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// `[channels]`
    pub weight: Var,
    /// `[channels]`
    pub bias: Var,
    /// The running mean.
    pub running_mean: Tensor,
    /// The running unbiased variance.
    pub running_var: Tensor,
    /// How much of the newest batch enters the running statistics.
    pub momentum: f64,
    /// Added to the variance.
    pub eps: f64,
}

impl BatchNorm {
    /// Weight 1, bias 0, momentum 0.1 and eps 1e-5, as in PyTorch.
    pub fn new(channels: usize) -> BatchNorm {
        BatchNorm {
            weight: Var::parameter(Tensor::ones(&[channels], DType::F32)),
            bias: Var::parameter(Tensor::zeros(&[channels], DType::F32)),
            running_mean: Tensor::zeros(&[channels], DType::F32),
            running_var: Tensor::ones(&[channels], DType::F32),
            momentum: 0.1,
            eps: 1e-5,
        }
    }

    /// `running · (1 − momentum) + batch · momentum`, the variance scaled to be unbiased first.
    fn update(&mut self, batch: BatchStatistics) -> Result<()> {
        let blend = |running: &Tensor, batch: Tensor| -> Result<Tensor> {
            let running =
                functional::affine(&Var::constant(running.clone()), 1.0 - self.momentum, 0.0)?;
            let batch = functional::affine(&Var::constant(batch), self.momentum, 0.0)?;
            Ok(functional::add(&running, &batch)?.value().clone())
        };
        let n = batch.count as f64;
        let unbiased = functional::affine(&Var::constant(batch.var), n / (n - 1.0), 0.0)?;
        self.running_mean = blend(&self.running_mean, batch.mean)?;
        self.running_var = blend(&self.running_var, unbiased.value().clone())?;
        Ok(())
    }
}

impl Module for BatchNorm {
    fn forward(&mut self, x: &Var, context: &mut Context<'_>) -> Result<Var> {
        if !context.training {
            let (mean, var) = (&self.running_mean, &self.running_var);
            return functional::batch_norm_inference(
                x,
                &self.weight,
                &self.bias,
                mean,
                var,
                self.eps,
            );
        }
        let (y, statistics) = functional::batch_norm(x, &self.weight, &self.bias, self.eps)?;
        self.update(statistics)?;
        Ok(y)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
        visit(&join(path, "bias"), Slot::Parameter(&mut self.bias));
        visit(&join(path, "running_mean"), Slot::Buffer(&mut self.running_mean));
        visit(&join(path, "running_var"), Slot::Buffer(&mut self.running_var));
    }
}

/// Layer normalisation over the last dimensions.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// The shape of the last dimensions.
    pub weight: Var,
    /// The same shape.
    pub bias: Var,
    /// Added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// Weight 1, bias 0 and eps 1e-5, as in PyTorch.
    pub fn new(shape: &[usize]) -> LayerNorm {
        LayerNorm {
            weight: Var::parameter(Tensor::ones(shape, DType::F32)),
            bias: Var::parameter(Tensor::zeros(shape, DType::F32)),
            eps: 1e-5,
        }
    }
}

impl Module for LayerNorm {
    fn forward(&mut self, x: &Var, _: &mut Context<'_>) -> Result<Var> {
        functional::layer_norm(x, &self.weight, &self.bias, self.eps)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
        visit(&join(path, "bias"), Slot::Parameter(&mut self.bias));
    }
}

/// A table of rows, looked up by index.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[rows, width]`
    pub weight: Var,
}

impl Embedding {
    /// Standard normal rows, as PyTorch draws them.
    ///
    /// # Errors
    ///
    /// None that a caller can cause.
    pub fn new(rows: usize, width: usize, generator: &mut Generator) -> Result<Embedding> {
        let op = Normal {
            shape: vec![rows, width],
            dtype: DType::F32,
            device: Device::Cpu,
            mean: 0.0,
            std: 1.0,
            generator: generator.clone(),
        };
        let weight = run(&op)?;
        generator.advance(Draw::blocks_u32(rows * width));
        Ok(Embedding { weight: Var::parameter(weight) })
    }

    /// The rows that `index` names.
    ///
    /// # Errors
    ///
    /// An index is out of range.
    pub fn forward(&self, index: &Tensor) -> Result<Var> {
        functional::embedding(&self.weight, index)
    }
}

/// Drops elements while training.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The probability of dropping an element.
    pub p: f64,
}

impl Module for Dropout {
    fn forward(&mut self, x: &Var, context: &mut Context<'_>) -> Result<Var> {
        if !context.training {
            return Ok(x.clone());
        }
        functional::dropout(x, self.p, context.generator)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// `1 / √fan_in`.
fn bound(fan_in: usize, layer: &'static str) -> Result<f64> {
    if fan_in == 0 {
        return Err(Error::invalid(layer, "a layer needs at least one input"));
    }
    Ok(1.0 / (fan_in as f64).sqrt())
}

/// A parameter uniform in ±`bound`.
fn uniform(shape: &[usize], bound: f64, generator: &mut Generator) -> Result<Var> {
    let op = Uniform {
        shape: shape.to_vec(),
        dtype: DType::F32,
        device: Device::Cpu,
        low: -bound,
        high: bound,
        generator: generator.clone(),
    };
    let value = run(&op)?;
    generator.advance(Draw::blocks_u32(value.numel()));
    Ok(Var::parameter(value))
}
