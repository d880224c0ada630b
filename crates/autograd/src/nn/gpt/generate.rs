//! Generation of text.

use std::ops::ControlFlow;

use samebits_tensor_core::{DType, Error, Result};

use super::{Gpt, KvCache, Sampling};
use crate::{Tensor, functional};

/// The start of a sequence that [`Gpt::generate`] continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The number of the sequence. Its random numbers depend on it.
    pub sequence: u64,
    /// The first tokens, at least one.
    pub tokens: Vec<i64>,
}

impl Prompt {
    /// Returns a prompt for each row of a padded batch, without the padding before and after its
    /// tokens. Rows are numbered from 0.
    ///
    /// # Shapes
    ///
    /// `tokens` is `[n, length]`, of type `I64`; `mask` as well, of truth values or of integers: true,
    /// or other than 0, marks the tokens.
    ///
    /// # Errors
    ///
    /// The shapes or types differ, or a row has no token, or padding between tokens.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate samebits_autograd as samebits;
    /// use samebits::Tensor;
    /// use samebits::nn::Prompt;
    ///
    /// let tokens = Tensor::new([[0i64, 0, 7], [5, 6, 7]])?;
    /// let mask = Tensor::new([[0i64, 0, 1], [1, 1, 1]])?;
    /// let prompts = Prompt::unpadded(&tokens, &mask)?;
    /// assert_eq!(prompts[0].tokens, [7]);
    /// assert_eq!((prompts[1].sequence, &prompts[1].tokens[..]), (1, &[5, 6, 7][..]));
    /// # Ok::<(), samebits::Error>(())
    /// ```
    pub fn unpadded(tokens: &Tensor, mask: &Tensor) -> Result<Vec<Prompt>> {
        let op = "Prompt::unpadded";
        let &[_, length] = tokens.shape() else {
            let message = format!("expected tokens [n, length], got shape {:?}", tokens.shape());
            return Err(Error::invalid(op, message));
        };
        if mask.shape() != tokens.shape() {
            let (what, expected, got) =
                ("the mask", tokens.shape().to_vec(), mask.shape().to_vec());
            return Err(Error::ShapeMismatch { op, what, expected, got });
        }
        let integers = |what: &'static str, x: &Tensor| match x.dtype() {
            DType::I64 => x.to_vec::<i64>(),
            got => Err(Error::DTypeMismatch { op, what, expected: DType::I64, got }),
        };
        let tokens = integers("the tokens", tokens)?;
        let shown = match mask.dtype() {
            DType::Bool => mask.to_bools()?,
            _ => integers("the mask", mask)?.into_iter().map(|number| number != 0).collect(),
        };
        let rows = tokens.chunks(length.max(1)).zip(shown.chunks(length.max(1)));
        let prompt = |(row, (tokens, shown)): (usize, (&[i64], &[bool]))| {
            let first = shown.iter().position(|&shown| shown);
            let last = shown.iter().rposition(|&shown| shown);
            let (Some(first), Some(last)) = (first, last) else {
                return Err(Error::invalid(op, format!("expected tokens in row {row}, got none")));
            };
            if let Some(gap) = shown[first..last].iter().position(|&shown| !shown) {
                let message = format!(
                    "expected padding before and after the tokens of row {row}, got some at {}",
                    first + gap
                );
                return Err(Error::invalid(op, message));
            }
            Ok(Prompt { sequence: row as u64, tokens: tokens[first..=last].to_vec() })
        };
        rows.enumerate().map(prompt).collect()
    }
}

/// Options of [`Gpt::generate`].
///
/// The fields from `batch` on change the speed and the memory, not a bit of the result.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// The way to choose tokens (default: greedy).
    pub sampling: Sampling,
    /// The largest number of new tokens in a sequence (default 64).
    pub max_new_tokens: usize,
    /// The tokens that end a sequence; the result includes them (default: none).
    pub stop_tokens: Vec<i64>,
    /// The largest number of sequences at a time (default 8). When a sequence ends, the next
    /// prompt joins.
    pub batch: usize,
    /// The largest number of tokens of a prompt to compute at a time (default 512).
    pub prefill: usize,
    /// If false, computes the whole sequence anew for each token (default true).
    pub cache: bool,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions {
            sampling: Sampling::default(),
            max_new_tokens: 64,
            stop_tokens: Vec::new(),
            batch: 8,
            prefill: 512,
            cache: true,
        }
    }
}

