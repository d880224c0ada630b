//! Sparse tensors: lists of elements ([`SparseCoo`]) and compressed rows ([`SparseCsr`]).
//!
//! The places of the elements are data, their values a [`Tensor`]: gradients flow to the values and to
//! the dense operands of products.
//!
//! # Determinism
//!
//! Elements at the same place are summed exactly and rounded once (f64: in the order of
//! the list), so that the order of a list of f32 has no influence. For products see
//! [`SparseMm`](samebits_tensor_core::ops::SparseMm).

mod csr;
mod product;

pub use csr::SparseCsr;
pub use product::{sparse_bmm, sparse_mm};

use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{DType, Device, Error, Result};

use crate::Tensor;
use crate::functional::{index_add, index_select, nonzero, reshape};

/// A sparse tensor as a list of its elements and their places.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::sparse::SparseCoo;
///
/// // Two elements at row 0, column 2.
/// let indices = Tensor::from_slice(&[0i64, 1, 0, 2, 0, 2], &[2, 3])?;
/// let values = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?.set_requires_grad(true)?;
/// let sparse = SparseCoo::new(&indices, &values, &[2, 3])?;
/// assert_eq!(sparse.to_dense()?.to_vec::<f32>()?, [0.0, 0.0, 4.0, 2.0, 0.0, 0.0]);
/// let sum = sparse.coalesce()?.values().square()?.sum_all()?;
/// assert_eq!(sum.backward()?.of(&values).unwrap().to_vec::<f32>()?, [8.0, 4.0, 8.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SparseCoo {
    /// The places of each dimension.
    places: Vec<Vec<usize>>,
    values: Tensor,
    shape: Vec<usize>,
    coalesced: bool,
}

impl SparseCoo {
    /// A sparse tensor of `shape`.
    ///
    /// # Shapes
    ///
    /// `indices` (i64) is `[dimensions, elements]`, `values` `[elements]`.
    ///
    /// # Errors
    ///
    /// The shapes do not match, or an index lies outside `shape`.
    pub fn new(indices: &Tensor, values: &Tensor, shape: &[usize]) -> Result<SparseCoo> {
        const OP: &str = "sparse_coo";
        let elements = values.numel();
        for (what, found, expected) in [
            ("the values", values.shape(), &[elements][..]),
            ("the indices", indices.shape(), &[shape.len(), elements]),
        ] {
            if found != expected {
                let (expected, got) = (expected.to_vec(), found.to_vec());
                return Err(Error::ShapeMismatch { op: OP, what, expected, got });
            }
        }
        if !values.dtype().is_full_float() {
            let (expected, got) = (DType::F32, values.dtype());
            return Err(Error::DTypeMismatch { op: OP, what: "the values", expected, got });
        }
        let flat: Vec<i64> = indices.to_vec()?;
        let mut places = Vec::new();
        for (dim, &size) in shape.iter().enumerate() {
            let row = &flat[dim * elements..][..elements];
            places.push(in_range(OP, row, dim * elements, size)?);
        }
        Ok(SparseCoo { places, values: values.clone(), shape: shape.to_vec(), coalesced: false })
    }

