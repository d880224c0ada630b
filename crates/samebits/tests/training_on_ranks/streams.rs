//! Trainings on streams: a lane for each micro-batch, and any number of ranks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use samebits::data::{
    self, Records, Retry, SampleContext, ShardedDataset, StreamLoader, StreamLoaderBuilder,
};
use samebits::distributed::{Transport, threads};
use samebits::nn::Module;
use samebits::optim::AdamW;
use samebits::trainer::{Error, Outcome, Result, Trainer};
use samebits::{Determinism, Generator};

use super::on_ranks::{EPOCHS, Encoder, FEATURES, Net, loss};

/// 13 shards of 2 to 10 records with noise of their own, so that lanes end at different times.
struct Shards;

const SHARDS: usize = 13;

impl ShardedDataset for Shards {
    type Raw = usize;
    type Item = (Vec<f32>, i64);

    fn shards(&self) -> usize {
        SHARDS
    }

    fn open(&self, shard: usize, skip: u64) -> data::Result<Records<usize>> {
        let records = 2 + 2 * (shard * 3 % 5);
        Ok(Box::new((0..records).skip(skip as usize).map(move |record| Ok(shard * 20 + record))))
    }

    fn sample(&self, raw: usize, cx: &mut SampleContext<'_>) -> data::Result<Self::Item> {
        let noise = cx.rng().next_block()[0] as f32 / u32::MAX as f32;
        let value = |i| ((raw * 7 + i * 5) % 11) as f32 / 11.0 + 0.3 * noise;
        Ok(((0..FEATURES).map(value).collect(), (raw % 3) as i64))
    }
}

fn stream(lanes: usize) -> StreamLoaderBuilder<Shards, data::Stack> {
    // An even number of records: no batch has a single one, which batch norm would refuse.
    StreamLoader::builder(Shards).batch_size(4).shuffle(true).window(3).seed(9).lanes(lanes)
}

type Run<M> = Trainer<'static, M, AdamW, StreamLoader<Shards>>;

fn run<M: Module>(model: M, lanes: usize, workers: usize) -> Run<M> {
    let loader = stream(lanes).workers(workers).build().unwrap();
    Trainer::new(model, AdamW::new(0.05).unwrap(), loader, Generator::new(7))
        .epochs(EPOCHS)
        .accumulate(lanes as u64)
        .clip_grad_norm(0.5, 2.0)
}

fn net() -> Net {
    Net::new(&mut Generator::new(5))
}

fn bytes<M: Module>(run: &Run<M>) -> Vec<u8> {
    run.state().unwrap().to_bytes().unwrap()
}

/// Returns the number of batches of each lane.
fn lengths(lanes: usize, epoch: u64) -> Vec<usize> {
    let loader = stream(lanes).build().unwrap();
    let mut lengths = vec![0; lanes];
    let mut batches = loader.epoch(epoch);
    while let Some(batch) = batches.next() {
        batch.unwrap();
        lengths[(batches.state().turn - 1) as usize % lanes] += 1;
    }
    lengths
}

#[test]
fn a_step_is_a_round_of_all_lanes() {
    for lanes in [2, 4, 8, 12, 16] {
        let rows = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&rows);
        let mut run = run(net(), lanes, 0);
        let outcome = run.fit(move |net, batch| {
            seen.lock().unwrap().push(batch.0.values.clone());
            loss(net, batch)
        });
        assert_eq!(outcome.unwrap(), Outcome::Finished);
        let lengths: Vec<_> = (0..EPOCHS).map(|epoch| lengths(lanes, epoch)).collect();
        let steps: usize = lengths.iter().map(|lanes| lanes.iter().max().unwrap()).sum();
        assert_eq!(run.losses().len(), steps, "{lanes} lanes");
        assert_eq!(run.metrics().len() as u64, EPOCHS);
        // The batches are those of the loader.
        let loader = stream(lanes).build().unwrap();
        let batches = (0..EPOCHS).flat_map(|epoch| loader.epoch(epoch));
        let expected: Vec<_> = batches.map(|batch| batch.unwrap().data.0.values).collect();
        assert_eq!(*rows.lock().unwrap(), expected, "{lanes} lanes");
        // Lanes that end early leave gaps in the middle of later steps.
        let has_gap = |lanes: &Vec<usize>| lanes.windows(2).any(|pair| pair[0] < pair[1]);
        assert!(lanes < 4 || lengths.iter().any(has_gap), "{lengths:?}");
    }
}

#[test]
fn any_number_of_ranks_ends_in_the_state_and_the_file_of_one() {
    for (lanes, worlds) in [(1, 1..=1), (4, 1..=4), (8, 1..=8), (12, 5..=5), (16, 7..=7)] {
        for workers in [0, 2] {
            let mut alone = run(net(), lanes, workers);
            alone.fit(loss).unwrap();
            let reference = bytes(&alone);
            for world in worlds.clone() {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("run.safetensors");
                let to = path.clone();
                let ends = threads::run(world, move |transport| -> Result<Vec<u8>> {
                    let mut run = run(net(), lanes, workers).checkpoint(&to).ranks(transport);
                    assert_eq!(run.fit(loss)?, Outcome::Finished);
                    Ok(bytes(&run))
                });
                for end in ends.unwrap() {
                    assert!(end == reference, "{world} ranks, {lanes} lanes, {workers} workers");
                }
                assert!(std::fs::read(path).unwrap() == reference, "the file of {world} ranks");
            }
        }
    }
}

