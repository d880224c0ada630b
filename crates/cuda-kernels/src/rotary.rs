//! Rotary position embedding.

use samebits_tensor_core::geometry::Rotation;

use crate::device::{Device, Float, expect_len, product};
use crate::error::Result;
use crate::launch::declared::rotary::RawRotary;
use crate::launch::kernels::rotary as kernels;
use crate::launch::{Buffer, Launch};

const ROTARY: &str = "rotary_embedding";

/// The arguments of [`rotary_embedding`] beside its input.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a, T> {
    /// The cosine for each position and pair, length by half.
    pub cos: &'a Buffer<T>,
    /// The sines.
    pub sin: &'a Buffer<T>,
    /// If true, a pair are features `2i` and `2i + 1`; else `i` and `i + half`.
    pub interleaved: bool,
}

/// Rotates pairs of features of `rows` rows; row `r` is at position `r mod length`.
///
/// # Determinism
///
/// Portable: a pair `(a, b)` becomes `(a · cos − b · sin, b · cos + a · sin)`, and each operation is
/// rounded.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn rotary_embedding<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    rows: usize,
    tables: Tables<'_, T>,
    rotation: Rotation,
) -> Result<Buffer<T>> {
    let Rotation { length, width, half } = rotation;
    let Tables { cos, sin, interleaved } = tables;
    let elements = product(ROTARY, &[rows, width])?;
    let angles = product(ROTARY, &[length, half])?;
    expect_len(ROTARY, "the input", x, elements)?;
    expect_len(ROTARY, "the cosines", cos, angles)?;
    expect_len(ROTARY, "the sines", sin, angles)?;
    let mut out = device.uninitialised(ROTARY, elements)?;
    let p = RawRotary { rows, length, width, half, interleaved: usize::from(interleaved) };
    let threads = product(ROTARY, &[rows, width - half])?;
    kernels::Rotary { out: &mut out, x, cos, sin, p }.threads(device, ROTARY, threads)?;
    Ok(out)
}
