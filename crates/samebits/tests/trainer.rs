//! A run that is interrupted and resumed ends in the bits of one that is not.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use samebits::data::{DataLoader, Dataset, SampleContext, Stacked};
use samebits::functional::cross_entropy;
use samebits::io::Checkpoint;
use samebits::nn::{Dropout, Layer, Linear, Module};
use samebits::optim::{AdamW, CosineAnnealingLr, Mode, Optimizer, ReduceLrOnPlateau};
use samebits::trainer::{Error, Outcome, Per, Result, Step, Trainer, TrainerState};
use samebits::{Generator, Tensor};

const FEATURES: usize = 6;
const BATCH: usize = 4;
/// Steps in an epoch; the last has fewer batches.
const STEPS: u64 = 6;
const EPOCHS: u64 = 3;

/// 43 samples with noise of their own: 11 batches, the last of 3.
struct Data;

impl Dataset for Data {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        43
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let noise = cx.rng().next_block()[0] as f32 / u32::MAX as f32;
        let value = |i| ((index * 7 + i * 5) % 11) as f32 / 11.0 + 0.1 * noise;
        Ok(((0..FEATURES).map(value).collect(), (index % 3) as i64))
    }
}

type Run<'a> = Trainer<'a, Linear, AdamW, DataLoader<Data>>;

/// A run with a bit of everything.
fn run<'a>(workers: usize) -> Run<'a> {
    let root = Generator::new(5);
    let loader = DataLoader::builder(Data).batch_size(BATCH).shuffle(true).seed(9);
    Trainer::new(
        model(&mut root.fold_in(0)),
        AdamW::options(0.05)
            .group(|name, _| name == "bias", |options| options.weight_decay(0.0))
            .init()
            .unwrap(),
        loader.workers(workers).build().unwrap(),
        root.fold_in(1),
    )
    .run("seed 5")
    .epochs(EPOCHS)
    .accumulate(2)
    .clip_grad_norm(0.5, 2.0)
    .schedule(Per::Step, CosineAnnealingLr::new(EPOCHS * STEPS))
}

fn loss(model: &Linear, (x, classes): (Stacked<f32>, Vec<i64>)) -> Result<Tensor> {
    let x = Tensor::from_slice(&x.values, &[x.rows, x.columns])?;
    let classes = Tensor::from_slice(&classes, &[classes.len()])?;
    Ok(cross_entropy(&model.forward(&Dropout::new(0.25).forward(&x)?)?, &classes)?)
}

fn model(generator: &mut Generator) -> Linear {
    Linear::options(FEATURES, 3).init_with(generator).unwrap()
}

/// Everything that a run leaves.
fn bytes(run: &Run<'_>) -> Vec<u8> {
    run.state().unwrap().to_bytes().unwrap()
}

fn whole() -> Vec<u8> {
    let mut run = run(0);
    assert_eq!(run.fit(loss).unwrap(), Outcome::Finished);
    assert_eq!((run.losses().len() as u64, run.metrics().len() as u64), (EPOCHS * STEPS, EPOCHS));
    assert!(run.metrics()[2] < run.metrics()[0], "{:?}", run.metrics());
    bytes(&run)
}

/// The run until it has taken `steps` steps, from `path` if it is there, saved to `path`.
fn until(path: &Path, steps: u64, workers: usize) -> Vec<u8> {
    let mut run = run(workers).max_steps(steps).checkpoint(path);
    if path.exists() {
        run.resume(path).unwrap();
    }
    run.fit(loss).unwrap();
    assert_eq!(run.losses().len() as u64, steps);
    bytes(&run)
}

#[test]
fn a_run_repeats_and_resumes_in_the_same_bits() {
    let reference = whole();
    assert!(whole() == reference, "repeated");
    // Within an epoch, twice in one epoch, at its end, and after every step.
    let every: Vec<u64> = (1..EPOCHS * STEPS).collect();
    for cuts in [&[2][..], &[8, 10], &[STEPS], &[STEPS, 2 * STEPS], &every] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.safetensors");
        for (workers, &cut) in cuts.iter().enumerate() {
            until(&path, cut, workers % 3);
        }
        // A state tells how many workers there were: in the end as many as in the reference.
        let resumed = until(&path, EPOCHS * STEPS, 0);
        assert!(resumed == reference, "cut after {cuts:?} steps");
        assert!(std::fs::read(&path).unwrap() == reference, "the file, cut after {cuts:?} steps");
    }
}

