//! `samebits generate`.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use samebits::Device;
use samebits::io::Checkpoint;
use samebits::nn::{GenerateOptions, Module as _, Prompt, Sampling};

use crate::gpt;
use crate::run::{self, stopwatch};

/// The text goes to standard output, the number of bytes and the time to standard error. It ends
/// at the latest where the context of the model does.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The checkpoint, written by `samebits gpt --save`
    checkpoint: PathBuf,
    /// Start of the text
    #[arg(long, default_value = "The ")]
    prompt: String,
    /// Largest number of bytes to add
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Divisor of the logits: below 1 the likely is likelier; 0 takes the likeliest byte each time
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    temperature: f64,
    /// Draw from this many likeliest bytes [default: all]
    #[arg(long)]
    top_k: Option<usize>,
    /// Draw from the likeliest bytes that have this probability together [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Device to compute on: cpu, cuda or cuda:N; the text does not depend on it [default: cpu]
    #[arg(long)]
    device: Option<Device>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut model = gpt::model_of(&Checkpoint::load(&args.checkpoint)?)
        .with_context(|| args.checkpoint.display().to_string())?;
    if let Some(device @ Device::Cuda(_)) = args.device {
        run::open(device)?;
        model.to(device)?;
    }
    let context = model.context();
    let length = args.prompt.len();
    ensure!(
        (1..=context).contains(&length),
        "expected a prompt of 1 to {context} bytes, got {length}"
    );
    let options = GenerateOptions {
        sampling: Sampling {
            temperature: (args.temperature != 0.0).then_some(args.temperature),
            top_k: args.top_k,
            top_p: args.top_p,
            seed: args.seed,
        },
        max_new_tokens: args.tokens,
        ..GenerateOptions::default()
    };
    options.sampling.check()?;
    let prompt = Prompt { sequence: 0, tokens: args.prompt.bytes().map(i64::from).collect() };
    let mut out = std::io::stdout().lock();
    out.write_all(args.prompt.as_bytes())?;
    let (started, mut written) = (stopwatch(), Ok(()));
    let results = model.generate(&[prompt], &options, |new| {
        written = out.write_all(&[new.token as u8]).and_then(|()| out.flush());
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let seconds = started.elapsed().as_secs_f64();
    written?;
    writeln!(out)?;
    let count: usize = results.iter().map(|text| text.tokens.len()).sum();
    eprintln!("{count} bytes in {seconds:.2} s: {:.0} per second", count as f64 / seconds);
    if count < args.tokens {
        let asked = args.tokens;
        eprintln!("the context of {context} bytes is full: {count} of {asked} bytes were added");
    }
    Ok(())
}
