//! Random schedules of batches: generation has the bits of the training forward pass of each
//! sequence alone.

use std::ops::ControlFlow;

use samebits_autograd::functional::{ClassLoss, Reduction, log_softmax};
use samebits_autograd::nn::{
    GenerateOptions, Gpt, GptActivation, GptNormKind, GptPositions, KvCache, Module, Prompt,
    Sampling,
};
use samebits_autograd::{DType, Tensor, functional, no_grad};
use samebits_rng::Generator;

use super::{CONTEXT, VOCABULARY, bits, built, forms, row};

/// The number of schedules, if not [`SCHEDULES`]. A thousand take some minutes.
const COUNT: &str = "SAMEBITS_TEST_SCHEDULES";
const SCHEDULES: u64 = 60;

/// A fault of an engine that generates text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Prompts begin with a token of padding.
    LeftPad,
    /// The first two tokens of each chunk change places.
    Order,
    /// The random number of a token depends on the place of its sequence in the batch.
    Place,
    /// A sequence that decodes reads the cache of another one, once.
    Cache,
    /// The logits of one token are a unit in the last place greater or less.
    Bit,
}

/// A generated token and the bits of its log-probability.
type Token = (i64, u64);

/// A sequence of an engine.
struct Run {
    prompt: Prompt,
    end: usize,
    tokens: Vec<i64>,
    cache: KvCache,
    new: Vec<Token>,
}

/// An engine with a schedule from a generator.
struct Engine<'a> {
    model: &'a Gpt,
    sampling: Sampling,
    schedule: Generator,
    fault: Option<Fault>,
}

impl Engine<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.schedule.next_block()[0] as usize % n
    }

    /// Generates with [`Gpt::forward_cached_batch`]. In each step a random choice of the running
    /// sequences, in random order, computes a random number of its next tokens. Sequences join at
    /// random, leave at their ends, lose their cache, or a part of it, at random.
    fn steps(&mut self, prompts: &[Prompt], batch: usize) -> Vec<Vec<Token>> {
        let mut waiting: Vec<usize> = (0..prompts.len()).rev().collect();
        let mut running: Vec<(usize, Run)> = Vec::new();
        let mut done = vec![Vec::new(); prompts.len()];
        let longest = 1 + self.below(13);
        while !running.is_empty() || !waiting.is_empty() {
            while running.len() < batch && (running.is_empty() || self.below(3) > 0) {
                let Some(place) = waiting.pop() else { break };
                let prompt = prompts[place].clone();
                let mut tokens = prompt.tokens.clone();
                if self.fault == Some(Fault::LeftPad) {
                    tokens.insert(0, 0);
                }
                let end = (tokens.len() + 1 + self.below(12)).min(CONTEXT);
                let run = Run { prompt, end, tokens, cache: KvCache::new(), new: Vec::new() };
                running.push((place, run));
            }
            for i in (1..running.len()).rev() {
                let j = self.below(i + 1);
                running.swap(i, j);
            }
            let active = 1 + self.below(running.len());
            self.step(&mut running[..active], longest);
            let ended = running.iter().filter(|(_, run)| run.tokens.len() >= run.end);
            ended.for_each(|(place, run)| done[*place] = run.new.clone());
            running.retain(|(_, run)| run.tokens.len() < run.end);
        }
        done
    }

    fn step(&mut self, running: &mut [(usize, Run)], longest: usize) {
        let mut parts = Vec::new();
        for (_, run) in running.iter_mut() {
            match self.below(24) {
                0 => run.cache = KvCache::new(),
                1 => run.cache.truncate(run.cache.len() / 2).unwrap(),
                _ => {}
            }
            let rest = &run.tokens[run.cache.len()..];
            let mut part = rest[..rest.len().min(1 + self.below(longest))].to_vec();
            if self.fault == Some(Fault::Order) && part.len() > 1 {
                part.swap(0, 1);
            }
            parts.push(row(&part));
        }
        if self.fault == Some(Fault::Cache)
            && let [(_, a), (_, b), ..] = running
            && a.cache.len() == b.cache.len()
            && !a.cache.is_empty()
        {
            std::mem::swap(&mut a.cache, &mut b.cache);
            self.fault = None;
        }
        let mut caches: Vec<&mut KvCache> =
            running.iter_mut().map(|(_, run)| &mut run.cache).collect();
        let parts: Vec<&Tensor> = parts.iter().collect();
        let logits = self.model.forward_cached_batch(&parts, &mut caches).unwrap();
        let mut end = 0;
        for (place, (part, (_, run))) in parts.iter().zip(running).enumerate() {
            end += part.numel();
            if run.cache.len() < run.tokens.len() {
                continue;
            }
            let mut last = logits.narrow(0, end - 1, 1).unwrap();
            if self.fault == Some(Fault::Bit) {
                last = one_bit_off(&last);
                self.fault = None;
            }
            let number = match self.fault {
                Some(Fault::Place) => place as u64,
                _ => run.prompt.sequence,
            };
            let token = chosen(&last, self.sampling, number, run.tokens.len());
            run.tokens.push(token.0);
            run.new.push(token);
        }
    }
}

