//! Sparse tensors: lists of elements ([`SparseCoo`]) and compressed rows ([`SparseCsr`]).
//!
//! The indices of the elements are data; the values are a [`Tensor`]. Gradients flow to the values
//! and to the dense operands of products.
//!
//! # Determinism
//!
//! Elements with equal indices are summed. For f32 the sum is exact and rounded once, so the order
//! of the list does not matter; f64 values are added in the order of the list. For products see
//! [`SparseMm`](samebits_tensor_core::ops::SparseMm).

mod csr;
mod product;

pub use csr::SparseCsr;
pub use product::{sparse_bmm, sparse_mm};

use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{DType, Device, Error, Result};

use crate::Tensor;
use crate::functional::{index_add, index_select, nonzero, reshape};

/// A sparse tensor in coordinate format: a list of elements and their indices.
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
#[doc(alias = "sparse_coo_tensor")]
#[derive(Clone, Debug)]
pub struct SparseCoo {
    /// The indices of the elements, by dimension.
    places: Vec<Vec<usize>>,
    values: Tensor,
    shape: Vec<usize>,
    coalesced: bool,
}

impl SparseCoo {
    /// Creates a sparse tensor of `shape`.
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

    /// Returns the nonzero elements of a dense tensor, coalesced. NaN counts as nonzero.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] if a device fails.
    #[doc(alias = "to_sparse")]
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

    /// Returns the size of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the values of the elements.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Returns the indices of the elements, `[dimensions, elements]`.
    ///
    /// # Errors
    ///
    /// None that a caller can cause.
    pub fn indices(&self) -> Result<Tensor> {
        let flat: Vec<i64> = self.places.iter().flatten().map(|&i| i as i64).collect();
        Tensor::from_slice(&flat, &[self.shape.len(), self.elements()])
    }

    /// Returns the number of elements in the list.
    #[doc(alias = "nnz")]
    pub fn elements(&self) -> usize {
        self.values.numel()
    }

    /// Returns whether the elements are known to be in row-major order with distinct indices.
    pub fn is_coalesced(&self) -> bool {
        self.coalesced
    }

    /// Returns the same tensor with its elements in row-major order and equal indices merged by a
    /// sum.
    ///
    /// # Determinism
    ///
    /// Portable: sums of f32 are exact and rounded once; f64 values are added in the order of the
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

    /// Returns the dense tensor. Elements with equal indices are summed as in
    /// [`coalesce`](Self::coalesce).
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
                format!(
                    "cannot swap dimensions {a} and {b} of a sparse tensor of shape {:?}",
                    self.shape
                ),
            ));
        }
        let mut new = self.clone();
        new.places.swap(a, b);
        new.shape.swap(a, b);
        new.coalesced = self.coalesced && a == b;
        Ok(new)
    }

    /// Returns the same matrix in compressed rows, coalesced.
    ///
    /// # Errors
    ///
    /// This tensor is not a matrix.
    pub fn to_csr(&self) -> Result<SparseCsr> {
        SparseCsr::from_coo(self)
    }
}

/// Checks indices against `size` and converts them. `base` is the position of the first one, for
/// errors.
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

/// Returns positions as an index tensor.
fn index(places: &[usize], device: Device) -> Result<Tensor> {
    let places: Vec<i64> = places.iter().map(|&place| place as i64).collect();
    Tensor::from_slice(&places, &[places.len()])?.to(device)
}

/// Returns `count` zeros with the type and device of `x`.
fn zeros(count: usize, x: &Tensor) -> Result<Tensor> {
    numel("sparse_coo", &[count])?;
    Tensor::zeros(&[count], x.dtype())?.to(x.device())
}
