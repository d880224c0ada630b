//! The cost of recording: the training steps of `cargo xtask bench` in turns without a ledger, with
//! the ends of steps, and with every operation, by sampled and by full digests. Each turn runs all
//! ways and starts with another one. Prints the median of the ratios within a turn, and the
//! interval that contains it in 97 of 100 cases.
//!
//! `cargo bench -p samebits --bench ledger [FILTER]`

#![allow(clippy::mod_module_files, reason = "Cargo takes a file beside this one for a bench")]
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

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The number of turns, and the seconds of each way in a turn.
const TURNS: usize = 41;
const SECONDS: f64 = 0.1;

/// Takes `n` steps, and returns the seconds of the wall and of all processors. An uncounted step
/// before them absorbs the memory state that the last way left.
fn steps(training: &mut dyn Training, n: usize, ledger: Option<&Ledger>) -> Result<[f64; 2]> {
    let mut step = || -> Result<()> {
        match ledger {
            None => drop(training.step()?),
            Some(ledger) => {
                let (loss, gradients) = ledger.record(|| training.step())?;
                ledger.step(loss.as_ref(), training.model(), &gradients, None)?;
            }
        }
        Ok(())
    };
    step()?;
    let (start, spent) = (Instant::now(), processor_seconds());
    for _ in 0..n {
        step()?;
    }
    ledger.map_or(Ok(()), Ledger::finish)?;
    Ok([start.elapsed().as_secs_f64(), processor_seconds() - spent])
}

fn measure(training: &mut dyn Training, name: &str, n: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (sampled, full) = (Digests::Sampled, Digests::Full);
    let ways = [
        ("none", None),
        ("step", Some((Detail::Step, sampled))),
        ("op", Some((Detail::Op, sampled))),
        ("step, full", Some((Detail::Step, full))),
        ("op, full", Some((Detail::Op, full))),
    ];
    let mut taken = [[[0.0; 2]; 5]; TURNS];
    let mut bytes = 0;
    for (turn, taken) in taken.iter_mut().enumerate() {
        for way in (0..ways.len()).map(|i| (i + turn) % ways.len()) {
            let path = folder.path().join("run.jsonl");
            let create =
                |(detail, digests)| Ledger::options(&path).detail(detail).digests(digests).create();
            let ledger = ways[way].1.map(create).transpose()?;
            if let Some(ledger) = &ledger {
                ledger.watch(training.model());
            }
            taken[way] = steps(training, n, ledger.as_ref())?;
            if ledger.is_some() {
                bytes = std::fs::metadata(&path)?.len();
                std::fs::remove_file(&path)?;
            }
        }
    }
    let none = sorted(taken.map(|taken| taken[0][0]))[TURNS / 2];
    println!("{name}: {:.2} ms a step, {} bytes", 1e3 * none / n as f64, bytes / (n as u64 + 1));
    for (way, (name, _)) in ways.iter().enumerate().skip(1) {
        print!("    {name:<10}");
        for (clock, place) in [("wall", 0), ("processors", 1)] {
            let ratios = sorted(taken.map(|taken| taken[way][place] / taken[0][place]));
            // The median lies between the 14th smallest and the 14th largest of 41 in 97 of 100
            // cases.
            let [low, median, high] = [13, TURNS / 2, TURNS - 14].map(|place| ratios[place]);
            print!("  {clock} {median:.3} ({low:.3} to {high:.3})");
        }
        println!();
    }
    Ok(())
}

fn sorted(mut values: [f64; TURNS]) -> [f64; TURNS] {
    values.sort_by(f64::total_cmp);
    values
}

/// Two small layers, whose cost is that of the calls.
fn small() -> samebits::Result<Box<dyn Training>> {
    let model = sequential![Linear::new(16, 16)?, ReLU, Linear::new(16, 2)?];
    let (x, y) = (randn(&[8, 16])?, randint(0, 2, &[8])?);
    let loss = move |model: &Sequential| cross_entropy(&model.forward(&x)?, &y);
    Ok(Box::new(ByLoss { model, optimizer: Sgd::new(0.01)?, loss }))
}

fn main() -> Result<()> {
    // As in `steps`: no other thread of the program takes a processor from the pool.
    rayon::ThreadPoolBuilder::new().build()?.install(all)
}

fn all() -> Result<()> {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    manual_seed(1);
    for (name, make) in training::ALL.into_iter().chain([("small", small as training::Make)]) {
        if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let mut training = make()?;
        training.step()?;
        let start = Instant::now();
        training.step()?;
        let n = (SECONDS / start.elapsed().as_secs_f64()).ceil() as usize;
        measure(&mut *training, name, n)?;
    }
    Ok(())
}
