//! Rows of numbers in binary files: IDX, safetensors, and bare arrays.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use samebits_numerics::memory;

use crate::memory::allocated;
use crate::source::Source;
use crate::{BatchContext, Dataset, Error, Place, Result, SampleContext};

mod element;
mod idx;
mod safetensors;
mod windows;

#[cfg(feature = "parquet")]
pub(crate) use element::Number;
pub use element::{Element, Value};
pub use windows::Windows;

/// A dataset of equally shaped rows in a file, read on demand.
///
/// A sample is the row's values as `f32`, or as the type chosen with [`typed`](Rows::typed). A
/// value that the type does not hold exactly, such as an identifier above 2^24, gives
/// [`Error::Inexact`], unless [`rounded`](Rows::rounded) permits rounding.
/// [`into_labels`](Rows::into_labels) reads single integers instead, and
/// [`into_windows`](Rows::into_windows) windows of integers.
///
/// A loader reads adjacent rows of a batch in one call.
///
/// A file whose name ends in `.gz` is decompressed into memory, up to 4 GiB; decompress a larger
/// one on disk. Every other file is read in place, whatever its first bytes are.
///
/// Cloning is cheap: clones share the file.
///
/// # Changing files
///
/// Rows come through positional reads of an open file, which the system serves from the same page
/// cache that a memory map would show. If another process shortens a mapped file, a signal ends the
/// program, and no check before the access can exclude that. A positional read instead returns
/// fewer bytes, which gives an [`Error::Malformed`] with file and offset. For this reason, the
/// crate has no `unsafe` code.
///
/// # Examples
///
/// ```
/// use samebits_data::{DataLoader, DatasetExt, Rows};
///
/// // Two images of 1×2 pixels and their labels, in MNIST's format.
/// let images = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9, 8, 7, 6];
/// let labels = [0, 0, 8, 1, 0, 0, 0, 2, 5, 3];
/// let images = Rows::parse_idx("images", images.to_vec())?;
/// let labels = Rows::parse_idx("labels", labels.to_vec())?.into_labels()?;
/// let loader = DataLoader::builder(images.zip(labels)?).batch_size(2).build()?;
/// let batch = loader.epoch(0).next().unwrap()?;
/// assert_eq!(batch.data.0.row(1), Some(&[7.0, 6.0][..]));
/// assert_eq!(batch.data.1, [5, 3]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rows<T = f32> {
    op: &'static str,
    source: Arc<Source>,
    /// The offset of the first row.
    start: u64,
    element: Element,
    order: ByteOrder,
    len: usize,
    /// The shape of one row.
    shape: Vec<usize>,
    /// Elements in one row.
    width: usize,
    /// True if values may be rounded to `T`.
    rounds: bool,
    value: PhantomData<fn() -> T>,
}

/// Byte order of the numbers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Rows {
    /// Opens an IDX file, the format of MNIST. The first dimension counts the rows.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], and [`Error::Malformed`] if magic number, dimensions and size disagree.
    pub fn open_idx(path: impl AsRef<Path>) -> Result<Self> {
        idx::open(Source::open("idx", path.as_ref())?)
    }

    /// Reads `bytes` as [`open_idx`](Rows::open_idx) does a file; errors use `name` as the path.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`], as for [`open_idx`](Rows::open_idx).
    pub fn parse_idx(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Self> {
        idx::open(Source::memory(name.into(), bytes)?)
    }

    /// Opens one tensor of a safetensors file. The first dimension counts the rows.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], and [`Error::Malformed`] if the header is damaged, the file's size differs
    /// from the header's, or there is no such tensor of a supported type.
    pub fn open_safetensors(path: impl AsRef<Path>, tensor: &str) -> Result<Self> {
        safetensors::open(Source::open("safetensors", path.as_ref())?, tensor)
    }

    /// Reads `bytes` as [`open_safetensors`](Rows::open_safetensors) does a file; errors use `name`
    /// as the path.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`], as for [`open_safetensors`](Rows::open_safetensors).
    pub fn parse_safetensors(
        name: impl Into<PathBuf>,
        bytes: Vec<u8>,
        tensor: &str,
    ) -> Result<Self> {
        safetensors::open(Source::memory(name.into(), bytes)?, tensor)
    }

    /// Opens a file of bare numbers: `header` bytes, which are skipped, then rows of the given
    /// shape up to the end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], and [`Error::Malformed`] if the rest after the header is not a whole number
    /// of rows.
    pub fn open_raw(
        path: impl AsRef<Path>,
        header: u64,
        element: Element,
        order: ByteOrder,
        shape: &[usize],
    ) -> Result<Self> {
        let op = "raw rows";
        let source = Source::open(op, path.as_ref())?;
        let Some((width, bytes)) = row_size(shape, element) else {
            let expected = "must have elements and fit the address space";
            return Err(Error::option(op, "row shape", format!("{shape:?}"), expected));
        };
        let rest = source.len().checked_sub(header);
        let rows = rest.filter(|rest| rest % bytes as u64 == 0).map(|rest| rest / bytes as u64);
        let Some(len) = rows.and_then(|rows| usize::try_from(rows).ok()) else {
            return Err(Error::malformed(
                op,
                source.path(),
                Place::Offset(header),
                format!("a whole number of rows of {bytes} bytes after {header} bytes of header"),
                format!("a file of {} bytes", source.len()),
            ));
        };
        Ok(Rows {
            op,
            source: Arc::new(source),
            start: header,
            element,
            order,
            len,
            shape: shape.to_vec(),
            width,
            rounds: false,
            value: PhantomData,
        })
    }
}

