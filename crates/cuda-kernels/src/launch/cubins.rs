//! Machine code of the kernels, packed by the build script: a driver that runs it need not compile the
//! PTX at first use.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

/// The packs, by the compute capability that they need: they run on devices of the same major number and
/// no lower minor one.
static PACKS: [((i32, i32), &[u8]); 3] = [
    ((8, 0), include_bytes!(concat!(env!("OUT_DIR"), "/sm_80.pack"))),
    ((9, 0), include_bytes!(concat!(env!("OUT_DIR"), "/sm_90.pack"))),
    ((10, 0), include_bytes!(concat!(env!("OUT_DIR"), "/sm_100.pack"))),
];

/// Returns the machine code of a family for a device of this compute capability, if the pack has it.
pub(super) fn find(family: &str, capability: (i32, i32)) -> Option<Vec<u8>> {
    let fits =
        |(wanted, _): &&((i32, i32), &[u8])| wanted.0 == capability.0 && wanted.1 <= capability.1;
    let (_, pack) = PACKS.iter().find(fits)?;
    let mut code = Vec::new();
    StreamingDecoder::new(compressed(pack, family)?).ok()?.read_to_end(&mut code).ok()?;
    Some(code)
}

/// Returns the compressed code of a family.
fn compressed<'a>(mut pack: &'a [u8], family: &str) -> Option<&'a [u8]> {
    while !pack.is_empty() {
        let (name, rest) = part(pack)?;
        let (code, rest) = part(rest)?;
        if name == family.as_bytes() {
            return Some(code);
        }
        pack = rest;
    }
    None
}

/// Splits off bytes whose number stands before them.
fn part(pack: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = pack.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_are_searched_by_name() {
        let pack = b"\x01\0\0\0a\x02\0\0\0xy\x02\0\0\0bc\0\0\0\0\x01\0\0\0d\x01\0\0\0z";
        let found = ["a", "bc", "d", "b", ""].map(|name| compressed(pack, name));
        assert_eq!(found, [Some(&b"xy"[..]), Some(b""), Some(b"z"), None, None]);
        // A damaged pack has nothing.
        assert_eq!(compressed(&pack[..pack.len() - 1], "d"), None);
    }

    #[test]
    fn a_capability_has_the_code_of_its_major_number() {
        assert_eq!(find("optim", (7, 0)), None);
        assert_eq!(find("no_family", (9, 0)), None);
        for capability in [(8, 0), (8, 9), (9, 0), (10, 0), (10, 3)] {
            // Packs are empty unless `cargo xtask build-kernels --cubins` has run.
            assert!(find("optim", capability).is_none_or(|code| code.starts_with(b"\x7fELF")));
        }
    }
}
