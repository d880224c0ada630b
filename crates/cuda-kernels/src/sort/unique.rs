//! Distinct elements and distinct rows.

use crate::launch::Buffer;

use super::{FAMILY, Sortable, Sorted, bits, short_enough};
use crate::device::{Device, expect_len, product};
use crate::error::Result;
use crate::segments::scan;

/// The distinct elements of a buffer.
#[derive(Debug)]
pub struct Unique<T> {
    /// How many there are.
    pub count: usize,
    /// The distinct elements; of equal ones, the first. The buffer may be longer.
    pub values: Buffer<T>,
    /// For each element of the input its place in `values`.
    pub inverse: Buffer<i64>,
    /// How often each value occurs. The buffer may be longer.
    pub counts: Buffer<i64>,
}

/// The distinct elements in ascending order or, with `consecutive`, those that differ from the
/// one before. −0 equals +0; every NaN is distinct. Waits for the device, because the result
/// decides its own length.
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
        Sorted::new(device, op, x, [1, n, 1], false, n)?.places
    };
    let sorted = u32::from(!consecutive);
    let mut flags = device.uninitialised::<u32>(op, n + 1)?;
    let names = ["unique_flags_f32", "unique_flags_f64", "unique_flags_i64"];
    device
        .kernel(op, FAMILY, names[T::KIND])?
        .on(device.stream())
        .write(&mut flags)
        .read(x)
        .read(&order)
        .value(&(n as u64))
        .value(&sorted)
        .threads(n + 1, device.block())?;
    let before = scan(device, op, &flags, n + 1)?;
    let count = device.element(&before, n)? as usize;
    let mut values = device.uninitialised(op, count)?;
    let mut begins = device.uninitialised::<u32>(op, count)?;
    device
        .kernel(op, FAMILY, bits::<T>(["unique_b32", "unique_b64"]))?
        .on(device.stream())
        .write(&mut values)
        .write(&mut inverse)
        .write(&mut begins)
        .read(x)
        .read(&order)
        .read(&flags)
        .read(&before)
        .value(&(n as u64))
        .value(&sorted)
        .threads(n, device.block())?;
    let counts = counts(device, op, &begins, count, n)?;
    Ok(Unique { count, values, inverse, counts })
}

/// The distinct rows of a matrix.
#[derive(Debug)]
pub struct UniqueRows {
    /// How many there are.
    pub count: usize,
    /// Where each is; of equal ones, the first. The buffer may be longer.
    pub firsts: Buffer<i64>,
    /// For each row its place among them.
    pub inverse: Buffer<i64>,
    /// How often each occurs. The buffer may be longer.
    pub counts: Buffer<i64>,
}

/// The distinct rows in ascending order or, with `consecutive`, those that differ from the one
/// before. Rows compare like words, element by element; −0 equals +0, and a row with a NaN is
/// distinct. Waits for the device, because the result decides its own length.
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
    let (n, width) = (rows as u64, width as u64);
    let mut order = device.uninitialised::<u32>(op, rows)?;
    device
        .kernel(op, FAMILY, "unique_rows_start")?
        .on(device.stream())
        .write(&mut order)
        .value(&n)
        .threads(rows, device.block())?;
    let mut other = device.uninitialised::<u32>(op, rows)?;
    let names = ["unique_rows_merge_f32", "unique_rows_merge_f64", "unique_rows_merge_i64"];
    let mut run = if consecutive { n } else { 1 };
    while run < n {
        device
            .kernel(op, FAMILY, names[T::KIND])?
            .on(device.stream())
            .write(&mut other)
            .read(&order)
            .read(x)
            .value(&n)
            .value(&width)
            .value(&run)
            .threads(rows, device.block())?;
        std::mem::swap(&mut order, &mut other);
        run *= 2;
    }
    let mut flags = device.uninitialised::<u32>(op, rows + 1)?;
    let names = ["unique_rows_flags_f32", "unique_rows_flags_f64", "unique_rows_flags_i64"];
    device
        .kernel(op, FAMILY, names[T::KIND])?
        .on(device.stream())
        .write(&mut flags)
        .read(&order)
        .read(x)
        .value(&n)
        .value(&width)
        .threads(rows + 1, device.block())?;
    let before = scan(device, op, &flags, rows + 1)?;
    let count = device.element(&before, rows)? as usize;
    let mut firsts = device.uninitialised(op, count)?;
    let mut begins = device.uninitialised::<u32>(op, count)?;
    device
        .kernel(op, FAMILY, "unique_rows")?
        .on(device.stream())
        .write(&mut firsts)
        .write(&mut inverse)
        .write(&mut begins)
        .read(&order)
        .read(&flags)
        .read(&before)
        .value(&n)
        .threads(rows, device.block())?;
    let counts = counts(device, op, &begins, count, rows)?;
    Ok(UniqueRows { count, firsts, inverse, counts })
}

/// How often each distinct element occurs, from where its places begin.
fn counts(
    device: &Device,
    op: &'static str,
    begins: &Buffer<u32>,
    count: usize,
    n: usize,
) -> Result<Buffer<i64>> {
    let mut counts = device.uninitialised(op, count)?;
    device
        .kernel(op, FAMILY, "unique_counts")?
        .on(device.stream())
        .write(&mut counts)
        .read(begins)
        .value(&(count as u64))
        .value(&(n as u64))
        .threads(count, device.block())?;
    Ok(counts)
}
