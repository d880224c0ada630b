//! The lines of a ledger, as `docs/book/ledger.md` describes them.
//!
//! Reading is strict: unknown fields, missing fields, fields of another type, other schema versions
//! and duplicate keys are errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::{Digest, SAMPLED_WORDS, WORD};
use crate::unique;

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of the schema.
    pub schema: Version,
    /// The rank that wrote it.
    pub rank: u32,
    /// Its position in the file: 0, 1, 2 and so on.
    pub sequence: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// The version of the schema that this crate reads and writes: 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u32", try_from = "u32")]
pub struct Version;

impl From<Version> for u32 {
    fn from(_: Version) -> u32 {
        1
    }
}

impl TryFrom<u32> for Version {
    type Error = String;

    fn try_from(found: u32) -> Result<Version, String> {
        let expected = u32::from(Version);
        if found == expected {
            Ok(Version)
        } else {
            Err(format!("schema: expected version {expected}, found {found}"))
        }
    }
}

/// Event of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The first line of a file.
    Header(Header),
    /// An operation.
    Op(Operation),
    /// A layer's forward pass.
    Layer(Operation),
    /// The end of a step.
    Step(Step),
    /// A delivered batch.
    Data(Data),
    /// A failed step that begins again.
    Abandoned(Abandoned),
    /// The last line of a file that was closed properly.
    End(End),
}

/// Information about a whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The number of ranks; each has its own file.
    pub world_size: u32,
    /// The program that wrote it.
    pub writer: Program,
    /// The level of detail.
    pub detail: Detail,
    /// The coverage of the digests.
    pub digests: Digests,
    /// Properties that may differ between machines and processes.
    #[serde(deserialize_with = "unique::map")]
    pub environment: BTreeMap<String, String>,
    /// The seeds. A negative one is written modulo 2⁶⁴.
    #[serde(deserialize_with = "unique::map")]
    pub seeds: BTreeMap<String, u64>,
    /// The identity of the data, if given.
    pub data: Option<String>,
}

/// A program that writes ledgers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Level of detail of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// The loss, the parameters and the gradients of each step.
    Step,
    /// Also inputs and outputs of each layer.
    Layer,
    /// Also every operation.
    #[default]
    Op,
}

/// Coverage of the digests of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Digests {
    /// Every element: [`sum64`](crate::digest::sum64).
    Full,
    /// Every element of tensors of up to 64 KiB, and a [`sample`](crate::digest::sample) of larger
    /// ones: [`sampled64`](crate::digest::sampled64).
    #[default]
    Sampled,
}

/// An operation or a layer's forward pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The training step, from 0.
    pub step: u64,
    /// The batch within the step, from 0.
    pub microbatch: u64,
    /// The part of the step.
    pub phase: Phase,
    /// The operation's name, or the layer's type.
    pub name: String,
    /// The path of the module it belongs to; may be empty.
    #[serde(default)]
    pub module: String,
    /// The call site, as `file:line`; may be empty.
    #[serde(default)]
    pub site: String,
    /// The number of earlier records with the same step, microbatch, phase, module and name.
    pub occurrence: u64,
    /// The required determinism level; may be empty.
    #[serde(default)]
    pub level: String,
    /// The chosen kernel; may be empty.
    #[serde(default)]
    pub variant: String,
    /// The input tensors.
    pub inputs: Vec<Tensor>,
    /// The output tensors.
    pub outputs: Vec<Tensor>,
    /// The arguments other than tensors.
    #[serde(default, deserialize_with = "unique::values")]
    pub parameters: BTreeMap<String, Value>,
    /// The generator's positions, if the operation draws random numbers.
    #[serde(default)]
    pub generator: Option<Generator>,
}

/// The part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Computation of the loss.
    Forward,
    /// Computation of gradients.
    Backward,
    /// Update of parameters.
    Optimizer,
    /// Preparation of a batch.
    Data,
    /// Everything else.
    Other,
}

/// Positions of a generator before and after an operation. They are compared as values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// Before.
    #[serde(deserialize_with = "unique::value")]
    pub before: Value,
    /// After.
    #[serde(deserialize_with = "unique::value")]
    pub after: Value,
}

/// The end of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The training step, from 0.
    pub step: u64,
    /// The loss.
    pub loss: Option<Tensor>,
    /// The parameters after the step.
    #[serde(deserialize_with = "unique::map")]
    pub parameters: BTreeMap<String, Tensor>,
    /// The gradients used in the step.
    #[serde(deserialize_with = "unique::map")]
    pub gradients: BTreeMap<String, Tensor>,
    /// The generator's position.
    #[serde(default, deserialize_with = "unique::option")]
    pub generator: Option<Value>,
}

/// A delivered batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The training step, from 0.
    pub step: u64,
    /// The batch within the step, from 0.
    pub microbatch: u64,
    /// The tensors of the batch.
    pub tensors: Vec<Tensor>,
    /// The indices of the samples, if known.
    pub indices: Option<Tensor>,
}

/// A failed step that begins again. Readers skip the records of the failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abandoned {
    /// The training step, from 0.
    pub step: u64,
    /// The sequence of the first record to skip; the last one is the record before this.
    pub from: u64,
}

/// The end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The number of lines before this one.
    pub records: u64,
}

