//! Random numbers that are the same on every device, for any number of threads, and from release
//! to release.
//!
//! The generator for arrays is [`Generator`], a position (seed, stream, offset) in the numbers of
//! Philox4x32-10. It is *addressed, not drawn from*: element *i* of an operation is a documented
//! function of the generator's position and of *i*, so an array can be filled in parallel, in
//! pieces or on a GPU and hold the same bits.
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
//! | for | there is |
//! |---|---|
//! | arrays, any device | [`Generator`]; [`Draw`] for one operation's numbers in pieces |
//! | one number | [`Generator::uniform`], [`Generator::below`], [`Generator::normal`] and more |
//! | some of many, an order too long to hold | [`Generator::choice`], [`Bijection`] |
//! | code that wants a [`rand_core::Rng`] | `Generator` itself, or [`Words`] over it; [`Pcg64`], [`Pcg64Dxsm`], [`Philox4x64`] |
//! | initial weights | [`init`] |
//! | the numbers that NumPy draws | [`numpy`] |
//! | the numbers that PyTorch draws | [`torch`] |
//!
//! # Promises
//!
//! Words, positions, splits, folds and saved states never change in any release. Distributions
//! change only together with
//! [`NUMERICS_VERSION`](samebits_numerics::NUMERICS_VERSION). Nothing reads the thread count, the
//! instruction set, the time or the environment.
#![forbid(unsafe_code)]

mod bijection;
mod choice;
mod draw;
mod dropout;
mod error;
mod explicit;
mod float;
mod generator;
pub mod init;
mod integer;
mod mt19937;
mod multinomial;
mod normal;
pub mod numpy;
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
pub use explicit::{explicit_only, is_explicit_only};
pub use float::Float;
pub use generator::Generator;
pub use integer::Integer;
pub use pcg::{Pcg64, Pcg64Dxsm};
pub use philox::Philox4x32;
pub use philox64::{Philox4x64, philox4x64};
pub use rejection::Count;
pub use words::Words;
