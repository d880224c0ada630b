//! What recording costs: the training steps of `cargo xtask bench` by turns without a ledger, with the
//! ends of steps, and with every operation, by sampled and by full digests. Prints the least time of
//! all turns, and ratios.
//!
//! `cargo bench -p samebits --bench ledger [FILTER]`

#![allow(clippy::print_stdout)]

mod clock;
mod training;

use std::error::Error;
use std::time::Instant;

use samebits::functional::cross_entropy;
use samebits::ledger::{Detail, Digests, Ledger};
use samebits::nn::{Layer, Linear, ReLU, Sequential};
use samebits::optim::Sgd;
use samebits::{manual_seed, randint, randn, sequential};

use clock::processor_seconds;
use training::{ByLoss, Training};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Takes `n` steps, and returns the seconds of the wall and of all processors.
fn steps(training: &mut dyn Training, n: usize, ledger: Option<&Ledger>) -> Result<[f64; 2]> {
    let (start, spent) = (Instant::now(), processor_seconds());
    if let Some(ledger) = ledger {
        ledger.watch(training.model());
    }
    for _ in 0..n {
        match ledger {
            None => drop(training.step()?),
            Some(ledger) => {
                let (loss, gradients) = ledger.record(|| training.step())?;
                ledger.step(loss.as_ref(), training.model(), &gradients, None)?;
            }
        }
    }
    ledger.map_or(Ok(()), Ledger::finish)?;
    Ok([start.elapsed().as_secs_f64(), processor_seconds() - spent])
}

fn measure(training: &mut dyn Training, name: &str, n: usize) -> Result<()> {
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
            let taken = steps(training, n, ledger.as_ref())?;
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
        print!("; {clock}: step {step:.3}, op {op:.3}, full: step {step_full:.3}, op {op_full:.3}");
    }
    println!("; op writes {} bytes a step", bytes / n as u64);
    Ok(())
}

/// Two small layers: costs by the call alone.
fn small() -> samebits::Result<Box<dyn Training>> {
    let model = sequential![Linear::new(16, 16)?, ReLU, Linear::new(16, 2)?];
    let (x, y) = (randn(&[8, 16])?, randint(0, 2, &[8])?);
    let loss = move |model: &Sequential| cross_entropy(&model.forward(&x)?, &y);
    Ok(Box::new(ByLoss { model, optimizer: Sgd::new(0.01)?, loss }))
}

fn main() -> Result<()> {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    manual_seed(1);
    for (name, make) in training::ALL.into_iter().chain([("small", small as training::Make)]) {
        if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let mut training = make()?;
        // Long enough for the clock of processor time.
        training.step()?;
        let start = Instant::now();
        training.step()?;
        let n = (0.5 / start.elapsed().as_secs_f64()).ceil() as usize;
        measure(&mut *training, name, n)?;
    }
    Ok(())
}
