use samebits::Result;
use samebits::Tensor;
use samebits::functional as f;
use samebits::ops::ConvParams;
use samebits::sparse::{SparseCoo, sparse_mm};
use samebits::tensor_core::Tensor as Value;

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "bmm",
        run: |a| Ok(vec![("y", f::bmm(a.tensor("input")?, a.tensor("other")?)?)]),
        tolerance: product,
    },
    Handler { op: "conv1d", run: conv, tolerance: convolved },
    Handler { op: "conv2d", run: conv, tolerance: convolved },
    Handler { op: "conv3d", run: conv, tolerance: convolved },
    Handler { op: "conv_transpose1d", run: conv_transpose, tolerance: convolved },
    Handler { op: "conv_transpose2d", run: conv_transpose, tolerance: convolved },
    Handler { op: "conv_transpose3d", run: conv_transpose, tolerance: convolved },
    Handler {
        op: "linear",
        run: |a| {
            let y = f::linear(a.tensor("input")?, a.tensor("weight")?, a.optional("bias"))?;
            Ok(vec![("y", y)])
        },
        tolerance: product,
    },
    Handler {
        op: "matmul",
        run: |a| Ok(vec![("y", f::matmul(a.tensor("input")?, a.tensor("other")?)?)]),
        tolerance: product,
    },
    Handler {
        op: "scaled_dot_product_attention",
        run: |a| {
            let truth: Option<bool> = a.param("truth")?;
            let is_causal: Option<bool> = a.param("is_causal")?;
            let offset: Option<usize> = a.param("causal_offset")?;
            let enable_gqa: Option<bool> = a.param("enable_gqa")?;
            let mask = a.optional("attn_mask");
            let shown =
                mask.filter(|_| truth == Some(true)).map(|mask| mask.gt(0.0)).transpose()?;
            let options = f::AttentionOptions {
                attn_mask: shown.as_ref().or(mask),
                causal_offset: offset.or(is_causal.filter(|&causal| causal).map(|_| 0)),
                scale: a.param("scale")?,
                enable_gqa: enable_gqa.unwrap_or(false),
                ..f::AttentionOptions::default()
            };
            let [q, k, v] = [a.tensor("query")?, a.tensor("key")?, a.tensor("value")?];
            Ok(vec![("y", f::scaled_dot_product_attention_with(q, k, v, &options)?)])
        },
        tolerance: |_, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Largest(16.0),
            Quantity::Grad(_) => Tolerance::Largest(64.0),
        },
    },
    Handler {
        op: "sparse_mm",
        run: |a| {
            let places: Vec<i64> = [a.tensor("row_indices")?, a.tensor("col_indices")?]
                .map(Tensor::to_vec)
                .into_iter()
                .collect::<Result<Vec<Vec<i64>>>>()?
                .concat();
            let values = a.tensor("values")?;
            let indices = Value::from_slice(&places, &[2, values.value().numel()])?;
            let shape = [a.param("rows")?, a.param("cols")?];
            let sparse = SparseCoo::new(&Tensor::from(&indices), values, &shape)?;
            Ok(vec![("y", sparse_mm(&sparse, a.tensor("dense")?)?)])
        },
        // Elements at the same position are rounded once more before the product.
        tolerance: |a, _| {
            let longest = |name| a.tensor(name).map_or(0, |x| x.shape().iter().sum::<usize>());
            Tolerance::Contraction((longest("values") + longest("dense")) as f64)
        },
    },
];

/// Bounds a product: no sum has more terms than the operands have rows or columns; a bias adds one
/// rounding.
fn product(a: &Arguments<'_>, _: Quantity<'_>) -> Tolerance {
    let longest = |name| {
        let shape = a.optional(name).map(|x| x.shape().to_vec()).unwrap_or_default();
        // Leading dimensions of the left operand are rows, too.
        let rows: usize = shape.iter().rev().skip(1).product();
        shape.iter().copied().max().unwrap_or(0).max(rows)
    };
    let longest = ["input", "other", "weight"].map(longest).into_iter().max().unwrap_or(0);
    Tolerance::Contraction(longest as f64 + 1.0)
}

fn conv(a: &Arguments<'_>) -> Result<Outputs> {
    let (input, weight, bias) = (a.tensor("input")?, a.tensor("weight")?, a.optional("bias"));
    if a.param::<String>("padding").is_ok_and(|padding| padding == "same") {
        let ConvParams { dilation, groups, .. } = conv_params(a, false)?;
        return Ok(vec![("y", f::conv_same(input, weight, bias, &dilation, groups)?)]);
    }
    Ok(vec![("y", f::conv(input, weight, bias, &conv_params(a, true)?)?)])
}

fn conv_transpose(a: &Arguments<'_>) -> Result<Outputs> {
    let params = conv_params(a, true)?;
    let more = a.param::<Option<Vec<usize>>>("output_padding")?;
    let more = more.unwrap_or_else(|| vec![0; params.stride.len()]);
    let (input, weight, bias) = (a.tensor("input")?, a.tensor("weight")?, a.optional("bias"));
    Ok(vec![("y", f::conv_transpose(input, weight, bias, &params, &more)?)])
}

/// Missing parameters have PyTorch's defaults.
fn conv_params(a: &Arguments<'_>, padded: bool) -> Result<ConvParams> {
    let dims = a.tensor("weight")?.shape().len().saturating_sub(2);
    let list = |name, default| -> Result<Vec<usize>> {
        Ok(a.param::<Option<Vec<usize>>>(name)?.unwrap_or_else(|| vec![default; dims]))
    };
    Ok(ConvParams {
        stride: list("stride", 1)?,
        padding: if padded { list("padding", 0)? } else { vec![0; dims] },
        dilation: list("dilation", 1)?,
        groups: a.param::<Option<usize>>("groups")?.unwrap_or(1),
    })
}

/// Bounds a convolution: no sum has more terms than the weight has elements for a channel, or the
/// batch has positions.
fn convolved(a: &Arguments<'_>, _: Quantity<'_>) -> Tolerance {
    let numel = |name| a.tensor(name).map_or(1, Tensor::numel);
    let channels = |name, dim: usize| a.tensor(name).map_or(1, |x: &Tensor| x.shape()[dim].max(1));
    let (weight, input) = (numel("weight"), numel("input") / channels("input", 1));
    let taps = weight / channels("weight", 0).min(channels("weight", 1));
    Tolerance::Contraction((taps.max(input) + 1) as f64)
}
