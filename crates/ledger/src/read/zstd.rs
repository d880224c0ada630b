//! Compressed ledgers: consecutive zstd frames.

use std::fs::File;
use std::path::Path;

use super::ReadError;

/// The first four bytes of a frame, little-endian.
const MAGIC: u32 = 0xfd2f_b528;

/// Returns true if a file that begins with `bytes` is compressed.
pub(super) fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

/// Decompresses a file into an unnamed one. An incomplete last frame ends the content, because an
/// interrupted run leaves one; an incomplete frame before others is damage.
#[cfg(feature = "zstd")]
pub(super) fn decompressed(path: &Path, file: File) -> Result<File, ReadError> {
    use std::io::{self, BufRead, BufReader, BufWriter, Seek as _, SeekFrom};

    use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

    let damaged = |number: u64, problem: &dyn std::fmt::Display| {
        ReadError::unusable(path, format!("is damaged in frame {number} of zstd: {problem}"))
    };
    let another_frame = |source: &mut BufReader<File>| -> io::Result<bool> {
        let mut last = 0;
        loop {
            let bytes = source.fill_buf()?;
            if bytes.is_empty() {
                return Ok(false);
            }
            for &byte in bytes {
                last = last >> 8 | u32::from(byte) << 24;
                if last == MAGIC {
                    return Ok(true);
                }
            }
            let read = bytes.len();
            source.consume(read);
        }
    };
    let mut source = BufReader::new(file);
    let target = tempfile::tempfile().map_err(ReadError::io(path))?;
    let mut target = BufWriter::new(target);
    let mut decoder = FrameDecoder::new();
    for number in 1.. {
        let start = source.stream_position().map_err(ReadError::io(path))?;
        if source.fill_buf().map_err(ReadError::io(path))?.is_empty() {
            break;
        }
        let decoded = StreamingDecoder::new_with_decoder(&mut source, &mut decoder)
            .map_err(io::Error::other)
            .and_then(|mut frame| io::copy(&mut frame, &mut target));
        if let Err(error) = decoded {
            let is_cut = (|| {
                if !source.fill_buf()?.is_empty() {
                    return Ok(false);
                }
                source.seek(SeekFrom::Start(start + 1))?;
                another_frame(&mut source).map(|follows| !follows)
            })()
            .map_err(ReadError::io(path))?;
            if is_cut {
                break;
            }
            return Err(damaged(number, &error));
        }
        let stored = decoder.get_checksum_from_data();
        if stored.is_some() && stored != decoder.get_calculated_checksum() {
            return Err(damaged(number, &"the checksum differs"));
        }
    }
    let mut file = target.into_inner().map_err(|error| ReadError::io(path)(error.into_error()))?;
    file.rewind().map_err(ReadError::io(path))?;
    Ok(file)
}

#[cfg(not(feature = "zstd"))]
pub(super) fn decompressed(path: &Path, _: File) -> Result<File, ReadError> {
    let problem = "is compressed: build `samebits-ledger` with its feature `zstd` to read it";
    Err(ReadError::unusable(path, problem))
}
