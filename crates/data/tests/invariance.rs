//! The same batches for any number of workers, any prefetch depth, any timing, any resume point.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use samebits_data::{
    Batch, DataLoader, Dataset, Determinism, Error, LoaderState, Result, SampleContext, Shard,
    Stacked, Tail, WithReplacement,
};
use samebits_rng::Generator;

/// 4×4 images, cropped, flipped and given noise at random, after a random sleep.
struct Augmented {
    len: usize,
    sleeps: bool,
    /// Draws from the worker's generator if true, else from the sample's.
    per_worker: bool,
}

impl Augmented {
    fn new(len: usize) -> Self {
        Augmented { len, sleeps: true, per_worker: false }
    }
}

impl Dataset for Augmented {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Self::Item> {
        if self.sleeps {
            let now = std::time::SystemTime::now();
            let jitter = now.elapsed().map_or(0, |time| time.as_nanos() as u64) % 7;
            thread::sleep(Duration::from_micros(30 * (jitter + index as u64 % 5)));
        }
        let rng: &mut Generator = if self.per_worker { cx.worker().generator()? } else { cx.rng() };
        let [shift, flip, ..] = rng.next_block();
        let mut image: Vec<f32> = (0..16).map(|pixel| (index * 16 + pixel) as f32).collect();
        image.rotate_left(shift as usize % 16);
        if flip % 2 == 1 {
            image.reverse();
        }
        for pixel in &mut image {
            *pixel += rng.next_block()[0] as f32 * TWO_POW_MINUS_32;
        }
        Ok((image, index as i64))
    }
}

const TWO_POW_MINUS_32: f32 = 1.0 / 4_294_967_296.0;

type B = Batch<(Stacked<f32>, Vec<i64>)>;

/// A batch for exact comparison: number, indices, bits of the values, labels.
type Bits = (u64, Vec<usize>, Vec<u32>, Vec<i64>);

fn bits(batches: &[B]) -> Vec<Bits> {
    batches
        .iter()
        .map(|b| {
            let values = b.data.0.values.iter().map(|x| x.to_bits()).collect();
            (b.number, b.indices.clone(), values, b.data.1.clone())
        })
        .collect()
}

fn collect(epoch: impl Iterator<Item = Result<B>>) -> Vec<B> {
    epoch.collect::<Result<_>>().unwrap()
}

#[test]
fn workers_prefetch_and_sleeps_change_nothing() {
    let data = Arc::new(Augmented::new(53));
    for level in [Determinism::RunToRun, Determinism::Portable] {
        let epochs = |workers, prefetch, persistent| {
            let loader = DataLoader::builder(data.clone())
                .batch_size(4)
                .shuffle(true)
                .seed(11)
                .workers(workers)
                .prefetch(prefetch)
                .persistent_workers(persistent)
                .level(level)
                .build()
                .unwrap();
            (0..3).map(|epoch| bits(&collect(loader.epoch(epoch)))).collect::<Vec<_>>()
        };
        let expected = epochs(0, 1, false);
        assert_ne!(expected[0], expected[1]);
        for workers in [1, 2, 4, 7] {
            for prefetch in [1, 2, 5] {
                let persistent = prefetch == 2;
                assert_eq!(epochs(workers, prefetch, persistent), expected, "{workers} workers");
            }
        }
    }
}

#[test]
fn worker_seeded_randomness_differs_with_the_workers_but_not_from_run_to_run() {
    let data = Arc::new(Augmented { per_worker: true, ..Augmented::new(40) });
    let epoch = |workers| {
        let loader = DataLoader::builder(data.clone())
            .batch_size(4)
            .workers(workers)
            .level(Determinism::RunToRun)
            .build()
            .unwrap();
        bits(&collect(loader.epoch(0)))
    };
    assert_eq!(epoch(2), epoch(2));
    assert_eq!(epoch(3), epoch(3));
    assert_ne!(epoch(2), epoch(3));
    assert_ne!(epoch(0), epoch(2));

    // The default level rejects it.
    let loader = DataLoader::builder(data.clone()).workers(1).build().unwrap();
    let error = loader.epoch(0).next().unwrap().unwrap_err();
    let Error::Sample { worker: 0, sample: 0, source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, Error::LevelUnavailable { .. }), "{source}");
}

#[test]
fn persistent_workers_are_reseeded() {
    let data = Arc::new(Augmented { per_worker: true, ..Augmented::new(24) });
    let epochs = |persistent| {
        let loader = DataLoader::builder(data.clone())
            .batch_size(4)
            .workers(2)
            .level(Determinism::RunToRun)
            .persistent_workers(persistent)
            .build()
            .unwrap();
        [0, 1, 0].map(|epoch| bits(&collect(loader.epoch(epoch))))
    };
    let kept = epochs(true);
    assert_eq!(kept, epochs(false));
    assert_eq!(kept[0], kept[2]);
    assert_ne!(kept[0], kept[1]);
}

