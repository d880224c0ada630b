//! Image files in folders, one folder per class.

use std::fs;
use std::path::{Path, PathBuf};

use crate::file::{self, MOST_BYTES};
use crate::sampler::digest;
use crate::{Dataset, Error, Image, Place, Result, SampleContext};

mod decode;

pub use decode::Channels;

const OP: &str = "image folder";

/// File name endings of images: torchvision's, and the rest of the PNM family.
const ENDINGS: [&str; 12] = [
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".pbm", ".pam",
    ".pnm",
];

/// The [`ENDINGS`] that this crate cannot decode.
const UNREAD: [&str; 3] = [".tif", ".tiff", ".webp"];

/// Dataset of images in folders, `root/<class>/<any path>.png`, as in
/// `torchvision.datasets.ImageFolder`.
///
/// A sample is `(image, class)`. Every folder in the root is a class; classes are numbered in the
/// order of their names. A class has the images in its folder and its subfolders, ordered by folder
/// path, then by file name, both compared byte by byte. Links are followed.
///
/// JPEG, PNG, BMP and the PNM family are supported. Files whose names end in none of torchvision's
/// endings (`.jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp`, in any case) nor in `.pbm .pam .pnm`
/// are skipped as non-images, and so are files beside the classes. For bits and values, see
/// [`Image::decode`].
///
/// # Examples
///
/// ```
/// use samebits_data::{Dataset, ImageFolder};
///
/// let root = tempfile::tempdir()?;
/// for class in ["cat", "dog"] {
///     std::fs::create_dir(root.path().join(class))?;
///     std::fs::write(root.path().join(class).join("1.pgm"), b"P5 2 1 255\n\x07\x09")?;
/// }
/// let images = ImageFolder::open(root.path())?;
/// assert_eq!(images.classes(), ["cat", "dog"]);
/// assert_eq!(images.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    root: PathBuf,
    classes: Vec<String>,
    files: Vec<(PathBuf, i64)>,
    channels: Channels,
}

/// Options for the folders that an [`ImageFolder`] may have.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "options do nothing until a folder is opened"]
pub struct ImageFolderOptions {
    allow_empty: bool,
    hidden: bool,
}

impl ImageFolderOptions {
    /// Creates the default options: no empty classes and no hidden folders.
    pub fn new() -> Self {
        ImageFolderOptions::default()
    }

    /// If `true`, permits classes without an image; they still take a number.
    pub fn allow_empty(self, allow_empty: bool) -> Self {
        ImageFolderOptions { allow_empty, ..self }
    }

    /// If `true`, treats folders whose names begin with a dot as any other, as torchvision does. By
    /// default they are an error: programs leave such folders behind, for example
    /// `.ipynb_checkpoints`, and counted as a class they would shift the numbers of the others.
    pub fn hidden_folders(self, hidden: bool) -> Self {
        ImageFolderOptions { hidden, ..self }
    }

    /// Lists the images under `root`. No image is decoded yet.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a folder cannot be read; [`Error::InvalidOption`] if there is no class, a
    /// class without an image, a hidden folder, a folder that links to an ancestor, or a class
    /// whose name is not UTF-8; [`Error::Malformed`] for a file in a format that torchvision
    /// supports and this crate does not.
    pub fn open(self, root: impl AsRef<Path>) -> Result<ImageFolder> {
        let root = root.as_ref();
        let (mut classes, mut files, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for folder in entries(root)?.into_iter().filter(|entry| entry.is_dir()) {
            let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
                let expected = "must have a name in UTF-8";
                return Err(Error::option(OP, "class", folder.display(), expected));
            };
            let (class, before) = (classes.len() as i64, files.len());
            classes.push(name.to_owned());
            let mut folders = Vec::new();
            self.walk(&folder, &mut vec![resolved(root)?], &mut folders)?;
            folders.sort_unstable_by(|(a, _), (b, _)| by_bytes(a, b));
            let images = folders.into_iter().flat_map(|(_, files)| files);
            files.extend(images.map(|file| (file, class)));
            if files.len() == before {
                empty.push(name.to_owned());
            }
        }
        if classes.is_empty() {
            return Err(Error::option(OP, "root", root.display(), "must hold a folder per class"));
        }
        if !(empty.is_empty() || self.allow_empty) {
            let expected = format!(
                "must hold an image in each class, but {} holds none: fill it, move it away, or permit \
                 it with `allow_empty`",
                empty.join(", ")
            );
            return Err(Error::option(OP, "root", root.display(), expected));
        }
        let (root, channels) = (root.to_owned(), Channels::default());
        Ok(ImageFolder { root, classes, files, channels })
    }

