use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use super::bytes::{Stored, read_tensor};
use super::whole::replace;
use super::{Result, Site};
use crate::{DType, Tensor};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Alignment of the elements in the file.
const ALIGNMENT: usize = 64;
/// Limit on the bytes of a header, far above that of any plain array: NumPy itself reads 10,000
/// bytes.
const MOST_HEADER: usize = 1 << 16;

/// Reads NumPy's `.npy` file, onto the host.
///
/// Arrays in Fortran order and of either byte order become tensors in row-major order. Integer
/// types that tensors do not support (int8, int16, uint16, uint64) become i64 with the same values.
///
/// # Errors
///
/// [`Error::Read`](super::Error::Read) if the system cannot read the file,
/// [`Error::Content`](super::Error::Content) if it is damaged, has a uint64 above `i64::MAX`, or
/// has elements other than Booleans, integers or floats of at most 64 bits: complex numbers,
/// strings, times, objects, records.
///
/// # References
///
/// NumPy's `numpy.lib.format`, versions 1.0, 2.0 and 3.0.
pub fn load_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    let site = Site { op: "load_npy", path: path.as_ref() };
    let file = File::open(site.path).map_err(site.read())?;
    read(site, "", BufReader::new(file))
}

/// Writes NumPy's `.npy` file atomically.
///
/// # Errors
///
/// [`Error::Write`](super::Error::Write) if the system cannot write the file,
/// [`Error::Content`](super::Error::Content) for bf16, which NumPy does not support,
/// [`Error::Tensor`](super::Error::Tensor) if a device fails to return its tensor.
pub fn save_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let site = Site { op: "save_npy", path: path.as_ref() };
    replace(site, |file| write(site, "elements", tensor, file))
}

/// Reads one array; errors prefix positions with `array`.
pub(super) fn read(site: Site<'_>, array: &str, mut reader: impl Read) -> Result<Tensor> {
    let header = read_header(site, array, &mut reader)?;
    let Some((stored, big_endian)) = header.element_type() else {
        let mut message = format!(
            "elements should be b1, f2, f4, f8, i1, i2, i4, i8, u1, u2, u4 or u8, are {:?}",
            header.descr
        );
        if header.descr.get(1..2) == Some("c") {
            message += ": save the real and the imaginary parts of complex numbers";
        }
        if site.op == "load_npz" {
            message += "; `NpzFile` reads the other arrays by name";
        }
        return Err(site.content(format!("{array}header"), message));
    };
    let elements = format!("{array}elements");
    // Fortran order is the row-major order of the transposed array.
    let mut shape = header.shape;
    if header.fortran_order {
        shape.reverse();
    }
    let tensor = read_tensor(site, &elements, &mut reader, stored, &shape, big_endian)?;
    let rest = reader.read(&mut [0]).map_err(site.read())?;
    if rest > 0 {
        return Err(site.content(elements, format!("more bytes than shape {shape:?} has")));
    }
    if !header.fortran_order {
        return Ok(tensor);
    }
    let order: Vec<usize> = (0..shape.len()).rev().collect();
    let tensor = tensor.value().permute(&order).and_then(|tensor| tensor.contiguous());
    tensor.map(Tensor::from).map_err(site.tensor(elements))
}

/// Reads the header before the elements.
pub(super) fn read_header(site: Site<'_>, array: &str, mut reader: impl Read) -> Result<Header> {
    let place = format!("{array}header");
    let mut take = |len: usize, what: &str| -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        reader.read_exact(&mut bytes).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                site.content(&place, format!("ends within {what}"))
            }
            _ => site.read()(error),
        })?;
        Ok(bytes)
    };
    let start = take(8, "its first 8 bytes")?;
    if !start.starts_with(MAGIC) {
        return Err(site.content(place, "not an npy file: it does not begin with \\x93NUMPY"));
    }
    let len = match start[6] {
        1 => take(2, "its length")?.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte)),
        2 | 3 => {
            take(4, "its length")?.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte))
        }
        other => {
            let message = format!("version {other}, but this program reads 1, 2 and 3");
            return Err(site.content(place, message));
        }
    };
    if len > MOST_HEADER {
        let message = format!("{len} bytes long, expected at most {MOST_HEADER}");
        return Err(site.content(place, message));
    }
    let text = take(len, "its text")?;
    Parser { site, place: &place, text: &text, at: 0 }.header()
}

/// Writes one array.
pub(super) fn write(
    site: Site<'_>,
    place: &str,
    tensor: &Tensor,
    mut file: impl Write,
) -> Result<()> {
    let descr = match tensor.dtype() {
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::Bool => "|b1",
        DType::I32 => "<i4",
        DType::U32 => "<u4",
        DType::F16 => "<f2",
        other => {
            return Err(site.content(place, format!("elements of type {other} are not saved")));
        }
    };
    let mut shape = String::new();
    for size in tensor.shape() {
        // A tuple of one element has a comma, too.
        let _ = write!(shape, "{size}, ");
    }
    let shape = if tensor.rank() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Version 1 holds headers of up to 65,535 bytes: thousands of dimensions.
    let start = MAGIC.len() + 4;
    let end = (start + text.len() + 1).next_multiple_of(ALIGNMENT);
    let Ok(len) = u16::try_from(end - start) else {
        let message = format!("a tensor of {} dimensions cannot be saved", tensor.rank());
        return Err(site.content(place, message));
    };
    let mut header = Vec::from(MAGIC);
    header.extend([1, 0]);
    header.extend(len.to_le_bytes());
    header.extend(text.as_bytes());
    header.resize(end - 1, b' ');
    header.push(b'\n');
    let bytes = tensor.to_bytes().map_err(site.tensor(place))?;
    file.write_all(&header).and_then(|()| file.write_all(&bytes)).map_err(site.write())
}

