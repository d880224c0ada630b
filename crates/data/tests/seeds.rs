//! The owner of each generator, and the identity of a saved state.

use std::collections::BTreeSet;

use samebits_data::{
    ByteOrder, Collate, CsvOptions, DataLoader, Dataset, DatasetExt, Determinism, Element, Error,
    Keep, Lines, LoaderState, Memory, PyTorch, Result, Rows, SampleContext, Shard, StreamLoader,
    Tail, TorchGenerator, WithReplacement,
};
use samebits_rng::Generator;
use samebits_tensor_core::{Device, determinism, random};

#[test]
fn workers_of_different_ranks_draw_differently() {
    let seeds = |rank, torch: Option<PyTorch>| -> Vec<u64> {
        let data = Memory::new(vec![(); 12])
            .map(|(), cx| Ok(cx.worker().generator()?.next_block()[0] as u64));
        let builder = DataLoader::builder(data)
            .workers(2)
            .level(Determinism::RunToRun)
            .shard(Shard::new(rank, 3, Tail::Drop).unwrap());
        let builder = if let Some(torch) = torch { builder.pytorch(torch) } else { builder };
        builder.build().unwrap().epoch(0).flat_map(|batch| batch.unwrap().data).collect()
    };
    for torch in [None, Some(PyTorch::new(0, TorchGenerator::Default, false))] {
        let mut all: Vec<u64> = (0..3).flat_map(|rank| seeds(rank, torch)).collect();
        assert_eq!(all.len(), 12);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 12, "{torch:?}");
    }
    // Rank 0 has the seeds of a loader without ranks.
    let alone = PyTorch::new(0, TorchGenerator::Default, false).base_seed(0, 12).unwrap();
    assert_eq!(seeds(0, Some(PyTorch::new(0, TorchGenerator::Default, false)))[0], {
        u64::from(Generator::new(alone).next_block()[0])
    });
}

#[test]
fn no_two_uses_of_one_generator_meet() {
    // A repeated visit gives none of the generators that a sample derives from its own.
    let data = Memory::new(vec![(); 1]).map(|(), cx| {
        let rng = cx.rng().clone();
        let children =
            (0..4).flat_map(|i| [rng.fold_in(i), rng.clone().split(4).unwrap().swap_remove(3)]);
        Ok([rng.clone(), rng.derive("sample"), rng.derive("hook")]
            .into_iter()
            .chain(children)
            .map(|mut generator| generator.next_block())
            .collect::<Vec<_>>())
    });
    let loader =
        DataLoader::builder_with(data, Keep).sampler(WithReplacement::new(4)).build().unwrap();
    let visits: Vec<_> = loader.epoch(0).map(|batch| batch.unwrap().data.remove(0)).collect();
    for (i, visit) in visits.iter().enumerate() {
        for other in &visits[..i] {
            assert!(visit.iter().all(|block| !other.contains(block)));
        }
    }
    // No generator of a loader equals a child that its owner folds in or splits off.
    let root = Generator::new(3);
    let words: Vec<_> =
        (0..64).map(|i| root.fold_in(i).fold_in(0).fold_in(0).block_at(0)).collect();
    let data = Memory::new(vec![(); 2]).map(|(), cx| Ok(cx.rng().next_block()));
    let loader = DataLoader::builder_with(data, Keep).generator(root.clone()).build().unwrap();
    for batch in loader.epoch(0) {
        assert!(!words.contains(&batch.unwrap().data[0]));
    }
    // A split leaves the generator's own words to their owner.
    let parts = Memory::new((0..100).collect::<Vec<i64>>()).split(&[50, 50], &root).unwrap();
    let own = samebits_rng::Draw::new(3, 0, 0).permutation(100).unwrap();
    let own: Vec<usize> = own.into_iter().map(|i| i as usize).collect();
    assert_ne!(parts[0].indices(), &own[..50]);
}

/// A program seeds its weights and its data with the same number.
#[test]
fn data_and_weights_of_one_seed_share_no_block() {
    for seed in [0, 1, 42, u64::MAX] {
        random::manual_seed(seed);
        let weights: BTreeSet<[u32; 4]> = (0..4096)
            .map(|_| random::with_default("rand", Device::Cpu, Generator::next_block).unwrap())
            .collect();
        let blocks = |generator: &Generator| {
            let mut generator = generator.clone();
            (0..8).map(|_| generator.next_block()).collect::<Vec<_>>()
        };
        let data = Memory::new(vec![(); 20]).map(move |(), cx| {
            let mut all = blocks(&cx.rng().clone());
            all.extend(blocks(cx.worker().generator()?));
            Ok(all)
        });
        let loader = DataLoader::builder_with(data, Blocks).generator(Generator::new(seed));
        let loader = loader.level(Determinism::RunToRun).batch_size(4).build().unwrap();
        for epoch in 0..3 {
            for batch in loader.epoch(epoch) {
                let drawn = batch.unwrap().data;
                assert!(drawn.len() > 4 * 16);
                assert!(drawn.iter().all(|block| !weights.contains(block)), "seed {seed}");
            }
        }
    }
}

/// A collate function that returns the samples' blocks, and some of the batch.
struct Blocks;

impl Collate<Vec<[u32; 4]>> for Blocks {
    type Batch = Vec<[u32; 4]>;

    fn collate(&self, samples: Vec<Self::Batch>, rng: &mut Generator) -> Result<Self::Batch> {
        Ok(samples.concat().into_iter().chain((0..8).map(|_| rng.next_block())).collect())
    }
}

