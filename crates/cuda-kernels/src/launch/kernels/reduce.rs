// Written by `cargo xtask build-kernels` from kernels/reduce.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::reduce::RawReduce;

pub(crate) const FAMILY: Family =
    Family { name: "reduce", ptx: include_str!("../../../ptx/reduce.ptx") };
const _: () = assert!(size_of::<RawReduce>() == 32);

kernels! {
    Portable SumBlocks<T: Float> [f32 => "sum_blocks_f32", f64 => "sum_blocks_f64"]
        (write out: f64, read input: T, value p: RawReduce);
    Portable SumSquaresBlocks<T: Float> [
        f32 => "sum_squares_blocks_f32", f64 => "sum_squares_blocks_f64",
    ]
        (write out: f64, read input: T, value p: RawReduce);
    Portable SumMagnitudesBlocks<T: Float> [
        f32 => "sum_magnitudes_blocks_f32", f64 => "sum_magnitudes_blocks_f64",
    ]
        (write out: f64, read input: T, value p: RawReduce);
    Portable CountNonzeroBlocks<T: Float> [
        f32 => "count_nonzero_blocks_f32", f64 => "count_nonzero_blocks_f64",
    ]
        (write out: f64, read input: T, value p: RawReduce);
    Portable SumPowersBlocks<T: Float> [
        f32 => "sum_powers_blocks_f32", f64 => "sum_powers_blocks_f64",
    ]
        (write out: f64, read input: T, value p: RawReduce, value exponent: f64);
    Portable SumDeviationsBlocks<T: Float> [
        f32 => "sum_deviations_blocks_f32", f64 => "sum_deviations_blocks_f64",
    ]
        (write out: f64, read input: T, read rows: f64, value p: RawReduce);
    Portable SumExpBlocks<T: Float> [f32 => "sum_exp_blocks_f32", f64 => "sum_exp_blocks_f64"]
        (write out: f64, read input: T, read rows: T, value p: RawReduce);
    Portable SumScaledPowersBlocks<T: Float> [
        f32 => "sum_scaled_powers_blocks_f32", f64 => "sum_scaled_powers_blocks_f64",
    ]
        (write out: f64, read input: T, read rows: f64, value p: RawReduce, value exponent: f64);
    Portable NormScales<T: Float> [f32 => "norm_scales_f32", f64 => "norm_scales_f64"]
        (write out: f64, read input: T, value n: usize, value exponent: f64);
    Portable ProductBlocks<T: Float> [f32 => "product_blocks_f32", f64 => "product_blocks_f64"]
        (write out: f64, read input: T, value p: RawReduce);
    Portable IntegerBlocks [=> "integer_blocks"]
        (write out: i64, read input: i64, value p: RawReduce, value kind: u32, value first: i64);
    Portable IntegerColumns [=> "integer_columns"]
        (write out: i64, read input: i64, value p: RawReduce, value kind: u32, value first: i64);
    Portable SumColumns<T: Float> [f32 => "sum_columns_f32", f64 => "sum_columns_f64"]
        (write out: f64, read input: T, value p: RawReduce);
    Portable SumSquaresColumns<T: Float> [
        f32 => "sum_squares_columns_f32", f64 => "sum_squares_columns_f64",
    ]
        (write out: f64, read input: T, value p: RawReduce);
    Portable SumMagnitudesColumns<T: Float> [
        f32 => "sum_magnitudes_columns_f32", f64 => "sum_magnitudes_columns_f64",
    ]
        (write out: f64, read input: T, value p: RawReduce);
    Portable SumDeviationsColumns<T: Float> [
        f32 => "sum_deviations_columns_f32", f64 => "sum_deviations_columns_f64",
    ]
        (write out: f64, read input: T, read rows: f64, value p: RawReduce);
    Portable Finish<T: Float> [f32 => "finish_f32", f64 => "finish_f64"]
        (write out: T, read input: f64, value n: usize, value divisor: f64);
    Portable MendedMeans [=> "mended_means"]
        (write means: f64, read input: f64, value p: RawReduce);
    Portable MendedVariances [=> "mended_variances"]
        (
            write variances: f64, read squares: f64, read means: f64, read input: f64,
            value p: RawReduce, value divisor: f64,
        );
    Portable Roots<T: Float> [f32 => "roots_f32", f64 => "roots_f64"]
        (write out: T, read input: f64, value n: usize, value kind: u32, value exponent: f64);
    Portable LogsumexpFinish<T: Float> [
        f32 => "logsumexp_finish_f32", f64 => "logsumexp_finish_f64",
    ]
        (write out: T, read sums: f64, read largest: T, value n: usize);
    NotGuaranteed SumAtomic<T: Float> [f32 => "sum_f32_atomic"]
        (write out: T, read input: T, value p: RawReduce);
    Portable ExtremeBlocks<T: Float> [f32 => "extreme_blocks_f32", f64 => "extreme_blocks_f64"]
        (
            write values: T, write indices: i64, read input: T, value p: RawReduce,
            value minimum: u32,
        );
    Portable ExtremeColumns<T: Float> [f32 => "extreme_columns_f32", f64 => "extreme_columns_f64"]
        (
            write values: T, write indices: i64, read input: T, value p: RawReduce,
            value minimum: u32,
        );
    Portable ExtremeFound<T: Float> [f32 => "extreme_found_f32", f64 => "extreme_found_f64"]
        (
            write values: T, write indices: i64, read input: T, read at: i64, value p: RawReduce,
            value minimum: u32,
        );
}
