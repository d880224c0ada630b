//! PyTorch's random numbers, for porting a run with its shuffles and masks.
//!
//! [`CpuGenerator`] reproduces `torch.manual_seed` and later draws on the CPU; [`CudaLaunch`]
//! reproduces `torch.rand` and dropout's mask on a GPU, which depend on the GPU's number of
//! multiprocessors. Both were compared with PyTorch 2.11.
//!
//! ```
//! use samebits_rng::torch::CpuGenerator;
//!
//! // torch.manual_seed(0); torch.randperm(10)
//! let mut generator = CpuGenerator::manual_seed(0);
//! assert_eq!(generator.randperm(10)?, [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]);
//! # Ok::<(), samebits_rng::Error>(())
//! ```

use alloc::vec::Vec;
#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

mod cuda;

pub use crate::mt19937::Mt19937;
pub use cuda::CudaLaunch;

use crate::state::{u32_at, u64_at};
use crate::{Error, wide};
use samebits_numerics::{math, memory};

/// PyTorch's CPU generator: [`Mt19937`] and the values that PyTorch computes from its words.
///
/// # Determinism
///
/// Fixed forever, and equal to PyTorch's: words, `rand`, `randint`, `random_`, `randperm` and
/// `bernoulli` in every bit. `randn` reproduces PyTorch's draws but not the rounding errors of its
/// logarithms and cosines, which differ between PyTorch's own builds.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuGenerator {
    seed: u64,
    engine: Mt19937,
    /// The second numbers of the last Box–Muller pairs.
    cached_f64: Option<f64>,
    cached_f32: Option<f32>,
}

impl CpuGenerator {
    /// The number of bytes that [`get_state`](CpuGenerator::get_state) returns.
    pub const STATE_BYTES: usize = 5056;

    /// Creates `torch.Generator().manual_seed(seed)`. Only the seed's low 32 bits affect the
    /// numbers; pass a negative seed in two's complement.
    pub fn manual_seed(seed: u64) -> CpuGenerator {
        let engine = Mt19937::new(seed as u32);
        CpuGenerator { seed, engine, cached_f64: None, cached_f32: None }
    }

    /// Returns the seed.
    pub const fn initial_seed(&self) -> u64 {
        self.seed
    }

    /// Returns the next word.
    pub fn random(&mut self) -> u32 {
        self.engine.next_word()
    }

    /// Returns the next two words as one number, the high half first.
    pub fn random64(&mut self) -> u64 {
        let high = u64::from(self.random());
        high << 32 | u64::from(self.random())
    }

    /// Fills `out` with `torch.rand(n)`, or `uniform_(0, 1)`, of dtype float32.
    pub fn rand_f32(&mut self, out: &mut [f32]) {
        for x in out {
            *x = self.unit_f32();
        }
    }

    /// Fills `out` with `torch.rand(n, dtype=torch.float64)`.
    pub fn rand_f64(&mut self, out: &mut [f64]) {
        for x in out {
            *x = self.unit_f64();
        }
    }

    /// Fills `out` with `uniform_(from, to)` of dtype float32: the uniform number times (to −
    /// from), plus from.
    pub fn uniform_f32(&mut self, out: &mut [f32], from: f32, to: f32) {
        for x in out {
            *x = self.unit_f32() * (to - from) + from;
        }
    }

    /// Fills `out` with `torch.randint(low, high, (n,))`, or `random_(low, high)`, of an integer
    /// dtype that holds the values. Takes one word per value if high − low is below 2^28, otherwise
    /// two.
    ///
    /// # Errors
    ///
    /// If `low >= high`.
    pub fn randint(&mut self, out: &mut [i64], low: i64, high: i64) -> Result<(), Error> {
        if low >= high {
            let found = (low, high);
            return Err(Error::parameter("torch::randint", "(low, high)", found, "increasing"));
        }
        let range = high.wrapping_sub(low) as u64;
        for x in out {
            let word = if range >= 1 << 28 { self.random64() } else { u64::from(self.random()) };
            *x = low.wrapping_add((word % range) as i64);
        }
        Ok(())
    }

