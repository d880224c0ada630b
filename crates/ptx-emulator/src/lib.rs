//! Runs PTX on the CPU under any schedule, with memory and race checks.
//!
//! A GPU hides two things from a test: the order in which its threads ran, and most memory errors.
//! This emulator shows both. It executes the PTX text that a GPU driver would compile, with IEEE
//! arithmetic rounded exactly as each instruction requires, and it
//!
//! * runs blocks, warps and atomics in any of many orders ([`Schedule`]), so that a result which
//!   depends on the order varies visibly;
//! * reports, naming kernel, line, thread and address, every access that is out of bounds,
//!   misaligned, uninitialised, freed or racing, every divergent barrier and every deadlock
//!   ([`FaultKind`]);
//! * rejects at load time, naming the line, anything that it would not execute exactly
//!   ([`Error::Load`]).
//!
//! It implements the instructions that NVRTC generates for `compute_70` to `compute_80` without
//! tensor cores, textures and asynchronous copies. A few lines run a kernel: see [`Device`].
//!
//! # Determinism
//!
//! The same module, memory, launch and schedule give the same bits on every machine.
#![forbid(unsafe_code)]

mod approx;
mod counts;
mod device;
mod error;
mod exec;
mod float;
mod load;
mod memory;
mod module;
mod op;
mod race;
mod region;
mod schedule;
mod ty;

pub use counts::{Class, Counts, Traffic};
pub use device::{Checks, Device, Launch, Loaded, Stats};
pub use error::{Access, Error, Fault, FaultKind, Space};
pub use load::Approximate;
pub use module::{EntryInfo, Module, Param};
pub use schedule::Schedule;
