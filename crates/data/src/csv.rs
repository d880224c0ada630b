//! Tables of numbers in CSV files, plain or gzip-compressed.

use std::path::{Path, PathBuf};

use crate::error::quote;
use crate::file::{self, MOST_BYTES};
use crate::memory::reserve;
use crate::{Error, Place, Result, Table};

const OP: &str = "csv";

/// Column of the labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Label {
    /// No column; every label is 0.
    None,
    /// The column with this index, counted from 0.
    Column(usize),
    /// The last column.
    #[default]
    Last,
}

/// Options for reading a CSV file as a [`Table`].
///
/// Every row must have the same number of fields, and every field must be a number: finite for
/// values, an integer for labels. Spaces around a number, empty lines and a byte order mark are
/// ignored. A file whose name ends in `.gz` is decompressed.
///
/// Fractions are read as the nearest f32. A number without a point or an exponent may be an
/// identifier or a time: if f32 neither holds it exactly nor prints it with the same digits, the
/// result is [`Error::Inexact`], unless [`rounded`](CsvOptions::rounded) permits rounding.
///
/// # Determinism
///
/// The numbers are the same on every machine.
///
/// # Examples
///
/// ```
/// use samebits_data::CsvOptions;
///
/// let table = CsvOptions::new().header(true).parse("points.csv", b"x,y,class\n0.5,2,1\n")?;
/// assert_eq!(table.row(0), Some(&[0.5, 2.0][..]));
/// assert_eq!(table.labels(), [1]);
///
/// let error = CsvOptions::new().parse("points.csv", b"1,2\n3,x\n").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "csv: points.csv, line 2, column 2: expected an integer label, found \"x\""
/// );
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a file is read"]
pub struct CsvOptions {
    header: bool,
    delimiter: u8,
    label: Label,
    columns: Option<usize>,
    labels: Option<(i64, i64)>,
    most_bytes: usize,
    rounded: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions::new()
    }
}

impl CsvOptions {
    /// Creates the default options: no header, commas, the label in the last column.
    pub fn new() -> Self {
        CsvOptions {
            header: false,
            delimiter: b',',
            label: Label::Last,
            columns: None,
            labels: None,
            most_bytes: MOST_BYTES,
            rounded: false,
        }
    }

    /// If `true`, skips the first row, which holds names.
    pub fn header(self, header: bool) -> Self {
        CsvOptions { header, ..self }
    }

    /// Sets the byte between fields.
    pub fn delimiter(self, delimiter: u8) -> Self {
        CsvOptions { delimiter, ..self }
    }

    /// Sets the column of the labels.
    pub fn label(self, label: Label) -> Self {
        CsvOptions { label, ..self }
    }

    /// Sets the number of fields per row, including the label. By default, the first row decides.
    pub fn columns(self, columns: usize) -> Self {
        CsvOptions { columns: Some(columns), ..self }
    }

    /// Sets the smallest and the largest label permitted.
    pub fn labels(self, smallest: i64, largest: i64) -> Self {
        CsvOptions { labels: Some((smallest, largest)), ..self }
    }

    /// Sets the limit on the bytes of text, counted after decompression; 4 GiB by default. The
    /// table takes up to four times as much.
    pub fn most_bytes(self, most_bytes: usize) -> Self {
        CsvOptions { most_bytes, ..self }
    }

    /// If `true`, reads whole numbers as the nearest f32, too.
    pub fn rounded(self, rounded: bool) -> Self {
        CsvOptions { rounded, ..self }
    }

    /// Reads the file at `path`.
    ///
    /// [`Error::Io`] if the file cannot be read, [`Error::Malformed`] with line and column if it is
    /// not a valid table, [`Error::Inexact`] for a whole number that f32 does not hold,
    /// [`Error::TooLarge`] and [`Error::OutOfMemory`] if it is too long.
    ///
    /// [`Error::Io`] if it cannot be read, [`Error::Malformed`] with line and column if it is
    /// not such a table, [`Error::Inexact`] for a whole number that f32 does not hold,
    /// [`Error::TooLarge`] and [`Error::OutOfMemory`] if it is too long.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Table> {
        let path = path.as_ref();
        Rows { options: self, path }.parse(&file::read(OP, path, self.most_bytes)?)
    }

    /// Reads a table from `bytes`, as from a file of this name.
    ///
    /// # Errors
    ///
    /// As for [`read`](CsvOptions::read).
    pub fn parse(&self, name: impl Into<PathBuf>, bytes: &[u8]) -> Result<Table> {
        let path = name.into();
        let rows = Rows { options: self, path: &path };
        match file::is_packed(&path) {
            true => rows.parse(&file::unpack(&path, bytes, self.most_bytes)?),
            false => rows.parse(bytes),
        }
    }
}

struct Rows<'a> {
    options: &'a CsvOptions,
    path: &'a Path,
}