    /// Returns `torch.empty((), dtype=torch.int64).random_()`, from which a DataLoader takes its
    /// base seed.
    pub fn random_i64(&mut self) -> i64 {
        (self.random64() % (1 << 63)) as i64
    }

    /// Returns `torch.empty((), dtype=torch.int32).random_()`.
    pub fn random_i32(&mut self) -> i32 {
        (self.random() % (1 << 31)) as i32
    }

    /// Returns `torch.empty((), dtype=torch.float32).random_()`: a whole number up to 2^24.
    pub fn random_f32(&mut self) -> f32 {
        (self.random() % ((1 << 24) + 1)) as f32
    }

    /// Returns `torch.empty((), dtype=torch.float64).random_()`: a whole number up to 2^53.
    pub fn random_f64(&mut self) -> f64 {
        (self.random64() % ((1 << 53) + 1)) as f64
    }

    /// Returns `torch.randperm(n)`.
    ///
    /// # Errors
    ///
    /// If there is no memory for `n` numbers. The generator is then unchanged.
    pub fn randperm(&mut self, n: usize) -> Result<Vec<i64>, Error> {
        let order = memory::collected((0..n).map(|i| i as i64));
        let mut order = order.map_err(Error::memory("torch::randperm"))?;
        if (n as u64) < (u64::from(u32::MAX) + 1) / 20 {
            for i in 0..n.saturating_sub(1) {
                let j = i + self.random() as usize % (n - i);
                order.swap(i, j);
            }
        } else {
            for i in 0..n {
                let j = (self.random64() % (i as u64 + 1)) as usize;
                order[i] = order[j];
                order[j] = i as i64;
            }
        }
        Ok(order)
    }

    /// Fills `out` with `torch.empty(n).bernoulli_(p)`, or the mask of `dropout(x, 1 - p)`: true
    /// with probability `p`.
    pub fn bernoulli(&mut self, out: &mut [bool], p: f64) {
        for x in out {
            *x = self.unit_f64() < p;
        }
    }

    /// Fills `out` with `torch.bernoulli(p)`, with a float32 probability for each element.
    ///
    /// # Errors
    ///
    /// If the slices differ in length.
    pub fn bernoulli_each(&mut self, p: &[f32], out: &mut [bool]) -> Result<(), Error> {
        if p.len() != out.len() {
            return Err(Error::length("torch::bernoulli_each", "p", p.len(), "out", out.len()));
        }
        for (x, p) in out.iter_mut().zip(p) {
            *x = self.unit_f32() < *p;
        }
        Ok(())
    }

    /// Fills `out` with `torch.randn(n)` of a contiguous float32 tensor.
    ///
    /// Below 16 elements PyTorch computes in f64, and the values are equal except for the last bits
    /// of the f64; from 16 on it computes in f32, and the values agree to a few units in the last
    /// place.
    pub fn randn_f32(&mut self, out: &mut [f32]) {
        if out.len() < 16 {
            for x in out {
                *x = self.scalar_normal() as f32;
            }
            return;
        }
        self.rand_f32(out);
        let whole = out.len() / 16 * 16;
        out[..whole].chunks_exact_mut(16).for_each(box_muller_f32);
        if whole < out.len() {
            // PyTorch draws the last 16 anew, overwriting earlier values.
            let last = out.len() - 16;
            self.rand_f32(&mut out[last..]);
            box_muller_f32(&mut out[last..]);
        }
    }

    /// Fills `out` with `torch.randn(n, dtype=torch.float64)` of a contiguous tensor, except for
    /// the last bits of the f64.
    pub fn randn_f64(&mut self, out: &mut [f64]) {
        if out.len() < 16 {
            for x in out {
                *x = self.scalar_normal();
            }
            return;
        }
        self.rand_f64(out);
        let whole = out.len() / 16 * 16;
        out[..whole].chunks_exact_mut(16).for_each(box_muller_f64);
        if whole < out.len() {
            let last = out.len() - 16;
            self.rand_f64(&mut out[last..]);
            box_muller_f64(&mut out[last..]);
        }
    }

