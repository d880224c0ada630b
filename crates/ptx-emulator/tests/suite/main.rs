//! The emulator as a whole: the result of each instruction, whole kernels compiled by NVRTC, every
//! check with a planted fault, and a loader that rejects what it does not know.

mod arithmetic;
mod common;
mod costs;
mod faults;
mod floats;
mod kernels;
mod load;
