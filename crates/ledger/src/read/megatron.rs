//! Traces of Megatron-LM's `RankLocalTrace`: one JSON object per line, each a tensor or an event.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ReadError;
use super::foreign::{Opened, Translation, phase};
use super::lines::Lines;
use crate::digest::{Digest, Element, ParseDigestError, sum64};
use crate::record::{Event, Operation, Phase, Tensor};
use crate::unique;

/// Returns true if a line belongs to a trace. No line of a ledger has this key.
pub(super) fn is_trace(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(rename = "schema_version")]
        _version: Value,
    }
    serde_json::from_slice::<Versioned>(line).is_ok()
}

/// A record with the fields that Megatron-LM's `trace_schema.py` requires.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    schema_version: u32,
    event: Kind,
    rank: u32,
    sequence: u64,
    #[serde(deserialize_with = "Option::deserialize")]
    iteration: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    microbatch: Option<u64>,
    phase: String,
    name: String,
    occurrence: u64,
    /// Fields of an event.
    #[serde(default, deserialize_with = "unique::values")]
    fields: BTreeMap<String, Value>,
    /// Metadata of a tensor.
    #[serde(default, deserialize_with = "unique::values")]
    metadata: BTreeMap<String, Value>,
    tensor: Option<Captured>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Event,
    Tensor,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Captured {
    shape: Vec<u64>,
    #[serde(rename = "numel")]
    _numel: u64,
    dtype: String,
    #[serde(rename = "layout")]
    _layout: String,
    device_type: String,
    #[serde(default, rename = "stride")]
    _stride: Option<Vec<u64>>,
    #[serde(rename = "requires_grad")]
    _requires_grad: bool,
    #[serde(rename = "value_observed")]
    _value_observed: bool,
    #[serde(rename = "exact_value_certificate")]
    _certificate: bool,
    mode: Mode,
    #[serde(default)]
    sha256: Option<String>,
    #[serde(default, rename = "captured_numel")]
    _captured_numel: Option<u64>,
    #[serde(default, rename = "all_finite")]
    _all_finite: Option<bool>,
    #[serde(default)]
    sample_indices: Option<Vec<u64>>,
    #[serde(default)]
    summary: Option<Summary>,
}

/// Recorded knowledge of the elements.
#[derive(Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Metadata,
    Summary,
    Sampled,
    Full,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    all_finite: bool,
    minimum: Option<f64>,
    maximum: Option<f64>,
    mean: Option<f64>,
    l2_norm: Option<f64>,
}

/// Translates the trace into the schema. A trace records tensors but not the inputs from which they
/// were computed, so its records become layers without inputs.
pub(super) fn translate(path: &Path, world_size: u32) -> Result<Opened, ReadError> {
    let mut lines = Lines::new(path, File::open(path).map_err(ReadError::io(path))?);
    let mut translation: Option<Translation> = None;
    let mut left_out = Vec::new();
    while let Some(bytes) = lines.bytes()? {
        if !bytes.ends_with(b"\n") {
            left_out.push(format!("line {}, which is incomplete", lines.number()));
            break;
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_slice(bytes).map_err(|error| lines.wrong(error))?;
        let Line { schema_version, rank, sequence, .. } = line;
        if schema_version != 1 {
            let problem = format!("schema_version: expected 1, found {schema_version}");
            return Err(lines.wrong(problem));
        }
        let operation = operation(line).map_err(|problem| lines.wrong(problem))?;
        let translation = match &mut translation {
            Some(translation) => translation,
            None => translation.insert(Translation::new(path, "Megatron-LM", rank, world_size)?),
        };
        translation.append(rank, sequence, Event::Layer(operation))?;
    }
    match translation {
        Some(translation) => Opened::foreign(translation, left_out),
        None => Err(ReadError::unusable(path, "holds no whole line")),
    }
}

fn operation(line: Line) -> Result<Operation, String> {
    let mut parameters = BTreeMap::new();
    let outputs = match (line.event, line.tensor) {
        (Kind::Event, None) => {
            parameters = line.fields;
            Vec::new()
        }
        (Kind::Tensor, Some(captured)) => {
            let mode = serde_json::to_value(captured.mode).map_err(|error| error.to_string())?;
            parameters.insert("mode".to_owned(), mode);
            parameters.insert("metadata".to_owned(), line.metadata.into_iter().collect());
            let indices = captured.sample_indices.as_ref().map(|indices| indices.clone().into());
            parameters.extend(indices.map(|indices| ("sample_indices".to_owned(), indices)));
            vec![Tensor {
                digest: digest(&captured)?,
                device: captured.device_type,
                ..Tensor::without_digest(captured.shape, dtype(&captured.dtype))
            }]
        }
        (Kind::Event, Some(_)) => return Err("an event with a tensor".to_owned()),
        (Kind::Tensor, None) => return Err("missing field `tensor`".to_owned()),
    };
    // Parts without a field in the schema go into the name, to keep the keys of records distinct.
    let known = phase(&line.phase);
    let mut name = match line.event {
        Kind::Event => "event".to_owned(),
        Kind::Tensor => "tensor".to_owned(),
    };
    if known == Phase::Other {
        name = format!("{name} ({})", line.phase);
    }
    if line.iteration.is_none() {
        name += " outside of iterations";
    }
    if line.microbatch.is_none() {
        name += " outside of microbatches";
    }
    Ok(Operation {
        step: line.iteration.unwrap_or(0),
        microbatch: line.microbatch.unwrap_or(0),
        phase: known,
        name,
        module: line.name,
        site: String::new(),
        occurrence: line.occurrence,
        level: String::new(),
        variant: String::new(),
        inputs: Vec::new(),
        outputs,
        parameters,
        generator: None,
    })
}

/// Makes a digest from the recorded knowledge of the elements: none, a summary, or a hash.
fn digest(captured: &Captured) -> Result<Option<Digest>, String> {
    match captured.mode {
        Mode::Metadata => Ok(None),
        Mode::Summary => {
            let summary = captured.summary.as_ref().ok_or("missing field `summary`")?;
            let text = serde_json::to_vec(summary).map_err(|error| error.to_string())?;
            Ok(Some(sum64(Element::Plain, &text)))
        }
        Mode::Sampled | Mode::Full => {
            let sha256 = captured.sha256.as_deref().ok_or("missing field `sha256`")?;
            if sha256.len() != 64 || !sha256.is_ascii() {
                return Err("sha256: expected 64 hexadecimal digits".to_owned());
            }
            sha256[..16].parse().map(Some).map_err(|error: ParseDigestError| error.to_string())
        }
    }
}

/// Maps a PyTorch type to the schema's name.
fn dtype(name: &str) -> &str {
    match name.strip_prefix("torch.").unwrap_or(name) {
        "bool" => "bool",
        "uint8" => "u8",
        "int8" => "i8",
        "int16" => "i16",
        "int32" => "i32",
        "int64" => "i64",
        "uint32" => "u32",
        "uint64" => "u64",
        "float16" => "f16",
        "bfloat16" => "bf16",
        "float32" => "f32",
        "float64" => "f64",
        "complex64" => "c64",
        "complex128" => "c128",
        other => other,
    }
}
