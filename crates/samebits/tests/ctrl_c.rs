//! Ctrl-C: the first ends a run after its step, the second ends the process.

#![cfg(unix)]
#![allow(clippy::print_stdout, reason = "the child tells its parent where it is")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use samebits::data::{DataLoader, DatasetExt, Memory};
use samebits::functional::mse_loss;
use samebits::nn::{Layer, Linear};
use samebits::optim::Sgd;
use samebits::trainer::{Outcome, Result, StackTensors, Step, Trainer};
use samebits::{Generator, Tensor, functional};

/// The variable that names the checkpoint, in the process that trains.
const RUN: &str = "SAMEBITS_TEST_TRAINS";
/// The variable set if a step must take longer than the test waits.
const HANG: &str = "SAMEBITS_TEST_HANGS";
const STEPS: usize = 60;
const SIGINT: i32 = 2;

/// Trains, from the checkpoint if there is one; returns the outcome and the bytes of the state.
fn train(checkpoint: &Path, tell: impl FnMut(&Step) + Send) -> (Outcome, Vec<u8>) {
    let data = Memory::new((0..40_i64).collect::<Vec<_>>())
        .map(|i, cx| Ok((vec![i as f32 / 40.0, cx.rng().next_block()[0] as f32 / 4e9], i)));
    let loader = DataLoader::builder_with(data, StackTensors).batch_size(4).shuffle(true);
    let mut root = Generator::new(1);
    let model = Linear::options(2, 1).init_with(&mut root).unwrap();
    let optimizer = Sgd::options(0.1).momentum(0.9).init().unwrap();
    let mut run = Trainer::new(model, optimizer, loader.build().unwrap(), root)
        .epochs(STEPS as u64 / 10)
        .checkpoint(checkpoint)
        .on_step(tell)
        .stop_on_ctrl_c();
    if checkpoint.exists() {
        run.resume(checkpoint).unwrap();
    }
    let loss = |model: &Linear, (x, i): (Tensor, Tensor)| -> Result<Tensor> {
        let y = i.to_dtype(samebits::DType::F32)?.reshape([-1, 1])?;
        Ok(mse_loss(&model.forward(&x)?, &y, functional::Reduction::Mean)?)
    };
    let outcome = run.fit(loss).unwrap();
    (outcome, run.state().unwrap().to_bytes().unwrap())
}

/// Runs in a child process that the other tests start.
#[test]
fn child() {
    let Some(checkpoint) = std::env::var_os(RUN) else { return };
    let tell = |step: &Step| {
        if step.steps == 5 {
            println!("step 5");
            if std::env::var_os(HANG).is_some() {
                std::thread::sleep(Duration::from_secs(60));
            }
        }
        if step.steps >= 5 {
            // So that the signal comes before the end.
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let (outcome, _) = train(Path::new(&checkpoint), tell);
    println!("{outcome:?}");
}

/// Starts a child and waits until it has taken 5 steps.
fn start(checkpoint: &Path, hang: bool) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(RUN, checkpoint);
    if hang {
        command.env(HANG, "1");
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("step 5") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child has ended");
    }
    (child, output)
}

fn press_ctrl_c(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn the_first_ends_the_run_and_what_is_resumed_has_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let (mut child, mut output) = start(&path, false);
    press_ctrl_c(&child);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    assert!(text.contains("Interrupted"), "{text}");
    // Standard error is not a terminal: no progress bar.
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "");

    let mut taken = Vec::new();
    let (outcome, resumed) = train(&path, |step| taken.push(step.steps));
    assert_eq!(outcome, Outcome::Finished);
    assert!(taken[0] > 5 && taken.last() == Some(&(STEPS as u64)), "{taken:?}");
    let (_, whole) = train(&folder.path().join("whole.safetensors"), |_| {});
    assert!(resumed == whole);
}

#[test]
fn the_second_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, _output) = start(&folder.path().join("run.safetensors"), true);
    press_ctrl_c(&child);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the step is not over");
    press_ctrl_c(&child);
    assert_eq!(child.wait().unwrap().signal(), Some(SIGINT));
}

/// The library installs a handler only on request, and only during `fit`.
#[test]
fn outside_of_a_run_ctrl_c_does_what_it_always_does() {
    const IDLE: &str = "SAMEBITS_TEST_IDLES";
    if let Some(path) = std::env::var_os(IDLE) {
        train(Path::new(&path), |_| {});
        println!("step 5");
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "outside_of_a_run_ctrl_c_does_what_it_always_does", "--nocapture"])
        .env(IDLE, folder.path().join("run.safetensors"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines();
    assert!(lines.any(|line| line.unwrap().contains("step 5")));
    press_ctrl_c(&child);
    assert_eq!(child.wait().unwrap().signal(), Some(SIGINT));
}
