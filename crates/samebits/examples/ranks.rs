//! One training on any number of ranks: the digest is the same, and so is the checkpoint.
//!
//! ```text
//! cargo run --package samebits --example ranks                    one process
//! cargo run --package samebits --example ranks -- 3               three threads
//! cargo build --package samebits --example ranks --features mpi   then, four processes:
//! mpirun -n 4 target/debug/examples/ranks
//! ```
//!
//! `ranks.sh` and `ranks.slurm` beside this file start it on several machines.

// An example shows what happens by printing it.
#![allow(clippy::print_stdout)]

use samebits::data::{DataLoader, Dataset, SampleContext};
use samebits::distributed::{self, Ranks, threads};
use samebits::functional::{argmax, cross_entropy};
use samebits::nn::{
    BatchNorm1d, Dropout, Layer, Linear, Module, TransformerEncoderLayer, draw_from,
};
use samebits::optim::{AdamW, CosineAnnealingLr};
use samebits::trainer::{Error, Per, Result, StackTensors, Trainer};
use samebits::{Generator, Tensor, digest};

/// Micro-batches in a step, and so the most ranks.
const MICRO_BATCHES: u64 = 8;
const LENGTH: usize = 4;
const WIDTH: usize = 8;

/// Sequences whose class is where they are largest, augmented by noise.
struct Sequences(usize);

impl Dataset for Sequences {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        self.0
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let largest = index % LENGTH;
        let mut value = |i: usize| {
            let noise = cx.rng().next_block()[0] as f32 / u32::MAX as f32;
            noise + if i / WIDTH == largest { 0.5 } else { 0.0 }
        };
        Ok(((0..LENGTH * WIDTH).map(&mut value).collect(), largest as i64))
    }
}

#[derive(Module)]
struct Net {
    encoder: TransformerEncoderLayer,
    norm: BatchNorm1d,
    dropout: Dropout,
    last: Linear,
}

impl Net {
    fn new() -> samebits::Result<Net> {
        Ok(Net {
            encoder: TransformerEncoderLayer::new(WIDTH, 2)?,
            norm: BatchNorm1d::new(LENGTH * WIDTH)?,
            dropout: Dropout::new(0.1),
            last: Linear::new(LENGTH * WIDTH, LENGTH)?,
        })
    }
}

impl Layer for Net {
    fn forward(&self, x: &Tensor) -> samebits::Result<Tensor> {
        let rows = x.shape()[0];
        let x = self.encoder.forward(&x.reshape([rows, LENGTH, WIDTH])?)?;
        let x = self.norm.forward(&x.reshape([rows, LENGTH * WIDTH])?)?;
        self.last.forward(&self.dropout.forward(&x)?)
    }
}

/// Trains, on one of several ranks if they are given.
fn train(ranks: Option<Ranks>) -> Result<()> {
    let is_first = ranks.as_ref().is_none_or(|ranks| ranks.rank() == 0);
    let of =
        ranks.as_ref().map_or("one process".to_owned(), |ranks| format!("{} ranks", ranks.world()));
    let loader = |samples| {
        let options = DataLoader::builder_with(Sequences(samples), StackTensors);
        options.batch_size(4).shuffle(true).seed(0).build()
    };
    let root = Generator::new(0);
    let model = draw_from(&mut root.fold_in(0), Net::new)?;
    let mut run = Trainer::new(model, AdamW::new(3e-3)?, loader(256)?, root.fold_in(1))
        .run("sequences, seed 0")
        .epochs(4)
        .accumulate(MICRO_BATCHES)
        .clip_grad_norm(1.0, 2.0)
        .schedule(Per::Step, CosineAnnealingLr::new(32))
        .metric_over(loader(64)?, |model, (x, classes)| {
            let found = argmax(&model.forward(&x)?, Some(1), false)?.to_vec::<i64>()?;
            let right = found.iter().zip(classes.to_vec::<i64>()?).filter(|(a, b)| *a == b);
            Ok((right.count() as f64, found.len()))
        });
    if let Some(ranks) = ranks {
        run = run.ranks(ranks);
    }
    run.fit(|model, (x, classes)| Ok(cross_entropy(&model.forward(&x)?, &classes)?))?;
    if is_first {
        println!("{of}: accuracy by epoch {:?}", run.metrics());
        println!("{}", digest(run.model.state_dict())?);
    }
    Ok(())
}

fn main() -> Result<()> {
    if distributed::launched().is_some() {
        #[cfg(feature = "mpi")]
        return distributed::Mpi::run(|transport| train(Some(transport.into())));
        #[cfg(not(feature = "mpi"))]
        return Err(Error::Invalid("built without the feature `mpi`".to_owned()));
    }
    match std::env::args().nth(1).map(|world| world.parse()) {
        None => train(None),
        Some(Ok(world)) => {
            threads::run(world, |transport| train(Some(transport.into()))).map(|_| ())
        }
        Some(Err(_)) => Err(Error::Invalid("usage: ranks [THREADS]".to_owned())),
    }
}
