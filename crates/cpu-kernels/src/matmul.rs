//! Matrix products in a fixed order.

use crate::elementwise::halves::Half;
use crate::gemm::pack::{Factors, Lanes};
use crate::gemm::{Source, halves, split_k, tiny};
use samebits_numerics::memory::{OutOfMemory, product};
use thiserror::Error;

pub use crate::gemm::{K_BLOCK, Real};

/// The reason why a matrix product was rejected.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The inner sizes differ.
    #[error(
        "matmul: a is {}x{} and b is {}x{}; the columns of a must equal the rows of b",
        a.0, a.1, b.0, b.1
    )]
    InnerSize {
        /// Rows and columns of `a`.
        a: (usize, usize),
        /// Rows and columns of `b`.
        b: (usize, usize),
    },
    /// The output does not have the number of elements of the products.
    #[error(
        "matmul: the output has {got} elements, the product has {want}; pass a slice of {want}"
    )]
    OutputSize {
        /// The number of elements of the products.
        want: usize,
        /// The number of elements of the slice.
        got: usize,
    },
    /// The number of elements of the products overflows.
    #[error(
        "matmul: {count} products of {rows}x{columns} have more elements than can be counted; use \
         smaller sizes"
    )]
    TooLarge {
        /// The number of products.
        count: usize,
        /// The number of rows of each product.
        rows: usize,
        /// The number of columns of each product.
        columns: usize,
    },
    /// The allocation for packed operands failed.
    #[error("matmul: no memory left for {bytes} bytes; use smaller sizes")]
    OutOfMemory {
        /// The size of the buffer.
        bytes: usize,
    },
    /// A matrix reaches beyond its slice.
    #[error(
        "matmul: a {rows}x{columns} matrix with strides ({row_stride}, {column_stride}) at offset \
         {offset} needs more than the {len} elements of its slice; check shape and strides"
    )]
    OutOfBounds {
        /// The number of rows of the matrix.
        rows: usize,
        /// The number of columns of the matrix.
        columns: usize,
        /// The distance between rows.
        row_stride: usize,
        /// The distance between columns.
        column_stride: usize,
        /// The start of the matrix.
        offset: usize,
        /// The length of the slice.
        len: usize,
    },
    /// The lists of offsets differ in length.
    #[error("matmul: a has {a} matrices and b has {b}; pass one offset of each for every product")]
    BatchSize {
        /// The number of left factors.
        a: usize,
        /// The number of right factors.
        b: usize,
    },
}

samebits_numerics::debug_is_message!(Error);

impl From<OutOfMemory> for Error {
    fn from(OutOfMemory { bytes }: OutOfMemory) -> Error {
        Error::OutOfMemory { bytes }
    }
}

impl From<Error> for samebits_tensor_core::Error {
    fn from(error: Error) -> samebits_tensor_core::Error {
        let op = "matmul";
        match error {
            Error::OutOfMemory { bytes } => crate::Error::OutOfMemory { op, bytes }.into(),
            refused => {
                let message = refused.to_string();
                let message = message.strip_prefix("matmul: ").unwrap_or(&message);
                samebits_tensor_core::Error::invalid(op, message)
            }
        }
    }
}

/// A matrix in a slice, given by strides: element (i, j) is `data[i * row_stride + j *
/// column_stride]`.
///
/// Strides may be zero, which repeats a row or column.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a, T: Copy> Matrix<'a, T> {
    /// Returns a matrix whose rows are contiguous and consecutive.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if `data` is too short.
    pub fn new(data: &'a [T], rows: usize, columns: usize) -> Result<Self, Error> {
        Self::with_strides(data, rows, columns, columns, 1)
    }

    /// Returns a matrix with any strides.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`] if an element would lie outside `data`.
    pub fn with_strides(
        data: &'a [T],
        rows: usize,
        columns: usize,
        row_stride: usize,
        column_stride: usize,
    ) -> Result<Self, Error> {
        let matrix = Matrix { data, rows, columns, row_stride, column_stride };
        matrix.check_at(0)?;
        Ok(matrix)
    }

    /// Returns the transpose, without a copy.
    #[must_use]
    pub fn transposed(self) -> Self {
        Matrix {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Checks that the matrix, starting at `offset`, lies in the slice.
    fn check_at(&self, offset: usize) -> Result<(), Error> {
        if self.rows == 0 || self.columns == 0 {
            return Ok(());
        }
        let last = (self.rows - 1).checked_mul(self.row_stride).and_then(|r| {
            (self.columns - 1).checked_mul(self.column_stride)?.checked_add(r)?.checked_add(offset)
        });
        if last.is_some_and(|last| last < self.data.len()) {
            return Ok(());
        }
        Err(Error::OutOfBounds {
            rows: self.rows,
            columns: self.columns,
            row_stride: self.row_stride,
            column_stride: self.column_stride,
            offset,
            len: self.data.len(),
        })
    }

    fn row_lanes(&self, offset: usize) -> Lanes<'a, T> {
        let data = self.data.get(offset..).unwrap_or(&[]);
        // A stride beyond the slice is never used, so it is limited to avoid overflow.
        let stride = |stride: usize| stride.min(data.len());
        Lanes {
            data,
            lane_stride: stride(self.row_stride),
            step_stride: stride(self.column_stride),
        }
    }

    fn column_lanes(&self, offset: usize) -> Lanes<'a, T> {
        self.transposed().row_lanes(offset)
    }
}

