//! Language models: the bits of training are those of generation.

#[path = "gpt/generate.rs"]
mod generate;
#[path = "gpt/schedules.rs"]
mod schedules;

use samebits_autograd::functional;
use samebits_autograd::nn::{
    self, Gpt, GptActivation, GptNormKind, GptOptions, GptPositions, KvCache, Module,
};
use samebits_autograd::{DType, Result, Tensor};
use samebits_rng::Generator;

const CONTEXT: usize = 40;
const VOCABULARY: usize = 31;

/// Models of every form: as GPT-2, as Llama, and a mixture.
fn forms() -> [GptOptions; 3] {
    let gpt2 = Gpt::options(VOCABULARY, 16, 4, 2).context(CONTEXT);
    let llama = Gpt::options(VOCABULARY, 24, 4, 2)
        .context(CONTEXT)
        .kv_heads(2)
        .hidden(20)
        .norm(GptNormKind::Rms)
        .positions(GptPositions::Rotary { base: 500.0 })
        .activation(GptActivation::SwiGlu)
        .bias(false)
        .tie(false);
    let mixed = Gpt::options(VOCABULARY, 8, 2, 1)
        .context(CONTEXT)
        .kv_heads(1)
        .positions(GptPositions::Rotary { base: 10_000.0 })
        .dropout(0.5)
        .dtype(DType::F64);
    [gpt2, llama, mixed]
}

/// Builds a model with larger weights than those of the start of training.
fn built(options: &GptOptions) -> Gpt {
    let mut model = options.init_with(&mut Generator::new(1)).unwrap();
    model.visit_mut("", &mut |_, _, tensor| {
        *tensor = tensor.detach().affine(9.0, 0.0).unwrap().set_requires_grad(true).unwrap();
    });
    model
}

/// Returns `count` tokens below 31.
fn tokens(count: usize, seed: u64) -> Vec<i64> {
    let mut generator = Generator::new(seed);
    (0..count).map(|_| i64::from(generator.next_block()[0] % 31)).collect()
}

fn bits(x: &Tensor) -> Vec<u8> {
    x.to_bytes().unwrap()
}

fn row(tokens: &[i64]) -> Tensor {
    Tensor::from_slice(tokens, &[tokens.len()]).unwrap()
}

#[test]
fn a_cache_repeats_the_bits_of_training_for_any_chunks_and_batch() {
    for options in forms() {
        let model = built(&options);
        let texts = [tokens(37, 2), tokens(20, 3), tokens(40, 4)];
        // Right padding with any token.
        let mut padded: Vec<i64> = Vec::new();
        for text in &texts {
            padded.extend(text);
            padded.resize(padded.len().next_multiple_of(40), 7);
        }
        let padded = Tensor::from_slice(&padded, &[3, 40]).unwrap();
        let batch = model.forward(&padded).unwrap();
        let expected = |i: usize| {
            bits(&batch.select(0, i as i64).unwrap().narrow(0, 0, texts[i].len()).unwrap())
        };
        for (i, text) in texts.iter().enumerate() {
            let alone = model.forward(&row(text).unsqueeze(0).unwrap()).unwrap();
            assert_eq!(bits(&alone), expected(i), "sequence {i}");
            for chunk in [1, 7, 40] {
                let mut cache = KvCache::new();
                let chunks = text
                    .chunks(chunk)
                    .map(|chunk| model.forward_cached(&row(chunk), &mut cache).unwrap());
                let logits = functional::cat(&chunks.collect::<Vec<_>>(), 0).unwrap();
                assert_eq!(bits(&logits), expected(i), "sequence {i} in chunks of {chunk}");
                assert!(!logits.requires_grad());
                assert_eq!(cache.len(), text.len());
            }
        }
        // All sequences at once, in chunks of different lengths, one of them empty.
        let mut caches = [KvCache::new(), KvCache::new(), KvCache::new()];
        let mut found = [Vec::new(), Vec::new(), Vec::new()];
        for step in 0..40 {
            let ends =
                |i: usize| [step * (i + 1), (step + 1) * (i + 1)].map(|n| n.min(texts[i].len()));
            let parts: Vec<_> = (0..3).map(|i| row(&texts[i][ends(i)[0]..ends(i)[1]])).collect();
            let mut each: Vec<&mut KvCache> = caches.iter_mut().collect();
            let logits =
                model.forward_cached_batch(&parts.iter().collect::<Vec<_>>(), &mut each).unwrap();
            let mut start = 0;
            for (found, part) in found.iter_mut().zip(&parts) {
                found.extend(bits(&logits.narrow(0, start, part.numel()).unwrap()));
                start += part.numel();
            }
        }
        for (i, found) in found.iter().enumerate() {
            assert_eq!(*found, expected(i), "sequence {i} of a batch");
        }
    }
}

#[test]
fn a_shortened_or_cloned_cache_goes_on_as_if_it_had_never_seen_more() {
    let model = built(&forms()[1]);
    let text = tokens(30, 5);
    let mut cache = KvCache::new();
    model.forward_cached(&row(&text), &mut cache).unwrap();
    for kept in [0, 1, 17, 30] {
        let mut short = cache.clone();
        short.truncate(kept).unwrap();
        let mut fresh = KvCache::new();
        model.forward_cached(&row(&text[..kept]), &mut fresh).unwrap();
        let next = row(&[3, 9]);
        let found = model.forward_cached(&next, &mut short).unwrap();
        assert_eq!(bits(&found), bits(&model.forward_cached(&next, &mut fresh).unwrap()));
    }
    assert_eq!(cache.len(), 30);
    let error = cache.truncate(31).unwrap_err().to_string();
    assert_eq!(error, "KvCache::truncate: expected at most 30 tokens, got 31");
}

