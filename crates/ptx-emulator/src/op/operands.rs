//! The registers that an instruction reads and writes.

use super::{Address, Base, CallTarget, Dst, Inst, Op, P, R32, R64, S32, S64, SP, Src};

/// A register of any file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reg {
    B32(u16),
    B64(u16),
    Pred(u16),
}

/// The registers of one instruction; its guard counts as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Operands {
    pub(crate) reads: Vec<Reg>,
    pub(crate) writes: Vec<Reg>,
}

/// An operand of an instruction.
trait Operand {
    fn reg(&self) -> Option<Reg>;
}

impl Operand for S32 {
    fn reg(&self) -> Option<Reg> {
        if let S32::Reg(index) = *self { Some(Reg::B32(index)) } else { None }
    }
}

impl Operand for S64 {
    fn reg(&self) -> Option<Reg> {
        if let S64::Reg(index) = *self { Some(Reg::B64(index)) } else { None }
    }
}

impl Operand for SP {
    fn reg(&self) -> Option<Reg> {
        if let SP::Reg { index, .. } = *self { Some(Reg::Pred(index)) } else { None }
    }
}

impl Operand for Src {
    fn reg(&self) -> Option<Reg> {
        match self {
            Src::S32(source) => source.reg(),
            Src::S64(source) => source.reg(),
        }
    }
}

impl Operand for Address {
    fn reg(&self) -> Option<Reg> {
        match self.base {
            Base::Reg32(index) => Some(Reg::B32(index)),
            Base::Reg64(index) => Some(Reg::B64(index)),
            Base::Const(_) | Base::LocalFrame => None,
        }
    }
}

impl Operand for R32 {
    fn reg(&self) -> Option<Reg> {
        Some(Reg::B32(self.0))
    }
}

impl Operand for R64 {
    fn reg(&self) -> Option<Reg> {
        Some(Reg::B64(self.0))
    }
}

impl Operand for P {
    fn reg(&self) -> Option<Reg> {
        Some(Reg::Pred(self.0))
    }
}

impl Operand for Dst {
    fn reg(&self) -> Option<Reg> {
        match self {
            Dst::R32(register) => register.reg(),
            Dst::R64(register) => register.reg(),
            Dst::None => None,
        }
    }
}

impl<T: Operand> Operand for Option<T> {
    fn reg(&self) -> Option<Reg> {
        self.as_ref()?.reg()
    }
}

impl Operands {
    pub(crate) fn of(inst: &Inst) -> Operands {
        let mut found = Operands::default();
        found.reads.extend(inst.guard.map(|(index, _)| Reg::Pred(index)));
        found.collect(&inst.op);
        found
    }

    fn add(&mut self, writes: &[&dyn Operand], reads: &[&dyn Operand]) {
        self.writes.extend(writes.iter().filter_map(|operand| operand.reg()));
        self.reads.extend(reads.iter().filter_map(|operand| operand.reg()));
    }

