//! JSON Lines files: one JSON value per line.

mod checked;

use std::any::type_name;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use self::checked::Checked;
use crate::memory::reserve;
use crate::source::Source;
use crate::stream::files::Files;
use crate::stream::lines::{Line, LineReader, MARK, MOST_BYTES, is_blank, too_long, without_end};
use crate::{Dataset, Error, Place, Records, Result, SampleContext, ShardedDataset};

const OP: &str = "json lines";

/// A file of JSON values, one per line, in random access; each line becomes a `T`.
///
/// Opening reads the file once and stores the end of each line, 8 bytes per line; samples are read
/// on demand with positional reads. A file whose name ends in `.gz` is decompressed into memory, up
/// to 4 GiB. [`JsonShards`] reads files from front to back without an index.
///
/// Every line is a sample, except blank lines. A leading byte order mark is skipped. The last line
/// may lack its line end. Clones share the file and the index.
///
/// # Numbers
///
/// A number out of the type's range gives [`Error::Malformed`]: `1e39` as `f32`, `300` as `u8`. As `f64`, every
/// number, even an integer above 2^53, is read as the nearest value; as `f32`, as the value nearest to that
/// `f64`. Read numbers that must stay exact, such as identifiers, as integers.
///
/// Within `#[serde(flatten)]`, `#[serde(untagged)]` and `#[serde(tag)]` the range of `f32` is not checked: there
/// `1e39` becomes infinite.
///
/// # Examples
///
/// ```
/// use samebits_data::{DataLoader, Keep, JsonLines};
///
/// #[derive(serde::Deserialize)]
/// struct Review {
///     text: String,
///     stars: i64,
/// }
///
/// let file = b"{\"text\": \"good\", \"stars\": 5}\n{\"text\": \"bad\", \"stars\": 1}\n";
/// let reviews = JsonLines::<Review>::parse("reviews.jsonl", file.to_vec())?;
/// let loader = DataLoader::builder_with(reviews, Keep).batch_size(2).build()?;
/// let batch = loader.epoch(0).next().unwrap()?;
/// assert_eq!((batch.data[1].text.as_str(), batch.data[1].stars), ("bad", 1));
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonLines<T> {
    source: Arc<Source>,
    index: Arc<Index>,
    most: usize,
    value: PhantomData<fn() -> T>,
}

/// Positions of the lines.
#[derive(Debug, Default)]
struct Index {
    /// The end of each line, including its `\n`.
    ends: Vec<u64>,
    /// For each blank line, the number of samples before it.
    blank: Vec<usize>,
    /// Start of the first line, after a byte order mark.
    start: u64,
}

impl Index {
    /// Adds a line.
    fn push(&mut self, end: u64, blank: bool) -> Result<()> {
        if blank {
            reserve(OP, &mut self.blank, 1)?;
            self.blank.push(self.len());
        }
        reserve(OP, &mut self.ends, 1)?;
        self.ends.push(end);
        Ok(())
    }

    /// Returns the number of samples.
    fn len(&self) -> usize {
        self.ends.len() - self.blank.len()
    }

    /// Returns the number of a sample's line, counted from 0, and its start and end.
    fn line(&self, sample: usize) -> Option<(usize, u64, u64)> {
        let line = sample.checked_add(self.blank.partition_point(|&before| before <= sample))?;
        let end = *self.ends.get(line)?;
        Some((line, if line == 0 { self.start } else { self.ends[line - 1] }, end))
    }
}

impl<T> Clone for JsonLines<T> {
    fn clone(&self) -> Self {
        let (source, index) = (Arc::clone(&self.source), Arc::clone(&self.index));
        JsonLines { source, index, ..*self }
    }
}