#[test]
fn a_transformer_learns_from_a_stream_on_any_number_of_ranks() {
    let fit = |world: usize| {
        let ends = threads::run(world, |transport| -> Result<Vec<u8>> {
            let model = Encoder::new(&mut Generator::new(3))?;
            let mut run = run(model, 4, 0).ranks(transport);
            run.fit(Encoder::loss)?;
            Ok(bytes(&run))
        });
        ends.unwrap().swap_remove(0)
    };
    let reference = fit(1);
    assert!((2..=4).all(|world| fit(world) == reference));
}

#[test]
fn a_run_that_is_killed_and_resumed_on_other_numbers_of_ranks_ends_alike() {
    let mut alone = run(net(), 8, 1);
    alone.fit(loss).unwrap();
    let reference = bytes(&alone);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut kills = 0;
    for world in [3, 8, 1, 2, 5, 4, 7, 6, 1, 2, 3, 4, 5, 6, 7, 8] {
        let path = PathBuf::from(&path);
        let leg = threads::run(world, move |transport| -> Result<Vec<u8>> {
            let is_victim = transport.rank() == world / 2;
            let mut run = run(net(), 8, 1).checkpoint(&path).checkpoint_every(1).ranks(transport);
            if path.exists() {
                run.resume(&path)?;
            }
            let (mut count, own) = (0, 8_usize.div_ceil(world));
            run.fit(|net, batch| {
                count += 1;
                if is_victim && count > own {
                    return Err(samebits::Error::invalid("test", "killed").into());
                }
                loss(net, batch)
            })?;
            Ok(bytes(&run))
        });
        match leg {
            Ok(ends) => {
                assert!(ends.iter().all(|end| *end == reference), "after {kills} kills");
                assert!(kills > 2, "{kills} kills");
                return;
            }
            Err(error) => {
                assert!(error.to_string().contains("test: killed"), "{error}");
                kills += 1;
            }
        }
    }
    panic!("the run does not end");
}

/// Without `accumulate` a step has one batch, from any number of lanes.
#[test]
fn single_batches_resume_in_the_same_bits() {
    let single = || {
        let loader = stream(3).build().unwrap();
        let model = net();
        Trainer::new(model, AdamW::new(0.05).unwrap(), loader, Generator::new(7)).epochs(EPOCHS)
    };
    let mut whole = single();
    assert_eq!(whole.fit(loss).unwrap(), Outcome::Finished);
    let steps: usize = (0..EPOCHS).flat_map(|epoch| lengths(3, epoch)).sum();
    assert_eq!(whole.losses().len(), steps);
    for cut in [1, 5, steps as u64 / 2, steps as u64 - 1] {
        let mut part = single().max_steps(cut);
        assert_eq!(part.fit(loss).unwrap(), Outcome::MaxSteps);
        let mut rest = single();
        rest.load_state(part.state().unwrap()).unwrap();
        assert_eq!(rest.fit(loss).unwrap(), Outcome::Finished);
        assert!(bytes(&rest) == bytes(&whole), "{cut}");
    }
}

#[test]
fn streams_that_cannot_be_shared_are_refused() {
    let error = |loader: data::Result<StreamLoader<Shards>>, world: usize| {
        let loader = Mutex::new(Some(loader.unwrap()));
        let ends = threads::run(world, move |transport| -> Result<Outcome> {
            // The other ranks have the same one.
            let own = loader.lock().unwrap().take();
            let loader = own.unwrap_or_else(|| stream(4).build().unwrap());
            let optimizer = AdamW::new(0.05)?;
            let run = Trainer::new(net(), optimizer, loader, Generator::new(7)).accumulate(4);
            run.ranks(transport).fit(loss)
        });
        ends.unwrap_err()
    };
    let found = error(stream(3).build(), 1);
    assert!(matches!(found, Error::Invalid(_)), "{found}");
    let named = "each micro-batch of a step has a lane of the stream, so 4 lanes are needed, got 3";
    assert!(found.to_string().contains(named), "{found}");
    let found = error(stream(4).retry(Retry::default().skip(1)).build(), 1).to_string();
    assert!(found.contains("must not skip samples"), "{found}");
    let level = || stream(4).level(Determinism::RunToRun);
    let found = error(level().build(), 2).to_string();
    assert!(found.contains("must be Portable"), "{found}");

    let empty = Trainer::new(
        net(),
        AdamW::new(0.05).unwrap(),
        stream(SHARDS).batch_size(100).drop_last(true).build().unwrap(),
        Generator::new(7),
    );
    let found = empty.accumulate(SHARDS as u64).fit(loss).unwrap_err();
    assert!(matches!(found, Error::NoBatch { epoch: 0 }), "{found}");
}
