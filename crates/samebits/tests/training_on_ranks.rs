//! A training ends in the bits of one rank, for any number of ranks and after any interruption.

#[path = "training_on_ranks/halves.rs"]
mod halves;
mod on_ranks;
#[path = "training_on_ranks/streams.rs"]
mod streams;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use on_ranks::{Encoder, Net, Run, bytes, encoder, loss, net, run};
use samebits::data::{DataLoader, Dataset, SampleContext, Stack};
use samebits::distributed::{
    Error as RanksError, Ranks, Result as RanksResult, Threads, Transport, threads,
};
use samebits::functional::argmax;
use samebits::ledger::{Detail, Digests, Ledger};
use samebits::nn::{Layer, Module};
use samebits::optim::{Mode, Sgd};
use samebits::trainer::{Error, Outcome, Result, Trainer};
use samebits::{DType, Generator, Tensor};
use samebits_ledger::diff::{Part, diff};

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

/// A transport that delays one call in eight at random.
struct Slow(Threads, Mutex<Generator>);

impl Transport for Slow {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn world(&self) -> usize {
        self.0.world()
    }

    fn exchange(&self, send: &[&[u8]], receive: &mut [&mut [u8]]) -> RanksResult<()> {
        let [is_late, micros, ..] = self.1.lock().unwrap().next_block();
        if is_late.is_multiple_of(8) {
            std::thread::sleep(Duration::from_micros(u64::from(micros % 2000)));
        }
        self.0.exchange(send, receive)
    }

    fn abort(&self, cause: &str) {
        self.0.abort(cause);
    }

    fn failed(&self, rank: usize, cause: &str) {
        self.0.failed(rank, cause);
    }
}

