use samebits_tensor_core::Result;

use crate::nn::{Context, Module, Slot};
use crate::{Tensor, functional};

/// Drops elements while training.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The probability of dropping.
    pub p: f64,
}

impl Module for Dropout {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        if !context.training {
            return Ok(x.clone());
        }
        functional::dropout(x, self.p, context.generator)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// Drops rows of `[n, channels, length]` while training.
#[derive(Clone, Copy, Debug)]
pub struct Dropout1d {
    /// The probability of dropping.
    pub p: f64,
}

impl Module for Dropout1d {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        if !context.training {
            return Ok(x.clone());
        }
        functional::dropout1d(x, self.p, context.generator)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// Drops planes of `[n, channels, height, width]` while training.
#[derive(Clone, Copy, Debug)]
pub struct Dropout2d {
    /// The probability of dropping.
    pub p: f64,
}

impl Module for Dropout2d {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        if !context.training {
            return Ok(x.clone());
        }
        functional::dropout2d(x, self.p, context.generator)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// Drops volumes of `[n, channels, depth, height, width]` while training.
#[derive(Clone, Copy, Debug)]
pub struct Dropout3d {
    /// The probability of dropping.
    pub p: f64,
}

impl Module for Dropout3d {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        if !context.training {
            return Ok(x.clone());
        }
        functional::dropout3d(x, self.p, context.generator)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// Drops elements to the negative limit of SELU while training, keeping mean and variance.
#[derive(Clone, Copy, Debug)]
pub struct AlphaDropout {
    /// The probability of dropping.
    pub p: f64,
}

impl Module for AlphaDropout {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        if !context.training {
            return Ok(x.clone());
        }
        functional::alpha_dropout(x, self.p, context.generator)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// Drops whole channels to the negative limit of SELU while training.
#[derive(Clone, Copy, Debug)]
pub struct FeatureAlphaDropout {
    /// The probability of dropping.
    pub p: f64,
}

impl Module for FeatureAlphaDropout {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        if !context.training {
            return Ok(x.clone());
        }
        functional::feature_alpha_dropout(x, self.p, context.generator)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}
