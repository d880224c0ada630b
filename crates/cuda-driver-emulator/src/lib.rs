//! The CUDA driver's C interface over the samebits PTX emulator.
//!
//! Built as a shared library and placed as `libcuda.so` in a separate folder on the loader's path,
//! it lets a program that uses the driver API run unmodified on a machine without a GPU. It
//! implements the functions that cudarc calls in driver mode, and returns
//! `CUDA_ERROR_NOT_SUPPORTED` from the other functions that cudarc names.
//!
//! Work waits in its stream until a call may rely on its result: nothing is done earlier than the
//! interface promises. Freed addresses are reused at once. A fault in a kernel surfaces as in the
//! real driver: the launch succeeds, and the call that waits for it, and every later call in the
//! context, fails with the same error until the context is destroyed.
//!
//! # Environment
//!
//! * `SAMEBITS_EMULATOR_SCHEDULE`: `in-order` (the default), `reversed` or `seed:N`.
//! * `SAMEBITS_EMULATOR_CHECKS`: a comma-separated list of checks to switch off:
//!   `no-races`, `no-uninitialised`.
//! * `SAMEBITS_EMULATOR_STEPS`: the number of instructions that a warp may execute in one launch.
//! * `SAMEBITS_EMULATOR_APPROXIMATE`: the entry points that may use approximate instructions, as a
//!   comma-separated list, or `all`. By default there are none.
//! * `SAMEBITS_EMULATOR_DEVICES`: the number of devices, 1 by default; 0 is a driver without a
//!   device.
//! * `SAMEBITS_EMULATOR_MEMORY`: the size in bytes of each device's memory, 16 GiB by default.
//! * `SAMEBITS_EMULATOR_ADDRESSES`: `reused` (the default) or `fresh`. With `fresh` an address is
//!   used only once, so that every access to freed memory is a fault.
//! * `SAMEBITS_EMULATOR_REGISTERS`: a file with one line per kernel whose number of registers is
//!   known: its name, a space, the number. Blocks that need more registers are rejected.
//! * `SAMEBITS_EMULATOR_STATISTICS`: if set, each launch reports its instruction counts.
//! * `SAMEBITS_EMULATOR_COUNTS`: a file to which each launch, fill and copy to a device appends a line with
//!   its counts.
//! * `CUDA_LAUNCH_BLOCKING`: if `1`, a call completes its work before it returns, and a launch
//!   itself returns the error of its kernel.
//!
//! An invalid value is not ignored: `cuInit` writes a message and fails with
//! `CUDA_ERROR_INVALID_VALUE`.
#![allow(non_snake_case)]

mod config;
mod contexts;
mod devices;
mod launch;
mod memory;
mod modules;
mod pools;
mod queue;
mod state;
mod status;
mod streams;
mod unsupported;