/// A token that was just generated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewToken {
    /// The number of its sequence.
    pub sequence: u64,
    /// The position in the sequence, prompt included.
    pub position: usize,
    /// The token.
    pub token: i64,
    /// The logarithm of its probability by [`log_softmax`](functional::log_softmax) of the logits,
    /// before temperature, `top_k` and `top_p`.
    pub log_probability: f64,
}

/// The reason why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The last token is a stop token.
    Stop,
    /// The sequence has the largest number of new tokens, or fills the context.
    Length,
    /// The callback ended the generation.
    Interrupted,
}

/// A continued sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The number of the sequence.
    pub sequence: u64,
    /// The new tokens.
    pub tokens: Vec<i64>,
    /// The logarithm of the probability of each; see [`NewToken::log_probability`].
    pub log_probabilities: Vec<f64>,
    /// The reason for the end.
    pub finish: Finish,
}

/// A sequence at work.
struct Running {
    /// The place of its prompt.
    place: usize,
    /// Prompt and new tokens.
    tokens: Vec<i64>,
    cache: KvCache,
}

/// The logits of the next token, and their `log_softmax`.
type Row = (Vec<f64>, Vec<f64>);

impl Gpt {
    /// Continues prompts, several at a time, and calls `each` for every new token. If `each`
    /// breaks, generation ends. The results are in the order of the prompts.
    ///
    /// # Determinism
    ///
    /// Portable. A sequence depends on its number, its prompt, and the options above `batch`, not
    /// on the other prompts. A log-probability has the bits that
    /// [`forward`](Gpt::forward) and [`log_softmax`](functional::log_softmax) give for the whole
    /// sequence. The order of calls of `each` depends on the batch; those of one sequence come in
    /// order.
    ///
    /// # Errors
    ///
    /// A prompt is empty or longer than the context, two prompts have one sequence number, a
    /// sampling option is out of range (see [`Sampling::check`]), `batch` or `prefill` is 0, a
    /// token exceeds the vocabulary, or a logit is NaN.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate samebits_autograd as samebits;
    /// use std::ops::ControlFlow;
    ///
    /// use samebits::nn::{GenerateOptions, Gpt, Prompt, Sampling};
    ///
    /// samebits_tensor_core::random::manual_seed(0);
    /// let model = Gpt::options(50, 16, 2, 2).context(16).init()?;
    /// let prompts =
    ///     [vec![3, 1, 4], vec![2]].map(|tokens| Prompt { sequence: tokens.len() as u64, tokens });
    /// let sampling = Sampling { temperature: Some(0.9), top_p: Some(0.95), ..Sampling::default() };
    /// let options = GenerateOptions { sampling, max_new_tokens: 5, ..GenerateOptions::default() };
    /// let mut streamed = 0;
    /// let both = model.generate(&prompts, &options, |_| {
    ///     streamed += 1;
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!((both[0].tokens.len(), streamed), (5, 10));
    /// // A prompt alone gives the same tokens.
    /// let alone = model.generate(&prompts[1..], &options, |_| ControlFlow::Continue(()))?;
    /// assert_eq!(alone[0], both[1]);
    /// # Ok::<(), samebits::Error>(())
    /// ```
    pub fn generate(
        &self,
        prompts: &[Prompt],
        options: &GenerateOptions,
        mut each: impl FnMut(NewToken) -> ControlFlow<()>,
    ) -> Result<Vec<Generated>> {
        self.check_prompts(prompts, options)?;
        let empty = |prompt: &Prompt| Generated {
            sequence: prompt.sequence,
            tokens: Vec::new(),
            log_probabilities: Vec::new(),
            finish: Finish::Length,
        };
        let mut results: Vec<Generated> = prompts.iter().map(empty).collect();
        let room =
            |tokens: usize, new: usize| tokens < self.context && new < options.max_new_tokens;
        let mut waiting = (prompts.iter().enumerate())
            .filter(|(_, prompt)| room(prompt.tokens.len(), 0))
            .map(|(place, prompt)| Running {
                place,
                tokens: prompt.tokens.clone(),
                cache: KvCache::new(),
            });
        let mut running: Vec<Running> = Vec::new();
        loop {
            running.extend(waiting.by_ref().take(options.batch - running.len()));
            if running.is_empty() {
                return Ok(results);
            }
            let logits = self.next(&mut running, options)?;
            let mut rows = logits.into_iter();
            let mut interrupted = false;
            let mut left = Vec::new();
            for mut sequence in running {
                let row = rows.next().flatten().filter(|_| !interrupted);
                let Some((logits, logs)) = row else {
                    left.push(sequence);
                    continue;
                };
                let result = &mut results[sequence.place];
                let position = sequence.tokens.len();
                let choice = options.sampling.choose(&logits, result.sequence, position as u64)?;
                let (token, log_probability) = (choice as i64, logs[choice]);
                sequence.tokens.push(token);
                result.tokens.push(token);
                result.log_probabilities.push(log_probability);
                let new = NewToken { sequence: result.sequence, position, token, log_probability };
                interrupted = each(new).is_break();
                if options.stop_tokens.contains(&token) {
                    result.finish = Finish::Stop;
                } else if room(sequence.tokens.len(), result.tokens.len()) {
                    left.push(sequence);
                }
            }
            if interrupted {
                let unfinished = left.into_iter().chain(waiting);
                unfinished.for_each(|run| results[run.place].finish = Finish::Interrupted);
                return Ok(results);
            }
            running = left;
        }
    }

