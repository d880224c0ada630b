//! The decoded form of PTX, which the interpreter executes.
//!
//! Registers of up to 32 bits are in one file and 64-bit registers in another, each as an array
//! over the 32 lanes of a warp; a predicate is one bit per lane. Immediates are arrays too, so that
//! an operand is always a reference to 32 values.

mod kind;
mod operands;

pub(crate) use crate::ty::Ty;
pub(crate) use kind::*;
pub(crate) use operands::{Operands, Reg};

/// The number of threads in a warp.
pub(crate) const LANES: usize = 32;

/// A value of up to 32 bits in every lane.
pub(crate) type V32 = [u32; LANES];
/// A value of 64 bits in every lane.
pub(crate) type V64 = [u64; LANES];

/// A register of the 32-bit file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R32(pub(crate) u16);
/// A register of the 64-bit file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R64(pub(crate) u16);
/// A predicate register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct P(pub(crate) u16);

/// A source of up to 32 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum S32 {
    Reg(u16),
    Const(u32),
}

/// A source of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum S64 {
    Reg(u16),
    Const(u32),
}

/// A predicate source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SP {
    Reg { index: u16, negated: bool },
    Const(bool),
}

/// A destination of any class.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dst {
    R32(R32),
    R64(R64),
    /// The `_` of an ignored result.
    None,
}

/// A source of any class.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Src {
    S32(S32),
    S64(S64),
}

/// The content of a special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    WarpCount,
    SmId,
    SmCount,
    GridId,
    /// The lanes equal, below, at or below, above, at or above this one.
    LaneMask(Cmp),
    Clock,
    ClockHigh,
    Clock64,
    GlobalTimer,
    DynamicShared,
    TotalShared,
}

/// The space in which an address is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemSpace {
    Generic,
    Global,
    Shared,
    Local,
    Const,
    /// Parameters of the entry point.
    EntryParam,
    /// Parameters of a function, and of the calls inside any function.
    FrameParam,
}

/// A base register and an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Base,
    pub(crate) offset: i64,
}

/// The base of an address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    Reg32(u16),
    Reg64(u16),
    /// The index of a 64-bit constant, which relocation may fill.
    Const(u32),
    /// The start of this activation's local memory.
    LocalFrame,
}

/// One load or store of up to four neighbouring elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemOp {
    pub(crate) space: MemSpace,
    pub(crate) ty: Ty,
    pub(crate) count: u8,
    /// A strong access (`.volatile`, `.relaxed`, `.acquire`, `.release`), which does not race
    /// with other strong accesses.
    pub(crate) strong: bool,
    pub(crate) address: Address,
}

/// The operation of an atomic on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

/// The mode of a lane exchange, `shfl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// The mode of `vote`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

/// The reduction of a barrier over its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarRed {
    And,
    Or,
    Popc,
}

