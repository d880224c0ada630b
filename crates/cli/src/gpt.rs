//! `samebits gpt`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use samebits::data::DataLoader;
use samebits::functional::{cross_entropy, flatten, narrow};
use samebits::io::{Checkpoint, Tokenizer};
use samebits::nn::{
    GenerateOptions, Gpt, GptActivation, GptNormKind, GptPositions, Module, Prompt, Sampling,
    draw_from,
};
use samebits::optim::{AdamW, CosineAnnealingLr, LinearLr, Schedule as _};
use samebits::trainer::{Outcome, Per, StackTensors, Trainer, TrainerState};
use samebits::{Determinism, Generator, Tensor, determinism};
use serde::{Deserialize, Serialize};

use crate::curve::{self, Line};
use crate::run::{self, Precision, Rank, RunArgs, learning_rate, stopwatch};
use crate::text::{Text, Windows};

/// The tokens are the bytes of the text, or those of a tokenizer. A tenth of it is held out to measure the loss after each
/// epoch. With the default settings the training takes two to three minutes on two cores.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The text, a file of any kind; the Declaration of Independence and the Constitution of the
    /// United States if not given
    #[arg(long)]
    text: Option<PathBuf>,
    /// The tokenizer.json that makes tokens of the text; bytes if not given. Needs a program with the
    /// feature `tokenizers`
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// Seed of all random numbers [default: 0]
    #[arg(long, conflicts_with = "resume")]
    seed: Option<u64>,
    /// Passes over the text [default: 20]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "resume")]
    epochs: Option<u64>,
    /// Sequences per step [default: 8]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "resume")]
    batch_size: Option<u32>,
    /// The largest learning rate [default: 0.003]
    #[arg(long, value_parser = learning_rate, allow_negative_numbers = true)]
    #[arg(conflicts_with = "resume")]
    lr: Option<f64>,
    /// Tokens in a sequence [default: 256]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "resume")]
    context: Option<u32>,
    /// Width of the model, a multiple of twice the heads [default: 128]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "resume")]
    width: Option<u32>,
    /// Heads of attention [default: 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "resume")]
    heads: Option<u32>,
    /// Blocks of the model [default: 3]
    #[arg(long, conflicts_with = "resume")]
    layers: Option<u32>,
    /// Probability of dropping while training [default: 0.1]
    #[arg(long, conflicts_with = "resume")]
    dropout: Option<f64>,
    /// Threads that load sequences; the bits do not depend on it
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Compute each block again in the backward pass, instead of keeping what its gradient needs:
    /// less memory, the same bits
    #[arg(long)]
    gradient_checkpointing: bool,
    /// Start of the text to write at the end
    #[arg(long, default_value = "The ")]
    prompt: String,
    /// File for the loss curve; without it, none is written
    #[arg(long)]
    curve: Option<PathBuf>,
    /// Show no progress bar
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// Settings that decide the bits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    seed: u64,
    epochs: u64,
    batch_size: usize,
    lr: f64,
    determinism: Determinism,
    micro_batches: u64,
    context: usize,
    width: usize,
    heads: usize,
    layers: usize,
    dropout: f64,
    #[serde(default, skip_serializing_if = "Precision::is_f32")]
    precision: Precision,
    /// The number of tokens.
    #[serde(default = "bytes", skip_serializing_if = "are_bytes")]
    vocabulary: usize,
}

/// Returns the number of tokens that are bytes.
fn bytes() -> usize {
    Tokenizer::bytes().vocabulary()
}

fn are_bytes(vocabulary: &usize) -> bool {
    *vocabulary == bytes()
}

impl Config {
    fn of(args: &Args, tokenizer: Option<&Tokenizer>) -> Config {
        let size = |given: Option<u32>, default| given.unwrap_or(default) as usize;
        Config {
            seed: args.seed.unwrap_or(0),
            epochs: args.epochs.unwrap_or(20),
            batch_size: size(args.batch_size, 8),
            lr: args.lr.unwrap_or(0.003),
            determinism: args.run.level(),
            micro_batches: args.run.micro_batches(),
            context: size(args.context, 256),
            width: size(args.width, 128),
            heads: size(args.heads, 4),
            layers: size(args.layers, 3),
            dropout: args.dropout.unwrap_or(0.1),
            precision: args.run.precision(),
            vocabulary: tokenizer.map_or_else(bytes, Tokenizer::vocabulary),
        }
    }

