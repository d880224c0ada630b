//! Parsing of choices, with the line of every fault.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::time::Duration;

use samebits_numerics::NUMERICS_VERSION;
use serde::Deserialize;
use toml::Spanned;

use super::{Choice, ChoiceFile, FORMAT_VERSION, Measured, Outcome};
use crate::{Error, Fingerprint, Key, Result};

/// Versions, which are read first: a file of another version may have other fields.
#[derive(Deserialize)]
struct Versions {
    format: Spanned<i64>,
    numerics: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "K: Key")]
struct RawFile<K> {
    #[serde(rename = "format")]
    _format: i64,
    #[serde(rename = "numerics")]
    _numerics: i64,
    device: Spanned<String>,
    library: Spanned<String>,
    #[serde(default = "Vec::new")]
    choice: Vec<RawChoice<K>>,
    end: RawEnd,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "K: Key")]
struct RawChoice<K> {
    algorithm: Spanned<String>,
    digest: Option<Spanned<String>>,
    key: K,
    candidates: BTreeMap<String, Spanned<RawMeasured>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMeasured {
    time_ns: Option<u64>,
    workspace: usize,
    disqualified: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEnd {
    choices: Spanned<usize>,
}

/// Parses the whole text, or returns an error with the line.
pub(super) fn parse<K: Key>(path: PathBuf, bytes: Vec<u8>) -> Result<ChoiceFile<K>> {
    let mut lines = Lines { bytes: &bytes, at: 0, line: 1 };
    let damaged = |line, message: String| Error::Damaged { path: path.clone(), line, message };
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        damaged(lines.of(error.valid_up_to()), "the text is not UTF-8".to_owned())
    })?;
    let syntax = |lines: &mut Lines<'_>, at: usize, error: toml::de::Error| {
        damaged(lines.of(at), error.message().trim().replace('\n', ", "))
    };

    // Check the versions before the fields: another version may have other fields.
    let versions: Versions = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(bytes.len(), |span| span.start);
        syntax(&mut lines, at, error)
    })?;
    for (what, file, here) in [
        ("format", &versions.format, FORMAT_VERSION),
        ("numerics", &versions.numerics, NUMERICS_VERSION.into()),
    ] {
        if *file.get_ref() != here {
            let (line, file) = (lines.of(file.span().start), *file.get_ref());
            return Err(Error::Version { path: path.clone(), line, what, file, here });
        }
    }

    let raw: RawFile<K> = toml::from_str(text).map_err(|error| {
        let at = match error.span() {
            Some(span) if !span.is_empty() && span != (0..text.len()) => span.start,
            // Missing content shows at the end.
            _ => bytes.len(),
        };
        syntax(&mut lines, at, error)
    })?;
    let device = lines.of(raw.device.span().start);
    let library = lines.of(raw.library.span().start);
    let mut choices: BTreeMap<K, Choice> = BTreeMap::new();
    let count = raw.choice.len();
    for raw in raw.choice {
        let at = lines.of(raw.algorithm.span().start);
        if let Some(digest) = &raw.digest
            && !is_digest(digest.get_ref())
        {
            let message = format!("{:?} is not `sha256:` and 64 digits", digest.get_ref());
            return Err(damaged(lines.of(digest.span().start), message));
        }
        let mut measured = Vec::new();
        for (name, raw) in raw.candidates {
            let at = raw.span().start;
            let RawMeasured { time_ns, workspace, disqualified } = raw.into_inner();
            let outcome = match (time_ns, disqualified) {
                (Some(time), None) => Outcome::Time(Duration::from_nanos(time)),
                (None, Some(reason)) => Outcome::Disqualified(reason),
                _ => {
                    let message =
                        format!("candidate {name:?} needs one of `time_ns` and `disqualified`");
                    return Err(damaged(lines.of(at), message));
                }
            };
            measured.push(Measured { name, workspace, outcome });
        }
        let algorithm = raw.algorithm.into_inner();
        match measured.iter().find(|m| m.name == algorithm).map(|m| &m.outcome) {
            Some(Outcome::Time(_)) => {}
            Some(Outcome::Disqualified(reason)) => {
                let message = format!("{algorithm:?} is chosen but was disqualified: {reason}");
                return Err(damaged(at, message));
            }
            None => {
                let message = format!("{algorithm:?} is chosen but is not among the candidates");
                return Err(damaged(at, message));
            }
        }
        sort(&mut measured);
        let digest = raw.digest.map(Spanned::into_inner);
        match choices.entry(raw.key) {
            Entry::Vacant(vacant) => {
                vacant.insert(Choice { algorithm, digest, measured, line: at });
            }
            Entry::Occupied(occupied) => {
                let message = format!(
                    "a second choice for {}, the first is on line {}; remove one",
                    occupied.key(),
                    occupied.get().line
                );
                return Err(damaged(at, message));
            }
        }
    }
    let promised = *raw.end.choices.get_ref();
    if promised != count {
        let message = format!(
            "{count} choices where this line says {promised}; if choices were added or removed on \
             purpose, correct this line"
        );
        return Err(damaged(lines.of(raw.end.choices.span().start), message));
    }
    let fingerprint = Fingerprint::new(raw.device.into_inner(), raw.library.into_inner());
    Ok(ChoiceFile { path, bytes, fingerprint, fingerprint_lines: (device, library), choices })
}

/// Sorts the measurements by time, then by name; disqualified candidates come last.
pub(super) fn sort(measured: &mut [Measured]) {
    measured.sort_by(|a, b| {
        let time = |m: &Measured| match m.outcome {
            Outcome::Time(time) => time,
            Outcome::Disqualified(_) => Duration::MAX,
        };
        time(a).cmp(&time(b)).then_with(|| a.name.cmp(&b.name))
    });
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// Counter of lines that continues from its last position, so that queries in the order of the text
/// read it only once.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl Lines<'_> {
    /// Returns the line, counted from 1, of the byte at `offset`. The end of a text belongs to its
    /// last line.
    fn of(&mut self, offset: usize) -> usize {
        let offset = offset.min(self.bytes.len().saturating_sub(1));
        if offset < self.at {
            (self.at, self.line) = (0, 1);
        }
        self.line += self.bytes[self.at..offset].iter().filter(|&&b| b == b'\n').count();
        self.at = offset;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_any_order() {
        let bytes = b"a\n\nb\nc\n";
        let expected = [1, 1, 2, 3, 3, 4, 4, 4, 4];
        for first in 0..expected.len() {
            for second in 0..expected.len() {
                let mut lines = Lines { bytes, at: 0, line: 1 };
                assert_eq!(lines.of(first), expected[first]);
                assert_eq!(lines.of(second), expected[second], "{second} after {first}");
            }
        }
        assert_eq!(Lines { bytes: b"", at: 0, line: 1 }.of(7), 1);
    }
}
