//! Products with sparse matrices that are lists of elements in any order.

use crate::launch::declared::sparse::RawSparse;
use crate::launch::kernels::sparse as kernels;
use crate::launch::{Buffer, Launch};

use crate::Variant;
use crate::device::{Device, Float, expect_len, product};
use crate::error::{CudaError, Result};
use crate::sort::Sorted;

/// A sparse matrix as a list of elements.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// The row of each element.
    pub rows: &'a Buffer<i64>,
    /// The column of each element.
    pub columns: &'a Buffer<i64>,
    /// The number of elements.
    pub count: usize,
    /// The numbers of rows and columns of the matrix.
    pub size: [usize; 2],
}

/// Computes `elements · dense`.
///
/// # Shapes
///
/// `values: [elements]`, `dense: [columns, width]`; returns `[rows, width]`.
///
/// # Determinism
///
/// Deterministic: each output is a chain of fma over the elements of its row, ascending by column
/// and then by position in the list, in blocks of 256 columns counted from multiples of `period`;
/// the blocks that have an element are added in ascending order. Atomic: float additions in the
/// order of arrival.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for a matrix of 2^63 places or more;
/// [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn sparse_mm<T: Float>(
    device: &Device,
    elements: Elements<'_>,
    values: &Buffer<T>,
    dense: &Buffer<T>,
    width: usize,
    period: usize,
    variant: Variant,
) -> Result<Buffer<T>> {
    let op = "sparse_mm";
    let [rows, columns] = elements.size;
    let n = product(op, &[rows, width])?;
    expect_len(op, "the values", values, elements.count)?;
    expect_len(op, "the dense matrix", dense, product(op, &[columns, width])?)?;
    let raw = elements.raw(width, period.max(1));
    if variant == Variant::Atomic {
        elements.check(device, op)?;
        let mut out = device.zeros_for::<T>(op, n)?;
        kernels::SparseMmAtomic {
            out: &mut out,
            values,
            dense,
            rows: elements.rows,
            columns: elements.columns,
            p: raw,
        }
        .threads(device, op, product(op, &[elements.count, width])?)?;
        return Ok(out);
    }
    elements.check(device, op)?;
    if elements.count == 0 || n == 0 {
        return device.zeros_for(op, n);
    }
    let places = product(op, &[rows, columns])?;
    if i64::try_from(places).is_err() {
        return Err(CudaError::invalid(op, format!("{rows} x {columns} places need 64 bits")));
    }
    let mut keys = device.uninitialised::<i64>(op, elements.count)?;
    kernels::SparseKeys { keys: &mut keys, rows: elements.rows, columns: elements.columns, p: raw }
        .threads(device, op, elements.count)?;
    let sorted = Sorted::of_keys_to(device, op, &keys, elements.count, places)?;
    let mut starts = device.uninitialised(op, rows + 1)?;
    kernels::SparseStarts { starts: &mut starts, sorted: &sorted.keys, p: raw }.threads(
        device,
        op,
        rows + 1,
    )?;
    let mut out = device.uninitialised(op, n)?;
    kernels::SparseMm {
        out: &mut out,
        values,
        dense,
        columns: elements.columns,
        order: &sorted.places,
        starts: &starts,
        p: raw,
    }
    .threads(device, op, n)?;
    Ok(out)
}

/// Computes the dot products of chosen pairs of rows: `left[rows[i]] · right[columns[i]]`.
///
/// # Shapes
///
/// `left: [size[0], width]`, `right: [size[1], width]`; returns `[elements]`.
///
/// # Determinism
///
/// Portable: in f64 over the contract's tree, rounded once.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn sampled_product<T: Float>(
    device: &Device,
    elements: Elements<'_>,
    left: &Buffer<T>,
    right: &Buffer<T>,
    width: usize,
) -> Result<Buffer<T>> {
    let op = "sampled_product";
    expect_len(op, "the left matrix", left, product(op, &[elements.size[0], width])?)?;
    expect_len(op, "the right matrix", right, product(op, &[elements.size[1], width])?)?;
    elements.check(device, op)?;
    let mut out = device.uninitialised(op, elements.count)?;
    kernels::SampledProduct {
        out: &mut out,
        left,
        right,
        rows: elements.rows,
        columns: elements.columns,
        p: elements.raw(width, 1),
    }
    .threads(device, op, product(op, &[elements.count, 32])?)?;
    Ok(out)
}

impl Elements<'_> {
    /// Reports elements outside the matrix, rows before columns.
    fn check(&self, device: &Device, op: &'static str) -> Result<()> {
        if u32::try_from(self.count).is_err() {
            return Err(CudaError::invalid(op, format!("{} elements are too many", self.count)));
        }
        if self.count == 0 {
            return Ok(());
        }
        let lists = [("the rows", self.rows), ("the columns", self.columns)];
        for ((what, index), size) in lists.into_iter().zip(self.size) {
            expect_len(op, what, index, self.count)?;
            let mut reports = device.reports();
            kernels::SparseCheck { index, n: self.count, size, status: reports.noted() }
                .threads(device, op, self.count)?;
            reports.collect(device, op, index, size)?;
        }
        Ok(())
    }

    fn raw(&self, width: usize, period: usize) -> RawSparse {
        RawSparse { elements: self.count, rows: self.size[0], columns: self.size[1], width, period }
    }
}
