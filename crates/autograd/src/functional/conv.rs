use samebits_macros::named;
use samebits_tensor_core::geometry::Convolution;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvParams, ConvWeightGrad, PadMode};
use samebits_tensor_core::{Error, Result};

use super::broadcast::sum;
use super::elementwise::{add, wanted};
use super::padding::pad;
use super::shape::reshape;
use super::spatial::{batched, by_dims};
use crate::{Tensor, run};

/// Computes the cross-correlation over one to three spatial dimensions, which PyTorch calls
/// convolution.
///
/// # Shapes
///
/// `input` is `[n, in, ..]` or `[in, ..]`, `weight` `[out, in / groups, ..]`, `bias` `[out]`.
///
/// # Determinism
///
/// Each element is a chain of fma in ascending k in blocks of a fixed length; see
/// `docs/book/contractions.md`.
///
/// # Errors
///
/// The shapes and parameters do not match.
#[named]
#[track_caller]
pub fn conv(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    params: &ConvParams,
) -> Result<Tensor> {
    batched(input, params.stride.len(), |input| convolved(input, weight, bias, params))
}

/// Computes [`conv`] with stride 1 and as much padding as keeps the size; if that is an odd number
/// of elements, the end gets one more. PyTorch's `padding="same"`.
///
/// # Errors
///
/// As [`conv`].
#[named]
#[track_caller]
pub fn conv_same(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    dilation: &[usize],
    groups: usize,
) -> Result<Tensor> {
    let totals = same_padding(weight, dilation)?;
    let params = ConvParams {
        stride: vec![1; dilation.len()],
        padding: totals.iter().map(|total| total.div_ceil(2)).collect(),
        dilation: dilation.to_vec(),
        groups,
    };
    let result = conv(input, weight, bias, &params)?;
    // Both sides were padded by the larger half; the excess comes first and is cut.
    let cut: Vec<i64> = totals.iter().rev().flat_map(|total| [-((total % 2) as i64), 0]).collect();
    match cut.iter().any(|&n| n != 0) {
        true => pad(&result, &cut, PadMode::Constant, 0.0),
        false => Ok(result),
    }
}

/// Returns, per dimension, the total padding that keeps its size.
pub(crate) fn same_padding(weight: &Tensor, dilation: &[usize]) -> Result<Vec<usize>> {
    let kernel = weight.shape().get(2..).unwrap_or(&[]);
    if kernel.len() != dilation.len() || kernel.contains(&0) {
        return Err(Error::invalid(
            "conv_same",
            format!("a weight of shape {:?} does not match dilation {dilation:?}", weight.shape()),
        ));
    }
    Ok(kernel.iter().zip(dilation).map(|(&k, &d)| (k - 1).saturating_mul(d)).collect())
}

/// Computes the transposed convolution: the gradient of [`conv`] with respect to its input, with
/// `input` as the gradient, plus a bias. `output_padding` enlarges the result at the end of each
/// dimension: several sizes map to the input's under a strided convolution, and it selects one.
///
/// # Shapes
///
/// `input` is `[n, in, ..]` or `[in, ..]`, `weight` `[in, out / groups, ..]`, `bias` `[out]`;
/// `output_padding` has one entry per spatial dimension.
///
/// # Determinism
///
/// As [`conv`].
///
/// # Errors
///
/// The shapes and parameters do not match, the result would be empty, or an output padding is
/// neither below the stride nor below the dilation.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_tensor_core::ops::ConvParams;
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0], &[1, 1, 2])?;
/// let w = Tensor::from_slice(&[1.0f32, 10.0], &[1, 1, 2])?;
/// let params = ConvParams { stride: vec![2], ..ConvParams::padded(1, 0) };
/// let y = functional::conv_transpose1d(&x, &w, None, &params, &[0])?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 10.0, 2.0, 20.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn conv_transpose(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    params: &ConvParams,
    output_padding: &[usize],
) -> Result<Tensor> {
    batched(input, params.stride.len(), |input| {
        transposed(input, weight, bias, params, output_padding)
    })
}

by_dims! {
    conv(
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: &ConvParams
    ) -> Tensor, dims: params.stride.len();
    conv1d: 1, "one dimension";
    conv2d: 2, "two dimensions";
    conv3d: 3, "three dimensions";
}

