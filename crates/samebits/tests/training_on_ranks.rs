//! A training ends in the bits of one rank, for any number of ranks and after any interruption.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use samebits::data::{DataLoader, Dataset, SampleContext, Stack, Stacked};
use samebits::distributed::{Error as RanksError, Ranks, Threads, threads};
use samebits::functional::cross_entropy;
use samebits::nn::{
    BatchNorm1d, Dropout, Layer, Linear, Module, TransformerEncoderLayer, draw_from,
};
use samebits::optim::{AdamW, CosineAnnealingLr};
use samebits::trainer::{Error, Outcome, Per, Result, Trainer};
use samebits::{Generator, Tensor};

const FEATURES: usize = 8;
const EPOCHS: u64 = 2;

/// A dataset of 44 samples with noise of their own: 15 batches of 3, the last of 2.
struct Data;

impl Dataset for Data {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        44
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let noise = cx.rng().next_block()[0] as f32 / u32::MAX as f32;
        let value = |i| ((index * 7 + i * 5) % 11) as f32 / 11.0 + 0.3 * noise;
        Ok(((0..FEATURES).map(value).collect(), (index % 3) as i64))
    }
}

/// A model with batch norm, dropout, and a layer that some micro-batches do not use.
#[derive(Module)]
struct Net {
    first: Linear,
    norm: BatchNorm1d,
    rare: Linear,
    last: Linear,
}

impl Net {
    fn new(generator: &mut Generator) -> Net {
        draw_from(generator, || Net {
            first: Linear::new(FEATURES, 6).unwrap(),
            norm: BatchNorm1d::new(6).unwrap(),
            rare: Linear::new(6, 6).unwrap(),
            last: Linear::new(6, 3).unwrap(),
        })
    }
}

type Batch = (Stacked<f32>, Vec<i64>);

fn tensors((x, classes): Batch) -> samebits::Result<(Tensor, Tensor)> {
    let x = Tensor::from_slice(&x.values, &[x.rows, x.columns])?;
    Ok((x, Tensor::from_slice(&classes, &[classes.len()])?))
}

fn loss(net: &Net, batch: Batch) -> Result<Tensor> {
    let rare = batch.1.iter().sum::<i64>() % 2 == 0;
    let (x, classes) = tensors(batch)?;
    let mut x = net.norm.forward(&net.first.forward(&x)?)?.relu()?;
    x = Dropout::new(0.25).forward(&x)?;
    if rare {
        x = net.rare.forward(&x)?;
    }
    Ok(cross_entropy(&net.last.forward(&x)?, &classes)?)
}

type Run<M> = Trainer<'static, M, AdamW, Data, Stack>;

fn run<M: Module>(model: M, micro_batches: u64, batch: usize) -> Run<M> {
    let loader = DataLoader::builder(Data).batch_size(batch).shuffle(true).seed(9).build().unwrap();
    Trainer::new(model, AdamW::new(0.05).unwrap(), loader, Generator::new(7))
        .run("seed 7")
        .epochs(EPOCHS)
        .accumulate(micro_batches)
        .clip_grad_norm(0.5, 2.0)
        .schedule(Per::Step, CosineAnnealingLr::new(20))
}

fn net(micro_batches: u64) -> Run<Net> {
    run(Net::new(&mut Generator::new(5)), micro_batches, 3)
}

fn bytes<M: Module>(run: &Run<M>) -> Vec<u8> {
    run.state().unwrap().to_bytes().unwrap()
}

/// Returns the final state of each of `world` ranks, and the file that the first has written.
fn on_ranks(world: usize, micro_batches: u64, piece: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let to = path.clone();
    let ends = threads::run(world, move |transport| -> Result<Vec<u8>> {
        let ranks = Ranks::new(transport).piece(piece);
        let mut run = net(micro_batches).checkpoint(&to).ranks(ranks);
        assert_eq!(run.fit(loss)?, Outcome::Finished);
        Ok(bytes(&run))
    });
    (ends.unwrap(), std::fs::read(path).unwrap())
}

