//! Comparisons, selections, moves and conversions.

use super::{
    cursor::Mods,
    float::ROUNDS,
    operand::{Decoder, Operand},
};
use crate::{
    Error,
    op::{Cmp, Combine, Convert, Dst, MemSpace, Op, P, PredOp, Round, S32, SP, Special, Src, Ty},
};

const COMBINES: [(&str, Combine); 3] =
    [("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)];

impl<'a> Decoder<'_, 'a> {
    pub(crate) fn convert(&mut self, mods: &mut Mods<'a>) -> Result<Option<Op>, Error> {
        let op = match mods.name() {
            "setp" => self.setp(mods)?,
            "set" => self.set(mods)?,
            "selp" => {
                let ty = mods.ty()?;
                self.arity(mods, 4)?;
                let float = ty.is_float();
                let p = self.src_pred(3)?;
                let [a, b] = [self.src_at(1, ty.bits(), float)?, self.src_at(2, ty.bits(), float)?];
                match (a, b) {
                    (Src::S32(a), Src::S32(b)) => {
                        Op::Selp32 { d: self.dst32(0, ty.bits())?, a, b, p }
                    }
                    (Src::S64(a), Src::S64(b)) => Op::Selp64 { d: self.dst64(0)?, a, b, p },
                    _ => return Err(mods.error("operands differ in width")),
                }
            }
            "slct" => {
                let ftz = mods.opt("ftz");
                let ty = mods.ty()?;
                let by = mods.ty_of(&[Ty::S32, Ty::F32])?;
                if ftz {
                    self.mark(mods);
                }
                self.arity(mods, 4)?;
                let d = self.dst(self.op(0)?, ty.bits(), false)?;
                let float = ty.is_float();
                let [a, b] = [self.src_at(1, ty.bits(), float)?, self.src_at(2, ty.bits(), float)?];
                Op::Slct { d, a, b, c: self.src32(3, 32)?, float: by == Ty::F32 }
            }
            "and" | "or" | "xor" | "not" => {
                mods.ty_of(&[Ty::Pred])?;
                let (op, arity) = match mods.name() {
                    "and" => (PredOp::And, 3),
                    "or" => (PredOp::Or, 3),
                    "xor" => (PredOp::Xor, 3),
                    _ => (PredOp::Not, 2),
                };
                self.arity(mods, arity)?;
                let p = self.dst_pred(0)?;
                Op::Pred(op, p, self.src_pred(1)?, self.src_pred(arity - 1)?)
            }
            "mov" => self.mov(mods)?,
            "cvt" => self.cvt(mods)?,
            "cvta" => {
                let to = mods.opt("to");
                let space = mods.need(
                    "a state space",
                    &[
                        ("global", MemSpace::Global),
                        ("shared", MemSpace::Shared),
                        ("shared::cta", MemSpace::Shared),
                        ("local", MemSpace::Local),
                        ("const", MemSpace::Const),
                        ("param", MemSpace::EntryParam),
                    ],
                )?;
                mods.ty_of(&[Ty::U64])?;
                self.arity(mods, 2)?;
                let d = self.dst(self.op(0)?, 64, false)?;
                match self.local(self.op(1)?) {
                    // The address of a local variable depends on the activation.
                    Some(_) => return Err(mods.error("take the variable's address by mov first")),
                    None => Op::Cvta { space, to, d, a: self.src_at(1, 64, false)? },
                }
            }
            "isspacep" => {
                let space = mods.need(
                    "a state space",
                    &[
                        ("global", MemSpace::Global),
                        ("shared", MemSpace::Shared),
                        ("shared::cta", MemSpace::Shared),
                        ("local", MemSpace::Local),
                        ("const", MemSpace::Const),
                        ("param", MemSpace::EntryParam),
                    ],
                )?;
                self.arity(mods, 2)?;
                Op::IsSpace { space, p: self.dst_pred(0)?, a: self.src_at(1, 64, false)? }
            }
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    pub(crate) fn src_at(&mut self, at: usize, bits: u32, float: bool) -> Result<Src, Error> {
        let operand = self.op(at)?;
        self.src(operand, bits, false, float)
    }

    /// Parses a comparison, and its combination with a predicate operand.
    fn compare(&mut self, mods: &mut Mods<'a>) -> Result<(Cmp, Option<Combine>, bool), Error> {
        let cmp = mods.need(
            "a comparison",
            &[
                ("eq", Cmp::Eq),
                ("ne", Cmp::Ne),
                ("lt", Cmp::Lt),
                ("le", Cmp::Le),
                ("gt", Cmp::Gt),
                ("ge", Cmp::Ge),
                ("lo", Cmp::Lt),
                ("ls", Cmp::Le),
                ("hi", Cmp::Gt),
                ("hs", Cmp::Ge),
                ("equ", Cmp::Equ),
                ("neu", Cmp::Neu),
                ("ltu", Cmp::Ltu),
                ("leu", Cmp::Leu),
                ("gtu", Cmp::Gtu),
                ("geu", Cmp::Geu),
                ("num", Cmp::Num),
                ("nan", Cmp::Nan),
            ],
        )?;
        let combine = mods.table(&COMBINES);
        let ftz = mods.opt("ftz");
        if ftz {
            self.mark(mods);
        }
        Ok((cmp, combine, ftz))
    }

    fn comparable(&self, mods: &Mods<'a>, ty: Ty, cmp: Cmp) -> Result<(), Error> {
        let unordered = !matches!(cmp, Cmp::Eq | Cmp::Ne | Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge);
        let fits = match ty {
            Ty::F32 | Ty::F64 => true,
            Ty::B16 | Ty::B32 | Ty::B64 => matches!(cmp, Cmp::Eq | Cmp::Ne),
            Ty::U16 | Ty::U32 | Ty::U64 | Ty::S16 | Ty::S32 | Ty::S64 => !unordered,
            _ => false,
        };
        if fits { Ok(()) } else { Err(mods.error("type does not fit the comparison")) }
    }

    fn setp(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let (cmp, combine, ftz) = self.compare(mods)?;
        let ty = mods.ty()?;
        self.comparable(mods, ty, cmp)?;
        self.arity(mods, if combine.is_some() { 4 } else { 3 })?;
        let (p, q) = self.dst_preds(0)?;
        let [a, b] =
            [self.src_at(1, ty.bits(), ty.is_float())?, self.src_at(2, ty.bits(), ty.is_float())?];
        let with = match combine {
            Some(combine) => Some((combine, self.src_pred(3)?)),
            None => None,
        };
        Ok(Op::Setp { ty, cmp, ftz, a, b, with, p, q })
    }

    /// Parses `p` or `p|q`, either of which may be `_`.
    pub(crate) fn dst_preds(&self, at: usize) -> Result<(Option<P>, Option<P>), Error> {
        match self.op(at)? {
            Operand::Word(p) => Ok((self.pred(p)?, None)),
            Operand::Pair(p, q) => Ok((self.pred(p)?, self.pred(q)?)),
            _ => Err(self.error("expected a predicate")),
        }
    }

    fn set(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let (cmp, combine, ftz) = self.compare(mods)?;
        let to = mods.ty_of(&[Ty::U32, Ty::S32, Ty::F32])?;
        let ty = mods.ty()?;
        self.comparable(mods, ty, cmp)?;
        self.arity(mods, if combine.is_some() { 4 } else { 3 })?;
        let [a, b] =
            [self.src_at(1, ty.bits(), ty.is_float())?, self.src_at(2, ty.bits(), ty.is_float())?];
        let with = match combine {
            Some(combine) => Some((combine, self.src_pred(3)?)),
            None => None,
        };
        let d = self.dst32(0, 32)?;
        Ok(Op::Set { ty, cmp, ftz, a, b, with, d, float: to == Ty::F32 })
    }

    fn mov(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let ty = mods.ty()?;
        self.arity(mods, 2)?;
        if ty == Ty::Pred {
            let p = self.dst_pred(0)?;
            let a = self.src_pred(1)?;
            return Ok(Op::Pred(PredOp::Mov, p, a, SP::Const(false)));
        }
        let bits = ty.bits();
        let (to, from) = (self.op(0)?, self.op(1)?);
        if let Operand::Vector(parts) = to {
            return self.unpack(mods, parts, from, bits);
        }
        if let Operand::Vector(parts) = from {
            return self.pack(mods, to, parts, bits);
        }
        if let Some(offset) = self.local(from) {
            return Ok(Op::MovLocal { d: self.dst(to, bits, false)?, offset });
        }
        if let Operand::Word(name) = from
            && let Some(special) = self.special(name)
        {
            let wanted = if is_wide(special) { 64 } else { 32 };
            // 16-bit moves of special registers are relics of PTX 1.
            if bits != wanted {
                return Err(mods.error(format!("{name} has {wanted} bits")));
            }
            return Ok(Op::MovSpecial(self.dst(to, bits, false)?, special));
        }
        let d = self.dst(to, bits, false)?;
        // Both `mov.b32 %r, 0f..` and `mov.f32` of a bit pattern occur.
        let a = self.src(from, bits, false, false)?;
        Ok(match (d, a) {
            (Dst::R32(d), Src::S32(a)) => Op::Mov32(d, a),
            (Dst::R64(d), Src::S64(a)) => Op::Mov64(d, a),
            _ => return Err(mods.error("operands differ in width")),
        })
    }

    fn pack(
        &mut self,
        mods: &Mods<'a>,
        to: &Operand<'a>,
        parts: &[Operand<'a>],
        bits: u32,
    ) -> Result<Op, Error> {
        let width = part_width(mods, parts.len(), bits)?;
        let d = self.dst(to, bits, false)?;
        let zero = Src::S32(S32::Const(self.pools.c32(0)));
        let mut packed = [zero; 4];
        for (slot, part) in packed.iter_mut().zip(parts) {
            *slot = self.src(part, width, false, false)?;
        }
        Ok(Op::Pack { d, parts: packed, count: parts.len() as u8, bits: width as u8 })
    }

    fn unpack(
        &mut self,
        mods: &Mods<'a>,
        parts: &[Operand<'a>],
        from: &Operand<'a>,
        bits: u32,
    ) -> Result<Op, Error> {
        let width = part_width(mods, parts.len(), bits)?;
        let mut d = [Dst::None; 4];
        for (slot, part) in d.iter_mut().zip(parts) {
            *slot = self.dst(part, width, false)?;
        }
        let a = self.src(from, bits, false, false)?;
        Ok(Op::Unpack { d, count: parts.len() as u8, bits: width as u8, a })
    }

    fn special(&self, name: &str) -> Option<Special> {
        let axis = |name: &str| match name {
            "x" => Some(0),
            "y" => Some(1),
            "z" => Some(2),
            _ => None,
        };
        if let Some((register, suffix)) = name.rsplit_once('.') {
            let axis = axis(suffix)?;
            return match register {
                "%tid" => Some(Special::Tid(axis)),
                "%ntid" => Some(Special::Ntid(axis)),
                "%ctaid" => Some(Special::Ctaid(axis)),
                "%nctaid" => Some(Special::Nctaid(axis)),
                _ => None,
            };
        }
        Some(match name {
            "%laneid" => Special::LaneId,
            "%warpid" => Special::WarpId,
            "%nwarpid" => Special::WarpCount,
            "%smid" => Special::SmId,
            "%nsmid" => Special::SmCount,
            "%gridid" => Special::GridId,
            "%lanemask_eq" => Special::LaneMask(Cmp::Eq),
            "%lanemask_lt" => Special::LaneMask(Cmp::Lt),
            "%lanemask_le" => Special::LaneMask(Cmp::Le),
            "%lanemask_gt" => Special::LaneMask(Cmp::Gt),
            "%lanemask_ge" => Special::LaneMask(Cmp::Ge),
            "%clock" | "%clock_lo" => Special::Clock,
            "%clock_hi" => Special::ClockHigh,
            "%clock64" => Special::Clock64,
            "%globaltimer" => Special::GlobalTimer,
            "%dynamic_smem_size" => Special::DynamicShared,
            "%total_smem_size" => Special::TotalShared,
            _ => return None,
        })
    }

    fn cvt(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let integer = mods.table(&[
            ("rni", Round::Nearest),
            ("rzi", Round::Zero),
            ("rmi", Round::Down),
            ("rpi", Round::Up),
        ]);
        let round = mods.table(&ROUNDS);
        let ftz = mods.opt("ftz");
        let sat = mods.opt("sat");
        let to = mods.ty()?;
        let from = mods.ty()?;
        if ftz {
            self.mark(mods);
        }
        let bad = |why: &str| Err(mods.error(why));
        for ty in [to, from] {
            if !(ty.is_integer() || ty.is_float()) {
                return bad("type does not fit");
            }
        }
        let narrowing = to.is_float()
            && (from.is_integer() || to.bits() < from.bits() || (to != from && to.bits() == 16));
        match (to.is_float(), from.is_float()) {
            (false, true) if integer.is_none() || round.is_some() => {
                return bad("needs one integer rounding mode (.rni, .rzi, .rmi or .rpi)");
            }
            (false, false) if integer.is_some() || round.is_some() => {
                return bad("an integer conversion does not round");
            }
            (true, _) if narrowing && (round.is_none() || integer.is_some()) => {
                return bad("needs one rounding mode (.rn, .rz, .rm or .rp)");
            }
            (true, _) if !narrowing && round.is_some() => {
                return bad("this conversion is exact and does not round");
            }
            (true, false) if integer.is_some() => {
                return bad("an integer source needs .rn, .rz, .rm or .rp");
            }
            (true, true) if integer.is_some() && to != from => {
                return bad("integer rounding is within one type");
            }
            _ => {}
        }
        // Before PTX 7.8, bf16 has conversions to and from f32 only.
        if (to == Ty::BF16 && from != Ty::F32) || (from == Ty::BF16 && to != Ty::F32) {
            return bad("type does not fit");
        }
        self.arity(mods, 2)?;
        let d = self.dst(self.op(0)?, to.bits(), true)?;
        let operand = self.op(1)?;
        let a = self.src(operand, from.bits(), true, from.is_float())?;
        let round = round.unwrap_or(Round::Nearest);
        Ok(Op::Cvt(Convert { to, from, round, integer, ftz, sat }, d, a))
    }
}

fn is_wide(special: Special) -> bool {
    matches!(special, Special::Clock64 | Special::GlobalTimer | Special::GridId)
}

fn part_width(mods: &Mods<'_>, parts: usize, bits: u32) -> Result<u32, Error> {
    match parts {
        2 | 4 if bits / parts as u32 >= 8 => Ok(bits / parts as u32),
        _ => Err(mods.error("the parts do not add up to the type")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_stay_small() {
        // The interpreter copies operands very often, so they must be small.
        assert_eq!(size_of::<S32>(), 8);
    }
}
