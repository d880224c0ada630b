//! Counter-based and PCG random number generators with the same bits on every device.
#![forbid(unsafe_code)]

mod draw;
mod dropout;
mod error;
mod generator;
pub mod init;
mod multinomial;
mod normal;
pub mod numpy;
mod pcg;
mod permutation;
mod philox;
mod philox64;
mod rejection;
mod state;
pub mod torch;
mod uniform;
mod wide;
mod words;

pub use draw::Draw;
pub use dropout::dropout_scale;
pub use error::Error;
pub use generator::Generator;
pub use pcg::{Pcg64, Pcg64Dxsm};
pub use philox::Philox4x32;
pub use philox64::{Philox4x64, philox4x64};
pub use rejection::Count;
pub use words::Words;
