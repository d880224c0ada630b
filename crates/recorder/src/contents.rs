//! Digests of tensors, each computed once for the lifetime of its storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;
use samebits_ledger::Digest;
use samebits_ledger::digest::{Element, WORD, blocks, finish, sample, sampled64, sum, sum64};
use samebits_ledger::record::Digests;
use samebits_tensor_core::backend::{DigestSum, backend};
use samebits_tensor_core::tensor::StorageRef;
use samebits_tensor_core::{
    DType, Device, Element as Number, Error, Layout, Result, Tensor, with_element,
};

/// The number of bytes in a piece: small relative to a core's cache, large relative to the cost of
/// dispatching it.
const PIECE: usize = 1 << 18;
/// Tensors of more bytes are digested by the pool while the computing thread continues.
const SMALL: usize = 1 << 12;

/// Returns the digest of a tensor's elements. Threads of the pool share a full digest of many
/// elements, unless the caller is one of them.
///
/// # Determinism
///
/// The digest is a function of the logical contents alone; layout, device and threads do not affect
/// it.
///
/// # Errors
///
/// If a device fails to return the tensor, or memory runs out.
pub fn digest(tensor: &Tensor, digests: Digests) -> Result<Digest> {
    match on_device(tensor, digests)? {
        Some(late) => late.wait(),
        None => on_host(tensor, digests),
    }
}

/// Starts the digest on the tensor's device, if the device computes digests.
fn on_device(tensor: &Tensor, digests: Digests) -> Result<Option<Late>> {
    if tensor.device() == Device::Cpu {
        return Ok(None);
    }
    let dense = tensor.contiguous()?;
    let Some(buffer) = dense.device_buffer() else { return Ok(None) };
    let (start, numel, size) = (dense.layout().offset(), dense.numel(), dense.dtype().size());
    let bytes = (numel * size) as u64;
    let (blocks, block) = match digests {
        Digests::Sampled => blocks(bytes),
        Digests::Full => (1, bytes.div_ceil(WORD as u64)),
    };
    let (infinity, quiet) = Element::of(dense.dtype().name()).infinity_and_nan();
    let what = DigestSum { blocks, block, infinity, quiet };
    let sum = backend(dense.device())?.digest(&**buffer, start..start + numel, size, what)?;
    Ok(sum.map(|sum| Late::new(move || sum().map(|terms| finish(terms, bytes)))))
}

/// Starts the digest of a host tensor on the pool; a reader that needs it earlier computes it
/// itself. Returns `None` if the tensor is small or the pool has one thread.
#[expect(clippy::disallowed_methods, reason = "decides who computes, and no bit")]
fn on_pool(tensor: &Tensor, digests: Digests) -> Option<Arc<Late>> {
    let bytes = tensor.numel() * tensor.dtype().size();
    if tensor.device() != Device::Cpu || bytes <= SMALL || rayon::current_num_threads() == 1 {
        return None;
    }
    let tensor = tensor.clone();
    let late = Arc::new(Late::new(move || on_host(&tensor, digests)));
    let shared = late.clone();
    rayon::spawn(move || shared.advance());
    Some(late)
}

/// A digest that a device or the pool computes.
pub(crate) struct Late(Mutex<State>);

enum State {
    Waiting(Box<dyn FnOnce() -> Result<Digest> + Send>),
    Known(Result<Digest>),
}

impl Late {
    fn new(wait: impl FnOnce() -> Result<Digest> + Send + 'static) -> Late {
        Late(Mutex::new(State::Waiting(Box::new(wait))))
    }

    /// Computes the digest, or waits for the device, on the first call.
    pub(crate) fn wait(&self) -> Result<Digest> {
        Late::known(&mut self.0.lock())
    }

    /// Does the work of [`wait`](Self::wait), unless another thread already does.
    fn advance(&self) {
        if let Some(mut state) = self.0.try_lock() {
            // The waiting thread gets the error.
            Late::known(&mut state).ok();
        }
    }

    /// Returns the digest, if it has been computed without an error.
    fn computed(&self) -> Option<Digest> {
        match &*self.0.try_lock()? {
            State::Known(Ok(digest)) => Some(*digest),
            _ => None,
        }
    }

    fn known(state: &mut State) -> Result<Digest> {
        let lost = || Error::invalid("digest", "an earlier wait for it has panicked");
        let known = match std::mem::replace(state, State::Known(Err(lost()))) {
            State::Waiting(wait) => wait(),
            State::Known(known) => known,
        };
        *state = State::Known(known.clone());
        known
    }
}

/// A digest that is known now, or later, when its device or the pool has computed it.
#[derive(Clone)]
pub(crate) enum Content {
    Known(Digest),
    Late(Arc<Late>),
}