/// Computes `out = a · b`, row-major.
///
/// # Shapes
///
/// `a` is m×k, `b` is k×n, `out` has m·n elements.
///
/// # Determinism
///
/// Portable. Element (i, j) is computed from row i and column j alone. Within each block of
/// [`K_BLOCK`] consecutive k, ascending, `acc = fma(a[i][k], b[k][j], acc)` from +0; then the
/// blocks are added in ascending order, one rounding each. An empty sum is +0, and a NaN is the
/// canonical one. The other rows and columns, strides, threads and instructions cannot change a
/// bit.
///
/// # Errors
///
/// [`Error::InnerSize`], [`Error::OutputSize`], [`Error::TooLarge`] and [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::matmul::{Matrix, matmul};
///
/// let a = Matrix::new(&[1.0f32, 2.0, 3.0, 4.0], 2, 2)?;
/// let mut out = [0.0; 4];
/// matmul(a, a.transposed(), &mut out)?;
/// assert_eq!(out, [5.0, 11.0, 11.0, 25.0]);
/// # Ok::<(), samebits_cpu_kernels::matmul::Error>(())
/// ```
pub fn matmul<T: Real>(a: Matrix<'_, T>, b: Matrix<'_, T>, out: &mut [T]) -> Result<(), Error> {
    matmul_batched(a, &[0], b, &[0], out)
}

/// Computes many products of one shape, `out[p] = a[p] · b[p]`, into consecutive matrices of `out`.
///
/// `a` and `b` give shape and strides; factor p begins at `a_offsets[p]` and `b_offsets[p]`, so
/// broadcasting over batch dimensions needs no copy.
///
/// # Shapes
///
/// `a` is m×k, `b` is k×n, `out` has p·m·n elements.
///
/// # Determinism
///
/// Portable: each product has the bits that [`matmul`] gives for it alone.
///
/// # Errors
///
/// The errors of [`matmul`]; [`Error::BatchSize`] if the lists differ in length;
/// [`Error::OutOfBounds`] if an offset moves a factor out of its slice.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::matmul::{Matrix, matmul_batched};
///
/// // Two row vectors by one matrix.
/// let rows = [1.0f64, 2.0, 3.0, 4.0];
/// let a = Matrix::new(&rows, 1, 2)?;
/// let b = Matrix::new(&[1.0, 0.0, 0.0, 10.0], 2, 2)?;
/// let mut out = [0.0; 4];
/// matmul_batched(a, &[0, 2], b, &[0, 0], &mut out)?;
/// assert_eq!(out, [1.0, 20.0, 3.0, 40.0]);
/// # Ok::<(), samebits_cpu_kernels::matmul::Error>(())
/// ```
pub fn matmul_batched<T: Real>(
    a: Matrix<'_, T>,
    a_offsets: &[usize],
    b: Matrix<'_, T>,
    b_offsets: &[usize],
    out: &mut [T],
) -> Result<(), Error> {
    check(&a, a_offsets, &b, b_offsets, out.len())?;
    let factors =
        |p: usize| Factors { a: a.row_lanes(a_offsets[p]), b: b.column_lanes(b_offsets[p]) };
    let shape = (a.rows, b.columns, a.columns);
    if tiny::are_tiny(a_offsets.len(), shape)
        && let Some(from_a) = tiny::progression(a_offsets)
        && let Some(from_b) = tiny::progression(b_offsets)
    {
        tiny::products(shape, factors(0), [from_a, from_b], out);
        return Ok(());
    }
    Ok(split_k::products(a_offsets.len(), shape, factors, out)?)
}

/// Computes many products of halves as [`matmul_batched`] does those of the same numbers in f32,
/// adds `bias` to each row in f32, and rounds each element once.
///
/// # Panics
///
/// If `bias` has fewer elements than a row.
pub(crate) fn matmul_halves<S: Source<f32> + Half>(
    a: Matrix<'_, S>,
    a_offsets: &[usize],
    b: Matrix<'_, S>,
    b_offsets: &[usize],
    bias: Option<&[S]>,
    out: &mut [S],
) -> Result<(), Error> {
    check(&a, a_offsets, &b, b_offsets, out.len())?;
    let factors =
        |p: usize| Factors { a: a.row_lanes(a_offsets[p]), b: b.column_lanes(b_offsets[p]) };
    let shape = (a.rows, b.columns, a.columns);
    Ok(halves::half_products(a_offsets.len(), shape, factors, bias, out)?)
}

/// Checks the sizes of products, and the places of their factors.
fn check<T: Copy>(
    a: &Matrix<'_, T>,
    a_offsets: &[usize],
    b: &Matrix<'_, T>,
    b_offsets: &[usize],
    got: usize,
) -> Result<(), Error> {
    if a.columns != b.rows {
        return Err(Error::InnerSize { a: (a.rows, a.columns), b: (b.rows, b.columns) });
    }
    if a_offsets.len() != b_offsets.len() {
        return Err(Error::BatchSize { a: a_offsets.len(), b: b_offsets.len() });
    }
    let (count, rows, columns) = (a_offsets.len(), a.rows, b.columns);
    let want = product(&[count, rows, columns]).ok_or(Error::TooLarge { count, rows, columns })?;
    if got != want {
        return Err(Error::OutputSize { want, got });
    }
    for &offset in a_offsets {
        a.check_at(offset)?;
    }
    for &offset in b_offsets {
        b.check_at(offset)?;
    }
    Ok(())
}
