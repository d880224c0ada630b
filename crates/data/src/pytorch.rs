//! PyTorch's `DataLoader` numbers, exactly: base seeds, worker seeds and shuffles.

use samebits_rng::Generator;
use samebits_rng::torch::CpuGenerator;
use serde::{Deserialize, Serialize};

use crate::{Error, Order, Result, Sampler};

/// Generator that PyTorch's `DataLoader` was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TorchGenerator {
    /// None. The loader draws from the default generator after `torch.manual_seed(seed)`, and
    /// nothing else does.
    Default,
    /// `generator=torch.Generator().manual_seed(seed)`.
    Own,
}

/// Setting that makes a loader use the base seeds, worker seeds and sample orders of PyTorch's
/// `DataLoader` over a map-style dataset.
///
/// PyTorch *draws* these numbers, so epoch *e* of a loader depends on the epochs before it. Here,
/// epoch *e* equals PyTorch's if all earlier epochs were iterated over to their end, with workers
/// started anew in each epoch. (With `persistent_workers`, PyTorch keeps the base seed of the first
/// epoch and lets the workers' generators continue.)
///
/// Only the order and the seeds are PyTorch's. A sample draws from its own generator, a child of
/// `Generator::new(seed)`, and therefore does not depend on the workers.
///
/// # Examples
///
/// ```
/// use samebits_data::{DataLoader, Memory, PyTorch, TorchGenerator};
///
/// // torch.manual_seed(0); DataLoader(range(10), batch_size=10, shuffle=True)
/// let torch = PyTorch::new(0, TorchGenerator::Default, true);
/// let data = Memory::new((0..10).collect::<Vec<i64>>());
/// let loader = DataLoader::builder(data).batch_size(10).pytorch(torch).build()?;
/// assert_eq!(loader.epoch(0).next().unwrap()?.data, [6, 7, 1, 4, 2, 0, 9, 8, 3, 5]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
///
/// # References
///
/// `torch/utils/data/dataloader.py`, `sampler.py` and `_utils/worker.py` of PyTorch; checked
/// against PyTorch 2.11.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PyTorch {
    seed: u64,
    source: TorchGenerator,
    shuffle: bool,
}

impl PyTorch {
    /// Creates the setting for `DataLoader(..., shuffle=shuffle)` with a seed.
    pub fn new(seed: u64, source: TorchGenerator, shuffle: bool) -> Self {
        PyTorch { seed, source, shuffle }
    }

    /// Returns the generator from which samples' generators are derived.
    pub(crate) fn generator(&self) -> Generator {
        Generator::new(self.seed)
    }

    /// Returns the base seed of an epoch over `len` samples. Worker *w* is seeded with this plus
    /// *w*.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for lengths that PyTorch shuffles in another way, and for epochs
    /// from 2^20 on, because reaching them means drawing the numbers of all earlier epochs.
    pub fn base_seed(&self, epoch: u64, len: usize) -> Result<u64> {
        Ok(self.at(epoch, len)?.random_i64() as u64)
    }

    /// Returns the generator at the start of an epoch.
    fn at(&self, epoch: u64, len: usize) -> Result<CpuGenerator> {
        if epoch >= LAST_EPOCH {
            let expected = format!("must be below {LAST_EPOCH} for PyTorch's numbers");
            return Err(Error::option("pytorch", "epoch", epoch, expected));
        }
        let mut torch = CpuGenerator::manual_seed(self.seed);
        for _ in 0..epoch {
            torch.random_i64();
            match (self.shuffle, self.source) {
                (false, _) => {}
                (true, TorchGenerator::Default) => {
                    torch.random_i64();
                }
                // A sampler with its own generator draws a second permutation for the samples
                // beyond the last full pass, of which there are none, and discards it.
                (true, TorchGenerator::Own) => {
                    check_len(len)?;
                    for _ in 0..2 * len.saturating_sub(1) {
                        torch.random();
                    }
                }
            }
        }
        Ok(torch)
    }
}

impl Sampler for PyTorch {
    fn describe(&self) -> String {
        let order = if self.shuffle { "shuffled" } else { "sequential" };
        format!("{order} as PyTorch does, {:?} generator, seed {}", self.source, self.seed)
    }

    fn order(&self, len: usize, epoch: u64, _: &Generator) -> Result<Order> {
        if !self.shuffle {
            return Ok(Order::ascending(len));
        }
        let mut torch = self.at(epoch, len)?;
        torch.random_i64();
        let order = match self.source {
            TorchGenerator::Default => {
                let seed = torch.random_i64() as u64;
                permutation(&mut CpuGenerator::manual_seed(seed), len)
            }
            TorchGenerator::Own => permutation(&mut torch, len),
        };
        Ok(order?.into())
    }

    fn may_repeat(&self) -> bool {
        false
    }
}

