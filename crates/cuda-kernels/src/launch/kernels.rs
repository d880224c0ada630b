//! A type for each kernel, with its parameters as fields.
//!
//! Written by `cargo xtask build-kernels`. Do not edit.

pub(crate) mod attention;
pub(crate) mod attention_grad;
pub(crate) mod bincount;
pub(crate) mod conv;
pub(crate) mod conv_tiles;
pub(crate) mod ctc;
pub(crate) mod digest;
pub(crate) mod elementwise;
pub(crate) mod embedding;
pub(crate) mod formula;
pub(crate) mod grid_sample;
pub(crate) mod group_norm;
pub(crate) mod interpolate;
pub(crate) mod linalg;
pub(crate) mod loss;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod optim;
pub(crate) mod padding;
pub(crate) mod pooling;
pub(crate) mod random;
pub(crate) mod recurrent;
pub(crate) mod reduce;
pub(crate) mod rotary;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod sort;
pub(crate) mod sparse;
pub(crate) mod status;
pub(crate) mod totals;
