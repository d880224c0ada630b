//! Rows of Parquet files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use samebits_numerics::memory;

use crate::memory::allocated;
use crate::rows::{Number, Value};
use crate::source::Source;
use crate::{BatchContext, Dataset, Error, Place, Records, Result, SampleContext, ShardedDataset};

mod group;

use group::{Cell, File, Reader};

const OP: &str = "parquet";
/// Default limit on the bytes of a column in a row group.
const MOST_BYTES: usize = 1 << 30;

/// A row of a Parquet file: the values of the selected columns.
///
/// Numbers and Booleans can be read as any type that holds their exact value, strings and bytes as
/// stored. Dates and times are the integers that the file holds.
#[derive(Clone, Debug)]
pub struct ParquetRow {
    file: Arc<File>,
    columns: Arc<[usize]>,
    cells: Vec<Cell>,
    place: Place,
}

impl ParquetRow {
    /// Returns the number in a column.
    ///
    /// # Errors
    ///
    /// [`Error::NoField`] if the column is not selected, [`Error::Inexact`] if `T` does not hold
    /// the number exactly, and [`Error::Malformed`] if the value is not a number.
    pub fn number<T: Value>(&self, column: &str) -> Result<T> {
        self.value(self.place_of(column)?)
    }

    /// Returns the numbers of all selected columns, in their order.
    ///
    /// # Errors
    ///
    /// As for [`number`](ParquetRow::number).
    pub fn numbers<T: Value>(&self) -> Result<Vec<T>> {
        let mut values = allocated(OP, memory::with_capacity(self.cells.len()))?;
        for place in 0..self.cells.len() {
            values.push(self.value(place)?);
        }
        Ok(values)
    }

    /// Returns the string in a column.
    ///
    /// # Errors
    ///
    /// [`Error::NoField`] if the column is not selected, and [`Error::Malformed`] if the value is
    /// not a UTF-8 string.
    pub fn text(&self, column: &str) -> Result<&str> {
        let bytes = self.bytes(column)?;
        std::str::from_utf8(bytes)
            .map_err(|error| self.malformed(column, "text in UTF-8", error.to_string()))
    }

    /// Returns the bytes in a column of strings or bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NoField`] if the column is not selected, and [`Error::Malformed`] if the value has
    /// no bytes.
    pub fn bytes(&self, column: &str) -> Result<&[u8]> {
        match &self.cells[self.place_of(column)?] {
            Cell::Bytes(bytes) => Ok(bytes),
            other => Err(self.malformed(column, "text or bytes", other.to_string())),
        }
    }

    /// Returns true if the row has no value in a column.
    ///
    /// # Errors
    ///
    /// [`Error::NoField`] if the column is not selected.
    pub fn is_null(&self, column: &str) -> Result<bool> {
        Ok(matches!(self.cells[self.place_of(column)?], Cell::Null))
    }

    fn value<T: Value>(&self, place: usize) -> Result<T> {
        let number = match &self.cells[place] {
            Cell::Number(number) => *number,
            other => {
                let name = self.file.name(self.columns[place]);
                return Err(self.malformed(&name, "a number", other.to_string()));
            }
        };
        T::exact(number).ok_or_else(|| Error::Inexact {
            op: OP,
            path: self.file.path().to_owned(),
            place: self.place,
            value: number.to_string(),
            wanted: T::NAME,
        })
    }

    fn place_of(&self, column: &str) -> Result<usize> {
        let names = || self.columns.iter().map(|&column| self.file.name(column));
        names().position(|name| name == column).ok_or_else(|| Error::NoField {
            op: OP,
            key: self.place.to_string(),
            field: column.to_owned(),
            fields: names().collect(),
        })
    }

    fn malformed(&self, column: &str, expected: &str, found: String) -> Error {
        let expected = format!("{expected} in column {column:?}");
        Error::malformed(OP, self.file.path(), self.place, expected, found)
    }
}

/// Dataset of the rows of a Parquet file, in random access.
///
/// Opening reads the metadata at the end of the file. Reading a row decodes one page per column,
/// and scans the earlier page headers of the row group. A batch visits each row group once, in row
/// order. [`ParquetShards`] reads row groups from front to back, which suits large files better.
///
/// Columns of Booleans, numbers, strings and bytes are supported. Selecting a column of lists,
/// decimals or 96-bit times gives [`Error::InvalidOption`]. A column of a group is named by its
/// path: `point.x`. Pages may be plain, Snappy or gzip. Clones share the file.
///
/// # Examples
///
/// ```no_run
/// use samebits_data::{DataLoader, DatasetExt, Parquet};
///
/// let points = Parquet::open("points.parquet")?.columns(&["x", "y", "class"])?;
/// let points = points.map(|row, _| {
///     Ok((vec![row.number::<f32>("x")?, row.number("y")?], row.number::<i64>("class")?))
/// });
/// let loader = DataLoader::builder(points).batch_size(64).shuffle(true).build()?;
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parquet {
    file: Arc<File>,
    columns: Arc<[usize]>,
    most: usize,
}

