//! Generation: a token and its log-probability depend on the sequence alone.

use std::f64::consts::E;
use std::ops::ControlFlow;

use samebits_autograd::functional::log_softmax;
use samebits_autograd::nn::{Finish, GenerateOptions, Generated, Gpt, NewToken, Prompt, Sampling};
use samebits_autograd::{DType, Tensor};
use samebits_rng::Generator;

use super::{CONTEXT, VOCABULARY, built, forms, row, tokens};

/// Models as GPT-2 and as Llama. Dropout does nothing while they generate.
fn models() -> [Gpt; 2] {
    let [gpt2, llama, _] = forms();
    [built(&gpt2.dropout(0.5)), built(&llama)]
}

fn below(generator: &mut Generator, n: usize) -> usize {
    generator.next_block()[0] as usize % n
}

/// Returns prompts of 1 to 12 tokens, with numbers that are not their places.
fn prompts(count: usize) -> Vec<Prompt> {
    let mut generator = Generator::new(5);
    (0..count)
        .map(|i| {
            let length = 1 + below(&mut generator, 12);
            let tokens = (0..length).map(|_| below(&mut generator, VOCABULARY) as i64).collect();
            Prompt { sequence: 1000 - 7 * i as u64, tokens }
        })
        .collect()
}

fn go(_: NewToken) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn drawn(seed: u64) -> Sampling {
    Sampling { temperature: Some(1.3), top_k: Some(20), top_p: Some(0.97), seed }
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// Returns the log-probabilities of the new tokens by the forward pass of training, in a batch
/// that is padded on the right.
fn trained(model: &Gpt, prompts: &[Prompt], results: &[Generated], pad: i64) -> Vec<Vec<f64>> {
    let mut rows: Vec<i64> = Vec::new();
    for (prompt, result) in prompts.iter().zip(results) {
        let whole = prompt.tokens.iter().chain(&result.tokens);
        let row: Vec<i64> = whole.copied().chain(std::iter::repeat(pad)).take(CONTEXT).collect();
        rows.extend(row);
    }
    let tokens = Tensor::from_slice(&rows, &[prompts.len(), CONTEXT]).unwrap();
    let logs = log_softmax(&model.forward(&tokens).unwrap(), -1).unwrap();
    let logs = logs.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    let of = |i: usize, position: usize, token: i64| {
        logs[(i * CONTEXT + position - 1) * VOCABULARY + token as usize]
    };
    (prompts.iter().zip(results).enumerate())
        .map(|(i, (prompt, result))| {
            let new = result.tokens.iter().enumerate();
            new.map(|(k, &token)| of(i, prompt.tokens.len() + k, token)).collect()
        })
        .collect()
}

/// Over random schedules, where sequences join and leave, prompts are computed in chunks and the
/// cache is on or off, tokens are those of the sequence alone and the bits of log-probabilities
/// those of training.
#[test]
fn training_and_generation_have_the_same_bits() {
    let all = prompts(8);
    let mut schedule = Generator::new(11);
    for (form, model) in models().iter().enumerate() {
        for sampling in [Sampling::default(), drawn(3)] {
            let options = |batch, prefill, cache| GenerateOptions {
                sampling,
                max_new_tokens: 14,
                stop_tokens: vec![2, 17],
                batch,
                prefill,
                cache,
            };
            let alone: Vec<Generated> = (all.iter())
                .map(|prompt| {
                    let one = std::slice::from_ref(prompt);
                    model.generate(one, &options(1, CONTEXT, true), go).unwrap().remove(0)
                })
                .collect();
            for round in 0..12 {
                let mut places: Vec<usize> = (0..8).collect();
                for i in (1..8).rev() {
                    places.swap(i, below(&mut schedule, i + 1));
                }
                places.truncate(1 + below(&mut schedule, 8));
                let chosen: Vec<Prompt> = places.iter().map(|&i| all[i].clone()).collect();
                let options = options(
                    1 + below(&mut schedule, 8),
                    1 + below(&mut schedule, 13),
                    below(&mut schedule, 4) > 0,
                );
                let found = model.generate(&chosen, &options, go).unwrap();
                let pad = below(&mut schedule, VOCABULARY) as i64;
                let logs = trained(model, &chosen, &found, pad);
                for ((&place, found), logs) in places.iter().zip(&found).zip(&logs) {
                    let what = format!("form {form}, round {round}, sequence {place}, {options:?}");
                    assert_eq!(found.tokens, alone[place].tokens, "{what}");
                    assert_eq!(found.finish, alone[place].finish, "{what}");
                    let of_found = bits(&found.log_probabilities);
                    assert_eq!(of_found, bits(&alone[place].log_probabilities), "{what}");
                    assert_eq!(of_found, bits(logs), "{what}: training");
                }
            }
            // Drawn sequences end at different times.
            let lengths: std::collections::BTreeSet<usize> =
                alone.iter().map(|result| result.tokens.len()).collect();
            assert!(lengths.len() > 1 || sampling == Sampling::default(), "{lengths:?}");
        }
    }
}

/// The test above could fail: another sequence number, seed or position, and padding on the left
/// change tokens or bits.
#[test]
fn what_may_change_a_sequence_changes_it() {
    let model = &models()[1];
    let prompt = &prompts(8)[..1];
    let options = |seed| GenerateOptions { sampling: drawn(seed), ..GenerateOptions::default() };
    let found = model.generate(prompt, &options(3), go).unwrap().remove(0);
    let other = [Prompt { sequence: 1, ..prompt[0].clone() }];
    assert_ne!(model.generate(&other, &options(3), go).unwrap()[0].tokens, found.tokens);
    assert_ne!(model.generate(prompt, &options(4), go).unwrap()[0].tokens, found.tokens);
    let choose = |position| drawn(3).choose(&[0.0; 20], 1, position).unwrap();
    assert!((1..20).any(|position| choose(position) != choose(0)));
    let mut padded = prompt.to_vec();
    padded[0].tokens.insert(0, 0);
    let left = model.generate(&padded, &options(3), go).unwrap().remove(0);
    assert_ne!(bits(&left.log_probabilities), bits(&found.log_probabilities));
}

#[test]
fn streams_stops_and_interruptions() {
    let [model, _] = models();
    let all = prompts(5);
    let options =
        GenerateOptions { sampling: drawn(9), max_new_tokens: 6, batch: 2, ..Default::default() };
    let mut streamed: Vec<NewToken> = Vec::new();
    let results = model
        .generate(&all, &options, |token| {
            streamed.push(token);
            ControlFlow::Continue(())
        })
        .unwrap();
    for (prompt, result) in all.iter().zip(&results) {
        assert_eq!((prompt.sequence, result.finish), (result.sequence, Finish::Length));
        let own: Vec<&NewToken> =
            streamed.iter().filter(|token| token.sequence == prompt.sequence).collect();
        assert_eq!(own.iter().map(|token| token.token).collect::<Vec<_>>(), result.tokens);
        let positions: Vec<usize> = own.iter().map(|token| token.position).collect();
        let start = prompt.tokens.len();
        assert_eq!(positions, (start..start + 6).collect::<Vec<_>>());
        let logs: Vec<f64> = own.iter().map(|token| token.log_probability).collect();
        assert_eq!(bits(&logs), bits(&result.log_probabilities));
        assert!(logs.iter().all(|&log| log < 0.0));
    }
    // A stop token ends its sequence and is part of the result.
    let stop = results[0].tokens[2];
    let stopping = GenerateOptions { stop_tokens: vec![stop], ..options.clone() };
    let stopped = model.generate(&all[..1], &stopping, go).unwrap().remove(0);
    let end = 1 + results[0].tokens.iter().position(|&token| token == stop).unwrap();
    assert_eq!((&stopped.tokens[..], stopped.finish), (&results[0].tokens[..end], Finish::Stop));
    // The fifth token is the first sequence's third; no other follows.
    let mut count = 0;
    let interrupted = model
        .generate(&all, &options, |_| {
            count += 1;
            if count == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(count, 5);
    let found: Vec<(usize, Finish)> =
        interrupted.iter().map(|result| (result.tokens.len(), result.finish)).collect();
    assert_eq!(found, [3, 2, 0, 0, 0].map(|length| (length, Finish::Interrupted)));
    // The context ends a sequence; a full prompt gets nothing.
    let full = |length: usize| Prompt { sequence: length as u64, tokens: vec![3; length] };
    let ends = model.generate(&[full(38), full(40)], &options, go).unwrap();
    assert_eq!(ends.iter().map(|end| end.tokens.len()).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(ends[1].finish, Finish::Length);
    assert_eq!(model.generate(&[], &options, go).unwrap(), []);
    let none = GenerateOptions { max_new_tokens: 0, ..options };
    assert!(model.generate(&all, &none, go).unwrap().iter().all(|end| end.tokens.is_empty()));
}

#[test]
fn sampling_follows_the_probabilities() {
    let logits = [0.0, 1.0, -0.5, f64::NEG_INFINITY, 1.0, 0.25];
    let greedy = Sampling::default();
    assert_eq!(greedy.choose(&logits, 0, 0).unwrap(), 1);
    assert_eq!(greedy.choose(&[-0.0, 0.0], 0, 0).unwrap(), 0);
    let shares = |sampling: Sampling| {
        let mut counts = [0.0f64; 6];
        for position in 0..20_000 {
            counts[sampling.choose(&logits, 4, position).unwrap()] += 1.0;
        }
        counts.map(|count| count / 20_000.0)
    };
    let near = |found: [f64; 6], weights: [f64; 6]| {
        let total: f64 = weights.iter().sum();
        for (found, weight) in found.iter().zip(weights) {
            let expected = weight / total;
            // Five standard deviations; exact for weights of 0.
            let allowed = 5.0 * (expected * (1.0 - expected) / 20_000.0).sqrt();
            assert!((found - expected).abs() <= allowed, "{found} for {expected}");
        }
    };
    let at = |temperature| Sampling { temperature: Some(temperature), ..Sampling::default() };
    // Exponentials of the logits.
    let weights = [1.0, E, 0.606530660, 0.0, E, 1.284025417];
    near(shares(at(1.0)), weights);
    near(shares(at(2.0)), weights.map(f64::sqrt));
    near(
        shares(Sampling { top_k: Some(3), ..at(1.0) }),
        [0.0, weights[1], 0.0, 0.0, weights[4], weights[5]],
    );
    near(shares(Sampling { top_k: Some(1), ..at(1.0) }), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    // The probabilities in order are 0.327, 0.327, 0.154, 0.120, 0.073.
    near(
        shares(Sampling { top_p: Some(0.7), ..at(1.0) }),
        [0.0, weights[1], 0.0, 0.0, weights[4], weights[5]],
    );
    near(shares(Sampling { top_p: Some(1e-9), ..at(1.0) }), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    near(shares(Sampling { top_p: Some(1.0), top_k: Some(99), ..at(1.0) }), weights);
    // `top_p` is a share of what `top_k` leaves: 0.4, 0.4, 0.2.
    near(
        shares(Sampling { top_p: Some(0.75), top_k: Some(3), ..at(1.0) }),
        [0.0, 1.0, 0.0, 0.0, 1.0, 0.0],
    );
    near(shares(at(1e-300)), [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn arguments_out_of_range_are_refused() {
    let base = Sampling { temperature: Some(1.0), ..Sampling::default() };
    for (sampling, expected) in [
        (Sampling { temperature: Some(0.0), ..base }, "a positive finite temperature, got 0"),
        (Sampling { temperature: Some(-1.0), ..base }, "a positive finite temperature, got -1"),
        (
            Sampling { temperature: Some(f64::NAN), ..base },
            "a positive finite temperature, got NaN",
        ),
        (
            Sampling { temperature: Some(f64::INFINITY), ..base },
            "a positive finite temperature, got inf",
        ),
        (Sampling { top_k: Some(0), ..base }, "a top_k of at least 1, got 0"),
        (Sampling { top_p: Some(0.0), ..base }, "0 < top_p <= 1, got 0"),
        (Sampling { top_p: Some(1.5), ..base }, "0 < top_p <= 1, got 1.5"),
        (Sampling { top_p: Some(f64::NAN), ..base }, "0 < top_p <= 1, got NaN"),
        (
            Sampling { temperature: None, top_k: Some(2), ..base },
            "a temperature with top_k or top_p, got none",
        ),
    ] {
        let error = sampling.choose(&[0.0], 0, 0).unwrap_err().to_string();
        assert_eq!(error, format!("Sampling: expected {expected}"));
        let options = GenerateOptions { sampling, ..GenerateOptions::default() };
        assert_eq!(models()[0].generate(&[], &options, go).unwrap_err().to_string(), error);
    }
    for logits in
        [&[][..], &[f64::NAN, 1.0], &[1.0, f64::NAN], &[f64::INFINITY], &[f64::NEG_INFINITY]]
    {
        let error = base.choose(logits, 0, 0).unwrap_err().to_string();
        assert_eq!(error, "Sampling: expected logits without NaN, the largest of them finite");
    }
    let [model, _] = models();
    let prompt = |sequence, tokens: &[i64]| Prompt { sequence, tokens: tokens.to_vec() };
    let options = GenerateOptions::default();
    for (prompts, options, expected) in [
        (
            vec![prompt(5, &[])],
            options.clone(),
            "generate: expected prompts of 1 to 40 tokens, got 0 in sequence 5",
        ),
        (
            vec![prompt(5, &[1; 41])],
            options.clone(),
            "generate: expected prompts of 1 to 40 tokens, got 41 in sequence 5",
        ),
        (
            vec![prompt(5, &[1]), prompt(5, &[2])],
            options.clone(),
            "generate: expected a number for each prompt, got 5 twice",
        ),
        (
            vec![],
            GenerateOptions { batch: 0, ..options.clone() },
            "generate: expected a batch of at least 1, got 0",
        ),
        (
            vec![],
            GenerateOptions { prefill: 0, ..options.clone() },
            "generate: expected a prefill of at least 1, got 0",
        ),
        (vec![prompt(5, &[31])], options.clone(), "Gpt: "),
        (vec![prompt(5, &[-1])], options, "Gpt: "),
    ] {
        let error = model.generate(&prompts, &options, go).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// `generate` computes nothing of the padding that a batch has at the front or at the end.
#[test]
fn generation_moves_padding_away() {
    let model = built(&forms()[1]);
    let texts = [tokens(5, 2), tokens(9, 3), tokens(1, 4)];
    let (mut rows, mut shown) = (Vec::new(), Vec::new());
    for (i, text) in texts.iter().enumerate() {
        // At the front, and for one row at the end.
        let padding = vec![7; 9 - text.len()];
        let hidden = vec![0; padding.len()];
        let ones = vec![1; text.len()];
        let order = |padding: Vec<i64>, own: Vec<i64>| match i {
            0 => [own, padding].concat(),
            _ => [padding, own].concat(),
        };
        rows.extend(order(padding, text.clone()));
        shown.extend(order(hidden, ones));
    }
    let rows = Tensor::from_slice(&rows, &[3, 9]).unwrap();
    let shown = Tensor::from_slice(&shown, &[3, 9]).unwrap();
    let prompts = Prompt::unpadded(&rows, &shown).unwrap();
    assert_eq!(prompts, Prompt::unpadded(&rows, &shown.gt(0).unwrap()).unwrap());
    let options = GenerateOptions { max_new_tokens: 6, ..GenerateOptions::default() };
    let generate = |prompts: &[Prompt]| {
        model.generate(prompts, &options, |_| ControlFlow::Continue(())).unwrap()
    };
    let found = generate(&prompts);
    for (i, text) in texts.iter().enumerate() {
        let alone = [Prompt { sequence: i as u64, tokens: text.clone() }];
        assert_eq!(found[i..=i], generate(&alone)[..], "row {i}");
    }
    let refused = |tokens: &Tensor, mask: &Tensor, expected: &str| {
        let error = Prompt::unpadded(tokens, mask).unwrap_err().to_string();
        assert_eq!(error, format!("Prompt::unpadded: {expected}"));
    };
    let one = |numbers: &[i64]| Tensor::from_slice(numbers, &[1, numbers.len()]).unwrap();
    refused(&row(&[1]), &row(&[1]), "expected tokens [n, length], got shape [1]");
    refused(&one(&[1, 2]), &one(&[1]), "expected the mask of shape [1, 2], got [1, 1]");
    refused(&one(&[1, 2]), &one(&[0, 0]), "expected tokens in row 0, got none");
    refused(
        &one(&[1, 2, 3, 4]),
        &one(&[1, 1, 0, 1]),
        "expected padding before and after the tokens of row 0, got some at 2",
    );
}
