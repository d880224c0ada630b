//! Checkpoints of GPT-2 and Llama: each loads by the names of the library `transformers`, and the
//! model then computes that library's logits. `reference/gpt.py` wrote them.

use std::path::{Path, PathBuf};

use samebits::functional::sub;
use samebits::io::{Tensors, load_gpt, load_safetensors, parse_gpt_config, save_safetensors};
use samebits::nn::{Gpt, KvCache, Module};
use samebits::{DType, Result, Tensor};
use workspace_tests::conformance::reference_file;

const MODELS: [&str; 6] = ["gpt2", "gpt2_untied", "llama", "llama_tied", "llama3", "llama_linear"];

fn folder(name: &str) -> PathBuf {
    reference_file("gpt").join(name)
}

/// Returns the largest distance from the logits of the library, which are of the order of 10.
fn distance(model: &Gpt, name: &str) -> f64 {
    let expected = load_safetensors(folder(name).join("expected.safetensors")).unwrap();
    let found = model.forward(&expected["tokens"]).unwrap().to_dtype(DType::F64).unwrap();
    let largest =
        |x: &Tensor| x.abs().unwrap().to_vec::<f64>().unwrap().into_iter().fold(0.0, f64::max);
    assert!(largest(&expected["logits"]) > 1.0);
    largest(&sub(&found, &expected["logits"]).unwrap())
}

#[test]
fn checkpoints_compute_the_logits_of_their_library() {
    for name in MODELS {
        let mut model = load_gpt(folder(name)).unwrap();
        let single = distance(&model, name);
        assert!(single < 1e-4, "{name}: {single}");
        // The library computes rotations in f32 in any case.
        model.to_dtype(DType::F64).unwrap();
        let double = distance(&model, name);
        let allowed = if name.starts_with("llama") { 1e-5 } else { 1e-12 };
        assert!(double < allowed, "{name}: {double}");
        // The bounds distinguish other models: one weight less by a hundredth of its size.
        let mut other = model.clone();
        other.visit_mut("", &mut |path, _, tensor| {
            if path == "blocks.1.attention.key.weight" {
                *tensor = tensor.detach().affine(0.99, 0.0).unwrap();
            }
        });
        let found = distance(&other, name);
        assert!(found > 1e-3, "{name}: {found}");
    }
}

#[test]
fn loaded_models_train_and_decode() {
    for name in MODELS {
        let model = load_gpt(folder(name)).unwrap();
        let expected = load_safetensors(folder(name).join("expected.safetensors")).unwrap();
        let tokens = expected["tokens"].narrow(0, 0, 1).unwrap();
        let logits = model.forward(&tokens).unwrap();
        let gradients = logits.square().unwrap().sum_all().unwrap().backward().unwrap();
        for (path, parameter) in model.named_parameters() {
            assert!(gradients.of(&parameter).is_some(), "{name}, {path}");
        }
        let mut cache = KvCache::new();
        let cached = model.forward_cached(&tokens.select(0, 0).unwrap(), &mut cache).unwrap();
        assert_eq!(cached.to_bytes().unwrap(), logits.to_bytes().unwrap());
    }
}

/// Returns the configuration and the weights of a model in one file.
fn parts(name: &str) -> (String, Tensors) {
    let config = std::fs::read_to_string(folder(name).join("config.json")).unwrap();
    (config, load_safetensors(folder(name).join("model.safetensors")).unwrap())
}

fn init(config: &str, weights: &Tensors) -> Result<Gpt> {
    let weights: Vec<_> = weights.iter().map(|(name, x)| (name.clone(), x.clone())).collect();
    parse_gpt_config(config)?.init_from(&weights)
}

#[track_caller]
fn refused<T>(result: Result<T>, expected: &str) {
    let error = result.map(drop).unwrap_err().to_string();
    assert_eq!(error, expected);
}

