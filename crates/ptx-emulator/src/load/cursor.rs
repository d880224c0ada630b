//! A position in the token list, and the modifiers of a mnemonic.

use super::lex::{Kind, Token};
use crate::{Error, op::Ty};

/// A cursor over tokens.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(tokens: Vec<Token<'a>>) -> Cursor<'a> {
        Cursor { tokens, at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at).map(|token| token.kind)
    }

    pub(crate) fn peek_at(&self, ahead: usize) -> Option<Kind<'a>> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    /// Returns the line of the next token, or of the last one at the end.
    pub(crate) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    pub(crate) fn next(&mut self) -> Result<Kind<'a>, Error> {
        let kind = self.peek().ok_or_else(|| self.error("unexpected end of the text"))?;
        self.at += 1;
        Ok(kind)
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::load(self.line(), message)
    }

    /// Consumes `punct` if it comes next.
    pub(crate) fn eat(&mut self, punct: char) -> bool {
        let found = self.peek() == Some(Kind::Punct(punct));
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, punct: char) -> Result<(), Error> {
        if self.eat(punct) { Ok(()) } else { Err(self.unexpected(&format!("expected {punct:?}"))) }
    }

    /// Consumes the directive `name` if it comes next.
    pub(crate) fn eat_directive(&mut self, name: &str) -> bool {
        let found = self.peek() == Some(Kind::Directive(name));
        self.at += usize::from(found);
        found
    }

    pub(crate) fn word(&mut self) -> Result<&'a str, Error> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected("expected a name")),
        }
    }

    pub(crate) fn directive(&mut self) -> Result<&'a str, Error> {
        match self.peek() {
            Some(Kind::Directive(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("expected a directive")),
        }
    }

    /// Parses an integer; negative ones are two's complement.
    pub(crate) fn int(&mut self) -> Result<u64, Error> {
        let negative = self.eat('-');
        match self.peek() {
            Some(Kind::Int(value)) => {
                self.at += 1;
                Ok(if negative { value.wrapping_neg() } else { value })
            }
            _ => Err(self.unexpected("expected an integer")),
        }
    }

    /// Parses a type directive.
    pub(crate) fn ty(&mut self) -> Result<Ty, Error> {
        let line = self.line();
        let name = self.directive()?;
        Ty::parse(name).ok_or_else(|| Error::load(line, format!("unknown type .{name}")))
    }

    pub(crate) fn unexpected(&self, wanted: &str) -> Error {
        let found = match self.peek() {
            None => "the end of the text".to_owned(),
            Some(Kind::Word(word)) => format!("{word:?}"),
            Some(Kind::Directive(name)) => format!(".{name}"),
            Some(Kind::Int(value)) => value.to_string(),
            Some(Kind::F32(_) | Kind::F64(_)) => "a number".to_owned(),
            Some(Kind::Text) => "a string".to_owned(),
            Some(Kind::Punct(punct)) => format!("{punct:?}"),
        };
        self.error(format!("{wanted}, found {found}"))
    }

    /// Skips the remaining tokens on `line`.
    pub(crate) fn skip_line(&mut self, line: u32) {
        while self.tokens.get(self.at).is_some_and(|token| token.line == line) {
            self.at += 1;
        }
    }

    /// Skips a pair of braces and everything inside.
    pub(crate) fn skip_braces(&mut self) -> Result<(), Error> {
        self.expect('{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Kind::Punct('{') => depth += 1,
                Kind::Punct('}') => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The parts of a mnemonic such as `ld.global.nc.v2.f32`, consumed from left to right.
#[derive(Debug)]
pub(crate) struct Mods<'a> {
    pub(crate) full: &'a str,
    pub(crate) line: u32,
    parts: Vec<&'a str>,
    at: usize,
}

impl<'a> Mods<'a> {
    pub(crate) fn new(full: &'a str, line: u32) -> Mods<'a> {
        Mods { full, line, parts: full.split('.').collect(), at: 1 }
    }

    /// Returns the instruction's name, without modifiers.
    pub(crate) fn name(&self) -> &'a str {
        self.parts[0]
    }

    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.parts.get(self.at).copied()
    }

    /// Consumes the modifier `name` if it comes next.
    pub(crate) fn opt(&mut self, name: &str) -> bool {
        let found = self.peek() == Some(name);
        self.at += usize::from(found);
        found
    }

    /// Consumes the next modifier if the table contains it.
    pub(crate) fn table<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let next = self.peek()?;
        let value = table.iter().find(|(name, _)| *name == next)?.1;
        self.at += 1;
        Some(value)
    }

    /// Consumes the next modifier, which the table must contain.
    pub(crate) fn need<T: Copy>(&mut self, what: &str, table: &[(&str, T)]) -> Result<T, Error> {
        match self.table(table) {
            Some(value) => Ok(value),
            None => Err(self.error(match self.peek() {
                Some(found) => format!("modifier .{found} is not {what}"),
                None => format!("{what} is missing"),
            })),
        }
    }

    pub(crate) fn ty(&mut self) -> Result<Ty, Error> {
        let ty = self.peek().and_then(Ty::parse);
        self.at += usize::from(ty.is_some());
        ty.ok_or_else(|| {
            self.error(match self.peek() {
                Some(found) => format!("unknown modifier or type .{found}"),
                None => "the type is missing".to_owned(),
            })
        })
    }

    /// Parses a type that must be one of `allowed`.
    pub(crate) fn ty_of(&mut self, allowed: &[Ty]) -> Result<Ty, Error> {
        let ty = self.ty()?;
        if allowed.contains(&ty) { Ok(ty) } else { Err(self.error("type does not fit")) }
    }

    /// Returns an error if a modifier remains.
    pub(crate) fn done(&self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(left) => Err(self.error(format!("unknown modifier .{left}"))),
        }
    }

    pub(crate) fn error(&self, message: impl AsRef<str>) -> Error {
        Error::load(self.line, format!("{}: {}", self.full, message.as_ref()))
    }
}
