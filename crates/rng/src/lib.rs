//! Counter-based and PCG random number generators with the same bits on every device.
#![forbid(unsafe_code)]

mod error;
mod generator;
mod philox;
mod state;
mod words;

pub use error::Error;
pub use generator::Generator;
pub use philox::Philox4x32;
pub use words::Words;
