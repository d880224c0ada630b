//! The counted costs of a launch.

use crate::op::{FloatOp, Inst, IntOp, MemSpace, Op, Operands, Ty};

/// The kinds of instructions that a GPU issues at different rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Arithmetic of f32.
    Float,
    /// Arithmetic of f64.
    Double,
    /// Division, square root and reciprocal of f32.
    DivideFloat,
    /// Division, square root and reciprocal of f64.
    DivideDouble,
    /// Integers of up to 32 bits, comparisons, logic, and products of two words.
    Word,
    /// Integers of 64 bits.
    Wide,
    /// Division and remainder of integers of up to 32 bits.
    DivideWord,
    /// Division and remainder of 64-bit integers.
    DivideWide,
    /// Approximate functions.
    Approximate,
    /// Conversions between types.
    Convert,
    /// Copies between registers, and special registers.
    Move,
    /// Loads and stores of global memory, including those by generic addresses.
    Global,
    /// Loads and stores of shared memory.
    Shared,
    /// Loads and stores of local memory.
    Local,
    /// Loads of parameters and of constant memory.
    Constant,
    /// Atomic operations, including those on shared memory.
    Atomic,
    /// Exchanges between the lanes of a warp.
    Exchange,
    /// Barriers of a block or of a warp.
    Barrier,
    /// Branches, calls, returns.
    Control,
}

impl Class {
    /// All classes, in the order of [`Counts::instructions`].
    pub const ALL: [Class; 19] = [
        Class::Float,
        Class::Double,
        Class::DivideFloat,
        Class::DivideDouble,
        Class::Word,
        Class::Wide,
        Class::DivideWord,
        Class::DivideWide,
        Class::Approximate,
        Class::Convert,
        Class::Move,
        Class::Global,
        Class::Shared,
        Class::Local,
        Class::Constant,
        Class::Atomic,
        Class::Exchange,
        Class::Barrier,
        Class::Control,
    ];

    /// Returns the name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Class::Float => "float",
            Class::Double => "double",
            Class::DivideFloat => "divide_float",
            Class::DivideDouble => "divide_double",
            Class::Word => "word",
            Class::Wide => "wide",
            Class::DivideWord => "divide_word",
            Class::DivideWide => "divide_wide",
            Class::Approximate => "approximate",
            Class::Convert => "convert",
            Class::Move => "move",
            Class::Global => "global",
            Class::Shared => "shared",
            Class::Local => "local",
            Class::Constant => "constant",
            Class::Atomic => "atomic",
            Class::Exchange => "exchange",
            Class::Barrier => "barrier",
            Class::Control => "control",
        }
    }

    fn of(op: &Op) -> Class {
        let divides =
            |op: IntOp| matches!(op, IntOp::DivS | IntOp::DivU | IntOp::RemS | IntOp::RemU);
        let roots = |op: FloatOp| matches!(op, FloatOp::Div | FloatOp::Sqrt | FloatOp::Rcp);
        match op {
            Op::Int16(op, ..) | Op::Int32(op, ..) if divides(*op) => Class::DivideWord,
            Op::Int64(op, ..) if divides(*op) => Class::DivideWide,
            Op::F32(op, ..) if roots(*op) => Class::DivideFloat,
            Op::F64(op, ..) if roots(*op) => Class::DivideDouble,
            Op::F32(..) | Op::Fma32(..) => Class::Float,
            Op::F64(..) | Op::Fma64(..) => Class::Double,
            Op::Setp { ty, .. } | Op::Set { ty, .. } => match ty {
                Ty::F32 => Class::Float,
                Ty::F64 => Class::Double,
                _ if ty.bytes() == 8 => Class::Wide,
                _ => Class::Word,
            },
            Op::Int64(..)
            | Op::Shift64(..)
            | Op::Mad64 { .. }
            | Op::Sad64 { .. }
            | Op::Carry64(..)
            | Op::Bfe64 { .. }
            | Op::Bfi64 { .. }
            | Op::Count64(..)
            | Op::Selp64 { .. } => Class::Wide,
            Op::Approx32 { .. } | Op::Approx64 { .. } => Class::Approximate,
            Op::Cvt(..) => Class::Convert,
            Op::Mov32(..)
            | Op::Mov64(..)
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::MovSpecial(..)
            | Op::MovLocal { .. }
            | Op::Cvta { .. } => Class::Move,
            Op::Ld { mem, .. } | Op::St { mem, .. } => match mem.space {
                MemSpace::Generic | MemSpace::Global => Class::Global,
                MemSpace::Shared => Class::Shared,
                MemSpace::Local => Class::Local,
                MemSpace::Const | MemSpace::EntryParam | MemSpace::FrameParam => Class::Constant,
            },
            Op::Atom { .. } => Class::Atomic,
            Op::Shfl { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::ActiveMask(_) => Class::Exchange,
            Op::Bar(_) | Op::WarpSync(_) => Class::Barrier,
            Op::Bra { .. }
            | Op::BrxIdx { .. }
            | Op::Call(_)
            | Op::Ret
            | Op::Exit
            | Op::Trap
            | Op::Nop => Class::Control,
            _ => Class::Word,
        }
    }
}

