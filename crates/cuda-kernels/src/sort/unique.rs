//! Distinct elements and distinct rows.

use crate::launch::kernels::sort as kernels;
use crate::launch::{Buffer, Launch};

use super::{Sortable, Sorted, short_enough};
use crate::counts::starts;
use crate::device::{Device, expect_len, product};
use crate::error::Result;

/// The distinct elements of a buffer.
#[derive(Debug)]
pub struct Unique<T> {
    /// The number of distinct elements.
    pub count: usize,
    /// The distinct elements; of equal ones, the first. The buffer may be longer.
    pub values: Buffer<T>,
    /// The position in `values` of each element of the input.
    pub inverse: Buffer<i64>,
    /// The number of occurrences of each value. The buffer may be longer.
    pub counts: Buffer<i64>,
}

/// Finds the distinct elements in ascending order or, with `consecutive`, those that differ from
/// the element before. −0 equals +0; every NaN is distinct. Waits for the device, because the
/// length of the result depends on the data.
///
/// # Shapes
///
/// `x: [n]`.
///
/// # Errors
///
/// As [`sort`](super::sort()), and those of [`Device::synchronize`].
pub fn unique<T: Sortable>(
    device: &Device,
    x: &Buffer<T>,
    n: usize,
    consecutive: bool,
) -> Result<Unique<T>> {
    let op = "unique";
    expect_len(op, "the input", x, n)?;
    let mut inverse = device.uninitialised(op, n)?;
    if n == 0 {
        let (values, counts) = (device.uninitialised(op, 0)?, device.uninitialised(op, 0)?);
        return Ok(Unique { count: 0, values, inverse, counts });
    }
    short_enough(op, n)?;
    let order = if consecutive {
        device.uninitialised(op, 0)?
    } else {
        Sorted::new(device, op, x, [1, n, 1], false)?.places
    };
    let sorted = u32::from(!consecutive);
    let mut flags = device.uninitialised::<u32>(op, n + 1)?;
    kernels::UniqueFlags { flags: &mut flags, input: x, order: &order, n, sorted }.threads(
        device,
        op,
        n + 1,
    )?;
    let before = starts(device, op, &flags, n + 1)?;
    let count = device.element(&before, n)? as usize;
    let mut values = device.uninitialised(op, count)?;
    let mut begins = device.uninitialised::<u32>(op, count)?;
    kernels::Unique {
        values: &mut values,
        inverse: &mut inverse,
        begins: &mut begins,
        input: x,
        order: &order,
        flags: &flags,
        before: &before,
        n,
        sorted,
    }
    .threads(device, op, n)?;
    let counts = counts(device, op, &begins, count, n)?;
    Ok(Unique { count, values, inverse, counts })
}

/// The distinct rows of a matrix.
#[derive(Debug)]
pub struct UniqueRows {
    /// The number of distinct rows.
    pub count: usize,
    /// The position of each distinct row; of equal ones, the first. The buffer may be longer.
    pub firsts: Buffer<i64>,
    /// The position in `firsts` of each row of the input.
    pub inverse: Buffer<i64>,
    /// The number of occurrences of each row. The buffer may be longer.
    pub counts: Buffer<i64>,
}

/// Finds the distinct rows in ascending lexicographic order or, with `consecutive`, those that
/// differ from the row before. −0 equals +0, and a row with a NaN is distinct. Waits for the
/// device, because the length of the result depends on the data.
///
/// # Shapes
///
/// `x: [rows, width]`.
///
/// # Errors
///
/// As [`unique`].
pub fn unique_rows<T: Sortable>(
    device: &Device,
    x: &Buffer<T>,
    [rows, width]: [usize; 2],
    consecutive: bool,
) -> Result<UniqueRows> {
    let op = "unique_dim";
    expect_len(op, "the input", x, product(op, &[rows, width])?)?;
    let mut inverse = device.uninitialised(op, rows)?;
    if rows == 0 {
        let (firsts, counts) = (device.uninitialised(op, 0)?, device.uninitialised(op, 0)?);
        return Ok(UniqueRows { count: 0, firsts, inverse, counts });
    }
    short_enough(op, rows)?;
    let mut order = device.uninitialised::<u32>(op, rows)?;
    kernels::UniqueRowsStart { order: &mut order, rows }.threads(device, op, rows)?;
    let mut other = device.uninitialised::<u32>(op, rows)?;
    let mut run = if consecutive { rows } else { 1 };
    while run < rows {
        kernels::UniqueRowsMerge {
            order_out: &mut other,
            order: &order,
            input: x,
            rows,
            width,
            run,
        }
        .threads(device, op, rows)?;
        std::mem::swap(&mut order, &mut other);
        run *= 2;
    }
    let mut flags = device.uninitialised::<u32>(op, rows + 1)?;
    kernels::UniqueRowsFlags { flags: &mut flags, order: &order, input: x, rows, width }.threads(
        device,
        op,
        rows + 1,
    )?;
    let before = starts(device, op, &flags, rows + 1)?;
    let count = device.element(&before, rows)? as usize;
    let mut firsts = device.uninitialised(op, count)?;
    let mut begins = device.uninitialised::<u32>(op, count)?;
    kernels::UniqueRows {
        firsts: &mut firsts,
        inverse: &mut inverse,
        begins: &mut begins,
        order: &order,
        flags: &flags,
        before: &before,
        rows,
    }
    .threads(device, op, rows)?;
    let counts = counts(device, op, &begins, count, rows)?;
    Ok(UniqueRows { count, firsts, inverse, counts })
}

/// Computes the number of occurrences of each distinct element, from the starts of its places.
fn counts(
    device: &Device,
    op: &'static str,
    begins: &Buffer<u32>,
    count: usize,
    n: usize,
) -> Result<Buffer<i64>> {
    let mut counts = device.uninitialised(op, count)?;
    kernels::UniqueCounts { counts: &mut counts, begins, count, n }.threads(device, op, count)?;
    Ok(counts)
}
