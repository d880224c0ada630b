//! Snapshots of seeded trainings, and of reports and messages that a program prints.

use samebits::cuda::vendor::WorkspaceConfig;
use samebits::data::{DataLoader, Dataset, SampleContext, Stacked};
use samebits::functional::cross_entropy;
use samebits::io::Checkpoint;
use samebits::nn::{BatchNorm2d, Conv2d, Dropout, Flatten, Layer, Linear, Module, ReLU};
use samebits::optim::{Adam, AdamW, CosineAnnealingLr, Optimizer, Sgd};
use samebits::trainer::{Per, Trainer};
use samebits::{
    Configuration, DType, Determinism, Device, Generator, Lockstep, Tensor, digest, lockstep,
    manual_seed, sequential,
};
use test_support::listing::Listing;

/// Samples of three classes, each with noise of its own.
struct Data;

impl Dataset for Data {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        96
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let class = index % 3;
        let noise = cx.rng().normal(0.0f32, 0.1)?;
        let value = |i: usize| ((class * 7 + i * 5) % 11) as f32 / 11.0 + noise;
        Ok(((0..36).map(value).collect(), class as i64))
    }
}

type Model = samebits::nn::Sequential;

/// Adds the losses of a training with 3 epochs of 6 steps, and the digest of its weights.
fn training(
    listing: &mut Listing,
    title: &str,
    shape: &[usize],
    model: Model,
    optimizer: impl Optimizer,
) {
    let loader = DataLoader::builder(Data).batch_size(16).shuffle(true).seed(42).workers(2);
    let loader = loader.build().unwrap();
    let mut trainer = Trainer::new(model, optimizer, loader, Generator::new(42));
    trainer = trainer.epochs(3).schedule(Per::Step, CosineAnnealingLr::new(18)).quiet();
    let loss = |model: &Model, (x, classes): (Stacked<f32>, Vec<i64>)| {
        let shape = [&[x.rows], shape].concat();
        let x = Tensor::from_slice(&x.values, &shape)?;
        let classes = Tensor::from_slice(&classes, &[classes.len()])?;
        Ok(cross_entropy(&model.forward(&x)?, &classes)?)
    };
    trainer.fit(loss).unwrap();
    listing.values(&format!("{title}: losses"), trainer.losses());
    listing.values(&format!("{title}: mean losses of epochs"), trainer.metrics());
    for (name, weight) in trainer.model.state_dict() {
        if weight.dtype() == DType::F32 {
            listing.values(&format!("{title}: {name}"), &weight.to_vec::<f32>().unwrap());
        }
    }
    let weights = digest(trainer.model.state_dict()).unwrap();
    listing.text(&format!("{title}: digest of the state"), weights);
}

#[test]
fn trainings() {
    let mut listing = Listing::default();
    manual_seed(42);
    let perceptron = || -> samebits::Result<Model> {
        Ok(sequential![Linear::new(36, 16)?, ReLU, Dropout::new(0.25), Linear::new(16, 3)?])
    };
    let adam = AdamW::new(0.01).unwrap();
    training(&mut listing, "perceptron, AdamW", &[36], perceptron().unwrap(), adam);
    manual_seed(42);
    let convolutions = || -> samebits::Result<Model> {
        Ok(sequential![
            Conv2d::new(1, 4, 3)?,
            BatchNorm2d::new(4)?,
            ReLU,
            Flatten::default(),
            Linear::new(64, 3)?
        ])
    };
    let sgd = Sgd::options(0.05).momentum(0.9).init().unwrap();
    training(&mut listing, "convolutions, SGD", &[1, 6, 6], convolutions().unwrap(), sgd);
    insta::assert_snapshot!("trainings", listing);
}