/// With 44 samples in batches of 4, the last step is short for each number of micro-batches.
#[test]
fn a_transformer_ends_in_the_state_and_the_file_of_one_rank_even_if_ranks_are_slow() {
    for (micro_batches, worlds) in [(4, 1..=4), (8, 1..=8), (12, 5..=5)] {
        let mut alone = encoder(micro_batches).unwrap();
        alone.fit(Encoder::loss).unwrap();
        let reference = bytes(&alone);
        for world in worlds {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.safetensors");
            let to = path.clone();
            let ends = threads::run(world, move |transport| -> Result<Vec<u8>> {
                let generator = Generator::new(micro_batches).fold_in(transport.rank() as u64);
                let ranks = Ranks::new(Slow(transport, generator.into())).piece(200);
                let mut run = encoder(micro_batches)?.checkpoint(&to).ranks(ranks);
                run.fit(Encoder::loss)?;
                Ok(bytes(&run))
            });
            assert!(ends.unwrap().iter().all(|end| *end == reference), "{micro_batches}, {world}");
            assert!(
                std::fs::read(path).unwrap() == reference,
                "the file: {micro_batches}, {world}"
            );
        }
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
            let rank = transport.rank();
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

/// The number of runs, if not [`RUNS`]. Files that are synchronised take most of the time.
const COUNT: &str = "SAMEBITS_TEST_KILLED_RUNS";
const RUNS: u64 = 20;

#[test]
fn runs_that_are_killed_and_resumed_on_other_numbers_of_ranks_end_alike() {
    let (reference, kills) = (alone(4), AtomicU64::new(0));
    let runs = std::env::var(COUNT).map_or(RUNS, |runs| runs.parse().unwrap());
    for seed in 0..runs {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.safetensors");
        assert!(killed(&path, seed, &kills) == reference, "seed {seed}");
        assert!(std::fs::read(&path).unwrap() == reference, "the file, seed {seed}");
    }
    let kills = kills.into_inner();
    assert!(kills > runs, "{kills} kills");
}

#[test]
fn a_rank_that_fails_panics_or_stops_ends_the_run_everywhere() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let told = |what: fn(u64) -> Result<()>| {
        ends.lock().unwrap().clear();
        let ends = Arc::clone(&ends);
        threads::run(3, move |transport| -> Result<Outcome> {
            let rank = transport.rank() as u64;
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
    // More memory than there is.
    let error =
        told(|_| Tensor::zeros(&[1 << 50], DType::F32).map(drop).map_err(Into::into)).unwrap_err();
    let missing = |error: &Error| {
        matches!(error, Error::Tensor(samebits::Error::OutOfMemory { op: "zeros", .. }))
    };
    assert!(missing(&error), "{error}");
    let mut seen = ends.lock().unwrap().clone();
    seen.sort();
    let others = format!("trainer: rank 1: {error} after 2");
    assert_eq!(seen, [others.clone(), others, format!("{error} after 2")]);

    // A flag on one rank stops all after the same step.
    let losses = threads::run(3, |transport| -> Result<(Outcome, usize)> {
        let rank = transport.rank();
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
            let odd = transport.rank() == 1;
            change(net(4), odd).ranks(transport).fit(|_, _| panic!("no step is taken"))
        });
        result.unwrap_err()
    };
    for (change, named) in [
        (
            (|run, odd| run.run(if odd { "seed 8" } else { "seed 7" })) as fn(Run<Net>, bool) -> _,
            "one description of the run, but rank 1 differs",
        ),
        (|run, odd| run.accumulate(if odd { 3 } else { 4 }), "one number of batches in a step"),
        (|run, odd| run.epochs(if odd { 3 } else { 4 }), "one set of settings"),
        (
            |run, odd| if odd { self::run(Net::new(&mut Generator::new(6)), 4, 3) } else { run },
            "one state to start from, but rank 1 differs",
        ),
    ] {
        let error = error(change);
        assert!(matches!(error, Error::Ranks(RanksError::Unlike { .. })), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    let few = error(|run, _| run.accumulate(2)).to_string();
    assert_eq!(few, "trainer: a step of 2 batches can have as many ranks, got 3");
}

/// As [`on_ranks::Data`], of another length and without noise.
struct Unseen;

impl Dataset for Unseen {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        23
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let value = |i| ((index * 3 + i * 7) % 13) as f32 / 13.0;
        Ok(((0..on_ranks::FEATURES).map(value).collect(), (index % 3) as i64))
    }
}

#[test]
fn a_metric_over_batches_is_that_of_one_rank() {
    let measured = Arc::new(Mutex::new(Vec::new()));
    let with = |run: Run<Net>, rank: usize, measured: Arc<Mutex<Vec<usize>>>| {
        let loader = DataLoader::builder(Unseen).batch_size(3).collate(Stack).build().unwrap();
        run.early_stop(Mode::Max, 1).metric_over(loader, move |net, batch| {
            measured.lock().unwrap().push(rank);
            let (x, classes) = on_ranks::tensors(batch)?;
            let logits = net.last.forward(&net.norm.forward(&net.first.forward(&x)?)?)?;
            let found = argmax(&logits, Some(1), false)?.to_vec::<i64>()?;
            let classes = classes.to_vec::<i64>()?;
            let right = found.iter().zip(&classes).filter(|(a, b)| a == b).count();
            // Sums that another order would round differently.
            let spread: f32 = logits.to_vec::<f32>()?.iter().sum();
            let factor = [1.0, 1e15, -1e15][classes.iter().sum::<i64>() as usize % 3];
            Ok((right as f64 + f64::from(spread) * factor, classes.len()))
        })
    };
    let mut alone = with(net(8), 0, Arc::clone(&measured));
    alone.fit(loss).unwrap();
    let reference = bytes(&alone);
    assert_eq!(alone.metrics().len(), 2);
    for world in [1, 2, 3, 5, 8] {
        measured.lock().unwrap().clear();
        let seen = Arc::clone(&measured);
        let ends = threads::run(world, move |transport| -> Result<Vec<u8>> {
            let rank = transport.rank();
            let mut run = with(net(8), rank, Arc::clone(&seen)).ranks(transport);
            run.fit(loss)?;
            Ok(bytes(&run))
        });
        assert!(ends.unwrap().iter().all(|end| *end == reference), "{world}");
        // 8 batches an epoch, each on one rank.
        let mut seen = measured.lock().unwrap().clone();
        assert_eq!(seen.len(), 2 * 8, "{world}");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..world).collect::<Vec<_>>(), "every rank measures");
    }
}

#[test]
fn metrics_that_differ_between_ranks_are_named() {
    let result = threads::run(3, |transport| -> Result<Outcome> {
        let rank = transport.rank();
        net(4).metric(move |_| Ok(if rank == 2 { 0.5 } else { 0.25 })).ranks(transport).fit(loss)
    });
    let error = result.unwrap_err().to_string();
    assert!(error.contains("one metric, but rank 2 differs from the others"), "{error}");
}

/// Trains on `world` ranks with a ledger for each; `spoil` changes the
/// gradient of one parameter in step 2.
fn recorded(folder: &Path, world: usize, detail: Detail, spoil: bool) {
    let to = folder.to_owned();
    let ends = threads::run(world, move |transport| -> Result<()> {
        let rank = transport.rank();
        let ledger = Ledger::options(&to)
            .rank(rank as u32, world as u32)
            .detail(detail)
            .digests(Digests::Full)
            .create()?;
        // Clipping would spread a difference over all gradients.
        let run = net(4).epochs(1).clip_grad_norm(1e9, 2.0).ledger(ledger.clone());
        let mut run = run.ranks(transport);
        let count = AtomicU64::new(0);
        let own = run_share(world, rank);
        run.fit(|net, batch| {
            let step = count.fetch_add(1, Ordering::Relaxed) / own;
            let loss = loss(net, batch)?;
            if spoil && step == 2 {
                return Ok((loss + net.last.bias.as_ref().unwrap().sum_all()?)?);
            }
            Ok(loss)
        })?;
        Ok(ledger.finish()?)
    });
    ends.unwrap();
}

/// Micro-batches of a whole step of four that a rank has.
fn run_share(world: usize, rank: usize) -> u64 {
    ((rank + 1) * 4 / world - rank * 4 / world) as u64
}

#[test]
fn ledgers_of_other_numbers_of_ranks_are_equal_up_to_a_planted_difference() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for detail in [Detail::Step, Detail::Op] {
        let [one, four, three, spoilt] =
            ["one", "four", "three", "spoilt"].map(|name| path(&format!("{name}-{detail:?}")));
        recorded(&one, 1, detail, false);
        recorded(&four, 4, detail, false);
        recorded(&three, 3, detail, false);
        recorded(&spoilt, 4, detail, true);
        for (a, b) in [(&one, &four), (&four, &three), (&three, &one)] {
            let report = diff(a, b, &Default::default()).unwrap();
            assert!(report.equal, "{report}");
            // Of 4 steps: the loss, the generator, 8 parameters with gradients, 3 buffers.
            let compared = report.ranks[0].counts.compared;
            assert!(compared >= 4 * (2 + 16 + 3), "{compared}: {report}");
        }
        for whole in [&one, &three] {
            let report = diff(whole, &spoilt, &Default::default()).unwrap();
            let first = report.ranks[0].first.as_ref().unwrap();
            assert_eq!(first.a.as_ref().unwrap().step, 2, "{report}");
            let found: Vec<_> =
                first.differences.iter().map(|it| (it.part, it.what.as_str())).collect();
            assert!(found.contains(&(Part::Gradient, "gradient `last.bias`")), "{report}");
            assert!(!found.contains(&(Part::Gradient, "gradient `first.bias`")), "{report}");
        }
    }
}

/// A parameter that is used by the first micro-batch alone.
#[derive(Module)]
struct Seldom {
    seldom: Tensor,
    always: Tensor,
}

/// A gradient of -0.0 stays one beside a rank without a gradient: -0.0 - (-0.0) is 0.0.
#[test]
fn a_parameter_that_other_ranks_do_not_use_keeps_the_sign_of_a_zero() {
    let with = |world: usize| -> Vec<u32> {
        let ends = threads::run(world, |transport| -> Result<Vec<u32>> {
            let parameter = |value| Tensor::from_slice(&[value], &[1])?.set_requires_grad(true);
            let model = Seldom { seldom: parameter(-0.0f32)?, always: parameter(1.0)? };
            let loader = DataLoader::builder_with(Unseen, Stack).batch_size(12).build()?;
            let mut run = Trainer::new(model, Sgd::new(1.0)?, loader, Generator::new(0))
                .accumulate(2)
                .ranks(transport);
            run.fit(|model, (x, _)| {
                let used = model.always.mul(&Tensor::from_slice(&x.values[..1], &[1])?)?;
                // The second batch is shorter.
                Ok(match x.rows == 12 {
                    true => (used + model.seldom.mul(&Tensor::scalar(-0.0f32))?)?.sum_all()?,
                    false => used.sum_all()?,
                })
            })?;
            let values = [run.model.seldom.to_vec::<f32>()?, run.model.always.to_vec::<f32>()?];
            Ok(values.concat().iter().map(|value| value.to_bits()).collect())
        });
        ends.unwrap().swap_remove(0)
    };
    let alone = with(1);
    assert_eq!(alone[0], 0.0f32.to_bits());
    assert_eq!(with(2), alone);
}