impl<T: Value> Rows<T> {
    /// Converts the rows to values of type `U`. Values that `U` does not hold exactly give
    /// [`Error::Inexact`].
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{DataLoader, Rows};
    ///
    /// // Two images of 1×2 pixels in MNIST's format.
    /// let images = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9, 8, 7, 6];
    /// let images = Rows::parse_idx("images", images.to_vec())?.typed::<u8>();
    /// assert_eq!(images.row(1)?, [7, 6]);
    /// let loader = DataLoader::builder(images).batch_size(2).build()?;
    /// let batch = loader.epoch(0).next().unwrap()?.data;
    /// assert_eq!(batch.values, [9_u8, 8, 7, 6]);
    /// # Ok::<(), samebits_data::Error>(())
    /// ```
    #[must_use]
    pub fn typed<U: Value>(self) -> Rows<U> {
        let Rows { op, source, start, element, order, len, shape, width, .. } = self;
        let (rounds, value) = (false, PhantomData);
        Rows { op, source, start, element, order, len, shape, width, rounds, value }
    }

    /// Returns the shape of one row; empty for single numbers.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the type of the numbers.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Returns the bytes of row `index` as stored.
    ///
    /// # Errors
    ///
    /// [`Error::IndexOutOfRange`], [`Error::Io`], and [`Error::Malformed`] if the file has become
    /// shorter.
    pub fn row_bytes(&self, index: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read(self.offset(index)?, self.width, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the values of row `index`.
    ///
    /// # Errors
    ///
    /// As for [`row_bytes`](Rows::row_bytes), and [`Error::Inexact`].
    pub fn row(&self, index: usize) -> Result<Vec<T>> {
        self.values_at(self.offset(index)?, self.width, &mut Vec::new())
    }

    /// Returns the offset of row `index`.
    fn offset(&self, index: usize) -> Result<u64> {
        if index >= self.len {
            return Err(Error::IndexOutOfRange { op: self.op, index, len: self.len });
        }
        Ok(self.start + index as u64 * self.row_bytes_count() as u64)
    }

    fn row_bytes_count(&self) -> usize {
        self.width * self.element.size()
    }

    /// Replaces the contents of `bytes` with the bytes of `count` numbers from `offset` on.
    fn read(&self, offset: u64, count: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let size = count.saturating_mul(self.element.size());
        self.source.read_into(self.op, offset, size, bytes)
    }

    /// Reads `count` values from `offset` on, using `bytes` as a buffer.
    fn values_at(&self, offset: u64, count: usize, bytes: &mut Vec<u8>) -> Result<Vec<T>> {
        self.read(offset, count, bytes)?;
        self.values(offset, bytes)
    }

    /// Converts `bytes`, read from `offset`, to values.
    fn values(&self, offset: u64, bytes: &[u8]) -> Result<Vec<T>> {
        if self.element == Element::Bool
            && let Some(at) = bytes.iter().position(|&byte| byte > 1)
        {
            let (path, place) = (self.source.path(), Place::Offset(offset + at as u64));
            let found = bytes[at].to_string();
            return Err(Error::malformed(self.op, path, place, "a truth value, 0 or 1", found));
        }
        let mut values =
            allocated(self.op, memory::with_capacity(bytes.len() / self.element.size()))?;
        if T::extend(self.element, self.order, bytes, &mut values) {
            return Ok(values);
        }
        let convert = if self.rounds { T::nearest } else { T::exact };
        for (place, number) in self.element.numbers(self.order, bytes).enumerate() {
            values.push(convert(number).ok_or_else(|| {
                let (op, path) = (self.op, self.source.path());
                let place = Place::Offset(offset + (place * self.element.size()) as u64);
                if let (true, element::Number::Float(value)) = (self.rounds, number) {
                    let wanted = format!("a number within the range of {}", T::NAME);
                    return Error::malformed(op, path, place, wanted, format!("{value:e}"));
                }
                let (path, value) = (path.to_owned(), number.to_string());
                Error::Inexact { op, path, place, value, wanted: T::NAME }
            })?);
        }
        Ok(values)
    }

    /// Rounds values that a floating-point `T` does not hold exactly to nearest. Integers are never
    /// rounded, and a number beyond the range of `T` is [`Error::Malformed`].
    #[must_use]
    pub fn rounded(self) -> Self {
        Rows { rounds: true, ..self }
    }

    /// Converts the rows to integer labels, one per row.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if a row holds more than one number, or its numbers are not
    /// integers.
    pub fn into_labels(self) -> Result<Labels> {
        self.check_integers("labels")?;
        Ok(Labels { rows: self.typed() })
    }

    /// Cuts the integers into windows of `length`, one every `stride`: the samples of a language
    /// model in a file of tokens. Integers after the last whole window are dropped. The samples are
    /// `i64`, or the type chosen with [`Windows::typed`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if a row holds more than one number, its numbers are not integers,
    /// or `length` or `stride` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{ByteOrder, DataLoader, Element, Rows};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("tokens.bin");
    /// std::fs::write(&path, (0..8_u16).flat_map(u16::to_le_bytes).collect::<Vec<_>>())?;
    /// let tokens = Rows::open_raw(path, 0, Element::U16, ByteOrder::Little, &[])?;
    /// // Three inputs and three targets: the targets follow the inputs by one.
    /// let loader = DataLoader::builder(tokens.into_windows(4, 3)?).batch_size(2).build()?;
    /// let batch = loader.epoch(0).next().unwrap()?.data;
    /// assert_eq!(batch.row(1), Some(&[3, 4, 5, 6][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_windows(self, length: usize, stride: usize) -> Result<Windows> {
        self.check_integers("windows")?;
        Windows::new(self.typed(), length, stride)
    }

    /// Checks that each row is one integer.
    fn check_integers(&self, option: &'static str) -> Result<()> {
        if self.width == 1 && self.element.is_integer() {
            return Ok(());
        }
        let (element, shape, path) = (self.element, &self.shape, self.source.path().display());
        let value = format!("{element:?} of shape {shape:?} in {path}");
        Err(Error::option(self.op, option, value, "must be one integer per row"))
    }
}

impl<T: Value> Dataset for Rows<T> {
    type Item = Vec<T>;