    fn check_prompts(&self, prompts: &[Prompt], options: &GenerateOptions) -> Result<()> {
        let refuse = |message: String| Err(Error::invalid("generate", message));
        options.sampling.check()?;
        for (name, value) in [("batch", options.batch), ("prefill", options.prefill)] {
            if value == 0 {
                return refuse(format!("expected a {name} of at least 1, got 0"));
            }
        }
        let mut numbers = std::collections::BTreeSet::new();
        for prompt in prompts {
            let (sequence, length) = (prompt.sequence, prompt.tokens.len());
            if length == 0 || length > self.context {
                return refuse(format!(
                    "expected prompts of 1 to {} tokens, got {length} in sequence {sequence}",
                    self.context
                ));
            }
            if !numbers.insert(sequence) {
                return refuse(format!("expected a number for each prompt, got {sequence} twice"));
            }
        }
        Ok(())
    }

    /// Computes the next tokens of every sequence. Returns logits and their `log_softmax` for the
    /// last token, or `None` if part of a prompt is still to come.
    fn next(&self, running: &mut [Running], options: &GenerateOptions) -> Result<Vec<Option<Row>>> {
        let device = self.tokens.weight.get().device();
        let mut tokens = Vec::new();
        for run in &mut *running {
            if !options.cache {
                run.cache.truncate(0)?;
            }
            let rest = &run.tokens[run.cache.len()..];
            let rest = if options.cache { &rest[..rest.len().min(options.prefill)] } else { rest };
            tokens.push(Tensor::from_slice(rest, &[rest.len()])?.to(device)?);
        }
        let mut caches: Vec<&mut KvCache> = running.iter_mut().map(|run| &mut run.cache).collect();
        let tokens: Vec<&Tensor> = tokens.iter().collect();
        let logits = self.forward_cached_batch(&tokens, &mut caches)?;
        let (mut rows, mut end) = (Vec::new(), 0);
        for (tokens, run) in tokens.iter().zip(&*running) {
            end += tokens.numel();
            if run.cache.len() < run.tokens.len() {
                rows.push(None);
                continue;
            }
            let last = functional::narrow(&logits, 0, end - 1, 1)?;
            rows.push(Some((wide(&last)?, wide(&functional::log_softmax(&last, -1)?)?)));
        }
        Ok(rows)
    }
}

/// Returns numbers in f64, which holds each of them.
fn wide(x: &Tensor) -> Result<Vec<f64>> {
    match x.dtype() {
        DType::F32 => Ok(x.to_vec::<f32>()?.into_iter().map(f64::from).collect()),
        _ => x.to_dtype(DType::F64)?.to_vec::<f64>(),
    }
}
