use samebits_rng::Generator;
use samebits_tensor_core::ops::ConvParams;
use samebits_tensor_core::{Error, Result};

use super::{bound, uniform};
use crate::nn::{Context, Module, Slot, join};
use crate::{Tensor, functional};

/// A convolution over `DIMS` spatial dimensions.
#[derive(Clone, Debug)]
pub struct ConvNd<const DIMS: usize> {
    /// `[out, in / groups, kernel, ..]`
    pub weight: Tensor,
    /// `[out]`
    pub bias: Option<Tensor>,
    /// How the window moves.
    pub params: ConvParams,
}

/// A convolution over one spatial dimension.
pub type Conv1d = ConvNd<1>;
/// A convolution over two spatial dimensions.
pub type Conv2d = ConvNd<2>;
/// A convolution over three spatial dimensions.
pub type Conv3d = ConvNd<3>;

impl<const DIMS: usize> ConvNd<DIMS> {
    /// A kernel of the same size in every dimension; weight and bias uniform in
    /// ±1/√(in · kernel volume / groups), as PyTorch draws them.
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
    ) -> Result<ConvNd<DIMS>> {
        let inputs = per_group("Conv", inputs, outputs, &params, inputs)?;
        let shape = [vec![outputs, inputs], vec![kernel; DIMS]].concat();
        let bound = bound(shape[1..].iter().product(), "Conv")?;
        Ok(ConvNd {
            weight: uniform(&shape, bound, generator)?,
            bias: Some(uniform(&[outputs], bound, generator)?),
            params,
        })
    }
}

impl<const DIMS: usize> Module for ConvNd<DIMS> {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::conv(x, &self.weight, self.bias.as_ref(), &self.params)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
        if let Some(bias) = &mut self.bias {
            visit(&join(path, "bias"), Slot::Parameter(bias));
        }
    }
}

/// A transposed convolution over `DIMS` spatial dimensions.
#[derive(Clone, Debug)]
pub struct ConvTransposeNd<const DIMS: usize> {
    /// `[in, out / groups, kernel, ..]`
    pub weight: Tensor,
    /// `[out]`
    pub bias: Option<Tensor>,
    /// How the window moves.
    pub params: ConvParams,
    /// By how much the result is larger at the end of each dimension.
    pub output_padding: Vec<usize>,
}

/// A transposed convolution over one spatial dimension.
pub type ConvTranspose1d = ConvTransposeNd<1>;
/// A transposed convolution over two spatial dimensions.
pub type ConvTranspose2d = ConvTransposeNd<2>;
/// A transposed convolution over three spatial dimensions.
pub type ConvTranspose3d = ConvTransposeNd<3>;

impl<const DIMS: usize> ConvTransposeNd<DIMS> {
    /// A kernel of the same size in every dimension, no output padding; weight and bias uniform
    /// in ±1/√(out · kernel volume / groups), as PyTorch draws them.
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
    ) -> Result<ConvTransposeNd<DIMS>> {
        let each = per_group("ConvTranspose", inputs, outputs, &params, outputs)?;
        let shape = [vec![inputs, each], vec![kernel; DIMS]].concat();
        let bound = bound(shape[1..].iter().product(), "ConvTranspose")?;
        Ok(ConvTransposeNd {
            weight: uniform(&shape, bound, generator)?,
            bias: Some(uniform(&[outputs], bound, generator)?),
            params,
            output_padding: vec![0; DIMS],
        })
    }
}

impl<const DIMS: usize> Module for ConvTransposeNd<DIMS> {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        let (bias, more) = (self.bias.as_ref(), &self.output_padding);
        functional::conv_transpose(x, &self.weight, bias, &self.params, more)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
        if let Some(bias) = &mut self.bias {
            visit(&join(path, "bias"), Slot::Parameter(bias));
        }
    }
}

/// `channels` divided by the number of groups.
fn per_group(
    layer: &'static str,
    inputs: usize,
    outputs: usize,
    params: &ConvParams,
    channels: usize,
) -> Result<usize> {
    let groups = params.groups;
    if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
        return Err(Error::invalid(
            layer,
            format!("{inputs} and {outputs} channels in {groups} groups"),
        ));
    }
    Ok(channels / groups)
}