/// Adds a unit in the last place to each second number, and subtracts it from the others.
fn one_bit_off(logits: &Tensor) -> Tensor {
    let mut values = logits.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    for (i, value) in values.iter_mut().enumerate() {
        *value = match (logits.dtype(), i % 2) {
            (DType::F32, 0) => f64::from((*value as f32).next_up()),
            (DType::F32, _) => f64::from((*value as f32).next_down()),
            (_, 0) => value.next_up(),
            _ => value.next_down(),
        };
    }
    let values = Tensor::from_slice(&values, logits.shape()).unwrap();
    values.to_dtype(logits.dtype()).unwrap()
}

/// Chooses the token at `position` from its logits.
fn chosen(logits: &Tensor, sampling: Sampling, sequence: u64, position: usize) -> Token {
    let wide = |x: &Tensor| x.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    let choice = sampling.choose(&wide(logits), sequence, position as u64).unwrap();
    (choice as i64, wide(&log_softmax(logits, -1).unwrap())[choice].to_bits())
}

/// Compares generated tokens with what the forward pass of training gives for the whole sequence,
/// alone and in a batch that is padded on the right.
fn check(
    model: &Gpt,
    sampling: Sampling,
    pad: i64,
    prompts: &[Prompt],
    found: &[Vec<Token>],
) -> Result<usize, String> {
    let whole: Vec<Vec<i64>> = (prompts.iter().zip(found))
        .map(|(prompt, new)| {
            prompt.tokens.iter().copied().chain(new.iter().map(|new| new.0)).collect()
        })
        .collect();
    let longest = whole.iter().map(Vec::len).max().unwrap_or(0);
    let padded: Vec<i64> = (whole.iter())
        .flat_map(|text| text.iter().copied().chain(std::iter::repeat(pad)).take(longest))
        .collect();
    let padded = Tensor::from_slice(&padded, &[whole.len(), longest]).unwrap();
    let padded = no_grad(|| model.forward(&padded)).unwrap();
    let mut count = 0;
    for (i, ((prompt, new), whole)) in prompts.iter().zip(found).zip(&whole).enumerate() {
        let alone = no_grad(|| model.forward(&row(whole).unsqueeze(0).unwrap())).unwrap();
        let alone = alone.select(0, 0).unwrap();
        let of_batch = padded.select(0, i as i64).unwrap().narrow(0, 0, whole.len()).unwrap();
        if bits(&alone) != bits(&of_batch) {
            return Err(format!("sequence {i}: padding on the right"));
        }
        if new.is_empty() {
            return Err(format!("sequence {i}: nothing was generated"));
        }
        for (k, token) in new.iter().enumerate() {
            let position = prompt.tokens.len() + k;
            let logits = alone.narrow(0, position - 1, 1).unwrap();
            let expected = chosen(&logits, sampling, prompt.sequence, position);
            if *token != expected {
                return Err(format!("sequence {i}, token {k}: {token:?}, not {expected:?}"));
            }
        }
        count += new.len();
    }
    Ok(count)
}

/// Runs the schedule of a seed and returns the number of tokens.
fn schedule(models: &[Gpt], seed: u64, fault: Option<Fault>) -> Result<usize, String> {
    let mut schedule = Generator::new(1_000_000 + seed);
    let mut below = |n: usize| schedule.next_block()[0] as usize % n;
    let model = &models[below(models.len())];
    let sampling = match below(4) {
        0 if fault != Some(Fault::Place) => Sampling::default(),
        _ => Sampling { temperature: Some(1.3), top_k: Some(20), top_p: Some(0.97), seed },
    };
    let prompts: Vec<Prompt> = (0..1 + below(32))
        .map(|i| Prompt {
            sequence: 5 + 1009 * i as u64,
            tokens: (0..1 + below(20)).map(|_| below(VOCABULARY) as i64).collect(),
        })
        .collect();
    let (batch, pad) = (1 + below(32), below(VOCABULARY) as i64);
    let found = if fault.is_some() || below(2) == 0 {
        Engine { model, sampling, schedule: schedule.clone(), fault }.steps(&prompts, batch)
    } else {
        let options = GenerateOptions {
            sampling,
            max_new_tokens: 1 + below(12),
            stop_tokens: vec![2, 17],
            batch,
            prefill: 1 + below(21),
            cache: below(4) > 0,
        };
        let found = model.generate(&prompts, &options, |_| ControlFlow::Continue(())).unwrap();
        let pairs = |tokens: &[i64], logs: &[f64]| {
            tokens.iter().copied().zip(logs.iter().map(|log| log.to_bits())).collect()
        };
        found.iter().map(|one| pairs(&one.tokens, &one.log_probabilities)).collect()
    };
    check(model, sampling, pad, &prompts, &found)
}

