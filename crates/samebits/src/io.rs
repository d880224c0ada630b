//! Files of tensors and training runs.
//!
//! | format | read | write |
//! |---|---|---|
//! | safetensors, many tensors by name | [`load_safetensors`], [`SafetensorsFile`] | [`save_safetensors`] |
//! | NumPy's `.npy`, one tensor | [`load_npy`] | [`save_npy`] |
//! | NumPy's `.npz`, many tensors by name | [`load_npz`], [`NpzFile`] | [`save_npz`] |
//! | folder of a GPT-2 or Llama model | [`load_gpt`] | |
//! | tokenizer, `tokenizer.json` | [`Tokenizer::load`] | |
//! | checkpoint: tensors and a state | [`Checkpoint::load`] | [`Checkpoint::save`] |
//!
//! The functions read a whole file; the types list its contents and read single tensors.
//!
//! Every file is written atomically (see [`write_whole`]). Files from any source can be read
//! safely: damage gives an [`enum@Error`] with the file and the position, and no reader allocates
//! more memory than the file's header and the tensors that it names.
//!
//! # Determinism
//!
//! Bits are preserved. The bytes of a file are a function of its tensors and their names; tensors
//! are written in the order of their names, `.npz` files without times.
//!
//! # Examples
//!
//! ```
//! use samebits::io::{load_safetensors, save_safetensors};
//! use samebits::Tensor;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("x.safetensors");
//! let x = Tensor::from_slice(&[1.0f32, -0.0], &[2])?;
//! save_safetensors(&path, [("x", &x)])?;
//! assert_eq!(load_safetensors(&path)?["x"].to_bytes()?, x.to_bytes()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
mod checkpoint;
mod gpt;
mod npy;
mod npz;
mod safetensors;
mod tokenizer;
mod whole;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Tensor;

pub use checkpoint::Checkpoint;
pub use gpt::{load_gpt, parse_gpt_config};
pub use npy::{load_npy, save_npy};
pub use npz::{NpzFile, load_npz, save_npz};
pub use safetensors::{SafetensorsFile, load_safetensors, save_safetensors};
pub use tokenizer::Tokenizer;
pub use whole::write_whole;

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// Header entry of a tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The element type in the format's own notation, such as `I16` or `<i2`.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// Result with this module's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of reading or writing a file.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system could not read the file.
    #[error("{op}: cannot read {}: {source}", path.display())]
    Read {
        /// The function that was called.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The system could not write the file. The earlier content is still there.
    #[error("{op}: cannot write {}: {source}", path.display())]
    Write {
        /// The function that was called.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is damaged, or has another format.
    #[error("{op}: {}, {place}: {message}", path.display())]
    Content {
        /// The function that was called.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The position in the file.
        place: String,
        /// The expected and the found content.
        message: String,
    },
    /// A tensor could not be created, or could not be read from its device.
    #[error("{op}: {}, {place}: {source}", path.display())]
    Tensor {
        /// The function that was called.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The tensor.
        place: String,
        /// The cause.
        source: Box<crate::Error>,
    },
}

crate::numerics::debug_is_message!(Error);

/// File and function, for errors.
#[derive(Clone, Copy, Debug)]
struct Site<'a> {
    op: &'static str,
    path: &'a Path,
}

impl Site<'_> {
    fn content(self, place: impl Into<String>, message: impl Into<String>) -> Error {
        let (op, path) = (self.op, self.path.to_owned());
        Error::Content { op, path, place: place.into(), message: message.into() }
    }

    /// Makes the error for a name that is not among `names`.
    fn missing<'a>(self, place: String, names: impl Iterator<Item = &'a str>) -> Error {
        const SHOWN: usize = 10;
        let mut names = names.peekable();
        let mut shown = names.by_ref().take(SHOWN).collect::<Vec<_>>().join(", ");
        if names.peek().is_some() {
            shown += ", ...";
        }
        self.content(place, format!("not in the file, which has {shown}"))
    }

    fn read(self) -> impl Fn(std::io::Error) -> Error {
        move |source| Error::Read { op: self.op, path: self.path.to_owned(), source }
    }

    fn write(self) -> impl Fn(std::io::Error) -> Error {
        move |source| Error::Write { op: self.op, path: self.path.to_owned(), source }
    }

    fn tensor(self, place: impl Into<String>) -> impl FnOnce(crate::Error) -> Error {
        move |source| {
            let (op, path) = (self.op, self.path.to_owned());
            Error::Tensor { op, path, place: place.into(), source: Box::new(source) }
        }
    }
}