    /// Builds the model, with the parts of Llama.
    fn model(&self) -> Result<Gpt> {
        let &Config { seed, width, heads, layers, context, dropout, vocabulary, .. } = self;
        let options = Gpt::options(vocabulary, width, heads, layers)
            .context(context)
            .hidden(width.saturating_mul(8) / 3)
            .norm(GptNormKind::Rms)
            .positions(GptPositions::Rotary { base: 10_000.0 })
            .activation(GptActivation::SwiGlu)
            .bias(false)
            .dropout(dropout);
        Ok(draw_from(&mut Generator::new(seed).fold_in(0), || options.init())?)
    }

    /// Returns the number of sequences per micro-batch.
    fn sequences(&self) -> Result<usize> {
        let (sequences, parts) = (self.batch_size, self.micro_batches);
        match usize::try_from(parts).ok().filter(|parts| *parts > 0 && sequences % parts == 0) {
            Some(parts) if sequences > 0 => Ok(sequences / parts),
            _ => bail!("a batch of {sequences} sequences has no {parts} equal parts"),
        }
    }
}

/// A run in progress.
struct Session<'a> {
    config: Config,
    steps_per_epoch: usize,
    trainer: Trainer<'a, Gpt, AdamW, DataLoader<Windows, StackTensors>>,
}

impl<'a> Session<'a> {
    /// Creates a run that has not begun. `workers` threads load its sequences.
    fn new(config: Config, text: &Text, workers: usize) -> Result<Session<'a>> {
        let root = Generator::new(config.seed);
        let sequences = config.sequences()?;
        let windows = text.train(config.context)?;
        let loader = DataLoader::builder_with(windows, StackTensors)
            .batch_size(sequences)
            .shuffle(true)
            .drop_last(true)
            .seed(config.seed)
            .workers(workers)
            .build()?;
        let held_out = DataLoader::builder_with(text.held_out(config.context)?, StackTensors)
            .batch_size(sequences)
            .build()?;
        let parts = config.micro_batches;
        let per_epoch = loader.batches_in(0)?.div_ceil(parts);
        let steps = config.epochs.saturating_mul(per_epoch);
        // Warm-up, then half a cosine.
        let warm = (steps / 20).max(1);
        let rates = LinearLr::new().start_factor(0.1).total_iters(warm);
        let rates = rates.then(warm, CosineAnnealingLr::new((steps - warm.min(steps)).max(1)));
        let optimizer = AdamW::options(config.lr).betas(0.9, 0.95).weight_decay(0.1).init()?;
        let trainer = Trainer::new(config.model()?, optimizer, loader, root.fold_in(1))
            .run(serde_json::to_string(&config)?)
            .epochs(config.epochs)
            .accumulate(parts)
            .clip_grad_norm(1.0, 2.0)
            .stop_on_ctrl_c()
            .schedule(Per::Step, rates)
            .metric_over(held_out, |model, rows| {
                let loss: f32 = loss(model, &rows)?.item()?;
                let count = rows.shape()[0];
                Ok((f64::from(loss) * count as f64, count))
            });
        let trainer = config.precision.scale(trainer);
        Ok(Session { config, steps_per_epoch: usize::try_from(per_epoch)?.max(1), trainer })
    }

    /// Restores the run of a checkpoint.
    fn resume(
        checkpoint: Checkpoint<TrainerState>,
        text: &Text,
        workers: usize,
    ) -> Result<Session<'a>> {
        let mut session = Session::new(config_of(&checkpoint)?, text, workers)?;
        session.trainer.load_state(checkpoint)?;
        Ok(session)
    }

    /// Trains until the last epoch, or until the trainer is told to stop.
    fn train(&mut self) -> Result<Outcome> {
        let Config { determinism: level, precision, .. } = self.config;
        let loss = |model: &Gpt, rows: Tensor| Ok(precision.run(|| loss(model, &rows))??);
        Ok(determinism::scope(level, || self.trainer.fit(loss))?)
    }

    /// Returns the mean loss of each epoch.
    fn epoch_losses(&self) -> Vec<f64> {
        let mean = |losses: &[f32]| {
            losses.iter().map(|&loss| f64::from(loss)).fold(0.0, |a, b| a + b) / losses.len() as f64
        };
        self.trainer.losses().chunks(self.steps_per_epoch).map(mean).collect()
    }

    /// Digests the parameters.
    fn digest(&self) -> Result<String> {
        Ok(samebits::digest(self.trainer.model.state_dict())?)
    }

    /// Continues the prompt twice. Returns the bytes of each text, prompt included.
    fn write(&self, prompt: &[i64], tokenizer: &Tokenizer) -> Result<Vec<Vec<u8>>> {
        let prompts = [0, 1].map(|sequence| Prompt { sequence, tokens: prompt.to_vec() });
        let sampling =
            Sampling { temperature: Some(0.8), seed: self.config.seed, ..Sampling::default() };
        let options =
            GenerateOptions { sampling, max_new_tokens: 200, ..GenerateOptions::default() };
        let level = self.config.determinism;
        let results = determinism::scope(level, || {
            self.trainer.model.generate(&prompts, &options, |_| ControlFlow::Continue(()))
        })?;
        let whole = results.iter().map(|text| [prompt, &text.tokens].concat());
        Ok(whole.map(|tokens| tokenizer.decode(&tokens)).collect::<samebits::Result<_>>()?)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let load = {
        let (text, tokenizer) = (args.text.clone(), args.tokenizer.clone());
        move || {
            let tokenizer = tokenizer.map(Tokenizer::load).transpose()?;
            Ok(Source { text: Text::load(text.as_deref(), tokenizer.as_ref())?, tokenizer })
        }
    };
    let own = args.clone();
    args.run.spread(load, move |source, rank| train_on(&own, source, rank))
}

