//! What can go wrong, from reading PTX to running it.

use std::fmt;

/// Anything that can go wrong in this crate.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The PTX text could not be loaded: a syntax error, or something that this emulator does
    /// not execute exactly.
    #[error("load: line {line}: {message}")]
    Load {
        /// Line of the PTX text, from 1.
        line: u32,
        /// What is wrong, and where possible what to do.
        message: String,
    },
    /// The launch configuration or the parameters do not fit the kernel.
    #[error("launch: {kernel}: {message}")]
    Launch {
        /// Entry point.
        kernel: String,
        /// What does not fit.
        message: String,
    },
    /// A host-side memory operation touched memory that is not allocated.
    #[error("{op}: {size} bytes at {address:#x}: {message}")]
    Memory {
        /// The operation: `read`, `write`, `fill`, `copy`, `free` or `alloc`.
        op: &'static str,
        /// First byte of the access.
        address: u64,
        /// Length of the access in bytes.
        size: u64,
        /// What is wrong with it.
        message: String,
    },
    /// A kernel did something that its hardware would punish, or worse, let pass.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

/// The message, which is what `main` prints of an error that it returns.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    pub(crate) fn load(line: u32, message: impl Into<String>) -> Error {
        Error::Load { line, message: message.into() }
    }

    /// Returns the fault, if a kernel faulted.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Error::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}

/// Which rule a kernel broke, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Entry point that was launched.
    pub kernel: String,
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// `%ctaid` of the offending thread.
    pub block: [u32; 3],
    /// `%tid` of the offending thread.
    pub thread: [u32; 3],
    /// The rule.
    pub kind: FaultKind,
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kernel, line, block: b, thread: t, kind } = self;
        write!(
            f,
            "{kernel}: line {line}: block ({}, {}, {}) thread ({}, {}, {}): {kind}",
            b[0], b[1], b[2], t[0], t[1], t[2]
        )
    }
}

/// A state space of the PTX machine model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Space {
    /// An address that may point into any of the others.
    Generic,
    /// Memory of the device.
    Global,
    /// Memory of one block.
    Shared,
    /// Memory of one thread.
    Local,
    /// Read-only memory.
    Const,
    /// Kernel parameters.
    Param,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Generic => "generic",
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Const => "const",
            Space::Param => "param",
        })
    }
}

/// How memory was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An `atom` or `red`, or a strong (`.volatile`, `.relaxed`) access.
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Atomic => "atomic access",
        })
    }
}

/// The rule that a kernel broke.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The address belongs to no allocation.
    OutOfBounds {
        /// State space of the access.
        space: Space,
        /// What was done.
        access: Access,
        /// First byte.
        address: u64,
        /// Bytes.
        size: u32,
        /// The nearest allocation, for a human reader.
        near: String,
    },
    /// The address is not a multiple of the access size.
    Misaligned {
        /// State space of the access.
        space: Space,
        /// What was done.
        access: Access,
        /// First byte.
        address: u64,
        /// Bytes.
        size: u32,
    },
    /// Memory was read that nobody has written.
    Uninitialised {
        /// State space of the access.
        space: Space,
        /// First byte of the access.
        address: u64,
        /// Bytes.
        size: u32,
    },
    /// The memory has been freed.
    Freed {
        /// What was done.
        access: Access,
        /// First byte.
        address: u64,
        /// Bytes.
        size: u32,
    },
    /// Two threads touched the same memory, at least one of them wrote, and neither a barrier
    /// nor atomicity orders them.
    Race {
        /// State space of the access.
        space: Space,
        /// What this thread did.
        access: Access,
        /// What the other one had done.
        earlier: Access,
        /// First byte in conflict.
        address: u64,
        /// The other thread, as far as it is known.
        other: String,
    },
    /// The address does not belong to the state space of the instruction.
    InvalidSpace {
        /// State space of the instruction.
        space: Space,
        /// The address.
        address: u64,
        /// Where it points instead.
        found: String,
    },
    /// A barrier was reached by some threads and not by others.
    DivergentBarrier {
        /// Who is missing.
        detail: String,
    },
    /// No thread of the block can make progress.
    Deadlock {
        /// Who waits for what.
        detail: String,
    },
    /// A warp ran longer than the step limit.
    StepLimit {
        /// The limit, in instructions of one warp.
        limit: u64,
    },
    /// The kernel executed `trap`.
    Trap,
    /// Calls are nested too deeply.
    CallDepth {
        /// The limit.
        limit: usize,
    },
    /// A lane read from a lane that does not take part in the exchange.
    InactiveLane {
        /// The lane that was read.
        lane: u32,
    },
    /// A call or branch went through a pointer or index that names no code.
    InvalidTarget {
        /// The value.
        target: u64,
    },
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::OutOfBounds { space, access, address, size, near } => write!(
                f,
                "out of bounds: {access} of {size} bytes at {space} address {address:#x}; {near}"
            ),
            FaultKind::Misaligned { space, access, address, size } => {
                write!(f, "misaligned: {access} of {size} bytes at {space} address {address:#x}")
            }
            FaultKind::Uninitialised { space, address, size } => write!(
                f,
                "uninitialised: read of {size} bytes at {space} address {address:#x}, \
                 which nobody has written"
            ),
            FaultKind::Freed { access, address, size } => {
                write!(f, "freed: {access} of {size} bytes at {address:#x}, which has been freed")
            }
            FaultKind::Race { space, access, earlier, address, other } => write!(
                f,
                "data race: {access} at {space} address {address:#x} is not ordered after the \
                 {earlier} by {other}; put a barrier between them or make both atomic"
            ),
            FaultKind::InvalidSpace { space, address, found } => {
                write!(f, "invalid address space: {address:#x} is not a {space} address: {found}")
            }
            FaultKind::DivergentBarrier { detail } => write!(f, "divergent barrier: {detail}"),
            FaultKind::Deadlock { detail } => write!(f, "deadlock: {detail}"),
            FaultKind::StepLimit { limit } => {
                write!(f, "step limit: the warp ran {limit} instructions without finishing")
            }
            FaultKind::Trap => f.write_str("trap"),
            FaultKind::CallDepth { limit } => {
                write!(f, "call depth: calls nest deeper than {limit}")
            }
            FaultKind::InactiveLane { lane } => {
                write!(
                    f,
                    "inactive lane: read from lane {lane}, which takes no part in the exchange"
                )
            }
            FaultKind::InvalidTarget { target } => {
                write!(f, "invalid target: {target:#x} names no code of this module")
            }
        }
    }
}
