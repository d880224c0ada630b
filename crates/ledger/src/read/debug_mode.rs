//! Dumps of PyTorch's `DebugMode`: the text of `DebugMode.debug_string()`, recorded under
//! `DebugMode.log_tensor_hashes()`.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use super::ReadError;
use super::foreign::Translation;
use super::lines::Lines;
use crate::digest::Digest;
use crate::record::{Event, Operation, Phase, Tensor};

/// Operations that overwrite their first input without reading it. It often comes from `empty`, so
/// its hash says nothing.
const OVERWRITING: &[&str] = &[
    "bernoulli_",
    "cauchy_",
    "copy_",
    "exponential_",
    "fill_",
    "geometric_",
    "log_normal_",
    "normal_",
    "random_",
    "uniform_",
    "zero_",
];

/// Whether a file that begins with this line is a dump, and no JSON.
pub(super) fn is_dump(line: &[u8]) -> bool {
    !line.trim_ascii_start().starts_with(b"{")
}

/// Writes the dump in the schema. A record's sequence is the number of its line.
pub(super) fn translate(path: &Path, world_size: u32) -> Result<File, ReadError> {
    let mut lines = Lines::new(path, File::open(path).map_err(ReadError::io(path))?);
    let mut translation = Translation::new(path, "DebugMode", 0, world_size)?;
    let mut modules: Vec<(usize, String)> = Vec::new();
    let mut occurrences: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut hashed = false;
    while let Some(line) = lines.text()? {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        modules.retain(|&(outer, _)| outer < depth);
        if let Some(module) = text.strip_prefix("[nn.Mod] ") {
            modules.push((depth, module.trim_end().to_owned()));
            continue;
        }
        let Some(mut call) = call(text).map_err(|problem| lines.wrong(problem))? else { continue };
        hashed |= call.outputs.iter().any(|tensor| tensor.digest != UNKNOWN);
        call.module = modules.last().map(|(_, module)| module.clone()).unwrap_or_default();
        let seen = occurrences.entry((call.module.clone(), call.name.clone())).or_default();
        call.occurrence = *seen;
        *seen += 1;
        translation.append(0, lines.number(), Event::Op(call))?;
    }
    if !hashed {
        let problem =
            "holds no hashes: record it under `DebugMode.log_tensor_hashes(hash_inputs=True)`";
        return Err(ReadError::unusable(path, problem));
    }
    translation.finish()
}

/// The digest of a tensor of which the dump has no hash.
const UNKNOWN: Digest = Digest(0);

/// The call of an operator that a line tells of: `aten::mm(t: f32[2, 3], ..)  ->  t: f32[2]  # {..}`.
/// Annotations, stack traces and calls above the dispatcher are none.
fn call(text: &str) -> Result<Option<Operation>, String> {
    let Some((name, rest)) = text.split_once('(') else { return Ok(None) };
    if !name.contains("::") || name.contains(char::is_whitespace) {
        return Ok(None);
    }
    let (call, log) = rest.rsplit_once("  # {").unwrap_or((rest, ""));
    let (arguments, results) =
        call.split_once(")  ->  ").unwrap_or((call.trim_end_matches(')'), ""));
    let (input_log, output_log) = log.split_once("'hash': ").unwrap_or((log, ""));
    let input_log = input_log.strip_prefix("'input_hash': ").unwrap_or("");
    let mut inputs = tensors(arguments, input_log)?;
    let outputs = tensors(results, output_log)?;
    let operator = name.rsplit("::").next().unwrap_or(name).split('.').next().unwrap_or(name);
    if OVERWRITING.contains(&operator) && !inputs.is_empty() {
        inputs.remove(0);
    }
    Ok(Some(Operation {
        step: 0,
        microbatch: 0,
        phase: Phase::Other,
        name: name.to_owned(),
        module: String::new(),
        site: String::new(),
        occurrence: 0,
        level: String::new(),
        variant: String::new(),
        inputs,
        outputs,
        parameters: BTreeMap::from([("arguments".to_owned(), without_ids(arguments).into())]),
        generator: None,
    }))
}

/// The tensors of a list of arguments or results, in order, with the hashes of `log` in the same
/// order, if there are any. A tensor may have several.
fn tensors(text: &str, log: &str) -> Result<Vec<Tensor>, String> {
    let mut tensors = Vec::new();
    for (at, _) in text.match_indices(": ") {
        // `t`, `dt` or `ft`, with `$` and a number if ids are recorded.
        let before = &text[..at];
        let in_word = |c: char| c.is_ascii_alphanumeric() || c == '$';
        let word = &before[before.trim_end_matches(in_word).len()..];
        let kind = word.split('$').next().unwrap_or("");
        let Some((dtype, rest)) = text[at + 2..].split_once('[') else { continue };
        let Some((shape, _)) = rest.split_once(']') else { continue };
        if !matches!(kind, "t" | "dt" | "ft") || !dtype.bytes().all(|c| c.is_ascii_alphanumeric()) {
            continue;
        }
        let shape = shape.split(", ").filter(|size| !size.is_empty()).map(str::parse);
        tensors.push(Tensor {
            shape: shape.collect::<Result<_, _>>().map_err(|error| format!("a shape: {error}"))?,
            dtype: dtype.to_owned(),
            device: String::new(),
            digest: UNKNOWN,
            name: None,
            file: None,
        });
    }
    let hashes: Vec<u64> = log
        .split(['(', ')', '[', ']', '{', '}', ',', ' '])
        .filter(|word| !word.is_empty() && !word.ends_with(':') && *word != "None")
        .map(hash)
        .collect::<Result<_, _>>()?;
    if hashes.is_empty() {
        return Ok(tensors);
    }
    if tensors.is_empty() || !hashes.len().is_multiple_of(tensors.len()) {
        return Err(format!("{} hashes of {} tensors", hashes.len(), tensors.len()));
    }
    let each = hashes.len() / tensors.len();
    for (tensor, hashes) in tensors.iter_mut().zip(hashes.chunks(each)) {
        let mut all = DefaultHasher::new();
        hashes.hash(&mut all);
        tensor.digest = Digest(all.finish());
    }
    Ok(tensors)
}

/// The bits of a hash, a float or an integer.
fn hash(word: &str) -> Result<u64, String> {
    let integer = word.parse().or_else(|_| word.parse::<i64>().map(|value| value as u64));
    integer
        .or_else(|_| word.parse::<f64>().map(f64::to_bits))
        .map_err(|_| format!("expected a hash, found `{word}`"))
}

/// Ids of tensors count objects of Python.
fn without_ids(text: &str) -> String {
    let mut pieces = text.split('$');
    let mut kept = pieces.next().unwrap_or("").to_owned();
    for piece in pieces {
        kept.push_str(piece.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    kept
}
