//! Configurations of the Python library `transformers`.

use serde::Deserialize;

use crate::nn::{Gpt, GptActivation, GptNormKind, GptOptions, GptPositions, RotaryScaling};
use crate::{Error, Result};

const CONFIG: &str = "parse_gpt_config";

#[derive(Deserialize)]
struct Kind {
    model_type: Option<String>,
}

/// The configuration of GPT-2. Files leave out fields that have these defaults.
#[derive(Deserialize)]
#[serde(default)]
struct Gpt2 {
    vocab_size: usize,
    n_positions: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_inner: Option<usize>,
    activation_function: String,
    layer_norm_epsilon: f64,
    scale_attn_weights: bool,
    scale_attn_by_inverse_layer_idx: bool,
    add_cross_attention: bool,
    tie_word_embeddings: bool,
}

impl Default for Gpt2 {
    fn default() -> Gpt2 {
        Gpt2 {
            vocab_size: 50_257,
            n_positions: 1024,
            n_embd: 768,
            n_layer: 12,
            n_head: 12,
            n_inner: None,
            activation_function: "gelu_new".to_owned(),
            layer_norm_epsilon: 1e-5,
            scale_attn_weights: true,
            scale_attn_by_inverse_layer_idx: false,
            add_cross_attention: false,
            tie_word_embeddings: true,
        }
    }
}

/// The configuration of Llama. Files leave out fields that have these defaults.
#[derive(Deserialize)]
#[serde(default)]
struct Llama {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    hidden_act: String,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    tie_word_embeddings: bool,
    attention_bias: bool,
    mlp_bias: bool,
    rope_theta: Option<f64>,
    rope_scaling: Option<Rope>,
    rope_parameters: Option<Rope>,
}

impl Default for Llama {
    fn default() -> Llama {
        Llama {
            vocab_size: 32_000,
            hidden_size: 4096,
            intermediate_size: 11_008,
            num_hidden_layers: 32,
            num_attention_heads: 32,
            num_key_value_heads: None,
            head_dim: None,
            hidden_act: "silu".to_owned(),
            max_position_embeddings: 2048,
            rms_norm_eps: 1e-6,
            tie_word_embeddings: false,
            attention_bias: false,
            mlp_bias: false,
            rope_theta: None,
            rope_scaling: None,
            rope_parameters: None,
        }
    }
}

#[derive(Deserialize)]
struct Rope {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
}

impl Rope {
    fn scaling(&self) -> Result<RotaryScaling> {
        let kind = self.rope_type.as_deref().unwrap_or("default");
        let factor = || needed(kind, "factor", self.factor);
        Ok(match kind {
            "default" => RotaryScaling::None,
            "linear" => RotaryScaling::Linear { factor: factor()? },
            "llama3" => RotaryScaling::Llama3 {
                factor: factor()?,
                low_frequency_factor: needed(kind, "low_freq_factor", self.low_freq_factor)?,
                high_frequency_factor: needed(kind, "high_freq_factor", self.high_freq_factor)?,
                original_positions: needed(
                    kind,
                    "original_max_position_embeddings",
                    self.original_max_position_embeddings,
                )?,
            },
            other => {
                return refused(format!(
                    "expected a rope_type default, linear or llama3, got {other}"
                ));
            }
        })
    }
}

/// Returns a field that a `rope_type` requires.
fn needed<T>(kind: &str, field: &str, value: Option<T>) -> Result<T> {
    match value {
        Some(value) => Ok(value),
        None => refused(format!("expected {field} for rope_type {kind}, got none")),
    }
}

fn refused<T>(message: String) -> Result<T> {
    Err(Error::invalid(CONFIG, message))
}

fn parsed<'a, T: Deserialize<'a>>(config: &'a str) -> Result<T> {
    serde_json::from_str(config).map_err(|error| Error::invalid(CONFIG, error.to_string()))
}

/// Requires a field to have the only value that a [`Gpt`] computes.
fn expect<T: PartialEq + std::fmt::Debug>(field: &str, expected: T, got: T) -> Result<()> {
    match expected == got {
        true => Ok(()),
        false => refused(format!("expected {field} {expected:?}, got {got:?}")),
    }
}

/// Reads the `config.json` of a checkpoint of GPT-2 or Llama. Dropout is 0, whatever the file
/// says.
///
/// # Errors
///
/// The text is not such a configuration, or asks for a model that [`Gpt`] does not compute: other
/// types and activations, or rotary positions scaled in other ways than by `linear` and `llama3`.
///
/// # Examples
///
/// ```
/// use samebits::io::parse_gpt_config;
///
/// # samebits::manual_seed(0);
/// let config = r#"{"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 1}"#;
/// assert_eq!(parse_gpt_config(config)?.init()?.context(), 1024);
/// # Ok::<(), samebits::Error>(())
/// ```
pub fn parse_gpt_config(config: &str) -> Result<GptOptions> {
    match parsed::<Kind>(config)?.model_type.as_deref() {
        Some("gpt2") => gpt2(&parsed(config)?),
        Some("llama") => llama(&parsed(config)?),
        other => refused(format!("expected a model_type \"gpt2\" or \"llama\", got {other:?}")),
    }
}

fn gpt2(config: &Gpt2) -> Result<GptOptions> {
    expect("scale_attn_weights", true, config.scale_attn_weights)?;
    expect("scale_attn_by_inverse_layer_idx", false, config.scale_attn_by_inverse_layer_idx)?;
    expect("add_cross_attention", false, config.add_cross_attention)?;
    let activation = match config.activation_function.as_str() {
        "gelu" => GptActivation::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" => GptActivation::GeluTanh,
        other => {
            return refused(format!(
                "expected an activation_function gelu, gelu_new or gelu_pytorch_tanh, got {other}"
            ));
        }
    };
    let options = Gpt::options(config.vocab_size, config.n_embd, config.n_head, config.n_layer)
        .context(config.n_positions)
        .norm_eps(config.layer_norm_epsilon)
        .activation(activation)
        .tie(config.tie_word_embeddings);
    Ok(match config.n_inner {
        Some(hidden) => options.hidden(hidden),
        None => options,
    })
}

fn llama(config: &Llama) -> Result<GptOptions> {
    let &Llama { vocab_size, hidden_size, num_attention_heads: heads, .. } = config;
    expect("hidden_act", "silu", &config.hidden_act)?;
    let (mut base, mut scaling) = (config.rope_theta, RotaryScaling::None);
    for rope in [&config.rope_scaling, &config.rope_parameters].into_iter().flatten() {
        expect("partial_rotary_factor", 1.0, rope.partial_rotary_factor.unwrap_or(1.0))?;
        base = rope.rope_theta.or(base);
        scaling = rope.scaling()?;
    }
    let options = Gpt::options(vocab_size, hidden_size, heads, config.num_hidden_layers)
        .kv_heads(config.num_key_value_heads.unwrap_or(heads))
        .hidden(config.intermediate_size)
        .context(config.max_position_embeddings)
        .norm(GptNormKind::Rms)
        .norm_eps(config.rms_norm_eps)
        .positions(GptPositions::Rotary { base: base.unwrap_or(10_000.0) })
        .rotary_scaling(scaling)
        .activation(GptActivation::SwiGlu)
        .bias(false)
        .attention_bias(config.attention_bias)
        .feedforward_bias(config.mlp_bias)
        .tie(config.tie_word_embeddings);
    Ok(match config.head_dim {
        Some(width) => options.head_width(width),
        None => options,
    })
}
