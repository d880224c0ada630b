use std::collections::BTreeMap;

use samebits::Tensor;
use samebits::tensor_core::Tensor as Value;

use crate::{Error, Result};

/// The golden digests of the corpus, by family and name of the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Golden {
    families: BTreeMap<String, BTreeMap<String, String>>,
}

macro_rules! shipped {
    ($($family:literal),+ $(,)?) => {
        [$(($family, include_str!(concat!("../golden/", $family, ".snap")))),+]
    };
}

impl Golden {
    /// Returns the digests shipped with this crate: those of `NUMERICS_VERSION`, the same on every
    /// machine.
    ///
    /// # Errors
    ///
    /// [`Error::Golden`] if the crate's own files are broken.
    pub fn shipped() -> Result<Golden> {
        let files = shipped!(
            "bincount",
            "contraction",
            "elementwise",
            "embedding",
            "half",
            "index",
            "integers",
            "loss",
            "norm",
            "optim",
            "pooling",
            "random",
            "recurrent",
            "reduce",
            "resample",
            "scan",
            "scatter",
            "sort",
            "sparse",
            "stored",
        );
        let mut golden = Golden { families: BTreeMap::new() };
        for (family, snapshot) in files {
            // The text of a snapshot follows two lines of dashes.
            let text = snapshot.splitn(3, "---\n").last().unwrap_or(snapshot);
            golden.add(family, text)?;
        }
        Ok(golden)
    }

    /// Adds or replaces the digests of a family: one line per case, with 16 hexadecimal digits, two
    /// spaces and the name of the case.
    ///
    /// # Errors
    ///
    /// [`Error::Golden`] for the first line of another form.
    pub fn add(&mut self, family: &str, text: &str) -> Result<()> {
        let mut cases = BTreeMap::new();
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let (digest, name) = line
                .split_once("  ")
                .filter(|(digest, _)| digest.len() == 16 && digest.bytes().all(is_hex))
                .ok_or_else(|| Error::Golden {
                    family: family.to_owned(),
                    line: i + 1,
                    found: line.to_owned(),
                })?;
            cases.insert(name.to_owned(), digest.to_owned());
        }
        self.families.insert(family.to_owned(), cases);
        Ok(())
    }

    /// Returns the golden digest of a case, if there is one.
    pub fn of(&self, family: &str, case: &str) -> Option<&str> {
        Some(self.families.get(family)?.get(case)?.as_str())
    }

    /// Returns the cases of a family that have a golden digest.
    pub fn cases(&self, family: &str) -> impl Iterator<Item = &str> {
        self.families.get(family).into_iter().flat_map(|cases| cases.keys().map(String::as_str))
    }
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

/// Returns a short digest of the results of a case.
///
/// # Errors
///
/// A device cannot return its tensor.
pub fn short_digest(tensors: &[Value]) -> samebits::Result<String> {
    let tensors: Vec<Tensor> = tensors.iter().map(Tensor::from).collect();
    Ok(samebits::digest(tensors.iter().map(|tensor| ("", tensor)))?[..16].to_owned())
}
