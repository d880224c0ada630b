//! Snapshots of seeded data: orders, seeds of workers, samples' own numbers and augmented images.

use samebits_data::{
    Bijective, Collate, ColorJitter, CutMix, DataLoader, DatasetExt, Determinism, Image, Memory,
    MixUp, PyTorch, PyTorchDistributed, RandomAffine, RandomCrop, RandomHorizontalFlip, Result,
    SampleContext, Sampler, Sequential, Shard, Shuffled, ShuffledSubset, Tail, TorchGenerator,
    Weighted, WithReplacement, WorkerContext, WorkerInfo,
};
use samebits_rng::Generator;
use test_support::listing::Listing;

const LENGTH: usize = 1000;

fn numbers(order: impl IntoIterator<Item = usize>) -> Vec<u64> {
    order.into_iter().map(|index| index as u64).collect()
}

/// Returns the indices of an epoch in the order of its batches.
fn visited(sampler: impl Sampler, epoch: u64, workers: usize) -> Vec<u64> {
    let loader = DataLoader::builder(Memory::new(vec![0i64; LENGTH]));
    let loader = loader.batch_size(32).sampler(sampler).seed(42).workers(workers);
    let loader = loader.build().unwrap();
    numbers(loader.epoch(epoch).flat_map(|batch| batch.unwrap().indices))
}

#[test]
fn orders_of_loaders() {
    let mut listing = Listing::default();
    let weights = || (0..LENGTH).map(|i| i as f64).collect::<Vec<_>>();
    listing.values("Sequential", &visited(Sequential, 0, 0));
    for epoch in 0..2 {
        for workers in [0, 3] {
            let title = format!("Shuffled, epoch {epoch}, {workers} workers");
            listing.values(&title, &visited(Shuffled, epoch, workers));
        }
    }
    listing.values("Bijective", &visited(Bijective, 0, 2));
    listing.values("WithReplacement", &visited(WithReplacement::new(LENGTH), 0, 2));
    let subset = ShuffledSubset::new((0..LENGTH).step_by(3).collect());
    listing.values("ShuffledSubset of every third", &visited(subset, 0, 2));
    let weighted = Weighted::with_replacement(weights(), LENGTH).unwrap();
    listing.values("Weighted with replacement", &visited(weighted, 0, 2));
    let weighted = Weighted::without_replacement(weights(), LENGTH / 2).unwrap();
    listing.values("Weighted without replacement", &visited(weighted, 0, 2));
    for source in [TorchGenerator::Default, TorchGenerator::Own] {
        for epoch in 0..2 {
            let title = format!("PyTorch's shuffle, {source:?} generator, epoch {epoch}");
            listing.values(&title, &visited(PyTorch::new(42, source, true), epoch, 2));
        }
    }
    let title = "PyTorch's DistributedSampler, epoch 1";
    listing.values(title, &visited(PyTorchDistributed::new(42), 1, 2));
    let order = Shuffled.order(LENGTH, 0, &Generator::new(42)).unwrap().into_vec().unwrap();
    for rank in 0..2 {
        let part = Shard::new(rank, 2, Tail::Pad).unwrap().of(&order);
        listing.values(&format!("Shuffled, rank {rank} of 2"), &numbers(part));
    }
    insta::assert_snapshot!("orders", listing);
}

#[test]
fn seeds_of_workers_and_samples() {
    let mut listing = Listing::default();
    for source in [TorchGenerator::Default, TorchGenerator::Own] {
        let torch = PyTorch::new(42, source, true);
        let seeds: Vec<u64> = (0..8).map(|epoch| torch.base_seed(epoch, LENGTH).unwrap()).collect();
        listing.values(&format!("PyTorch's base seeds by epoch, {source:?} generator"), &seeds);
    }
    for id in 0..2 {
        let base_seed = PyTorch::new(42, TorchGenerator::Default, true).base_seed(0, LENGTH);
        let base_seed = base_seed.unwrap();
        let seed = base_seed + id as u64;
        let info = WorkerInfo { id, workers: 2, seed, base_seed, epoch: 0 };
        listing.values(&format!("NumPy's seed in worker {id}"), &info.numpy_seed());
    }
    // One worker: with more, they race for the turn to begin.
    let data = Memory::new(vec![(); 8]);
    let data = data.map(|(), cx| Ok(cx.worker().info().seed as i64));
    let loader = DataLoader::builder(data).seed(42).workers(1).level(Determinism::RunToRun);
    let loader = loader.build().unwrap();
    let seeds: Vec<i64> = (0..3)
        .flat_map(|epoch| loader.epoch(epoch).take(1))
        .flat_map(|b| b.unwrap().data)
        .collect();
    listing.values("seed of worker 0 by epoch", &seeds);
    for epoch in 0..2 {
        let blocks = (0..LENGTH).flat_map(|index| {
            let mut worker = WorkerContext::detached();
            SampleContext::detached(&mut worker, 42, epoch, index).rng().next_block()
        });
        let title = format!("blocks of the samples' generators, epoch {epoch}");
        listing.values(&title, &blocks.collect::<Vec<u32>>());
    }
    insta::assert_snapshot!("seeds", listing);
}