/// The negative control: whatever is left out of a state shows.
#[test]
fn a_resume_without_any_part_of_the_state_ends_in_other_bits() {
    let reference = whole();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    until(&path, 8, 0);
    let other = |change: &dyn Fn(Checkpoint<TrainerState>) -> Option<Vec<u8>>| {
        change(Checkpoint::load(&path).unwrap()).unwrap()
    };
    let finish = |mut run: Run<'_>| {
        run.fit(loss).ok()?;
        Some(bytes(&run))
    };
    let resumed = other(&|state| {
        let mut run = run(0);
        run.load_state(state).unwrap();
        finish(run)
    });
    assert!(resumed == reference);
    // Each part from a fresh run, put into the state as JSON or under the tensors' names.
    for part in ["generator", "loader", "model.", "optimizer.weight.mean", "optimizer.weight.step"]
    {
        let broken = other(&|saved| {
            let fresh = run(0).state().unwrap();
            let mut early = run(0).max_steps(1);
            early.fit(loss).unwrap();
            let early = early.state().unwrap();
            let mut state = serde_json::to_value(&saved.state).unwrap();
            let mut tensors = saved.tensors;
            if part == "generator" {
                // It does not advance: use that of another run.
                state[part] = serde_json::to_value(Generator::new(6)).unwrap();
            } else if let Some(place) = state.get_mut(part) {
                *place = serde_json::to_value(&early.state).unwrap()[part].clone();
            }
            for (name, tensor) in &mut tensors {
                if name.starts_with(part) {
                    let from = if part == "model." { &fresh } else { &early };
                    *tensor = from.tensors[name].clone();
                }
            }
            let mut run = run(0);
            let state = serde_json::from_value(state).unwrap();
            run.load_state(Checkpoint { state, tensors }).unwrap();
            finish(run)
        });
        assert!(broken != reference, "{part}");
    }
}

#[test]
fn a_flag_interrupts_after_the_step_and_the_rest_follows() {
    let flag = Arc::new(AtomicBool::new(false));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut seen = Vec::new();
    let tell = |step: &Step| {
        seen.push((step.epoch, step.steps, step.norm.is_some()));
        flag.store(step.steps == 7, Ordering::Relaxed);
    };
    let mut first = run(0).checkpoint(&path).stop_flag(flag.clone()).on_step(tell);
    assert_eq!(first.fit(loss).unwrap(), Outcome::Interrupted);
    drop(first);
    assert_eq!(seen[5..], [(0, 6, true), (1, 7, true)]);
    assert!(until(&path, EPOCHS * STEPS, 0) == whole());
}

#[test]
fn a_failing_batch_leaves_the_run_at_the_last_step() {
    let mut run = run(0);
    let mut batches = 0;
    let error = run
        .fit(|model, batch| {
            batches += 1;
            if batches == 6 {
                return Err(samebits::Error::invalid("test", "the sixth batch").into());
            }
            loss(model, batch)
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "test: the sixth batch");
    assert_eq!(run.losses().len(), 2);
    run.fit(loss).unwrap();
    assert!(bytes(&run) == whole());
}

#[test]
fn training_stops_early_and_the_plateau_is_saved() {
    let metric = |epoch: &mut u64| {
        *epoch += 1;
        [0.5, 0.25, f64::NAN, 0.25, 0.3, 0.1][*epoch as usize - 1]
    };
    let stopped = |cut: Option<u64>| {
        let (mut epoch, folder) = (0, tempfile::tempdir().unwrap());
        let path = folder.path().join("run.safetensors");
        loop {
            let (resumed, started) = (path.exists(), epoch);
            let mut run = Trainer::new(
                model(&mut Generator::new(1)),
                AdamW::new(0.05).unwrap(),
                DataLoader::builder(Data).batch_size(BATCH).build().unwrap(),
                Generator::new(2),
            )
            .epochs(20)
            .plateau(ReduceLrOnPlateau::new().patience(1))
            .early_stop(Mode::Min, 3)
            .metric(|_| Ok(metric(&mut epoch)))
            .checkpoint(&path);
            if let (Some(cut), 0) = (cut, started) {
                run = run.max_steps(cut);
            }
            if resumed {
                run.resume(&path).unwrap();
            }
            if run.fit(loss).unwrap() == Outcome::EarlyStopped {
                assert_eq!(run.metrics().len(), 5);
                assert_eq!(run.optimizer.lr(), 0.05 * 0.1);
                return run.state().unwrap().to_bytes().unwrap();
            }
        }
    };
    let whole = stopped(None);
    assert!(stopped(Some(25)) == whole);
}

#[test]
fn what_cannot_go_on_is_refused() {
    let mut saved = run(0).max_steps(1);
    saved.fit(loss).unwrap();
    let state = saved.state().unwrap();
    let error = run(0).run("seed 6").load_state(state).unwrap_err();
    assert_eq!(
        error.to_string(),
        "trainer: the checkpoint is of the run seed 5, this is the run seed 6"
    );
    assert!(matches!(error, Error::OtherRun { .. }));
    let error = run(0).accumulate(0).fit(loss).unwrap_err();
    assert_eq!(error.to_string(), "trainer: a step needs at least 1 batch, got 0");
    let error = run(0).plateau(ReduceLrOnPlateau::new()).fit(loss).unwrap_err();
    assert!(error.to_string().contains("cannot both set the learning rates"), "{error}");
    let loader = DataLoader::builder(Data).batch_size(64).drop_last(true).build().unwrap();
    let model = model(&mut Generator::new(1));
    let mut none = Trainer::new(model, AdamW::new(0.1).unwrap(), loader, Generator::new(0));
    let error = none.fit(loss).unwrap_err();
    assert!(error.to_string().starts_with("trainer: epoch 0 has no batch"), "{error}");
    assert_eq!(none.model.state_dict().len(), 2);
}
