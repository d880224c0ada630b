//! Matrix products in the written order.
//!
//! # Examples
//!
//! ```
//! use samebits_cuda_kernels::matmul::{Matrix, matmul};
//! use samebits_cuda_kernels::Device;
//! # if !samebits_cuda_kernels::is_available() {
//! #     return Ok(());
//! # }
//! let device = Device::new(0)?;
//! let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
//! let a = Matrix { data: &x, row: 2, column: 1, offsets: &[0] };
//! let transposed = Matrix { row: 1, column: 2, ..a };
//! let product = matmul(&device, a, transposed, [2, 2, 2])?;
//! assert_eq!(device.download(&product)?, [5.0, 11.0, 11.0, 25.0]);
//! # Ok::<(), samebits_cuda_kernels::CudaError>(())
//! ```

use crate::launch::kernels::matmul as kernels;
use crate::launch::{Buffer, Launch};
use bytemuck::{Pod, Zeroable};

use crate::Variant;
use crate::device::{Device, Float, product};
use crate::elementwise::fill;
use crate::error::{CudaError, Result};
use crate::reduce::grid;

/// Outputs of a block along each side.
const TILE: usize = 64;
/// k within which a partial is one chain.
pub(crate) const K_BLOCK: usize = 256;

/// A matrix in a buffer, by strides: element (i, j) of matrix b of the batch is
/// `offsets[b] + i · row + j · column`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    /// Where the elements are.
    pub data: &'a Buffer<T>,
    /// Distance of rows.
    pub row: usize,
    /// Distance of columns.
    pub column: usize,
    /// Where each matrix of the batch begins.
    pub offsets: &'a [usize],
}

/// `a · b` for each pair of matrices.
///
/// # Shapes
///
/// `[batch, m, k]` by `[batch, k, n]`, `shape = [m, n, k]`; returns `[batch, m, n]`.
///
/// # Determinism
///
/// Portable. Each output: within each block of 256 consecutive k, ascending, `acc = fma(a, b,
/// acc)` from +0; then the blocks are added in ascending order, one rounding each. Splitting k
/// over thread blocks at these borders changes no bit, so it is done when it is faster.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if a matrix reaches outside its buffer or the batches differ.
pub fn matmul<T: Float>(
    device: &Device,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    shape: [usize; 3],
) -> Result<Buffer<T>> {
    let op = "matmul";
    let [m, n, k] = shape;
    let (raw, offsets_a, offsets_b, outputs) = prepare(device, op, &a, &b, shape)?;
    let mut out = device.uninitialised(op, outputs)?;
    let tiles = product(op, &[m.div_ceil(TILE), n.div_ceil(TILE), a.offsets.len()])?;
    // Few tiles and a long k would leave most of a GPU idle.
    if !T::WIDE && tiles < 64 && k >= 8 * K_BLOCK {
        let (partials, blocks) = partials(device, op, &a, &b, raw, &offsets_a, &offsets_b)?;
        kernels::MatmulCombine { out: &mut out, partials: &partials, n: outputs, blocks }
            .threads(device, op, outputs)?;
        return Ok(out);
    }
    kernels::Matmul {
        out: &mut out,
        a: a.data,
        b: b.data,
        a_offset: &offsets_a,
        b_offset: &offsets_b,
        p: raw,
    }
    .grid(device, op, (grid(op, tiles)?, 1, 1), (256, 1, 1))?;
    Ok(out)
}

/// `a · b` with k split over thread blocks.
///
/// # Shapes
///
/// As [`matmul`].
///
/// # Determinism
///
/// [`Variant::Deterministic`] has the bits of [`matmul`]. [`Variant::Atomic`] adds the partials
/// with float atomics: not guaranteed.
///
/// # Errors
///
/// As [`matmul`].
pub fn matmul_split(
    device: &Device,
    a: Matrix<'_, f32>,
    b: Matrix<'_, f32>,
    shape: [usize; 3],
    variant: Variant,
) -> Result<Buffer<f32>> {
    let op = "matmul";
    let (raw, offsets_a, offsets_b, outputs) = prepare(device, op, &a, &b, shape)?;
    if shape[2] == 0 {
        return device.zeros_for(op, outputs);
    }
    let (partials, blocks) = partials(device, op, &a, &b, raw, &offsets_a, &offsets_b)?;
    let mut out = device.zeros_for(op, outputs)?;
    let partials = &partials;
    match variant {
        Variant::Deterministic => {
            kernels::MatmulCombine { out: &mut out, partials, n: outputs, blocks }
                .threads(device, op, outputs)?;
        }
        Variant::Atomic => {
            kernels::MatmulCombineAtomic { out: &mut out, partials, n: outputs, blocks }.threads(
                device,
                op,
                product(op, &[outputs, blocks])?,
            )?;
        }
    }
    Ok(out)
}