    fn len(&self) -> usize {
        self.len
    }

    fn describe(&self) -> String {
        let (op, shape, element) = (self.op, &self.shape, self.element);
        format!(
            "{}, {} rows of {element:?} {shape:?} from {}",
            self.source.describe(op),
            self.len,
            self.start
        )
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Vec<T>> {
        self.values_at(self.offset(index)?, self.width, cx.worker().scratch())
    }

    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<Vec<T>>> {
        let mut order = allocated(self.op, memory::collected(0..indices.len())).ok()?;
        order.sort_by_key(|&place| indices[place]);
        let mut rows =
            allocated(self.op, memory::collected(indices.iter().map(|_| Vec::new()))).ok()?;
        let size = self.row_bytes_count();
        let follows = |&a: &usize, &b: &usize| indices[b] - indices[a] <= 1;
        for run in order.chunk_by(follows) {
            // Reads have a bounded size, however wide the batch is.
            for run in run.chunks((MOST_AT_ONCE / size).max(1)) {
                let first = indices[run[0]];
                let count = indices[run[run.len() - 1]] - first + 1;
                // Check the last row too: a run may end past the end.
                let (start, _) = (self.offset(first).ok()?, self.offset(first + count - 1).ok()?);
                let bytes = cx.worker().scratch();
                self.read(start, count * self.width, bytes).ok()?;
                for &place in run {
                    let at = (indices[place] - first) * size;
                    rows[place] = self.values(start + at as u64, &bytes[at..at + size]).ok()?;
                }
            }
        }
        Some(rows)
    }
}

/// Largest read, in bytes, that covers several rows.
const MOST_AT_ONCE: usize = 1 << 20;

/// A dataset of integers in a file; see [`Rows::into_labels`].
#[derive(Clone, Debug)]
pub struct Labels {
    rows: Rows<i64>,
}

impl Dataset for Labels {
    type Item = i64;

    fn len(&self) -> usize {
        self.rows.len
    }

    fn describe(&self) -> String {
        self.rows.describe()
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<i64> {
        // `into_labels` has checked that a row has one value.
        Ok(self.rows.get(index, cx)?[0])
    }

    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<i64>> {
        Some(self.rows.get_many(indices, cx)?.into_iter().map(|row| row[0]).collect())
    }
}

/// Returns the numbers of elements and of bytes of a row, unless it is empty or cannot be
/// addressed. Rows without elements are rejected because a short file could claim any number of
/// them.
fn row_size(shape: &[usize], element: Element) -> Option<(usize, usize)> {
    let width = memory::product(shape).filter(|&width| width > 0)?;
    Some((width, width.checked_mul(element.size())?))
}
