//! Logs of PyTorch's `DebugMode`, recorded under `DebugMode.log_tensor_hashes()`: the text of
//! `DebugMode.debug_string()` and the JSON of `DebugMode.save_logs()`.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::ReadError;
use super::foreign::{Opened, Translation};
use super::lines::Lines;
use crate::digest::Digest;
use crate::record::{Event, Operation, Phase, Tensor};

/// Operations that overwrite their first input without reading it. The input often comes from
/// `empty`, so its hash is meaningless.
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

/// Headers of annotations that name a module.
const MODULES: &[&str] = &["nn.Mod", "nn.Mod (compile)", "nn.Mod (compile bwd)"];

const HASHES_BEFORE: &str = "# pre-kernel hashes: ";
const HASHES_AFTER: &str = "# post-kernel hashes: ";

/// The JSON's format identifier.
const FORMAT: &str = "torch.utils._debug_mode.DebugMode.logs";

/// Returns true if a file that begins with this line is text rather than JSON.
pub(super) fn is_dump(line: &[u8]) -> bool {
    !line.trim_ascii_start().starts_with(b"{")
}

/// Returns true if a file with this beginning is the JSON of `DebugMode.save_logs()`.
pub(super) fn is_saved(beginning: &[u8]) -> bool {
    let beginning = &beginning[..beginning.len().min(256)];
    beginning.windows(FORMAT.len()).any(|bytes| bytes == FORMAT.as_bytes())
}

/// Translates the text into the schema. A record's sequence is its line number.
pub(super) fn translate(path: &Path, world_size: u32) -> Result<Opened, ReadError> {
    let mut lines = Lines::new(path, File::open(path).map_err(ReadError::io(path))?);
    let mut log = Log::new(path, world_size)?;
    // The lines after a kernel hold its hashes.
    let mut kernel: Option<(u64, Operation)> = None;
    let mut number = 0;
    while let Some(line) = lines.text()? {
        number += 1;
        let text = line.trim();
        let depth = line.len() - line.trim_start().len();
        let (before, after) = (text.strip_prefix(HASHES_BEFORE), text.strip_prefix(HASHES_AFTER));
        if let (Some((_, kernel)), Some(hashes)) = (&mut kernel, before.or(after)) {
            let tensors = if before.is_some() { &mut kernel.inputs } else { &mut kernel.outputs };
            words(hashes).and_then(|all| hashed(tensors, &all)).map_err(|it| lines.wrong(it))?;
            continue;
        }
        if let Some((at, kernel)) = kernel.take() {
            log.call(at, kernel)?;
        }
        if text.is_empty() || text.starts_with("# ") {
        } else if let Some((header, tag)) = annotation(text) {
            log.annotation(number, depth, header, tag);
        } else if let Some((name, arguments)) = kernel_call(text) {
            log.leave(depth);
            kernel = Some((number, triton(name, arguments).map_err(|it| lines.wrong(it))?));
        } else if let Some(call) = call(text).map_err(|problem| lines.wrong(problem))? {
            log.leave(depth);
            log.call(number, call)?;
        } else {
            log.pass_over(number);
        }
    }
    if let Some((number, kernel)) = kernel {
        log.call(number, kernel)?;
    }
    log.finish("line")
}

/// Logs in the format of `DebugMode.save_logs()`.
#[derive(Deserialize)]
struct Saved {
    version: u64,
    logs: Vec<Value>,
}

#[derive(Deserialize)]
struct Common {
    #[serde(rename = "type")]
    kind: String,
    call_depth: usize,
    #[serde(default)]
    log: Option<Value>,
    #[serde(default)]
    output_str: Option<String>,
}

#[derive(Deserialize)]
struct SavedCall {
    op_name: String,
    args_str: String,
    kwargs_str: String,
}

#[derive(Deserialize)]
struct SavedKernel {
    kernel_name: String,
    kwargs_str: String,
    pre_hashes: Option<Value>,
    post_hashes: Option<Value>,
}

#[derive(Deserialize)]
struct SavedAnnotation {
    header: String,
    tag: String,
}

#[derive(Deserialize)]
struct SavedRedistribution {
    arg_str: String,
    src_placement_str: String,
    dst_placement_str: String,
    transform_info_str: Option<String>,
}

#[derive(Deserialize)]
struct SavedPlacement {
    placements_str: String,
}