    /// Returns `generator.get_state()`: the bytes of PyTorch's tensor.
    #[must_use]
    pub fn get_state(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CpuGenerator::STATE_BYTES);
        bytes.extend(self.seed.to_le_bytes());
        bytes.extend(self.engine.left().to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(u64::from(self.engine.next()).to_le_bytes());
        for word in self.engine.words() {
            bytes.extend(u64::from(*word).to_le_bytes());
        }
        bytes.extend(0f64.to_le_bytes());
        bytes.extend(self.cached_f64.unwrap_or(0.0).to_le_bytes());
        bytes.extend(0f64.to_le_bytes());
        bytes.extend(u64::from(self.cached_f64.is_some()).to_le_bytes());
        bytes.extend(self.cached_f32.unwrap_or(0.0).to_le_bytes());
        bytes.extend(u32::from(self.cached_f32.is_some()).to_le_bytes());
        bytes
    }

    /// Restores `generator.set_state(state)`: a generator that continues from PyTorch's position.
    ///
    /// # Errors
    ///
    /// If the length is not 5056 bytes, or the state is not valid for a Mersenne Twister.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::torch::CpuGenerator;
    ///
    /// let mut generator = CpuGenerator::manual_seed(3);
    /// generator.random();
    /// let mut restored = CpuGenerator::from_state(&generator.get_state())?;
    /// assert_eq!(restored.random(), generator.random());
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn from_state(state: &[u8]) -> Result<CpuGenerator, Error> {
        let op = "torch::CpuGenerator::from_state";
        if state.len() != CpuGenerator::STATE_BYTES {
            let (expected, found) = (CpuGenerator::STATE_BYTES, state.len());
            return Err(Error::StateLength { op, expected, found });
        }
        if u32_at(state, 12) != 1 {
            return Err(Error::StateValue { op, what: "an engine that was never seeded" });
        }
        let mut words = [0; Mt19937::WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            *word = u32::try_from(u64_at(state, 24 + 8 * i))
                .map_err(|_| Error::StateValue { op, what: "a word of more than 32 bits" })?;
        }
        let engine = Mt19937::from_parts(words, u32_at(state, 8), u64_at(state, 16))
            .ok_or(Error::StateValue { op, what: "a position outside the 624 words" })?;
        let normals = 24 + 8 * Mt19937::WORDS;
        let cached_f64 = match u32_at(state, normals + 24) {
            0 => None,
            _ => Some(f64::from_bits(u64_at(state, normals + 8))),
        };
        let cached_f32 = match state[normals + 36] {
            0 => None,
            _ => Some(f32::from_bits(u32_at(state, normals + 32))),
        };
        Ok(CpuGenerator { seed: u64_at(state, 0), engine, cached_f64, cached_f32 })
    }

    fn unit_f32(&mut self) -> f32 {
        (self.random() & 0x00ff_ffff) as f32 * (1.0 / 16777216.0)
    }

    fn unit_f64(&mut self) -> f64 {
        (self.random64() & ((1 << 53) - 1)) as f64 * (1.0 / 9007199254740992.0)
    }

    fn scalar_normal(&mut self) -> f64 {
        if let Some(cached) = self.cached_f64.take() {
            return cached;
        }
        let (u1, u2) = (self.unit_f64(), self.unit_f64());
        let r = (-2.0 * wide::log1p(-u2)).sqrt();
        let (sin, cos) = wide::sin_cos_pi(2.0 * u1);
        self.cached_f64 = Some(r * sin);
        r * cos
    }
}

/// Computes normal numbers from 16 uniform ones: numbers j and j + 8 are a pair.
fn box_muller_f32(block: &mut [f32]) {
    for j in 0..8 {
        let (u, v) = (1.0 - block[j], block[j + 8]);
        let r = (-2.0 * math::log(u)).sqrt();
        block[j] = r * math::cospi(2.0 * v);
        block[j + 8] = r * math::sinpi(2.0 * v);
    }
}

fn box_muller_f64(block: &mut [f64]) {
    for j in 0..8 {
        let (u, v) = (1.0 - block[j], block[j + 8]);
        let r = (-2.0 * wide::log(u)).sqrt();
        let (sin, cos) = wide::sin_cos_pi(2.0 * v);
        block[j] = r * cos;
        block[j + 8] = r * sin;
    }
}
