//! The errors of reading and running PTX.

use std::fmt;

/// An error of this crate.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The PTX text could not be loaded: it has a syntax error, or uses something that this
    /// emulator does not execute exactly.
    #[error("load: line {line}: {message}")]
    Load {
        /// The line of the PTX text, from 1.
        line: u32,
        /// The cause and, if possible, the remedy.
        message: String,
    },
    /// The launch configuration or the parameters do not fit the kernel.
    #[error("launch: {kernel}: {message}")]
    Launch {
        /// The entry point.
        kernel: String,
        /// The mismatch.
        message: String,
    },
    /// A host-side memory operation accessed memory that is not allocated.
    #[error("{op}: {size} bytes at {address:#x}: {message}")]
    Memory {
        /// The operation: `read`, `write`, `fill`, `copy`, `free` or `alloc`.
        op: &'static str,
        /// The first byte of the access.
        address: u64,
        /// The length of the access in bytes.
        size: u64,
        /// The cause.
        message: String,
    },
    /// A kernel broke a rule that hardware punishes or, worse, ignores.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

/// Prints the message, because `main` prints a returned error with `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    pub(crate) fn load(line: u32, message: impl Into<String>) -> Error {
        Error::Load { line, message: message.into() }
    }

    /// Returns the fault, if a kernel caused one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Error::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}

/// The rule that a kernel broke, and the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The entry point that was launched.
    pub kernel: String,
    /// The line of the PTX text, from 1.
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
    /// Any of the other spaces, by address.
    Generic,
    /// The memory of the device.
    Global,
    /// The memory of one block.
    Shared,
    /// The memory of one thread.
    Local,
    /// Read-only memory.
    Const,
    /// The kernel's parameters.
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

/// The kind of a memory access.
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
        /// The state space of the access.
        space: Space,
        /// The kind of access.
        access: Access,
        /// The first byte.
        address: u64,
        /// The number of bytes.
        size: u32,
        /// A description of the nearest allocation.
        near: String,
    },
    /// The address is not a multiple of the access size.
    Misaligned {
        /// The state space of the access.
        space: Space,
        /// The kind of access.
        access: Access,
        /// The first byte.
        address: u64,
        /// The number of bytes.
        size: u32,
    },
    /// The kernel read memory that was never written.
    Uninitialised {
        /// The state space of the access.
        space: Space,
        /// The first byte of the access.
        address: u64,
        /// The number of bytes.
        size: u32,
    },
    /// The memory has been freed.
    Freed {
        /// The kind of access.
        access: Access,
        /// The first byte.
        address: u64,
        /// The number of bytes.
        size: u32,
    },
    /// Two threads accessed the same memory, at least one of them wrote, and neither a barrier nor
    /// atomicity orders them.
    Race {
        /// The state space of the access.
        space: Space,
        /// The kind of this thread's access.
        access: Access,
        /// The kind of the other thread's access, which came first.
        earlier: Access,
        /// The first byte in conflict.
        address: u64,
        /// The other thread, as far as it is known.
        other: String,
    },
    /// The address does not belong to the state space of the instruction.
    InvalidSpace {
        /// The state space of the instruction.
        space: Space,
        /// The address.
        address: u64,
        /// The space that contains the address.
        found: String,
    },
    /// Some threads reached a barrier and others did not.
    DivergentBarrier {
        /// The missing threads.
        detail: String,
    },
    /// No thread of the block can make progress.
    Deadlock {
        /// The waiting threads, and the reason.
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
        /// The source lane.
        lane: u32,
    },
    /// The target of a call or branch is not code.
    InvalidTarget {
        /// The value of the target.
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
