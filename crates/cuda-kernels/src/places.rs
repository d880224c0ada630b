//! Linear places: the targets of an index of elements for a part of a tensor, or of several indices
//! together.

use crate::launch::declared::places::RawPart;
use crate::launch::kernels::scatter as kernels;
use crate::launch::{Buffer, Launch};
use bytemuck::Zeroable;

use crate::device::{Device, expect_len, product};
use crate::error::{CudaError, Result};

/// Computes the places in a flattened tensor that an index of elements names, if the index covers a
/// part of the tensor. A bad index gives −1 and is reported.
///
/// # Shapes
///
/// `index: shape`; `strides` are the tensor's. The stride of `dim` is the distance between the
/// elements that the index addresses, whose number is `size`.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for more than 8 dimensions;
/// [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn part_places(
    device: &Device,
    op: &'static str,
    index: &Buffer<i64>,
    shape: &[usize],
    strides: &[usize],
    dim: usize,
    size: usize,
) -> Result<Buffer<i64>> {
    let n = product(op, shape)?;
    expect_len(op, "the index", index, n)?;
    if shape.len() > 8 || strides.len() != shape.len() || dim >= shape.len() {
        return Err(CudaError::invalid(
            op,
            format!(
                "shape {shape:?} with strides {strides:?}, dimension {dim}: at most 8 are possible"
            ),
        ));
    }
    let mut raw = RawPart::zeroed();
    (raw.n, raw.rank, raw.size) = (n, shape.len(), size);
    raw.step = strides[dim];
    for (d, (&size, &stride)) in shape.iter().zip(strides).enumerate() {
        raw.shape[d] = size;
        raw.stride[d] = if d == dim { 0 } else { stride };
    }
    let mut keys = device.uninitialised::<i64>(op, n)?;
    if n == 0 {
        return Ok(keys);
    }
    let mut reports = device.reports();
    kernels::PartKeys { keys: &mut keys, index, p: raw, status: reports.noted() }
        .threads(device, op, n)?;
    reports.collect(device, op, index, size)?;
    Ok(keys)
}

/// Computes the rows that several indices of dimensions of these sizes name together; negative
/// indices count from the end. A bad index is reported, and its row is −1.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn joined_places<I: std::ops::Deref<Target = Buffer<i64>>>(
    device: &Device,
    op: &'static str,
    indices: &[I],
    sizes: &[usize],
    n: usize,
) -> Result<Buffer<i64>> {
    let mut keys = device.uninitialised::<i64>(op, n)?;
    if n == 0 {
        return Ok(keys);
    }
    let mut reports = device.reports();
    for (i, (index, &size)) in indices.iter().zip(sizes).enumerate() {
        expect_len(op, "every index", index, n)?;
        kernels::JoinedKeys {
            keys: &mut keys,
            index,
            n,
            size,
            first: u32::from(i == 0),
            status: reports.noted(),
        }
        .threads(device, op, n)?;
        reports.collect(device, op, index, size)?;
    }
    Ok(keys)
}
