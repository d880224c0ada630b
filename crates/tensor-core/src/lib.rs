//! Tensors, layouts, devices, determinism levels and the kernel registry of samebits.
//!
//! This crate defines an operation: its name, its arguments, the checks that are the same on every
//! device, and the level that each kernel variant promises. The kernel crates compute it, and
//! register their variants here.
//!
//! * [`Tensor`] is a value: cloning is cheap, and writing to one never shows in another.
//! * [`Determinism`] is the scope in which the bits of a result repeat; a caller requires a level
//!   with [`determinism::scope`] or [`determinism::set_default`].
//! * [`Op`] and [`Kernel`] are the registry's two halves; [`dispatch`] brings them together.
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

pub mod backend;
pub mod buffer;
mod dense;
pub mod determinism;
pub mod device;
pub mod dtype;
pub mod error;
mod gather;
pub mod geometry;
pub mod layout;
pub mod observe;
pub mod ops;
mod pass;
pub mod random;
pub mod registry;
pub mod rerun;
pub mod scalar;
pub mod tensor;

pub use backend::{Backend, DeviceBuffer};
pub use determinism::Determinism;
pub use device::Device;
pub use dtype::{DType, Element};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use layout::Layout;
pub use pass::{KernelInfo, Pass};
pub use registry::{Kernel, Op, dispatch, dispatch_at};
pub use tensor::Tensor;