#[test]
fn any_schedule_generates_with_the_bits_of_training() {
    let models = forms().map(|form| built(&form));
    let schedules = std::env::var(COUNT).map_or(SCHEDULES, |count| count.parse().unwrap());
    let mut tokens = 0;
    for seed in 0..schedules {
        tokens += schedule(&models, seed, None).unwrap_or_else(|what| panic!("{seed}: {what}"));
    }
    assert!(tokens > 20 * schedules as usize, "{tokens}");
}

/// The check finds each fault in at least 4 of 10 schedules that have it.
#[test]
fn faults_of_an_engine_are_found() {
    let models = forms().map(|form| built(&form));
    for fault in [Fault::LeftPad, Fault::Order, Fault::Place, Fault::Cache, Fault::Bit] {
        let found = (0..10).filter(|&seed| schedule(&models, seed, Some(fault)).is_err()).count();
        // A schedule may have no chunk of two tokens, or no two caches of one length; the logit may
        // be lost in a sum.
        assert!(found >= 4, "{fault:?}: {found} of 10");
    }
}

/// Returns models with another projection to logits than the table of tokens, so that a row of its
/// gradient is that of the embedded input if each token occurs once.
fn untied() -> [Gpt; 2] {
    let options = Gpt::options(WIDE, 16, 4, 2).context(CONTEXT).tie(false);
    let llama = (options.clone().kv_heads(2).norm(GptNormKind::Rms).bias(false))
        .positions(GptPositions::Rotary { base: 500.0 })
        .activation(GptActivation::SwiGlu);
    [options, llama].map(|options| built(&options))
}

const WIDE: usize = 400;

/// Returns texts of tokens that occur once. Token 0 is for padding.
fn distinct(count: usize, seed: u64) -> Vec<Vec<i64>> {
    let mut generator = Generator::new(seed);
    let mut next = 1..WIDE as i64;
    (0..count)
        .map(|_| {
            let length = 2 + generator.next_block()[0] as usize % 11;
            next.by_ref().take(length).collect()
        })
        .collect()
}

/// Returns the gradients of all parameters, by name, for texts that are padded on the right and the
/// sum of the losses of the texts in `counted`.
fn gradients(model: &Gpt, texts: &[Vec<i64>], counted: &[bool]) -> Vec<(String, Tensor)> {
    let length = texts.iter().map(|text| text.len() - 1).max().unwrap();
    let (mut input, mut target) = (Vec::new(), Vec::new());
    for (text, &counted) in texts.iter().zip(counted) {
        for k in 0..length {
            let next = text.get(k + 1);
            input.push(next.map_or(0, |_| text[k]));
            target.push(next.filter(|_| counted).map_or(-100, |&next| next));
        }
    }
    let input = Tensor::from_slice(&input, &[texts.len(), length]).unwrap();
    let target = Tensor::from_slice(&target, &[texts.len() * length]).unwrap();
    let logits = model.forward(&input).unwrap().flatten(0, 1).unwrap();
    let options = ClassLoss { reduction: Reduction::Sum, ..ClassLoss::default() };
    let loss = functional::cross_entropy_with(&logits, &target, &options).unwrap();
    let found = loss.backward().unwrap();
    let of = |(name, x): (String, Tensor)| (name, found.of(&x).unwrap().clone());
    model.named_parameters().into_iter().map(of).collect()
}

/// The gradient of a sequence's embedded input does not depend on the rest of the batch. That of a
/// parameter is a sum over the batch; sequences at the end that the loss does not count add zeros.
#[test]
fn gradients_of_a_sequence_are_those_of_it_alone() {
    for (form, model) in untied().iter().enumerate() {
        for count in [1, 2, 7, 32] {
            let texts = distinct(count, count as u64);
            let batch = gradients(model, &texts, &vec![true; count]);
            let mut first = vec![false; count];
            first[0] = true;
            let of_first = gradients(model, &texts, &first);
            for (i, text) in texts.iter().enumerate() {
                let alone = gradients(model, std::slice::from_ref(text), &[true]);
                assert_eq!(alone[0].0, "tokens.weight");
                for &token in &text[..text.len() - 1] {
                    let [a, b] =
                        [&alone, &batch].map(|all| bits(&all[0].1.select(0, token).unwrap()));
                    assert!(a.iter().any(|&byte| byte != 0));
                    assert_eq!(a, b, "form {form}, sequence {i} of {count}, token {token}");
                }
                if i > 0 {
                    continue;
                }
                for ((name, a), (_, b)) in alone.iter().zip(&of_first) {
                    assert_eq!(bits(a), bits(b), "form {form}, {name}, first of {count}");
                }
            }
        }
        // The order of the batch is part of a sum, so of parameters' gradients.
        let texts = distinct(32, 32);
        let mut turned = texts.clone();
        turned.reverse();
        let [a, b] = [&texts, &turned].map(|texts| gradients(model, texts, &[true; 32]));
        assert!(a.iter().zip(&b).any(|((_, a), (_, b))| bits(a) != bits(b)));
    }
}
