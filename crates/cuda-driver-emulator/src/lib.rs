//! The CUDA driver's C interface over the samebits PTX emulator.
//!
//! Built as a shared library and placed as `libcuda.so` in a folder of its own on the loader's
//! path, it lets a program that drives a GPU through the driver API run unmodified on a machine
//! without one. It covers what cudarc calls in driver mode, and says `CUDA_ERROR_NOT_SUPPORTED`
//! to the rest of what cudarc can name.
//!
//! Work waits in its stream until a call is entitled to its result: nothing is done earlier than
//! the interface promises. Freed addresses are used again at once. A fault in a kernel surfaces as
//! in the real driver: the launch succeeds, and the call that waits for it, and every later one in
//! the context, fails with the same error until the context is gone.
//!
//! # Environment
//!
//! * `SAMEBITS_EMULATOR_SCHEDULE`: `in-order` (the default), `reversed` or `seed:N`.
//! * `SAMEBITS_EMULATOR_CHECKS`: a comma-separated list of checks to switch off:
//!   `no-races`, `no-uninitialised`.
//! * `SAMEBITS_EMULATOR_STEPS`: instructions that a warp may execute in one launch.
//! * `SAMEBITS_EMULATOR_APPROXIMATE`: entry points that may use approximate instructions, as a
//!   comma-separated list, or `all`. By default there are none.
//! * `SAMEBITS_EMULATOR_DEVICES`: number of devices, 1 by default; 0 is a driver without a
//!   device.
//! * `SAMEBITS_EMULATOR_MEMORY`: bytes of memory of each device, 16 GiB by default.
//! * `SAMEBITS_EMULATOR_ADDRESSES`: `reused` (the default), or `fresh`: an address is used once, so
//!   that every access to freed memory is a fault.
//! * `SAMEBITS_EMULATOR_REGISTERS`: a file with a line for each kernel whose registers are known: its
//!   name, a space, their number. Larger blocks than they allow are refused.
//! * `SAMEBITS_EMULATOR_STATISTICS`: if set, each launch reports its instruction counts.
//! * `SAMEBITS_EMULATOR_COUNTS`: a file to which each launch adds a line of what it cost.
//! * `CUDA_LAUNCH_BLOCKING`: if `1`, work is done before the call that asks for it returns, and a
//!   launch itself returns the error of its kernel.
//!
//! A value that is not understood makes `cuInit` fail with `CUDA_ERROR_INVALID_VALUE` and a
//! message, rather than being ignored.
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
