//! Layers.
//!
//! A layer is a plain struct that owns its parameters. It draws its first values, and whatever
//! it needs at random later, from a generator that it is given: nothing is hidden.

mod layers;
mod recurrent;

pub use layers::{
    AdaptiveAvgPool, AdaptiveMaxPool, AlphaDropout, AvgPool, BatchNorm, Conv1d, Conv2d, Conv3d,
    ConvNd, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, ConvTransposeNd, Dropout, Dropout1d,
    Dropout2d, Dropout3d, Embedding, EmbeddingBag, FeatureAlphaDropout, FractionalMaxPool,
    GroupNorm, InstanceNorm, LayerNorm, Linear, LpPool, MaxPool, MaxUnpool1d, MaxUnpool2d,
    MaxUnpool3d, MaxUnpoolNd, Pad, PixelShuffle, PixelUnshuffle, RunningStatistics, Upsample,
};
pub use recurrent::{Gru, Lstm, Nonlinearity, RecurrentOptions, Rnn};

use std::collections::BTreeMap;

use samebits_rng::Generator;
use samebits_tensor_core::rerun::same_bits;
use samebits_tensor_core::{Device, Error, Result};

use crate::Tensor;

/// What a forward pass needs besides its input.
#[derive(Debug)]
pub struct Context<'a> {
    /// True while training: dropout drops, batch normalisation uses the batch's statistics.
    pub training: bool,
    /// Where random numbers come from.
    pub generator: &'a mut Generator,
}

/// A part of a model.
pub trait Module {
    /// Computes the layer.
    ///
    /// # Errors
    ///
    /// The input does not fit the layer.
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor>;

    /// Calls `visit` for every tensor of the layer, in a fixed order, with `path` before its
    /// name.
    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>));

    /// The parameters by name, in visiting order.
    fn parameters(&mut self) -> Vec<(String, Tensor)> {
        let mut found = Vec::new();
        self.visit("", &mut |name, slot| {
            if let Slot::Parameter(var) = slot {
                found.push((name.to_owned(), var.clone()));
            }
        });
        found
    }

    /// Every tensor by name, in visiting order: parameters and running statistics.
    fn state(&mut self) -> Vec<(String, Tensor)> {
        let mut found = Vec::new();
        self.visit("", &mut |name, slot| {
            let tensor = match slot {
                Slot::Parameter(var) => var.detach(),
                Slot::Buffer(tensor) => tensor.clone(),
            };
            found.push((name.to_owned(), tensor));
        });
        found
    }

    /// Moves every parameter and buffer to `device`. Parameters become new variables; what layers
    /// share stays shared.
    ///
    /// # Errors
    ///
    /// [`Error::NoBackend`] if the device cannot be used, [`Error::Backend`] if it fails; the
    /// layer is unchanged then.
    fn to(&mut self, device: Device) -> Result<()> {
        let moved = self
            .state()
            .into_iter()
            .map(|(name, tensor)| Ok((name, tensor.to(device)?)))
            .collect::<Result<BTreeMap<String, Tensor>>>()?;
        self.load_state(&|name| moved.get(name).cloned())
    }

    /// Replaces every tensor by what `find` returns for its name. Nothing is replaced unless all
    /// are found and fit. What layers share stays shared.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`] if a tensor is missing or has another shape or type, or the tensors
    /// of a shared parameter differ.
    fn load_state(&mut self, find: &dyn Fn(&str) -> Option<Tensor>) -> Result<()> {
        let op = "load_state";
        for (name, old) in self.state() {
            let message = match find(&name) {
                None => format!("there is no tensor named {name}"),
                Some(new) if new.shape() != old.shape() || new.dtype() != old.dtype() => format!(
                    "{name} should be {} of shape {:?}, but is {} of shape {:?}",
                    old.dtype(),
                    old.shape(),
                    new.dtype(),
                    new.shape()
                ),
                Some(_) => continue,
            };
            return Err(Error::InvalidState { op, message });
        }
        let mut replaced: BTreeMap<u64, (String, Tensor)> = BTreeMap::new();
        for (name, old) in self.parameters() {
            let (Some(identity), Some(new)) = (old.identity(), find(&name)) else { continue };
            let (first, var) = replaced
                .entry(identity)
                .or_insert_with(|| (name.clone(), new.clone().set_requires_grad(true)));
            if *first != name && !same_bits(var.value(), new.value())? {
                let message =
                    format!("{first} and {name} are one parameter, but their tensors differ");
                return Err(Error::InvalidState { op, message });
            }
        }
        self.visit("", &mut |name, slot| match slot {
            Slot::Parameter(var) => {
                if let Some((_, new)) = var.identity().and_then(|old| replaced.get(&old)) {
                    *var = new.clone();
                }
            }
            Slot::Buffer(tensor) => {
                if let Some(new) = find(name) {
                    *tensor = new;
                }
            }
        });
        Ok(())
    }
}

/// A place in a layer that holds a tensor.
#[derive(Debug)]
pub enum Slot<'a> {
    /// A tensor that is trained.
    Parameter(&'a mut Tensor),
    /// A tensor that is kept but not trained.
    Buffer(&'a mut Tensor),
}

/// `path` and `name` with a dot between them.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
