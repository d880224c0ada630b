//! The emulator as a whole: what each instruction computes, whole kernels as NVRTC writes them,
//! every check with a planted fault, and a loader that refuses what it does not know.

mod arithmetic;
mod common;
mod costs;
mod faults;
mod floats;
mod kernels;
mod load;
