//! What the workspace tests share: the table of operations and what to give each of them in each
//! proof, and the comparison with reference figures.

pub mod conformance;
pub mod fuzz;
mod samples;

pub use samples::{
    Batch, Case, Digest, Family, Gradient, Input, Make, Order, Sample, Samples, Tensors,
    drawn_cases, each, families, normal, samples, strided_families, tiny_families, unreached,
};

use samebits::ops::Normal;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Device, Generator, dispatch};

/// Normal numbers of a shape and type; each seed gives its own.
pub fn normal_of(shape: &[usize], dtype: DType, seed: u64) -> Value {
    dispatch(&Normal {
        shape: shape.to_vec(),
        dtype,
        device: Device::Cpu,
        mean: 0.0,
        std: 1.0,
        generator: Generator::new(seed),
    })
    .expect("finite parameters")
}

/// Indices below `bound`.
pub fn indices(count: usize, bound: i64, seed: u64) -> Value {
    let mut values = vec![0; count];
    Generator::new(seed).fill_randint(&mut values, 0, bound).expect("a positive bound");
    Value::from_slice(&values, &[count]).expect("as many values")
}
