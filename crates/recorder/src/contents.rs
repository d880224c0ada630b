//! Digests of tensors, each computed once for as long as its storage lives.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rayon::prelude::*;
use samebits_ledger::Digest;
use samebits_ledger::digest::{Element, WORD, finish, sampled64, sum, sum64};
use samebits_ledger::record::Digests;
use samebits_tensor_core::tensor::StorageRef;
use samebits_tensor_core::{DType, Device, Layout, Result, Tensor, with_element};

/// The bytes of a piece: small beside a core's cache, large beside the cost of handing it out.
const PIECE: usize = 1 << 18;

/// The digest of a tensor's elements, which threads of the pool share if there are many.
///
/// # Determinism
///
/// A function of the logical contents alone: layouts, devices and threads do not enter.
///
/// # Errors
///
/// A device fails to hand the tensor over, or there is no memory for it.
pub fn digest(tensor: &Tensor, digests: Digests) -> Result<Digest> {
    with_bytes(tensor, |element, bytes| {
        if digests == Digests::Sampled || bytes.len() <= PIECE {
            return by_one_thread(digests, element, bytes);
        }
        // A wrapping sum has no order.
        let pieces = bytes.par_chunks(PIECE).enumerate();
        let sums = pieces.map(|(i, piece)| sum(element, (i * (PIECE / WORD)) as u64, piece));
        finish(sums.reduce(|| 0, u64::wrapping_add), bytes.len() as u64)
    })
}

/// [`digest`] without the pool.
pub(crate) fn digest_alone(tensor: &Tensor, digests: Digests) -> Result<Digest> {
    with_bytes(tensor, |element, bytes| by_one_thread(digests, element, bytes))
}

fn by_one_thread(digests: Digests, element: Element, bytes: &[u8]) -> Digest {
    match digests {
        Digests::Full => sum64(element, bytes),
        Digests::Sampled => sampled64(element, bytes),
    }
}

/// Hands over the elements in row-major order, little-endian.
fn with_bytes<R>(tensor: &Tensor, f: impl FnOnce(Element, &[u8]) -> R) -> Result<R> {
    let element = Element::of(tensor.dtype().name());
    if cfg!(target_endian = "big") {
        return Ok(f(element, &tensor.to_bytes()?));
    }
    let dense = tensor.to(Device::Cpu)?.contiguous()?;
    with_element!(dense.dtype(), T => {
        Ok(f(element, bytemuck::cast_slice(dense.as_slice::<T>()?)))
    })
}

/// The digests that are known.
pub(crate) struct Contents {
    digests: Digests,
    known: Mutex<Known>,
}

/// Digests by the address of the storage, which the reference keeps from being given away.
struct Known {
    storages: BTreeMap<usize, (StorageRef, Vec<(Part, Digest)>)>,
    /// At how many storages those that are gone are left out.
    crowded: usize,
}

/// The part of a storage that a tensor shows.
#[derive(PartialEq)]
enum Part {
    /// Elements in a row, whatever the shape.
    Dense {
        start: usize,
        numel: usize,
        dtype: DType,
    },
    Strided(Layout, DType),
}

impl Part {
    fn of(tensor: &Tensor) -> Part {
        let (layout, dtype) = (tensor.layout(), tensor.dtype());
        if layout.is_contiguous() {
            Part::Dense { start: layout.offset(), numel: layout.numel(), dtype }
        } else {
            Part::Strided(layout.clone(), dtype)
        }
    }
}

impl Contents {
    pub(crate) fn new(digests: Digests) -> Contents {
        let known = Mutex::new(Known { storages: BTreeMap::new(), crowded: 1024 });
        Contents { digests, known }
    }

    /// The digest, if it was computed before.
    pub(crate) fn known(&self, tensor: &Tensor) -> Option<Digest> {
        let known = self.known.lock();
        let (_, parts) = known.storages.get(&tensor.storage_address())?;
        let part = Part::of(tensor);
        parts.iter().find(|(known, _)| *known == part).map(|&(_, digest)| digest)
    }

    /// The digest, with the help of the pool.
    pub(crate) fn digest(&self, tensor: &Tensor) -> Result<Digest> {
        self.known_or(tensor, |tensor| digest(tensor, self.digests))
    }

    /// The digest, on this thread: one that the pool may wait for must not wait for the pool.
    pub(crate) fn digest_alone(&self, tensor: &Tensor) -> Result<Digest> {
        self.known_or(tensor, |tensor| digest_alone(tensor, self.digests))
    }

    fn known_or(
        &self,
        tensor: &Tensor,
        compute: impl FnOnce(&Tensor) -> Result<Digest>,
    ) -> Result<Digest> {
        if let Some(digest) = self.known(tensor) {
            return Ok(digest);
        }
        // From here on a write copies first, so the digest cannot outlive its contents.
        let storage = tensor.storage();
        let digest = compute(tensor)?;
        let mut known = self.known.lock();
        if known.storages.len() >= known.crowded {
            known.storages.retain(|_, (storage, _)| storage.is_alive());
            known.crowded = 1024 + 2 * known.storages.len();
        }
        let entry = known.storages.entry(tensor.storage_address());
        let (_, parts) = entry.or_insert_with(|| (storage, Vec::new()));
        parts.push((Part::of(tensor), digest));
        Ok(digest)
    }
}
