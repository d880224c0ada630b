//! Damage to valid files.

use super::Draw;

/// Texts that replace numbers.
const NUMBERS: [&str; 16] = [
    "0",
    "-0",
    "-1",
    "1e999",
    "-1e999",
    "1e-999",
    "NaN",
    "255",
    "256",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
];

/// Lengths and sizes that replace integers in files.
const WORDS: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    i64::MIN as u64,
    u64::MAX,
];

/// Returns one of the samples, usually damaged, and sometimes only noise.
pub(super) fn damaged(draw: &mut Draw, samples: &[Vec<u8>]) -> Vec<u8> {
    if draw.chance(30) {
        let length = draw.below(300);
        return (0..length).map(|_| draw.word() as u8).collect();
    }
    let mut bytes = draw.pick(samples);
    for _ in 0..draw.pick(&[0, 1, 1, 1, 2, 3, 8]) {
        damage(draw, &mut bytes, samples);
    }
    bytes
}

/// Returns damaged text; bytes that are not UTF-8 are replaced.
pub(super) fn damaged_text(draw: &mut Draw, samples: &[Vec<u8>]) -> String {
    let mut bytes = damaged(draw, samples);
    for _ in 0..draw.below(3) {
        damage_lines(draw, &mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn damage(draw: &mut Draw, bytes: &mut Vec<u8>, samples: &[Vec<u8>]) {
    if bytes.is_empty() {
        bytes.push(draw.word() as u8);
        return;
    }
    let at = draw.below(bytes.len());
    let end = (at + draw.pick(&[1, 1, 2, 4, 8, 40])).min(bytes.len());
    match draw.below(9) {
        0 => bytes[at] ^= 1 << draw.below(8),
        1 => bytes[at] = draw.word() as u8,
        2 => {
            let new: Vec<u8> = (at..end).map(|_| draw.word() as u8).collect();
            bytes.splice(at..at, new);
        }
        3 => drop(bytes.drain(at..end)),
        4 => {
            let copy = bytes[at..end].to_vec();
            let to = draw.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        5 => bytes.truncate(at),
        6 => {
            let other = draw.pick(samples);
            let from = draw.below(other.len() + 1);
            bytes.splice(at.., other[from..].iter().copied());
        }
        7 => {
            let word = draw.pick(&WORDS);
            let width = draw.pick(&[1, 2, 4, 8]).min(bytes.len() - at);
            let (little, big) = (word.to_le_bytes(), word.to_be_bytes());
            let new = if draw.flag() { &little[..width] } else { &big[8 - width..] };
            bytes[at..at + width].copy_from_slice(new);
        }
        _ => replace_number(draw, bytes, at),
    }
}

/// Replaces the first decimal number from `at` on.
fn replace_number(draw: &mut Draw, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit) else { return };
    let start = at + start;
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(start..start + length, draw.pick(&NUMBERS).bytes());
}

/// Removes, repeats or moves a line, or replaces a word of the text with another.
fn damage_lines(draw: &mut Draw, bytes: &mut Vec<u8>) {
    if draw.flag() {
        let words = words(bytes);
        if let [_, ..] = words[..] {
            let (from, to) = (draw.pick(&words), draw.pick(&words));
            let word = bytes[from].to_vec();
            bytes.splice(to, word);
        }
        return;
    }
    let mut lines: Vec<Vec<u8>> = bytes.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let (a, b) = (draw.below(lines.len()), draw.below(lines.len()));
    match draw.below(3) {
        0 => drop(lines.remove(a)),
        1 => lines.insert(b, lines[a].clone()),
        _ => lines.swap(a, b),
    }
    *bytes = lines.join(&b'\n');
}

/// Returns the ranges of a text's words.
fn words(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let in_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_%$.".contains(&byte);
    let mut words = Vec::new();
    let mut start = None;
    for (at, &byte) in bytes.iter().chain([&b' ']).enumerate() {
        match (start, in_word(byte)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    words
}
