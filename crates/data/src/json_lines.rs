//! Files of JSON values, one per line.

use std::any::type_name;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::memory::reserve;
use crate::source::Source;
use crate::stream::files::Files;
use crate::stream::lines::{Line, LineReader, MOST_BYTES, too_long, without_end};
use crate::{Dataset, Error, Place, Records, Result, SampleContext, ShardedDataset};

const OP: &str = "json lines";

/// A file of JSON values, one per line, in any order: each line becomes a `T`.
///
/// Opening reads the file once and keeps where each line ends, 8 bytes per line; samples are read
/// with positional reads when they are asked for. A file whose name ends in `.gz` is unpacked into
/// memory, up to 4 GiB. [`JsonShards`] reads files from front to back without an index.
///
/// Every line is a sample, so an empty line is an error when it is asked for. The end of the last
/// line may be missing. Clones share the file and the index.
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
    /// Where each line ends, its `\n` included.
    ends: Arc<Vec<u64>>,
    most: usize,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for JsonLines<T> {
    fn clone(&self) -> Self {
        let (source, ends) = (Arc::clone(&self.source), Arc::clone(&self.ends));
        JsonLines { source, ends, ..*self }
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

    /// As [`open`](JsonLines::open), from `bytes`; errors call them `name`.
    ///
    /// # Errors
    ///
    /// As for [`open`](JsonLines::open).
    pub fn parse(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Self> {
        JsonLines::of(Source::memory(name.into(), bytes)?)
    }

    /// Sets the most bytes that a line may have; 16 MiB by default. A longer line is
    /// [`Error::TooLarge`] when it is asked for.
    #[must_use]
    pub fn most_bytes(self, bytes: usize) -> Self {
        JsonLines { most: bytes, ..self }
    }

    fn of(source: Source) -> Result<Self> {
        let mut ends = Vec::new();
        let mut piece = vec![0; 1 << 16];
        let mut at = 0;
        while at < source.len() {
            let piece = &mut piece[..(source.len() - at).min(1 << 16) as usize];
            source.read_at(OP, at, piece)?;
            for place in memchr::memchr_iter(b'\n', piece) {
                reserve(OP, &mut ends, 1)?;
                ends.push(at + place as u64 + 1);
            }
            at += piece.len() as u64;
        }
        if ends.last().copied().unwrap_or(0) < at {
            reserve(OP, &mut ends, 1)?;
            ends.push(at);
        }
        let (source, ends) = (Arc::new(source), Arc::new(ends));
        Ok(JsonLines { source, ends, most: MOST_BYTES, value: PhantomData })
    }
}

impl<T: DeserializeOwned + Send + 'static> Dataset for JsonLines<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn describe(&self) -> String {
        format!("{}, {} lines", self.source.describe(OP), self.ends.len())
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<T> {
        let Some(&end) = self.ends.get(index) else {
            return Err(Error::IndexOutOfRange { op: OP, index, len: self.ends.len() });
        };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        let (path, number) = (self.source.path(), index as u64 + 1);
        let size = usize::try_from(end - start).unwrap_or(usize::MAX);
        let too_long = || too_long(OP, path, number, self.most);
        // A line of the greatest length and its end.
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

/// The JSON values of files, one per line and one shard per file, read from front to back.
///
/// A file whose name ends in `.gz` is unpacked on the way. [`JsonLines`] reads one file in any
/// order.
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
    /// The lines of these files.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        JsonShards { files: Files::new(OP, paths), most: MOST_BYTES, value: PhantomData }
    }

    /// Sets the most bytes that a line may have; 16 MiB by default. A longer line is
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
        Ok(Box::new(LineReader::open(OP, &self.files, shard, skip, self.most)?))
    }

    fn sample(&self, raw: Line, _: &mut SampleContext<'_>) -> Result<T> {
        value(&raw.path, raw.number, &raw.bytes)
    }
}

/// The value of a line.
fn value<T: DeserializeOwned>(path: &Path, line: u64, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| {
        let place = Place::Field { line, column: error.column() as u64 };
        // The parser's own place counts lines from the start of this line.
        let (all, own) = (error.to_string(), format!(" at line {} column ", error.line()));
        let found = all.rfind(&own).map_or(all.as_str(), |end| &all[..end]);
        Error::malformed(OP, path, place, format!("JSON of a {}", type_name::<T>()), found)
    })
}