#[test]
fn there_is_no_default_generator_in_a_loader_with_any_number_of_workers() {
    random::manual_seed(7);
    let before = random::get_rng_state().unwrap();
    let draw = || random::with_default("rand", Device::Cpu, Generator::next_block);
    let refusal = samebits_tensor_core::Error::ExplicitOnly { op: "rand" };
    for level in [determinism::Determinism::Portable, determinism::Determinism::NotGuaranteed] {
        for workers in [0, 1, 2, 5] {
            let refusal = refusal.clone();
            let check = move || {
                determinism::scope(level, || {
                    assert_eq!(draw(), Err(refusal.clone()));
                    random::manual_seed(1);
                    assert_eq!(draw(), Err(refusal.clone()));
                    assert_eq!(random::initial_seed(), None);
                });
            };
            let (in_sample, in_collate, in_init) = (check.clone(), check.clone(), check);
            let data = Memory::new(vec![1_i64; 6]).map(move |x, _| {
                in_sample();
                Ok(x)
            });
            let loader = DataLoader::builder(data)
                .collate(move |samples: Vec<i64>| {
                    in_collate();
                    Ok(samples.len())
                })
                .worker_init(move |_| {
                    in_init();
                    Ok(())
                })
                .workers(workers)
                .build()
                .unwrap();
            assert_eq!(loader.epoch(0).map(|batch| batch.unwrap().data).sum::<usize>(), 6);
            loader.sample(0, 0).unwrap();
        }
    }
    assert_eq!(random::get_rng_state().unwrap(), before);
    assert!(draw().is_ok());
}

fn state<D: Dataset>(data: D) -> LoaderState {
    DataLoader::builder_with(data, Keep).build().unwrap().epoch(0).state().unwrap()
}

#[test]
fn a_state_of_another_dataset_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let csv = |text: &str| CsvOptions::new().parse("t.csv", text.as_bytes()).unwrap();
    let raw = |name: &str, bytes: &[u8], width| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Rows::open_raw(path, 0, Element::U8, ByteOrder::Little, &[width]).unwrap()
    };
    fn refused<D: Dataset>(state: &LoaderState, data: D) {
        let loader = DataLoader::builder_with(data, Keep).build().unwrap();
        let error = loader.resume(state).unwrap_err();
        let Error::StateMismatch { field, expected, found } = error else { panic!("{error}") };
        assert!(field.starts_with("dataset") && expected != found, "{expected} {found}");
    }
    let table = state(csv("1,2\n3,4\n"));
    assert!(DataLoader::builder(csv("1,2\n3,4\n")).build().unwrap().resume(&table).is_ok());
    refused(&table, csv("1,2\n3,5\n"));
    refused(&table, csv("1,2\n2,4\n"));
    refused(&table, csv("1,2\n3,4\n5,6\n"));
    let rows = state(raw("a", &[1, 2, 3, 4], 2));
    refused(&rows, raw("a", &[1, 2, 3, 5], 2));
    refused(&rows, raw("b", &[1, 2, 3, 4], 2));
    let pairs = Memory::new(vec![1_i64, 2]).zip(csv("1,2\n3,4\n")).unwrap();
    refused(&state(pairs), Memory::new(vec![1_i64, 2]).zip(csv("1,2\n3,5\n")).unwrap());
    let subset = |indices| csv("1,2\n3,4\n").subset(indices).unwrap();
    refused(&state(subset(vec![0])), subset(vec![1]));
    let joined = |text| csv("1,2\n").concat(csv(text)).unwrap();
    refused(&state(joined("3,4\n")), joined("3,5\n"));
    let mapped = |text| csv(text).map(|x, _| Ok(x));
    refused(&state(mapped("3,4\n")), mapped("3,5\n"));

    let lines = |text: &str| {
        let path = dir.path().join("t.txt");
        std::fs::write(&path, text).unwrap();
        StreamLoader::builder(Lines::new(vec![path])).build().unwrap()
    };
    let state = lines("1\n2\n").epoch(0).state().clone();
    assert!(lines("1\n2\n").resume(&state).is_ok());
    let error = lines("1\n2\n3\n").resume(&state).unwrap_err();
    assert!(matches!(error, Error::StateMismatch { field: "dataset", .. }), "{error}");
}

#[test]
fn a_state_of_the_first_version_is_read_and_refused() {
    let text = r#"{"version":1,"epoch":0,"batch":0,"position":0,"dataset_len":2,
        "sampler":"sequential","seeding":{"Addressed":{"seed":0,"stream":0,"offset":0}},
        "worker_count":0,"workers":[]}"#;
    let state: LoaderState = serde_json::from_str(text).unwrap();
    let loader = DataLoader::builder(Memory::new(vec![1_i64, 2])).build().unwrap();
    assert_eq!(
        loader.resume(&state).unwrap_err().to_string(),
        "resume: version is 1 in the saved state, but 2 in this loader: build the loader as it was \
         when the state was saved"
    );
}

/// A dataset with more samples than memory has room for.
#[test]
fn a_shortage_of_memory_is_an_error_and_passes() {
    struct Many;
    impl Dataset for Many {
        type Item = i64;

        fn len(&self) -> usize {
            1 << 60
        }

        fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<i64> {
            Ok(index as i64)
        }
    }
    let loader = DataLoader::builder(Many).shuffle(true).build().unwrap();
    for _ in 0..2 {
        let error = loader.epoch(0).next().unwrap().unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { op: "shuffled sampler", .. }), "{error}");
    }
    assert_eq!(loader.sample(0, 5).unwrap(), 5);
}
