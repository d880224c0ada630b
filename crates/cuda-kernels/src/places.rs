//! Linear places: what an index per element of a part of a tensor, or several indices together,
//! point to.

use crate::launch::Buffer;
use bytemuck::{Pod, Zeroable};

use crate::device::{Device, expect_len, product};
use crate::error::{CudaError, Result};
use crate::scatter::FAMILY;

/// The places in a flattened tensor that an index per element names, if the index covers a part
/// of the tensor: −1 where it is bad, which is reported.
///
/// # Shapes
///
/// `index: shape`; `strides` are the tensor's, that of `dim` being the distance of what the index
/// counts, of which there are `size`.
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
    (raw.n, raw.rank, raw.size) = (n as u64, shape.len() as u64, size as u64);
    raw.step = strides[dim] as u64;
    for (d, (&size, &stride)) in shape.iter().zip(strides).enumerate() {
        raw.shape[d] = size as u64;
        raw.stride[d] = if d == dim { 0 } else { stride as u64 };
    }
    let mut keys = device.uninitialised::<i64>(op, n)?;
    if n == 0 {
        return Ok(keys);
    }
    let mut reports = device.reports();
    device
        .kernel(op, FAMILY, "part_keys")?
        .on(device.stream())
        .write(&mut keys)
        .read(index)
        .value(&raw)
        .write(reports.noted())
        .threads(n, device.block())?;
    reports.collect(device, op, index, size as u64)?;
    Ok(keys)
}

/// The rows that several indices of dimensions of these sizes name together; negative indices
/// count from the end. A bad index is reported, and its row is −1.
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
        device
            .kernel(op, FAMILY, "joined_keys")?
            .on(device.stream())
            .write(&mut keys)
            .read(index)
            .value(&(n as u64))
            .value(&(size as u64))
            .value(&u32::from(i == 0))
            .write(reports.noted())
            .threads(n, device.block())?;
        reports.collect(device, op, index, size as u64)?;
    }
    Ok(keys)
}

/// `SbPart` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawPart {
    n: u64,
    rank: u64,
    shape: [u64; 8],
    stride: [u64; 8],
    size: u64,
    step: u64,
}
