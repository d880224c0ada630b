use samebits_tensor_core::{DType, Result};

use crate::nn::{Context, Module, Slot, join};
use crate::{Tensor, functional};

/// Batch normalisation with running statistics.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// `[channels]`
    pub weight: Tensor,
    /// `[channels]`
    pub bias: Tensor,
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
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    pub fn new(channels: usize) -> Result<BatchNorm> {
        Ok(BatchNorm {
            weight: Tensor::ones(&[channels], DType::F32)?.set_requires_grad(true),
            bias: Tensor::zeros(&[channels], DType::F32)?.set_requires_grad(true),
            running_mean: Tensor::zeros(&[channels], DType::F32)?,
            running_var: Tensor::ones(&[channels], DType::F32)?,
            momentum: 0.1,
            eps: 1e-5,
        })
    }
}

impl Module for BatchNorm {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        if !context.training {
            let (mean, var) = (&self.running_mean, &self.running_var);
            let (weight, bias) = (Some(&self.weight), Some(&self.bias));
            return functional::batch_norm_inference(x, weight, bias, mean, var, self.eps);
        }
        let (y, statistics) =
            functional::batch_norm(x, Some(&self.weight), Some(&self.bias), self.eps)?;
        statistics.update(&mut self.running_mean, &mut self.running_var, self.momentum)?;
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
    pub weight: Tensor,
    /// The same shape.
    pub bias: Tensor,
    /// Added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// Weight 1, bias 0 and eps 1e-5, as in PyTorch.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    pub fn new(shape: &[usize]) -> Result<LayerNorm> {
        Ok(LayerNorm {
            weight: Tensor::ones(shape, DType::F32)?.set_requires_grad(true),
            bias: Tensor::zeros(shape, DType::F32)?.set_requires_grad(true),
            eps: 1e-5,
        })
    }
}

impl Module for LayerNorm {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::layer_norm(
            x,
            self.weight.shape(),
            Some(&self.weight),
            Some(&self.bias),
            self.eps,
        )
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
        visit(&join(path, "bias"), Slot::Parameter(&mut self.bias));
    }
}

/// Normalisation of each group of channels of each sample.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// The number of groups.
    pub groups: usize,
    /// `[channels]`
    pub weight: Tensor,
    /// `[channels]`
    pub bias: Tensor,
    /// Added to the variance.
    pub eps: f64,
}

impl GroupNorm {
    /// Weight 1, bias 0 and eps 1e-5, as in PyTorch.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    pub fn new(groups: usize, channels: usize) -> Result<GroupNorm> {
        Ok(GroupNorm {
            groups,
            weight: Tensor::ones(&[channels], DType::F32)?.set_requires_grad(true),
            bias: Tensor::zeros(&[channels], DType::F32)?.set_requires_grad(true),
            eps: 1e-5,
        })
    }
}

impl Module for GroupNorm {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::group_norm(x, self.groups, Some(&self.weight), Some(&self.bias), self.eps)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
        visit(&join(path, "bias"), Slot::Parameter(&mut self.bias));
    }
}

/// Normalisation of each channel of each sample, in training as in use, or, with running
/// statistics, by these when not training.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::nn::{Context, InstanceNorm, Module};
/// use samebits_rng::Generator;
///
/// let mut layer = InstanceNorm::affine(1)?.tracking(1)?;
/// let mut generator = Generator::new(0);
/// let x = Tensor::from_slice(&[1.0f32, 3.0, 5.0, 7.0], &[2, 1, 2])?;
/// layer.forward(&x, &mut Context { training: true, generator: &mut generator })?;
/// let running = layer.running.as_ref().expect("it tracks");
/// // A tenth of the means 2 and 6, and of the unbiased variances 2 and 2.
/// assert_eq!(running.mean.to_vec::<f32>()?, [0.4]);
/// assert_eq!(running.var.to_vec::<f32>()?, [1.1]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.InstanceNorm1d`, `InstanceNorm2d` and `InstanceNorm3d`.
#[derive(Clone, Debug)]
pub struct InstanceNorm {
    /// `[channels]`, if there is one.
    pub weight: Option<Tensor>,
    /// `[channels]`, if there is one.
    pub bias: Option<Tensor>,
    /// What is used when not training, if anything else than the sample's own statistics.
    pub running: Option<RunningStatistics>,
    /// Added to the variance.
    pub eps: f64,
}

/// Statistics that follow those of the batches.
#[derive(Clone, Debug)]
pub struct RunningStatistics {
    /// `[channels]`: the mean over the samples of their means.
    pub mean: Tensor,
    /// `[channels]`: the mean over the samples of their unbiased variances.
    pub var: Tensor,
    /// How much of the newest batch enters.
    pub momentum: f64,
}

impl InstanceNorm {
    /// Without weight and bias, eps 1e-5, as in PyTorch.
    pub fn new() -> InstanceNorm {
        InstanceNorm { weight: None, bias: None, running: None, eps: 1e-5 }
    }

    /// With weight 1 and bias 0.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    pub fn affine(channels: usize) -> Result<InstanceNorm> {
        Ok(InstanceNorm {
            weight: Some(Tensor::ones(&[channels], DType::F32)?.set_requires_grad(true)),
            bias: Some(Tensor::zeros(&[channels], DType::F32)?.set_requires_grad(true)),
            ..InstanceNorm::new()
        })
    }

    /// With running statistics from mean 0 and variance 1 and a momentum of 0.1, as in PyTorch
    /// with `track_running_stats`.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    pub fn tracking(mut self, channels: usize) -> Result<InstanceNorm> {
        self.running = Some(RunningStatistics {
            mean: Tensor::zeros(&[channels], DType::F32)?,
            var: Tensor::ones(&[channels], DType::F32)?,
            momentum: 0.1,
        });
        Ok(self)
    }
}

impl Default for InstanceNorm {
    fn default() -> InstanceNorm {
        InstanceNorm::new()
    }
}

impl Module for InstanceNorm {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        match &mut self.running {
            Some(RunningStatistics { mean, var, .. }) if !context.training => {
                functional::batch_norm_inference(x, weight, bias, mean, var, self.eps)
            }
            running => {
                let (y, statistics) = functional::instance_norm(x, weight, bias, self.eps)?;
                if let Some(RunningStatistics { mean, var, momentum }) = running {
                    statistics.update(mean, var, *momentum)?;
                }
                Ok(y)
            }
        }
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        if let Some(weight) = &mut self.weight {
            visit(&join(path, "weight"), Slot::Parameter(weight));
        }
        if let Some(bias) = &mut self.bias {
            visit(&join(path, "bias"), Slot::Parameter(bias));
        }
        if let Some(running) = &mut self.running {
            visit(&join(path, "running_mean"), Slot::Buffer(&mut running.mean));
            visit(&join(path, "running_var"), Slot::Buffer(&mut running.var));
        }
    }
}