impl Parquet {
    /// Opens the file at `path` and selects all supported columns.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], and [`Error::Malformed`] if the file is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Parquet::of(Source::open(OP, path.as_ref())?)
    }

    /// Reads `bytes` as [`open`](Parquet::open) does a file; errors use `name` as the path.
    ///
    /// # Errors
    ///
    /// As for [`open`](Parquet::open).
    pub fn parse(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Self> {
        Parquet::of(Source::memory(name.into(), bytes)?)
    }

    fn of(source: Source) -> Result<Self> {
        let file = Arc::new(File::open(source)?);
        let columns = file.readable();
        Ok(Parquet { file, columns, most: MOST_BYTES })
    }

    /// Selects these columns only, in this order.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the file has no such column, or the column is not supported.
    pub fn columns(self, names: &[&str]) -> Result<Self> {
        let columns = self.file.find(names)?;
        Ok(Parquet { columns, ..self })
    }

    /// Sets the limit on the decompressed bytes of a column in a row group; 1 GiB by default. A
    /// larger one gives [`Error::TooLarge`].
    #[must_use]
    pub fn most_bytes(self, bytes: usize) -> Self {
        Parquet { most: bytes, ..self }
    }

    /// Reads row `index`. Reuses `reader` if it stands in the row group and not behind the row.
    fn seek(&self, reader: &mut Option<Reader>, index: usize) -> Result<ParquetRow> {
        let len = self.file.len();
        let Some((group, row)) = self.file.place(index) else {
            return Err(Error::IndexOutOfRange { op: OP, index, len });
        };
        let mut at = match reader.take().filter(|reader| reader.can_reach(group, row)) {
            Some(reader) => reader,
            None => Reader::new(&self.file, &self.columns, group, self.most)?,
        };
        at.skip_to(row)?;
        let row = at.read(1)?.pop().ok_or_else(|| at.ends_early())?;
        *reader = Some(at);
        Ok(row)
    }
}

impl Dataset for Parquet {
    type Item = ParquetRow;

    fn len(&self) -> usize {
        self.file.len()
    }

    fn describe(&self) -> String {
        format!("{}, {}", self.file.describe(), self.file.names(&self.columns))
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<ParquetRow> {
        self.seek(&mut None, index)
    }

    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<ParquetRow>> {
        let mut order = allocated(OP, memory::collected(0..indices.len())).ok()?;
        order.sort_by_key(|&place| indices[place]);
        let mut rows: Vec<Option<ParquetRow>> =
            allocated(OP, memory::collected(indices.iter().map(|_| None))).ok()?;
        let mut reader = None;
        for place in order {
            if cx.cancelled() {
                return None;
            }
            rows[place] = Some(self.seek(&mut reader, indices[place]).ok()?);
        }
        rows.into_iter().collect()
    }
}

/// Dataset of the rows of Parquet files, read from front to back; one shard per row group.
///
/// A window of [`StreamLoaderBuilder::window`](crate::StreamLoaderBuilder::window) shuffles the
/// rows of a row group. Columns and values follow the rules of [`Parquet`], which reads one file in
/// random access. Each lane holds one page per column and 1,024 rows in memory.
///
/// # Examples
///
/// ```no_run
/// use samebits_data::{ParquetShards, ShardedDatasetExt, StreamLoader};
///
/// let texts = ParquetShards::new(vec!["a.parquet".into(), "b.parquet".into()])?.columns(&["text"])?;
/// let texts = texts.map(|row, _| Ok(row.text("text")?.to_owned()));
/// let loader = StreamLoader::builder(texts).batch_size(32).shuffle(true).window(1024).build()?;
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ParquetShards {
    files: Vec<Parquet>,
    /// The file and the row group of each shard.
    shards: Vec<(usize, usize)>,
}

impl ParquetShards {
    /// Opens the files and selects all supported columns of each.
    ///
    /// # Errors
    ///
    /// As for [`Parquet::open`].
    pub fn new(paths: Vec<PathBuf>) -> Result<Self> {
        let files = paths.iter().map(Parquet::open).collect::<Result<Vec<Parquet>>>()?;
        let shards = files.iter().enumerate();
        let shards = shards.flat_map(|(at, file)| (0..file.file.groups()).map(move |g| (at, g)));
        Ok(ParquetShards { shards: shards.collect(), files })
    }

    /// Selects these columns only, in this order.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if a file has no such column, or the column is not supported.
    pub fn columns(self, names: &[&str]) -> Result<Self> {
        let files = self.files.into_iter().map(|file| file.columns(names));
        Ok(ParquetShards { files: files.collect::<Result<_>>()?, ..self })
    }

    /// Sets the limit on the decompressed bytes of a column in a row group; 1 GiB by default. A
    /// larger one gives [`Error::TooLarge`].
    #[must_use]
    pub fn most_bytes(self, bytes: usize) -> Self {
        let files = self.files.into_iter().map(|file| file.most_bytes(bytes)).collect();
        ParquetShards { files, ..self }
    }
}

impl ShardedDataset for ParquetShards {
    type Raw = ParquetRow;
    type Item = ParquetRow;

    fn shards(&self) -> usize {
        self.shards.len()
    }

    fn describe(&self) -> String {
        let files: Vec<String> = self.files.iter().map(Dataset::describe).collect();
        format!("{} row groups of {}", self.shards.len(), files.join("; "))
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<ParquetRow>> {
        let len = self.shards.len();
        let &(file, group) =
            self.shards.get(shard).ok_or(Error::IndexOutOfRange { op: OP, index: shard, len })?;
        let Parquet { file, columns, most } = &self.files[file];
        let mut reader = Reader::new(file, columns, group, *most)?;
        reader.skip_to(skip)?;
        Ok(Box::new(reader))
    }

    fn sample(&self, raw: ParquetRow, _: &mut SampleContext<'_>) -> Result<ParquetRow> {
        Ok(raw)
    }
}
