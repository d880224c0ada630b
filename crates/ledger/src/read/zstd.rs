//! Compressed ledgers: zstd frames one after the other.

use std::fs::File;
use std::path::Path;

use super::ReadError;

/// Whether a file that begins with `bytes` is compressed.
pub(super) fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// The contents in a file without a name. A last frame that is not whole ends them, as an interrupted
/// run leaves it.
#[cfg(feature = "zstd")]
pub(super) fn decompressed(path: &Path, file: File) -> Result<File, ReadError> {
    use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _};

    use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

    let damaged = |number: u64, problem: &dyn std::fmt::Display| {
        ReadError::unusable(path, format!("is damaged in frame {number} of zstd: {problem}"))
    };
    let mut source = BufReader::new(file);
    let target = tempfile::tempfile().map_err(ReadError::io(path))?;
    let mut target = BufWriter::new(target);
    let mut decoder = FrameDecoder::new();
    for number in 1.. {
        if source.fill_buf().map_err(ReadError::io(path))?.is_empty() {
            break;
        }
        let decoded = StreamingDecoder::new_with_decoder(&mut source, &mut decoder)
            .map_err(io::Error::other)
            .and_then(|mut frame| io::copy(&mut frame, &mut target));
        if let Err(error) = decoded {
            let is_cut = source.fill_buf().map_err(ReadError::io(path))?.is_empty();
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
