//! `samebits generate`.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use samebits::Device;
use samebits::io::{Checkpoint, Tokenizer, load_gpt};
use samebits::nn::{GenerateOptions, Gpt, Module as _, Prompt, Sampling};

use crate::gpt;
use crate::run::{self, stopwatch};

/// The text goes to standard output, the number of tokens and the time to standard error. It ends
/// at the latest where the context of the model does.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The checkpoint, written by `samebits gpt --save`, or a folder of GPT-2 or Llama, as the Python
    /// library `transformers` writes it
    checkpoint: PathBuf,
    /// The tokenizer.json of the model [default: that in the folder, or bytes]. Needs a program with
    /// the feature `tokenizers`
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// Start of the text
    #[arg(long, default_value = "The ")]
    prompt: String,
    /// Largest number of tokens to add
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Divisor of the logits: below 1 the likely is likelier; 0 takes the likeliest token each time
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    temperature: f64,
    /// Draw from this many likeliest tokens [default: all]
    #[arg(long)]
    top_k: Option<usize>,
    /// Draw from the likeliest tokens that have this probability together [default: 1]
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
    let (mut model, tokenizer) = opened(args)?;
    if let Some(device @ Device::Cuda(_)) = args.device {
        run::open(device)?;
        model.to(device)?;
    }
    let unit = if tokenizer.is_some() { "tokens" } else { "bytes" };
    let tokenizer = tokenizer.unwrap_or_else(Tokenizer::bytes);
    gpt::check_vocabulary(&model, &tokenizer)?;
    let (context, tokens) = (model.context(), tokenizer.encode(&args.prompt)?);
    let length = tokens.len();
    ensure!(
        (1..=context).contains(&length),
        "expected a prompt of 1 to {context} {unit}, got {length}"
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
    let mut text = Stream { tokenizer: &tokenizer, tokens: tokens.clone(), written: 0 };
    let mut out = std::io::stdout().lock();
    text.write(&mut out, false)?;
    let (started, mut written) = (stopwatch(), Ok(()));
    let results = model.generate(&[Prompt { sequence: 0, tokens }], &options, |new| {
        text.tokens.push(new.token);
        written = text.write(&mut out, false);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let seconds = started.elapsed().as_secs_f64();
    written?;
    text.write(&mut out, true)?;
    writeln!(out)?;
    let count: usize = results.iter().map(|text| text.tokens.len()).sum();
    eprintln!("{count} {unit} in {seconds:.2} s: {:.0} per second", count as f64 / seconds);
    if count < args.tokens {
        let asked = args.tokens;
        eprintln!("the context of {context} {unit} is full: {count} of {asked} {unit} were added");
    }
    Ok(())
}

/// Reads the model, and its tokenizer if its tokens are not bytes.
fn opened(args: &Args) -> Result<(Gpt, Option<Tokenizer>)> {
    let path = &args.checkpoint;
    let given = args.tokenizer.as_ref().map(Tokenizer::load).transpose()?;
    if path.is_dir() {
        let beside = path.join("tokenizer.json");
        let tokenizer = match given {
            None if beside.exists() => Some(Tokenizer::load(beside)?),
            given => given,
        };
        return Ok((load_gpt(path)?, tokenizer));
    }
    let model = gpt::model_of(&Checkpoint::load(path)?);
    Ok((model.with_context(|| path.display().to_string())?, given))
}

/// A text that grows by tokens and is written as it does.
struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    tokens: Vec<i64>,
    /// The number of bytes that have been written.
    written: usize,
}

impl Stream<'_> {
    /// Writes what is new. Unless this is the end, a character that may be unfinished waits.
    fn write(&mut self, out: &mut impl Write, end: bool) -> Result<()> {
        let text = self.tokenizer.decode(&self.tokens)?;
        let unfinished = !end && text.ends_with("\u{fffd}".as_bytes());
        if let Some(new) = text.get(self.written..).filter(|_| !unfinished) {
            out.write_all(new)?;
            out.flush()?;
            self.written = text.len();
        }
        Ok(())
    }
}
