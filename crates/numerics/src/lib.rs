//! The arithmetic that every samebits kernel is built from: exact sums, correctly rounded
//! elementary functions, fixed-order reductions and the rules for NaN and zero.
//!
//! Nothing here knows about tensors, threads or devices. Each function is a definition: the same
//! input gives the same bits on every machine, at every [`simd::Level`], and in every release with
//! the same [`NUMERICS_VERSION`].
//!
//! # Features
//!
//! `std` (default): uses fused multiply-add and square roots of the processor or platform, detects
//! the instruction set at run time, reads `SAMEBITS_SIMD`, and asks Linux for huge pages for large
//! buffers. Without it the crate needs only `core` and `alloc` and builds for targets without an
//! operating system; [`Ieee`] computes the same bits, more slowly.
//!
//! `serde`: [`Determinism`] can be serialised.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

/// The version of the numerics contract. Two builds with the same version give the same bits at
/// `Portable`; a change to any promised bit raises it.
pub const NUMERICS_VERSION: u32 = 2;

#[cfg(target_arch = "x86")]
compile_error!(
    "samebits-numerics: 32-bit x86 passes floats through the x87 unit, which changes NaNs and may \
     round twice; build for x86_64"
);

mod determinism;
pub mod exact;
pub mod extrema;
pub mod fpenv;
mod ieee;
pub mod math;
pub mod memory;
pub mod nan;
// `mul_add` must round once. The other targets have an instruction for it, or a C library that has
// been checked.
#[cfg(all(
    feature = "std",
    not(any(
        target_arch = "aarch64",
        target_feature = "fma",
        all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"),
    ))
))]
mod platform;
pub mod reduce;
pub mod simd;
pub mod transpose;

pub use determinism::Determinism;
pub use ieee::Ieee;

/// Implements `Debug` of error types as their `Display`, so that a `main` which returns the error
/// prints the message, and `unwrap` panics with it.
///
/// # Examples
///
/// ```
/// use std::fmt;
///
/// struct Full;
///
/// impl fmt::Display for Full {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.write_str("push: no room left")
///     }
/// }
///
/// samebits_numerics::debug_is_message!(Full);
/// assert_eq!(format!("{Full:?}"), "push: no room left");
/// ```
#[macro_export]
macro_rules! debug_is_message {
    ($($error:ty),+ $(,)?) => { $(
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    )+ };
}
