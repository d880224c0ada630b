//! Each operation by its name.

use samebits::functional::{self as f, BagOptions, BatchReduction, ClassLoss, Reduction, Resize};
use samebits::ops::{BagMode, ConvParams, PoolParams, QrMode, ScatterReduceKind};
use samebits::prelude::*;
use samebits::tensor_core::geometry::{
    GridMode, GridPadding, GridParams, InterpolateMode, PadMode,
};
use samebits::{Error, Result};

use super::Case;

/// Whether the operation is a step of an optimiser.
pub(super) fn is_step(op: &str) -> bool {
    matches!(op, "sgd" | "momentum" | "adam" | "adamw" | "rmsprop" | "adagrad")
}

/// The results of the case's operation.
pub(super) fn results(case: &Case, x: &[Tensor]) -> Result<Vec<Tensor>> {
    let pair = |(a, b): (Tensor, Tensor)| vec![a, b];
    let triple = |(a, b, c): (Tensor, Tensor, Tensor)| vec![a, b, c];
    Ok(match case.op.as_str() {
        "max" => pair(f::max(&x[0], case.int("dim"), false)?),
        "min" => pair(f::min(&x[0], case.int("dim"), false)?),
        "cummax" => pair(f::cummax(&x[0], case.int("dim"))?),
        "cummin" => pair(f::cummin(&x[0], case.int("dim"))?),
        "sort" => pair(f::sort(&x[0], case.int("dim"), case.flag("descending"))?),
        "topk" => pair(f::topk(&x[0], case.int("k"), case.int("dim"), true)?),
        "kthvalue" => pair(f::kthvalue(&x[0], case.int("k"), case.int("dim"), false)?),
        "median" => pair(f::median_dim(&x[0], case.int("dim"), false)?),
        "unique" => triple(f::unique(&x[0])?),
        "qr" => pair(f::qr(&x[0], QrMode::Reduced)?),
        "svd" => triple(f::svd(&x[0])?),
        "max_pool" => pair(f::max_pool(&x[0], &pool(case))?),
        _ => vec![result(case, x)?],
    })
}