/// Translates the JSON into the schema. A record's sequence is the number of its entry, from 1.
pub(super) fn translate_saved(path: &Path, world_size: u32) -> Result<Opened, ReadError> {
    let file = BufReader::new(File::open(path).map_err(ReadError::io(path))?);
    let wrong = |problem: String| ReadError::unusable(path, problem);
    let saved: Saved = serde_json::from_reader(file)
        .map_err(|error| wrong(format!("logs of DebugMode: {error}")))?;
    if saved.version != 1 {
        let version = saved.version;
        return Err(wrong(format!("logs of DebugMode: expected version 1, found {version}")));
    }
    let mut log = Log::new(path, world_size)?;
    for (number, entry) in (1..).zip(saved.logs) {
        saved_entry(&mut log, number, entry)
            .map_err(|problem| wrong(format!("entry {number} of the logs: {problem}")))?
            .map_or(Ok(()), |call| log.call(number, call))?;
    }
    log.finish("entry")
}

/// Reads the call of an entry, if it has one.
fn saved_entry(log: &mut Log<'_>, number: u64, entry: Value) -> Result<Option<Operation>, String> {
    fn read<T: for<'a> Deserialize<'a>>(entry: Value) -> Result<T, String> {
        serde_json::from_value(entry).map_err(|error| error.to_string())
    }
    let common: Common = read(entry.clone())?;
    let depth = common.call_depth;
    if common.kind != "annotate" {
        log.leave(depth);
    }
    let results = common.output_str.as_deref().unwrap_or("").trim_start_matches("  ->  ");
    Ok(match common.kind.as_str() {
        "op" => {
            let SavedCall { op_name, args_str, kwargs_str } = read(entry)?;
            if !is_operator(&op_name) {
                log.pass_over(number);
                return Ok(None);
            }
            let hashes = |key: &str| scalars(common.log.as_ref().and_then(|log| item(log, key)));
            let arguments = args_str + &kwargs_str;
            let (input, output) = (hashes("input_hash")?, hashes("hash")?);
            Some(operation(&op_name, &arguments, results, &input, &output)?)
        }
        "triton_kernel" => {
            let SavedKernel { kernel_name, kwargs_str, pre_hashes, post_hashes } = read(entry)?;
            let mut kernel = triton(&kernel_name, &kwargs_str)?;
            hashed(&mut kernel.inputs, &scalars(pre_hashes.as_ref())?)?;
            hashed(&mut kernel.outputs, &scalars(post_hashes.as_ref())?)?;
            Some(kernel)
        }
        "redistribute" => {
            let saved: SavedRedistribution = read(entry)?;
            let (from, to) = (saved.src_placement_str, saved.dst_placement_str);
            let how = saved
                .transform_info_str
                .map_or(format!("{from} -> {to}"), |it| format!("trace: {it}"));
            let arguments = format!("{}, {how}", saved.arg_str);
            Some(operation(REDISTRIBUTION, &arguments, results, &[], &[])?)
        }
        "output_placement" => {
            let SavedPlacement { placements_str } = read(entry)?;
            Some(operation(PLACEMENT, &placements_str, "", &[], &[])?)
        }
        "annotate" => {
            let SavedAnnotation { header, tag } = read(entry)?;
            log.annotation(number, depth, &header, &tag);
            None
        }
        _ => {
            log.pass_over(number);
            None
        }
    })
}

/// Returns the value of a key in a dictionary serialised by `DebugMode`.
fn item<'a>(dictionary: &'a Value, key: &str) -> Option<&'a Value> {
    let items = dictionary.get("items")?.as_array()?;
    items.iter().find(|item| item[0] == key).map(|item| &item[1])
}

/// Collects the hashes in nested lists, tuples and dictionaries serialised by `DebugMode`.
fn scalars(value: Option<&Value>) -> Result<Vec<u64>, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    let items = || value["items"].as_array().ok_or("missing `items`".to_owned());
    match value["type"].as_str().unwrap_or("") {
        "scalar" | "nonfinite_float" => match &value["value"] {
            Value::Null => Ok(Vec::new()),
            Value::String(text) => Ok(vec![hash(text)?]),
            other => Ok(vec![hash(&other.to_string())?]),
        },
        "tuple" | "list" => {
            let all: Result<Vec<_>, _> = items()?.iter().map(|item| scalars(Some(item))).collect();
            Ok(all?.concat())
        }
        "dict" => {
            let all: Result<Vec<_>, _> = items()?.iter().map(|item| scalars(item.get(1))).collect();
            Ok(all?.concat())
        }
        other => Err(format!("expected a hash, found a `{other}`")),
    }
}