/// A text, and the tokenizer that made its tokens.
#[derive(Clone)]
struct Source {
    text: Text,
    tokenizer: Option<Tokenizer>,
}

/// Trains as one of several ranks, if there are. Only the first rank prints.
fn train_on(args: &Args, Source { text, tokenizer }: &Source, rank: Rank) -> Result<()> {
    let first = run::place(&rank).0 == 0;
    let mut session = match &args.run.resume {
        Some(path) => Session::resume(Checkpoint::load(path)?, text, args.workers)?,
        None => Session::new(Config::of(args, tokenizer.as_ref()), text, args.workers)?,
    };
    let tokenizer = tokenizer.clone().unwrap_or_else(Tokenizer::bytes);
    session.trainer.model.checkpoint = args.gradient_checkpointing;
    let config = session.config;
    check_vocabulary(&session.trainer.model, &tokenizer)?;
    let (prompt, unit) = (tokenizer.encode(&args.prompt)?, text.unit());
    if !(1..=config.context).contains(&prompt.len()) {
        let (context, got) = (config.context, prompt.len());
        bail!("expected a prompt of 1 to {context} {unit}, got {got}");
    }
    if first {
        let [train, held_out] = text.lengths();
        println!("text: {train} {unit} to train on, {held_out} held out");
        let parameters = session.trainer.model.num_parameters();
        println!("model: {parameters} parameters, a context of {} {unit}", config.context);
    }
    if let Some(device) = args.run.open_device(first)? {
        session.trainer.model.to(device)?;
    }
    if args.quiet {
        session.trainer = session.trainer.quiet();
    }
    let data = args.text.as_ref().map_or("constitution".to_owned(), |p| p.display().to_string());
    let (trainer, ledger) = args.run.prepare(session.trainer, rank, config.seed, data)?;
    session.trainer = trainer;
    let outcome = samebits::on_threads(Some(args.run.threads()), || {
        let (started, before) = (stopwatch(), session.trainer.losses().len());
        let outcome = session.train()?;
        let steps = session.trainer.losses().len() - before;
        if first {
            tell(&session, steps, started.elapsed());
            for text in session.write(&prompt, &tokenizer)? {
                println!("---\n{}", String::from_utf8_lossy(&text));
            }
            println!("---");
        }
        anyhow::Ok(outcome)
    })??;
    if let Some(ledger) = &ledger {
        ledger.finish()?;
    }
    let steps = session.trainer.losses().len();
    if first {
        println!("digest of the weights after {steps} steps: {}", &session.digest()?[..32]);
        if let Some(path) = &args.curve {
            write_curve(path, &session)?;
        }
        args.run.tell_checkpoint(steps);
    }
    ensure!(outcome != Outcome::Interrupted, "interrupted after {steps} steps");
    Ok(())
}

