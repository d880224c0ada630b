//! Keys and values of the tokens that a model has seen.

use samebits_tensor_core::{DType, Device, Element, Error, Result, Tensor as Value};

use crate::Tensor;
use crate::functional::cat;

const NAME: &str = "KvCache";

/// The numbers of tokens that there is room for are multiples of this.
const ROOM: usize = 64;

/// The keys and values of one sequence, for every layer of a [`Gpt`](super::Gpt).
///
/// A clone shares memory with its origin and grows separately, so several sequences can start from
/// one prompt; the first growth after that copies the tensors of every layer. On the CPU there is
/// room for further tokens, which doubles when it is used up.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Gpt, KvCache};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let model = Gpt::options(50, 16, 2, 2).context(8).init()?;
/// let mut cache = KvCache::new();
/// model.forward_cached(&Tensor::new([3i64, 1, 4])?, &mut cache)?;
/// assert_eq!(cache.len(), 3);
/// cache.truncate(2)?;
/// let logits = model.forward_cached(&Tensor::new([4i64])?, &mut cache)?;
/// assert_eq!((cache.len(), logits.shape()), (3, &[1, 50][..]));
/// # Ok::<(), samebits::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct KvCache {
    /// Keys and values by layer. They may hold more tokens than `length`, which do not count.
    layers: Vec<[Rows; 2]>,
    length: usize,
}

impl KvCache {
    /// Creates a cache without tokens, for any model.
    pub fn new() -> KvCache {
        KvCache::default()
    }

    /// Returns the number of tokens, which is the position of the next one.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Keeps the first `length` tokens.
    ///
    /// # Errors
    ///
    /// There are fewer tokens.
    pub fn truncate(&mut self, length: usize) -> Result<()> {
        if length > self.length {
            let message = format!("expected at most {} tokens, got {length}", self.length);
            return Err(Error::invalid("KvCache::truncate", message));
        }
        self.length = length;
        if length == 0 {
            self.layers.clear();
        }
        Ok(())
    }

    /// Returns whether the cache can belong to a model of `layers` layers.
    pub(super) fn fits(&self, layers: usize) -> bool {
        self.length == 0 || self.layers.len() == layers
    }

    /// Writes keys and values of new tokens, `[kv_heads, new, width]`, behind those of the cache, and
    /// returns the keys and values of all. Layers come in order. The new tokens count from the next
    /// call of [`grow`](Self::grow) on.
    pub(super) fn extended(&mut self, layer: usize, new: [Tensor; 2]) -> Result<[Tensor; 2]> {
        if self.length == 0 {
            // Rows of a call that failed may be there.
            self.layers.truncate(layer);
        }
        let [key, value] = new;
        match self.layers.get_mut(layer) {
            Some([keys, values]) => {
                Ok([keys.extended(self.length, key)?, values.extended(self.length, value)?])
            }
            None => {
                let (mut keys, mut values) = (Rows::new(true), Rows::new(false));
                let all = [keys.extended(0, key)?, values.extended(0, value)?];
                self.layers.push([keys, values]);
                Ok(all)
            }
        }
    }

    /// Counts `added` tokens that all layers have been extended by.
    pub(super) fn grow(&mut self, added: usize) {
        self.length += added;
    }
}

/// The keys or the values of a layer, with room for more.
#[derive(Clone, Debug)]
struct Rows {
    /// `[kv_heads, room, width]`, or `[kv_heads, width, room]` if transposed; `None` before the first
    /// token.
    data: Option<Value>,
    /// If true, one feature of consecutive tokens is contiguous, as products with keys read it.
    transposed: bool,
}

impl Rows {
    fn new(transposed: bool) -> Rows {
        Rows { data: None, transposed }
    }

    /// Writes `new` after the first `length` rows, and returns all rows up to there.
    fn extended(&mut self, length: usize, new: Tensor) -> Result<Tensor> {
        if new.numel() == 0 {
            return match &self.data {
                Some(old) if length > 0 => Ok(self.first(old, length)?.into()),
                _ => Ok(new),
            };
        }
        let host = new.device() == Device::Cpu;
        if !host || !matches!(new.dtype(), DType::F32 | DType::F64) {
            let all = match &self.data {
                Some(old) if length > 0 => cat(&[Tensor::from(self.first(old, length)?), new], -2)?,
                _ => new,
            };
            let data = all.value();
            self.data = Some(if self.transposed { data.transpose(1, 2)? } else { data.clone() });
            return Ok(all);
        }
        let new = new.value();
        let end = length + new.shape()[1];
        let fits = |data: &Value| data.is_contiguous() && self.room(data) >= end;
        if !self.data.as_ref().is_some_and(fits) {
            self.enlarge(length, end, new)?;
        }
        let Some(data) = &mut self.data else {
            return Err(Error::invalid(NAME, "expected room for tokens, got none"));
        };
        match new.dtype() {
            DType::F64 => write::<f64>(data, self.transposed, length, new)?,
            _ => write::<f32>(data, self.transposed, length, new)?,
        }
        let data = data.clone();
        Ok(self.first(&data, end)?.into())
    }

    /// Moves the first `length` rows to memory with room for `end` rows and more.
    fn enlarge(&mut self, length: usize, end: usize, new: &Value) -> Result<()> {
        let (heads, width) = (new.shape()[0], new.shape()[2]);
        let old = self.data.take();
        let twice = old.as_ref().map_or(0, |old| self.room(old).saturating_mul(2));
        let room = end.max(twice).next_multiple_of(ROOM);
        let shape = if self.transposed { [heads, width, room] } else { [heads, room, width] };
        let mut data = Value::scratch(&shape, new.dtype()).map_err(|error| error.called(NAME))?;
        if let Some(old) = old.filter(|_| length > 0) {
            let rows = self.first(&old, length)?;
            match new.dtype() {
                DType::F64 => write::<f64>(&mut data, self.transposed, 0, &rows)?,
                _ => write::<f32>(&mut data, self.transposed, 0, &rows)?,
            }
        }
        self.data = Some(data);
        Ok(())
    }

    fn room(&self, data: &Value) -> usize {
        data.shape()[if self.transposed { 2 } else { 1 }]
    }

    /// Returns the first rows, `[kv_heads, length, width]`.
    fn first(&self, data: &Value, length: usize) -> Result<Value> {
        let rows = if self.transposed { data.transpose(1, 2)? } else { data.clone() };
        rows.narrow(1, 0, length)
    }
}

/// Writes `rows`, `[kv_heads, count, width]`, after the first `length` rows.
fn write<T: Element>(
    data: &mut Value,
    transposed: bool,
    length: usize,
    rows: &Value,
) -> Result<()> {
    let rows = rows.contiguous()?;
    let &[_, count, width] = rows.shape() else {
        return Err(Error::invalid(NAME, format!("expected 3 dimensions, got {}", rows.rank())));
    };
    let each = data.shape()[1] * data.shape()[2];
    let rows = rows.as_slice::<T>()?.chunks_exact(count * width);
    for (rows, to) in rows.zip(data.as_mut_slice::<T>()?.chunks_exact_mut(each)) {
        if !transposed {
            to[length * width..][..rows.len()].copy_from_slice(rows);
            continue;
        }
        for (feature, to) in to.chunks_exact_mut(each / width).enumerate() {
            let from = rows[feature..].iter().step_by(width);
            for (to, &from) in to[length..].iter_mut().zip(from) {
                *to = from;
            }
        }
    }
    Ok(())
}
