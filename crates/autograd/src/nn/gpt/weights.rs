//! Weights of GPT-2 and Llama, by the names of the Python library `transformers`.

use std::collections::{BTreeMap, BTreeSet};

use samebits_tensor_core::{DType, Error, Result};

use super::{Gpt, GptActivation, GptNormKind, GptOptions, GptPositions};
use crate::nn::Module;
use crate::{Tensor, functional, no_grad};

const WEIGHTS: &str = "GptOptions::init_from";

/// The number of names that an error shows.
const SHOWN: usize = 10;

impl GptOptions {
    /// Builds the model from weights by the names of the Python library `transformers`, with or
    /// without the first part, `transformer` or `model`. Weights of another float type are
    /// converted. Masks and tables that older files hold are skipped; with tied embeddings,
    /// `lm_head.weight` may be there, too.
    ///
    /// | model | names |
    /// |---|---|
    /// | GPT-2: learned positions, layer normalisation, GELU, biases | `transformer.wte.weight`, `transformer.h.0.attn.c_attn.weight` (`[in, 3 · out]`), .. |
    /// | Llama: rotary positions, RMS normalisation, SwiGLU | `model.embed_tokens.weight`, `model.layers.0.self_attn.q_proj.weight`, .. |
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`] if a name is missing, left over, or there twice, a tensor has another
    /// shape or is not a float, or `lm_head.weight` differs from tied embeddings. The options are
    /// those of neither model, or as [`init`](GptOptions::init).
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate samebits_autograd as samebits;
    /// use samebits::nn::Gpt;
    ///
    /// let error = Gpt::options(50, 16, 2, 0).init_from(&[]).unwrap_err().to_string();
    /// assert_eq!(
    ///     error,
    ///     "GptOptions::init_from: missing wte.weight, wpe.weight, ln_f.weight, ln_f.bias"
    /// );
    /// # Ok::<(), samebits::Error>(())
    /// ```
    #[doc(alias = "from_pretrained")]
    pub fn init_from(&self, weights: &[(String, Tensor)]) -> Result<Gpt> {
        let names = self.names()?;
        if self.layers > weights.len() {
            let (layers, given) = (self.layers, weights.len());
            return state(format!("expected weights of {layers} layers, got {given} tensors"));
        }
        let mut model = GptOptions { empty: true, ..self.clone() }.init()?;
        let mut given = BTreeMap::new();
        for (name, tensor) in weights {
            let short = name.strip_prefix(names.prefix()).unwrap_or(name);
            if given.insert(short, (name.as_str(), tensor)).is_some() {
                return state(format!("{short} is there twice"));
            }
        }
        let mut wanted = Vec::new();
        model.visit("", &mut |own, _, tensor| {
            wanted.push((own.to_owned(), tensor.shape().to_vec()));
        });
        let (mut used, mut missing, mut own) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (name, shape) in wanted {
            let mut part = names.part(&name);
            if self.tie && name == "tokens.weight" && !given.contains_key(part.name.as_str()) {
                part.name = HEAD.to_owned();
            }
            let Some(&(full, tensor)) = given.get(part.name.as_str()) else {
                if !missing.contains(&part.name) {
                    missing.push(names.part(&name).name);
                }
                continue;
            };
            let tensor = no_grad(|| part.of(full, tensor, &shape, self.place.dtype))?;
            used.insert(part.name);
            own.push((name, tensor));
        }
        let left: Vec<&str> = (given.iter())
            .filter(|&(&short, _)| !used.contains(short) && !names.skips(short, self.tie))
            .map(|(_, &(full, _))| full)
            .collect();
        missing.dedup();
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        match (&missing[..], &left[..]) {
            ([], []) => {}
            (missing, []) => return state(format!("missing {}", shown(missing))),
            ([], left) => return state(format!("left over {}", shown(left))),
            _ => return state(format!("missing {}; left over {}", shown(&missing), shown(&left))),
        }
        if self.tie
            && let Some(&(_, head)) = given.get(HEAD)
        {
            let shape = model.tokens.weight.get().shape().to_vec();
            let whole = Part { name: HEAD.to_owned(), third: None, transposed: false };
            let head = no_grad(|| whole.of(HEAD, head, &shape, self.place.dtype))?;
            if head.to_bytes()? != own[0].1.to_bytes()? {
                return state(format!("{HEAD} differs from the embeddings, which are tied to it"));
            }
        }
        model.load_state_dict(&own, true)?;
        Ok(model)
    }

    fn names(&self) -> Result<Names> {
        let &GptOptions { norm, activation, bias, .. } = self;
        let biases = [self.attention_bias, self.feedforward_bias].map(|own| own.unwrap_or(bias));
        let rotary = matches!(self.positions, GptPositions::Rotary { .. });
        let one_each = self.kv_heads.is_none_or(|heads| heads == self.heads);
        match (norm, activation) {
            (GptNormKind::Layer, GptActivation::Gelu | GptActivation::GeluTanh)
                if !rotary
                    && bias
                    && biases == [true; 2]
                    && one_each
                    && self.head_width.is_none() =>
            {
                Ok(Names::Gpt2)
            }
            (GptNormKind::Rms, GptActivation::SwiGlu) if rotary => Ok(Names::Llama),
            _ => {
                let message = "expected the parts of GPT-2 or those of Llama, got a mixture";
                Err(Error::invalid(WEIGHTS, message))
            }
        }
    }
}

