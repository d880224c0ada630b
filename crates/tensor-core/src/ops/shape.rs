//! Operations that only move elements.

use super::{checked_shape, expect_dtype, expect_shape};
use crate::geometry::Split;
use crate::{DType, Error, Op, Result, Tensor};

/// Tensors concatenated along a dimension.
#[derive(Clone, Debug)]
pub struct Cat {
    /// At least one tensor; all have the same shape except along the dimension.
    pub inputs: Vec<Tensor>,
    /// The dimension.
    pub dim: usize,
}

impl Cat {
    /// Returns the shape of the result.
    fn output_shape(&self) -> Result<Vec<usize>> {
        let Some(first) = self.inputs.first() else {
            return Err(Error::invalid(Self::NAME, "expected at least one tensor"));
        };
        let mut shape = first.shape().to_vec();
        let mut total = 0usize;
        for input in &self.inputs {
            let size = input.size(Self::NAME, self.dim)?;
            total = total
                .checked_add(size)
                .ok_or_else(|| Error::invalid(Self::NAME, "the result has too many elements"))?;
        }
        shape[self.dim] = total;
        checked_shape(Self::NAME, &shape)
    }
}

impl Op for Cat {
    const NAME: &'static str = "cat";
    /// The result along the dimension, and its shape.
    type Plan = (Split, Vec<usize>);
    type Output = Tensor;

    crate::inputs![inputs];
    crate::parameters![dim];

    fn dtype(&self) -> DType {
        self.inputs.first().map_or(DType::F32, Tensor::dtype)
    }

    fn plan(&self) -> Result<(Split, Vec<usize>)> {
        let shape = self.output_shape()?;
        let mut expected = shape.clone();
        for input in &self.inputs {
            expect_dtype(Self::NAME, "a further tensor", input, self.inputs[0].dtype())?;
            expected[self.dim] = input.size(Self::NAME, self.dim)?;
            expect_shape(Self::NAME, "a further tensor", input, &expected)?;
        }
        Ok((Split::new(Self::NAME, &shape, self.dim)?, shape))
    }
}

/// A tensor with the elements in reverse order along some dimensions.
#[derive(Clone, Debug)]
pub struct Flip {
    /// The tensor.
    pub x: Tensor,
    /// The dimensions, each once.
    pub dims: Vec<usize>,
}

/// Neighbouring dimensions that are in reverse order together, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlipGroup {
    /// The number of their elements.
    pub size: usize,
    /// True if they are in reverse order.
    pub is_flipped: bool,
}

impl Op for Flip {
    const NAME: &'static str = "flip";
    /// The dimensions of more than one element, merged so that neighbours differ.
    type Plan = Vec<FlipGroup>;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![dims];

    fn plan(&self) -> Result<Vec<FlipGroup>> {
        for (position, &dim) in self.dims.iter().enumerate() {
            self.x.size(Self::NAME, dim)?;
            if self.dims[..position].contains(&dim) {
                let message = format!("dimension {dim} is listed twice in {:?}", self.dims);
                return Err(Error::invalid(Self::NAME, message));
            }
        }
        if self.x.numel() == 0 {
            // The product of some sizes may exceed the range.
            return Ok(vec![FlipGroup { size: 0, is_flipped: false }]);
        }
        let mut groups: Vec<FlipGroup> = Vec::new();
        for (dim, &size) in self.x.shape().iter().enumerate().filter(|&(_, &size)| size != 1) {
            let is_flipped = self.dims.contains(&dim);
            match groups.last_mut() {
                Some(last) if last.is_flipped == is_flipped => last.size *= size,
                _ => groups.push(FlipGroup { size, is_flipped }),
            }
        }
        Ok(groups)
    }
}
