//! PyTorch's random numbers on a GPU.

use crate::{Error, Philox4x32};

/// PyTorch's launch configuration for random kernels on a GPU, on which its random numbers depend
/// besides the seed.
///
/// PyTorch gives each GPU thread its own stream and starts as many threads as the GPU can hold, so
/// large tensors differ between GPU models. Given a model's properties, this type reproduces its
/// numbers anywhere.
///
/// # Determinism
///
/// Fixed forever.
///
/// # Examples
///
/// ```
/// use samebits_rng::torch::CudaLaunch;
///
/// // torch.manual_seed(0); torch.rand(4, device="cuda") on an H200
/// let h200 = CudaLaunch::new(132, 2048)?;
/// let mut x = [0.0; 4];
/// let offset = h200.rand_f32(0, 0, &mut x);
/// assert_eq!(x, [0.39904648, 0.51667917, 0.024930386, 0.9400794]);
/// assert_eq!(offset, 4);
/// # Ok::<(), samebits_rng::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaLaunch {
    /// The number of blocks of 256 threads that the GPU holds at once.
    blocks: u64,
}

impl CudaLaunch {
    /// Creates the launches of a GPU with this number of multiprocessors and of threads per
    /// multiprocessor: `multi_processor_count` and `max_threads_per_multi_processor` of
    /// `torch.cuda.get_device_properties`.
    ///
    /// # Errors
    ///
    /// If there are no multiprocessors, or they hold fewer than 256 threads.
    pub fn new(multiprocessors: u32, max_threads: u32) -> Result<CudaLaunch, Error> {
        let blocks = u64::from(multiprocessors) * u64::from(max_threads / 256);
        if blocks == 0 {
            let (op, found) = ("CudaLaunch::new", (multiprocessors, max_threads));
            let name = "(multiprocessors, max_threads)";
            return Err(Error::parameter(op, name, found, "at least (1, 256)"));
        }
        Ok(CudaLaunch { blocks })
    }

    /// Fills `out` with `torch.rand(n, device="cuda")` of dtype float32 for a generator with this
    /// seed and offset; returns the generator's offset afterwards.
    pub fn rand_f32(&self, seed: u64, offset: u64, out: &mut [f32]) -> u64 {
        let (threads, philox) = (self.threads(out.len()), Philox4x32::from_seed(seed));
        for (e, x) in out.iter_mut().enumerate() {
            let (thread, turn) = (e as u64 % threads, e as u64 / threads);
            let words = philox.at((offset / 4).wrapping_add(turn / 4), thread);
            let u = cuda_unit(words[(turn % 4) as usize]);
            // PyTorch turns (0, 1] into [0, 1).
            *x = if u == 1.0 { 0.0 } else { u };
        }
        offset.wrapping_add(self.increment(out.len()))
    }

    /// Fills `mask` with the mask of `torch.nn.functional.dropout(x, p)` on a contiguous float32
    /// tensor whose number of elements is a multiple of 4: 1 for a kept element. Returns the
    /// generator's offset afterwards.
    ///
    /// # Errors
    ///
    /// If the number of elements is not a multiple of 4, or `p` is not in `[0, 1]`.
    pub fn dropout_mask(
        &self,
        seed: u64,
        offset: u64,
        p: f64,
        mask: &mut [u8],
    ) -> Result<u64, Error> {
        let op = "CudaLaunch::dropout_mask";
        if !mask.len().is_multiple_of(4) {
            let found = mask.len();
            return Err(Error::parameter(op, "the number of elements", found, "a multiple of 4"));
        }
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::parameter(op, "the probability", p, "in [0, 1]"));
        }
        let keep = (1.0 - p) as f32;
        // As many threads as for other operations, but each takes four adjacent elements at a time.
        let (threads, philox) = (self.threads(mask.len()), Philox4x32::from_seed(seed));
        for (i, mask) in mask.chunks_exact_mut(4).enumerate() {
            let (thread, turn) = (i as u64 % threads, i as u64 / threads);
            let words = philox.at((offset / 4).wrapping_add(turn), thread);
            for (mask, word) in mask.iter_mut().zip(words) {
                *mask = u8::from(cuda_unit(word) < keep);
            }
        }
        Ok(offset.wrapping_add(self.increment(mask.len())))
    }

    /// Returns the number of threads for `n` elements.
    fn threads(&self, n: usize) -> u64 {
        (n as u64).div_ceil(256).clamp(1, self.blocks) * 256
    }

    /// Returns by how much an operation on `n` elements advances the generator's offset.
    fn increment(&self, n: usize) -> u64 {
        match n as u64 {
            0 => 0,
            n => ((n - 1) / (self.threads(n as usize) * 4) + 1) * 4,
        }
    }
}

/// Returns cuRAND's uniform number in (0, 1].
fn cuda_unit(word: u32) -> f32 {
    word as f32 * (1.0 / 4294967296.0) + 1.0 / 8589934592.0
}