fn alone(micro_batches: u64) -> Vec<u8> {
    let mut run = net(micro_batches);
    assert_eq!(run.fit(loss).unwrap(), Outcome::Finished);
    assert_ne!(run.metrics()[1], run.metrics()[0]);
    bytes(&run)
}

#[test]
fn any_number_of_ranks_ends_in_the_state_and_the_file_of_one() {
    for (micro_batches, worlds) in [(4, 1..=4), (8, 1..=8), (12, 5..=5), (1, 1..=1)] {
        let reference = alone(micro_batches);
        for world in worlds {
            for piece in [16, 200, 1 << 20] {
                let (ends, file) = on_ranks(world, micro_batches, piece);
                assert_eq!(ends.len(), world);
                for (rank, end) in ends.iter().enumerate() {
                    assert!(*end == reference, "rank {rank} of {world}, {micro_batches}, {piece}");
                }
                assert!(file == reference, "the file of {world}, {micro_batches}, {piece}");
            }
        }
    }
}

#[derive(Module)]
struct Encoder {
    layer: TransformerEncoderLayer,
    last: Linear,
}

#[test]
fn a_transformer_with_dropout_ends_in_the_bits_of_one_rank() {
    let fit = |transport: Option<Threads>| -> Result<Vec<u8>> {
        let model = draw_from(&mut Generator::new(3), || {
            Ok::<_, samebits::Error>(Encoder {
                layer: TransformerEncoderLayer::new(4, 2)?,
                last: Linear::new(8, 3)?,
            })
        })?;
        let mut run = run(model, 4, 4);
        if let Some(transport) = transport {
            run = run.ranks(transport);
        }
        run.fit(|model, batch| {
            let (x, classes) = tensors(batch)?;
            let n = x.shape()[0];
            let x = model.layer.forward(&x.reshape([n, 2, 4])?)?.reshape([n, 8])?;
            Ok(cross_entropy(&model.last.forward(&x)?, &classes)?)
        })?;
        Ok(bytes(&run))
    };
    let reference = fit(None).unwrap();
    for world in 1..=4 {
        let ends = threads::run(world, move |transport| fit(Some(transport))).unwrap();
        assert!(ends.iter().all(|end| *end == reference), "{world}");
    }
}

/// The negative controls: state that a rank keeps to itself shows.
#[test]
fn a_generator_that_moves_on_and_a_buffer_of_a_rank_show() {
    let with = |world: usize, moves_on: bool| {
        let ends = threads::run(world, move |transport| -> Result<Vec<u8>> {
            let mut run = net(4).ranks(transport);
            let (mut generator, mut mean) = (Generator::new(1), 0.0f32);
            run.fit(|net, (mut x, classes)| {
                let factor = if moves_on {
                    generator.next_block()[0] as f32 / u32::MAX as f32
                } else {
                    mean = 0.9 * mean + 0.1 * x.values[0];
                    mean
                };
                x.values.iter_mut().for_each(|value| *value *= 1.0 + 0.1 * factor);
                loss(net, (x, classes))
            })?;
            Ok(bytes(&run))
        });
        ends.unwrap().swap_remove(0)
    };
    for moves_on in [false, true] {
        assert!(with(1, moves_on) != with(2, moves_on), "moves on: {moves_on}");
        assert!(with(2, moves_on) == with(2, moves_on), "it repeats: {moves_on}");
    }
}