#[test]
fn report_of_the_environment() {
    let mut listing = Listing::default();
    let mut report = samebits::environment();
    // All that belongs to this machine or to the features of this build.
    report.version = "0.0.0";
    report.numerics_version = 1;
    report.level = Determinism::Portable;
    report.rerun = 1;
    report.threads = 4;
    report.simd = ("avx2", "avx512");
    report.ieee = true;
    report.cuda = Err("no driver".to_owned());
    report.libraries = Vec::new();
    report.autotuner = "cpu: off".to_owned();
    report.transports = "threads".to_owned();
    report.cublas_workspace_config = WorkspaceConfig::Repeats(":4096:8".to_owned());
    listing.text("without a GPU", &report);
    report.cuda = Ok(Vec::new());
    listing.text("with a driver alone", &report);
    report.level = Determinism::RunToRun;
    report.rerun = 2;
    report.ieee = false;
    let device = |n| (Device::Cuda(n), format!("device number {n}"));
    report.cuda = Ok(vec![device(0), device(1)]);
    report.libraries = vec![("cuDNN", "found".to_owned())];
    listing.text("with two GPUs, at another level, flushed", &report);
    insta::assert_snapshot!("environment", listing);
}

#[test]
fn messages_of_misuse() {
    let mut listing = Listing::default();
    listing.error("a checkpoint of no bytes", Checkpoint::<u32>::from_bytes(b""));
    listing.error("a negative rate", Adam::new(-1.0));
    let loader = || DataLoader::builder(Data).batch_size(16).seed(42);
    manual_seed(42);
    let model = || -> Linear { Linear::new(36, 3).unwrap() };
    let none = loader().sampler(samebits::data::WithReplacement::new(0)).build().unwrap();
    let mut trainer =
        Trainer::new(model(), Sgd::new(0.1).unwrap(), none, Generator::new(42)).quiet();
    let outcome = trainer.fit(|_, _: (Stacked<f32>, Vec<i64>)| Ok(Tensor::scalar(0.0f32)));
    listing.error("an epoch without batches", outcome);
    let all = loader().build().unwrap();
    let mut trainer =
        Trainer::new(model(), Sgd::new(0.1).unwrap(), all, Generator::new(42)).quiet();
    let outcome = trainer.fit(|model, (x, _): (Stacked<f32>, Vec<i64>)| {
        let x = Tensor::from_slice(&x.values, &[x.rows, x.columns])?;
        Ok(model.forward(&x)?)
    });
    listing.error("a loss of many elements", outcome);
    let all = loader().build().unwrap();
    let mut trainer =
        Trainer::new(model(), Sgd::new(0.1).unwrap(), all, Generator::new(42)).quiet();
    let outcome = trainer.fit(|model, (x, _): (Stacked<f32>, Vec<i64>)| {
        let x = Tensor::from_slice(&x.values, &[x.rows, x.columns])?;
        Ok(model.forward(&x)?.sum(..)?.mul(&Tensor::scalar(f32::NAN))?)
    });
    listing.error("a loss that is not a number", outcome);
    insta::assert_snapshot!("errors", listing);
}

#[test]
fn report_of_the_first_difference() {
    let one = Configuration::new(Device::Cpu).threads(1);
    let two = Configuration::new(Device::Cpu).threads(2);
    let outcome = lockstep([one, two], |_| {
        manual_seed(42);
        let weight = samebits::randn(&[4, 4])?;
        let scale = f64::from(rayon_threads()).mul_add(0.5, 1.0);
        weight.matmul(&weight)?.mul(&Tensor::scalar(scale as f32))
    });
    let Ok(Lockstep::Parted(parting)) = outcome else { panic!("{outcome:?}") };
    // The line of a call moves with the text above it.
    let report = parting.to_string();
    let number = |c: char| c == ':' || c.is_ascii_digit();
    let parts: Vec<&str> =
        report.split(file!()).map(|part| part.trim_start_matches(number)).collect();
    let mut listing = Listing::default();
    listing.text("lockstep of programs with another factor", parts.join("SITE"));
    insta::assert_snapshot!("first_difference", listing);
}

#[allow(clippy::disallowed_methods, reason = "the planted fault")]
fn rayon_threads() -> u32 {
    rayon::current_num_threads() as u32
}