#[test]
fn models_train() {
    for options in forms() {
        let model = options.dtype(DType::F32).init_with(&mut Generator::new(3)).unwrap();
        let text = Tensor::from_slice(&tokens(22, 6), &[2, 11]).unwrap();
        let logits = nn::train_with(&mut Generator::new(4), || {
            model.forward(&text.narrow(1, 0, 10).unwrap())
        });
        let target = text.narrow(1, 1, 10).unwrap().flatten(0, 1).unwrap();
        let logits = logits.unwrap().flatten(0, 1).unwrap();
        let loss = functional::cross_entropy(&logits, &target);
        let loss = loss.unwrap();
        let value = loss.item::<f32>().unwrap();
        // At the start all tokens are about as likely: ln 31.
        assert!((value - 3.434).abs() < 0.3, "{value}");
        let gradients = loss.backward().unwrap();
        for (name, parameter) in model.named_parameters() {
            let gradient = gradients.of(&parameter).unwrap_or_else(|| panic!("{name}"));
            assert!(gradient.to_vec::<f32>().unwrap().iter().any(|&g| g != 0.0), "{name}");
        }
    }
}

#[test]
fn names_are_those_of_the_fields() {
    let names = |options: &GptOptions| -> Vec<String> {
        built(options).named_parameters().into_iter().map(|(name, _)| name).collect()
    };
    let llama = names(&forms()[1].clone());
    assert_eq!(
        llama[..3],
        ["tokens.weight", "blocks.0.norm1.weight", "blocks.0.attention.query.weight"]
    );
    assert_eq!(
        llama[6..9],
        [
            "blocks.0.norm2.weight",
            "blocks.0.feedforward.gate.weight",
            "blocks.0.feedforward.up.weight"
        ]
    );
    assert_eq!(llama[llama.len() - 2..], ["norm.weight", "head.weight"]);
    assert_eq!(names(&forms()[0].clone())[1], "positions.weight");
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_caches_unchanged() {
    let model = built(&forms()[0]);
    let refused = |result: Result<Tensor>, expected: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    let mut cache = KvCache::new();
    model.forward_cached(&row(&tokens(39, 8)), &mut cache).unwrap();
    refused(
        model.forward_cached(&row(&[1, 2]), &mut cache),
        "Gpt: expected at most 40 tokens, got 2 tokens after 39",
    );
    refused(model.forward_cached(&row(&[31]), &mut cache), "Gpt: ");
    refused(model.forward_cached(&row(&[-1]), &mut cache), "Gpt: ");
    let square = Tensor::zeros(&[1, 1], DType::I64).unwrap();
    refused(
        model.forward_cached(&square, &mut cache),
        "Gpt: expected tokens [length], got shape [1, 1]",
    );
    let float = Tensor::zeros(&[1], DType::F32).unwrap();
    refused(model.forward_cached(&float, &mut cache), "Gpt: ");
    refused(
        model.forward_cached_batch(&[], &mut []),
        "Gpt: expected sequences and a cache for each, got 0 and 0",
    );
    let other = built(&forms()[2]);
    refused(other.forward_cached(&row(&[1]), &mut cache), "Gpt: expected a cache of 1 layers");
    assert!(built(&forms()[1]).forward_cached(&row(&[1]), &mut cache).is_err());
    let mut fresh = KvCache::new();
    refused(
        model.forward_cached_batch(&[&row(&[1]), &row(&[99])], &mut [&mut cache, &mut fresh]),
        "Gpt: ",
    );
    assert_eq!((cache.len(), fresh.len()), (39, 0));
    assert_eq!(model.forward_cached(&row(&[1]), &mut cache).unwrap().shape(), [1, 31]);

    refused(model.forward(&row(&[1])), "Gpt: expected tokens [n, length], got shape [1]");
    let long = Tensor::zeros(&[1, 41], DType::I64).unwrap();
    refused(model.forward(&long), "Gpt: expected at most 40 tokens, got 41 tokens after 0");

    let options = || Gpt::options(5, 6, 3, 1).context(4);
    let rotary = |base| GptPositions::Rotary { base };
    for (options, expected) in [
        (Gpt::options(0, 6, 3, 1), "Gpt: expected a vocabulary of at least 1, got 0"),
        (Gpt::options(5, 0, 3, 1), "Gpt: expected a width of at least 1, got 0"),
        (options().context(0), "Gpt: expected a context of at least 1, got 0"),
        (Gpt::options(5, 6, 4, 1), "Gpt: expected heads that divide the width 6, got 4"),
        (Gpt::options(5, 6, 0, 1), "Gpt: expected heads that divide the width 6, got 0"),
        (options().kv_heads(2), "Gpt: expected kv_heads that divide 3 heads, got 2"),
        (options().kv_heads(0), "Gpt: expected kv_heads that divide 3 heads, got 0"),
        (options().dropout(1.5), "Gpt: expected a dropout in [0, 1], got 1.5"),
        (
            options().positions(rotary(0.0)),
            "RotaryEmbedding: expected a positive finite base, got 0",
        ),
        (
            Gpt::options(5, 3, 1, 1).positions(rotary(1e4)),
            "RotaryEmbedding: expected a positive even number of features, got 3",
        ),
        (options().context(usize::MAX / 2), "Gpt: "),
    ] {
        let error = options.init_with(&mut Generator::new(0)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
