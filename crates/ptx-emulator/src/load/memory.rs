//! Loads, stores and atomics.

use super::{
    body::Name,
    cursor::Mods,
    operand::{Decoder, Operand},
};
use crate::{
    Error,
    op::{AtomOp, Dst, MemOp, MemSpace, Op, S32, Src, Ty},
};

const SPACES: [(&str, MemSpace); 7] = [
    ("global", MemSpace::Global),
    ("shared", MemSpace::Shared),
    ("shared::cta", MemSpace::Shared),
    ("local", MemSpace::Local),
    ("const", MemSpace::Const),
    ("param", MemSpace::FrameParam),
    ("param::entry", MemSpace::EntryParam),
];

const SCOPES: [(&str, ()); 4] = [("cta", ()), ("gpu", ()), ("sys", ()), ("cluster", ())];

impl<'a> Decoder<'_, 'a> {
    pub(crate) fn memory(&mut self, mods: &mut Mods<'a>) -> Result<Option<Op>, Error> {
        Ok(Some(match mods.name() {
            "ld" | "ldu" => self.load(mods)?,
            "st" => self.store(mods)?,
            "atom" => self.atom(mods, true)?,
            "red" => self.atom(mods, false)?,
            "prefetch" | "prefetchu" => {
                mods.table(&[("global", ()), ("local", ())]);
                mods.need("a cache level", &[("L1", ()), ("L2", ())])?;
                self.arity(mods, 1)?;
                Op::Nop
            }
            _ => return Ok(None),
        }))
    }

    /// Parses the modifiers common to loads and stores, up to the type.
    fn access(
        &mut self,
        mods: &mut Mods<'a>,
        load: bool,
    ) -> Result<(MemSpace, bool, u8, Ty), Error> {
        let mut strong = false;
        if mods.table(&[("weak", ())]).is_none() {
            let ordered = if load { ("acquire", ()) } else { ("release", ()) };
            if mods.table(&[("volatile", ()), ("mmio", ())]).is_some() {
                strong = true;
            } else if mods.table(&[("relaxed", ()), ordered]).is_some() {
                mods.need("a scope", &SCOPES)?;
                strong = true;
            }
        }
        let space = mods.table(&SPACES).unwrap_or(MemSpace::Generic);
        if load {
            mods.table(&[("ca", ()), ("cg", ()), ("cs", ()), ("lu", ()), ("cv", ())]);
            mods.opt("nc");
        } else {
            mods.table(&[("wb", ()), ("cg", ()), ("cs", ()), ("wt", ())]);
        }
        // Cache hints do not affect values.
        for hint in [
            "L1::evict_normal",
            "L1::evict_unchanged",
            "L1::evict_first",
            "L1::evict_last",
            "L1::no_allocate",
            "L2::64B",
            "L2::128B",
            "L2::256B",
        ] {
            mods.opt(hint);
        }
        let count = mods.table(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
        let ty = mods.ty()?;
        if matches!(ty, Ty::Pred | Ty::F16 | Ty::BF16) {
            return Err(mods.error("type does not fit"));
        }
        if u32::from(count) * ty.bytes() > 16 {
            return Err(mods.error("an access has at most 16 bytes"));
        }
        Ok((space, strong, count, ty))
    }

    /// Decides if `.param` means the entry point's parameters or a frame.
    fn param_space(
        &self,
        mods: &Mods<'a>,
        space: MemSpace,
        name: Option<Name<'a>>,
    ) -> Result<MemSpace, Error> {
        match (space, name) {
            (MemSpace::FrameParam | MemSpace::EntryParam, Some(Name::EntryParam(_))) => {
                Ok(MemSpace::EntryParam)
            }
            (MemSpace::FrameParam, Some(Name::FrameParam(_))) => Ok(MemSpace::FrameParam),
            // A register holds an address among the entry point's parameters.
            (MemSpace::FrameParam | MemSpace::EntryParam, Some(Name::Reg(_)))
                if self.body.function.is_entry =>
            {
                Ok(MemSpace::EntryParam)
            }
            (MemSpace::FrameParam | MemSpace::EntryParam, _) => {
                Err(mods.error("the address is not a parameter"))
            }
            (_, Some(Name::EntryParam(_) | Name::FrameParam(_))) => {
                Err(mods.error("a parameter needs .param"))
            }
            _ => Ok(space),
        }
    }

    fn load(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let (space, strong, count, ty) = self.access(mods, true)?;
        self.arity(mods, 2)?;
        let (address, name) = self.address(1)?;
        let space = self.param_space(mods, space, name)?;
        let mut d = [Dst::None; 4];
        let parts = self.elements(self.op(0)?, count, mods)?;
        for (slot, part) in d.iter_mut().zip(&parts) {
            *slot = self.dst(part, ty.bits(), true)?;
        }
        Ok(Op::Ld { mem: MemOp { space, ty, count, strong, address }, d })
    }

    fn store(&mut self, mods: &mut Mods<'a>) -> Result<Op, Error> {
        let (space, strong, count, ty) = self.access(mods, false)?;
        self.arity(mods, 2)?;
        let (address, name) = self.address(0)?;
        let space = self.param_space(mods, space, name)?;
        if matches!(space, MemSpace::Const | MemSpace::EntryParam) {
            return Err(mods.error("this state space is read-only"));
        }
        let zero = Src::S32(S32::Const(self.pools.c32(0)));
        let mut s = [zero; 4];
        let parts = self.elements(self.op(1)?, count, mods)?;
        for (slot, part) in s.iter_mut().zip(&parts) {
            *slot = self.src(part, ty.bits(), true, false)?;
        }
        Ok(Op::St { mem: MemOp { space, ty, count, strong, address }, s })
    }

    /// Returns the `count` elements of a vector operand, or the operand itself.
    fn elements(
        &self,
        operand: &Operand<'a>,
        count: u8,
        mods: &Mods<'a>,
    ) -> Result<Vec<Operand<'a>>, Error> {
        match operand {
            Operand::Vector(parts) if count > 1 && parts.len() == usize::from(count) => {
                Ok(parts.clone())
            }
            Operand::Vector(_) => Err(mods.error("the vector has the wrong length")),
            scalar if count == 1 => Ok(vec![scalar.clone()]),
            _ => Err(mods.error("expected a vector operand")),
        }
    }

    fn atom(&mut self, mods: &mut Mods<'a>, returns: bool) -> Result<Op, Error> {
        // Atomics here are ordered more strongly than any of these requires.
        mods.table(&[("relaxed", ()), ("acquire", ()), ("release", ()), ("acq_rel", ())]);
        mods.table(&SCOPES);
        let spaces = [
            ("global", MemSpace::Global),
            ("shared", MemSpace::Shared),
            ("shared::cta", MemSpace::Shared),
        ];
        // The scope may also follow the state space.
        let space = mods.table(&spaces).unwrap_or(MemSpace::Generic);
        mods.table(&SCOPES);
        let op = mods.need(
            "an atomic operation",
            &[
                ("add", AtomOp::Add),
                ("min", AtomOp::Min),
                ("max", AtomOp::Max),
                ("and", AtomOp::And),
                ("or", AtomOp::Or),
                ("xor", AtomOp::Xor),
                ("exch", AtomOp::Exch),
                ("cas", AtomOp::Cas),
                ("inc", AtomOp::Inc),
                ("dec", AtomOp::Dec),
            ],
        )?;
        let types: &[Ty] = match op {
            AtomOp::Add => &[Ty::U32, Ty::S32, Ty::U64, Ty::S64, Ty::F32, Ty::F64],
            AtomOp::Min | AtomOp::Max => &[Ty::U32, Ty::S32, Ty::U64, Ty::S64],
            AtomOp::Inc | AtomOp::Dec => &[Ty::U32],
            AtomOp::And | AtomOp::Or | AtomOp::Xor => &[Ty::B32, Ty::B64],
            AtomOp::Exch | AtomOp::Cas => {
                &[Ty::B32, Ty::B64, Ty::U32, Ty::S32, Ty::U64, Ty::S64, Ty::F32, Ty::F64]
            }
        };
        let ty = mods.ty_of(types)?;
        if !returns && matches!(op, AtomOp::Exch | AtomOp::Cas) {
            return Err(mods.error("red has no such operation"));
        }
        let first = usize::from(returns);
        self.arity(mods, first + if op == AtomOp::Cas { 3 } else { 2 })?;
        let (address, name) = self.address(first)?;
        if matches!(name, Some(Name::EntryParam(_) | Name::FrameParam(_) | Name::Local(_))) {
            return Err(mods.error("the address is not in global or shared memory"));
        }
        let d = if returns { self.dst(self.op(0)?, ty.bits(), false)? } else { Dst::None };
        let b = self.src_at(first + 1, ty.bits(), ty.is_float())?;
        let c = match op {
            AtomOp::Cas => Some(self.src_at(first + 2, ty.bits(), ty.is_float())?),
            _ => None,
        };
        Ok(Op::Atom { op, ty, space, address, d, b, c })
    }
}
