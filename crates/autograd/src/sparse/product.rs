//! Products of sparse and dense matrices.

use samebits_macros::named;
use samebits_tensor_core::ops::{SampledProduct, SparseMm};
use samebits_tensor_core::{Error, Result};

use super::{SparseCoo, index};
use crate::functional::reshape;
use crate::{Tensor, run};

/// Multiplies a sparse matrix by a dense one.
///
/// # Shapes
///
/// `sparse` is `[m, k]`, `dense` `[k, n]`.
///
/// # Determinism
///
/// The sparse matrix is coalesced first. Each element is then a chain of fma in ascending columns,
/// in the blocks of the dense product: for finite operands the result has the bits of
/// [`matmul`](crate::functional::matmul) with the dense matrix, except for the sign of zero. The
/// gradient of a value is a dot product in f64 over a fixed tree, rounded once.
///
/// # Errors
///
/// The shapes do not match.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::sparse::{SparseCoo, sparse_mm};
///
/// let indices = Tensor::from_slice(&[0i64, 1, 2, 0], &[2, 2])?;
/// let values = Tensor::from_slice(&[2.0f32, 3.0], &[2])?.set_requires_grad(true)?;
/// let sparse = SparseCoo::new(&indices, &values, &[2, 3])?;
/// let dense = Tensor::from_slice(&[1.0f32, 10.0, 100.0], &[3, 1])?;
/// let y = sparse_mm(&sparse, &dense)?;
/// assert_eq!(y.to_vec::<f32>()?, [200.0, 3.0]);
/// assert_eq!(y.sum_all()?.backward()?.of(&values).unwrap().to_vec::<f32>()?, [100.0, 1.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
#[doc(alias = "sparse.mm")]
pub fn sparse_mm(sparse: &SparseCoo, dense: &Tensor) -> Result<Tensor> {
    let (&[m, k], &[inner, _]) = (sparse.shape(), dense.shape()) else {
        return Err(mismatch("sparse_mm", "[m, k] and [k, n]", sparse, dense));
    };
    if k != inner {
        return Err(mismatch("sparse_mm", "[m, k] and [k, n]", sparse, dense));
    }
    let sparse = sparse.coalesce()?;
    let device = dense.device();
    let places = Places {
        rows: index(&sparse.places[0], device)?,
        columns: index(&sparse.places[1], device)?,
        size: [m, k],
        periods: [m, k],
    };
    product(&places, sparse.values(), dense)
}

/// Multiplies sparse matrices by dense ones, batch by batch.
///
/// # Shapes
///
/// `sparse` is `[batch, m, k]`, `dense` `[batch, k, n]`.
///
/// # Determinism
///
/// Each product has the bits of [`sparse_mm`].
///
/// # Errors
///
/// The shapes do not match.
#[named]
#[track_caller]
pub fn sparse_bmm(sparse: &SparseCoo, dense: &Tensor) -> Result<Tensor> {
    const OP: &str = "sparse_bmm";
    let wrong = || mismatch(OP, "[batch, m, k] and [batch, k, n]", sparse, dense);
    let (&[batch, m, k], &[batches, inner, n]) = (sparse.shape(), dense.shape()) else {
        return Err(wrong());
    };
    if batch != batches || k != inner {
        return Err(wrong());
    }
    let sparse = sparse.coalesce()?;
    let device = dense.device();
    let (Some(rows), Some(columns)) = (batch.checked_mul(m), batch.checked_mul(k)) else {
        return Err(wrong());
    };
    // One product with a block-diagonal matrix computes all.
    let diagonal = |places: &[usize], size: usize| -> Result<Tensor> {
        let batches = sparse.places[0].iter();
        let all: Vec<usize> = batches.zip(places).map(|(b, place)| b * size + place).collect();
        index(&all, device)
    };
    let places = Places {
        rows: diagonal(&sparse.places[1], m)?,
        columns: diagonal(&sparse.places[2], k)?,
        size: [rows, columns],
        periods: [m, k],
    };
    let flat = reshape(dense, [columns, n])?;
    reshape(&product(&places, sparse.values(), &flat)?, [batch, m, n])
}

/// The positions of a sparse matrix's elements.
#[derive(Clone)]
struct Places {
    rows: Tensor,
    columns: Tensor,
    size: [usize; 2],
    /// The rows and columns of each diagonal block.
    periods: [usize; 2],
}

impl Places {
    fn transposed(&self) -> Places {
        let [m, k] = self.size;
        let [rows, columns] = self.periods;
        Places {
            rows: self.columns.clone(),
            columns: self.rows.clone(),
            size: [k, m],
            periods: [columns, rows],
        }
    }
}

/// Returns the product, which is linear in both operands.
#[track_caller]
fn product(places: &Places, values: &Tensor, dense: &Tensor) -> Result<Tensor> {
    let value = run(&SparseMm {
        rows: places.rows.value().clone(),
        columns: places.columns.value().clone(),
        values: values.value().clone(),
        dense: dense.value().clone(),
        size: places.size[0],
        period: places.periods[1],
    })?;
    let (places, v, d) = (places.clone(), values.clone(), dense.clone());
    Ok(Tensor::computed(value, &[values, dense], move |grad| {
        let of_values = v.requires_grad().then(|| sampled(&places, grad, &d)).transpose()?;
        let of_dense =
            d.requires_grad().then(|| product(&places.transposed(), &v, grad)).transpose()?;
        Ok(vec![of_values, of_dense])
    }))
}

/// Returns the products at the given positions only; linear in both operands.
#[track_caller]
fn sampled(places: &Places, left: &Tensor, right: &Tensor) -> Result<Tensor> {
    let value = run(&SampledProduct {
        rows: places.rows.value().clone(),
        columns: places.columns.value().clone(),
        left: left.value().clone(),
        right: right.value().clone(),
    })?;
    let (places, l, r) = (places.clone(), left.clone(), right.clone());
    Ok(Tensor::computed(value, &[left, right], move |grad| {
        let of_left = l.requires_grad().then(|| product(&places, grad, &r)).transpose()?;
        let of_right =
            r.requires_grad().then(|| product(&places.transposed(), grad, &l)).transpose()?;
        Ok(vec![of_left, of_right])
    }))
}

fn mismatch(op: &'static str, expected: &str, sparse: &SparseCoo, dense: &Tensor) -> Error {
    let (sparse, dense) = (sparse.shape(), dense.shape());
    Error::invalid(op, format!("expected shapes {expected}, got {sparse:?} and {dense:?}"))
}
