use std::path::Path;

use ::safetensors::tensor::Metadata as Header;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::safetensors::Contents;
use super::whole::replace;
use super::{Error, Result, Site, Tensors, safetensors};
use crate::NUMERICS_VERSION;

/// Complete state of a run: tensors by name, and the caller's state.
///
/// The file is a safetensors file. Its metadata holds the state as JSON, the run's numerics
/// version, and a digest of the tensors.
///
/// # Examples
///
/// ```
/// use samebits::Tensor;
/// use samebits::io::{Checkpoint, Tensors};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("run.safetensors");
/// let tensors = Tensors::from([("weight".to_owned(), Tensor::scalar(0.5f32))]);
/// Checkpoint { state: ("step", 17), tensors }.save(&path)?;
/// let found: Checkpoint<(String, u64)> = Checkpoint::load(&path)?;
/// assert_eq!(found.state.1, 17);
/// # Ok::<(), samebits::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoint<S> {
    /// The state besides the tensors.
    pub state: S,
    /// The tensors.
    pub tensors: Tensors,
}

/// The metadata key. There is only one, so that the file's bytes do not depend on a hash map's
/// order.
const KEY: &str = "samebits";
const FORMAT: &str = "samebits checkpoint";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata<S> {
    format: String,
    version: u32,
    numerics_version: u32,
    /// Digest of all tensors, to detect damage.
    digest: String,
    state: S,
}

impl<S: Serialize> Checkpoint<S> {
    /// Writes the checkpoint atomically.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] if the system cannot write the file, [`Error::Tensor`] if a device fails to
    /// return its tensor, [`Error::Content`] if the state cannot be represented as JSON.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let site = Site { op: SAVE, path: path.as_ref() };
        let contents = self.contents(site)?;
        replace(site, |file| contents.write(site, file))
    }

    /// Returns the content of the file.
    ///
    /// # Errors
    ///
    /// As for [`save`](Checkpoint::save), except writing.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let site = Site { op: SAVE, path: Path::new(BYTES) };
        self.contents(site)?.to_bytes(site)
    }

    fn contents(&self, site: Site<'_>) -> Result<Contents<'_>> {
        let metadata = Metadata {
            format: FORMAT.to_owned(),
            version: VERSION,
            numerics_version: NUMERICS_VERSION,
            digest: digest(site, &self.tensors)?,
            state: &self.state,
        };
        let metadata = serde_json::to_string(&metadata)
            .map_err(|error| site.content("state", error.to_string()))?;
        Contents::new(site, &self.tensors, Some((KEY, metadata)))
    }
}

impl<S: DeserializeOwned> Checkpoint<S> {
    /// Reads a checkpoint, with tensors on the host.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if the system cannot read the file, [`Error::Content`] if it is damaged, has
    /// another format version, or comes from a run with another numerics version, whose
    /// continuation would give other bits.
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint<S>> {
        let site = Site { op: LOAD, path: path.as_ref() };
        Checkpoint::parse(site, safetensors::load(site)?)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    ///
    /// As for [`load`](Checkpoint::load).
    pub fn from_bytes(bytes: &[u8]) -> Result<Checkpoint<S>> {
        let site = Site { op: LOAD, path: Path::new(BYTES) };
        Checkpoint::parse(site, safetensors::read(site, bytes, bytes.len() as u64)?)
    }

    fn parse(site: Site<'_>, (tensors, header): (Tensors, Header)) -> Result<Checkpoint<S>> {
        let wrong = |message: String| site.content("metadata", message);
        let text = header.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        let text = text.ok_or_else(|| wrong("not a checkpoint of samebits".to_owned()))?;
        let damaged = |error| wrong(format!("damaged: {error}"));
        // Check the version first: it determines the rest of the format.
        let found: Version = serde_json::from_str(text).map_err(damaged)?;
        for (what, expected, got) in [
            ("version", VERSION, found.version),
            ("numerics version", NUMERICS_VERSION, found.numerics_version),
        ] {
            if got != expected {
                return Err(wrong(format!("{what} {got}, but this program has {expected}")));
            }
        }
        if found.format != FORMAT {
            return Err(wrong(format!("format {:?}, expected {FORMAT:?}", found.format)));
        }
        let metadata: Metadata<S> = serde_json::from_str(text).map_err(damaged)?;
        let digest = digest(site, &tensors)?;
        if digest != metadata.digest {
            let message = format!(
                "damaged: the digest is {digest}, but {} was saved with it",
                metadata.digest
            );
            return Err(site.content("tensors", message));
        }
        Ok(Checkpoint { state: metadata.state, tensors })
    }
}

/// Fields common to all versions.
#[derive(Deserialize)]
struct Version {
    format: String,
    version: u32,
    numerics_version: u32,
}

const SAVE: &str = "save_checkpoint";
const LOAD: &str = "load_checkpoint";
/// Stand-in for a path.
const BYTES: &str = "(bytes)";

fn digest(site: Site<'_>, tensors: &Tensors) -> Result<String, Error> {
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    crate::digest(named).map_err(site.tensor("tensors"))
}
