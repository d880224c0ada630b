//! Products with sparse matrices that are lists of elements in any order.

use crate::launch::Buffer;
use bytemuck::{Pod, Zeroable};

use crate::Variant;
use crate::device::{Device, Float, atomic, expect_len, of, product};
use crate::error::{CudaError, Result};
use crate::segments::Segments;

const FAMILY: &str = "sparse";

/// A sparse matrix as a list of elements.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// The row of each element.
    pub rows: &'a Buffer<i64>,
    /// The column of each element.
    pub columns: &'a Buffer<i64>,
    /// How many there are.
    pub count: usize,
    /// Rows and columns of the matrix.
    pub size: [usize; 2],
}

/// `elements · dense`.
///
/// # Shapes
///
/// `values: [elements]`, `dense: [columns, width]`; returns `[rows, width]`.
///
/// # Determinism
///
/// Deterministic: each output is a chain of fma over the elements of its row, ascending by column
/// and then by place in the list, in blocks of 256 columns counted from multiples of `period`;
/// the blocks that have an element are added in ascending order. Atomic: float additions in the
/// order of arrival.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
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
        let name = atomic::<T>(op, "sparse_mm_f32_atomic")?;
        elements.check(device, op)?;
        let mut out = device.zeros_for::<T>(op, n)?;
        device
            .kernel(op, FAMILY, name)?
            .on(device.stream())
            .write(&mut out)
            .read(values)
            .read(dense)
            .read(elements.rows)
            .read(elements.columns)
            .value(&raw)
            .threads(product(op, &[elements.count, width])?, device.block())?;
        return Ok(out);
    }
    elements.check(device, op)?;
    let mut reports = device.reports();
    let report = reports.ignored();
    let mut segments = Segments::new(device, op, elements.rows, elements.count, rows, report)?;
    device
        .kernel(op, FAMILY, "sparse_sort")?
        .on(device.stream())
        .write(&mut segments.positions)
        .read(&segments.ends)
        .read(&segments.counts)
        .read(elements.columns)
        .value(&(rows as u64))
        .threads(rows, device.block())?;
    let mut out = device.uninitialised(op, n)?;
    device
        .kernel(op, FAMILY, of::<T>(["sparse_mm_f32", "sparse_mm_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .read(values)
        .read(dense)
        .read(elements.columns)
        .segments(&segments)
        .value(&raw)
        .threads(n, device.block())?;
    Ok(out)
}

/// The dot products of chosen pairs of rows: `left[rows[i]] · right[columns[i]]`.
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
    device
        .kernel(op, FAMILY, of::<T>(["sampled_product_f32", "sampled_product_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .read(left)
        .read(right)
        .read(elements.rows)
        .read(elements.columns)
        .value(&elements.raw(width, 1))
        .threads(product(op, &[elements.count, 32])?, device.block())?;
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
            device
                .kernel(op, FAMILY, "sparse_check")?
                .on(device.stream())
                .read(index)
                .value(&(self.count as u64))
                .value(&(size as u64))
                .write(reports.noted())
                .threads(self.count, device.block())?;
            reports.collect(device, op, index, size as u64)?;
        }
        Ok(())
    }

    fn raw(&self, width: usize, period: usize) -> RawSparse {
        RawSparse {
            elements: self.count as u64,
            rows: self.size[0] as u64,
            columns: self.size[1] as u64,
            width: width as u64,
            period: period as u64,
        }
    }
}

/// `SbSparse` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawSparse {
    elements: u64,
    rows: u64,
    columns: u64,
    width: u64,
    period: u64,
}
