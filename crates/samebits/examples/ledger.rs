//! Two training runs that should agree, with a ledger of each, and both in lockstep.
//!
//! `cargo run -p samebits --example ledger FOLDER`, then `samebits diff FOLDER/a FOLDER/b`

// The example prints its results.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;

use samebits::ledger::Ledger;
use samebits::nn::{self, Linear, ReLU};
use samebits::optim::Sgd;
use samebits::prelude::*;
use samebits::{Configuration, lockstep, sequential};

/// Takes a few steps, towards outputs of 1.
fn train(seed: u64, ledger: Option<&Ledger>) -> samebits::ledger::Result<f32> {
    manual_seed(seed);
    let mut model = sequential![Linear::new(8, 16)?, ReLU, Linear::new(16, 1)?];
    let mut optimizer = Sgd::new(0.05)?;
    let x = samebits::randn(&[32, 8])?;
    let mut last = 0.0;
    if let Some(ledger) = ledger {
        ledger.watch(&model);
    }
    for _ in 0..5 {
        let mut step = || -> samebits::Result<_> {
            let loss = nn::train(|| (model.forward(&x)? - 1.0)?.square()?.mean(..))?;
            let gradients = loss.backward()?;
            optimizer.step(&mut model, &gradients)?;
            Ok((loss, gradients))
        };
        let (loss, gradients) = match ledger {
            None => step()?,
            Some(ledger) => ledger.record(step)?,
        };
        if let Some(ledger) = ledger {
            ledger.step(Some(&loss), &model, &gradients, None)?;
        }
        last = loss.item()?;
    }
    Ok(last)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "ledgers".to_owned()));
    for (name, seed) in [("a", 0), ("b", 1)] {
        let path = folder.join(name);
        let ledger = Ledger::options(&path).seed("training", seed).create()?;
        let loss = train(seed, Some(&ledger))?;
        ledger.finish()?;
        println!("seed {seed}: loss {loss}, ledger in {}", path.display());
    }
    // One program with one thread and with two: no operation differs.
    let [one, two] = [1, 2].map(|threads| Configuration::new(Device::Cpu).threads(threads));
    let outcome = lockstep([one, two], |_| {
        train(0, None).map_err(|error| samebits::Error::invalid("train", error.to_string()))
    })?;
    println!("{outcome:?}");
    Ok(())
}
