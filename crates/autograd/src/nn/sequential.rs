use std::fmt::Debug;

use samebits_macros::layer;
use samebits_tensor_core::Result;

use super::layer::enter_child;
use super::{Kind, Module, join};
use crate::Tensor;

/// A module that maps one tensor to another.
pub trait Layer: Module {
    /// Computes the layer, in training mode if [`is_training`](super::is_training), else in
    /// evaluation mode.
    ///
    /// # Errors
    ///
    /// The input does not fit the layer.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (**self).forward(x)
    }
}

/// A chain of layers, applied in order. A clone has layers of its own.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::{Layer, Linear, Module, ReLU};
/// use samebits::{Tensor, sequential};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let model = sequential![Linear::new(4, 8)?, ReLU, Linear::new(8, 2)?];
/// assert_eq!(model.named_parameters()[2].0, "2.weight");
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[1, 4])?;
/// assert_eq!(model.forward(&x)?.shape(), [1, 2]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.Sequential`.
#[derive(Clone, Debug, Default)]
pub struct Sequential {
    layers: Vec<(String, Box<dyn Member>)>,
}

impl Sequential {
    /// Creates a `Sequential` without layers: the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// Adds `layer` at the end, named by its index.
    #[must_use]
    pub fn append(self, layer: impl Layer + Clone + Debug + Send + Sync + 'static) -> Sequential {
        let number = self.layers.len().to_string();
        self.add_module(&number, layer)
    }

    /// Adds `layer` at the end, under `name`.
    #[must_use]
    pub fn add_module(
        mut self,
        name: &str,
        layer: impl Layer + Clone + Debug + Send + Sync + 'static,
    ) -> Sequential {
        self.layers.push((name.to_owned(), Box::new(layer)));
        self
    }

    /// Returns the number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Returns whether there are no layers.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

impl Layer for Sequential {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let apply = |x: Tensor, (name, layer): &(String, Box<dyn Member>)| {
            let _child = enter_child(name);
            layer.forward(&x)
        };
        self.layers.iter().try_fold(x.clone(), apply)
    }
}

impl Module for Sequential {
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        for (name, layer) in &self.layers {
            layer.visit(&join(path, name), visit);
        }
    }

    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        for (name, layer) in &mut self.layers {
            layer.visit_mut(&join(path, name), visit);
        }
    }
}

/// The traits that a [`Sequential`] needs of its layers. `Clone` itself is not possible behind
/// `dyn`.
trait Member: Layer + Debug + Send + Sync {
    fn boxed(&self) -> Box<dyn Member>;
}

impl<L: Layer + Clone + Debug + Send + Sync + 'static> Member for L {
    fn boxed(&self) -> Box<dyn Member> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Member> {
    fn clone(&self) -> Box<dyn Member> {
        (**self).boxed()
    }
}

/// Creates a [`Sequential`](crate::nn::Sequential) of the listed layers.
#[macro_export]
macro_rules! sequential {
    ($($layer:expr),* $(,)?) => {
        $crate::nn::Sequential::new()$(.append($layer))*
    };
}
