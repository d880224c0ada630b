//! Image files in folders, one folder per class.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::ImageReader;

use crate::file::{self, MOST_BYTES};
use crate::sampler::digest;
use crate::{Dataset, Error, Image, Place, Result, SampleContext};

const OP: &str = "image folder";

/// The file endings that are read. They name lossless formats: what a lossy format decodes to
/// may depend on the decoder's version and on the machine.
const ENDINGS: [&str; 7] = ["png", "bmp", "ppm", "pgm", "pbm", "pam", "pnm"];

/// Images in folders: `root/<class>/<any name>.png`.
///
/// A sample is `(image, class)`. The classes are numbered in the order of their folders' names,
/// the images of a class come in the order of theirs, both compared byte by byte. PNG, BMP and
/// the PNM family are read; other files are passed over.
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
    classes: Vec<String>,
    files: Vec<(PathBuf, i64)>,
    channels: Channels,
}

/// How many numbers a pixel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channels {
    /// Brightness.
    Grey,
    /// Red, green, blue.
    #[default]
    Rgb,
}

impl ImageFolder {
    /// Lists the images under `root`. Nothing is decoded yet.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a folder cannot be read, [`Error::InvalidOption`] if there is no class.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        let mut classes = Vec::new();
        let mut files = Vec::new();
        for folder in entries(root)? {
            if !folder.is_dir() {
                continue;
            }
            let class = classes.len() as i64;
            classes.push(name(&folder));
            for file in entries(&folder)? {
                let ending = file.extension().map(|ending| ending.to_ascii_lowercase());
                if ending.is_some_and(|ending| ENDINGS.iter().any(|&known| ending == known)) {
                    files.push((file, class));
                }
            }
        }
        if classes.is_empty() {
            return Err(Error::option(OP, "root", root.display(), "must hold a folder per class"));
        }
        Ok(ImageFolder { classes, files, channels: Channels::default() })
    }

    /// Converts every image to these channels; [`Channels::Rgb`] otherwise.
    #[must_use]
    pub fn channels(self, channels: Channels) -> Self {
        ImageFolder { channels, ..self }
    }

    /// The names of the classes in the order of their numbers.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The image files and their classes.
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
        // The names under the root, which may move between a save and a resume.
        let words = self.files.iter().flat_map(|(path, class)| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            name.iter().map(|&byte| u64::from(byte)).chain([u64::MAX, *class as u64])
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
        Ok((decode(OP, path, &bytes, self.channels)?, *class))
    }
}

impl Image {
    /// Decodes an image in PNG, BMP or a format of the PNM family, such as a field of a
    /// [`TarSample`](crate::TarSample); errors call it `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`].
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{Channels, Image};
    ///
    /// let image = Image::decode("1.pgm", b"P5 2 1 255\n\x07\x09", Channels::Grey)?;
    /// assert_eq!((image.width, image.pixels), (2, vec![7, 9]));
    /// # Ok::<(), samebits_data::Error>(())
    /// ```
    pub fn decode(name: impl AsRef<Path>, bytes: &[u8], channels: Channels) -> Result<Self> {
        decode("image", name.as_ref(), bytes, channels)
    }
}

/// The content decides on the format, not the file's name. The reader's own limit of 512 MiB for an
/// image keeps a short file from claiming more.
fn decode(op: &'static str, path: &Path, bytes: &[u8], channels: Channels) -> Result<Image> {
    let image = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let image = image.map_err(Into::into).and_then(ImageReader::decode).map_err(|error| {
        let place = Place::Offset(0);
        Error::malformed(op, path, place, "a PNG, BMP or PNM image", error.to_string())
    })?;
    let (width, height) = (image.width() as usize, image.height() as usize);
    let (channels, pixels) = match channels {
        Channels::Grey => (1, image.into_luma8().into_raw()),
        Channels::Rgb => (3, image.into_rgb8().into_raw()),
    };
    Ok(Image { width, height, channels, pixels })
}

/// What is in a folder, sorted by name: the system's order may be any.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = |source| Error::io(OP, folder, source);
    let paths = fs::read_dir(folder).map_err(fail)?.map(|entry| Ok(entry.map_err(fail)?.path()));
    let mut paths = paths.collect::<Result<Vec<PathBuf>>>()?;
    paths.sort_unstable_by(|a, b| {
        a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes())
    });
    Ok(paths)
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
