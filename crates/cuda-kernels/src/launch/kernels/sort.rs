// Written by `cargo xtask build-kernels` from kernels/sort.cu. Do not edit.

use crate::device::{Float, Number, Sortable, Word};
use crate::launch::Family;
use crate::launch::declared::sort::{RawChosen, RawSelect, RawSort, RawTake};

pub(crate) const FAMILY: Family =
    Family { name: "sort", ptx: include_str!("../../../ptx/sort.ptx") };
const _: () = assert!(size_of::<RawSelect>() == 40);
const _: () = assert!(size_of::<RawSort>() == 64);
const _: () = assert!(size_of::<RawTake>() == 48);

kernels! {
    Portable SortTiles<T: Sortable> [
        f32 => "sort_tiles_f32", f64 => "sort_tiles_f64", i64 => "sort_tiles_i64",
    ]
        (write keys: T::Key, write places: u32, read input: T, read picks: u32, value p: RawSort);
    Portable SortLines<T: Sortable> [
        f32 => "sort_lines_f32", f64 => "sort_lines_f64", i64 => "sort_lines_i64",
    ]
        (write keys: T::Key, write places: u32, read input: T, read picks: u32, value p: RawSort);
    Portable SortRows<T: Number> [
        f32 => "sort_rows_f32", f64 => "sort_rows_f64", i64 => "sort_rows_i64",
    ]
        (write values: T, write indices: i64, read input: T, value p: RawSort);
    Portable SortDiffers<T: Number> [
        f32 => "sort_differs_f32", f64 => "sort_differs_f64", i64 => "sort_differs_i64",
    ]
        (write differs: u64, read input: T, read picks: u32, value p: RawSort);
    Portable SortCounts<T: Sortable> [
        f32 => "sort_counts_f32", f64 => "sort_counts_f64", i64 => "sort_counts_i64",
    ]
        (
            write counts: u32, read keys: T::Key, read input: T, read picks: u32, read differs: u64,
            value p: RawSort, value pass: u32,
        );
    Portable SortStarts [=> "sort_starts"]
        (
            write counts: u32, write totals: u32, read differs: u64, value p: RawSort,
            value pass: u32,
        );
    Portable SortMove<T: Sortable> [
        f32 => "sort_move_f32", f64 => "sort_move_f64", i64 => "sort_move_i64",
    ]
        (
            write keys: T::Key, write places: u32, read input: T, read picks: u32, read counts: u32,
            read totals: u32, read differs: u64, value p: RawSort, value pass: u32,
        );
    Portable SelectLines<T: Number> [
        f32 => "select_lines_f32", f64 => "select_lines_f64", i64 => "select_lines_i64",
    ]
        (write picks: u32, read input: T, value p: RawSelect);
    Portable SelectDigits<T: Number> [
        f32 => "select_digits_f32", f64 => "select_digits_f64", i64 => "select_digits_i64",
    ]
        (
            write bins: u32, write chosen: RawChosen, read input: T, value p: RawSelect,
            value pass: u32,
        );
    Portable SelectCounts<T: Number> [
        f32 => "select_counts_f32", f64 => "select_counts_f64", i64 => "select_counts_i64",
    ]
        (
            write counts: u32, write chosen: RawChosen, read input: T, read bins: u32,
            value p: RawSelect, value pass: u32,
        );
    Portable SelectWrite<T: Number> [
        f32 => "select_write_f32", f64 => "select_write_f64", i64 => "select_write_i64",
    ]
        (
            write picks: u32, read input: T, read chosen: RawChosen, read counts: u32,
            value p: RawSelect, value pass: u32,
        );
    Portable SortTake<T: Word> [b32 => "sort_take_b32", b64 => "sort_take_b64"]
        (write values: T, write indices: i64, read input: T, read places: u32, value p: RawTake);
    Portable SortMedian<T: Sortable> [f32 => "sort_median_f32", f64 => "sort_median_f64"]
        (
            write values: T, write indices: i64, read input: T, read keys: T::Key, read places: u32,
            value p: RawTake, value ignore_nan: u32,
        );
    Portable SelectMedian<T: Float> [f32 => "select_median_f32", f64 => "select_median_f64"]
        (write values: T, write indices: i64, read input: T, read places: u32, value p: RawTake);
    Portable UniqueFlags<T: Number> [
        f32 => "unique_flags_f32", f64 => "unique_flags_f64", i64 => "unique_flags_i64",
    ]
        (write flags: u32, read input: T, read order: u32, value n: usize, value sorted: u32);
    Portable Unique<T: Word> [b32 => "unique_b32", b64 => "unique_b64"]
        (
            write values: T, write inverse: i64, write begins: u32, read input: T, read order: u32,
            read flags: u32, read before: u32, value n: usize, value sorted: u32,
        );
    Portable UniqueCounts [=> "unique_counts"]
        (write counts: i64, read begins: u32, value count: usize, value n: usize);
    Portable NonzeroFlags<T: Word> [
        u8 => "nonzero_flags_u8", f32 => "nonzero_flags_f32", f64 => "nonzero_flags_f64",
        i64 => "nonzero_flags_i64",
    ]
        (write flags: u32, read input: T, value n: usize);
    Portable NonzeroPositions [=> "nonzero_positions"]
        (
            write out: i64, read flags: u32, read before: u32, read shape: u64, value rank: usize,
            value n: usize,
        );
    Portable UniqueRowsStart [=> "unique_rows_start"]
        (write order: u32, value rows: usize);
    Portable UniqueRowsMerge<T: Number> [
        f32 => "unique_rows_merge_f32", f64 => "unique_rows_merge_f64",
        i64 => "unique_rows_merge_i64",
    ]
        (
            write order_out: u32, read order: u32, read input: T, value rows: usize,
            value width: usize, value run: usize,
        );
    Portable UniqueRowsFlags<T: Number> [
        f32 => "unique_rows_flags_f32", f64 => "unique_rows_flags_f64",
        i64 => "unique_rows_flags_i64",
    ]
        (write flags: u32, read order: u32, read input: T, value rows: usize, value width: usize);
    Portable UniqueRows [=> "unique_rows"]
        (
            write firsts: i64, write inverse: i64, write begins: u32, read order: u32,
            read flags: u32, read before: u32, value rows: usize,
        );
}