const HEAD: &str = "lm_head.weight";

fn state<T>(message: String) -> Result<T> {
    Err(Error::InvalidState { op: WEIGHTS, message })
}

fn shown(names: &[&str]) -> String {
    let more = if names.len() > SHOWN { ", .." } else { "" };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}

/// The names of a family of models.
#[derive(Clone, Copy)]
enum Names {
    Gpt2,
    Llama,
}

impl Names {
    /// Returns the first part of most names, which some files leave out.
    fn prefix(self) -> &'static str {
        match self {
            Names::Gpt2 => "transformer.",
            Names::Llama => "model.",
        }
    }

    /// Returns the source of the tensor that a [`Gpt`] calls `own`.
    fn part(self, own: &str) -> Part {
        let (path, kind) = own.rsplit_once('.').unwrap_or((own, ""));
        let inner = path.strip_prefix("blocks.").and_then(|path| path.split_once('.'));
        let (number, path) = inner.map_or((None, path), |(number, path)| (Some(number), path));
        let (blocks, path, third) = match self {
            Names::Gpt2 => {
                let (path, third) = gpt2_name(path);
                ("h", path, third)
            }
            Names::Llama => ("layers", llama_name(path), None),
        };
        let name = match number {
            Some(number) => format!("{blocks}.{number}.{path}.{kind}"),
            None => format!("{path}.{kind}"),
        };
        // GPT-2's linear layers are convolutions of width 1: `[in, out]`.
        let linear = path.starts_with("attn.") || path.starts_with("mlp.");
        let transposed = matches!(self, Names::Gpt2) && kind == "weight" && linear;
        Part { name, third, transposed }
    }

    /// Returns whether a tensor is no weight, or a second name of one.
    fn skips(self, short: &str, tied: bool) -> bool {
        let within = |blocks: &str, ends: &[&str]| {
            let path = short.strip_prefix(blocks).and_then(|path| path.split_once('.'));
            path.is_some_and(|(number, path)| {
                number.bytes().all(|byte| byte.is_ascii_digit()) && ends.contains(&path)
            })
        };
        tied && short == HEAD
            || match self {
                Names::Gpt2 => within("h.", &["attn.bias", "attn.masked_bias"]),
                Names::Llama => within("layers.", &["self_attn.rotary_emb.inv_freq"]),
            }
    }
}

/// Returns the path of GPT-2, and the third of its tensor if three are joined.
fn gpt2_name(path: &str) -> (&str, Option<usize>) {
    match path {
        "tokens" => ("wte", None),
        "positions" => ("wpe", None),
        "norm" => ("ln_f", None),
        "head" => ("lm_head", None),
        "norm1" => ("ln_1", None),
        "norm2" => ("ln_2", None),
        "attention.query" => ("attn.c_attn", Some(0)),
        "attention.key" => ("attn.c_attn", Some(1)),
        "attention.value" => ("attn.c_attn", Some(2)),
        "attention.output" => ("attn.c_proj", None),
        "feedforward.up" => ("mlp.c_fc", None),
        "feedforward.down" => ("mlp.c_proj", None),
        other => (other, None),
    }
}

fn llama_name(path: &str) -> &str {
    match path {
        "tokens" => "embed_tokens",
        "head" => "lm_head",
        "norm1" => "input_layernorm",
        "norm2" => "post_attention_layernorm",
        "attention.query" => "self_attn.q_proj",
        "attention.key" => "self_attn.k_proj",
        "attention.value" => "self_attn.v_proj",
        "attention.output" => "self_attn.o_proj",
        "feedforward.gate" => "mlp.gate_proj",
        "feedforward.up" => "mlp.up_proj",
        "feedforward.down" => "mlp.down_proj",
        other => other,
    }
}

/// The source of a weight.
struct Part {
    name: String,
    /// The third of the tensor along its last dimension.
    third: Option<usize>,
    transposed: bool,
}

impl Part {
    /// Returns the weight of `shape` from the tensor `full`.
    fn of(&self, full: &str, tensor: &Tensor, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let mut stored = shape.to_vec();
        if self.transposed {
            stored.reverse();
        }
        let width = stored.last().copied().unwrap_or(1);
        if let (Some(last), Some(_)) = (stored.last_mut(), self.third) {
            *last *= 3;
        }
        if tensor.shape() != stored || !tensor.dtype().is_float() {
            let (kind, got) = (tensor.dtype(), tensor.shape());
            return state(format!(
                "{full} should be floats of shape {stored:?}, but is {kind} of shape {got:?}"
            ));
        }
        let mut weight = tensor.detach();
        if let Some(third) = self.third {
            weight = functional::narrow(&weight, -1, third * width, width)?;
        }
        weight = weight.to_dtype(dtype)?;
        if self.transposed {
            weight = functional::transpose(&weight, 0, 1)?;
        }
        Ok(weight.value().contiguous()?.into())
    }
}
