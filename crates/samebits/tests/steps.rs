//! Steps are atomic, and those of several optimisers resume as well as those of one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use samebits::data::{self, DataLoader, Dataset, Memory, SampleContext, Stacked};
use samebits::functional::{Reduction, binary_cross_entropy_with_logits, cross_entropy, randn};
use samebits::nn::{BatchNorm1d, Dropout, Layer, Linear, Module, ReLU, Sequential, draw_from};
use samebits::optim::{
    Adam, AdamW, CosineAnnealingLr, Descent, ExponentialLr, Kept, Mode, Optimizer,
    ReduceLrOnPlateau, RmsProp, Rule, Sgd,
};
use samebits::tensor_core::Tensor as Value;
use samebits::trainer::{Error, Loader, Nan, Outcome, Per, Result, Step, Trainer};
use samebits::{DType, Generator, Tensor, sequential};

const FEATURES: usize = 4;
/// Steps in an epoch of 31 samples: 8 batches of 4 (the last of 3), two per step.
const STEPS: u64 = 4;
const EPOCHS: u64 = 3;

/// A dataset in which the sample that a counter reaches cannot be read.
#[derive(Clone, Default)]
struct Data(Arc<AtomicUsize>);

impl Dataset for Data {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        31
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> data::Result<Self::Item> {
        let count = |left: usize| left.checked_sub(1);
        if self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count) == Ok(1) {
            return Err(data::Error::other(std::io::Error::other("the disk is gone")));
        }
        let value = |i| ((index * 7 + i * 5) % 11) as f32 / 11.0 - 0.3;
        Ok(((0..FEATURES).map(value).collect(), (index % 3) as i64))
    }
}

type Batch = (Stacked<f32>, Vec<i64>);
type Run = Trainer<'static, Sequential, AdamW, DataLoader<Data>>;

fn model() -> Sequential {
    draw_from(&mut Generator::new(1), || -> samebits::Result<Sequential> {
        let norm = BatchNorm1d::new(6)?;
        Ok(sequential![Linear::new(FEATURES, 6)?, norm, Dropout::new(0.25), Linear::new(6, 3)?])
    })
    .unwrap()
}

/// A run with batch norm's buffers, dropout's draws, a schedule's rates and several batches per
/// step: all state that an error could leave half-changed.
fn run(data: Data) -> Run {
    let loader = DataLoader::builder(data).batch_size(4).shuffle(true).seed(3).build().unwrap();
    Trainer::new(model(), AdamW::new(0.02).unwrap(), loader, Generator::new(2))
        .epochs(EPOCHS)
        .accumulate(2)
        .clip_grad_norm(0.5, 2.0)
        .schedule(Per::Step, CosineAnnealingLr::new(EPOCHS * STEPS))
}

fn tensors((x, classes): Batch) -> samebits::Result<(Tensor, Tensor)> {
    let x = Tensor::from_slice(&x.values, &[x.rows, x.columns])?;
    Ok((x, Tensor::from_slice(&classes, &[classes.len()])?))
}

fn loss(model: &Sequential, batch: Batch) -> Result<Tensor> {
    let (x, classes) = tensors(batch)?;
    Ok(cross_entropy(&model.forward(&x)?, &classes)?)
}

fn bytes<M: Module, O: samebits::optim::Optimizers, D: Loader>(
    run: &Trainer<'_, M, O, D>,
) -> Vec<u8> {
    run.state().unwrap().to_bytes().unwrap()
}

