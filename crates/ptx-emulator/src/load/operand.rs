//! Operands, as written and as decoded.

use super::{
    Global, Pools,
    body::{Body, Name, Reg},
    cursor::{Cursor, Mods},
    lex::Kind,
};
use crate::{
    Error,
    module::Symbol,
    op::{Address, Base, Dst, P, R32, R64, S32, S64, SP, Src, Ty},
};
use std::collections::BTreeMap;

/// An operand as written.
#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    Word(&'a str),
    /// A negated predicate, `!%p`.
    Not(&'a str),
    /// A name plus an offset, `name+8`.
    Sum(&'a str, i64),
    /// An integer in two's complement; the flag is set if a sign was written.
    Int(u64),
    F32(u32),
    F64(u64),
    /// A pair of registers, `%r1|%p1`.
    Pair(&'a str, &'a str),
    /// A vector, `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// An address, `[base+offset]`; without a base it is the offset alone.
    Address(Option<&'a str>, i64),
    /// The parameters of a call, `(a, b)`.
    Group(Vec<Operand<'a>>),
}

/// Parses operands up to the semicolon.
pub(crate) fn operands<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Operand<'a>>, Error> {
    let mut list = Vec::new();
    if cursor.peek() == Some(Kind::Punct(';')) {
        return Ok(list);
    }
    loop {
        list.push(operand(cursor)?);
        if !cursor.eat(',') {
            return Ok(list);
        }
    }
}

fn operand<'a>(cursor: &mut Cursor<'a>) -> Result<Operand<'a>, Error> {
    if cursor.eat('{') {
        return Ok(Operand::Vector(list(cursor, '}')?));
    }
    if cursor.eat('(') {
        return Ok(Operand::Group(list(cursor, ')')?));
    }
    if cursor.eat('[') {
        let base = match cursor.peek() {
            Some(Kind::Word(_)) => Some(cursor.word()?),
            _ => None,
        };
        let mut offset = 0i64;
        if base.is_none() || matches!(cursor.peek(), Some(Kind::Punct('+' | '-'))) {
            cursor.eat('+');
            offset = cursor.int()? as i64;
        }
        cursor.expect(']')?;
        return Ok(Operand::Address(base, offset));
    }
    scalar(cursor)
}

fn list<'a>(cursor: &mut Cursor<'a>, close: char) -> Result<Vec<Operand<'a>>, Error> {
    let mut list = Vec::new();
    if cursor.eat(close) {
        return Ok(list);
    }
    loop {
        list.push(scalar(cursor)?);
        if cursor.eat(close) {
            return Ok(list);
        }
        cursor.expect(',')?;
    }
}

fn scalar<'a>(cursor: &mut Cursor<'a>) -> Result<Operand<'a>, Error> {
    if cursor.eat('!') {
        return Ok(Operand::Not(cursor.word()?));
    }
    if cursor.eat('-') {
        return Ok(match cursor.next()? {
            Kind::Int(value) => Operand::Int(value.wrapping_neg()),
            Kind::F64(bits) => Operand::F64((-f64::from_bits(bits)).to_bits()),
            _ => return Err(cursor.error("expected a number after '-'")),
        });
    }
    match cursor.peek() {
        Some(Kind::Int(value)) => {
            cursor.next()?;
            Ok(Operand::Int(value))
        }
        Some(Kind::F32(bits)) => {
            cursor.next()?;
            Ok(Operand::F32(bits))
        }
        Some(Kind::F64(bits)) => {
            cursor.next()?;
            Ok(Operand::F64(bits))
        }
        Some(Kind::Word(word)) => {
            cursor.next()?;
            if cursor.eat('|') {
                return Ok(Operand::Pair(word, cursor.word()?));
            }
            if matches!(cursor.peek(), Some(Kind::Punct('+' | '-'))) {
                cursor.eat('+');
                return Ok(Operand::Sum(word, cursor.int()? as i64));
            }
            Ok(Operand::Word(word))
        }
        _ => Err(cursor.unexpected("expected an operand")),
    }
}

/// A decoder of the operands of one instruction.
#[derive(Debug)]
pub(crate) struct Decoder<'s, 'a> {
    pub(crate) body: &'s mut Body<'a>,
    pub(crate) pools: &'s mut Pools,
    pub(crate) globals: &'s BTreeMap<&'a str, Global>,
    pub(crate) operands: &'s [Operand<'a>],
    pub(crate) line: u32,
}