/// Prints the losses of some ten epochs, the last among them, and the speed of `steps` steps.
fn tell(session: &Session<'_>, steps: usize, time: Duration) {
    let (losses, held_out) = (session.epoch_losses(), session.trainer.metrics());
    println!("epoch     loss  held out");
    for (i, loss) in losses.iter().enumerate() {
        if (losses.len() - 1 - i).is_multiple_of(losses.len().div_ceil(10)) {
            let held_out = held_out.get(i).map_or(String::new(), |loss| format!("{loss:8.4}"));
            println!("{:>5} {loss:8.4}  {held_out}", i + 1);
        }
    }
    let Config { batch_size, context, .. } = session.config;
    let (tokens, seconds) = ((steps * batch_size * context) as f64, time.as_secs_f64());
    println!("{steps} steps in {seconds:.1} s: {:.0} tokens per second", tokens / seconds);
}

fn write_curve(path: &Path, session: &Session<'_>) -> Result<()> {
    let line = |name: &str, losses: &[f64]| Line { name: name.to_owned(), losses: losses.to_vec() };
    let lines = [
        line("text to train on", &session.epoch_losses()),
        line("held-out text", session.trainer.metrics()),
    ];
    curve::write(path, "Loss of the language model", &lines)?;
    println!("loss curve: {}", path.display());
    Ok(())
}

/// Returns an error if a tokenizer has tokens that a model does not know, or is bytes and the model's
/// tokens are not.
pub(crate) fn check_vocabulary(model: &Gpt, tokenizer: &Tokenizer) -> Result<()> {
    let (known, tokens) = (model.tokens.weight.get().shape()[0], tokenizer.vocabulary());
    ensure!(
        tokens <= known && (tokens != bytes() || known == tokens),
        "expected a tokenizer of the {known} tokens of the model, got one of {tokens}"
    );
    Ok(())
}

fn config_of(checkpoint: &Checkpoint<TrainerState>) -> Result<Config> {
    serde_json::from_str(&checkpoint.state.run).context("not a checkpoint of `samebits gpt`")
}

/// Returns the model of a checkpoint of [`run`].
pub(crate) fn model_of(checkpoint: &Checkpoint<TrainerState>) -> Result<Gpt> {
    let mut model = config_of(checkpoint)?.model()?;
    let tensors = checkpoint.tensors.iter();
    let own = tensors.filter_map(|(name, tensor)| {
        Some((name.strip_prefix("model.")?.to_owned(), tensor.clone()))
    });
    model.load_state_dict(&own.collect::<Vec<_>>(), true)?;
    Ok(model)
}

/// Computes the mean loss of all tokens of `rows`, each with the one before it as its input.
fn loss(model: &Gpt, rows: &Tensor) -> samebits::Result<Tensor> {
    let rows = rows.to(model.tokens.weight.get().device())?;
    let context = rows.shape()[1] - 1;
    let logits = model.forward(&narrow(&rows, 1, 0, context)?)?;
    cross_entropy(&flatten(&logits, 0, 1)?, &flatten(&narrow(&rows, 1, 1, context)?, 0, 1)?)
}