/// The records of a log, in order.
struct Log<'a> {
    path: &'a Path,
    translation: Translation,
    /// The active modules, each with its depth.
    modules: Vec<(usize, String)>,
    occurrences: BTreeMap<(String, String), u64>,
    calls: u64,
    hashed: bool,
    /// The number of lines or entries without a call, and the first of them.
    passed_over: Option<(u64, u64)>,
}

impl Log<'_> {
    fn new(path: &Path, world_size: u32) -> Result<Log<'_>, ReadError> {
        Ok(Log {
            path,
            translation: Translation::new(path, "DebugMode", 0, world_size)?,
            modules: Vec::new(),
            occurrences: BTreeMap::new(),
            calls: 0,
            hashed: false,
            passed_over: None,
        })
    }

    /// Leaves the modules that do not enclose this depth.
    fn leave(&mut self, depth: usize) {
        self.modules.retain(|&(outer, _)| outer < depth);
    }

    fn annotation(&mut self, number: u64, depth: usize, header: &str, tag: &str) {
        self.leave(depth);
        if MODULES.contains(&header) {
            self.modules.push((depth, tag.to_owned()));
        } else {
            self.pass_over(number);
        }
    }

    fn pass_over(&mut self, number: u64) {
        let (count, first) = self.passed_over.unwrap_or((0, number));
        self.passed_over = Some((count + 1, first));
    }

    fn call(&mut self, number: u64, mut call: Operation) -> Result<(), ReadError> {
        self.calls += 1;
        self.hashed |= call.outputs.iter().any(|tensor| tensor.digest.is_some());
        call.module = self.modules.last().map(|(_, module)| module.clone()).unwrap_or_default();
        let seen = self.occurrences.entry((call.module.clone(), call.name.clone())).or_default();
        call.occurrence = *seen;
        *seen += 1;
        self.translation.append(0, number, Event::Op(call))
    }

    fn finish(self, what: &str) -> Result<Opened, ReadError> {
        if self.calls == 0 {
            let problem = "is no ledger, no trace of Megatron-LM and no log of DebugMode: nothing in it \
                           tells of a call";
            return Err(ReadError::unusable(self.path, problem));
        }
        if !self.hashed {
            let problem =
                "holds no hashes: record it under `DebugMode.log_tensor_hashes(hash_inputs=True)`";
            return Err(ReadError::unusable(self.path, problem));
        }
        let left_out = self.passed_over.map(|(count, first)| {
            let whats = if what == "line" { "lines" } else { "entries" };
            match count {
                1 => format!("{what} {first}, which has no operation"),
                _ => format!("{count} {whats} without an operation, {what} {first} the first"),
            }
        });
        Opened::foreign(self.translation, left_out.into_iter().collect())
    }
}

const REDISTRIBUTION: &str = "redistribute_input";
const PLACEMENT: &str = "output placement";

/// Returns true if a name is an operator's: `aten::mm`. Calls above the dispatcher have other
/// names.
fn is_operator(name: &str) -> bool {
    name.contains("::") && !name.contains(char::is_whitespace)
}

/// Splits an annotation into header and text: `[nn.Mod] Linear`.
fn annotation(text: &str) -> Option<(&str, &str)> {
    let (header, tag) = text.strip_prefix('[')?.split_once("] ")?;
    (header != "triton").then_some((header, tag))
}

/// Splits a Triton kernel call into name and arguments:
/// `[triton] name(in_ptr0=t: f32[3], xnumel=3)`.
fn kernel_call(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("[triton] ")?.strip_suffix(')')?.split_once('(')
}

/// Parses the call of a line: `aten::mm(t: f32[2, 3], ..)  ->  t: f32[2]  # {..}`.
fn call(text: &str) -> Result<Option<Operation>, String> {
    if let Some(placements) = text.strip_prefix("-> output: ") {
        return operation(PLACEMENT, placements, "", &[], &[]).map(Some);
    }
    let Some((name, rest)) = text.split_once('(') else { return Ok(None) };
    let name = if name.starts_with(REDISTRIBUTION) { REDISTRIBUTION } else { name };
    if !is_operator(name) && name != REDISTRIBUTION {
        return Ok(None);
    }
    let (call, log) = rest.rsplit_once("  # {").unwrap_or((rest, ""));
    let (arguments, results) =
        call.split_once(")  ->  ").unwrap_or((call.trim_end_matches(')'), ""));
    let (input_log, output_log) = log.split_once("'hash': ").unwrap_or((log, ""));
    let input_log = input_log.strip_prefix("'input_hash': ").unwrap_or("");
    operation(name, arguments, results, &words(input_log)?, &words(output_log)?).map(Some)
}

