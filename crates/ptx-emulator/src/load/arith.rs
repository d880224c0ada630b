//! Integer arithmetic, logic, shifts and bit fields.

use super::{cursor::Mods, operand::Decoder};
use crate::{
    Error,
    op::{Carry, CarryOp, CountOp, IntOp, Op, PrmtMode, S32, ShiftOp, TerOp, Ty},
};

const SIGNEDNESS: [Ty; 6] = [Ty::U16, Ty::U32, Ty::U64, Ty::S16, Ty::S32, Ty::S64];
const WIDE_BITS: [Ty; 2] = [Ty::B32, Ty::B64];

impl<'a> Decoder<'_, 'a> {
    /// Parses arithmetic of every kind; floating point is in a separate file.
    pub(crate) fn arith(&mut self, mods: &mut Mods<'a>) -> Result<Option<Op>, Error> {
        let last = mods.full.rsplit('.').next().and_then(Ty::parse);
        if last.is_some_and(Ty::is_float)
            && let Some(op) = self.float(mods)?
        {
            return Ok(Some(op));
        }
        let op = match mods.name() {
            "add" => self.add_sub(mods, IntOp::Add, IntOp::AddSatS, CarryOp::Add)?,
            "sub" => self.add_sub(mods, IntOp::Sub, IntOp::SubSatS, CarryOp::Sub)?,
            "addc" => self.carry(mods, CarryOp::Add)?,
            "subc" => self.carry(mods, CarryOp::Sub)?,
            "mul" => self.mul(mods)?,
            "mad" => self.mad(mods)?,
            "madc" => self.madc(mods)?,
            "mul24" | "mad24" => return Ok(None),
            "div" => self.signed_pair(mods, IntOp::DivS, IntOp::DivU)?,
            "rem" => self.signed_pair(mods, IntOp::RemS, IntOp::RemU)?,
            "min" => self.signed_pair(mods, IntOp::MinS, IntOp::MinU)?,
            "max" => self.signed_pair(mods, IntOp::MaxS, IntOp::MaxU)?,
            "abs" => self.unary(mods, IntOp::Abs, &[Ty::S16, Ty::S32, Ty::S64])?,
            "neg" => self.unary(mods, IntOp::Neg, &[Ty::S16, Ty::S32, Ty::S64])?,
            "not" if last == Some(Ty::Pred) => return Ok(None),
            "not" => self.unary(mods, IntOp::Not, &[Ty::B16, Ty::B32, Ty::B64])?,
            "cnot" => self.unary(mods, IntOp::Cnot, &[Ty::B16, Ty::B32, Ty::B64])?,
            "brev" => self.unary(mods, IntOp::Brev, &WIDE_BITS)?,
            "and" | "or" | "xor" if last == Some(Ty::Pred) => return Ok(None),
            "and" => self.logic(mods, IntOp::And)?,
            "or" => self.logic(mods, IntOp::Or)?,
            "xor" => self.logic(mods, IntOp::Xor)?,
            "shl" => {
                let ty = mods.ty_of(&[Ty::B16, Ty::B32, Ty::B64])?;
                self.shift(mods, ShiftOp::Left, ty)?
            }
            "shr" => {
                let ty = mods.ty()?;
                if ty.is_float() || ty.bits() < 16 {
                    return Err(mods.error("type does not fit"));
                }
                let op = if ty.is_signed() { ShiftOp::RightS } else { ShiftOp::RightU };
                self.shift(mods, op, ty)?
            }
            "shf" => {
                let left = mods.need("a direction", &[("l", true), ("r", false)])?;
                let wrap = mods.need("a mode", &[("wrap", true), ("clamp", false)])?;
                mods.ty_of(&[Ty::B32])?;
                self.ter(mods, TerOp::Shf { left, wrap })?
            }
            "popc" => self.count(mods, CountOp::Popc)?,
            "clz" => self.count(mods, CountOp::Clz)?,
            "bfind" => {
                let shift = mods.opt("shiftamt");
                let ty = mods.ty_of(&[Ty::U32, Ty::U64, Ty::S32, Ty::S64])?;
                self.counted(mods, CountOp::Bfind { signed: ty.is_signed(), shift }, ty)?
            }
            "bfe" => self.bfe(mods)?,
            "bfi" => self.bfi(mods)?,
            "sad" => {
                let ty = mods.ty_of(&SIGNEDNESS)?;
                let signed = ty.is_signed();
                match ty.bits() {
                    32 => self.ter(mods, if signed { TerOp::SadS } else { TerOp::SadU })?,
                    64 => {
                        self.arity(mods, 4)?;
                        let d = self.dst64(0)?;
                        let [a, b, c] = [self.src64(1)?, self.src64(2)?, self.src64(3)?];
                        Op::Sad64 { signed, d, a, b, c }
                    }
                    _ => return Ok(None),
                }
            }
            "lop3" => {
                mods.ty_of(&[Ty::B32])?;
                self.arity(mods, 5)?;
                let table = match self.op(4)? {
                    super::operand::Operand::Int(table @ 0..=255) => *table as u8,
                    _ => return Err(mods.error("the table is not an immediate byte")),
                };
                let d = self.dst32(0, 32)?;
                let [a, b, c] = [self.src32(1, 32)?, self.src32(2, 32)?, self.src32(3, 32)?];
                Op::Ter32(TerOp::Lop3(table), d, a, b, c)
            }
            "prmt" => {
                mods.ty_of(&[Ty::B32])?;
                let modes = [
                    ("f4e", PrmtMode::F4e),
                    ("b4e", PrmtMode::B4e),
                    ("rc8", PrmtMode::Rc8),
                    ("ecl", PrmtMode::Ecl),
                    ("ecr", PrmtMode::Ecr),
                    ("rc16", PrmtMode::Rc16),
                ];
                let mode = mods.table(&modes).unwrap_or(PrmtMode::Index);
                self.ter(mods, TerOp::Prmt(mode))?
            }
            "dp4a" => {
                let [a_signed, b_signed] = self.dot_types(mods)?;
                self.ter(mods, TerOp::Dp4a { a_signed, b_signed })?
            }
            "dp2a" => {
                let high = mods.need("a half", &[("lo", false), ("hi", true)])?;
                let [a_signed, b_signed] = self.dot_types(mods)?;
                self.ter(mods, TerOp::Dp2a { a_signed, b_signed, high })?
            }
            "fns" => {
                mods.ty_of(&[Ty::B32])?;
                self.ter(mods, TerOp::Fns)?
            }
            "bmsk" => {
                let op =
                    mods.need("a mode", &[("clamp", TerOp::BmskClamp), ("wrap", TerOp::BmskWrap)])?;
                mods.ty_of(&[Ty::B32])?;
                self.arity(mods, 3)?;
                let d = self.dst32(0, 32)?;
                let [a, b] = [self.src32(1, 32)?, self.src32(2, 32)?];
                Op::Ter32(op, d, a, b, b)
            }
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    fn dot_types(&self, mods: &mut Mods<'a>) -> Result<[bool; 2], Error> {
        let a = mods.ty_of(&[Ty::U32, Ty::S32])?;
        let b = mods.ty_of(&[Ty::U32, Ty::S32])?;
        Ok([a.is_signed(), b.is_signed()])
    }

    /// Parses two operands of one integer type.
    pub(crate) fn binary(&mut self, mods: &Mods<'a>, op: IntOp, bits: u32) -> Result<Op, Error> {
        self.arity(mods, 3)?;
        Ok(match bits {
            16 => {
                let d = self.dst32(0, 16)?;
                Op::Int16(op, d, self.src32(1, 16)?, self.src32(2, 16)?)
            }
            32 => {
                let d = self.dst32(0, 32)?;
                Op::Int32(op, d, self.src32(1, 32)?, self.src32(2, 32)?)
            }
            64 => {
                let d = self.dst64(0)?;
                Op::Int64(op, d, self.src64(1)?, self.src64(2)?)
            }
            _ => return Err(mods.error("type does not fit")),
        })
    }

    fn add_sub(
        &mut self,
        mods: &mut Mods<'a>,
        op: IntOp,
        saturating: IntOp,
        carry: CarryOp,
    ) -> Result<Op, Error> {
        if mods.opt("cc") {
            let ty = mods.ty_of(&[Ty::U32, Ty::S32, Ty::U64, Ty::S64])?;
            return self.carry_op(mods, Carry { op: carry, take: false, give: true }, ty);
        }
        if mods.opt("sat") {
            mods.ty_of(&[Ty::S32])?;
            return self.binary(mods, saturating, 32);
        }
        let ty = mods.ty_of(&SIGNEDNESS)?;
        self.binary(mods, op, ty.bits())
    }

    fn carry(&mut self, mods: &mut Mods<'a>, op: CarryOp) -> Result<Op, Error> {
        let give = mods.opt("cc");
        let ty = mods.ty_of(&[Ty::U32, Ty::S32, Ty::U64, Ty::S64])?;
        self.carry_op(mods, Carry { op, take: true, give }, ty)
    }

    fn carry_op(&mut self, mods: &Mods<'a>, carry: Carry, ty: Ty) -> Result<Op, Error> {
        let three = !matches!(carry.op, CarryOp::Add | CarryOp::Sub);
        self.arity(mods, if three { 4 } else { 3 })?;
        let third = if three { 3 } else { 2 };
        Ok(if ty.bits() == 32 {
            let d = self.dst32(0, 32)?;
            let [a, b, c] = [self.src32(1, 32)?, self.src32(2, 32)?, self.src32(third, 32)?];
            Op::Carry32(carry, d, a, b, c)
        } else {
            let d = self.dst64(0)?;
            let [a, b, c] = [self.src64(1)?, self.src64(2)?, self.src64(third)?];
            Op::Carry64(carry, d, a, b, c)
        })
    }

    fn mul(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let half = mods.need("a half", &[("lo", 0), ("hi", 1), ("wide", 2)])?;
        let ty = mods.ty_of(&SIGNEDNESS)?;
        let signed = ty.is_signed();
        match (half, ty.bits()) {
            (0, bits) => self.binary(mods, IntOp::MulLo, bits),
            (1, bits) => {
                self.binary(mods, if signed { IntOp::MulHiS } else { IntOp::MulHiU }, bits)
            }
            (_, bits) => {
                self.arity(mods, 3)?;
                self.wide(mods, signed, bits)
            }
        }
    }

    fn mad(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let half = mods.need("a half", &[("lo", 0), ("hi", 1), ("wide", 2)])?;
        let give = mods.opt("cc");
        let ty = mods.ty_of(&SIGNEDNESS)?;
        let signed = ty.is_signed();
        self.arity(mods, 4)?;
        if give {
            let op = mad_carry(half, signed).ok_or_else(|| mods.error(".wide has no carry"))?;
            return self.carry_op(mods, Carry { op, take: false, give: true }, ty);
        }
        if half == 2 {
            return self.wide(mods, signed, ty.bits());
        }
        Ok(match ty.bits() {
            16 => {
                let d = self.dst32(0, 16)?;
                let [a, b, c] = [self.src32(1, 16)?, self.src32(2, 16)?, self.src32(3, 16)?];
                Op::Mad16 { high: half == 1, signed, d, a, b, c }
            }
            32 => {
                let op = match (half, signed) {
                    (0, _) => TerOp::MadLo,
                    (_, true) => TerOp::MadHiS,
                    (_, false) => TerOp::MadHiU,
                };
                self.ter(mods, op)?
            }
            _ => {
                let d = self.dst64(0)?;
                let [a, b, c] = [self.src64(1)?, self.src64(2)?, self.src64(3)?];
                Op::Mad64 { high: half == 1, signed, d, a, b, c }
            }
        })
    }

    fn madc(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let half = mods.need("a half", &[("lo", 0), ("hi", 1)])?;
        let give = mods.opt("cc");
        let ty = mods.ty_of(&[Ty::U32, Ty::S32, Ty::U64, Ty::S64])?;
        let op = mad_carry(half, ty.is_signed()).expect("both halves have a carry");
        self.carry_op(mods, Carry { op, take: true, give }, ty)
    }

    /// Parses `mul.wide` and `mad.wide`, distinguished by the number of operands.
    fn wide(&mut self, mods: &Mods<'a>, signed: bool, bits: u32) -> Result<Op, Error> {
        let adds = self.operands.len() == 4;
        Ok(match bits {
            16 => {
                let d = self.dst32(0, 32)?;
                let [a, b] = [self.src32(1, 16)?, self.src32(2, 16)?];
                let c = if adds { Some(self.src32(3, 32)?) } else { None };
                Op::MadWide16 { signed, d, a, b, c }
            }
            32 => {
                let d = self.dst64(0)?;
                let [a, b] = [self.src32(1, 32)?, self.src32(2, 32)?];
                let c = if adds { Some(self.src64(3)?) } else { None };
                Op::MadWide32 { signed, d, a, b, c }
            }
            _ => return Err(mods.error("type does not fit")),
        })
    }

    fn signed_pair(&mut self, mods: &mut Mods<'a>, s: IntOp, u: IntOp) -> Result<Op, Error> {
        let ty = mods.ty_of(&SIGNEDNESS)?;
        self.binary(mods, if ty.is_signed() { s } else { u }, ty.bits())
    }

    fn logic(&mut self, mods: &mut Mods<'a>, op: IntOp) -> Result<Op, Error> {
        let ty = mods.ty_of(&[Ty::B16, Ty::B32, Ty::B64])?;
        self.binary(mods, op, ty.bits())
    }

    fn unary(&mut self, mods: &mut Mods<'a>, op: IntOp, types: &[Ty]) -> Result<Op, Error> {
        let ty = mods.ty_of(types)?;
        self.arity(mods, 2)?;
        Ok(match ty.bits() {
            16 => {
                let a = self.src32(1, 16)?;
                Op::Int16(op, self.dst32(0, 16)?, a, a)
            }
            32 => {
                let a = self.src32(1, 32)?;
                Op::Int32(op, self.dst32(0, 32)?, a, a)
            }
            _ => {
                let a = self.src64(1)?;
                Op::Int64(op, self.dst64(0)?, a, a)
            }
        })
    }

    fn shift(&mut self, mods: &Mods<'a>, op: ShiftOp, ty: Ty) -> Result<Op, Error> {
        self.arity(mods, 3)?;
        Ok(match ty.bits() {
            16 => Op::Shift16(op, self.dst32(0, 16)?, self.src32(1, 16)?, self.src32(2, 32)?),
            32 => Op::Shift32(op, self.dst32(0, 32)?, self.src32(1, 32)?, self.src32(2, 32)?),
            _ => Op::Shift64(op, self.dst64(0)?, self.src64(1)?, self.src32(2, 32)?),
        })
    }

    pub(crate) fn ter(&mut self, mods: &Mods<'a>, op: TerOp) -> Result<Op, Error> {
        self.arity(mods, 4)?;
        let d = self.dst32(0, 32)?;
        let [a, b, c] = [self.src32(1, 32)?, self.src32(2, 32)?, self.src32(3, 32)?];
        Ok(Op::Ter32(op, d, a, b, c))
    }

    fn count(&mut self, mods: &mut Mods<'a>, op: CountOp) -> Result<Op, Error> {
        let ty = mods.ty_of(&WIDE_BITS)?;
        self.counted(mods, op, ty)
    }

    fn counted(&mut self, mods: &Mods<'a>, op: CountOp, ty: Ty) -> Result<Op, Error> {
        self.arity(mods, 2)?;
        let d = self.dst32(0, 32)?;
        Ok(match ty.bits() {
            32 => Op::Count32(op, d, self.src32(1, 32)?),
            _ => Op::Count64(op, d, self.src64(1)?),
        })
    }

    fn bfe(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let ty = mods.ty_of(&[Ty::U32, Ty::S32, Ty::U64, Ty::S64])?;
        let signed = ty.is_signed();
        if ty.bits() == 32 {
            return self.ter(mods, if signed { TerOp::BfeS } else { TerOp::BfeU });
        }
        self.arity(mods, 4)?;
        let (d, a) = (self.dst64(0)?, self.src64(1)?);
        Ok(Op::Bfe64 { signed, d, a, b: self.src32(2, 32)?, c: self.src32(3, 32)? })
    }

    fn bfi(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let ty = mods.ty_of(&WIDE_BITS)?;
        self.arity(mods, 5)?;
        let [c, len]: [S32; 2] = [self.src32(3, 32)?, self.src32(4, 32)?];
        Ok(if ty.bits() == 32 {
            let [a, b] = [self.src32(1, 32)?, self.src32(2, 32)?];
            Op::Bfi32 { d: self.dst32(0, 32)?, a, b, c, len }
        } else {
            let [a, b] = [self.src64(1)?, self.src64(2)?];
            Op::Bfi64 { d: self.dst64(0)?, a, b, c, len }
        })
    }
}

fn mad_carry(half: i32, signed: bool) -> Option<CarryOp> {
    match (half, signed) {
        (0, _) => Some(CarryOp::MadLo),
        (1, true) => Some(CarryOp::MadHiS),
        (1, false) => Some(CarryOp::MadHiU),
        _ => None,
    }
}