pub(super) struct Header {
    /// The element type: NumPy's code, or the text of the list of a record's fields.
    pub(super) descr: String,
    fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

impl Header {
    /// Returns the element type, if it is supported, and true if the bytes are big-endian.
    fn element_type(&self) -> Option<(Stored, bool)> {
        let (order, kind) = self.descr.split_at_checked(1)?;
        let stored = match kind {
            "f4" => Stored::Own(DType::F32),
            "f8" => Stored::Own(DType::F64),
            "i8" => Stored::Own(DType::I64),
            "u1" => Stored::Own(DType::U8),
            "b1" => Stored::Own(DType::Bool),
            "i4" => Stored::Own(DType::I32),
            "u4" => Stored::Own(DType::U32),
            "f2" => Stored::Own(DType::F16),
            "i1" => Stored::I8,
            "i2" => Stored::I16,
            "u2" => Stored::U16,
            "u8" => Stored::U64,
            _ => return None,
        };
        match order {
            "<" => Some((stored, false)),
            ">" => Some((stored, true)),
            "|" if stored.size() == 1 => Some((stored, false)),
            _ => None,
        }
    }
}

/// Parser of the header's text: a Python dictionary of three known entries.
struct Parser<'a> {
    site: Site<'a>,
    place: &'a str,
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn header(mut self) -> Result<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.takes(b'}') {
            let at = self.at;
            let key = self.string()?;
            self.expect(b':')?;
            let new = match key.as_str() {
                "descr" => descr.replace(self.descr()?).is_none(),
                "fortran_order" => fortran_order.replace(self.truth()?).is_none(),
                "shape" => shape.replace(self.tuple()?).is_none(),
                _ => false,
            };
            if !new {
                self.at = at;
                return Err(self.wrong("descr, fortran_order and shape, each once"));
            }
            if !self.takes(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        self.skip_blanks();
        if self.at < self.text.len() {
            return Err(self.wrong("the end"));
        }
        match (descr, fortran_order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) => {
                Ok(Header { descr, fortran_order, shape })
            }
            _ => Err(self.wrong("descr, fortran_order and shape, each once")),
        }
    }

    /// Parses a type's code as is, or a record's fields as text.
    fn descr(&mut self) -> Result<String> {
        self.skip_blanks();
        if self.text.get(self.at) != Some(&b'[') {
            return self.string();
        }
        let start = self.at;
        let mut depth = 0usize;
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b'\'' | b'"' => {
                    self.string()?;
                    continue;
                }
                b'[' | b'(' => depth += 1,
                b']' | b')' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(String::from_utf8_lossy(&self.text[start..self.at]).into_owned());
            }
        }
        Err(self.wrong("]"))
    }

    fn string(&mut self) -> Result<String> {
        self.skip_blanks();
        // Python 2 wrote strings as u'..'.
        self.at += usize::from(matches!(self.text.get(self.at..), Some([b'u', b'\'' | b'"', ..])));
        let Some(&quote @ (b'\'' | b'"')) = self.text.get(self.at) else {
            return Err(self.wrong("a string"));
        };
        let rest = &self.text[self.at + 1..];
        let len = rest.iter().position(|&byte| byte == quote);
        let Some(text) = len.and_then(|len| std::str::from_utf8(&rest[..len]).ok()) else {
            return Err(self.wrong("a string"));
        };
        self.at += text.len() + 2;
        Ok(text.to_owned())
    }

    fn truth(&mut self) -> Result<bool> {
        self.skip_blanks();
        for (word, truth) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(truth);
            }
        }
        Err(self.wrong("True or False"))
    }

    fn tuple(&mut self) -> Result<Vec<usize>> {
        self.expect(b'(')?;
        let mut sizes = Vec::new();
        while !self.takes(b')') {
            self.skip_blanks();
            let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit());
            let digits = &self.text[self.at..self.at + digits.count()];
            let size = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            sizes.push(size.ok_or_else(|| self.wrong("a size"))?);
            self.at += digits.len();
            // Python 2 wrote large numbers as 2L.
            self.at += usize::from(self.text.get(self.at) == Some(&b'L'));
            if !self.takes(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(sizes)
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.takes(byte) { Ok(()) } else { Err(self.wrong(&char::from(byte).to_string())) }
    }

    fn takes(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn skip_blanks(&mut self) {
        let blank = |byte: &u8| byte.is_ascii_whitespace();
        self.at += self.text[self.at..].iter().take_while(|byte| blank(byte)).count();
    }

    fn wrong(&self, expected: &str) -> super::Error {
        let got = &self.text[self.at..self.text.len().min(self.at + 16)];
        let message = format!(
            "expected {expected} at character {}, got {:?}",
            self.at,
            String::from_utf8_lossy(got)
        );
        self.site.content(self.place, message)
    }
}
