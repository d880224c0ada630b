//! The geometry shared by all operations on planes.

use crate::layout::numel;
use crate::{Error, Result};

/// Planes of one to three dimensions, each with an input and an output size. One and two dimensions
/// are stored as three, with leading dimensions of size 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planes<A> {
    op: &'static str,
    planes: usize,
    dims: usize,
    axes: [A; 3],
    output_shape: Vec<usize>,
}

/// A dimension of [`Planes`].
pub trait Axis: Copy {
    /// A dummy dimension, of size 1 and left unchanged.
    const UNIT: Self;

    /// Returns the size of the input.
    fn input(&self) -> usize;

    /// Returns the size of the output.
    fn output(&self) -> usize;
}

impl<A: Axis> Planes<A> {
    /// Checks and returns the planes of a tensor of shape `input`. `axis` makes each of the last
    /// `dims` dimensions from its number and size.
    pub(super) fn build(
        op: &'static str,
        input: &[usize],
        dims: usize,
        mut axis: impl FnMut(usize, usize) -> Result<A>,
    ) -> Result<Planes<A>> {
        if !(1..=3).contains(&dims) || dims > input.len() {
            return Err(Error::invalid(
                op,
                format!("1 to 3 dimensions of shape {input:?} were expected, got {dims}"),
            ));
        }
        numel(op, input)?;
        let (outer, sizes) = input.split_at(input.len() - dims);
        let mut output_shape = outer.to_vec();
        let mut axes = [A::UNIT; 3];
        for (dim, &size) in sizes.iter().enumerate() {
            let axis = axis(dim, size)?;
            output_shape.push(axis.output());
            axes[3 - dims + dim] = axis;
        }
        numel(op, &output_shape)?;
        Ok(Planes { op, planes: outer.iter().product(), dims, axes, output_shape })
    }

    /// Returns the operation's name.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// Returns the number of planes.
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// Returns the number of dimensions, without the leading ones of size 1.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Returns the dimensions.
    pub fn axes(&self) -> &[A; 3] {
        &self.axes
    }

    /// Returns the sizes of an input plane.
    pub fn input(&self) -> [usize; 3] {
        self.axes.map(|axis| axis.input())
    }

    /// Returns the sizes of an output plane.
    pub fn output(&self) -> [usize; 3] {
        self.axes.map(|axis| axis.output())
    }

    /// Returns the shape of the result.
    pub fn output_shape(&self) -> &[usize] {
        &self.output_shape
    }

    /// Returns the number of elements of an input plane.
    pub fn input_plane(&self) -> usize {
        self.input().iter().product()
    }

    /// Returns the number of elements of an output plane.
    pub fn output_plane(&self) -> usize {
        self.output().iter().product()
    }

    /// Returns the number of elements of the input, all planes together.
    pub fn input_len(&self) -> usize {
        self.planes * self.input_plane()
    }

    /// Returns the number of elements of the output, all planes together.
    pub fn output_len(&self) -> usize {
        self.planes * self.output_plane()
    }
}