fn result(case: &Case, x: &[Tensor]) -> Result<Tensor> {
    match case.op.as_str() {
        "exp" => x[0].exp(),
        "tanh" => x[0].tanh(),
        "sigmoid" => x[0].sigmoid(),
        "sin" => x[0].sin(),
        "cos" => x[0].cos(),
        "erf" => x[0].erf(),
        "expm1" => x[0].expm1(),
        "relu" => x[0].relu(),
        "gelu" => x[0].gelu(),
        "gelu_tanh" => f::gelu_tanh(&x[0]),
        "silu" => x[0].silu(),
        "abs" => x[0].abs(),
        "neg" => f::neg(&x[0]),
        "square" => x[0].square(),
        "leaky_relu" => x[0].leaky_relu(0.01),
        "softplus" => f::softplus(&x[0], 1.0, 20.0),
        "elu" => x[0].elu(1.0),
        "mish" => f::mish(&x[0]),
        "hardswish" => x[0].hardswish(),
        "log_sigmoid" => x[0].log_sigmoid(),
        "clamp" => x[0].clamp(Some(-0.5), Some(0.5)),
        "affine" => x[0].affine(2.0, 1.0),
        "log" => x[0].log(),
        "sqrt" => x[0].sqrt(),
        "rsqrt" => f::rsqrt(&x[0]),
        "reciprocal" => f::reciprocal(&x[0]),
        "log1p" => x[0].log1p(),
        "log2" => x[0].log2(),
        "add" => f::add(&x[0], &x[1]),
        "sub" => f::sub(&x[0], &x[1]),
        "mul" => f::mul(&x[0], &x[1]),
        "div" => f::div(&x[0], &x[1]),
        "maximum" => f::maximum(&x[0], &x[1]),
        "minimum" => f::minimum(&x[0], &x[1]),
        "pow" => f::pow(&x[0], &x[1]),
        "lt" => f::lt(&x[0], &x[1]),
        "where" => f::where_(&x[0], &x[1], &x[2]),
        "masked_fill" => f::masked_fill(&x[1], &x[0], 0.0),
        "addcmul" => f::addcmul(&x[0], &x[1], &x[2], 0.5),
        "lerp" => f::lerp(&x[0], &x[1], &x[2]),
        "sum" | "mean" | "var" | "std" | "amax" | "amin" | "logsumexp" | "norm" => {
            let (dims, keepdim) = (case.ints("dims"), case.flag("keepdim"));
            match case.op.as_str() {
                "sum" => f::sum(&x[0], dims, keepdim),
                "mean" => f::mean(&x[0], dims, keepdim),
                "var" => f::var(&x[0], dims, 1.0, keepdim),
                "std" => f::std(&x[0], dims, 1.0, keepdim),
                "amax" => f::amax(&x[0], dims, keepdim),
                "amin" => f::amin(&x[0], dims, keepdim),
                "logsumexp" => f::logsumexp(&x[0], dims, keepdim),
                _ => f::norm(&x[0], 2.0, dims, keepdim),
            }
        }
        "argmax" => f::argmax(&x[0], case.int("dim"), false),
        "argmin" => f::argmin(&x[0], case.int("dim"), false),
        "any" => f::any(&x[0], case.int("dim"), false),
        "all" => f::all(&x[0], case.int("dim"), false),
        "prod" => f::prod(&x[0], case.int("dim"), false),
        "softmax" => x[0].softmax(case.int("dim")),
        "log_softmax" => x[0].log_softmax(case.int("dim")),
        "layer_norm" => f::layer_norm(&x[0], x[1].shape(), Some(&x[1]), Some(&x[2]), 1e-5),
        "rms_norm" => f::rms_norm(&x[0], x[1].shape(), Some(&x[1]), Some(1e-5)),
        "batch_norm" => Ok(f::batch_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-5)?.0),
        "group_norm" => f::group_norm(&x[0], case.int("groups"), Some(&x[1]), Some(&x[2]), 1e-5),
        "instance_norm" => Ok(f::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-5)?.0),
        "gather" => f::gather(&x[0], case.int("dim"), &x[1]),
        "index_select" => f::index_select(&x[0], case.int("dim"), &x[1]),
        "index_add" => f::index_add(&x[0], case.int("dim"), &x[1], &x[2], 1.0),
        "index_copy" => f::index_copy(&x[0], case.int("dim"), &x[1], &x[2]),
        "scatter_add" => f::scatter_add(&x[0], case.int("dim"), &x[1], &x[2]),
        "scatter_reduce" => {
            let kind = match case.text("reduce") {
                "sum" => ScatterReduceKind::Sum,
                "mean" => ScatterReduceKind::Mean,
                "prod" => ScatterReduceKind::Prod,
                "amax" => ScatterReduceKind::Amax,
                _ => ScatterReduceKind::Amin,
            };
            let include = case.flag("include_self");
            f::scatter_reduce(&x[0], case.int("dim"), &x[1], &x[2], kind, include)
        }
        "embedding" => f::embedding(&x[0], &x[1]),
        "embedding_bag" => {
            let mode = if case.text("mode") == "sum" { BagMode::Sum } else { BagMode::Mean };
            let options = BagOptions { mode, ..BagOptions::default() };
            f::embedding_bag(&x[0], &x[1], None, None, options)
        }
        "bincount" => f::bincount(&x[0], x.get(1), case.int("bins")),
        "matmul" => f::matmul(&x[0], &x[1]),
        "bmm" => f::bmm(&x[0], &x[1]),
        "mv" => f::mv(&x[0], &x[1]),
        "linear" => f::linear(&x[0], &x[1], Some(&x[2])),
        "addmm" => f::addmm(&x[0], &x[1], &x[2], 1.0, 1.0),
        "conv" => f::conv(&x[0], &x[1], x.get(2), &conv(case)),
        "conv_transpose" => {
            let params = conv(case);
            let output_padding = vec![0; params.stride.len()];
            f::conv_transpose(&x[0], &x[1], x.get(2), &params, &output_padding)
        }
        "avg_pool" => f::avg_pool(&x[0], &pool(case), true, None),
        "adaptive_avg_pool" => f::adaptive_avg_pool(&x[0], &case.ints("size")),
        "cumsum" => x[0].cumsum(case.int("dim")),
        "cumprod" => x[0].cumprod(case.int("dim")),
        "logcumsumexp" => x[0].logcumsumexp(case.int("dim")),
        "argsort" => x[0].argsort(case.int("dim"), case.flag("descending")),
        "attention" => f::scaled_dot_product_attention(
            &x[0],
            &x[1],
            &x[2],
            None,
            0.0,
            case.flag("causal"),
            None,
        ),
        "contiguous" => {
            let size = x[0].numel();
            x[0].reshape([size])
        }
        "cat" => f::cat(x, case.int("dim")),
        "stack" => f::stack(x, case.int("dim")),
        "flip" => f::flip(&x[0], case.ints("dims")),
        "roll" => f::roll(&x[0], &[case.int("shift") as i64], case.int("dim")),
        "repeat" => f::repeat(&x[0], &case.ints("sizes")),
        "tril" => f::tril(&x[0], case.int("diagonal") as i64),
        _ => loss_or_resample(case, x),
    }
}

