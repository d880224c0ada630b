//! Floating-point arithmetic.

use super::{cursor::Mods, operand::Decoder};
use crate::{
    Error,
    op::{ApproxOp, FloatMode, FloatOp, Op, Round, S32, S64, Src, Test, Ty},
};

pub(crate) const ROUNDS: [(&str, Round); 4] =
    [("rn", Round::Nearest), ("rz", Round::Zero), ("rm", Round::Down), ("rp", Round::Up)];

impl<'a> Decoder<'_, 'a> {
    /// Parses instructions whose type, the last modifier, is a floating-point one.
    pub(crate) fn float(&mut self, mods: &mut Mods<'a>) -> Result<Option<Op>, Error> {
        let op = match mods.name() {
            "add" => self.rounded(mods, FloatOp::Add, 3)?,
            "sub" => self.rounded(mods, FloatOp::Sub, 3)?,
            "mul" => self.rounded(mods, FloatOp::Mul, 3)?,
            "fma" | "mad" => {
                let round = mods.need("a rounding mode", &ROUNDS)?;
                let mode = self.mode(mods, round, true);
                let ty = self.wide_float(mods, mode)?;
                self.arity(mods, 4)?;
                match ty {
                    Ty::F32 => {
                        let d = self.dst32(0, 32)?;
                        Op::Fma32(mode, d, self.f32(1)?, self.f32(2)?, self.f32(3)?)
                    }
                    _ => {
                        let d = self.dst64(0)?;
                        Op::Fma64(mode, d, self.f64(1)?, self.f64(2)?, self.f64(3)?)
                    }
                }
            }
            "div" => match mods.table(&[("approx", ()), ("full", ())]) {
                Some(()) => self.approx(mods, ApproxOp::Div)?,
                None => self.exact(mods, FloatOp::Div, 3)?,
            },
            "rcp" => match mods.opt("approx") {
                true => self.approx(mods, ApproxOp::Rcp)?,
                false => self.exact(mods, FloatOp::Rcp, 2)?,
            },
            "sqrt" => match mods.opt("approx") {
                true => self.approx(mods, ApproxOp::Sqrt)?,
                false => self.exact(mods, FloatOp::Sqrt, 2)?,
            },
            "rsqrt" => self.approximate(mods, ApproxOp::Rsqrt)?,
            "sin" => self.approximate(mods, ApproxOp::Sin)?,
            "cos" => self.approximate(mods, ApproxOp::Cos)?,
            "lg2" => self.approximate(mods, ApproxOp::Lg2)?,
            "ex2" => self.approximate(mods, ApproxOp::Ex2)?,
            "tanh" => self.approximate(mods, ApproxOp::Tanh)?,
            "min" | "max" => {
                let ftz = mods.opt("ftz");
                let nan = mods.opt("NaN");
                let op = match (mods.name(), nan) {
                    ("min", false) => FloatOp::Min,
                    ("min", true) => FloatOp::MinNan,
                    (_, false) => FloatOp::Max,
                    (_, true) => FloatOp::MaxNan,
                };
                self.plain(mods, op, ftz, 3)?
            }
            "abs" => {
                let ftz = mods.opt("ftz");
                self.plain(mods, FloatOp::Abs, ftz, 2)?
            }
            "neg" => {
                let ftz = mods.opt("ftz");
                self.plain(mods, FloatOp::Neg, ftz, 2)?
            }
            "copysign" => self.plain(mods, FloatOp::CopySign, false, 3)?,
            "testp" => {
                let test = mods.need(
                    "a class",
                    &[
                        ("finite", Test::Finite),
                        ("infinite", Test::Infinite),
                        ("number", Test::Number),
                        ("notanumber", Test::NotANumber),
                        ("normal", Test::Normal),
                        ("subnormal", Test::Subnormal),
                    ],
                )?;
                let ty = mods.ty_of(&[Ty::F32, Ty::F64])?;
                self.arity(mods, 2)?;
                let operand = self.op(1)?;
                let a = self.src(operand, ty.bits(), false, true)?;
                Op::Testp { test, a, p: self.dst_pred(0)? }
            }
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    pub(crate) fn f32(&mut self, at: usize) -> Result<S32, Error> {
        match self.src(self.op(at)?, 32, false, true)? {
            Src::S32(src) => Ok(src),
            Src::S64(_) => Err(self.error("a 64-bit operand where 32 bits are needed")),
        }
    }

    pub(crate) fn f64(&mut self, at: usize) -> Result<S64, Error> {
        match self.src(self.op(at)?, 64, false, true)? {
            Src::S64(src) => Ok(src),
            Src::S32(_) => Err(self.error("a 32-bit operand where 64 bits are needed")),
        }
    }

    /// Records that this function is approximate.
    pub(crate) fn mark(&mut self, mods: &Mods<'a>) {
        let first = &mut self.body.function.approximate;
        first.get_or_insert_with(|| (mods.line, mods.full.to_owned()));
    }

    fn mode(&mut self, mods: &mut Mods<'a>, round: Round, saturates: bool) -> FloatMode {
        let ftz = mods.opt("ftz");
        if ftz {
            self.mark(mods);
        }
        FloatMode { round, ftz, sat: saturates && mods.opt("sat") }
    }

    /// Parses `f32` or `f64`; the latter has no flushing and no saturation.
    fn wide_float(&self, mods: &mut Mods<'a>, mode: FloatMode) -> Result<Ty, Error> {
        match mods.ty_of(&[Ty::F32, Ty::F64])? {
            Ty::F64 if mode.ftz || mode.sat => Err(mods.error("type does not fit the modifiers")),
            ty => Ok(ty),
        }
    }

    fn float_op(
        &mut self,
        mods: &mut Mods<'a>,
        op: FloatOp,
        mode: FloatMode,
        arity: usize,
    ) -> Result<Op, Error> {
        let ty = self.wide_float(mods, mode)?;
        self.arity(mods, arity)?;
        let second = arity - 1;
        Ok(match ty {
            Ty::F32 => Op::F32(op, mode, self.dst32(0, 32)?, self.f32(1)?, self.f32(second)?),
            _ => Op::F64(op, mode, self.dst64(0)?, self.f64(1)?, self.f64(second)?),
        })
    }

    /// Parses addition and multiplication, which round to nearest by default.
    fn rounded(&mut self, mods: &mut Mods<'a>, op: FloatOp, arity: usize) -> Result<Op, Error> {
        let round = mods.table(&ROUNDS).unwrap_or(Round::Nearest);
        let mode = self.mode(mods, round, true);
        self.float_op(mods, op, mode, arity)
    }

    fn exact(&mut self, mods: &mut Mods<'a>, op: FloatOp, arity: usize) -> Result<Op, Error> {
        let round = mods.need("a rounding mode", &ROUNDS)?;
        let mode = self.mode(mods, round, false);
        self.float_op(mods, op, mode, arity)
    }

    fn plain(
        &mut self,
        mods: &mut Mods<'a>,
        op: FloatOp,
        ftz: bool,
        arity: usize,
    ) -> Result<Op, Error> {
        if ftz {
            self.mark(mods);
        }
        self.float_op(mods, op, FloatMode { ftz, ..FloatMode::IEEE }, arity)
    }

    fn approximate(&mut self, mods: &mut Mods<'a>, op: ApproxOp) -> Result<Op, Error> {
        if !mods.opt("approx") {
            return Err(mods.error(".approx is missing"));
        }
        self.approx(mods, op)
    }

    fn approx(&mut self, mods: &mut Mods<'a>, op: ApproxOp) -> Result<Op, Error> {
        self.mark(mods);
        let ftz = mods.opt("ftz");
        let ty = mods.ty_of(&[Ty::F32, Ty::F64])?;
        self.arity(mods, if op == ApproxOp::Div { 3 } else { 2 })?;
        if ty == Ty::F32 {
            let d = self.dst32(0, 32)?;
            let a = self.f32(1)?;
            let b = if op == ApproxOp::Div { self.f32(2)? } else { a };
            return Ok(Op::Approx32 { op, ftz, d, a, b });
        }
        // The double-precision forms work on the upper half: `rcp.approx.ftz.f64`.
        if !matches!(op, ApproxOp::Rcp | ApproxOp::Rsqrt) {
            return Err(mods.error("type does not fit"));
        }
        Ok(Op::Approx64 { op, d: self.dst64(0)?, a: self.f64(1)? })
    }
}