impl<'s, 'a> Decoder<'s, 'a> {
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::load(self.line, message)
    }

    /// Returns an error unless there are exactly `count` operands.
    pub(crate) fn arity(&self, mods: &Mods<'_>, count: usize) -> Result<(), Error> {
        if self.operands.len() == count {
            Ok(())
        } else {
            let found = self.operands.len();
            Err(mods.error(format!("expected {count} operands, found {found}")))
        }
    }

    pub(crate) fn op(&self, at: usize) -> Result<&'s Operand<'a>, Error> {
        self.operands.get(at).ok_or_else(|| self.error(format!("operand {} is missing", at + 1)))
    }

    pub(crate) fn reg(&self, name: &str) -> Result<Reg, Error> {
        match self.body.find(name) {
            Some(Name::Reg(reg)) => Ok(reg),
            _ => {
                // `%v.x` is an element of a vector register.
                if let Some((vector, element)) = name.rsplit_once('.')
                    && let Some(Name::Vector(regs)) = self.body.find(vector)
                    && let Some(at) = ["x", "y", "z", "w"].iter().position(|&e| e == element)
                    && let Some(&reg) = regs.get(at)
                {
                    return Ok(reg);
                }
                Err(self.error(format!("{name} is not a register")))
            }
        }
    }

    fn sized(&self, name: &str, bits: u32, wider: bool) -> Result<Reg, Error> {
        let reg = self.reg(name)?;
        let found = reg.ty.bits();
        if reg.ty != Ty::Pred && (found == bits || (wider && found > bits)) {
            Ok(reg)
        } else {
            Err(self.error(format!("register {name} has {found} bits where {bits} are needed")))
        }
    }

    /// Decodes a destination. With `wider`, the register may be wider than the type, as in loads
    /// and conversions.
    pub(crate) fn dst(&self, operand: &Operand<'a>, bits: u32, wider: bool) -> Result<Dst, Error> {
        let Operand::Word(name) = operand else {
            return Err(self.error("expected a destination register"));
        };
        if *name == "_" {
            return Ok(Dst::None);
        }
        let reg = self.sized(name, bits, wider)?;
        Ok(match reg.ty.bits() {
            64 => Dst::R64(R64(reg.index)),
            _ => Dst::R32(R32(reg.index)),
        })
    }

    pub(crate) fn dst32(&self, at: usize, bits: u32) -> Result<R32, Error> {
        match self.dst(self.op(at)?, bits, false)? {
            Dst::R32(reg) => Ok(reg),
            _ => Err(self.error("expected a destination register")),
        }
    }

    pub(crate) fn dst64(&self, at: usize) -> Result<R64, Error> {
        match self.dst(self.op(at)?, 64, false)? {
            Dst::R64(reg) => Ok(reg),
            _ => Err(self.error("expected a destination register")),
        }
    }

    pub(crate) fn pred(&self, name: &str) -> Result<Option<P>, Error> {
        if name == "_" {
            return Ok(None);
        }
        match self.reg(name)? {
            Reg { ty: Ty::Pred, index } => Ok(Some(P(index))),
            _ => Err(self.error(format!("{name} is not a predicate"))),
        }
    }

    pub(crate) fn dst_pred(&self, at: usize) -> Result<P, Error> {
        match self.op(at)? {
            Operand::Word(name) => {
                self.pred(name)?.ok_or_else(|| self.error("expected a predicate"))
            }
            _ => Err(self.error("expected a predicate")),
        }
    }

    pub(crate) fn src_pred(&self, at: usize) -> Result<SP, Error> {
        let (name, negated) = match self.op(at)? {
            Operand::Word(name) => (name, false),
            Operand::Not(name) => (name, true),
            Operand::Int(value) => return Ok(SP::Const(*value != 0)),
            _ => return Err(self.error("expected a predicate")),
        };
        match self.pred(name)? {
            Some(P(index)) => Ok(SP::Reg { index, negated }),
            None => Err(self.error("expected a predicate")),
        }
    }

    /// Decodes a source of up to 32 bits.
    pub(crate) fn src32(&mut self, at: usize, bits: u32) -> Result<S32, Error> {
        match self.src(self.op(at)?, bits, false, false)? {
            Src::S32(src) => Ok(src),
            Src::S64(_) => Err(self.error("a 64-bit operand where 32 bits are needed")),
        }
    }

    pub(crate) fn src64(&mut self, at: usize) -> Result<S64, Error> {
        match self.src(self.op(at)?, 64, false, false)? {
            Src::S64(src) => Ok(src),
            Src::S32(_) => Err(self.error("a 32-bit operand where 64 bits are needed")),
        }
    }

    /// Decodes a source of either width. With `float`, an integer immediate is an error.
    pub(crate) fn src(
        &mut self,
        operand: &Operand<'a>,
        bits: u32,
        wider: bool,
        float: bool,
    ) -> Result<Src, Error> {
        let value = match operand {
            Operand::Word("WARP_SZ") => 32,
            Operand::Word(name) => match self.sized(name, bits, wider) {
                Ok(reg) if reg.ty.bits() == 64 => return Ok(Src::S64(S64::Reg(reg.index))),
                Ok(reg) => return Ok(Src::S32(S32::Reg(reg.index))),
                Err(error) => match self.symbol(name, 0)? {
                    Some(symbol) => return self.fit(symbol, bits),
                    None => return Err(error),
                },
            },
            Operand::Sum(name, addend) => match self.symbol(name, *addend)? {
                Some(symbol) => return self.fit(symbol, bits),
                None => return Err(self.error(format!("{name} is not a variable"))),
            },
            Operand::Int(_) if float => {
                return Err(self.error("an integer where a floating-point number is needed"));
            }
            Operand::Int(value) => *value,
            Operand::F32(value) if bits == 32 => u64::from(*value),
            Operand::F64(value) if bits == 64 => *value,
            Operand::F64(value) if bits == 32 && float => {
                u64::from((f64::from_bits(*value) as f32).to_bits())
            }
            _ => return Err(self.error("expected a register or an immediate of the right type")),
        };
        Ok(if bits == 64 {
            Src::S64(S64::Const(self.pools.c64(value)))
        } else {
            let kept = if bits == 32 { value as u32 } else { value as u32 & ((1 << bits) - 1) };
            Src::S32(S32::Const(self.pools.c32(kept)))
        })
    }

    /// Decodes a constant that is an address, if `bits` allow it.
    fn fit(&mut self, symbol: Src, bits: u32) -> Result<Src, Error> {
        match (symbol, bits) {
            (Src::S64(_), 64) => Ok(symbol),
            (Src::S64(S64::Const(constant)), 32) => {
                let value = self.pools.c64[constant as usize];
                let relocated = self.pools.relocations.iter().any(|r| r.constant == constant);
                match u32::try_from(value) {
                    Ok(value) if !relocated => Ok(Src::S32(S32::Const(self.pools.c32(value)))),
                    _ => Err(self.error("a 64-bit address in a 32-bit operand")),
                }
            }
            _ => Err(self.error("an address does not fit the operand")),
        }
    }

    /// Returns the address of a variable, in its own state space, as a constant.
    fn symbol(&mut self, name: &str, addend: i64) -> Result<Option<Src>, Error> {
        let constant = match self.body.find(name) {
            Some(Name::Shared(address)) => self.pools.c64(address.wrapping_add_signed(addend)),
            Some(Name::EntryParam(param)) => {
                self.pools.c64(u64::from(param.offset).wrapping_add_signed(addend))
            }
            Some(_) => return Ok(None),
            None => match self.globals.get(name) {
                Some(&Global::Shared(address)) => {
                    self.pools.c64(address.wrapping_add_signed(addend))
                }
                Some(&Global::Variable(index)) => {
                    self.pools.address(Symbol::Variable(index), addend)
                }
                Some(&Global::Function(index)) => {
                    self.body.function.calls.push(index);
                    self.pools.address(Symbol::Function(index), addend)
                }
                None => return Ok(None),
            },
        };
        Ok(Some(Src::S64(S64::Const(constant))))
    }

    /// Returns the offset of a local variable.
    pub(crate) fn local(&self, operand: &Operand<'a>) -> Option<u64> {
        let (name, addend) = match operand {
            Operand::Word(name) => (name, 0),
            Operand::Sum(name, addend) => (name, *addend),
            _ => return None,
        };
        match self.body.find(name) {
            Some(Name::Local(offset)) => Some(u64::from(offset).wrapping_add_signed(addend)),
            _ => None,
        }
    }

    /// Decodes a memory address. If its base is a frame parameter, returns that too.
    pub(crate) fn address(&mut self, at: usize) -> Result<(Address, Option<Name<'a>>), Error> {
        let Operand::Address(base, offset) = *self.op(at)? else {
            return Err(self.error("expected an address in brackets"));
        };
        let Some(name) = base else {
            let constant = self.pools.c64(offset as u64);
            return Ok((Address { base: Base::Const(constant), offset: 0 }, None));
        };
        let found = self.body.find(name);
        let base = match found {
            Some(Name::Reg(reg)) => match reg.ty.bits() {
                64 => Base::Reg64(reg.index),
                32 => Base::Reg32(reg.index),
                _ => return Err(self.error(format!("register {name} cannot hold an address"))),
            },
            Some(Name::Local(start)) => {
                let offset = offset + i64::from(start);
                return Ok((Address { base: Base::LocalFrame, offset }, found));
            }
            Some(Name::FrameParam(param)) => {
                let constant = self.pools.c64(u64::from(param.offset));
                return Ok((Address { base: Base::Const(constant), offset }, found));
            }
            _ => match self.symbol(name, offset)? {
                Some(Src::S64(S64::Const(constant))) => {
                    return Ok((Address { base: Base::Const(constant), offset: 0 }, found));
                }
                _ => return Err(self.error(format!("{name} is neither a register nor a variable"))),
            },
        };
        Ok((Address { base, offset }, found))
    }
}