    /// Adds this folder and its subfolders, each with its images. `above` lists the ancestors, with
    /// links resolved.
    fn walk(
        self,
        folder: &Path,
        above: &mut Vec<PathBuf>,
        out: &mut Vec<(PathBuf, Vec<PathBuf>)>,
    ) -> Result<()> {
        let fail = |expected| Err(Error::option(OP, "folder", folder.display(), expected));
        let hidden = folder.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        if hidden && !self.hidden {
            return fail("must not be hidden: move it away, or permit it with `hidden_folders`");
        }
        let own = resolved(folder)?;
        if above.contains(&own) {
            return fail("must not lead back to a folder that it is in");
        }
        above.push(own);
        let mut images = Vec::new();
        for entry in entries(folder)? {
            if entry.is_dir() {
                self.walk(&entry, above, out)?;
            } else if ends_in(&entry, &UNREAD) {
                let expected = "a JPEG, PNG, BMP or PNM image";
                let found = "another format by its name: convert it, or move it away";
                return Err(Error::malformed(OP, &entry, Place::Offset(0), expected, found));
            } else if ends_in(&entry, &ENDINGS) {
                images.push(entry);
            }
        }
        above.pop();
        out.push((folder.to_owned(), images));
        Ok(())
    }
}

impl ImageFolder {
    /// Lists the images under `root`. No image is decoded yet.
    ///
    /// # Errors
    ///
    /// As for [`ImageFolderOptions::open`], which can permit empty classes and hidden folders.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        ImageFolderOptions::new().open(root)
    }

    /// Converts every image to these channels; [`Channels::Rgb`] by default.
    #[must_use]
    pub fn channels(self, channels: Channels) -> Self {
        ImageFolder { channels, ..self }
    }

    /// Returns the names of the classes in the order of their numbers.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the image files and their classes.
    pub fn files(&self) -> &[(PathBuf, i64)] {
        &self.files
    }
}

impl Dataset for ImageFolder {
    type Item = (Image, i64);

    fn len(&self) -> usize {
        self.files.len()
    }

    fn describe(&self) -> String {
        // The paths below the class, since the root may move between a save and a resume.
        let words = self.files.iter().flat_map(|(path, class)| {
            let name = path.strip_prefix(&self.root).unwrap_or(path).iter().skip(1);
            let name = name.collect::<PathBuf>().into_os_string().into_encoded_bytes();
            name.into_iter().map(u64::from).chain([u64::MAX, *class as u64])
        });
        let (images, channels) = (self.files.len(), self.channels);
        format!("{images} images, {channels:?}, digest of their names {:016x}", digest(words))
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<(Image, i64)> {
        let (path, class) = self.files.get(index).ok_or(Error::IndexOutOfRange {
            op: OP,
            index,
            len: self.files.len(),
        })?;
        let bytes = file::read(OP, path, MOST_BYTES)?;
        Ok((decode::decode(OP, path, &bytes, self.channels)?, *class))
    }
}

/// Lists the entries of a folder, sorted by name, since the system's order is arbitrary.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = |source| Error::io(OP, folder, source);
    let paths = fs::read_dir(folder).map_err(fail)?.map(|entry| Ok(entry.map_err(fail)?.path()));
    let mut paths = paths.collect::<Result<Vec<PathBuf>>>()?;
    paths.sort_unstable_by(|a, b| by_bytes(a, b));
    Ok(paths)
}

fn by_bytes(a: &Path, b: &Path) -> std::cmp::Ordering {
    a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes())
}

/// Returns the path of the folder with links resolved.
fn resolved(folder: &Path) -> Result<PathBuf> {
    folder.canonicalize().map_err(|source| Error::io(OP, folder, source))
}

fn ends_in(file: &Path, endings: &[&str]) -> bool {
    let name = file.file_name().unwrap_or_default().to_ascii_lowercase();
    endings.iter().any(|ending| name.as_encoded_bytes().ends_with(ending.as_bytes()))
}
