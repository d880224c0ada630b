//! The structures that kernels take as parameters, by family. `cargo xtask build-kernels` writes them as
//! CUDA to `kernels/include/declared`.

pub(crate) mod attention;
pub(crate) mod conv;
pub(crate) mod ctc;
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
pub(crate) mod padding;
pub(crate) mod places;
pub(crate) mod pooling;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod rotary;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod sort;
pub(crate) mod sparse;
pub(crate) mod status;
pub(crate) mod table;
