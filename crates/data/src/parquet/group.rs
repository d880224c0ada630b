//! Reading the row groups of a Parquet file.
//!
//! The crate `parquet` reads the format; its panics on damaged files become errors here.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::{Number, OP, ParquetRow};
use crate::guard::caught;
use crate::source::Source;
use crate::{Error, Place, Result};

/// The number of rows decoded in one step.
const AT_ONCE: usize = 1024;

/// A value of a row.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Null,
    Number(Number),
    Bytes(Bytes),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => f.write_str("nothing"),
            Cell::Number(number) => number.fmt(f),
            Cell::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

/// An open file.
pub(super) struct File {
    source: Arc<Source>,
    reader: SerializedFileReader<Content>,
    /// The index after the last row of each row group.
    ends: Vec<usize>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path()).field("ends", &self.ends).finish()
    }
}

impl File {
    pub(super) fn open(source: Source) -> Result<Self> {
        let source = Arc::new(source);
        let content = Content(Arc::clone(&source));
        let place = Place::Offset(source.len());
        let reader = guarded(&source, place, || SerializedFileReader::new(content))?;
        let mut ends = Vec::new();
        for (group, metadata) in reader.metadata().row_groups().iter().enumerate() {
            let end = usize::try_from(metadata.num_rows()).ok();
            let end = end.and_then(|rows| rows.checked_add(ends.last().copied().unwrap_or(0)));
            ends.push(end.ok_or_else(|| {
                let (place, found) = (Place::Row { group, row: 0 }, metadata.num_rows());
                let expected = "a number of rows that can be addressed";
                Error::malformed(OP, source.path(), place, expected, found.to_string())
            })?);
        }
        Ok(File { source, reader, ends })
    }

    pub(super) fn path(&self) -> &Path {
        self.source.path()
    }

    pub(super) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(super) fn groups(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn describe(&self) -> String {
        format!("{}, {} rows", self.source.describe(OP), self.len())
    }

    /// Returns the row group of a row, and its number there.
    pub(super) fn place(&self, index: usize) -> Option<(usize, u64)> {
        let group = self.ends.partition_point(|&end| end <= index);
        self.ends.get(group)?;
        let start = if group == 0 { 0 } else { self.ends[group - 1] };
        Some((group, (index - start) as u64))
    }

    fn columns(&self) -> &[Arc<ColumnDescriptor>] {
        self.reader.metadata().file_metadata().schema_descr().columns()
    }

    pub(super) fn name(&self, column: usize) -> String {
        self.columns()[column].path().string()
    }

    pub(super) fn names(&self, columns: &[usize]) -> String {
        let names: Vec<String> = columns.iter().map(|&column| self.name(column)).collect();
        format!("columns {}", names.join(", "))
    }

    /// Returns all supported columns.
    pub(super) fn readable(&self) -> Arc<[usize]> {
        let columns = self.columns();
        (0..columns.len()).filter(|&column| unreadable(&columns[column]).is_none()).collect()
    }

    /// Returns the columns with these names.
    pub(super) fn find(&self, names: &[&str]) -> Result<Arc<[usize]>> {
        let find = |name: &&str| {
            let all = 0..self.columns().len();
            let fail = |expected| Err(Error::option(OP, "column", format!("{name:?}"), expected));
            let Some(column) = all.clone().find(|&column| self.name(column) == **name) else {
                let all: Vec<usize> = all.collect();
                return fail(format!("must be one of the file's, {}", self.names(&all)));
            };
            match unreadable(&self.columns()[column]) {
                None => Ok(column),
                Some(kind) => fail(format!("must not hold {kind}")),
            }
        };
        names.iter().map(find).collect()
    }
}

/// Returns the reason why a column is not supported, if any.
fn unreadable(column: &ColumnDescriptor) -> Option<&'static str> {
    let decimal = column.converted_type() == ConvertedType::DECIMAL
        || matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }));
    match column.physical_type() {
        _ if column.max_rep_level() > 0 => Some("lists"),
        _ if decimal => Some("decimals"),
        Type::INT96 => Some("times of 96 bits"),
        _ => None,
    }
}

/// Iterator over the rows of a row group.
pub(super) struct Reader {
    file: Arc<File>,
    columns: Arc<[usize]>,
    readers: Vec<ColumnReader>,
    group: usize,
    /// The next row to read.
    row: u64,
    /// The number of rows in the group.
    rows: u64,
    /// Decoded rows, the next one last.
    decoded: Vec<ParquetRow>,
    failed: bool,
}

