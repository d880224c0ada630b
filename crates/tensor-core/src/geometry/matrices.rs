//! Matrices: the last two dimensions of a tensor.

use crate::layout::{PerDim, broadcast, numel};
use crate::{Error, Result};

/// Matrices of one size.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::Matrices;
///
/// let matrices = Matrices::new("qr", &[2, 3, 4, 5])?;
/// assert_eq!(matrices, Matrices { count: 6, rows: 4, columns: 5 });
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// The number of matrices: the product of the dimensions before.
    pub count: usize,
    /// The number of rows of each.
    pub rows: usize,
    /// The number of columns of each.
    pub columns: usize,
}

impl Matrices {
    /// Checks the shape of a tensor of matrices.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for less than two dimensions, or too many elements.
    pub fn new(op: &'static str, shape: &[usize]) -> Result<Matrices> {
        let [batch @ .., rows, columns] = shape else {
            return Err(Error::invalid(op, format!("expected a matrix, got shape {shape:?}")));
        };
        numel(op, shape)?;
        Ok(Matrices { count: batch.iter().product(), rows: *rows, columns: *columns })
    }
}

/// Products of matrices `[.., m, k]` and `[.., k, n]`, whose batch dimensions are broadcast.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::Products;
///
/// let products = Products::new("matmul", &[6, 1, 2, 3], &[5, 3, 4])?;
/// assert_eq!(&products.batch[..], [6, 5]);
/// assert_eq!(products.sizes(), [2, 4, 3]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Products {
    /// The batch dimensions of the result.
    pub batch: PerDim,
    /// The shape of the result.
    pub shape: PerDim,
    m: usize,
    n: usize,
    k: usize,
}

impl Products {
    /// Checks the shapes of the operands.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if they are no matrices or do not fit each other, or the result
    /// has too many elements; [`Error::Broadcast`] if the batch dimensions cannot be broadcast.
    pub fn new(op: &'static str, a: &[usize], b: &[usize]) -> Result<Products> {
        let ([batch_a @ .., m, k], [batch_b @ .., inner, n]) = (a, b) else {
            return Err(mismatch(op, a, b));
        };
        if k != inner {
            return Err(mismatch(op, a, b));
        }
        let batch = broadcast(op, batch_a, batch_b)?;
        let mut shape = batch.clone();
        shape.extend([*m, *n]);
        numel(op, &shape)?;
        Ok(Products { batch, shape, m: *m, n: *n, k: *k })
    }

    /// Returns `[m, n, k]`.
    pub fn sizes(&self) -> [usize; 3] {
        [self.m, self.n, self.k]
    }
}

fn mismatch(op: &'static str, a: &[usize], b: &[usize]) -> Error {
    Error::invalid(op, format!("cannot multiply matrices of shapes {a:?} and {b:?}"))
}
