//! Text as tokens.

use std::path::Path;

use super::{Result, Site};

const LOAD: &str = "Tokenizer::load";

/// A map between text and tokens.
///
/// By default a token is a byte. With the feature `tokenizers`, [`load`](Tokenizer::load) reads those of
/// the crate of this name.
///
/// # Examples
///
/// ```
/// use samebits::io::Tokenizer;
///
/// let tokenizer = Tokenizer::bytes();
/// let tokens = tokenizer.encode("Hi")?;
/// assert_eq!((&tokens[..], tokenizer.vocabulary()), (&[72, 105][..], 256));
/// assert_eq!(tokenizer.decode(&tokens)?, b"Hi");
/// # Ok::<(), samebits::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Bytes,
    #[cfg(feature = "tokenizers")]
    Json(Box<tokenizers::Tokenizer>),
}

impl Tokenizer {
    /// Returns the tokenizer of which each byte is a token.
    #[must_use]
    pub fn bytes() -> Tokenizer {
        Tokenizer(Kind::Bytes)
    }

    /// Reads a `tokenizer.json`, as the Python libraries `tokenizers` and `transformers` write it.
    ///
    /// # Errors
    ///
    /// [`Error::Read`](super::Error::Read), or [`Error::Content`](super::Error::Content) if the file is
    /// damaged, or the feature `tokenizers` is off.
    pub fn load(path: impl AsRef<Path>) -> Result<Tokenizer> {
        let path = path.as_ref();
        let site = Site { op: LOAD, path };
        let bytes = std::fs::read(path).map_err(site.read())?;
        parsed(&bytes).map_err(|message| site.content("the tokenizer", message))
    }

    /// Returns the number of tokens, which are smaller than this.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        match &self.0 {
            Kind::Bytes => 256,
            #[cfg(feature = "tokenizers")]
            Kind::Json(tokenizer) => {
                // Numbers may have gaps.
                let tokens = tokenizer.get_vocab(true);
                tokens.values().max().map_or(0, |&last| last as usize + 1)
            }
        }
    }

    /// Returns the tokens of a text, without those that a tokenizer adds at the start or the end.
    ///
    /// # Errors
    ///
    /// The tokenizer has no token for a part of the text.
    pub fn encode(&self, text: &str) -> crate::Result<Vec<i64>> {
        match &self.0 {
            Kind::Bytes => Ok(text.bytes().map(i64::from).collect()),
            #[cfg(feature = "tokenizers")]
            Kind::Json(tokenizer) => {
                let found = tokenizer.encode(text, false).map_err(refused("encode"))?;
                Ok(found.get_ids().iter().map(|&token| i64::from(token)).collect())
            }
        }
    }

    /// Returns the text of tokens. A byte or a part of a character alone need not be UTF-8.
    ///
    /// # Errors
    ///
    /// A token is not smaller than [`vocabulary`](Tokenizer::vocabulary).
    pub fn decode(&self, tokens: &[i64]) -> crate::Result<Vec<u8>> {
        let size = self.vocabulary();
        if let Some(token) = tokens.iter().find(|&&token| token < 0 || token as usize >= size) {
            let message = format!("expected tokens below {size}, got {token}");
            return Err(crate::Error::invalid("Tokenizer::decode", message));
        }
        match &self.0 {
            Kind::Bytes => Ok(tokens.iter().map(|&token| token as u8).collect()),
            #[cfg(feature = "tokenizers")]
            Kind::Json(tokenizer) => {
                let tokens: Vec<u32> = tokens.iter().map(|&token| token as u32).collect();
                Ok(tokenizer.decode(&tokens, false).map_err(refused("decode"))?.into_bytes())
            }
        }
    }
}

#[cfg(feature = "tokenizers")]
fn refused(what: &'static str) -> impl Fn(tokenizers::Error) -> crate::Error {
    move |error| {
        let op = if what == "encode" { "Tokenizer::encode" } else { "Tokenizer::decode" };
        crate::Error::invalid(op, error.to_string())
    }
}

#[cfg(feature = "tokenizers")]
fn parsed(bytes: &[u8]) -> Result<Tokenizer, String> {
    let tokenizer = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())?;
    Ok(Tokenizer(Kind::Json(Box::new(tokenizer))))
}

#[cfg(not(feature = "tokenizers"))]
fn parsed(_: &[u8]) -> Result<Tokenizer, String> {
    Err("expected a program with the feature `tokenizers`, got one without".to_owned())
}