/// Runs once, killed repeatedly on changing numbers of ranks.
fn killed(path: &Path, seed: u64, kills: &AtomicU64) -> Vec<u8> {
    let mut choices = Generator::new(seed);
    loop {
        let [world, victim, after, how] = choices.next_block();
        let world = 1 + world as usize % 4;
        let (victim, after) = (victim as usize % world, 1 + after % 9);
        let path = PathBuf::from(path);
        let leg = threads::run(world, move |transport| -> Result<Vec<u8>> {
            let rank = samebits::distributed::Transport::rank(&transport);
            let mut run = net(4).checkpoint(&path).checkpoint_every(1).ranks(transport);
            if path.exists() {
                run.resume(&path)?;
            }
            let mut count = 0;
            run.fit(|net, batch| {
                count += 1;
                if rank == victim && count == after && how % 4 != 0 {
                    return Err(samebits::Error::invalid("test", "killed").into());
                }
                loss(net, batch)
            })?;
            Ok(bytes(&run))
        });
        match leg {
            Ok(ends) => return ends.into_iter().next().unwrap(),
            Err(error) => {
                assert!(error.to_string().contains("test: killed"), "{error}");
                kills.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn runs_that_are_killed_and_resumed_on_other_numbers_of_ranks_end_alike() {
    let (reference, kills) = (alone(4), AtomicU64::new(0));
    for seed in 0..200 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.safetensors");
        assert!(killed(&path, seed, &kills) == reference, "seed {seed}");
        assert!(std::fs::read(&path).unwrap() == reference, "the file, seed {seed}");
    }
    let kills = kills.into_inner();
    assert!(kills > 200, "{kills} kills");
}

#[test]
fn a_rank_that_fails_panics_or_stops_ends_the_run_everywhere() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let told = |what: fn(u64) -> Result<()>| {
        ends.lock().unwrap().clear();
        let ends = Arc::clone(&ends);
        threads::run(3, move |transport| -> Result<Outcome> {
            let rank = samebits::distributed::Transport::rank(&transport) as u64;
            let mut run = net(4).ranks(transport);
            let mut count = 0;
            let end = run.fit(|net, batch| {
                count += 1;
                if rank == 1 && count == 3 {
                    what(count)?;
                }
                loss(net, batch)
            });
            end.map_err(|error| {
                let taken = run.losses().len();
                let text = format!("{error} after {taken}");
                ends.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                error
            })
        })
    };
    let error = told(|_| Err(Error::Invalid("no such file".to_owned()))).unwrap_err();
    assert_eq!(error.to_string(), "trainer: no such file");
    let mut seen = ends.lock().unwrap().clone();
    seen.sort();
    let others = "trainer: rank 1: trainer: no such file after 2";
    assert_eq!(seen, ["trainer: no such file after 2", others, others]);
    let panic = std::panic::AssertUnwindSafe(|| told(|_| panic!("planted")));
    assert!(std::panic::catch_unwind(panic).is_err());
    let seen = ends.lock().unwrap().clone();
    assert_eq!(seen, ["trainer: rank 1: its thread panicked after 2"; 2]);
    told(|_| Ok(())).unwrap();

    // A flag on one rank stops all after the same step.
    let losses = threads::run(3, |transport| -> Result<(Outcome, usize)> {
        let rank = samebits::distributed::Transport::rank(&transport);
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        let mut run = net(4).ranks(transport).stop_flag(flag).on_step(move |step| {
            set.store(rank == 2 && step.steps == 3, Ordering::Relaxed);
        });
        let outcome = run.fit(loss)?;
        Ok((outcome, run.losses().len()))
    });
    assert_eq!(losses.unwrap(), [(Outcome::Interrupted, 3); 3]);
}

#[test]
fn ranks_that_are_not_alike_are_named_before_the_first_step() {
    let error = |change: fn(Run<Net>, bool) -> Run<Net>| {
        let result = threads::run(3, move |transport| -> Result<Outcome> {
            let odd = samebits::distributed::Transport::rank(&transport) == 1;
            change(net(4), odd).ranks(transport).fit(|_, _| panic!("no step is taken"))
        });
        result.unwrap_err()
    };
    for (change, named) in [
        (
            (|run, odd| run.run(if odd { "seed 8" } else { "seed 7" })) as fn(Run<Net>, bool) -> _,
            "one description of the run, but rank 1 differ",
        ),
        (|run, odd| run.accumulate(if odd { 3 } else { 4 }), "one number of batches in a step"),
        (|run, odd| run.epochs(if odd { 3 } else { 4 }), "one set of settings"),
        (
            |run, odd| if odd { self::run(Net::new(&mut Generator::new(6)), 4, 3) } else { run },
            "one state to start from, but rank 1 differ",
        ),
    ] {
        let error = error(change);
        assert!(matches!(error, Error::Ranks(RanksError::Unlike { .. })), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    let few = error(|run, _| run.accumulate(2)).to_string();
    assert_eq!(few, "trainer: a step of 2 batches can have as many ranks, got 3");
}