impl<T: DeserializeOwned + Send + 'static> JsonLines<T> {
    /// Opens the file at `path` and finds its lines. No line is parsed yet.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be read, [`Error::OutOfMemory`] if the index has no room.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        JsonLines::of(Source::open(OP, path.as_ref())?)
    }

    /// Reads `bytes` as [`open`](JsonLines::open) does a file; errors use `name` as the path.
    ///
    /// # Errors
    ///
    /// As for [`open`](JsonLines::open).
    pub fn parse(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Self> {
        JsonLines::of(Source::memory(name.into(), bytes)?)
    }

    /// Sets the limit on the bytes of a line; 16 MiB by default. Reading a longer line gives
    /// [`Error::TooLarge`].
    #[must_use]
    pub fn most_bytes(self, bytes: usize) -> Self {
        JsonLines { most: bytes, ..self }
    }

    fn of(source: Source) -> Result<Self> {
        let mut index = Index::default();
        let mut mark = [0; MARK.len()];
        if source.len() >= mark.len() as u64 {
            source.read_at(OP, 0, &mut mark)?;
        }
        index.start = if mark == *MARK { mark.len() as u64 } else { 0 };
        let mut piece = vec![0; 1 << 16];
        let (mut at, mut blank) = (index.start, true);
        while at < source.len() {
            let piece = &mut piece[..(source.len() - at).min(1 << 16) as usize];
            source.read_at(OP, at, piece)?;
            let mut from = 0;
            for end in memchr::memchr_iter(b'\n', piece) {
                index.push(at + end as u64 + 1, blank && piece[from..end].iter().all(is_blank))?;
                (from, blank) = (end + 1, true);
            }
            blank = blank && piece[from..].iter().all(is_blank);
            at += piece.len() as u64;
        }
        if index.ends.last().copied().unwrap_or(index.start) < at {
            index.push(at, blank)?;
        }
        let (source, index) = (Arc::new(source), Arc::new(index));
        Ok(JsonLines { source, index, most: MOST_BYTES, value: PhantomData })
    }
}

impl<T: DeserializeOwned + Send + 'static> Dataset for JsonLines<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.index.len()
    }

    fn describe(&self) -> String {
        format!("{}, {} lines", self.source.describe(OP), self.index.len())
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<T> {
        let Some((line, start, end)) = self.index.line(index) else {
            return Err(Error::IndexOutOfRange { op: OP, index, len: self.index.len() });
        };
        let (path, number) = (self.source.path(), line as u64 + 1);
        let size = usize::try_from(end - start).unwrap_or(usize::MAX);
        let too_long = || too_long(OP, path, number, self.most);
        // A line of the greatest length, with its end.
        if size > self.most.saturating_add(2) {
            return Err(too_long());
        }
        let line = cx.worker().scratch();
        self.source.read_into(OP, start, size, line)?;
        let line = without_end(line);
        if line.len() > self.most {
            return Err(too_long());
        }
        value(path, number, line)
    }
}

/// Dataset of JSON values, one per line, in files read from front to back; one shard per file.
///
/// Files whose names end in `.gz` are decompressed while they are read. Samples and numbers follow
/// the rules of [`JsonLines`], which reads one file in random access.
///
/// # Examples
///
/// ```
/// use samebits_data::{JsonShards, StreamLoader};
///
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("a.jsonl");
/// std::fs::write(&path, "[1, 0.5]\n[2, 0.25]\n")?;
/// let pairs = JsonShards::<(i64, f32)>::new(vec![path]);
/// let loader = StreamLoader::builder(pairs).batch_size(2).build()?;
/// assert_eq!(loader.epoch(0).next().unwrap()?.data, (vec![1, 2], vec![0.5, 0.25]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct JsonShards<T> {
    files: Files,
    most: usize,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> JsonShards<T> {
    /// Creates the dataset of the lines of these files.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        JsonShards { files: Files::new(OP, paths), most: MOST_BYTES, value: PhantomData }
    }

    /// Sets the limit on the bytes of a line; 16 MiB by default. A longer line gives
    /// [`Error::TooLarge`].
    #[must_use]
    pub fn most_bytes(self, bytes: usize) -> Self {
        JsonShards { most: bytes, ..self }
    }
}

impl<T: DeserializeOwned + Send + 'static> ShardedDataset for JsonShards<T> {
    type Raw = Line;
    type Item = T;

    fn shards(&self) -> usize {
        self.files.count()
    }

    fn describe(&self) -> String {
        self.files.describe()
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<Line>> {
        Ok(Box::new(LineReader::open(OP, &self.files, shard, skip, self.most, true)?))
    }

    fn sample(&self, raw: Line, _: &mut SampleContext<'_>) -> Result<T> {
        value(&raw.path, raw.number, &raw.bytes)
    }
}

/// Parses the value of a line.
fn value<T: DeserializeOwned>(path: &Path, line: u64, text: &[u8]) -> Result<T> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let parsed = T::deserialize(Checked(&mut parser));
    parsed.and_then(|value| parser.end().map(|()| value)).map_err(|error| {
        let place = Place::Field { line, column: error.column() as u64 };
        // The parser counts lines from the start of this line; drop its position.
        let (all, own) = (error.to_string(), format!(" at line {} column ", error.line()));
        let found = all.rfind(&own).map_or(all.as_str(), |end| &all[..end]);
        Error::malformed(OP, path, place, format!("JSON of a {}", type_name::<T>()), found)
    })
}