/// A tensor's metadata, and a digest of its elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its element type: `f32`, `i64`, `bool` and so on.
    pub dtype: String,
    /// Its device: `cpu`, `cuda:0` and so on.
    pub device: String,
    /// The digest of its elements, if they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The reason why there is no digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The name of the argument or result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A file with its bytes, relative to the ledger's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Tensor {
    /// Makes a tensor whose elements are unknown.
    pub(crate) fn without_digest(shape: Vec<u64>, dtype: &str) -> Tensor {
        Tensor {
            shape,
            dtype: dtype.to_owned(),
            device: String::new(),
            digest: None,
            reason: None,
            name: None,
            file: None,
        }
    }

    /// Returns true if a [sampled](Digests::Sampled) digest leaves out some of the elements.
    pub(crate) fn is_larger_than_samples(&self) -> bool {
        // Names of types end in their number of bits; types without one count as bytes.
        let bits = self.dtype.trim_start_matches(|c: char| !c.is_ascii_digit()).parse();
        let elements = self.shape.iter().fold(1u64, |all, &size| all.saturating_mul(size));
        elements.saturating_mul(bits.map_or(1, |bits: u64| bits / 8)) > SAMPLED_WORDS * WORD as u64
    }
}

/// Converts a number to a ledger's JSON: values that JSON cannot represent become strings.
pub fn real(value: f64) -> Value {
    match value {
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        _ if value.is_nan() => "NaN".into(),
        _ => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENSOR: &str =
        r#"{"shape":[2],"dtype":"f32","device":"cpu","digest":"0123456789abcdef"}"#;

    fn op(rest: &str) -> String {
        format!(
            r#"{{"schema":1,"rank":0,"sequence":3,"event":"op","step":0,"microbatch":0,
            "phase":"forward","name":"add","module":"","site":"a.rs:1","occurrence":0,
            "level":"Portable","variant":"fast","inputs":[{TENSOR}],"outputs":[],
            "generator":null,{rest}}}"#
        )
        .replace("\n            ", "")
    }

    fn read(text: &str) -> Result<Record, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn what_is_written_is_read() {
        let text = op(r#""parameters":{"alpha":2.0,"keep":[18446744073709551615,true]}"#);
        let record = read(&text).expect("it fits the schema");
        let again = serde_json::to_string(&record).expect("it can be written");
        assert_eq!(read(&again).expect("it fits the schema"), record);
        let Event::Op(operation) = &record.event else { panic!("an operation") };
        assert_eq!(operation.inputs[0].digest, Some(Digest(0x0123_4567_89ab_cdef)));
        assert_eq!(operation.parameters["keep"][0], u64::MAX);
        assert!(again.starts_with(r#"{"schema":1,"rank":0,"sequence":3,"event":"op","step":0,"#));
    }

    #[test]
    fn a_digest_may_be_missing() {
        let text = op(r#""parameters":{}"#)
            .replace(r#""digest":"0123456789abcdef""#, r#""reason":"it has no memory""#);
        let record = read(&text).expect("it fits the schema");
        let Event::Op(operation) = &record.event else { panic!("an operation") };
        assert_eq!(operation.inputs[0].digest, None);
        assert_eq!(operation.inputs[0].reason.as_deref(), Some("it has no memory"));
        let again = serde_json::to_string(&record).expect("it can be written");
        assert_eq!(read(&again).expect("it fits the schema"), record);
    }

    #[test]
    fn what_the_schema_does_not_have_is_refused() {
        let good = op(r#""parameters":{}"#);
        assert!(read(&good).is_ok());
        for (from, to, complaint) in [
            ("\"schema\":1", "\"schema\":2", "expected version 1, found 2"),
            ("\"schema\":1,", "", "missing field `schema`"),
            ("\"rank\":0", "\"rank\":0,\"rank\":0", "duplicate field `rank`"),
            ("\"step\":0", "\"step\":0,\"step\":0", "duplicate field `step`"),
            ("\"event\":\"op\"", "\"event\":\"op\",\"event\":\"op\"", "duplicate field `event`"),
            ("\"step\":0", "\"step\":0,\"stop\":0", "unknown field `stop`"),
            ("\"step\":0", "\"step\":-1", "invalid value"),
            ("\"step\":0", "\"step\":0.5", "invalid type"),
            ("\"event\":\"op\"", "\"event\":\"opera\"", "unknown variant `opera`"),
            ("\"dtype\":\"f32\"", "\"dtype\":\"f32\",\"layout\":1", "unknown field `layout`"),
            ("\"dtype\":\"f32\"", "\"dtype\":\"f32\",\"dtype\":\"f32\"", "duplicate field `dtype`"),
            ("0123456789abcdef", "0123456789ABCDEF", "hexadecimal"),
            ("\"parameters\":{}", "\"parameters\":{\"a\":1,\"a\":1}", "duplicate key `a`"),
            (
                "\"parameters\":{}",
                "\"parameters\":{\"a\":[{\"b\":1,\"b\":1}]}",
                "duplicate key `b`",
            ),
            (
                "\"generator\":null",
                "\"generator\":{\"before\":{\"a\":1,\"a\":2},\"after\":{}}",
                "duplicate key `a`",
            ),
        ] {
            assert!(good.contains(from), "{from}");
            let error = read(&good.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.contains(complaint), "{to}: {error}");
        }
    }

    #[test]
    fn numbers_that_json_has_not_are_strings() {
        assert_eq!(real(f64::NAN), "NaN");
        assert_eq!(real(f64::INFINITY), "inf");
        assert_eq!(real(f64::NEG_INFINITY), "-inf");
        assert_eq!(real(-0.0).to_string(), "-0.0");
        assert_eq!(real(0.1).to_string(), "0.1");
    }
}
