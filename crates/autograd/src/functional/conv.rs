use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvParams, ConvWeightGrad};

use super::elementwise::wanted;
use super::reduce::sum;
use super::shape::reshape;
use crate::{Var, run};

/// Cross-correlation over one to three spatial dimensions.
///
/// # Shapes
///
/// `input` is `[n, in, ..]`, `weight` `[out, in / groups, ..]`, `bias` `[out]`.
///
/// # Errors
///
/// The shapes and parameters do not go together.
#[track_caller]
pub fn conv(input: &Var, weight: &Var, bias: Option<&Var>, params: &ConvParams) -> Result<Var> {
    let op = Conv {
        input: input.value().clone(),
        weight: weight.value().clone(),
        bias: bias.map(|bias| bias.value().clone()),
        params: params.clone(),
    };
    let value = run(&op)?;
    let (x, w, b, params) = (input.clone(), weight.clone(), bias.cloned(), params.clone());
    let inputs: Vec<&Var> = [input, weight].into_iter().chain(bias).collect();
    Ok(Var::computed(value, &inputs, move |grad| {
        let mut grads = vec![
            wanted(&x, || conv_input_grad(grad, &w, x.shape(), &params))?,
            wanted(&w, || conv_weight_grad(grad, &x, w.shape(), &params))?,
        ];
        if let Some(b) = &b {
            grads.push(wanted(b, || {
                let dims: Vec<usize> = (0..grad.shape().len()).filter(|&dim| dim != 1).collect();
                reshape(&sum(grad, &dims)?, b.shape())
            })?);
        }
        Ok(grads)
    }))
}

/// [`conv`] over one dimension with stride and dilation 1.
///
/// # Errors
///
/// As [`conv`].
#[track_caller]
pub fn conv1d(input: &Var, weight: &Var, bias: Option<&Var>, padding: usize) -> Result<Var> {
    conv(input, weight, bias, &ConvParams::padded(1, padding))
}

/// [`conv`] over two dimensions with stride and dilation 1.
///
/// # Errors
///
/// As [`conv`].
#[track_caller]
pub fn conv2d(input: &Var, weight: &Var, bias: Option<&Var>, padding: usize) -> Result<Var> {
    conv(input, weight, bias, &ConvParams::padded(2, padding))
}

/// [`conv`] over three dimensions with stride and dilation 1.
///
/// # Errors
///
/// As [`conv`].
#[track_caller]
pub fn conv3d(input: &Var, weight: &Var, bias: Option<&Var>, padding: usize) -> Result<Var> {
    conv(input, weight, bias, &ConvParams::padded(3, padding))
}

/// The gradient of [`conv`] with respect to its input. Linear in both arguments.
fn conv_input_grad(
    grad: &Var,
    weight: &Var,
    input_shape: &[usize],
    params: &ConvParams,
) -> Result<Var> {
    let value = run(&ConvInputGrad {
        grad: grad.value().clone(),
        weight: weight.value().clone(),
        input_shape: input_shape.to_vec(),
        params: params.clone(),
    })?;
    let (g, w, params) = (grad.clone(), weight.clone(), params.clone());
    Ok(Var::computed(value, &[grad, weight], move |outer| {
        Ok(vec![
            wanted(&g, || conv(outer, &w, None, &params))?,
            wanted(&w, || conv_weight_grad(&g, outer, w.shape(), &params))?,
        ])
    }))
}

/// The gradient of [`conv`] with respect to its weight. Linear in both arguments.
fn conv_weight_grad(
    grad: &Var,
    input: &Var,
    weight_shape: &[usize],
    params: &ConvParams,
) -> Result<Var> {
    let value = run(&ConvWeightGrad {
        grad: grad.value().clone(),
        input: input.value().clone(),
        weight_shape: weight_shape.to_vec(),
        params: params.clone(),
    })?;
    let (g, x, params) = (grad.clone(), input.clone(), params.clone());
    Ok(Var::computed(value, &[grad, input], move |outer| {
        Ok(vec![
            wanted(&g, || conv(&x, outer, None, &params))?,
            wanted(&x, || conv_input_grad(&g, outer, x.shape(), &params))?,
        ])
    }))
}
