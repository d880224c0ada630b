//! Header of every saved state: a mark, the generator's kind, the format's version and a checksum.
//!
//! | bytes | content |
//! |---|---|
//! | 0..2 | the mark `b"sb"` |
//! | 2 | the generator's kind |
//! | 3 | the format's version, 1 |
//! | 4..8 | CRC-32 (IEEE 802.3) of bytes 0..4 followed by bytes 8.., little-endian |
//! | 8.. | the generator's fields, little-endian |

use crate::Error;

const MARK: [u8; 2] = *b"sb";
const VERSION: u8 = 1;
pub(crate) const HEADER: usize = 8;

/// Kind of generator to which a state belongs. A number is never reused.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Kind {
    Philox4x32 = 1,
    Pcg64 = 2,
    Pcg64Dxsm = 3,
    Philox4x64 = 4,
}

/// Fills the header of `state`, whose fields start at [`HEADER`].
pub(crate) fn seal(kind: Kind, state: &mut [u8]) {
    state[..2].copy_from_slice(&MARK);
    state[2] = kind as u8;
    state[3] = VERSION;
    let checksum = checksum(state);
    state[4..HEADER].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the fields of `state` if it is a valid state of `kind` with `length` bytes in total.
pub(crate) fn open<'a>(
    op: &'static str,
    kind: Kind,
    length: usize,
    state: &'a [u8],
) -> Result<&'a [u8], Error> {
    // Check the mark before the length, so that a foreign file is reported as foreign.
    if state.len() >= 2 && state[..2] != MARK {
        return Err(Error::ForeignState { op, expected: MARK, found: [state[0], state[1]] });
    }
    if state.len() >= HEADER && state[2] != kind as u8 {
        return Err(Error::StateKind { op, expected: kind as u8, found: state[2] });
    }
    if state.len() >= HEADER && state[3] != VERSION {
        return Err(Error::StateVersion { op, expected: VERSION, found: state[3] });
    }
    if state.len() != length {
        return Err(Error::StateLength { op, expected: length, found: state.len() });
    }
    let (expected, found) = (checksum(state), u32_at(state, 4));
    if expected != found {
        return Err(Error::StateChecksum { op, expected, found });
    }
    Ok(&state[HEADER..])
}

/// Reads the little-endian word that starts at byte `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Reads the little-endian word that starts at byte `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Reads the little-endian number that starts at byte `at`.
pub(crate) fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from(u64_at(bytes, at)) | u128::from(u64_at(bytes, at + 8)) << 64
}

fn checksum(state: &[u8]) -> u32 {
    let crc = state[..4].iter().fold(!0, crc32_step);
    !state[HEADER..].iter().fold(crc, crc32_step)
}

/// Updates the reflected CRC-32 with polynomial 0x04c11db7 by one byte. States are short and rarely
/// saved, so a table would not pay off.
fn crc32_step(crc: u32, byte: &u8) -> u32 {
    (0..8)
        .fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb88320 & (crc & 1).wrapping_neg()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32() {
        assert_eq!(!b"123456789".iter().fold(!0, crc32_step), 0xcbf43926);
    }
}