impl Reader {
    pub(super) fn new(
        file: &Arc<File>,
        columns: &Arc<[usize]>,
        group: usize,
        most: usize,
    ) -> Result<Self> {
        let place = Place::Row { group, row: 0 };
        let metadata = file.reader.metadata().row_group(group);
        for &column in columns.iter() {
            let size = metadata.columns().get(column).map(|chunk| chunk.uncompressed_size());
            if size.is_some_and(|size| u64::try_from(size).is_ok_and(|size| size > most as u64)) {
                let path = file.path().to_owned();
                return Err(Error::TooLarge { op: OP, path, place, what: "a column", most });
            }
        }
        let readers = guarded(&file.source, place, || {
            let reader = file.reader.get_row_group(group)?;
            columns.iter().map(|&column| reader.get_column_reader(column)).collect()
        })?;
        let rows = metadata.num_rows() as u64;
        let (file, columns) = (Arc::clone(file), Arc::clone(columns));
        Ok(Reader {
            file,
            columns,
            readers,
            group,
            row: 0,
            rows,
            decoded: Vec::new(),
            failed: false,
        })
    }

    /// Returns true if a row lies ahead.
    pub(super) fn can_reach(&self, group: usize, row: u64) -> bool {
        self.group == group && self.row <= row
    }

    /// Skips the rows before `row`, or all if there are fewer.
    pub(super) fn skip_to(&mut self, row: u64) -> Result<()> {
        let row = row.min(self.rows);
        let count = usize::try_from(row - self.row).unwrap_or(usize::MAX);
        let (readers, mut short) = (&mut self.readers, false);
        guarded(&self.file.source, Place::Row { group: self.group, row }, || {
            for reader in readers {
                short |= skip(reader, count)? != count;
            }
            Ok(())
        })?;
        self.row = row;
        if short { Err(self.ends_early()) } else { Ok(()) }
    }

    /// Reads the next `count` rows, or as many as are left.
    pub(super) fn read(&mut self, count: usize) -> Result<Vec<ParquetRow>> {
        let count = (self.rows - self.row).min(count as u64) as usize;
        let place = Place::Row { group: self.group, row: self.row };
        let columns = guarded(&self.file.source, place, || {
            let types = self.columns.iter().map(|&column| &self.file.columns()[column]);
            let readers = self.readers.iter_mut().zip(types);
            readers.map(|(reader, kind)| cells(reader, kind, count)).collect::<Result<Vec<_>, _>>()
        })?;
        if columns.iter().any(|cells| cells.len() != count) {
            return Err(self.ends_early());
        }
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let first = self.row;
        self.row += count as u64;
        let row = |row| ParquetRow {
            file: Arc::clone(&self.file),
            columns: Arc::clone(&self.columns),
            cells: columns.iter_mut().filter_map(Iterator::next).collect(),
            place: Place::Row { group: self.group, row },
        };
        Ok((first..self.row).map(row).collect())
    }

    pub(super) fn ends_early(&self) -> Error {
        let place = Place::Row { group: self.group, row: self.row };
        let expected = format!("{} rows in each column of the row group", self.rows);
        Error::malformed(OP, self.file.path(), place, expected, "fewer")
    }
}

impl Iterator for Reader {
    type Item = Result<ParquetRow>;