#[test]
fn files_of_older_versions_load() {
    let (config, weights) = parts("gpt2");
    let expected = init(&config, &weights).unwrap().state_dict();
    // Names without the first part, masks, and the tied projection.
    let mut old: Tensors = (weights.iter())
        .map(|(name, x)| (name.strip_prefix("transformer.").unwrap().to_owned(), x.clone()))
        .collect();
    let mask = Tensor::ones(&[1, 1, 16, 16], DType::U8).unwrap();
    old.insert("h.0.attn.bias".to_owned(), mask);
    old.insert("h.1.attn.masked_bias".to_owned(), Tensor::scalar(-1e4f32));
    old.insert("lm_head.weight".to_owned(), old["wte.weight"].clone());
    let same = |weights: &Tensors| {
        let found = init(&config, weights).unwrap().state_dict();
        for ((name, a), (_, b)) in expected.iter().zip(&found) {
            assert_eq!(a.to_bytes().unwrap(), b.to_bytes().unwrap(), "{name}");
        }
    };
    same(&old);
    // A tied table may have the other name alone.
    old.remove("wte.weight");
    same(&old);

    let (config, weights) = parts("llama_tied");
    let mut old = weights;
    let frequencies = Tensor::ones(&[2], DType::F32).unwrap();
    old.insert("model.layers.1.self_attn.rotary_emb.inv_freq".to_owned(), frequencies);
    init(&config, &old).unwrap();
    let base = |field: &str| format!(r#"{{"model_type": "llama", {field}}}"#);
    for field in [
        r#""rope_theta": 5e5, "rope_scaling": null"#,
        r#""rope_theta": 7.0, "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}"#,
        r#""rope_theta": 5e5, "rope_scaling": {"type": "default"}"#,
    ] {
        let options = format!("{:?}", parse_gpt_config(&base(field)).unwrap());
        assert!(options.contains("Rotary { base: 500000.0 }"), "{options}");
    }
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let (config, weights) = parts("gpt2");
    let with = |change: &dyn Fn(&mut Tensors)| {
        let mut weights = weights.clone();
        change(&mut weights);
        init(&config, &weights)
    };
    let add = |name: &'static str, x: Tensor| {
        move |weights: &mut Tensors| drop(weights.insert(name.to_owned(), x.clone()))
    };
    let op = "GptOptions::init_from: ";
    let wte = weights["transformer.wte.weight"].clone();
    let qkv = "transformer.h.1.attn.c_attn.weight";
    for (result, expected) in [
        (with(&|weights| drop(weights.remove(qkv))), "missing h.1.attn.c_attn.weight"),
        (
            with(&add("transformer.h.2.ln_1.bias", wte.clone())),
            "left over transformer.h.2.ln_1.bias",
        ),
        (with(&add("attn.bias", wte.clone())), "left over attn.bias"),
        (with(&add("wte.weight", wte.clone())), "wte.weight is there twice"),
        (
            with(&|weights| {
                let x = weights.remove(qkv).unwrap();
                weights.insert("transformer.h.1.attn.c_atn.weight".to_owned(), x);
            }),
            "missing h.1.attn.c_attn.weight; left over transformer.h.1.attn.c_atn.weight",
        ),
        (
            with(&|weights| {
                let x = weights[qkv].transpose(0, 1).unwrap();
                weights.insert(qkv.to_owned(), x);
            }),
            "transformer.h.1.attn.c_attn.weight should be floats of shape [16, 48], but is f32 of \
             shape [48, 16]",
        ),
        (
            with(&add("transformer.ln_f.bias", Tensor::zeros(&[16], DType::I64).unwrap())),
            "transformer.ln_f.bias should be floats of shape [16], but is i64 of shape [16]",
        ),
        (
            with(&add("lm_head.weight", wte.affine(2.0, 0.0).unwrap())),
            "lm_head.weight differs from the embeddings, which are tied to it",
        ),
    ] {
        refused(result, &format!("{op}{expected}"));
    }
    let (llama, _) = parts("llama_tied");
    let error = init(&llama, &weights).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("GptOptions::init_from: missing embed_tokens.weight, "), "{error}");
    assert!(error.contains(", ..; left over transformer.h.0.attn.c_attn.bias, "), "{error}");
    let mixed = Gpt::options(29, 16, 4, 2).bias(false).init_from(&[]);
    let expected = "expected the parts of GPT-2 or those of Llama, got a mixture";
    refused(mixed, &format!("{op}{expected}"));
    let deep = Gpt::options(29, 16, 4, usize::MAX).init_from(&[]);
    refused(deep, &format!("{op}expected weights of {} layers, got 0 tensors", usize::MAX));
}

#[test]
fn configurations_of_other_models_are_refused() {
    for (config, expected) in [
        (
            r#"{"model_type": "mamba"}"#,
            r#"expected a model_type "gpt2" or "llama", got Some("mamba")"#,
        ),
        ("{}", r#"expected a model_type "gpt2" or "llama", got None"#),
        (
            r#"{"model_type": "gpt2", "activation_function": "relu"}"#,
            "expected an activation_function gelu, gelu_new or gelu_pytorch_tanh, got relu",
        ),
        (
            r#"{"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true}"#,
            "expected scale_attn_by_inverse_layer_idx false, got true",
        ),
        (
            r#"{"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}"#,
            "expected low_freq_factor for rope_type llama3, got none",
        ),
        (
            r#"{"model_type": "llama", "rope_scaling": {"type": "linear"}}"#,
            "expected factor for rope_type linear, got none",
        ),
        (
            r#"{"model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 2.0}}"#,
            "expected a rope_type default, linear or llama3, got yarn",
        ),
        (
            r#"{"model_type": "llama", "hidden_act": "gelu"}"#,
            r#"expected hidden_act "silu", got "gelu""#,
        ),
    ] {
        refused(parse_gpt_config(config), &format!("parse_gpt_config: {expected}"));
    }
    for config in ["", "[]", r#"{"model_type": "gpt2", "n_embd": -1}"#] {
        let error = parse_gpt_config(config).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("parse_gpt_config: "), "{error}");
    }
}

#[test]
fn folders_that_are_damaged_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path();
    let copy = |name: &str| std::fs::copy(folder("llama").join(name), path.join(name)).unwrap();
    let error = || load_gpt(path).unwrap_err().to_string();
    assert!(error().contains("cannot read"), "{}", error());
    copy("config.json");
    assert!(error().contains("model.safetensors: "), "{}", error());
    copy("model.safetensors.index.json");
    assert!(error().contains("model-00001-of-00002.safetensors: "), "{}", error());
    let list =
        |text: &str| std::fs::write(path.join("model.safetensors.index.json"), text).unwrap();
    let elsewhere = r#"{"weight_map": {"x": "../model.safetensors"}}"#;
    list(elsewhere);
    assert!(error().ends_with(
        "the list of files: expected names of files in its folder, got \"../model.safetensors\""
    ));
    list("{");
    assert!(error().contains("the list of files: EOF"), "{}", error());
    copy("model.safetensors.index.json");
    copy("model-00001-of-00002.safetensors");
    copy("model-00002-of-00002.safetensors");
    load_gpt(path).unwrap();
    cut(&path.join("model-00002-of-00002.safetensors"));
    assert!(error().contains("the weights: GptOptions::init_from: missing "), "{}", error());
}

/// Removes the first tensor of a file.
fn cut(path: &Path) {
    let tensors = load_safetensors(path).unwrap();
    save_safetensors(path, tensors.iter().skip(1)).unwrap();
}