/// Makes a call, with the hashes of its inputs and of its outputs.
fn operation(
    name: &str,
    arguments: &str,
    results: &str,
    input: &[u64],
    output: &[u64],
) -> Result<Operation, String> {
    let (mut inputs, mut outputs) = (tensors(arguments)?, tensors(results)?);
    hashed(&mut inputs, input)?;
    hashed(&mut outputs, output)?;
    let operator = name.rsplit("::").next().unwrap_or(name).split('.').next().unwrap_or(name);
    if OVERWRITING.contains(&operator) && !inputs.is_empty() {
        inputs.remove(0);
    }
    Ok(Operation {
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
    })
}

/// Makes the call of a Triton kernel. It may write to any of its tensors, so all inputs are also
/// outputs.
fn triton(name: &str, arguments: &str) -> Result<Operation, String> {
    let mut kernel = operation(name, arguments, "", &[], &[])?;
    kernel.outputs = kernel.inputs.clone();
    Ok(kernel)
}

/// Parses the tensors in a list of arguments or results, in order.
fn tensors(text: &str) -> Result<Vec<Tensor>, String> {
    let mut tensors = Vec::new();
    for (at, _) in text.match_indices(": ") {
        // `t`, `dt` or `ft`, with `$` and a number if ids are recorded.
        let before = &text[..at];
        let in_word = |c: char| c.is_ascii_alphanumeric() || c == '$';
        let named = before.trim_end_matches(in_word);
        let kind = before[named.len()..].split('$').next().unwrap_or("");
        let Some((dtype, rest)) = text[at + 2..].split_once('[') else { continue };
        let Some((shape, _)) = rest.split_once(']') else { continue };
        if !matches!(kind, "t" | "dt" | "ft") || !dtype.bytes().all(|c| c.is_ascii_alphanumeric()) {
            continue;
        }
        let shape = shape.split(", ").filter(|size| !size.is_empty()).map(str::parse);
        let shape = shape.collect::<Result<_, _>>().map_err(|error| format!("a shape: {error}"))?;
        // A keyword argument: `in_ptr0=t: f32[3]`.
        let keyword = named.strip_suffix('=').map(|named| {
            let in_name = |c: char| c.is_alphanumeric() || c == '_';
            named[named.trim_end_matches(in_name).len()..].to_owned()
        });
        tensors.push(Tensor { name: keyword, ..Tensor::without_digest(shape, dtype) });
    }
    Ok(tensors)
}

/// Assigns hashes to tensors, in the same order, if there are any. A tensor may have several.
fn hashed(tensors: &mut [Tensor], hashes: &[u64]) -> Result<(), String> {
    if hashes.is_empty() {
        return Ok(());
    }
    if tensors.is_empty() || !hashes.len().is_multiple_of(tensors.len()) {
        return Err(format!("{} hashes of {} tensors", hashes.len(), tensors.len()));
    }
    let each = hashes.len() / tensors.len();
    for (tensor, hashes) in tensors.iter_mut().zip(hashes.chunks(each)) {
        let mut all = DefaultHasher::new();
        hashes.hash(&mut all);
        tensor.digest = Some(Digest(all.finish()));
    }
    Ok(())
}

/// Parses the hashes in a text; ignores keys of dictionaries.
fn words(text: &str) -> Result<Vec<u64>, String> {
    text.split(['(', ')', '[', ']', '{', '}', ',', ' '])
        .filter(|word| !word.is_empty() && !word.ends_with(':') && *word != "None")
        .map(hash)
        .collect()
}

/// Returns the bits of a hash, a float or an integer.
fn hash(word: &str) -> Result<u64, String> {
    let integer = word.parse().or_else(|_| word.parse::<i64>().map(|value| value as u64));
    integer
        .or_else(|_| word.parse::<f64>().map(f64::to_bits))
        .map_err(|_| format!("expected a hash, found `{word}`"))
}

/// Removes ids of tensors, which count Python objects.
fn without_ids(text: &str) -> String {
    let mut pieces = text.split('$');
    let mut kept = pieces.next().unwrap_or("").to_owned();
    for piece in pieces {
        kept.push_str(piece.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    kept
}