fn partials<T: Float>(
    device: &Device,
    op: &'static str,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    raw: RawMatmul,
    offsets_a: &Buffer<u64>,
    offsets_b: &Buffer<u64>,
) -> Result<(Buffer<T>, usize)> {
    let (m, n, batch) = (raw.m, raw.n, raw.batch);
    let blocks = raw.k.div_ceil(K_BLOCK);
    if blocks > 65_535 {
        return Err(CudaError::invalid(op, format!("k = {} is too long to split", raw.k)));
    }
    let tiles = product(op, &[m.div_ceil(TILE), n.div_ceil(TILE), batch])?;
    let mut partials = device.uninitialised(op, product(op, &[m, n, batch, blocks])?)?;
    kernels::MatmulPartial {
        partials: &mut partials,
        a: a.data,
        b: b.data,
        a_offset: offsets_a,
        b_offset: offsets_b,
        p: raw,
    }
    .grid(device, op, (grid(op, tiles)?, blocks as u32, 1), (256, 1, 1))?;
    Ok((partials, blocks))
}

fn prepare<T: Float>(
    device: &Device,
    op: &'static str,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    [m, n, k]: [usize; 3],
) -> Result<(RawMatmul, Buffer<u64>, Buffer<u64>, usize)> {
    if a.offsets.len() != b.offsets.len() {
        return Err(CudaError::invalid(
            op,
            format!("the batches have {} and {} matrices", a.offsets.len(), b.offsets.len()),
        ));
    }
    a.check(op, "the left matrix", m, k)?;
    b.check(op, "the right matrix", k, n)?;
    let outputs = product(op, &[a.offsets.len(), m, n])?;
    let raw = RawMatmul {
        m,
        n,
        k,
        a_row: a.row,
        a_column: a.column,
        b_row: b.row,
        b_column: b.column,
        batch: a.offsets.len(),
    };
    Ok((raw, offsets(device, op, a.offsets)?, offsets(device, op, b.offsets)?, outputs))
}

/// Where matrices begin, as kernels read it. Only different places have to be uploaded: one matrix,
/// or the same for a whole batch, leaves the host out.
fn offsets(device: &Device, op: &'static str, offsets: &[usize]) -> Result<Buffer<u64>> {
    match offsets.first().copied() {
        Some(first) if offsets.iter().any(|&offset| offset != first) => {
            device.upload(&offsets.iter().map(|&offset| offset as u64).collect::<Vec<_>>())
        }
        Some(first) if first > 0 => fill(device, offsets.len(), first as u64),
        _ => device.zeros_for(op, offsets.len()),
    }
}

impl<T> Matrix<'_, T> {
    pub(crate) fn check(
        &self,
        op: &'static str,
        what: &str,
        rows: usize,
        columns: usize,
    ) -> Result<()> {
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let reach = (rows as u128 - 1) * self.row as u128
            + (columns as u128 - 1) * self.column as u128
            + self.offsets.iter().copied().max().unwrap_or(0) as u128;
        if reach >= self.data.len() as u128 && !self.offsets.is_empty() {
            return Err(CudaError::invalid(
                op,
                format!(
                    "{what} ({rows} x {columns}, strides {} and {}) reaches {reach} in a buffer of \
                     {} elements",
                    self.row,
                    self.column,
                    self.data.len()
                ),
            ));
        }
        Ok(())
    }
}

/// Strides in elements; batch b of the result uses a_offset[b] and b_offset[b].
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawMatmul {
    m: usize,
    n: usize,
    k: usize,
    a_row: usize,
    a_column: usize,
    b_row: usize,
    b_column: usize,
    batch: usize,
}