    fn next(&mut self) -> Option<Result<ParquetRow>> {
        if self.decoded.is_empty() && !self.failed {
            match self.read(AT_ONCE) {
                Ok(rows) => self.decoded = rows.into_iter().rev().collect(),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        self.decoded.pop().map(Ok)
    }
}

/// Applies `$f` to the typed reader in a reader of any type.
macro_rules! with_typed {
    ($reader:expr, $typed:ident => $f:expr) => {
        match $reader {
            ColumnReader::BoolColumnReader($typed) => $f,
            ColumnReader::Int32ColumnReader($typed) => $f,
            ColumnReader::Int64ColumnReader($typed) => $f,
            ColumnReader::Int96ColumnReader($typed) => $f,
            ColumnReader::FloatColumnReader($typed) => $f,
            ColumnReader::DoubleColumnReader($typed) => $f,
            ColumnReader::ByteArrayColumnReader($typed) => $f,
            ColumnReader::FixedLenByteArrayColumnReader($typed) => $f,
        }
    };
}

fn skip(reader: &mut ColumnReader, count: usize) -> Result<usize, ParquetError> {
    with_typed!(reader, typed => typed.skip_records(count))
}

/// Reads the next `count` values of a column, or as many as are left.
fn cells(
    reader: &mut ColumnReader,
    column: &ColumnDescriptor,
    count: usize,
) -> Result<Vec<Cell>, ParquetError> {
    let integer = |x: i128| Cell::Number(Number::Integer(x));
    let float = |x: f64| Cell::Number(Number::Float(x));
    let unsigned = matches!(
        column.converted_type(),
        ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64
    ) || matches!(column.logical_type_ref(), Some(LogicalType::Integer(kind)) if !kind.is_signed);
    let level = column.max_def_level();
    match reader {
        ColumnReader::BoolColumnReader(typed) => {
            typed_cells(typed, level, count, |x| integer(x.into()))
        }
        ColumnReader::Int32ColumnReader(typed) => typed_cells(typed, level, count, |x| {
            integer(if unsigned { (x as u32).into() } else { x.into() })
        }),
        ColumnReader::Int64ColumnReader(typed) => typed_cells(typed, level, count, |x| {
            integer(if unsigned { (x as u64).into() } else { x.into() })
        }),
        ColumnReader::FloatColumnReader(typed) => {
            typed_cells(typed, level, count, |x| float(x.into()))
        }
        ColumnReader::DoubleColumnReader(typed) => typed_cells(typed, level, count, float),
        ColumnReader::ByteArrayColumnReader(typed) => {
            typed_cells(typed, level, count, |x| Cell::Bytes(Bytes::copy_from_slice(x.data())))
        }
        ColumnReader::FixedLenByteArrayColumnReader(typed) => {
            typed_cells(typed, level, count, |x| Cell::Bytes(Bytes::copy_from_slice(x.data())))
        }
        ColumnReader::Int96ColumnReader(_) => Err(ParquetError::NYI("times of 96 bits".to_owned())),
    }
}

fn typed_cells<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    level: i16,
    count: usize,
    cell: impl Fn(T::T) -> Cell,
) -> Result<Vec<Cell>, ParquetError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < count {
        match reader.read_records(count - read, Some(&mut levels), None, &mut values)? {
            (0, ..) => break,
            (records, ..) => read += records,
        }
    }
    let mut values = values.into_iter().map(cell);
    if level == 0 {
        return Ok(values.collect());
    }
    let cells = levels.iter().map(|&at| if at == level { values.next() } else { Some(Cell::Null) });
    cells.collect::<Option<_>>().ok_or_else(|| ParquetError::EOF("a value is missing".to_owned()))
}

/// Runs the foreign reader; its errors and panics become [`Error::Malformed`].
fn guarded<R>(
    source: &Source,
    place: Place,
    f: impl FnOnce() -> Result<R, ParquetError>,
) -> Result<R> {
    let found = match caught(f) {
        Ok(Ok(result)) => return Ok(result),
        // Errors of this crate pass through unchanged.
        Ok(Err(ParquetError::External(error))) => match error.downcast::<Error>() {
            Ok(error) => return Err(*error),
            Err(error) => error.to_string(),
        },
        Ok(Err(error)) => error.to_string(),
        Err(message) => format!("data that make its reader panic: {message}"),
    };
    Err(Error::malformed(OP, source.path(), place, "a whole Parquet file", found))
}

/// The bytes of a file, for the foreign reader.
struct Content(Arc<Source>);

impl Length for Content {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Content {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(From { source: Arc::clone(&self.0), offset: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // A length beyond the file must not allocate memory.
        if start.checked_add(length as u64).is_none_or(|end| end > self.0.len()) {
            let message = format!("{length} bytes from offset {start} of {}", self.0.len());
            return Err(ParquetError::EOF(message));
        }
        let mut bytes = Vec::new();
        let read = self.0.read_into(OP, start, length, &mut bytes);
        read.map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(bytes.into())
    }
}

/// The part of a file from an offset on.
struct From {
    source: Arc<Source>,
    offset: u64,
}

impl Read for From {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let rest = self.source.len().saturating_sub(self.offset);
        let count = rest.min(out.len() as u64) as usize;
        self.source.read_at(OP, self.offset, &mut out[..count]).map_err(io::Error::other)?;
        self.offset += count as u64;
        Ok(count)
    }
}
