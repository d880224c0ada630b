//! The members of a tar file.
//!
//! [`tar::Archive`] loads extended headers of any claimed size into memory, and its errors have no
//! position. Therefore only its parsers of headers and extensions are used here.

use tar::{EntryType, Header, PaxExtensions};

use super::OP;
use super::input::Input;
use crate::error::quote;
use crate::{Error, Place, Result};

const BLOCK: u64 = 512;
/// Limit on the bytes of an extended header. Systems permit names of 4 KiB.
const LONGEST: u64 = 1 << 16;

/// A member that belongs to a sample.
#[derive(Debug)]
pub(super) struct Member {
    /// Offset of its header, after any extended headers.
    pub(super) header: u64,
    pub(super) content: u64,
    pub(super) size: u64,
    pub(super) key: String,
    pub(super) field: String,
    /// The reason why it cannot be read, if any. Its sample is an error; later samples can still be
    /// read.
    pub(super) refused: Option<&'static str>,
}

/// Iterator over members.
pub(super) struct Members<I> {
    input: I,
    /// Offset of the next header.
    next: u64,
}

/// Contents of the extended headers before a member.
#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

impl<I: Input> Members<I> {
    pub(super) fn new(input: I) -> Self {
        Members { input, next: 0 }
    }

    /// Returns the input, positioned at the content of the last member.
    pub(super) fn at_content(&mut self) -> &mut I {
        &mut self.input
    }

    /// Returns the next member of a sample, or `None` at the end. Skips other members.
    pub(super) fn next_member(&mut self) -> Result<Option<Member>> {
        let mut extended = Extended::default();
        loop {
            self.input.pass_over(self.next - self.input.offset())?;
            let header_at = self.next;
            let Some(header) = self.header()? else { return Ok(None) };
            let kind = header.entry_type();
            let size = match extended.size {
                Some(size) if !is_extension(kind) => size,
                _ => header.entry_size().map_err(|error| {
                    self.malformed(header_at, "a header with a size", error.to_string())
                })?,
            };
            let content = self.input.offset();
            let end = size.checked_next_multiple_of(BLOCK).and_then(|n| n.checked_add(content));
            self.next = end.ok_or_else(|| {
                self.malformed(header_at, "a size that can be addressed", size.to_string())
            })?;
            match kind {
                EntryType::GNULongName => {
                    let mut name = self.extension(header_at, size)?;
                    name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
                    extended.name = Some(name);
                }
                EntryType::XHeader => {
                    let text = self.extension(header_at, size)?;
                    self.pax(header_at, &text, &mut extended)?;
                }
                kind if is_extension(kind) || kind.is_dir() => {
                    if kind.is_dir() {
                        extended = Extended::default();
                    }
                }
                kind => {
                    let Extended { name, sparse, .. } = std::mem::take(&mut extended);
                    let name = name.unwrap_or_else(|| header.path_bytes().into_owned());
                    let refused = match std::str::from_utf8(&name) {
                        Ok(_) if sparse => Some("a sparse file"),
                        Ok(_) => refused(kind),
                        Err(_) => Some("a name in another encoding"),
                    };
                    let name = String::from_utf8_lossy(&name);
                    if let Some((key, field)) = key_and_field(&name) {
                        let (key, field) = (key.to_owned(), field.to_lowercase());
                        let header = header_at;
                        return Ok(Some(Member { header, content, size, key, field, refused }));
                    }
                }
            }
        }
    }

    /// Reads the header at the input's position, or `None` at the end of the members.
    fn header(&mut self) -> Result<Option<Header>> {
        let at = self.input.offset();
        let mut header = Header::new_old();
        let bytes = header.as_mut_bytes();
        match self.input.read(bytes)? {
            0 => return Ok(None),
            512 => {}
            read => {
                let found = format!("{read} bytes before the end of the file");
                return Err(self.malformed(at, "a header of 512 bytes", found));
            }
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        // The sum of all bytes, with the checksum's own eight counted as spaces.
        let sum: u32 = bytes.iter().map(|&byte| u32::from(byte)).sum();
        let own: u32 = bytes[148..156].iter().map(|&byte| u32::from(byte)).sum();
        let sum = sum - own + 8 * u32::from(b' ');
        match header.cksum() {
            Ok(said) if said == sum => Ok(Some(header)),
            Ok(said) => {
                Err(self.malformed(at, format!("a header with checksum {said}"), sum.to_string()))
            }
            Err(error) => Err(self.malformed(at, "a header with a checksum", error.to_string())),
        }
    }

    /// Reads the content of an extended header.
    fn extension(&mut self, header: u64, size: u64) -> Result<Vec<u8>> {
        if size > LONGEST {
            return Err(Error::TooLarge {
                op: OP,
                path: self.input.path().to_owned(),
                place: Place::Offset(header),
                what: "an extended header",
                most: LONGEST as usize,
            });
        }
        self.input.take(size as usize)
    }

    fn pax(&self, header: u64, text: &[u8], extended: &mut Extended) -> Result<()> {
        let damaged = |found: String| self.malformed(header, "an extended header of PAX", found);
        for pair in PaxExtensions::new(text) {
            let pair = pair.map_err(|error| damaged(error.to_string()))?;
            match pair.key_bytes() {
                b"path" => extended.name = Some(pair.value_bytes().to_vec()),
                b"size" => {
                    let size = pair.value().ok().and_then(|size| size.parse().ok());
                    let size = size.ok_or_else(|| {
                        let value = String::from_utf8_lossy(pair.value_bytes());
                        damaged(format!("a size of {}", quote(&value)))
                    })?;
                    extended.size = Some(size);
                }
                key => extended.sparse |= key.starts_with(b"GNU.sparse."),
            }
        }
        Ok(())
    }

    fn malformed(
        &self,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::malformed(OP, self.input.path(), Place::Offset(offset), expected, found)
    }
}

/// Returns true for headers that describe other members.
fn is_extension(kind: EntryType) -> bool {
    matches!(
        kind,
        EntryType::GNULongName
            | EntryType::GNULongLink
            | EntryType::XHeader
            | EntryType::XGlobalHeader
    )
}

/// Returns the reason why members of this kind cannot be read, if any.
fn refused(kind: EntryType) -> Option<&'static str> {
    match kind {
        EntryType::Regular | EntryType::Continuous => None,
        EntryType::Link => Some("a hard link"),
        EntryType::Symlink => Some("a symbolic link"),
        EntryType::GNUSparse => Some("a sparse file"),
        EntryType::Char | EntryType::Block => Some("a device"),
        EntryType::Fifo => Some("a pipe"),
        _ => Some("a member of an unknown type"),
    }
}

/// Splits a member's name into sample key and field; `None` if the member belongs to no sample.
fn key_and_field(name: &str) -> Option<(&str, &str)> {
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    if name[file..].starts_with("__") && name.ends_with("__") {
        return None;
    }
    let dot = file + name[file..].find('.').filter(|&dot| dot > 0)?;
    Some((&name[..dot], &name[dot + 1..]))
}

#[cfg(test)]
mod tests {
    use super::key_and_field;

    #[test]
    fn names_are_cut_at_the_first_dot_of_the_file() {
        assert_eq!(key_and_field("a/b.c/1.seg.png"), Some(("a/b.c/1", "seg.png")));
        assert_eq!(key_and_field("1."), Some(("1", "")));
        for outside in ["a/1", "a.b/", "a.b/.hidden", "__meta.json__", "x/__a.b__", ""] {
            assert_eq!(key_and_field(outside), None, "{outside}");
        }
    }
}
