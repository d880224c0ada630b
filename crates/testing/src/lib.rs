//! Assertions for the tests of reproducible programs. A dev-dependency.
//!
//! | item | assertion or result |
//! |---|---|
//! | [`assert_same_bits!`] | two tensors or slices have the same shape, type and bits; reports the first difference |
//! | [`assert_reproducible`] | a function gives the same bits in every setting; reports the first operation that differs |
//! | [`listing`] | digests of named tensors, one per line, for snapshots |
//! | [`Setting`] | device, threads, instruction set and contention, which must not change any bit |
//!
//! ```
//! use samebits::{Tensor, manual_seed, randn};
//! use samebits_testing::{assert_reproducible, assert_same_bits, listing};
//!
//! let product = || {
//!     manual_seed(7);
//!     randn(&[40, 50])?.matmul(&randn(&[50, 30])?)
//! };
//! assert_reproducible(product);
//!
//! let y = product()?;
//! assert_same_bits!(y, product()?);
//! assert_eq!(listing([("y", &y)])?, "17ed26d1e023e1d1  f32 [40, 30]  y\n");
//! # Ok::<(), samebits::Error>(())
//! ```
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

mod bits;
mod reproducible;
mod setting;
mod trace;

pub use bits::{Bits, Difference, Extent, Place, compare};
pub use reproducible::{NotReproducible, Results, assert_reproducible, check_reproducible};
pub use samebits::ThreadsMissing;
pub use setting::Setting;
pub use trace::{Cause, Parting};

use std::borrow::Borrow;

use samebits::{Result, Tensor};

/// Asserts that two tensors, slices or vectors have the same shape, element type and bits.
///
/// # Panics
///
/// If they differ. The message gives the number of different elements, the first of them, and the
/// largest distance, for floats in units in the last place. As with [`assert_eq!`], a custom
/// message may follow.
///
/// # Examples
///
/// ```should_panic
/// let found = [1.0f32, 2.0, 3.0f32.next_up()];
/// // 1 of 3 elements of f32 [3] differ, first at [2]: 3.0 (40400000) and 3.0000002 (40400001), 1 ulp
/// samebits_testing::assert_same_bits!([1.0f32, 2.0, 3.0], found);
/// ```
#[macro_export]
macro_rules! assert_same_bits {
    ($left:expr, $right:expr $(,)?) => {
        match $crate::compare(&$left, &$right) {
            Ok(()) => {}
            Err(difference) => panic!("`{}` and `{}`: {difference}", stringify!($left), stringify!($right)),
        }
    };
    ($left:expr, $right:expr, $($message:tt)+) => {
        match $crate::compare(&$left, &$right) {
            Ok(()) => {}
            Err(difference) => panic!("{}: {difference}", format_args!($($message)+)),
        }
    };
}

/// Lists one line per tensor: the first 16 digits of its digest, its type and shape, and its name.
/// A snapshot of the list covers all of their bits.
///
/// # Errors
///
/// If a device fails to return a tensor.
pub fn listing(
    tensors: impl IntoIterator<Item = (impl AsRef<str>, impl Borrow<Tensor>)>,
) -> Result<String> {
    let mut lines = String::new();
    for (name, tensor) in tensors {
        let (name, tensor) = (name.as_ref(), tensor.borrow());
        let digest = &samebits::digest([("", tensor)])?[..16];
        lines += &format!("{digest}  {} {:?}  {name}\n", tensor.dtype().name(), tensor.shape());
    }
    Ok(lines)
}