/// A barrier instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) id: S32,
    pub(crate) count: Option<S32>,
    /// True if the threads continue without waiting (`bar.arrive`).
    pub(crate) arrive: bool,
    /// True if all threads of a warp must execute it together.
    pub(crate) aligned: bool,
    pub(crate) red: Option<(BarRed, SP)>,
    /// The destination of the reduction: a predicate, or a register for a count.
    pub(crate) pred: Option<P>,
    pub(crate) dst: Option<R32>,
}

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Int16(IntOp, R32, S32, S32),
    Int32(IntOp, R32, S32, S32),
    Int64(IntOp, R64, S64, S64),
    Shift16(ShiftOp, R32, S32, S32),
    Shift32(ShiftOp, R32, S32, S32),
    Shift64(ShiftOp, R64, S64, S32),
    Ter32(TerOp, R32, S32, S32, S32),
    Mad16 {
        high: bool,
        signed: bool,
        d: R32,
        a: S32,
        b: S32,
        c: S32,
    },
    Mad64 {
        high: bool,
        signed: bool,
        d: R64,
        a: S64,
        b: S64,
        c: S64,
    },
    Sad64 {
        signed: bool,
        d: R64,
        a: S64,
        b: S64,
        c: S64,
    },
    /// Multiplies 16 x 16 to 32 bits, plus `c`.
    MadWide16 {
        signed: bool,
        d: R32,
        a: S32,
        b: S32,
        c: Option<S32>,
    },
    /// Multiplies 32 x 32 to 64 bits, plus `c`.
    MadWide32 {
        signed: bool,
        d: R64,
        a: S32,
        b: S32,
        c: Option<S64>,
    },
    Carry32(Carry, R32, S32, S32, S32),
    Carry64(Carry, R64, S64, S64, S64),
    Bfe64 {
        signed: bool,
        d: R64,
        a: S64,
        b: S32,
        c: S32,
    },
    Bfi32 {
        d: R32,
        a: S32,
        b: S32,
        c: S32,
        len: S32,
    },
    Bfi64 {
        d: R64,
        a: S64,
        b: S64,
        c: S32,
        len: S32,
    },
    Count32(CountOp, R32, S32),
    Count64(CountOp, R32, S64),
    F32(FloatOp, FloatMode, R32, S32, S32),
    F64(FloatOp, FloatMode, R64, S64, S64),
    Fma32(FloatMode, R32, S32, S32, S32),
    Fma64(FloatMode, R64, S64, S64, S64),
    Approx32 {
        op: ApproxOp,
        ftz: bool,
        d: R32,
        a: S32,
        b: S32,
    },
    Approx64 {
        op: ApproxOp,
        d: R64,
        a: S64,
    },
    Setp {
        ty: Ty,
        cmp: Cmp,
        ftz: bool,
        a: Src,
        b: Src,
        with: Option<(Combine, SP)>,
        p: Option<P>,
        q: Option<P>,
    },
    Set {
        ty: Ty,
        cmp: Cmp,
        ftz: bool,
        a: Src,
        b: Src,
        with: Option<(Combine, SP)>,
        d: R32,
        float: bool,
    },
    Testp {
        test: Test,
        a: Src,
        p: P,
    },
    Selp32 {
        d: R32,
        a: S32,
        b: S32,
        p: SP,
    },
    Selp64 {
        d: R64,
        a: S64,
        b: S64,
        p: SP,
    },
    Slct {
        d: Dst,
        a: Src,
        b: Src,
        c: S32,
        float: bool,
    },
    Pred(PredOp, P, SP, SP),
    Cvt(Convert, Dst, Src),
    Mov32(R32, S32),
    Mov64(R64, S64),
    /// Packs parts of equal width, lowest first.
    Pack {
        d: Dst,
        parts: [Src; 4],
        count: u8,
        bits: u8,
    },
    /// Splits a value into parts, lowest first.
    Unpack {
        d: [Dst; 4],
        count: u8,
        bits: u8,
        a: Src,
    },
    MovSpecial(Dst, Special),
    /// Takes the address of a local variable.
    MovLocal {
        d: Dst,
        offset: u64,
    },
    /// Adds the start of a state space's window to an address, or subtracts it.
    Cvta {
        space: MemSpace,
        to: bool,
        d: Dst,
        a: Src,
    },
    IsSpace {
        space: MemSpace,
        p: P,
        a: Src,
    },
    Ld {
        mem: MemOp,
        d: [Dst; 4],
    },
    St {
        mem: MemOp,
        s: [Src; 4],
    },
    Atom {
        op: AtomOp,
        ty: Ty,
        space: MemSpace,
        address: Address,
        d: Dst,
        b: Src,
        c: Option<Src>,
    },
    Shfl {
        mode: ShflMode,
        d: R32,
        p: Option<P>,
        a: S32,
        b: S32,
        c: S32,
        mask: S32,
    },
    Vote {
        mode: VoteMode,
        p: Option<P>,
        d: Option<R32>,
        a: SP,
        mask: S32,
    },
    Match {
        all: bool,
        d: R32,
        p: Option<P>,
        a: Src,
        mask: S32,
    },
    Redux {
        op: IntOp,
        d: R32,
        a: S32,
        mask: S32,
    },
    ActiveMask(R32),
    WarpSync(S32),
    Bar(Barrier),
    Bra {
        target: u32,
    },
    BrxIdx {
        index: S32,
        targets: Box<[u32]>,
    },
    Call(Box<Call>),
    Ret,
    Exit,
    Trap,
    /// Does nothing: a fence orders memory, which this machine always does, and other hints have no
    /// effect.
    Nop,
}

/// A call and its parameters, as byte ranges of the parameter frames.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) target: CallTarget,
    /// The offset in the caller's frame and the length of each argument.
    pub(crate) args: Vec<(u32, u32)>,
    pub(crate) rets: Vec<(u32, u32)>,
}

/// The target of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallTarget {
    Direct(u32),
    Indirect(S64),
}

/// An instruction with its guard and its source line.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) guard: Option<(u16, bool)>,
    pub(crate) line: u32,
}
