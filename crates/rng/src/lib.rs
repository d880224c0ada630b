//! Random numbers that are the same on every device, for any number of threads, and in every
//! release.
//!
//! The generator for arrays is [`Generator`], a position (seed, stream, offset) in the numbers of
//! Philox4x32-10. Its numbers are *addressed, not drawn*: element *i* of an operation is a
//! documented function of the generator's position and of *i*. An array filled in parallel, in
//! pieces or on a GPU therefore holds the same bits.
//!
//! ```
//! use samebits_rng::Generator;
//!
//! let mut generator = Generator::new(42);
//! let mut weights = vec![0.0; 1000];
//! generator.fill_normal_f32(&mut weights, 0.0, 0.02)?;
//! let order = generator.permutation(100)?;
//!
//! // A worker's generator depends on its number alone, not on who drew what before.
//! let mut worker = Generator::new(42).fold_in(3);
//! worker.fill_normal_f32(&mut weights[..10], 0.0, 1.0)?;
//! # assert_eq!(order.len(), 100);
//! # Ok::<(), samebits_rng::Error>(())
//! ```
//!
//! | purpose | items |
//! |---|---|
//! | arrays, any device | [`Generator`]; [`Draw`] for one operation's numbers in pieces |
//! | one number | [`Generator::uniform`], [`Generator::below`], [`Generator::normal`] and more |
//! | sampling without replacement, an order too long to hold | [`Generator::choice`], [`Bijection`] |
//! | code that expects a [`rand_core::Rng`] | `Generator` itself, or [`Words`] over it; [`Pcg64`], [`Pcg64Dxsm`], [`Philox4x64`] |
//! | initial weights | [`init`] |
//! | NumPy's numbers | [`numpy`] |
//! | PyTorch's numbers | [`torch`] |
//!
//! # Promises
//!
//! Words, positions, splits, folds and saved states never change in any release. Distributions
//! change only together with [`NUMERICS_VERSION`](samebits_numerics::NUMERICS_VERSION). No value
//! depends on the thread count, the instruction set, the time or the environment.
//!
//! # Comparison
//!
//! Choose [`rand`](https://docs.rs/rand) if values need not be reproducible over time: its `StdRng`
//! and many of its distributions may change their values between releases, and each thread needs a
//! separate generator. It is faster for single numbers, and `rand_distr` has more distributions;
//! both work with the generators of this crate. NumPy's and JAX's streams are as stable as these.
//! NumPy's streams are sequential and cannot be filled in parallel; JAX's keys are counter-based as
//! the positions here, but need XLA. [`numpy`] and [`torch`] reproduce the numbers of those two
//! libraries, for the distributions that they list.
//!
//! # Features
//!
//! | feature | effect |
//! |---|---|
//! | `std` (default) | the processor's floating-point operations and instruction sets, found at run time; [`explicit_only`] |
//! | `rayon` | all threads of rayon's pool fill arrays |
//! | `serde` | generators can be serialised |
//! | `mmap` | permutations of millions keep their working memory in large pages |
//!
//! No feature changes a bit. Without features, the crate needs only `core` and `alloc` and builds
//! for targets without an operating system.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(
    not(feature = "std"),
    allow(
        unused_imports,
        reason = "if another crate uses `numerics` with std, f64 has the methods of `Ieee`"
    )
)]
#![forbid(unsafe_code)]

extern crate alloc;

mod bijection;
mod buffer;
mod choice;
mod draw;
mod dropout;
mod error;
#[cfg(feature = "std")]
mod explicit;
mod float;
mod gamma;
mod generator;
pub mod init;
mod integer;
mod mt19937;
mod multinomial;
mod normal;
pub mod numpy;
mod parallel;
mod pcg;
mod permutation;
mod philox;
mod philox64;
mod quantile;
mod rejection;
mod rng;
mod scalar;
mod state;
pub mod torch;
mod uniform;
mod wide;
mod words;

pub use bijection::Bijection;
pub use draw::Draw;
pub use dropout::dropout_scale;
pub use error::Error;
#[cfg(feature = "std")]
pub use explicit::{explicit_only, is_explicit_only};
pub use float::Float;
pub use generator::Generator;
pub use integer::Integer;
pub use pcg::{Pcg64, Pcg64Dxsm};
pub use philox::Philox4x32;
pub use philox64::{Philox4x64, philox4x64};
pub use rejection::Count;
pub use words::Words;
