//! The lexer: splits PTX text into tokens.

use crate::Error;

/// One token and the line it starts on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) line: u32,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind<'a> {
    /// An identifier, register or mnemonic, with its dots: `%tid.x`, `ld.global.f32`.
    Word(&'a str),
    /// A directive or type, without its dot: `reg`, `u64`.
    Directive(&'a str),
    /// An integer literal.
    Int(u64),
    /// A single-precision literal, as its bits.
    F32(u32),
    /// A double-precision literal, as its bits.
    F64(u64),
    /// A string literal; its value is not needed.
    Text,
    /// A single punctuation character.
    Punct(char),
}

/// Splits `source` into tokens, without comments and white space.
///
/// # Errors
///
/// [`Error::Load`] for a character or literal that PTX does not have.
pub(crate) fn lex(source: &str) -> Result<Vec<Token<'_>>, Error> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'\n' => {
                line += 1;
                at += 1;
            }
            b' ' | b'\t' | b'\r' | 0x0c => at += 1,
            // PTX is passed to the driver with a terminating zero; anything after that is not PTX.
            0 => break,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let opened = line;
                at += 2;
                while at < bytes.len() && !bytes[at..].starts_with(b"*/") {
                    line += u32::from(bytes[at] == b'\n');
                    at += 1;
                }
                if at >= bytes.len() {
                    return Err(Error::load(opened, "comment is never closed"));
                }
                at += 2;
            }
            b'"' => {
                let opened = line;
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    line += u32::from(bytes[at] == b'\n');
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                if at >= bytes.len() {
                    return Err(Error::load(opened, "string is never closed"));
                }
                at += 1;
                tokens.push(Token { kind: Kind::Text, line: opened });
            }
            b'0'..=b'9' => {
                let end = number_end(bytes, at);
                let kind = number(&source[at..end], line)?;
                tokens.push(Token { kind, line });
                at = end;
            }
            b'.' if bytes.get(at + 1).is_some_and(|&b| is_word(b)) => {
                let end = word_end(bytes, at + 1);
                tokens.push(Token { kind: Kind::Directive(&source[at + 1..end]), line });
                at = end;
            }
            _ if is_word(byte) || byte == b'%' => {
                let end = word_end(bytes, at + 1);
                let kind = match &source[at..end] {
                    // A lone percent sign names nothing.
                    "%" => return Err(Error::load(line, "unexpected character '%'")),
                    word => Kind::Word(word),
                };
                tokens.push(Token { kind, line });
                at = end;
            }
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'<' | b'>' | b',' | b';' | b':' | b'@'
            | b'!' | b'|' | b'+' | b'-' | b'=' | b'*' => {
                tokens.push(Token { kind: Kind::Punct(char::from(byte)), line });
                at += 1;
            }
            _ => {
                let shown = source[at..].chars().next().unwrap_or('?');
                return Err(Error::load(line, format!("unexpected character {shown:?}")));
            }
        }
    }
    Ok(tokens)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// Returns the end of the word that starts before `at`. Dots and double colons belong to a word if
/// something follows them.
fn word_end(bytes: &[u8], mut at: usize) -> usize {
    let word = |i: usize| bytes.get(i).is_some_and(|&b| is_word(b));
    loop {
        if word(at) {
            at += 1;
        } else if bytes.get(at) == Some(&b'.') && word(at + 1) {
            at += 2;
        } else if bytes[at.min(bytes.len())..].starts_with(b"::") && word(at + 2) {
            at += 3;
        } else {
            return at;
        }
    }
}

/// Returns the end of the number that starts at `at`.
fn number_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at;
    let hex = matches!(bytes.get(at + 1), Some(b'x' | b'X' | b'f' | b'F' | b'd' | b'D'))
        && bytes[at] == b'0';
    while let Some(&byte) = bytes.get(end) {
        let sign = matches!(byte, b'+' | b'-')
            && !hex
            && end > at
            && matches!(bytes[end - 1], b'e' | b'E');
        if byte.is_ascii_alphanumeric() || byte == b'.' || sign {
            end += 1;
        } else {
            break;
        }
    }
    end
}

fn number(text: &str, line: u32) -> Result<Kind<'static>, Error> {
    let bad = || Error::load(line, format!("malformed number {text:?}"));
    let lower = text.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0f") {
        if digits.len() != 8 {
            return Err(bad());
        }
        return u32::from_str_radix(digits, 16).map(Kind::F32).map_err(|_| bad());
    }
    if let Some(digits) = lower.strip_prefix("0d") {
        if digits.len() != 16 {
            return Err(bad());
        }
        return u64::from_str_radix(digits, 16).map(Kind::F64).map_err(|_| bad());
    }
    let digits = lower.strip_suffix('u').unwrap_or(&lower);
    let integer = if let Some(hex) = digits.strip_prefix("0x") {
        u64::from_str_radix(hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        u64::from_str_radix(binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') && !digits.contains(['.', 'e']) {
        u64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    match integer {
        Ok(value) => Ok(Kind::Int(value)),
        // In PTX a decimal float is double precision.
        Err(_) if lower.contains(['.', 'e']) && !lower.starts_with("0x") => {
            lower.parse::<f64>().map(|x| Kind::F64(x.to_bits())).map_err(|_| bad())
        }
        Err(_) => Err(bad()),
    }
}