impl Rows<'_> {
    fn parse(&self, text: &[u8]) -> Result<Table> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(self.options.delimiter)
            .from_reader(text);
        let mut table = Columns::default();
        let mut record = csv::ByteRecord::new();
        let mut header = self.options.header;
        loop {
            match reader.read_byte_record(&mut record) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    let line = error.position().map_or(0, csv::Position::line);
                    return Err(self.malformed(
                        Place::Line(line),
                        "a row of CSV",
                        error.to_string(),
                    ));
                }
            }
            if std::mem::take(&mut header) {
                continue;
            }
            let line = record.position().map_or(0, |position| line_of(text, position));
            self.row(&mut table, &record, line)?;
        }
        Table::new(table.values, table.fields.map_or(0, |n| n - table.label_fields), table.labels)
    }

    fn row(&self, table: &mut Columns, record: &csv::ByteRecord, line: u64) -> Result<()> {
        let fields = match (table.fields, self.options.columns) {
            (Some(fields), _) => fields,
            (None, Some(columns)) => columns,
            (None, None) => record.len(),
        };
        if record.len() != fields {
            let from = if self.options.columns.is_some() { "" } else { ", as in the first row" };
            let expected = format!("{fields} fields{from}");
            return Err(self.malformed(Place::Line(line), expected, record.len().to_string()));
        }
        let label = match self.options.label {
            Label::None => None,
            Label::Column(column) if column < fields => Some(column),
            Label::Column(column) => {
                let expected = format!("a label in column {}", column.saturating_add(1));
                return Err(self.malformed(
                    Place::Line(line),
                    expected,
                    format!("{fields} fields"),
                ));
            }
            Label::Last if fields == 0 => None,
            Label::Last => Some(fields - 1),
        };
        table.fields = Some(fields);
        table.label_fields = usize::from(label.is_some());
        reserve(OP, &mut table.values, fields)?;
        reserve(OP, &mut table.labels, 1)?;
        for (column, field) in record.iter().enumerate() {
            let place = Place::Field { line, column: column as u64 + 1 };
            if label == Some(column) {
                table.labels.push(self.label(place, field)?);
            } else {
                table.values.push(self.value(place, field)?);
            }
        }
        if label.is_none() {
            table.labels.push(0);
        }
        Ok(())
    }

    fn value(&self, place: Place, field: &[u8]) -> Result<f32> {
        // Single digits are by far the most common fields of integer tables.
        if let [digit @ b'0'..=b'9'] = field {
            return Ok(f32::from(digit - b'0'));
        }
        let text = std::str::from_utf8(field).unwrap_or_default().trim();
        match text.parse() {
            Ok(number) if f32::is_finite(number) => {
                if number.abs() < ALL_WHOLE || self.options.rounded || is_exact(text, number) {
                    return Ok(number);
                }
                let (path, value) = (self.path.to_owned(), text.to_owned());
                Err(Error::Inexact { op: OP, path, place, value, wanted: "f32" })
            }
            _ => Err(self.malformed(place, "a finite number", quote(&lossy(field)))),
        }
    }

    fn label(&self, place: Place, field: &[u8]) -> Result<i64> {
        let number: Option<i64> =
            std::str::from_utf8(field).ok().and_then(|text| text.trim().parse().ok());
        let Some(number) = number else {
            return Err(self.malformed(place, "an integer label", quote(&lossy(field))));
        };
        match self.options.labels {
            Some((smallest, largest)) if number < smallest || number > largest => {
                let expected = format!("a label from {smallest} to {largest}");
                Err(self.malformed(place, expected, number.to_string()))
            }
            _ => Ok(number),
        }
    }

    fn malformed(&self, place: Place, expected: impl Into<String>, found: String) -> Error {
        Error::malformed(OP, self.path, place, expected, found)
    }
}

/// Bound below which f32 holds every whole number.
const ALL_WHOLE: f32 = 16777216.0;

/// Returns true if `text` is not a whole number, or equals the value of `number` or its printed
/// form.
fn is_exact(text: &str, number: f32) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start_matches('0');
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    // A finite f32 is below 2^128.
    let number = number.abs();
    digits == (number as u128).to_string() || digits == number.to_string()
}

/// Returns the line on which a record begins. `position` is the end of the previous record, so the
/// rest of that line and empty lines may lie between.
fn line_of(text: &[u8], position: &csv::Position) -> u64 {
    let from = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let between = text.get(from..).unwrap_or_default().iter();
    let ends = between.take_while(|byte| matches!(byte, b'\r' | b'\n'));
    position.line() + ends.filter(|&&byte| byte == b'\n').count() as u64
}

#[derive(Default)]
struct Columns {
    values: Vec<f32>,
    labels: Vec<i64>,
    fields: Option<usize>,
    label_fields: usize,
}

fn lossy(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}
