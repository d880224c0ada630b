//! Sparse matrices in compressed rows.

use samebits_numerics::memory;
use samebits_tensor_core::{Error, Result};

use super::{SparseCoo, in_range};
use crate::Tensor;

/// A sparse matrix in compressed rows: row `r` has the columns and values at positions
/// `row_offsets[r]..row_offsets[r + 1]`, with strictly ascending columns.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::sparse::SparseCsr;
///
/// let values = Tensor::from_slice(&[5.0f32, 7.0], &[2])?;
/// let offsets = Tensor::from_slice(&[0i64, 0, 2], &[3])?;
/// let columns = Tensor::from_slice(&[0i64, 2], &[2])?;
/// let sparse = SparseCsr::new(&offsets, &columns, &values, [2, 3])?;
/// assert_eq!(sparse.to_dense()?.to_vec::<f32>()?, [0.0, 0.0, 0.0, 5.0, 0.0, 7.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[doc(alias = "sparse_csr_tensor")]
#[derive(Clone, Debug)]
pub struct SparseCsr {
    row_offsets: Vec<usize>,
    coo: SparseCoo,
}

impl SparseCsr {
    /// Creates a sparse matrix of `shape`.
    ///
    /// # Shapes
    ///
    /// `row_offsets` (i64) is `[rows + 1]`, `columns` (i64) and `values` `[elements]`.
    ///
    /// # Errors
    ///
    /// The shapes do not match, the offsets do not ascend from 0 to the number of elements,
    /// or the columns of a row do not strictly ascend within the matrix.
    pub fn new(
        row_offsets: &Tensor,
        columns: &Tensor,
        values: &Tensor,
        shape: [usize; 2],
    ) -> Result<SparseCsr> {
        const OP: &str = "sparse_csr";
        let offsets: Vec<i64> = row_offsets.to_vec()?;
        let elements = values.numel();
        let ascends = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        let ends = (offsets.first(), offsets.last()) == (Some(&0), Some(&(elements as i64)));
        if !ascends || !ends || shape[0].checked_add(1) != Some(offsets.len()) {
            return Err(Error::invalid(
                OP,
                format!(
                    "expected {} row offsets that ascend from 0 to the {elements} elements, got {}",
                    shape[0] as u128 + 1,
                    short(&offsets)
                ),
            ));
        }
        if columns.shape() != [elements] || values.shape() != [elements] {
            return Err(Error::invalid(
                OP,
                format!(
                    "expected columns and values of shape [{elements}], got {:?} and {:?}",
                    columns.shape(),
                    values.shape()
                ),
            ));
        }
        let row_offsets: Vec<usize> = offsets.iter().map(|&offset| offset as usize).collect();
        let places = in_range(OP, &columns.to_vec()?, 0, shape[1])?;
        for (row, pair) in row_offsets.windows(2).enumerate() {
            if places[pair[0]..pair[1]].windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(Error::invalid(
                    OP,
                    format!("the columns of row {row} do not strictly ascend"),
                ));
            }
        }
        let rows = rows(&row_offsets);
        let coo = SparseCoo {
            places: vec![rows, places],
            values: values.clone(),
            shape: shape.to_vec(),
            coalesced: true,
        };
        Ok(SparseCsr { row_offsets, coo })
    }

    pub(super) fn from_coo(coo: &SparseCoo) -> Result<SparseCsr> {
        let &[size, _] = coo.shape() else {
            return Err(Error::invalid(
                "to_csr",
                format!("expected a sparse matrix, got shape {:?}", coo.shape()),
            ));
        };
        let coo = coo.coalesce()?;
        // Compressed rows need room for every row, including empty ones.
        let mut row_offsets =
            memory::zeroed(size.saturating_add(1)).map_err(Error::out_of_host_memory("to_csr"))?;
        for &row in &coo.places[0] {
            row_offsets[row + 1] += 1;
        }
        for row in 0..size {
            row_offsets[row + 1] += row_offsets[row];
        }
        Ok(SparseCsr { row_offsets, coo })
    }

    /// Returns the nonzero elements of a dense matrix.
    ///
    /// # Errors
    ///
    /// `dense` is not a matrix.
    #[doc(alias = "to_sparse_csr")]
    pub fn from_dense(dense: &Tensor) -> Result<SparseCsr> {
        Self::from_coo(&SparseCoo::from_dense(dense)?)
    }

    /// Returns the numbers of rows and columns.
    pub fn shape(&self) -> &[usize] {
        self.coo.shape()
    }

    /// Returns the values of the elements.
    pub fn values(&self) -> &Tensor {
        self.coo.values()
    }

    /// Returns the position of each row's first element, and the number of elements: `[rows + 1]`.
    ///
    /// # Errors
    ///
    /// None that a caller can cause.
    #[doc(alias = "crow_indices")]
    pub fn row_offsets(&self) -> Result<Tensor> {
        super::index(&self.row_offsets, samebits_tensor_core::Device::Cpu)
    }

    /// Returns the column of each element, `[elements]`.
    ///
    /// # Errors
    ///
    /// None that a caller can cause.
    #[doc(alias = "col_indices")]
    pub fn columns(&self) -> Result<Tensor> {
        super::index(&self.coo.places[1], samebits_tensor_core::Device::Cpu)
    }

    /// Returns the same matrix as a list of elements, coalesced.
    pub fn to_coo(&self) -> SparseCoo {
        self.coo.clone()
    }

    /// Returns the dense matrix.
    ///
    /// # Errors
    ///
    /// The dense matrix would be too large.
    pub fn to_dense(&self) -> Result<Tensor> {
        self.coo.to_dense()
    }
}

/// Returns the row of each element.
fn rows(offsets: &[usize]) -> Vec<usize> {
    let counts = offsets.windows(2).enumerate();
    counts.flat_map(|(row, pair)| std::iter::repeat_n(row, pair[1] - pair[0])).collect()
}

/// Formats the offsets for a message, shortened if there are many.
fn short(offsets: &[i64]) -> String {
    match offsets {
        [first, .., last] if offsets.len() > 8 => {
            format!("{} from {first} to {last}", offsets.len())
        }
        _ => format!("{offsets:?}"),
    }
}