    fn collect(&mut self, op: &Op) {
        match op {
            Op::Int16(_, d, a, b) | Op::Int32(_, d, a, b) => self.add(&[d], &[a, b]),
            Op::Shift16(_, d, a, b) | Op::Shift32(_, d, a, b) => self.add(&[d], &[a, b]),
            Op::F32(_, _, d, a, b) | Op::Approx32 { d, a, b, .. } => self.add(&[d], &[a, b]),
            Op::Int64(_, d, a, b) | Op::F64(_, _, d, a, b) => self.add(&[d], &[a, b]),
            Op::Shift64(_, d, a, b) => self.add(&[d], &[a, b]),
            Op::Ter32(_, d, a, b, c) | Op::Mad16 { d, a, b, c, .. } => self.add(&[d], &[a, b, c]),
            Op::Carry32(_, d, a, b, c) | Op::Fma32(_, d, a, b, c) => self.add(&[d], &[a, b, c]),
            Op::Mad64 { d, a, b, c, .. } | Op::Sad64 { d, a, b, c, .. } => {
                self.add(&[d], &[a, b, c]);
            }
            Op::Carry64(_, d, a, b, c) | Op::Fma64(_, d, a, b, c) => self.add(&[d], &[a, b, c]),
            Op::MadWide16 { d, a, b, c, .. } => self.add(&[d], &[a, b, c]),
            Op::MadWide32 { d, a, b, c, .. } => self.add(&[d], &[a, b, c]),
            Op::Bfe64 { d, a, b, c, .. } => self.add(&[d], &[a, b, c]),
            Op::Bfi32 { d, a, b, c, len } => self.add(&[d], &[a, b, c, len]),
            Op::Bfi64 { d, a, b, c, len } => self.add(&[d], &[a, b, c, len]),
            Op::Count32(_, d, a) | Op::Mov32(d, a) => self.add(&[d], &[a]),
            Op::Count64(_, d, a) => self.add(&[d], &[a]),
            Op::Approx64 { d, a, .. } | Op::Mov64(d, a) => self.add(&[d], &[a]),
            Op::Setp { a, b, with, p, q, .. } => {
                self.add(&[p, q], &[a, b, &with.map(|(_, p)| p)]);
            }
            Op::Set { a, b, with, d, .. } => self.add(&[d], &[a, b, &with.map(|(_, p)| p)]),
            Op::Testp { a, p, .. } | Op::IsSpace { a, p, .. } => self.add(&[p], &[a]),
            Op::Selp32 { d, a, b, p } => self.add(&[d], &[a, b, p]),
            Op::Selp64 { d, a, b, p } => self.add(&[d], &[a, b, p]),
            Op::Slct { d, a, b, c, .. } => self.add(&[d], &[a, b, c]),
            Op::Pred(_, p, a, b) => self.add(&[p], &[a, b]),
            Op::Cvt(_, d, a) | Op::Cvta { d, a, .. } => self.add(&[d], &[a]),
            Op::Pack { d, parts, count, .. } => {
                self.add(&[d], &[]);
                parts[..usize::from(*count)].iter().for_each(|part| self.add(&[], &[part]));
            }
            Op::Unpack { d, count, a, .. } => {
                self.add(&[], &[a]);
                d[..usize::from(*count)].iter().for_each(|part| self.add(&[part], &[]));
            }
            Op::MovSpecial(d, _) | Op::MovLocal { d, .. } => self.add(&[d], &[]),
            Op::Ld { mem, d } => {
                self.add(&[], &[&mem.address]);
                d[..usize::from(mem.count)].iter().for_each(|element| self.add(&[element], &[]));
            }
            Op::St { mem, s } => {
                self.add(&[], &[&mem.address]);
                s[..usize::from(mem.count)].iter().for_each(|element| self.add(&[], &[element]));
            }
            Op::Atom { address, d, b, c, .. } => self.add(&[d], &[address, b, c]),
            Op::Shfl { d, p, a, b, c, mask, .. } => self.add(&[d, p], &[a, b, c, mask]),
            Op::Vote { p, d, a, mask, .. } => self.add(&[p, d], &[a, mask]),
            Op::Match { d, p, a, mask, .. } => self.add(&[d, p], &[a, mask]),
            Op::Redux { d, a, mask, .. } => self.add(&[d], &[a, mask]),
            Op::ActiveMask(d) => self.add(&[d], &[]),
            Op::WarpSync(members) => self.add(&[], &[members]),
            Op::Bar(bar) => {
                self.add(&[&bar.pred, &bar.dst], &[&bar.id, &bar.count, &bar.red.map(|(_, p)| p)]);
            }
            Op::BrxIdx { index, .. } => self.add(&[], &[index]),
            Op::Call(call) => {
                if let CallTarget::Indirect(pointer) = call.target {
                    self.add(&[], &[&pointer]);
                }
            }
            Op::Bra { .. } | Op::Ret | Op::Exit | Op::Trap | Op::Nop => {}
        }
    }
}
