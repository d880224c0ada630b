//! Counter-based and PCG random number generators with the same bits on every device.
#![forbid(unsafe_code)]

mod draw;
mod dropout;
mod error;
mod generator;
mod permutation;
mod philox;
mod state;
mod uniform;
mod words;

pub use draw::Draw;
pub use dropout::dropout_scale;
pub use error::Error;
pub use generator::Generator;
pub use philox::Philox4x32;
pub use words::Words;