by_dims! {
    conv_transpose(
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: &ConvParams,
        output_padding: &[usize]
    ) -> Tensor, dims: params.stride.len();
    conv_transpose1d: 1, "one dimension";
    conv_transpose2d: 2, "two dimensions";
    conv_transpose3d: 3, "three dimensions";
}

#[track_caller]
fn convolved(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    params: &ConvParams,
) -> Result<Tensor> {
    let op = Conv {
        input: input.value().clone(),
        weight: weight.value().clone(),
        bias: bias.map(|bias| bias.value().clone()),
        params: params.clone(),
    };
    let value = run(&op)?;
    let (x, w, b, params) = (input.clone(), weight.clone(), bias.cloned(), params.clone());
    let inputs: Vec<&Tensor> = [input, weight].into_iter().chain(bias).collect();
    Ok(Tensor::computed(value, &inputs, move |grad| {
        let mut grads = vec![
            wanted(&x, || conv_input_grad(grad, &w, x.shape(), &params))?,
            wanted(&w, || conv_weight_grad(grad, &x, w.shape(), &params))?,
        ];
        if let Some(b) = &b {
            grads.push(wanted(b, || {
                let dims: Vec<usize> = (0..grad.shape().len()).filter(|&dim| dim != 1).collect();
                reshape(&sum(grad, &dims, true)?, b.shape())
            })?);
        }
        Ok(grads)
    }))
}

#[track_caller]
fn transposed(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    params: &ConvParams,
    output_padding: &[usize],
) -> Result<Tensor> {
    let (conv, zeros) =
        Convolution::transposed(TRANSPOSED, input.shape(), weight.shape(), params, output_padding)?;
    let shape = conv.input_shape();
    let result = match zeros.iter().any(|&n| n != 0) {
        true => {
            let pads: Vec<i64> = zeros.iter().rev().flat_map(|&n| [0, n as i64]).collect();
            let input = pad(input, &pads, PadMode::Constant, 0.0)?;
            conv_input_grad(&input, weight, &shape, params)?
        }
        false => conv_input_grad(input, weight, &shape, params)?,
    };
    let Some(bias) = bias else { return Ok(result) };
    if bias.shape() != [shape[1]] {
        return Err(Error::ShapeMismatch {
            op: TRANSPOSED,
            what: "the bias",
            expected: vec![shape[1]],
            got: bias.shape().to_vec(),
        });
    }
    let each = [vec![shape[1]], vec![1; shape.len() - 2]].concat();
    add(&result, &reshape(bias, &each)?)
}

const TRANSPOSED: &str = "conv_transpose";

/// Returns the gradient of [`conv`] with respect to its input. Linear in both arguments.
fn conv_input_grad(
    grad: &Tensor,
    weight: &Tensor,
    input_shape: &[usize],
    params: &ConvParams,
) -> Result<Tensor> {
    let value = run(&ConvInputGrad {
        grad: grad.value().clone(),
        weight: weight.value().clone(),
        input_shape: input_shape.to_vec(),
        params: params.clone(),
    })?;
    let (g, w, params) = (grad.clone(), weight.clone(), params.clone());
    Ok(Tensor::computed(value, &[grad, weight], move |outer| {
        Ok(vec![
            wanted(&g, || convolved(outer, &w, None, &params))?,
            wanted(&w, || conv_weight_grad(&g, outer, w.shape(), &params))?,
        ])
    }))
}

/// Returns the gradient of [`conv`] with respect to its weight. Linear in both arguments.
fn conv_weight_grad(
    grad: &Tensor,
    input: &Tensor,
    weight_shape: &[usize],
    params: &ConvParams,
) -> Result<Tensor> {
    let value = run(&ConvWeightGrad {
        grad: grad.value().clone(),
        input: input.value().clone(),
        weight_shape: weight_shape.to_vec(),
        params: params.clone(),
    })?;
    let (g, x, params) = (grad.clone(), input.clone(), params.clone());
    Ok(Tensor::computed(value, &[grad, input], move |outer| {
        Ok(vec![
            wanted(&g, || convolved(&x, outer, None, &params))?,
            wanted(&x, || conv_input_grad(&g, outer, x.shape(), &params))?,
        ])
    }))
}
