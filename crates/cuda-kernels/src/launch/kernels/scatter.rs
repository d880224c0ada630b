// Written by `cargo xtask build-kernels` from kernels/scatter.cu. Do not edit.

use crate::device::{Float, Number, Word};
use crate::launch::Family;
use crate::launch::declared::places::RawPart;
use crate::launch::declared::scatter::{RawRows, RawSegments};

pub(crate) const FAMILY: Family =
    Family { name: "scatter", ptx: include_str!("../../../ptx/scatter.ptx") };
const _: () = assert!(size_of::<RawPart>() == 160);
const _: () = assert!(size_of::<RawRows>() == 32);
const _: () = assert!(size_of::<RawSegments>() == 48);

kernels! {
    Portable ScatterKeys [=> "scatter_keys"]
        (write keys: i64, read index: i64, value p: RawRows, write status: u64);
    Portable PartKeys [=> "part_keys"]
        (write keys: i64, read index: i64, value p: RawPart, write status: u64);
    Portable JoinedKeys [=> "joined_keys"]
        (
            write keys: i64, read index: i64, value n: usize, value size: usize, value first: u32,
            write status: u64,
        );
    Portable PutKeys [=> "put_keys"]
        (write keys: i64, read index: i64, value n: usize, value size: usize, write status: u64);
    Portable IndexAddDeposit<T: Float> [f32 => "index_add_f32_deposit"]
        (
            write acc: u64, read source: T, read index: i64, value p: RawRows, value alpha: T,
            write status: u64,
        );
    Portable ExactRound<T: Float> [f32 => "exact_round_f32"]
        (write out: T, read acc: u64, value n: usize, value with_old: u32);
    Portable LongRound<T: Float> [f32 => "long_round_f32"]
        (
            write out: T, read acc: u64, read cursor: u64, read long_rows: u32,
            value p: RawSegments, value with_old: u32,
        );
    Portable RowsCount [=> "rows_count"]
        (write counts: u32, read index: i64, value n: usize, value size: usize, write status: u64);
    Portable RowsScan [=> "rows_scan"]
        (write starts: u32, read counts: u32, value n: usize, write totals: u32);
    Portable RowsScanAdd [=> "rows_scan_add"]
        (write starts: u32, value n: usize, read block_starts: u32);
    Portable RowsFill [=> "rows_fill"]
        (
            write positions: u32, write cursors: u32, read index: i64, value n: usize,
            value size: usize,
        );
    Portable RowsKeys [=> "rows_keys"]
        (write keys: i64, read index: i64, value n: usize, value size: usize);
    Portable RowsEnds [=> "rows_ends"]
        (write starts: u32, read counts: u32, value size: usize);
    Portable IndexAddF32Rows [=> "index_add_f32_rows"]
        (
            write out: f32, read source: f32, read positions: u32, read ends: u32, read counts: u32,
            write cursor: u64, write long_rows: u32, write firsts: u32, value p: RawRows,
            value alpha: f32, value old: u32,
        );
    Portable IndexAddF64Rows [=> "index_add_f64_rows"]
        (
            write out: f64, read source: f64, read positions: u32, read ends: u32, read counts: u32,
            value p: RawRows, value alpha: f64, value old: u32,
        );
    Portable IndexAddPieces<T: Float> [f32 => "index_add_f32_pieces"]
        (
            write acc: u64, read source: T, read positions: u32, read ends: u32, read counts: u32,
            read cursor: u64, read long_rows: u32, read firsts: u32, value p: RawRows,
            value alpha: T,
        );
    Portable OrderedSumRows<T: Float> [f32 => "ordered_sum_f32_rows", f64 => "ordered_sum_f64_rows"]
        (
            write out: T, read source: T, read positions: u32, read ends: u32, read counts: u32,
            value size: usize,
        );
    Portable ReduceProdRows<T: Number> [
        f32 => "reduce_prod_f32_rows", i64 => "reduce_prod_i64_rows",
    ]
        (
            write out: T, read source: T, read positions: u32, read ends: u32, read counts: u32,
            value size: usize, value with_old: u32,
        );
    Portable ReduceRows [=> "reduce_f64_rows"]
        (
            write out: f64, read source: f64, read positions: u32, read ends: u32, read counts: u32,
            value size: usize, value kind: u32, value with_old: u32,
        );
    Portable ReduceStart [=> "reduce_i64_start"]
        (write out: i64, read counts: u32, value size: usize, value kind: u32);
    Portable Reduce [=> "reduce_i64"]
        (
            write out: i64, read source: i64, read index: i64, value n: usize, value size: usize,
            value kind: u32,
        );
    Portable ReduceMean<T: Number> [i64 => "reduce_mean_i64", f32 => "reduce_mean_f32"]
        (write out: T, read counts: u32, value size: usize, value with_old: u32);
    NotGuaranteed IndexAddAtomic<T: Float> [f32 => "index_add_f32_atomic"]
        (
            write out: T, read source: T, read index: i64, value p: RawRows, value alpha: T,
            write status: u64,
        );
    Portable IndexAdd [=> "index_add_i64"]
        (
            write out: i64, read source: i64, read index: i64, value p: RawRows, value alpha: i64,
            write status: u64,
        );
    NotGuaranteed ScatterAddAtomic<T: Float> [f32 => "scatter_add_f32_atomic"]
        (write out: T, read source: T, read index: i64, value p: RawRows, write status: u64);
    NotGuaranteed ReduceProdAtomic<T: Float> [f32 => "reduce_prod_f32_atomic"]
        (
            write out: T, read source: T, read index: i64, value n: usize, value size: usize,
            write status: u64,
        );
    Portable IndexWinner [=> "index_winner"]
        (write winner: u64, read index: i64, value n: usize, value size: usize, write status: u64);
    Portable IndexCopy<T: Word> [
        b8 => "index_copy_b8", b16 => "index_copy_b16", b32 => "index_copy_b32",
        b64 => "index_copy_b64",
    ]
        (write out: T, read source: T, read winner: u64, value p: RawRows);
    Portable ReduceExtreme<T: Float> [f32 => "reduce_extreme_f32"]
        (
            write best: u64, read source: T, read index: i64, value n: usize, value size: usize,
            value minimum: u32, write status: u64,
        );
    Portable ReduceExtremeFinish<T: Float> [f32 => "reduce_extreme_f32_finish"]
        (
            write out: T, read best: u64, read source: T, value size: usize, value minimum: u32,
            value with_old: u32,
        );
    Portable IndexSelect<T: Word> [
        b8 => "index_select_b8", b16 => "index_select_b16", b32 => "index_select_b32",
        b64 => "index_select_b64",
    ]
        (write out: T, read source: T, read index: i64, value p: RawRows, write status: u64);
    Portable Gather<T: Word> [
        b8 => "gather_b8", b16 => "gather_b16", b32 => "gather_b32", b64 => "gather_b64",
    ]
        (write out: T, read source: T, read index: i64, value p: RawRows, write status: u64);
}
