//! What recording costs: the training steps of `docs/ledger.md` by turns without a ledger, with the
//! ends of steps, and with every operation, by sampled and by full digests. Prints the least time of
//! all turns, and ratios.
//!
//! `cargo bench -p samebits --bench ledger [FILTER]`

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use samebits::functional::{cross_entropy, relu};
use samebits::ledger::{Detail, Digests, Ledger};
use samebits::nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Embedding, Flatten, LSTM, Layer, Linear, Module, ReLU,
    Sequential, TransformerEncoderLayer, train,
};
use samebits::optim::{Adam, Optimizer, Sgd};
use samebits::{Tensor, manual_seed, randint, randn, sequential};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Forward<M> = Box<dyn Fn(&M) -> samebits::Result<Tensor>>;

/// A model, its optimiser and the loss of its one batch.
struct Case<M, O> {
    model: M,
    optimizer: O,
    loss: Forward<M>,
}

impl<M: Module, O: Optimizer> Case<M, O> {
    /// Takes `n` steps, and returns the seconds of the wall and of all processors.
    fn steps(&mut self, n: usize, ledger: Option<&Ledger>) -> Result<[f64; 2]> {
        let (start, spent) = (Instant::now(), processor_time()?);
        if let Some(ledger) = ledger {
            ledger.watch(&self.model);
        }
        for _ in 0..n {
            let mut step = || -> samebits::Result<_> {
                let loss = train(|| (self.loss)(&self.model))?;
                let gradients = loss.backward()?;
                self.optimizer.step(&mut self.model, &gradients)?;
                Ok((loss, gradients))
            };
            match ledger {
                None => drop(step()?),
                Some(ledger) => {
                    let (loss, gradients) = ledger.record(step)?;
                    ledger.step(Some(&loss), &self.model, &gradients, None)?;
                }
            }
        }
        ledger.map_or(Ok(()), Ledger::finish)?;
        Ok([start.elapsed().as_secs_f64(), processor_time()? - spent])
    }

    fn measure(&mut self, name: &str, n: usize) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let (sampled, full) = (Digests::Sampled, Digests::Full);
        let ways = [
            None,
            Some((Detail::Step, sampled)),
            Some((Detail::Op, sampled)),
            Some((Detail::Step, full)),
            Some((Detail::Op, full)),
        ];
        let mut least = [[f64::MAX; 2]; 5];
        let mut bytes = 0;
        for turn in 0..8 {
            for (way, least) in ways.iter().zip(&mut least) {
                let path = folder.path().join("run.jsonl");
                let create = |&(detail, digests)| {
                    Ledger::options(&path).detail(detail).digests(digests).create()
                };
                let ledger = way.as_ref().map(create).transpose()?;
                let taken = self.steps(n, ledger.as_ref())?;
                if ledger.is_some() {
                    bytes = std::fs::metadata(&path)?.len();
                    std::fs::remove_file(&path)?;
                }
                // The first turn warms up.
                if turn > 0 {
                    *least = [least[0].min(taken[0]), least[1].min(taken[1])];
                }
            }
        }
        let none = least[0];
        print!("{name:<12} {:8.2} ms a step", 1e3 * none[0] / n as f64);
        for (clock, place) in [("wall", 0), ("processors", 1)] {
            let [step, op, step_full, op_full] =
                std::array::from_fn(|way| least[way + 1][place] / none[place]);
            print!(
                "; {clock}: step {step:.3}, op {op:.3}, full: step {step_full:.3}, op {op_full:.3}"
            );
        }
        println!("; op writes {} bytes a step", bytes / n as u64);
        Ok(())
    }
}

/// The seconds that processors have spent on this process, to a hundredth; Linux alone tells.
fn processor_time() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> =
        fields.skip(11).take(2).map(str::parse).collect::<std::result::Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

#[derive(Module)]
struct Transformer {
    tokens: Embedding,
    layers: Vec<TransformerEncoderLayer>,
    head: Linear,
}

fn mlp() -> Result<Case<Sequential, Sgd>> {
    let model = sequential![
        Linear::new(784, 512)?,
        ReLU,
        Linear::new(512, 512)?,
        ReLU,
        Linear::new(512, 10)?
    ];
    let (x, y) = (randn(&[256, 784])?, randint(0, 10, &[256])?);
    let optimizer = Sgd::options(0.01).momentum(0.9).init()?;
    Ok(Case {
        model,
        optimizer,
        loss: Box::new(move |model| cross_entropy(&model.forward(&x)?, &y)),
    })
}

fn cnn() -> Result<Case<Sequential, Sgd>> {
    let mut model = Sequential::new();
    for i in 0..5 {
        let channels = if i == 0 { 3 } else { 64 };
        model = model
            .append(Conv2d::options(channels, 64, 3).padding(1).init()?)
            .append(BatchNorm2d::new(64)?)
            .append(ReLU);
    }
    let model = model
        .append(AdaptiveAvgPool2d::new(1))
        .append(Flatten::default())
        .append(Linear::new(64, 10)?);
    let (x, y) = (randn(&[16, 3, 32, 32])?, randint(0, 10, &[16])?);
    let optimizer = Sgd::options(0.01).momentum(0.9).init()?;
    Ok(Case {
        model,
        optimizer,
        loss: Box::new(move |model| cross_entropy(&model.forward(&x)?, &y)),
    })
}

fn transformer() -> Result<Case<Transformer, Adam>> {
    let layer = TransformerEncoderLayer::options(256, 4).dim_feedforward(1024).batch_first(true);
    let model = Transformer {
        tokens: Embedding::new(1000, 256)?,
        layers: vec![layer.init()?, layer.init()?],
        head: Linear::new(256, 1000)?,
    };
    let (x, y) = (randint(0, 1000, &[8, 128])?, randint(0, 1000, &[8 * 128])?);
    let loss: Forward<Transformer> = Box::new(move |model| {
        let x = model.tokens.forward(&x)?;
        let x = model.layers.iter().try_fold(x, |x, layer| layer.forward(&x))?;
        cross_entropy(&model.head.forward(&x)?.reshape([-1, 1000])?, &y)
    });
    Ok(Case { model, optimizer: Adam::new(1e-3)?, loss })
}

fn lstm() -> Result<Case<LSTM, Sgd>> {
    let x = randn(&[64, 32, 256])?;
    let loss: Forward<LSTM> = Box::new(move |model| relu(&model.forward(&x, None)?.0)?.mean(..));
    Ok(Case { model: LSTM::new(256, 256)?, optimizer: Sgd::new(0.01)?, loss })
}

/// Costs by the call alone.
fn small() -> Result<Case<Sequential, Sgd>> {
    let model = sequential![Linear::new(16, 16)?, ReLU, Linear::new(16, 2)?];
    let (x, y) = (randn(&[8, 16])?, randint(0, 2, &[8])?);
    let optimizer = Sgd::new(0.01)?;
    Ok(Case {
        model,
        optimizer,
        loss: Box::new(move |model| cross_entropy(&model.forward(&x)?, &y)),
    })
}

fn main() -> Result<()> {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    manual_seed(1);
    if wanted("mlp") {
        mlp()?.measure("mlp", 40)?;
    }
    if wanted("cnn") {
        cnn()?.measure("cnn", 5)?;
    }
    if wanted("transformer") {
        transformer()?.measure("transformer", 5)?;
    }
    if wanted("lstm") {
        lstm()?.measure("lstm", 5)?;
    }
    if wanted("small") {
        small()?.measure("small", 4000)?;
    }
    Ok(())
}