fn loss_or_resample(case: &Case, x: &[Tensor]) -> Result<Tensor> {
    let reduction = || match case.text("reduction") {
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        _ => Reduction::None,
    };
    let classes = || ClassLoss { reduction: reduction(), ..ClassLoss::default() };
    match case.op.as_str() {
        "cross_entropy" => f::cross_entropy_with(&x[0], &x[1], &classes()),
        "nll_loss" => f::nll_loss_with(&x[0], &x[1], &classes()),
        "mse_loss" => f::mse_loss(&x[0], &x[1], reduction()),
        "l1_loss" => f::l1_loss(&x[0], &x[1], reduction()),
        "smooth_l1_loss" => f::smooth_l1_loss(&x[0], &x[1], 1.0, reduction()),
        "huber_loss" => f::huber_loss(&x[0], &x[1], 1.0, reduction()),
        "binary_cross_entropy" => f::binary_cross_entropy(&x[0], &x[1], None, reduction()),
        "bce_with_logits" => {
            f::binary_cross_entropy_with_logits(&x[0], &x[1], None, None, reduction())
        }
        "kl_div" => f::kl_div(&x[0], &x[1], BatchReduction::Of(reduction()), false),
        "interpolate" => {
            let mode = match case.text("mode") {
                "nearest" => InterpolateMode::Nearest,
                "bilinear" => InterpolateMode::Linear { align_corners: false },
                _ => InterpolateMode::Cubic { align_corners: false },
            };
            f::interpolate(&x[0], Resize::Size(&case.ints("size")), mode)
        }
        "grid_sample" => {
            let nearest = case.text("mode") == "nearest";
            let mode = if nearest { GridMode::Nearest } else { GridMode::Linear };
            let padding = GridPadding::Zeros;
            f::grid_sample(&x[0], &x[1], GridParams { mode, padding, align_corners: false })
        }
        "pad" => {
            let mode = match case.text("mode") {
                "constant" => PadMode::Constant,
                "reflect" => PadMode::Reflect,
                "replicate" => PadMode::Replicate,
                _ => PadMode::Circular,
            };
            let pads: Vec<i64> = case.ints("pads").into_iter().map(|pad| pad as i64).collect();
            f::pad(&x[0], &pads, mode, 0.0)
        }
        "pixel_shuffle" => f::pixel_shuffle(&x[0], case.int("factor")),
        op => Err(Error::invalid("random", format!("no operation {op}"))),
    }
}

fn conv(case: &Case) -> ConvParams {
    ConvParams {
        stride: case.ints("stride"),
        padding: case.ints("padding"),
        dilation: case.ints("dilation"),
        groups: case.int("groups"),
    }
}

fn pool(case: &Case) -> PoolParams {
    let kernel = case.ints("kernel");
    PoolParams {
        stride: case.ints("stride"),
        padding: case.ints("padding"),
        dilation: vec![1; kernel.len()],
        ceil_mode: false,
        kernel,
    }
}