/// The global memory traffic of one kind of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of 32-byte sectors, counted once per warp instruction.
    pub asked: u64,
    /// The number of distinct bytes that the lanes of these instructions accessed.
    pub needed: u64,
    /// The number of sectors, counted once per block: the traffic behind a first-level cache.
    pub fetched: u64,
    /// The number of sectors, counted once per launch.
    pub touched: u64,
}

/// The costs of a launch. Chains and waits are those of a warp, as its scoreboard sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of warp instructions, by [`Class::ALL`].
    pub instructions: [u64; Class::ALL.len()],
    /// Loads from global memory.
    pub loads: Traffic,
    /// Stores to global memory.
    pub stores: Traffic,
    /// Atomics on global memory.
    pub atomics: Traffic,
    /// The number of lanes of atomics, including those on shared memory.
    pub atomic_lanes: u64,
    /// The number of lanes of atomics whose address an earlier lane of the same instruction had.
    pub atomic_repeats: u64,
    /// The largest number of atomics on one address of global memory.
    pub atomic_hottest: u64,
    /// The number of waves in which shared memory was read or written; it serves one wave at a
    /// time.
    pub shared_waves: u64,
    /// The number of waves without bank conflicts.
    pub shared_least: u64,
    /// The number of distinct words of constant memory that loads accessed, beyond the first of
    /// each load.
    pub constant_replays: u64,
    /// The number of warps run.
    pub warps: u64,
    /// The largest number of instructions of one warp.
    pub longest: u64,
    /// The longest chain of loads from global memory, each at an address that depends on the one
    /// before.
    pub chain: u64,
    /// The largest number of times that one warp waits for global memory. Instructions issue in
    /// order, except that loads move to the front of a stretch without branches, stores and
    /// barriers.
    pub waits: u64,
    /// The sum, over blocks, of the waits of the longest warp.
    pub block_waits: u64,
}

impl Counts {
    /// Returns the number of instructions of one class.
    pub fn of(&self, class: Class) -> u64 {
        self.instructions[class as usize]
    }

    /// Returns every count with its name.
    pub fn fields(&self) -> impl Iterator<Item = (String, u64)> {
        let instructions = Class::ALL.map(|class| (class.name().to_owned(), self.of(class)));
        let traffic = |name: &'static str, traffic: Traffic| {
            let Traffic { asked, needed, fetched, touched } = traffic;
            [("asked", asked), ("needed", needed), ("fetched", fetched), ("touched", touched)]
                .map(|(what, count)| (format!("{name}_{what}"), count))
        };
        let others = [
            ("atomic_lanes", self.atomic_lanes),
            ("atomic_repeats", self.atomic_repeats),
            ("atomic_hottest", self.atomic_hottest),
            ("shared_waves", self.shared_waves),
            ("shared_least", self.shared_least),
            ("constant_replays", self.constant_replays),
            ("warps", self.warps),
            ("longest", self.longest),
            ("chain", self.chain),
            ("waits", self.waits),
            ("block_waits", self.block_waits),
        ];
        instructions
            .into_iter()
            .chain(traffic("loads", self.loads))
            .chain(traffic("stores", self.stores))
            .chain(traffic("atomics", self.atomics))
            .chain(others.map(|(name, count)| (name.to_owned(), count)))
    }
}

/// The static facts about an instruction that counting needs.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    pub(crate) class: Class,
    pub(crate) operands: Operands,
    /// True if loads must not move across it.
    pub(crate) fence: bool,
}

impl Traced {
    pub(crate) fn new(inst: &Inst) -> Traced {
        let class = Class::of(&inst.op);
        let ends = matches!(class, Class::Control | Class::Barrier | Class::Atomic);
        let stores = matches!(inst.op, Op::St { .. }) && class == Class::Global;
        Traced { class, operands: Operands::of(inst), fence: ends || stores }
    }
}
