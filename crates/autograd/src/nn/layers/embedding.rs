use samebits_rng::{Draw, Generator};
use samebits_tensor_core::ops::Normal;
use samebits_tensor_core::{DType, Device, Result, Tensor};

use crate::{Var, functional, run};

/// A table of rows, looked up by index.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[rows, width]`
    pub weight: Var,
}

impl Embedding {
    /// Standard normal rows, as PyTorch draws them.
    ///
    /// # Errors
    ///
    /// None that a caller can cause.
    pub fn new(rows: usize, width: usize, generator: &mut Generator) -> Result<Embedding> {
        let op = Normal {
            shape: vec![rows, width],
            dtype: DType::F32,
            device: Device::Cpu,
            mean: 0.0,
            std: 1.0,
            generator: generator.clone(),
        };
        let weight = run(&op)?;
        generator.advance(Draw::blocks_u32(rows * width));
        Ok(Embedding { weight: Var::parameter(weight) })
    }

    /// The rows that `index` names.
    ///
    /// # Errors
    ///
    /// An index is out of range.
    pub fn forward(&self, index: &Tensor) -> Result<Var> {
        functional::embedding(&self.weight, index)
    }
}