impl Content {
    /// Replaces a late digest by its value if it has been computed.
    fn settle(&mut self) {
        let computed = match self {
            Content::Late(late) => late.computed(),
            Content::Known(_) => None,
        };
        if let Some(digest) = computed {
            *self = Content::Known(digest);
        }
    }
}

fn on_host(tensor: &Tensor, digests: Digests) -> Result<Digest> {
    let element = Element::of(tensor.dtype().name());
    if cfg!(target_endian = "big") {
        return Ok(of_bytes(element, &tensor.to_bytes()?, digests));
    }
    let tensor = tensor.to(Device::Cpu)?;
    with_element!(tensor.dtype(), T => {
        if digests == Digests::Sampled && !tensor.is_contiguous() {
            return sampled_apart::<T>(element, &tensor);
        }
        let dense = tensor.contiguous()?;
        Ok(of_bytes(element, bytemuck::cast_slice(dense.as_slice::<T>()?), digests))
    })
}

fn of_bytes(element: Element, bytes: &[u8], digests: Digests) -> Digest {
    match digests {
        Digests::Sampled => sampled64(element, bytes),
        // A thread of the pool that waits for others may take up any task, including operations,
        // and would not observe them.
        Digests::Full if bytes.len() <= PIECE || rayon::current_thread_index().is_some() => {
            sum64(element, bytes)
        }
        Digests::Full => {
            // A wrapping sum has no order.
            let pieces = bytes.par_chunks(PIECE).enumerate();
            let sums = pieces.map(|(i, piece)| sum(element, (i * (PIECE / WORD)) as u64, piece));
            finish(sums.reduce(|| 0, u64::wrapping_add), bytes.len() as u64)
        }
    }
}

/// Computes the sampled digest of non-contiguous host elements; reads only the sample.
fn sampled_apart<T: Number>(element: Element, tensor: &Tensor) -> Result<Digest> {
    let (values, layout) = (tensor.storage_slice::<T>()?, tensor.layout());
    let bytes = layout.numel() * size_of::<T>();
    // A row: elements along one stride.
    let dims = layout.shape().iter().copied().zip(layout.strides().iter().copied());
    let (row, stride) = dims.rev().find(|&(size, _)| size != 1).unwrap_or((1, 1));
    let mut block = Vec::new();
    let sums = sample(bytes as u64).map(|words| {
        let [mut at, end] =
            [words.start, words.end].map(|word| word as usize * WORD / size_of::<T>());
        let end = end.min(layout.numel());
        block.clear();
        while let Some(start) = layout.positions_from(at).next().filter(|_| at < end) {
            let run = (row - at % row).min(end - at);
            block.extend((0..run).map(|i| values[start + i * stride]));
            at += run;
        }
        sum(element, words.start, bytemuck::cast_slice(&block))
    });
    Ok(finish(sums.fold(0, u64::wrapping_add), bytes as u64))
}

/// The known digests.
pub(crate) struct Contents {
    digests: Digests,
    known: Mutex<Known>,
}

/// Digests by the address of the storage; the reference keeps the address from being reused.
struct Known {
    storages: BTreeMap<usize, (StorageRef, Vec<(Part, Content)>)>,
    /// The number of storages at which dead ones are removed.
    crowded: usize,
}

/// The part of a storage that a tensor views.
#[derive(PartialEq)]
enum Part {
    /// Contiguous elements, whatever the shape.
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

    /// Returns the digest of a tensor's elements at this moment.
    pub(crate) fn digest(&self, tensor: &Tensor) -> Result<Content> {
        let part = Part::of(tensor);
        if let Some((_, parts)) = self.known.lock().storages.get_mut(&tensor.storage_address())
            && let Some((_, content)) = parts.iter_mut().find(|(known, _)| *known == part)
        {
            content.settle();
            return Ok(content.clone());
        }
        // The reference makes later writes copy first, so the digest cannot outlive its contents.
        let storage = tensor.storage();
        let late = match on_device(tensor, self.digests)? {
            Some(late) => Some(Arc::new(late)),
            None => on_pool(tensor, self.digests),
        };
        let content = match late {
            Some(late) => Content::Late(late),
            None => Content::Known(on_host(tensor, self.digests)?),
        };
        let mut known = self.known.lock();
        if known.storages.len() >= known.crowded {
            known.storages.retain(|_, (storage, _)| storage.is_alive());
            known.crowded = 1024 + 2 * known.storages.len();
        }
        let entry = known.storages.entry(tensor.storage_address());
        let (_, parts) = entry.or_insert_with(|| (storage, Vec::new()));
        parts.push((part, content.clone()));
        Ok(content)
    }
}
