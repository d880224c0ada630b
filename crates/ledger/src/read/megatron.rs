//! Traces of Megatron-LM: a JSON object a line, each with one tensor.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::ReadError;
use super::foreign::{Translation, phase};
use super::lines::Lines;
use crate::digest::Digest;
use crate::record::{Digests, Event, Operation, Tensor};

/// Whether a line is one of a trace. Of ours, none has that key.
pub(super) fn is_trace(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(rename = "schema_version")]
        _version: Value,
    }
    serde_json::from_slice::<Versioned>(line).is_ok()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    schema_version: u32,
    event: String,
    rank: u32,
    sequence: u64,
    iteration: u64,
    #[serde(default)]
    microbatch: Option<u64>,
    phase: String,
    name: String,
    occurrence: u64,
    tensor: Captured,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Captured {
    mode: Digests,
    shape: Vec<u64>,
    #[serde(default, rename = "stride")]
    _stride: Option<Vec<i64>>,
    dtype: String,
    #[serde(default, rename = "layout")]
    _layout: Option<String>,
    device: String,
    sha256: String,
    #[serde(default)]
    captured_numel: Option<u64>,
    #[serde(default, rename = "all_finite")]
    _all_finite: Option<bool>,
    #[serde(default, rename = "exact_value_certificate")]
    _certificate: Option<Value>,
    #[serde(default)]
    sample_indices: Option<Vec<u64>>,
}

/// Writes the trace in the schema. What a trace knows of a tensor is not what went into making it,
/// so its records are those of layers without inputs.
pub(super) fn translate(path: &Path, world_size: u32) -> Result<File, ReadError> {
    let mut lines = Lines::new(path, File::open(path).map_err(ReadError::io(path))?);
    let mut translation: Option<Translation> = None;
    while let Some(bytes) = lines.bytes()? {
        if !bytes.ends_with(b"\n") {
            break;
        }
        let line: Line = serde_json::from_slice(bytes).map_err(|error| lines.wrong(error))?;
        if line.schema_version != 1 {
            let problem = format!("schema_version: expected 1, found {}", line.schema_version);
            return Err(lines.wrong(problem));
        }
        let captured = line.tensor;
        let sha256 = &captured.sha256;
        if sha256.len() != 64 || !sha256.is_ascii() {
            return Err(lines.wrong("sha256: expected 64 hexadecimal digits"));
        }
        let digest: Digest = sha256[..16].parse().map_err(|error| lines.wrong(error))?;
        let mut parameters = BTreeMap::from([("phase".to_owned(), line.phase.clone().into())]);
        if captured.mode == Digests::Sampled {
            parameters.insert("captured_numel".to_owned(), captured.captured_numel.into());
            parameters.insert("sample_indices".to_owned(), captured.sample_indices.into());
        }
        let operation = Operation {
            step: line.iteration,
            microbatch: line.microbatch.unwrap_or(0),
            phase: phase(&line.phase),
            name: line.event,
            module: line.name,
            site: String::new(),
            occurrence: line.occurrence,
            level: String::new(),
            variant: String::new(),
            inputs: Vec::new(),
            outputs: vec![Tensor {
                shape: captured.shape,
                dtype: dtype(&captured.dtype).to_owned(),
                device: captured.device,
                digest,
                name: None,
                file: None,
            }],
            parameters,
            generator: None,
        };
        let translation = match &mut translation {
            Some(translation) => translation,
            None => {
                translation.insert(Translation::new(path, "Megatron-LM", line.rank, world_size)?)
            }
        };
        translation.append(line.rank, line.sequence, Event::Layer(operation))?;
    }
    match translation {
        Some(translation) => translation.finish(),
        None => Err(ReadError::unusable(path, "holds no whole line")),
    }
}

/// The schema's name of a type of PyTorch.
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
