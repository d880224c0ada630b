//! Kernels against naive oracles, and with hostile arguments: one program, so that the kernels are compiled for their tests once.

mod arguments;
mod bincount;
mod blocks;
mod embedding;
mod environment;
mod exact;
mod flip;
mod flushed;
mod formula;
mod grid_sample;
mod hostile;
mod index;
mod integer;
mod interpolate;
mod linalg;
mod logits;
mod norm;
mod optim;
mod padding;
mod pooling;
mod reduce;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod strided;

#[path = "../invariance/mod.rs"]
mod invariance;

// Private parts of the library with tests of their own, which run here: see `[lib]` in Cargo.toml.
#[allow(dead_code)]
#[path = "../../src/arch/gather.rs"]
mod gather;
#[allow(dead_code)]
#[path = "../../src/short.rs"]
mod short;
#[allow(dead_code)]
#[path = "../../src/arch/stream.rs"]
mod stream;
#[allow(dead_code)]
#[path = "../../src/arch/transpose.rs"]
mod transpose;

#[path = "../shapes/pool.rs"]
mod pool;
#[path = "../shapes/sampling.rs"]
mod sampling;
