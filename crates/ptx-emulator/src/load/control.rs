//! Branches, calls, barriers and exchanges between lanes.

use super::{
    Global,
    body::Name,
    cursor::Mods,
    operand::{Decoder, Operand},
};
use crate::{
    Error,
    op::{BarRed, Barrier, Call, CallTarget, Dst, IntOp, Op, R32, ShflMode, Src, Ty, VoteMode},
};

impl<'a> Decoder<'_, 'a> {
    pub(crate) fn control(&mut self, mods: &mut Mods<'a>) -> Result<Option<Op>, Error> {
        let op = match mods.name() {
            "bra" => {
                mods.opt("uni");
                self.arity(mods, 1)?;
                let Operand::Word(label) = *self.op(0)? else {
                    return Err(mods.error("expected a label"));
                };
                self.body.branch(vec![label], mods.line);
                Op::Bra { target: 0 }
            }
            "brx" => {
                if !mods.opt("idx") {
                    return Err(mods.error(".idx is missing"));
                }
                mods.opt("uni");
                self.arity(mods, 2)?;
                let index = self.src32(0, 32)?;
                let targets = match self.op(1)? {
                    Operand::Word(name) => match self.body.find(name) {
                        Some(Name::Targets(targets)) => targets,
                        _ => return Err(mods.error("expected a list of branch targets")),
                    },
                    _ => return Err(mods.error("expected a list of branch targets")),
                };
                self.body.branch(targets, mods.line);
                Op::BrxIdx { index, targets: Box::default() }
            }
            "call" => self.call(mods)?,
            "ret" => {
                mods.opt("uni");
                self.arity(mods, 0)?;
                Op::Ret
            }
            "exit" => {
                self.arity(mods, 0)?;
                Op::Exit
            }
            "trap" => {
                self.arity(mods, 0)?;
                Op::Trap
            }
            "brkpt" | "pmevent" => return Ok(None),
            "bar" | "barrier" => self.barrier(mods)?,
            "membar" => {
                mods.need("a level", &[("cta", ()), ("gl", ()), ("sys", ())])?;
                self.arity(mods, 0)?;
                Op::Nop
            }
            "fence" => {
                mods.table(&[("sc", ()), ("acq_rel", ())]);
                let scopes = [("cta", ()), ("gpu", ()), ("sys", ()), ("cluster", ())];
                mods.need("a scope", &scopes)?;
                self.arity(mods, 0)?;
                Op::Nop
            }
            "nanosleep" => {
                mods.ty_of(&[Ty::U32])?;
                self.arity(mods, 1)?;
                self.src32(0, 32)?;
                Op::Nop
            }
            "activemask" => {
                mods.ty_of(&[Ty::B32])?;
                self.arity(mods, 1)?;
                Op::ActiveMask(self.dst32(0, 32)?)
            }
            "shfl" => self.shfl(mods)?,
            "vote" => self.vote(mods)?,
            "match" => self.matches(mods)?,
            "redux" => self.redux(mods)?,
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    fn sync(&self, mods: &mut Mods<'a>) -> Result<(), Error> {
        if mods.opt("sync") {
            Ok(())
        } else {
            Err(mods.error(".sync is missing: unsynchronised forms do not exist since sm_70"))
        }
    }

    fn barrier(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        if mods.name() == "bar" && mods.opt("warp") {
            self.sync(mods)?;
            self.arity(mods, 1)?;
            return Ok(Op::WarpSync(self.src32(0, 32)?));
        }
        mods.opt("cta");
        let kind = mods.need("a barrier operation", &[("sync", 0), ("arrive", 1), ("red", 2)])?;
        let mut aligned = mods.name() == "bar";
        let red = match kind {
            2 => {
                let red = mods.need(
                    "a reduction",
                    &[("popc", BarRed::Popc), ("and", BarRed::And), ("or", BarRed::Or)],
                )?;
                aligned |= mods.opt("aligned");
                mods.ty_of(match red {
                    BarRed::Popc => &[Ty::U32],
                    _ => &[Ty::Pred],
                })?;
                Some(red)
            }
            _ => {
                aligned |= mods.opt("aligned");
                None
            }
        };
        let first = usize::from(red.is_some());
        let given = self.operands.len();
        // Destination, barrier, optional thread count, and the predicate of a reduction.
        let fixed = 1 + 2 * first;
        if given != fixed && given != fixed + 1 {
            return Err(mods.error(format!("unexpected number of operands: {given}")));
        }
        let counted = given == fixed + 1;
        if kind == 1 && !counted {
            return Err(mods.error("arrive needs a thread count"));
        }
        let id = self.src32(first, 32)?;
        let count = if counted { Some(self.src32(first + 1, 32)?) } else { None };
        let red = match red {
            Some(red) => Some((red, self.src_pred(given - 1)?)),
            None => None,
        };
        let (mut pred, mut dst) = (None, None);
        match red {
            Some((BarRed::Popc, _)) => dst = Some(self.dst32(0, 32)?),
            Some(_) => pred = Some(self.dst_pred(0)?),
            None => {}
        }
        Ok(Op::Bar(Barrier { id, count, arrive: kind == 1, aligned, red, pred, dst }))
    }

    /// Parses `d` or `d|p`.
    fn dst_and_pred(&self, at: usize) -> Result<(R32, Option<crate::op::P>), Error> {
        let (d, p) = match self.op(at)? {
            Operand::Word(d) => (*d, None),
            Operand::Pair(d, p) => (*d, self.pred(p)?),
            _ => return Err(self.error("expected a destination register")),
        };
        match self.dst(&Operand::Word(d), 32, false)? {
            Dst::R32(d) => Ok((d, p)),
            _ => Err(self.error("expected a destination register")),
        }
    }

    fn shfl(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        self.sync(mods)?;
        let mode = mods.need(
            "a mode",
            &[
                ("up", ShflMode::Up),
                ("down", ShflMode::Down),
                ("bfly", ShflMode::Bfly),
                ("idx", ShflMode::Idx),
            ],
        )?;
        mods.ty_of(&[Ty::B32])?;
        self.arity(mods, 5)?;
        let (d, p) = self.dst_and_pred(0)?;
        let [a, b] = [self.src32(1, 32)?, self.src32(2, 32)?];
        Ok(Op::Shfl { mode, d, p, a, b, c: self.src32(3, 32)?, mask: self.src32(4, 32)? })
    }

    fn vote(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        self.sync(mods)?;
        let mode = mods.need(
            "a mode",
            &[
                ("all", VoteMode::All),
                ("any", VoteMode::Any),
                ("uni", VoteMode::Uni),
                ("ballot", VoteMode::Ballot),
            ],
        )?;
        self.arity(mods, 3)?;
        let (a, mask) = (self.src_pred(1)?, self.src32(2, 32)?);
        Ok(if mode == VoteMode::Ballot {
            mods.ty_of(&[Ty::B32])?;
            Op::Vote { mode, p: None, d: Some(self.dst32(0, 32)?), a, mask }
        } else {
            mods.ty_of(&[Ty::Pred])?;
            Op::Vote { mode, p: Some(self.dst_pred(0)?), d: None, a, mask }
        })
    }

    fn matches(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let all = mods.need("a mode", &[("any", false), ("all", true)])?;
        self.sync(mods)?;
        let ty = mods.ty_of(&[Ty::B32, Ty::B64])?;
        self.arity(mods, 3)?;
        let (d, p) = self.dst_and_pred(0)?;
        if p.is_some() && !all {
            return Err(mods.error("match.any has no predicate"));
        }
        Ok(Op::Match { all, d, p, a: self.src_at(1, ty.bits(), false)?, mask: self.src32(2, 32)? })
    }

    fn redux(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        self.sync(mods)?;
        let name = mods.need(
            "an operation",
            &[("add", 0), ("min", 1), ("max", 2), ("and", 3), ("or", 4), ("xor", 5)],
        )?;
        let ty = mods.ty_of(match name {
            0..=2 => &[Ty::U32, Ty::S32],
            _ => &[Ty::B32],
        })?;
        let op = match (name, ty.is_signed()) {
            (0, _) => IntOp::Add,
            (1, true) => IntOp::MinS,
            (1, false) => IntOp::MinU,
            (2, true) => IntOp::MaxS,
            (2, false) => IntOp::MaxU,
            (3, _) => IntOp::And,
            (4, _) => IntOp::Or,
            _ => IntOp::Xor,
        };
        self.arity(mods, 3)?;
        let d = self.dst32(0, 32)?;
        Ok(Op::Redux { op, d, a: self.src32(1, 32)?, mask: self.src32(2, 32)? })
    }

    fn call(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        mods.opt("uni");
        // (rets), target, (args), prototype: all are optional except the target.
        let mut at = 0;
        let mut rets: &[Operand<'a>] = &[];
        let mut args: &[Operand<'a>] = &[];
        let operands = self.operands;
        if let Some(Operand::Group(list)) = operands.first() {
            rets = list;
            at = 1;
        }
        let Some(Operand::Word(name)) = operands.get(at) else {
            return Err(mods.error("expected a function"));
        };
        if let Some(Operand::Group(list)) = operands.get(at + 1) {
            args = list;
            at += 1;
        }
        let left = &operands[at + 1..];
        let (args, rets) = (self.call_params(args)?, self.call_params(rets)?);
        let known = self.body.find(name).is_none().then(|| self.globals.get(name)).flatten();
        let target = match known {
            Some(&Global::Function(index)) => {
                if !left.is_empty() {
                    return Err(mods.error("too many operands"));
                }
                self.body.function.calls.push(index);
                CallTarget::Direct(index)
            }
            Some(_) => return Err(mods.error(format!("{name} is not a function"))),
            None if self.body.find(name).is_none() => {
                return Err(mods.error(format!("{name} is neither a function nor a register")));
            }
            None => {
                match left {
                    [Operand::Word(proto)]
                        if matches!(
                            self.body.find(proto),
                            Some(Name::Prototype | Name::Targets(_))
                        ) => {}
                    _ => return Err(mods.error("an indirect call needs a prototype")),
                }
                self.body.function.calls_indirectly = true;
                match self.src(&Operand::Word(name), 64, false, false)? {
                    Src::S64(pointer) => CallTarget::Indirect(pointer),
                    Src::S32(_) => return Err(mods.error("a function pointer has 64 bits")),
                }
            }
        };
        Ok(Op::Call(Box::new(Call { target, args, rets })))
    }

    /// Returns the offsets and lengths of a call's parameters in the caller's frame.
    fn call_params(&self, list: &[Operand<'a>]) -> Result<Vec<(u32, u32)>, Error> {
        list.iter()
            .map(|operand| match operand {
                Operand::Word(name) => match self.body.find(name) {
                    Some(Name::FrameParam(param)) => Ok((param.offset, param.size)),
                    _ => Err(self.error(format!("{name} is not a parameter variable"))),
                },
                _ => Err(self.error("expected a parameter variable")),
            })
            .collect()
    }
}