/// Weights in half precision step by their masters in f32, which are part of the saved state.
#[test]
fn a_run_of_halves_resumes_in_the_same_bits() {
    let of = |half| {
        let mut run = run(Data::default());
        run.model.to_dtype(half).unwrap();
        run
    };
    for half in [DType::BF16, DType::F16] {
        let loss = |model: &Sequential, batch: Batch| -> Result<Tensor> {
            let (x, classes) = tensors(batch)?;
            Ok(cross_entropy(&model.forward(&x.to_dtype(half)?)?, &classes)?)
        };
        let mut reference = of(half);
        assert_eq!(reference.fit(loss).unwrap(), Outcome::Finished);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.safetensors");
        for cut in [1, 5] {
            of(half).checkpoint(&path).max_steps(cut).fit(loss).unwrap();
            let mut resumed = of(half);
            resumed.resume(&path).unwrap();
            assert_eq!(resumed.fit(loss).unwrap(), Outcome::Finished);
            assert!(bytes(&resumed) == bytes(&reference), "{half}, cut after {cut} steps");
        }
        let losses = reference.losses();
        assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
        // Without the masters, the run ends in other bits.
        let mut other = of(half).max_steps(5);
        other.fit(loss).unwrap();
        let mut state = other.state().unwrap();
        let before = state.tensors.len();
        state.tensors.retain(|name, _| !name.ends_with(".master"));
        assert!(state.tensors.len() < before, "{:?}", state.tensors.keys());
        let mut other = of(half);
        other.load_state(state).unwrap();
        other.fit(loss).unwrap();
        assert!(bytes(&other) != bytes(&reference), "{half}");
    }
}

/// A fault in the loss of a batch.
type Fault = fn(&Sequential, Tensor) -> Result<Tensor>;

/// Returns the first weight of the model, whose gradient is spoilt.
fn weight(model: &Sequential) -> Tensor {
    model.named_parameters().swap_remove(0).1
}

#[test]
fn a_step_that_fails_in_the_middle_leaves_everything_as_it_was() {
    let mut reference = run(Data::default());
    assert_eq!(reference.fit(loss).unwrap(), Outcome::Finished);
    let faults: [(&str, Fault); 6] = [
        ("test: no", |_, _| Err(samebits::Error::invalid("test", "no").into())),
        ("linear: cannot multiply", |model, _| {
            Ok(model.forward(&Tensor::ones(&[2, 7], DType::F32)?)?)
        }),
        ("no memory left", |_, _| Ok(Tensor::zeros(&[1 << 50], DType::F32)?)),
        ("the loss is NaN, and 0.weight or its gradient", |_, loss| Ok((loss * f64::NAN)?)),
        ("the loss is inf", |_, loss| Ok((loss + f64::INFINITY)?)),
        // Infinite slope at 0.
        ("and 0.weight or its gradient", |model, loss| {
            Ok((loss + (weight(model) * 0.0)?.sqrt()?.sum(())?)?)
        }),
    ];
    // In the first and in the second batch of a step, in the first and in a later epoch.
    for at in [0, 1, 2 * STEPS + 6, 2 * STEPS + 7] {
        for (expected, fault) in &faults {
            let mut run = run(Data::default()).max_steps(at / 2);
            run.fit(loss).unwrap();
            let before = bytes(&run);
            let mut run = run.max_steps(EPOCHS * STEPS);
            let mut batches = 0;
            let failed = run.fit(|model, batch| {
                batches += 1;
                let value = loss(model, batch)?;
                if batches == at % 2 + 1 { fault(model, value) } else { Ok(value) }
            });
            let message = failed.unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert!(bytes(&run) == before, "{message}");
            assert_eq!(run.fit(loss).unwrap(), Outcome::Finished);
            assert!(bytes(&run) == bytes(&reference), "{message}");
        }
    }
    for sample in [1, 3, 6, 8] {
        let data = Data::default();
        let mut run = run(data.clone()).max_steps(5);
        run.fit(loss).unwrap();
        let before = bytes(&run);
        data.0.store(sample, Ordering::Relaxed);
        let mut run = run.max_steps(EPOCHS * STEPS);
        let error = run.fit(loss).unwrap_err();
        assert!(error.to_string().contains("the disk is gone"), "{error}");
        assert!(bytes(&run) == before, "sample {sample}");
        run.fit(loss).unwrap();
        assert!(bytes(&run) == bytes(&reference), "sample {sample}");
    }
}

