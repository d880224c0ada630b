//! A training in a job under `mpirun`: each process runs the case that the first argument names, on
//! the checkpoint that the second one names. A fault happens at the micro-batch of its rank that the
//! third one counts.
//!
//! `cargo xtask mpi` starts the jobs, and sees how they end and what they leave.

// The processes talk to the terminal of `mpirun`.
#![allow(clippy::print_stdout)]

mod on_ranks;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use on_ranks::{Data, FEATURES, Net, Run, bytes, encoder, loss, net};
use samebits::data::Dataset as _;
use samebits::distributed::{Mpi, Transport as _};
use samebits::nn::Module;
use samebits::trainer::{Error, Outcome, Result};
use samebits::{DType, Generator, Tensor};

/// Batches in a step: as many ranks may be in a job.
const MICRO_BATCHES: u64 = 4;

/// The rank that differs.
const ODD: usize = 1;

fn main() {
    let mut arguments = std::env::args().skip(1);
    // Runners of tests put flags of their own behind.
    let case = arguments.next().filter(|case| !case.starts_with('-'));
    let (Some(case), Some(path)) = (case, arguments.next()) else {
        println!("{} samples of {FEATURES} features; start it by cargo xtask mpi", Data.len());
        return;
    };
    // In the second epoch, if the rank has one batch in a step.
    let at = arguments.next().and_then(|at| at.parse().ok()).unwrap_or(5);
    let end = Mpi::run(|transport| train(transport, &case, at, &PathBuf::from(path)));
    if let Err(error) = end {
        println!("ended alone: {error}");
        std::process::exit(3);
    }
}

fn train(transport: Mpi, case: &str, at: u64, path: &Path) -> Result<()> {
    if case == "encoder" {
        return fit(encoder(MICRO_BATCHES)?, transport, path, |model, batch| model.loss(batch));
    }
    let odd = transport.rank() == ODD;
    let seed = if odd && case == "unlike" { 6 } else { 5 };
    let mut own = net(MICRO_BATCHES);
    own.model = Net::new(&mut Generator::new(seed));
    if odd && case == "places" {
        own = own.accumulate(3);
    }
    let mut count = 0;
    fit(own, transport.timeout(Duration::from_secs(3)), path, |model, batch| {
        count += 1;
        if odd && count == at {
            go_wrong(case)?;
        }
        loss(model, batch)
    })
}

fn fit<M: Module>(
    run: Run<M>,
    transport: Mpi,
    path: &Path,
    loss: impl FnMut(&M, on_ranks::Batch) -> Result<Tensor>,
) -> Result<()> {
    let rank = transport.rank();
    let mut run = run.checkpoint(path).checkpoint_every(1).stop_on_ctrl_c().ranks(transport);
    if path.exists() {
        run.resume(path)?;
    }
    let outcome = run.fit(loss)?;
    let steps = run.losses().len();
    if rank == 0 && outcome == Outcome::Finished && bytes(&run) != std::fs::read(path).unwrap() {
        return Err(Error::Invalid("the file is not the state".to_owned()));
    }
    println!("rank {rank}: {outcome:?} after {steps} steps");
    Ok(())
}

/// What happens to a rank in its share of a step.
fn go_wrong(case: &str) -> Result<()> {
    match case {
        "error" => return Err(Error::Invalid("planted".to_owned())),
        "memory" => drop(Tensor::zeros(&[1 << 50], DType::F32)?),
        "file" => drop(std::fs::read("no such file").map_err(samebits::data::Error::other)?),
        "panic" => panic!("planted"),
        "exit" => std::process::exit(9),
        "hang" => std::thread::sleep(Duration::from_secs(60)),
        "kill" => signal("-KILL"),
        "interrupt" => signal("-INT"),
        _ => {}
    }
    Ok(())
}

/// Sends a signal to this process.
fn signal(signal: &str) {
    let own = std::process::id().to_string();
    let sent = Command::new("kill").args([signal, &own]).stdin(Stdio::null()).status();
    assert!(sent.is_ok_and(|status| status.success()));
}