#[test]
fn persistent_workers_carry_nothing_over() {
    use samebits_data::{DatasetExt, Memory};

    let data = Memory::new(vec![(); 8]).map(|(), cx| {
        let count = cx.worker().local::<i64>();
        *count += 1;
        Ok(*count)
    });
    let loader = DataLoader::builder(data)
        .batch_size(2)
        .workers(2)
        .persistent_workers(true)
        .build()
        .unwrap();
    for epoch in 0..3 {
        let counts: Vec<_> = loader.epoch(epoch).map(|batch| batch.unwrap().data).collect();
        assert_eq!(counts, [[1, 2], [1, 2], [3, 4], [3, 4]], "epoch {epoch}");
    }
    assert_eq!(loader.live_workers(), 2);
}

#[test]
fn epochs_may_overlap_and_outlive_their_loader() {
    let data = Arc::new(Augmented { sleeps: false, ..Augmented::new(30) });
    for persistent in [false, true] {
        let loader = DataLoader::builder(data.clone())
            .batch_size(4)
            .shuffle(true)
            .workers(2)
            .persistent_workers(persistent)
            .build()
            .unwrap();
        let alone = [0, 1].map(|epoch| bits(&collect(loader.epoch(epoch))));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (a, b) in loader.epoch(0).zip(loader.epoch(1)) {
            first.push(a.unwrap());
            second.push(b.unwrap());
        }
        assert_eq!([bits(&first), bits(&second)], alone);
        let orphan = loader.epoch(1);
        drop(loader);
        assert_eq!(bits(&collect(orphan)), alone[1]);
    }
}

#[test]
fn resuming_at_any_batch_with_other_workers_gives_the_same_rest() {
    let data = Arc::new(Augmented { sleeps: false, ..Augmented::new(22) });
    let loader = |workers| {
        DataLoader::builder(data.clone())
            .batch_size(4)
            .sampler(WithReplacement::new(30))
            .seed(5)
            .workers(workers)
            .build()
            .unwrap()
    };
    let whole: Vec<_> = (0..2).map(|e| bits(&collect(loader(0).epoch(e)))).collect();
    for epoch in 0..2_u64 {
        for stop in 0..=8 {
            let writer = loader(3);
            let mut running = writer.epoch(epoch);
            for _ in 0..stop {
                running.next().unwrap().unwrap();
            }
            let text = serde_json::to_string(&running.state().unwrap()).unwrap();
            drop(running);
            let state: LoaderState = serde_json::from_str(&text).unwrap();
            for workers in [0, 2, 7] {
                let reader = loader(workers);
                let rest = bits(&collect(reader.resume(&state).unwrap()));
                assert_eq!(rest, whole[epoch as usize][stop..], "batch {stop}");
                let next = bits(&collect(reader.epoch(state.epoch + 1)));
                assert_eq!(next, bits(&collect(loader(0).epoch(epoch + 1))));
            }
        }
    }
}

#[test]
fn worker_generators_resume_with_the_same_number_of_workers() {
    let data = Arc::new(Augmented { per_worker: true, sleeps: false, ..Augmented::new(40) });
    let loader = |workers| {
        DataLoader::builder(data.clone())
            .batch_size(3)
            .workers(workers)
            .level(Determinism::RunToRun)
            .build()
            .unwrap()
    };
    for workers in [0, 2, 3] {
        let whole = bits(&collect(loader(workers).epoch(4)));
        for stop in 0..whole.len() {
            let writer = loader(workers);
            let mut running = writer.epoch(4);
            running.by_ref().take(stop).for_each(|batch| drop(batch.unwrap()));
            let state = running.state().unwrap();
            // Resuming twice must not consume anything.
            for _ in 0..2 {
                let mut resumed = loader(workers).resume(&state).unwrap();
                assert_eq!(resumed.state().unwrap().workers, state.workers);
                assert_eq!(bits(&collect(resumed.by_ref())), whole[stop..], "batch {stop}");
            }
        }
    }
}

#[test]
fn a_state_of_another_loader_is_refused() {
    let data = Arc::new(Augmented { sleeps: false, ..Augmented::new(10) });
    let loader = |seed, shuffle| {
        DataLoader::builder(data.clone()).shuffle(shuffle).seed(seed).build().unwrap()
    };
    let state = loader(1, true).epoch(0).state().unwrap();
    assert!(loader(1, true).resume(&state).is_ok());
    for other in [loader(2, true), loader(1, false)] {
        assert!(matches!(other.resume(&state), Err(Error::StateMismatch { .. })));
    }
    let past = LoaderState { position: 11, ..state.clone() };
    assert!(matches!(loader(1, true).resume(&past), Err(Error::StateMismatch { .. })));
    let newer = LoaderState { version: 3, ..state };
    assert!(matches!(loader(1, true).resume(&newer), Err(Error::StateMismatch { .. })));
}

