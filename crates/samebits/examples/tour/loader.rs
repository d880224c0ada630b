//! A data loader without tensors: the batches depend on the seed, not on the workers.

use samebits::data::{DataLoader, DatasetExt, Memory};

type Batches = Vec<(Vec<usize>, Vec<u32>)>;

/// Returns the batches of an epoch: each sample with a random number of its own.
fn epoch(workers: usize, number: u64) -> super::Result<Batches> {
    let samples = Memory::new((0..10).collect::<Vec<usize>>());
    let samples = samples.map(|sample, cx| Ok((sample, cx.rng().next_block()[0])));
    let loader = DataLoader::builder(samples).batch_size(4).shuffle(true).seed(7);
    let loader = loader.workers(workers).build()?;
    loader.epoch(number).map(|batch| Ok(batch?.data)).collect()
}

pub(super) fn run() -> super::Result<()> {
    let first = epoch(0, 0)?;
    println!("{first:?}");
    for workers in [1, 3] {
        assert_eq!(epoch(workers, 0)?, first);
    }
    assert_ne!(epoch(0, 1)?, first, "another epoch has another order");
    let samples: Vec<usize> = first.iter().flat_map(|(samples, _)| samples).copied().collect();
    assert_eq!(samples, [3, 6, 0, 9, 8, 7, 5, 1, 4, 2]);
    Ok(())
}
