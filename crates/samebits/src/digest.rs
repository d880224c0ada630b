use std::borrow::Borrow;

use sha2::{Digest, Sha256};

use crate::{Result, Tensor};

/// Computes a SHA-256 digest, in hexadecimal, of named tensors. Two digests are equal if and only
/// if, for all practical purposes, the names, types, shapes and bits are.
///
/// # Determinism
///
/// The digest is a function of the logical contents alone; strides, devices and byte orders do not
/// affect it.
///
/// # Errors
///
/// If a device fails to return its tensor.
///
/// # Examples
///
/// ```
/// use samebits::Tensor;
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// let y = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 4.0], &[2, 2])?.transpose(0, 1)?;
/// assert_eq!(samebits::digest([("x", &x)])?, samebits::digest([("x", &y)])?);
/// # Ok::<(), samebits::Error>(())
/// ```
pub fn digest(
    tensors: impl IntoIterator<Item = (impl AsRef<str>, impl Borrow<Tensor>)>,
) -> Result<String> {
    let mut hash = Sha256::new();
    // The length of each part precedes it, so that no two lists of tensors give the same bytes.
    for (name, tensor) in tensors {
        let tensor = tensor.borrow();
        for part in [name.as_ref(), tensor.dtype().name()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update((tensor.rank() as u64).to_le_bytes());
        for &size in tensor.shape() {
            hash.update((size as u64).to_le_bytes());
        }
        hash.update(tensor.to_bytes()?);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