fn image() -> Image {
    let pixels = (0..16 * 16 * 3).map(|i| (7 * i + i / 48 * 11) as u8).collect();
    Image { width: 16, height: 16, channels: 3, pixels }
}

#[test]
fn augmented_samples() {
    let mut listing = Listing::default();
    let mut section = |title: &str, augment: &dyn Fn(&mut Generator) -> Result<Image>| {
        let mut generator = Generator::new(42);
        let pixels = (0..4).flat_map(|_| augment(&mut generator).unwrap().pixels);
        listing.values(&format!("{title}, four images"), &pixels.collect::<Vec<u8>>());
    };
    section("RandomCrop", &|g| RandomCrop::new(12, 12).padding(2).apply(&image(), g));
    section("RandomHorizontalFlip", &|g| RandomHorizontalFlip::new(0.5)?.apply(image(), g));
    section("RandomAffine", &|g| {
        RandomAffine::new(30.0)?.translate(0.1, 0.1)?.scale(0.8, 1.2)?.apply(&image(), g)
    });
    section("ColorJitter", &|g| ColorJitter::new(0.4, 0.4, 0.4)?.hue(0.1)?.apply(image(), g));
    let samples = || -> Vec<(Vec<f32>, i64)> {
        (0..4).map(|i| ((0..64).map(|j| (10 * i + j) as f32).collect(), i)).collect()
    };
    let mut mixed = |title: &str, mix: &dyn Collate<(Vec<f32>, i64), Batch = (_, _)>| {
        let (images, classes) = mix.collate(samples(), &mut Generator::new(42)).unwrap();
        let (images, classes): (samebits_data::Stacked<f32>, samebits_data::Stacked<f32>) =
            (images, classes);
        listing.values(&format!("{title}, images"), &images.values);
        listing.values(&format!("{title}, classes"), &classes.values);
    };
    mixed("MixUp", &MixUp::new(0.4, 4).unwrap());
    mixed("CutMix", &CutMix::new(1.0, 4, 8, 8).unwrap());

    let data = Memory::new((0..LENGTH as i64).collect::<Vec<_>>()).map(|x, cx| {
        let noise = cx.rng().normal(0.0f32, 0.1)?;
        Ok(x as f32 + noise)
    });
    let loader = DataLoader::builder(data).batch_size(32).shuffle(true).seed(42).workers(2);
    let loader = loader.build().unwrap();
    let samples: Vec<f32> = loader.epoch(1).flat_map(|batch| batch.unwrap().data).collect();
    listing.values("samples with noise of their own, shuffled, epoch 1", &samples);
    insta::assert_snapshot!("augmented", listing);
}

#[test]
fn messages_of_misuse() {
    let mut listing = Listing::default();
    let data = || DataLoader::builder(Memory::new(vec![0i64; 10]));
    listing.error("batches of no samples", data().batch_size(0).build());
    listing.error("a rank beyond the world", Shard::new(2, 2, Tail::Pad));
    listing.error("weights of another number of samples", {
        let weighted = Weighted::with_replacement(vec![1.0; 3], 2).unwrap();
        data().sampler(weighted).build().unwrap().epoch(0).collect::<Result<Vec<_>>>()
    });
    listing.error("a negative weight", Weighted::with_replacement(vec![1.0, -1.0], 2));
    listing.error("an index outside", {
        let subset = ShuffledSubset::new(vec![10]);
        data().sampler(subset).build().unwrap().epoch(0).collect::<Result<Vec<_>>>()
    });
    listing
        .error("order of arrival at the portable level", data().ordered(false).workers(2).build());
    listing.error("a crop larger than its image", {
        RandomCrop::new(20, 20).apply(&image(), &mut Generator::new(42))
    });
    listing.error("hue beyond half a circle", ColorJitter::new(0.0, 0.0, 0.0).unwrap().hue(0.6));
    listing.error("a state of another loader", {
        let state = data().seed(1).build().unwrap().start_of(0).unwrap();
        data().seed(2).build().unwrap().resume(&state)
    });
    listing.error("numbers of a worker at the portable level", {
        let data = Memory::new(vec![(); 2])
            .map(|(), cx| Ok(i64::from(cx.worker().generator()?.next_block()[0])));
        DataLoader::builder(data).build().unwrap().epoch(0).collect::<Result<Vec<_>>>()
    });
    listing.error("samples of different lengths", {
        let data = Memory::new(vec![vec![1.0f32], vec![1.0, 2.0]]);
        DataLoader::builder(data)
            .batch_size(2)
            .build()
            .unwrap()
            .epoch(0)
            .collect::<Result<Vec<_>>>()
    });
    insta::assert_snapshot!("errors", listing);
}