type Points = DataLoader<Memory<(Vec<f32>, f32)>>;

/// Returns a run that fits a line through samples of one number; the third batch is NaN.
fn line<'a>(dtype: DType) -> Trainer<'a, Linear, Sgd, Points> {
    let samples = (0..8).map(|i| (vec![i as f32], if i == 4 { f32::NAN } else { 1.0 })).collect();
    let loader = DataLoader::builder(Memory::new(samples)).batch_size(2).build().unwrap();
    let mut model = Linear::options(1, 1).init_with(&mut Generator::new(4)).unwrap();
    model.to_dtype(dtype).unwrap();
    Trainer::new(model, Sgd::new(0.01).unwrap(), loader, Generator::new(5))
}

fn squares(model: &Linear, (x, y): (Stacked<f32>, Vec<f32>)) -> Result<Tensor> {
    let of =
        |values: &[f32]| Tensor::from_slice(values, &[values.len(), 1])?.to(model.weight.dtype());
    Ok((model.forward(&of(&x.values)?)? - of(&y)?)?.square()?.mean(())?)
}

#[test]
fn a_loss_that_is_no_number_stops_the_run_and_nothing_of_it_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut two = line(DType::F32).max_steps(2);
    assert_eq!(two.fit(squares).unwrap(), Outcome::MaxSteps);
    let mut stopped = line(DType::F32).checkpoint(&path).checkpoint_every(1);
    let error = stopped.fit(squares).unwrap_err();
    assert_eq!(
        error.to_string(),
        "trainer: step 3, in epoch 0: the loss is NaN, and weight or its gradient holds NaN or an \
         infinity; the run stands before this step, and `Trainer::nan(Nan::Continue)` would take it"
    );
    let Error::NotFinite { epoch: 0, step: 3, loss: Some(loss), parameter: Some(name) } = error
    else {
        panic!("{error}")
    };
    assert!(loss.is_nan() && name == "weight");
    assert!(bytes(&stopped) == bytes(&two));
    assert!(std::fs::read(&path).unwrap() == bytes(&two));

    let mut on = line(DType::F32).nan(Nan::Continue).checkpoint(&path);
    assert_eq!(on.fit(squares).unwrap(), Outcome::Finished);
    assert_eq!(
        on.losses().iter().map(|loss| loss.is_nan()).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    assert!(on.model.weight.to_vec::<f32>().unwrap()[0].is_nan());
    assert!(std::fs::read(&path).unwrap() == bytes(&on));

    // A loss of type f64 has the range of f64.
    let mut wide = line(DType::F64).max_steps(1);
    wide.fit(|model, batch| Ok((squares(model, batch)? * 1e300)?)).unwrap();
    let error = line(DType::F64).fit(squares).unwrap_err();
    assert!(matches!(error, Error::NotFinite { step: 3, .. }), "{error}");
}

/// A rule with steps of one length, whatever the gradient's: an infinite gradient does not show in
/// the parameter.
#[derive(Clone, Copy, Debug, Default)]
struct SignRule;

impl Rule for SignRule {
    const NAME: &'static str = "sign";

