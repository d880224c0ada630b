//! The first difference of two runs: ledgers of made-up runs with planted differences, broken
//! ledgers, ledgers of other recorders.

mod broken;
#[cfg(feature = "zstd")]
mod compressed;
mod foreign;
mod planted;
mod program;
mod random;
mod shown;
mod uncompared;
