//! Tensors and training runs in files.
//!
//! | format | read | write |
//! |---|---|---|
//! | safetensors, many tensors by name | [`load_safetensors`], [`SafetensorsFile`] | [`save_safetensors`] |
//! | NumPy's `.npy`, one tensor | [`load_npy`] | [`save_npy`] |
//! | NumPy's `.npz`, many tensors by name | [`load_npz`], [`NpzFile`] | [`save_npz`] |
//! | checkpoint: tensors and a state | [`Checkpoint::load`] | [`Checkpoint::save`] |
//!
//! The functions read a whole file; the types list what it holds and read single tensors.
//!
//! Every file appears whole or not at all (see [`write_whole`]). What is read may come from
//! anywhere: damage is an [`enum@Error`] that names the file and the place, and no reader asks for
//! more memory than the file's header and the tensors that it names take.
//!
//! # Determinism
//!
//! Bits are kept. The bytes of a file are a function of its tensors and their names; tensors are
//! written in the order of their names, `.npz` files without times.
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
mod npy;
mod npz;
mod safetensors;
mod whole;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Tensor;

pub use checkpoint::Checkpoint;
pub use npy::{load_npy, save_npy};
pub use npz::{NpzFile, load_npz, save_npz};
pub use safetensors::{SafetensorsFile, load_safetensors, save_safetensors};
pub use whole::write_whole;

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// What a file says of one of its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The type of its elements in the format's own words, such as `I16` or `<i2`.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// A result whose error is this module's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a file.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system cannot read it.
    #[error("{op}: cannot read {}: {source}", path.display())]
    Read {
        /// The function that was called.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system cannot write it. What was there before still is.
    #[error("{op}: cannot write {}: {source}", path.display())]
    Write {
        /// The function that was called.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is damaged, or no file of this kind.
    #[error("{op}: {}, {place}: {message}", path.display())]
    Content {
        /// The function that was called.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// Where in the file.
        place: String,
        /// What was expected and what is there.
        message: String,
    },
    /// A tensor cannot be made, or not be read from its device.
    #[error("{op}: {}, {place}: {source}", path.display())]
    Tensor {
        /// The function that was called.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// Which tensor.
        place: String,
        /// What is wrong.
        source: Box<crate::Error>,
    },
}

crate::numerics::debug_is_message!(Error);

/// A file and who works on it, for errors.
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

    /// The error of a name that is not among `names`.
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
