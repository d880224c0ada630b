//! Recurrent cells: one step of a recurrent layer.

use std::marker::PhantomData;

use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;

use super::{GRU, LSTM, Nonlinearity, RNN, RecurrentOptions, given_or, zeros_like};
use crate::Tensor;
use crate::functional::{self, Stack, Weights};
use crate::nn::options::{Place, init_with, place_setters, setters};

/// Options of a recurrent cell `C`.
#[derive(Clone, Debug)]
pub struct CellOptions<C> {
    input_size: usize,
    hidden_size: usize,
    bias: bool,
    nonlinearity: Nonlinearity,
    place: Place,
    cell: PhantomData<fn() -> C>,
}

impl<C> CellOptions<C> {
    setters! {
        /// Sets whether the cell has biases (default true).
        bias: bool;
    }
    place_setters!();

    /// Draws the weights of one layer of network `L`.
    fn weights<L>(&self, op: &'static str, gates: usize) -> Result<Weights> {
        let layer = RecurrentOptions::<L>::new(self.input_size, self.hidden_size).bias(self.bias);
        Ok(layer.sizes.weights(op, gates, self.place)?.remove(0))
    }
}

impl CellOptions<RNNCell> {
    setters! {
        /// Sets the nonlinearity of the step (default: the hyperbolic tangent).
        nonlinearity: Nonlinearity;
    }
}

macro_rules! cells {
    ($(
        $(#[$doc:meta])*
        $cell:ident of $layer:ident, $gates:literal $({ $($(#[$field_doc:meta])* $field:ident: $ty:ty),* })?;
    )*) => { $(
        $(#[$doc])*
        ///
        /// # References
        ///
        #[doc = concat!("`torch.nn.", stringify!($cell), "`.")]
        #[derive(Clone, Debug, Module)]
        pub struct $cell {
            /// The weights and biases.
            #[module(flatten)]
            pub weights: Weights,
            $($($(#[$field_doc])* $field: $ty,)*)?
        }

        impl $cell {
            /// Creates a cell with weights and biases drawn uniformly from ±1/√hidden, as PyTorch
            /// does.
            ///
            /// # Errors
            ///
            /// `hidden_size` is 0, memory runs out, or there is no generator to draw from.
            pub fn new(input_size: usize, hidden_size: usize) -> Result<$cell> {
                $cell::options(input_size, hidden_size).init()
            }

            /// Returns options for a cell, starting from PyTorch's defaults.
            pub fn options(input_size: usize, hidden_size: usize) -> CellOptions<$cell> {
                CellOptions {
                    input_size,
                    hidden_size,
                    bias: true,
                    nonlinearity: Nonlinearity::Tanh,
                    place: Place::default(),
                    cell: PhantomData,
                }
            }

            /// Returns the state `given`, or zeros, with a leading dimension for the layer.
            fn state(&self, x: &Tensor, given: Option<&Tensor>) -> Result<Tensor> {
                let hidden = self.weights.weight_hh.value().size(stringify!($cell), 1)?;
                let outer = &x.shape()[..x.rank().saturating_sub(1)];
                given_or(given, || zeros_like(x, &[outer, &[hidden]].concat()))?.unsqueeze(0)
            }
        }

        impl CellOptions<$cell> {
            init_with!($cell);

            /// Builds the cell.
            ///
            /// # Errors
            ///
            /// `hidden_size` is 0, memory runs out, or there is no generator to draw from.
            pub fn init(&self) -> Result<$cell> {
                let weights = self.weights::<$layer>(stringify!($cell), $gates)?;
                Ok($cell { weights, $($($field: self.$field,)*)? })
            }
        }
    )* };
}

cells! {
    /// A step of an [`RNN`].
    RNNCell of RNN, 1 { #[module(skip)] nonlinearity: Nonlinearity };
    /// A step of a [`GRU`].
    GRUCell of GRU, 3;
    /// A step of an [`LSTM`].
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate samebits_autograd as samebits;
    /// use samebits::nn::LSTMCell;
    /// use samebits::{DType, Tensor};
    ///
    /// samebits_tensor_core::random::manual_seed(0);
    /// let cell = LSTMCell::new(3, 4)?;
    /// let x = Tensor::ones(&[5, 3], DType::F32)?;
    /// let (h, c) = cell.forward(&x, None)?;
    /// let (h, _) = cell.forward(&x, Some((&h, &c)))?;
    /// assert_eq!(h.shape(), [5, 4]);
    /// # Ok::<(), samebits::Error>(())
    /// ```
    LSTMCell of LSTM, 4;
}

impl RNNCell {
    /// Returns the next state. A missing state is zero.
    ///
    /// # Shapes
    ///
    /// `x` is `[n, input]` and the states are `[n, hidden]`; all may omit `n`.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(&self, x: &Tensor, h: Option<&Tensor>) -> Result<Tensor> {
        let function = match self.nonlinearity {
            Nonlinearity::Tanh => functional::rnn_tanh,
            Nonlinearity::Relu => functional::rnn_relu,
        };
        let run = || {
            let weights = std::slice::from_ref(&self.weights);
            function(&x.unsqueeze(0)?, &self.state(x, h)?, weights, Stack::default())?.1.squeeze(0)
        };
        run().map_err(|error| error.called("RNNCell"))
    }
}

impl GRUCell {
    /// Returns the next state. A missing state is zero.
    ///
    /// # Shapes
    ///
    /// As [`RNNCell::forward`].
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(&self, x: &Tensor, h: Option<&Tensor>) -> Result<Tensor> {
        let run = || {
            let weights = std::slice::from_ref(&self.weights);
            let h = self.state(x, h)?;
            functional::gru(&x.unsqueeze(0)?, &h, weights, Stack::default())?.1.squeeze(0)
        };
        run().map_err(|error| error.called("GRUCell"))
    }
}

impl LSTMCell {
    /// Returns the next hidden and cell states. A missing state is zero.
    ///
    /// # Shapes
    ///
    /// As [`RNNCell::forward`].
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(
        &self,
        x: &Tensor,
        state: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, Tensor)> {
        let (h, c) = state.unzip();
        let run = || -> Result<(Tensor, Tensor)> {
            let weights = std::slice::from_ref(&self.weights);
            let (h, c) = (self.state(x, h)?, self.state(x, c)?);
            let x = x.unsqueeze(0)?;
            let (_, h, c) = functional::lstm(&x, &h, &c, weights, Stack::default())?;
            Ok((h.squeeze(0)?, c.squeeze(0)?))
        };
        run().map_err(|error| error.called("LSTMCell"))
    }
}
