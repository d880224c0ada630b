use samebits_tensor_core::Result;
use samebits_tensor_core::ops::PoolParams;

use crate::nn::{Context, Module, Slot};
use crate::{Var, functional};

/// The largest element of each window.
#[derive(Clone, Debug)]
pub struct MaxPool {
    /// How the window moves.
    pub params: PoolParams,
}

impl Module for MaxPool {
    fn forward(&mut self, x: &Var, _: &mut Context<'_>) -> Result<Var> {
        Ok(functional::max_pool(x, &self.params)?.0)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// The mean of each window.
#[derive(Clone, Debug)]
pub struct AvgPool {
    /// How the window moves.
    pub params: PoolParams,
    /// Whether padding counts in the divisor.
    pub count_include_pad: bool,
    /// A divisor to use instead of the number of elements.
    pub divisor_override: Option<i64>,
}

impl Module for AvgPool {
    fn forward(&mut self, x: &Var, _: &mut Context<'_>) -> Result<Var> {
        functional::avg_pool(x, &self.params, self.count_include_pad, self.divisor_override)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// The p-norm of each window.
#[derive(Clone, Debug)]
pub struct LpPool {
    /// The p of the norm.
    pub norm: f64,
    /// How the window moves.
    pub params: PoolParams,
}

impl Module for LpPool {
    fn forward(&mut self, x: &Var, _: &mut Context<'_>) -> Result<Var> {
        functional::lp_pool(x, self.norm, &self.params)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// The mean of each window, for a given size of the result.
#[derive(Clone, Debug)]
pub struct AdaptiveAvgPool {
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Module for AdaptiveAvgPool {
    fn forward(&mut self, x: &Var, _: &mut Context<'_>) -> Result<Var> {
        functional::adaptive_avg_pool(x, &self.output_size)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// The largest element of each window, for a given size of the result.
#[derive(Clone, Debug)]
pub struct AdaptiveMaxPool {
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Module for AdaptiveMaxPool {
    fn forward(&mut self, x: &Var, _: &mut Context<'_>) -> Result<Var> {
        Ok(functional::adaptive_max_pool(x, &self.output_size)?.0)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// The largest element of each window, the windows being at pseudo-random places.
#[derive(Clone, Debug)]
pub struct FractionalMaxPool {
    /// The size of a window.
    pub kernel: Vec<usize>,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Module for FractionalMaxPool {
    fn forward(&mut self, x: &Var, context: &mut Context<'_>) -> Result<Var> {
        let samples = functional::fractional_samples(x, self.kernel.len(), context.generator)?;
        Ok(functional::fractional_max_pool(x, &self.kernel, &self.output_size, &samples)?.0)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}
