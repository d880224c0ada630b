//! What ranks cost: a training by `accumulate` alone and on one rank, by turns. With `--ranks N` also on
//! N threads that are ranks, which share the cores. The second ratio is of processor time.
//!
//! `cargo bench --package samebits --bench ranks`

#![allow(clippy::mod_module_files, reason = "Cargo takes a file beside this one for a bench")]
#![allow(clippy::print_stdout, reason = "a benchmark tells its reader")]

mod clock;

use std::time::Instant;

use clock::processor_seconds;
use samebits::data::{DataLoader, Table};
use samebits::distributed::{Threads, threads};
use samebits::functional::cross_entropy;
use samebits::nn::{Layer, Linear, Module, draw_from};
use samebits::optim::AdamW;
use samebits::trainer::{Result, StackTensors, Trainer};
use samebits::{Generator, Tensor};

const ROUNDS: usize = 15;
const FEATURES: usize = 256;
const WIDTH: usize = 512;

#[derive(Module)]
struct Net(Linear, Linear, Linear);

/// Seconds of 64 steps of 8 micro-batches.
fn seconds(transport: Option<Threads>) -> Result<f64> {
    let model = draw_from(&mut Generator::new(0), || {
        Ok::<_, samebits::Error>(Net(
            Linear::new(FEATURES, WIDTH)?,
            Linear::new(WIDTH, WIDTH)?,
            Linear::new(WIDTH, 10)?,
        ))
    })?;
    let values = (0..1024 * FEATURES).map(|i| (i % 97) as f32 / 97.0).collect();
    let table = Table::new(values, FEATURES, (0..1024).map(|i| i % 10).collect())?;
    let loader = DataLoader::builder_with(table, StackTensors).batch_size(16).build()?;
    let mut run = Trainer::new(model, AdamW::new(1e-3)?, loader, Generator::new(1))
        .accumulate(8)
        .epochs(8)
        .quiet();
    if let Some(transport) = transport {
        run = run.ranks(transport);
    }
    let began = Instant::now();
    run.fit(|Net(first, second, last), (x, classes): (Tensor, Tensor)| {
        let x = second.forward(&first.forward(&x)?.relu()?)?.relu()?;
        Ok(cross_entropy(&last.forward(&x)?, &classes)?)
    })?;
    Ok(began.elapsed().as_secs_f64())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--ranks").skip(1);
    let most = arguments.next().and_then(|world| world.parse().ok()).unwrap_or(1);
    for world in 1..=most {
        let (mut alone, mut shared) = (Vec::new(), Vec::new());
        let (mut ratios, mut busy_ratios) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let began = processor_seconds();
            // In a thread of its own too: a new thread takes its memory anew.
            let single = threads::run(1, |_| seconds(None))?[0];
            let middle = processor_seconds();
            let several = threads::run(world, |transport| seconds(Some(transport)))?;
            let busy = processor_seconds() - middle;
            let several = several.into_iter().fold(0.0, f64::max);
            // The first round warms up.
            if round > 0 {
                alone.push(single);
                shared.push(several);
                ratios.push(several / single);
                busy_ratios.push(busy / (middle - began));
            }
        }
        let [alone, shared] = [&mut alone, &mut shared].map(|times| median(times) * 1e3);
        let ratio = median(&mut ratios);
        let busy = median(&mut busy_ratios);
        println!(
            "{world} ranks: alone {alone:.1} ms, ranks {shared:.1} ms, ratio {ratio:.3} ({:.3} to \
             {:.3}), of processor time {busy:.3} ({:.3} to {:.3})",
            ratios[ROUNDS / 4],
            ratios[ROUNDS * 3 / 4],
            busy_ratios[ROUNDS / 4],
            busy_ratios[ROUNDS * 3 / 4],
        );
    }
    Ok(())
}