/// The order of PyTorch's `DistributedSampler(shuffle=True)` before it is dealt to the ranks;
/// [`Shard`](crate::Shard) deals it in the same way.
///
/// # Examples
///
/// ```
/// use samebits_data::{PyTorchDistributed, Sampler, Shard, Tail};
/// use samebits_rng::Generator;
///
/// // DistributedSampler(range(7), num_replicas=2, rank=0, seed=3) after set_epoch(2)
/// let order = PyTorchDistributed::new(3).order(7, 2, &Generator::new(0))?.into_vec()?;
/// assert_eq!(Shard::new(0, 2, Tail::Pad)?.of(&order), [1, 4, 6, 3]);
/// assert_eq!(Shard::new(1, 2, Tail::Pad)?.of(&order), [0, 2, 5, 1]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PyTorchDistributed {
    seed: u64,
}

impl PyTorchDistributed {
    /// Creates the sampler with this seed, which must be the same on all ranks.
    pub fn new(seed: u64) -> Self {
        PyTorchDistributed { seed }
    }
}

impl Sampler for PyTorchDistributed {
    fn describe(&self) -> String {
        format!("shuffled as PyTorch's DistributedSampler does, seed {}", self.seed)
    }

    fn order(&self, len: usize, epoch: u64, _: &Generator) -> Result<Order> {
        let mut torch = CpuGenerator::manual_seed(self.seed.wrapping_add(epoch));
        Ok(permutation(&mut torch, len)?.into())
    }

    fn may_repeat(&self) -> bool {
        false
    }
}

/// Length from which PyTorch shuffles with 64-bit numbers, which this crate does not support.
const LONGEST: u64 = (1 << 32) / 20;

/// Limit on the epoch, since all earlier epochs' numbers must be drawn first.
const LAST_EPOCH: u64 = 1 << 20;

fn check_len(len: usize) -> Result<()> {
    if len as u64 >= LONGEST {
        let expected = format!("must be below {LONGEST} for PyTorch's order");
        return Err(Error::option("pytorch", "dataset length", len, expected));
    }
    Ok(())
}

/// Draws the permutation of `torch.randperm` on the CPU.
fn permutation(torch: &mut CpuGenerator, len: usize) -> Result<Vec<usize>> {
    check_len(len)?;
    Ok(torch.randperm(len)?.into_iter().map(|i| i as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Source: PyTorch 2.11.0 itself, `DataLoader(range(10), batch_size=3, shuffle=True)`, three
    // epochs with 0 and with 2 workers: `_base_seed` and the order.
    #[test]
    fn base_seeds_and_orders_are_those_of_pytorch() {
        use TorchGenerator::{Default, Own};
        let check = |seed, source, expected: [(u64, [usize; 10]); 3]| {
            let torch = PyTorch::new(seed, source, true);
            for (epoch, (base, order)) in expected.into_iter().enumerate() {
                let epoch = epoch as u64;
                assert_eq!(torch.base_seed(epoch, 10).unwrap(), base, "{torch:?} epoch {epoch}");
                assert_eq!(
                    torch.order(10, epoch, &Generator::new(0)).unwrap().into_vec().unwrap(),
                    order
                );
            }
        };
        check(
            0,
            Default,
            [
                (900450186894289455, [6, 7, 1, 4, 2, 0, 9, 8, 3, 5]),
                (1895649597198586619, [2, 4, 7, 0, 8, 9, 5, 3, 6, 1]),
                (7815051614634499795, [7, 4, 5, 1, 9, 3, 8, 2, 0, 6]),
            ],
        );
        check(
            0,
            Own,
            [
                (900450186894289455, [3, 7, 5, 2, 0, 8, 1, 6, 9, 4]),
                (5381377035038509607, [1, 3, 2, 7, 5, 9, 0, 6, 4, 8]),
                (8828950082402279523, [6, 8, 5, 7, 2, 4, 1, 0, 3, 9]),
            ],
        );
        check(
            42,
            Default,
            [
                (6909045637428952499, [8, 0, 9, 1, 4, 5, 6, 3, 2, 7]),
                (4279532810384561223, [4, 6, 9, 3, 7, 5, 2, 0, 1, 8]),
                (2878035897379592313, [6, 2, 1, 0, 3, 8, 5, 9, 4, 7]),
            ],
        );
        check(
            42,
            Own,
            [
                (6909045637428952499, [6, 5, 4, 0, 8, 9, 2, 1, 3, 7]),
                (379716980844854580, [3, 6, 5, 8, 9, 4, 2, 0, 7, 1]),
                (2063321781277379070, [7, 4, 5, 0, 9, 1, 3, 2, 8, 6]),
            ],
        );
    }

    #[test]
    fn without_shuffling_only_base_seeds_are_drawn() {
        for source in [TorchGenerator::Default, TorchGenerator::Own] {
            let torch = PyTorch::new(0, source, false);
            let bases = [0, 1, 2].map(|epoch| torch.base_seed(epoch, 10).unwrap());
            assert_eq!(bases, [900450186894289455, 3969543146641149120, 1895649597198586619]);
            assert_eq!(
                torch.order(3, 1, &Generator::new(0)).unwrap().into_vec().unwrap(),
                [0, 1, 2]
            );
        }
    }

    #[test]
    fn lengths_that_pytorch_shuffles_otherwise_are_refused() {
        let torch = PyTorch::new(0, TorchGenerator::Own, true);
        assert!(torch.order(LONGEST as usize, 0, &Generator::new(0)).is_err());
        assert!(torch.base_seed(1, LONGEST as usize).is_err());
    }
}
