// Written by `cargo xtask build-kernels` from kernels/norm.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::norm::RawBatch;

pub(crate) const FAMILY: Family =
    Family { name: "norm", ptx: include_str!("../../../ptx/norm.ptx") };
const _: () = assert!(size_of::<RawBatch>() == 24);

kernels! {
    Portable ChannelSums<T: Float> [f32 => "channel_sums_f32", f64 => "channel_sums_f64"]
        (write out: f64, read input: T, value p: RawBatch, value blocks: usize);
    Portable ChannelMeans [=> "channel_means"]
        (
            write out: f64, read partials: f64, value rows: usize, value blocks: usize,
            value count: f64,
        );
    Portable ChannelSquares<T: Float> [f32 => "channel_squares_f32", f64 => "channel_squares_f64"]
        (write out: f64, read input: T, read mean: f64, value p: RawBatch, value blocks: usize);
    Portable BatchStatistics<T: Float> [
        f32 => "batch_statistics_f32", f64 => "batch_statistics_f64",
    ]
        (
            write mean: T, write variance: T, write rstd: T, write scaled: T, read input: T,
            read means: f64, read squares: f64, value p: RawBatch, value blocks: usize,
            value eps: f64,
        );
    Portable GivenStatistics<T: Float> [
        f32 => "given_statistics_f32", f64 => "given_statistics_f64",
    ]
        (write scaled: T, read mean: T, read variance: T, value n: usize, value eps: f64);
    Portable BatchNormalize<T: Float> [f32 => "batch_normalize_f32", f64 => "batch_normalize_f64"]
        (
            write out: T, read input: T, read scaled: T, read weight: T, read bias: T,
            value p: RawBatch,
        );
    Portable BatchNormBlocks<T: Float> [
        f32 => "batch_norm_blocks_f32", f64 => "batch_norm_blocks_f64",
    ]
        (
            write partials: f64, write scaled: T, read grad: T, read input: T, read mean: T,
            read rstd: T, value p: RawBatch, value blocks: usize, value eps: f64,
        );
    Portable BatchNormSums<T: Float> [f32 => "batch_norm_sums_f32", f64 => "batch_norm_sums_f64"]
        (
            write sums: f64, write weight_grad: T, write bias_grad: T, read partials: f64,
            value channels: usize, value blocks: usize,
        );
    Portable BatchNormInputGrad<T: Float> [
        f32 => "batch_norm_input_grad_f32", f64 => "batch_norm_input_grad_f64",
    ]
        (
            write out: T, read grad: T, read input: T, read scaled: T, read weight: T,
            read sums: f64, value p: RawBatch,
        );
    Portable LayerNorm<T: Float> [f32 => "layer_norm_f32", f64 => "layer_norm_f64"]
        (
            write out: T, write mean: T, write rstd: T, read input: T, read weight: T, read bias: T,
            value rows: usize, value width: usize, value eps: f64,
        );
    Portable LayerNormInputGrad<T: Float> [
        f32 => "layer_norm_input_grad_f32", f64 => "layer_norm_input_grad_f64",
    ]
        (
            write out: T, write scaled: T, read grad: T, read input: T, read weight: T,
            read mean: T, read rstd: T, value rows: usize, value width: usize, value eps: f64,
        );
    Portable LayerNormColumns<T: Float> [
        f32 => "layer_norm_columns_f32", f64 => "layer_norm_columns_f64",
    ]
        (
            write partials: f64, read grad: T, read input: T, read scaled: T, value rows: usize,
            value width: usize, value blocks: usize,
        );
    Portable LayerNormWeightGrad<T: Float> [
        f32 => "layer_norm_weight_grad_f32", f64 => "layer_norm_weight_grad_f64",
    ]
        (write weight_grad: T, write bias_grad: T, read sums: f64, value width: usize);
    Portable RmsNorm<T: Float> [f32 => "rms_norm_f32", f64 => "rms_norm_f64"]
        (
            write out: T, write factor: T, write rstd: T, read input: T, read weight: T,
            value weighted: u32, value rows: usize, value width: usize, value eps: f64,
        );
    Portable RmsNormInputGrad<T: Float> [
        f32 => "rms_norm_input_grad_f32", f64 => "rms_norm_input_grad_f64",
    ]
        (
            write out: T, read grad: T, read input: T, read weight: T, value weighted: u32,
            read factor: T, read rstd: T, value rows: usize, value width: usize,
        );
    Portable RmsNormLanes<T: Float> [f32 => "rms_norm_lanes_f32", f64 => "rms_norm_lanes_f64"]
        (
            write out: f64, read grad: T, read input: T, read factor: T, read rstd: T,
            value rows: usize, value width: usize, value start: f64,
        );
    Portable RmsNormHalves [=> "rms_norm_halves"]
        (
            write out: f64, read lanes: f64, value rows: usize, value width: usize,
            value blocks: usize,
        );
    Portable RmsNormWeightGrad<T: Float> [
        f32 => "rms_norm_weight_grad_f32", f64 => "rms_norm_weight_grad_f64",
    ]
        (write out: T, read sums: f64, value width: usize);
}
