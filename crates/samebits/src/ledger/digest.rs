//! Digests of tensors, by the thread pool.

use rayon::prelude::*;
use samebits_ledger::Digest;
use samebits_ledger::digest::{Element, WORD, finish, sampled64, sum};
use samebits_ledger::record::Digests;
use samebits_tensor_core::{Tensor as Value, with_element};

use crate::{Device, Result};

/// The bytes of a piece: small beside a core's cache, large beside the cost of handing it out.
const PIECE: usize = 1 << 18;

/// The digest of a tensor's elements.
pub(super) fn digest(tensor: &Value, digests: Digests) -> Result<Digest> {
    let in_place =
        tensor.device() == Device::Cpu && tensor.is_contiguous() && cfg!(target_endian = "little");
    if !in_place {
        return Ok(of_bytes(tensor, &tensor.to_bytes()?, digests));
    }
    with_element!(tensor.dtype(), T => {
        Ok(of_bytes(tensor, bytemuck::cast_slice(tensor.as_slice::<T>()?), digests))
    })
}

fn of_bytes(tensor: &Value, bytes: &[u8], digests: Digests) -> Digest {
    let element = Element::of(tensor.dtype().name());
    if digests == Digests::Sampled {
        return sampled64(element, bytes);
    }
    if bytes.len() <= PIECE {
        return finish(sum(element, 0, bytes), bytes.len() as u64);
    }
    // A wrapping sum has no order.
    let pieces = bytes.par_chunks(PIECE).enumerate();
    let sums = pieces.map(|(i, piece)| sum(element, (i * (PIECE / WORD)) as u64, piece));
    finish(sums.reduce(|| 0, u64::wrapping_add), bytes.len() as u64)
}