#[test]
fn workers_are_seeded_as_in_pytorch() {
    use samebits_data::{DatasetExt, Keep, Memory, PyTorch, TorchGenerator};

    // torch.manual_seed(42): worker w of epoch 1 has torch.initial_seed() == base + w.
    let base = 4279532810384561223;
    let torch = PyTorch::new(42, TorchGenerator::Default, true);
    let data = Memory::new(vec![0; 10])
        .map(|_, cx| Ok((cx.worker().info().clone(), cx.worker().generator()?.seed())));
    let loader = DataLoader::builder_with(data, Keep)
        .pytorch(torch)
        .workers(3)
        .level(Determinism::RunToRun)
        .build()
        .unwrap();
    let mut order = Vec::new();
    for batch in loader.epoch(1) {
        let batch = batch.unwrap();
        let (info, seed) = &batch.data[0];
        let worker = batch.number % 3;
        assert_eq!((info.id as u64, info.workers, info.base_seed), (worker, 3, base));
        assert_eq!((info.seed, *seed), (base + worker, base + worker));
        order.extend(batch.indices);
    }
    assert_eq!(order, [4, 6, 9, 3, 7, 5, 2, 0, 1, 8]);
}

#[test]
fn a_sharded_epoch_resumes_with_another_world_size() {
    let data = Arc::new(Augmented { sleeps: false, ..Augmented::new(97) });
    let loader = |rank, world, batch, workers| {
        DataLoader::builder(data.clone())
            .batch_size(batch)
            .shuffle(true)
            .seed(9)
            .shard(Shard::new(rank, world, Tail::Drop).unwrap())
            .workers(workers)
            .build()
            .unwrap()
    };
    let sets = |world: usize, batch: usize| -> Vec<Vec<usize>> {
        let ranks: Vec<_> =
            (0..world).map(|rank| collect(loader(rank, world, batch, 0).epoch(2))).collect();
        (0..ranks[0].len())
            .map(|step| {
                let step = ranks.iter().flat_map(|rank| rank[step].indices.clone());
                let mut step: Vec<usize> = step.collect();
                step.sort_unstable();
                step
            })
            .collect()
    };
    // One global order: the steps visit the same sets if the global batch is the same.
    assert_eq!(sets(1, 12)[..8], sets(3, 4)[..8]);
    assert_eq!(sets(2, 6)[..8], sets(4, 3)[..8]);

    // Two steps with three ranks, then the rest with two.
    let mut seen = Vec::new();
    let mut states = Vec::new();
    for rank in 0..3 {
        let saved = loader(rank, 3, 4, 1);
        let mut epoch = saved.epoch(2);
        for _ in 0..2 {
            seen.extend(epoch.next().unwrap().unwrap().indices);
        }
        states.push(epoch.state().unwrap());
    }
    assert!(states.iter().all(|state| *state == states[0]));
    assert_eq!(states[0].position, 24);
    for rank in 0..2 {
        let rest = collect(loader(rank, 2, 6, 2).resume(&states[0]).unwrap());
        assert_eq!(rest[0].number, 2);
        seen.extend(rest.iter().flat_map(|batch| batch.indices.clone()));
    }
    assert_eq!(seen.len(), 96);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 96);
}

/// The digest is part of the public contract: if it changes, everybody who recorded a seed gets
/// another epoch.
#[test]
fn value_stability() {
    let data = Augmented { sleeps: false, ..Augmented::new(50) };
    let loader = DataLoader::builder(data).batch_size(8).shuffle(true).seed(123).build().unwrap();
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |word: u64| digest = (digest ^ word).wrapping_mul(0x0100_0000_01b3);
    for epoch in [0, 1, u64::MAX] {
        for (number, indices, values, labels) in bits(&collect(loader.epoch(epoch))) {
            mix(number);
            indices.iter().for_each(|&index| mix(index as u64));
            values.iter().for_each(|&value| mix(value.into()));
            labels.iter().for_each(|&label| mix(label as u64));
        }
    }
    assert_eq!(format!("{digest:016x}"), "cd8b67150e728619");
}

#[test]
fn repeated_samples_are_augmented_anew() {
    let data = Augmented { sleeps: false, ..Augmented::new(1) };
    let loader =
        DataLoader::builder(data).batch_size(3).sampler(WithReplacement::new(3)).build().unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    let images = &batch.data.0;
    assert_ne!(images.row(0), images.row(1));
    assert_ne!(images.row(1), images.row(2));
    assert_eq!(images.row(0).unwrap(), loader.sample(0, 0).unwrap().0);
}