    fn kept(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn check(&self) -> samebits::Result<()> {
        Ok(())
    }

    fn step(&self, lr: f64, _: u64, p: &Value, g: &Value, _: &mut Kept) -> samebits::Result<Value> {
        let moved = (Tensor::from(p) - (Tensor::from(g).sign()? * lr)?)?;
        Ok(moved.value().clone())
    }
}

#[test]
fn a_gradient_that_is_not_finite_stops_the_run_whatever_becomes_of_the_parameter() {
    let Trainer { mut model, .. } = line(DType::F32);
    model.weight = model.weight.zeros_like().unwrap().set_requires_grad(true).unwrap();
    let loader = DataLoader::builder(Data::default()).batch_size(16).build().unwrap();
    let optimizer = Descent::<SignRule>::new(0.5).unwrap();
    let mut run = Trainer::new(model, optimizer, loader, Generator::new(5));
    let root = |model: &Linear, _: Batch| Ok(model.weight.sqrt()?.sum(())?);
    let error = run.fit(root).unwrap_err();
    let Error::NotFinite { step: 1, loss: Some(0.0), parameter: Some(name), .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(name, "weight");
    let mut run = run.nan(Nan::Continue).max_steps(1);
    run.fit(root).unwrap();
    assert_eq!(run.model.weight.to_vec::<f32>().unwrap(), [-0.5]);
}

/// Loss and gradients are finite, but the step overflows.
#[test]
fn a_parameter_that_overflows_stops_the_run() {
    let mut run = line(DType::F32);
    run.optimizer.set_lr(3e38);
    let before = bytes(&run);
    let error = run.fit(|model, batch| Ok((squares(model, batch)? * 100.0)?)).unwrap_err();
    let Error::NotFinite { step: 1, loss: Some(loss), parameter: Some(name), .. } = &error else {
        panic!("{error}")
    };
    assert!(loss.is_finite() && name == "weight", "{error}");
    assert!(bytes(&run) == before);
}

#[test]
fn a_metric_that_is_no_number_is_no_improvement() {
    const NAN: f64 = f64::NAN;
    for (mode, metrics, stops) in [
        (Mode::Min, &[NAN; 6][..], 3),
        (Mode::Max, &[NAN; 6], 3),
        (Mode::Min, &[NAN, NAN, 0.5, NAN, NAN, 0.1], 5),
        (Mode::Max, &[0.5, NAN, 0.6, NAN, 0.6, 0.9], 5),
        (Mode::Min, &[NAN, f64::INFINITY, NAN, NAN, 0.1, 0.1], 4),
    ] {
        let mut epoch = 0;
        let measure = |_: &Linear| {
            epoch += 1;
            Ok(metrics[epoch - 1])
        };
        let mut run =
            line(DType::F32).nan(Nan::Continue).epochs(6).metric(measure).early_stop(mode, 2);
        assert_eq!(run.fit(squares).unwrap(), Outcome::EarlyStopped, "{metrics:?}");
        assert_eq!(run.metrics().len(), stops, "{metrics:?}");
    }
    // The loss is the metric if there is no other.
    let mut run = line(DType::F32).nan(Nan::Continue).epochs(9).early_stop(Mode::Min, 2);
    assert_eq!(run.fit(squares).unwrap(), Outcome::EarlyStopped);
    assert_eq!(run.metrics().len(), 3);
}

#[test]
fn a_run_that_is_killed_goes_on_from_the_last_checkpoint_of_a_step() {
    let mut reference = run(Data::default());
    reference.fit(loss).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (every, killed, kept) in [(3, 6, 6), (3, 11, 9), (5, 11, 10), (1, 7, 7), (100, 11, 8)] {
        let path = folder.path().join(format!("{every} {killed}.safetensors"));
        let mut run = run(Data::default()).checkpoint(&path).checkpoint_every(every);
        let mut batches = 0;
        // By an error, after which nothing is saved.
        run.fit(|model, batch| {
            batches += 1;
            if batches > 2 * killed {
                return Err(samebits::Error::invalid("test", "killed").into());
            }
            loss(model, batch)
        })
        .unwrap_err();
        assert_eq!(run.losses().len(), killed);
        let mut resumed = self::run(Data::default()).checkpoint(&path).checkpoint_every(every);
        resumed.resume(&path).unwrap();
        assert_eq!(resumed.losses().len(), kept, "every {every} steps");
        assert_eq!(resumed.fit(loss).unwrap(), Outcome::Finished);
        assert!(bytes(&resumed) == bytes(&reference), "every {every} steps, killed after {killed}");
        assert!(std::fs::read(&path).unwrap() == bytes(&reference));
    }
    let error = run(Data::default()).checkpoint_every(2).fit(loss).unwrap_err();
    assert_eq!(error.to_string(), "trainer: `checkpoint_every` needs the path of `checkpoint`");
    let error = run(Data::default()).checkpoint_every(0).fit(loss).unwrap_err();
    assert_eq!(error.to_string(), "trainer: a checkpoint every 0 steps");
}

#[derive(Module)]
struct Gan {
    generator: Sequential,
    critic: Sequential,
}

type GanRun<'a> = Trainer<'a, Gan, (RmsProp, Adam), DataLoader<Data>>;

fn gan<'a>() -> GanRun<'a> {
    let make = || -> samebits::Result<Gan> {
        let norm = BatchNorm1d::new(5)?;
        let hidden = Linear::new(FEATURES, 5)?;
        let dropout = Dropout::new(0.3);
        Ok(Gan {
            generator: sequential![Linear::new(2, 5)?, norm, ReLU, Linear::new(5, FEATURES)?],
            critic: sequential![hidden, ReLU, dropout, Linear::new(5, 1)?],
        })
    };
    let model = draw_from(&mut Generator::new(6), make).unwrap();
    let optimizers = (RmsProp::new(0.01).unwrap(), Adam::new(0.02).unwrap());
    let loader = DataLoader::builder(Data::default()).batch_size(4).shuffle(true).build().unwrap();
    Trainer::new(model, optimizers, loader, Generator::new(7))
        .epochs(EPOCHS)
        .schedule(Per::Epoch, ExponentialLr::new(0.5))
}

/// Trains the critic in every step, the generator in every second.
fn turns(
    model: &mut Gan,
    (of_generator, of_critic): &mut (RmsProp, Adam),
    batch: Batch,
) -> Result<(Tensor, Tensor)> {
    let real = tensors(batch)?.0;
    let rows = real.shape()[0];
    let judged = |critic: &Sequential, x: &Tensor, truth: f64| {
        let truth = Tensor::full(&[rows, 1], truth, DType::F32)?;
        let mean = Reduction::Mean;
        binary_cross_entropy_with_logits(&critic.forward(x)?, &truth, None, None, mean)
    };
    let fake = model.generator.forward(&randn(&[rows, 2])?)?;
    let critics = judged(&model.critic, &real, 1.0)?;
    let critics = (critics + judged(&model.critic, &fake.detach(), 0.0)?)?;
    of_critic.step(&mut model.critic, &critics.backward()?)?;
    let generators = judged(&model.critic, &fake, 1.0)?;
    if of_critic.steps() % 2 == 0 {
        of_generator.step(&mut model.generator, &generators.backward()?)?;
    }
    Ok((generators, critics))
}

#[test]
fn two_optimisers_in_turns_resume_in_the_same_bits() {
    let tell = |step: &Step| {
        let sum = step.losses[0] + step.losses[1];
        assert_eq!((step.losses.len(), step.loss), (2, sum as f32));
    };
    let mut whole = gan().on_step(tell);
    assert_eq!(whole.fit_steps(turns).unwrap(), Outcome::Finished);
    assert_eq!(whole.losses().len(), 2 * (STEPS * EPOCHS) as usize);
    assert_eq!((whole.optimizer.0.steps(), whole.optimizer.1.steps()), (12, 24));
    assert_eq!((whole.optimizer.0.lr(), whole.optimizer.1.lr()), (0.01 * 0.25, 0.02 * 0.25));
    assert_ne!(whole.losses()[0], whole.losses()[23]);
    let reference = bytes(&whole);
    let part = |path: &Path, steps: u64| {
        let mut run = gan().max_steps(steps).checkpoint(path);
        if path.exists() {
            run.resume(path).unwrap();
        }
        run.fit_steps(turns).unwrap();
        bytes(&run)
    };
    let every: Vec<u64> = (1..24).collect();
    for cuts in [&[3][..], &[8], &[5, 13, 16], &every] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.safetensors");
        cuts.iter().for_each(|&cut| drop(part(&path, cut)));
        assert!(part(&path, 24) == reference, "cut after {cuts:?} steps");
    }
    // Each optimiser's state is its own, and none is skipped.
    let state = || whole.state().unwrap();
    let without = |name: &str| {
        let mut state = state();
        assert!(state.tensors.remove(name).is_some(), "{name} of {:?}", state.tensors.keys());
        gan().load_state(state).unwrap_err().to_string()
    };
    assert_eq!(without("optimizer.0.steps"), "rmsprop: there is no tensor steps");
    assert_eq!(without("optimizer.1.0.weight.mean"), "adam: there is no tensor 0.weight.mean");
    let mut more = state();
    more.tensors.insert("optimizer.2.steps".to_owned(), Tensor::scalar(1i64));
    let mut run = gan();
    let before = bytes(&run);
    let error = run.load_state(more).unwrap_err().to_string();
    let expected = "the checkpoint holds optimizer.2.steps, for which this run has no place";
    assert_eq!(error, format!("trainer: {expected}"));
    assert!(bytes(&run) == before);
}

#[test]
fn a_step_of_ones_own_is_undone_whole() {
    let mut whole = gan();
    whole.fit_steps(turns).unwrap();
    let faults: [(&str, Fault); 2] = [
        ("test: no", |_, _| Err(samebits::Error::invalid("test", "no").into())),
        ("the loss is NaN", |_, loss| Ok((loss * f64::NAN)?)),
    ];
    for (expected, fault) in faults {
        let mut run = gan().max_steps(9);
        run.fit_steps(turns).unwrap();
        let before = bytes(&run);
        let mut run = run.max_steps(100);
        let error = run.fit_steps(|model, optimizers, batch| {
            // After both optimisers have taken their steps.
            let (generators, critics) = turns(model, optimizers, batch)?;
            Ok((fault(&model.generator, generators)?, critics))
        });
        let message = error.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(bytes(&run) == before, "{message}");
        run.fit_steps(turns).unwrap();
        assert!(bytes(&run) == bytes(&whole), "{message}");
    }
    // Parameters are checked even if the losses do not show the fault.
    let mut run = gan();
    let before = bytes(&run);
    let error = run.fit_steps(|model, (of_generator, _), _| {
        let sum = model.generator.named_parameters()[0].1.sum(())?;
        of_generator.step(&mut model.generator, &(sum * f64::NAN)?.backward()?)?;
        Ok(Tensor::scalar(1.0f32))
    });
    let error = error.unwrap_err();
    let Error::NotFinite { step: 1, parameter: Some(name), .. } = &error else { panic!("{error}") };
    assert_eq!(name, "generator.0.weight");
    assert!(bytes(&run) == before);
    let error = gan().accumulate(2).fit_steps(turns).unwrap_err();
    let start = "trainer: `accumulate`, `clip_grad_norm` and `grad_scaler` are of `fit`";
    assert!(error.to_string().starts_with(start), "{error}");
}

#[test]
fn a_plateau_lowers_the_rates_of_all_optimisers_by_one_metric() {
    let loader = DataLoader::builder(Data::default()).batch_size(16).build().unwrap();
    let optimizers = vec![Sgd::new(0.1).unwrap(), Sgd::new(0.2).unwrap()];
    let mut run = Trainer::new(model(), optimizers, loader, Generator::new(2))
        .epochs(4)
        .plateau(ReduceLrOnPlateau::new().patience(1))
        .metric(|_| Ok(1.0));
    run.fit_steps(|model, _, batch| loss(model, batch)).unwrap();
    let rates: Vec<f64> = run.optimizer.iter().map(Optimizer::lr).collect();
    assert_eq!(rates, [0.1 * 0.1, 0.2 * 0.1]);
}
