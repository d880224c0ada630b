//! Folders of checkpoints of language models.

mod config;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::safetensors::load;
use super::{Result, Site};
use crate::Tensor;
use crate::nn::Gpt;
pub use config::parse_gpt_config;

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The list of a checkpoint's files.
#[derive(Deserialize)]
struct Index {
    /// The file of each tensor.
    weight_map: BTreeMap<String, String>,
}

/// Reads a checkpoint of GPT-2 or Llama from a folder as the Python library `transformers` writes
/// it, onto the host, in f32: `config.json` and `model.safetensors`, or the files that
/// `model.safetensors.index.json` lists.
///
/// [`parse_gpt_config`] and [`GptOptions::init_from`](crate::nn::GptOptions::init_from) are its
/// parts, for other types and devices.
///
/// # Errors
///
/// As [`load_safetensors`](super::load_safetensors), and
/// [`Error::Content`](super::Error::Content) if the list is damaged or names files elsewhere,
/// [`Error::Tensor`](super::Error::Tensor) if the configuration or the weights are not those of a
/// [`Gpt`].
///
/// # Examples
///
/// ```
/// use samebits::io::load_gpt;
///
/// let error = load_gpt("no such folder").unwrap_err().to_string();
/// assert!(error.starts_with("load_gpt: cannot read "));
/// ```
///
/// # References
///
/// `from_pretrained` of the Python library `transformers`.
#[doc(alias = "from_pretrained")]
pub fn load_gpt(folder: impl AsRef<Path>) -> Result<Gpt> {
    let folder = folder.as_ref();
    let path = folder.join(CONFIG);
    let site = Site { op: "load_gpt", path: &path };
    let text = std::fs::read_to_string(&path).map_err(site.read())?;
    let options = parse_gpt_config(&text).map_err(site.tensor("the configuration"))?;
    let index = folder.join(INDEX);
    if !index.exists() {
        let path = folder.join(WEIGHTS);
        let site = Site { op: "load_gpt", path: &path };
        let weights: Vec<(String, Tensor)> = load(site)?.0.into_iter().collect();
        return options.init_from(&weights).map_err(site.tensor("the weights"));
    }
    let site = Site { op: "load_gpt", path: &index };
    let text = std::fs::read_to_string(&index).map_err(site.read())?;
    let listed: Index = serde_json::from_str(&text)
        .map_err(|error| site.content("the list of files", error.to_string()))?;
    let files: BTreeSet<&String> = listed.weight_map.values().collect();
    let mut weights = Vec::new();
    for file in files {
        let plain = Path::new(file).file_name().is_some_and(|name| name == file.as_str());
        if !plain {
            let message = format!("expected names of files in its folder, got {file:?}");
            return Err(site.content("the list of files", message));
        }
        let path = folder.join(file);
        let found = load(Site { op: "load_gpt", path: &path })?.0;
        // A tensor that the list has elsewhere, or not at all, is left over or there twice.
        weights.extend(found);
    }
    options.init_from(&weights).map_err(site.tensor("the weights"))
}