    /// The elements of a dense tensor that are not zero, coalesced. NaN is not zero.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] if a device fails.
    pub fn from_dense(dense: &Tensor) -> Result<SparseCoo> {
        let shape = dense.shape().to_vec();
        let flat = reshape(dense, [dense.numel()])?;
        let found = nonzero(&flat)?.flatten(0, -1)?;
        let mut places = vec![vec![0; found.numel()]; shape.len()];
        for (element, position) in found.to_vec::<i64>()?.into_iter().enumerate() {
            let mut rest = position as usize;
            for dim in (0..shape.len()).rev() {
                places[dim][element] = rest % shape[dim];
                rest /= shape[dim];
            }
        }
        let values = index_select(&flat, 0, &found)?;
        Ok(SparseCoo { places, values, shape, coalesced: true })
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// `[dimensions, elements]`: the places of the elements.
    ///
    /// # Errors
    ///
    /// None that a caller can cause.
    pub fn indices(&self) -> Result<Tensor> {
        let flat: Vec<i64> = self.places.iter().flatten().map(|&i| i as i64).collect();
        Tensor::from_slice(&flat, &[self.shape.len(), self.elements()])
    }

    /// The number of elements in the list.
    pub fn elements(&self) -> usize {
        self.values.numel()
    }

    /// Whether the elements are known to be in row-major order, each place at most once.
    pub fn is_coalesced(&self) -> bool {
        self.coalesced
    }

    /// The same tensor with its elements in row-major order and those at the same place summed.
    ///
    /// # Determinism
    ///
    /// Portable: the sums of f32 are exact and rounded once; f64 is added in the order of the
    /// list.
    ///
    /// # Errors
    ///
    /// None that a caller can cause.
    pub fn coalesce(&self) -> Result<SparseCoo> {
        if self.coalesced {
            return Ok(self.clone());
        }
        let place = |element: usize| self.places.iter().map(move |row| row[element]);
        let mut order: Vec<usize> = (0..self.elements()).collect();
        order.sort_by(|&a, &b| place(a).cmp(place(b)));
        let mut slots = vec![0; order.len()];
        let mut first: Vec<usize> = Vec::new();
        for &element in &order {
            if first.last().is_none_or(|&last| !place(last).eq(place(element))) {
                first.push(element);
            }
            slots[element] = first.len() - 1;
        }
        let places =
            self.places.iter().map(|row| first.iter().map(|&e| row[e]).collect()).collect();
        let device = self.values.device();
        let zeros = zeros(first.len(), &self.values)?;
        let values = index_add(&zeros, 0, &index(&slots, device)?, &self.values, 1.0)?;
        Ok(SparseCoo { places, values, shape: self.shape.clone(), coalesced: true })
    }

    /// The dense tensor; elements at the same place are summed as [`coalesce`](Self::coalesce)
    /// does.
    ///
    /// # Errors
    ///
    /// The dense tensor would be too large.
    pub fn to_dense(&self) -> Result<Tensor> {
        let total = numel("to_dense", &self.shape)?;
        let positions: Vec<usize> = (0..self.elements())
            .map(|element| {
                let places = self.places.iter().zip(&self.shape);
                places.fold(0, |position, (row, size)| position * size + row[element])
            })
            .collect();
        let zeros = zeros(total, &self.values)?;
        let positions = index(&positions, self.values.device())?;
        reshape(&index_add(&zeros, 0, &positions, &self.values, 1.0)?, &self.shape)
    }

    /// Swaps two dimensions.
    ///
    /// # Errors
    ///
    /// There is no such dimension.
    pub fn transpose(&self, a: usize, b: usize) -> Result<SparseCoo> {
        let rank = self.shape.len();
        if a >= rank || b >= rank {
            return Err(Error::invalid(
                "transpose",
                format!("dimensions {a} and {b} of a sparse tensor of shape {:?}", self.shape),
            ));
        }
        let mut new = self.clone();
        new.places.swap(a, b);
        new.shape.swap(a, b);
        new.coalesced = self.coalesced && a == b;
        Ok(new)
    }

    /// The same matrix in compressed rows, coalesced.
    ///
    /// # Errors
    ///
    /// This is not a matrix.
    pub fn to_csr(&self) -> Result<SparseCsr> {
        SparseCsr::from_coo(self)
    }
}

/// Indices as places, which `base` more indices come before.
fn in_range(op: &'static str, index: &[i64], base: usize, size: usize) -> Result<Vec<usize>> {
    let place = |(position, &index): (usize, &i64)| {
        usize::try_from(index).ok().filter(|&i| i < size).ok_or(Error::IndexOutOfRange {
            op,
            position: base + position,
            index,
            size,
        })
    };
    index.iter().enumerate().map(place).collect()
}

/// Places as an index tensor.
fn index(places: &[usize], device: Device) -> Result<Tensor> {
    let places: Vec<i64> = places.iter().map(|&place| place as i64).collect();
    Tensor::from_slice(&places, &[places.len()])?.to(device)
}

/// `count` zeros of the type and on the device of `x`.
fn zeros(count: usize, x: &Tensor) -> Result<Tensor> {
    numel("sparse_coo", &[count])?;
    Tensor::zeros(&[count], x.dtype())?.to(x.device())
}
