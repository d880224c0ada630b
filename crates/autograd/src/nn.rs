//! Layers and models.
//!
//! A model is a plain struct of tensors and layers with `#[derive(Module)]` and a method
//! `forward(&self, ..)` of any signature:
//!
//! ```standalone_crate
//! # extern crate samebits_autograd as samebits;
//! use samebits::nn::{self, Conv2d, Dropout, Flatten, Layer, Linear, MaxPool2d, Module, ReLU};
//! use samebits::{Result, Tensor, sequential};
//!
//! #[derive(Module)]
//! struct Net {
//!     features: nn::Sequential,
//!     dropout: Dropout,
//!     head: Linear,
//! }
//!
//! impl Net {
//!     fn new() -> Result<Net> {
//!         let conv = Conv2d::options(1, 8, 3).padding(1).init()?;
//!         Ok(Net {
//!             features: sequential![conv, ReLU, MaxPool2d::new(2), Flatten::default()],
//!             dropout: Dropout::new(0.25),
//!             head: Linear::new(8 * 4 * 4, 10)?,
//!         })
//!     }
//!
//!     fn forward(&self, images: &Tensor) -> Result<Tensor> {
//!         let x = self.features.forward(images)?;
//!         self.head.forward(&self.dropout.forward(&x)?)
//!     }
//! }
//!
//! samebits_tensor_core::random::manual_seed(0);
//! let model = Net::new()?;
//! let images = samebits::Tensor::ones(&[2, 1, 8, 8], samebits_tensor_core::DType::F32)?;
//! let evaluated = model.forward(&images)?; // dropout does nothing
//! let trained = nn::train(|| model.forward(&images))?; // dropout drops
//! assert_eq!(evaluated.shape(), trained.shape());
//! # Ok::<(), samebits::Error>(())
//! ```
//!
//! * **Construction.** `Linear::new(64, 10)?` has PyTorch's defaults. `Linear::options(64, 10)` has
//!   a setter for each option; its `init()?` builds the layer. Layers without tensors are set
//!   directly: `MaxPool2d::new(2).stride(1)`.
//! * **Random numbers**, both initial values and dropout masks, come from the generator given to
//!   [`draw_from`] or [`train_with`], else from this thread's default generator.
//! * **Ledgers** record a module's method as a layer if it is marked [`macro@layer`].
//! * **Training** is a scope, [`train`]; outside it, layers evaluate.
//! * **State that a layer changes** while it computes, for example running statistics, is behind a
//!   lock of its own, so `forward` takes `&self`. A clone does not share that state.

mod cell;
mod checkpoint;
mod gpt;
pub mod init;
mod layer;
mod layers;
pub(crate) mod module;
pub(crate) mod options;
mod place;
mod recurrent;
mod sequential;
mod summary;

pub use crate::scope::{draw_from, eval, is_training, train, train_with, with_generator};
pub use cell::TensorCell;
pub use checkpoint::{Checkpoint, checkpoint, checkpoint_all};
pub use gpt::{
    Finish, GenerateOptions, Generated, Gpt, GptActivation, GptAttention, GptBlock, GptFeedforward,
    GptNorm, GptNormKind, GptOptions, GptPositions, KvCache, NewToken, Prompt, Sampling,
};
pub use layer::{Tensors, computed_layer};
pub use layers::*;
pub use module::{IncompatibleKeys, Module, ModuleDict, ModuleList, join, parameter};
pub use options::{Padding, PerDim};
pub use recurrent::{
    CellOptions, GRU, GRUCell, LSTM, LSTMCell, Nonlinearity, RNN, RNNCell, RecurrentOptions,
};
pub use samebits_macros::{Module, layer};
pub use sequential::{Layer, Sequential};
pub use summary::{Kind, Summary};
