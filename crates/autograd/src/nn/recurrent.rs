//! Recurrent layers.

mod cells;

pub use cells::{CellOptions, GRUCell, LSTMCell, RNNCell};

use std::marker::PhantomData;

use samebits_macros::layer;
use samebits_tensor_core::{Error, Result};

use super::layers::bound;
use super::options::{Place, init_with, place_setters, setters};
use super::{Kind, Module, is_training, join, with_generator};
use crate::Tensor;
use crate::functional::{self, PackedSequence, Stack, Weights};
use crate::memory::room;

/// The nonlinearity of an [`RNN`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nonlinearity {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
    /// `max(x, 0)`.
    Relu,
}

/// Options of a recurrent layer `L`.
#[derive(Clone, Debug)]
pub struct RecurrentOptions<L> {
    sizes: Sizes,
    nonlinearity: Nonlinearity,
    place: Place,
    layer: PhantomData<fn() -> L>,
}

/// Settings that the options and the layer share.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    input_size: usize,
    hidden_size: usize,
    num_layers: usize,
    bias: bool,
    batch_first: bool,
    dropout: f64,
    bidirectional: bool,
    proj_size: usize,
}

impl<L> RecurrentOptions<L> {
    fn new(input_size: usize, hidden_size: usize) -> RecurrentOptions<L> {
        let sizes = Sizes {
            input_size,
            hidden_size,
            num_layers: 1,
            bias: true,
            batch_first: false,
            dropout: 0.0,
            bidirectional: false,
            proj_size: 0,
        };
        let (nonlinearity, place) = (Nonlinearity::Tanh, Place::default());
        RecurrentOptions { sizes, nonlinearity, place, layer: PhantomData }
    }

    /// Sets the number of layers (default 1).
    #[must_use]
    pub fn num_layers(mut self, num_layers: usize) -> Self {
        self.sizes.num_layers = num_layers;
        self
    }

    /// Sets whether the layers have biases (default true).
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.sizes.bias = bias;
        self
    }

    /// Sets whether the input is `[n, steps, ..]` (true) or `[steps, n, ..]` (false, the default).
    #[must_use]
    pub fn batch_first(mut self, batch_first: bool) -> Self {
        self.sizes.batch_first = batch_first;
        self
    }

    /// Sets the probability of dropping an element between layers while training (default 0).
    #[must_use]
    pub fn dropout(mut self, dropout: f64) -> Self {
        self.sizes.dropout = dropout;
        self
    }

    /// Sets whether every layer also runs backward in time (default false).
    #[must_use]
    pub fn bidirectional(mut self, bidirectional: bool) -> Self {
        self.sizes.bidirectional = bidirectional;
        self
    }

    place_setters!();
}

impl RecurrentOptions<RNN> {
    setters! {
        /// Sets the nonlinearity of each step (default: the hyperbolic tangent).
        nonlinearity: Nonlinearity;
    }
}

impl RecurrentOptions<LSTM> {
    /// Sets the size that the hidden state is projected to (default: no projection).
    #[must_use]
    pub fn proj_size(mut self, proj_size: usize) -> Self {
        self.sizes.proj_size = proj_size;
        self
    }
}

impl Sizes {
    fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Returns the width of the hidden state.
    fn state_size(&self) -> usize {
        if self.proj_size > 0 { self.proj_size } else { self.hidden_size }
    }

    /// Draws weights and biases uniformly from ±1/√hidden, as PyTorch does.
    fn weights(&self, op: &'static str, gates: usize, place: Place) -> Result<Vec<Weights>> {
        if self.num_layers == 0 || !(0.0..=1.0).contains(&self.dropout) {
            return Err(Error::invalid(
                op,
                format!(
                    "expected at least one layer and a dropout in [0, 1], got {} and {}",
                    self.num_layers, self.dropout
                ),
            ));
        }
        if self.proj_size > 0 && self.proj_size >= self.hidden_size {
            return Err(Error::invalid(
                op,
                format!(
                    "expected a projection below the hidden size {}, got {}",
                    self.hidden_size, self.proj_size
                ),
            ));
        }
        let bound = bound(op, self.hidden_size)?;
        let draw = |shape: &[usize]| place.uniform(op, shape, bound);
        let rows = gates.saturating_mul(self.hidden_size);
        // Reserves room for all layers first, so a number that memory cannot hold fails before any
        // draw.
        let mut all = room(op, self.num_layers.saturating_mul(self.directions()))?;
        for layer in 0..self.num_layers {
            let later = self.state_size().saturating_mul(self.directions());
            let input = if layer == 0 { self.input_size } else { later };
            for _ in 0..self.directions() {
                all.push(Weights {
                    weight_ih: draw(&[rows, input])?,
                    weight_hh: draw(&[rows, self.state_size()])?,
                    bias_ih: self.bias.then(|| draw(&[rows])).transpose()?,
                    bias_hh: self.bias.then(|| draw(&[rows])).transpose()?,
                    weight_hr: (self.proj_size > 0)
                        .then(|| draw(&[self.proj_size, self.hidden_size]))
                        .transpose()?,
                });
            }
        }
        Ok(all)
    }

    /// Calls `run` with the settings of the stack, and with a generator if dropout needs one.
    fn stacked<R>(
        &self,
        op: &'static str,
        x: &Tensor,
        run: impl FnOnce(Stack<'_>) -> Result<R>,
    ) -> Result<R> {
        let Sizes { bidirectional, batch_first, .. } = *self;
        // Dropout applies between layers only.
        if !is_training() || self.dropout == 0.0 || self.num_layers == 1 {
            return run(Stack { bidirectional, batch_first, dropout: None });
        }
        with_generator(op, x.device(), |generator| {
            run(Stack { bidirectional, batch_first, dropout: Some((self.dropout, generator)) })
        })
    }

    /// Returns an initial state of zeros for `input`.
    fn zeros(&self, input: &Tensor, width: usize) -> Result<Tensor> {
        let layers = self.num_layers * self.directions();
        let shape = match *input.shape() {
            [n, _, _] if self.batch_first => vec![layers, n, width],
            [_, n, _] => vec![layers, n, width],
            _ => vec![layers, width],
        };
        zeros_like(input, &shape)
    }

    fn packed_zeros(&self, input: &PackedSequence, width: usize) -> Result<Tensor> {
        let shape = [self.num_layers * self.directions(), input.lengths().len(), width];
        zeros_like(input.data(), &shape)
    }

    /// Returns the name of a layer's tensor: `weight_ih` becomes `weight_ih_l0` or
    /// `weight_ih_l0_reverse`.
    fn named(&self, path: &str, i: usize, name: &str) -> String {
        let directions = self.directions();
        let reverse = if i % directions == 1 { "_reverse" } else { "" };
        join(path, &format!("{name}_l{}{reverse}", i / directions))
    }
}

/// A plain recurrent network (Elman RNN).
///
/// # References
///
/// `torch.nn.RNN`.
#[derive(Clone, Debug)]
pub struct RNN {
    /// The weights, by layer and direction.
    pub weights: Vec<Weights>,
    sizes: Sizes,
    nonlinearity: Nonlinearity,
}

impl RNN {
    /// Returns the outputs of all steps and the last states. A missing initial state is zero.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(&self, input: &Tensor, h0: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let h0 = given_or(h0, || self.sizes.zeros(input, self.sizes.hidden_size))?;
        let function = match self.nonlinearity {
            Nonlinearity::Tanh => functional::rnn_tanh,
            Nonlinearity::Relu => functional::rnn_relu,
        };
        self.sizes.stacked("RNN", input, |stack| function(input, &h0, &self.weights, stack))
    }

    /// Computes [`forward`](RNN::forward) for packed sequences.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward_packed(
        &self,
        input: &PackedSequence,
        h0: Option<&Tensor>,
    ) -> Result<(PackedSequence, Tensor)> {
        let h0 = given_or(h0, || self.sizes.packed_zeros(input, self.sizes.hidden_size))?;
        let function = match self.nonlinearity {
            Nonlinearity::Tanh => functional::rnn_tanh_packed,
            Nonlinearity::Relu => functional::rnn_relu_packed,
        };
        let run = |stack: Stack<'_>| function(input, &h0, &self.weights, stack);
        self.sizes.stacked("RNN", input.data(), run)
    }
}

/// A network of gated recurrent units.
///
/// # References
///
/// `torch.nn.GRU`.
#[derive(Clone, Debug)]
pub struct GRU {
    /// The weights, by layer and direction.
    pub weights: Vec<Weights>,
    sizes: Sizes,
}

impl GRU {
    /// Returns the outputs of all steps and the last states. A missing initial state is zero.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(&self, input: &Tensor, h0: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let h0 = given_or(h0, || self.sizes.zeros(input, self.sizes.hidden_size))?;
        let run = |stack: Stack<'_>| functional::gru(input, &h0, &self.weights, stack);
        self.sizes.stacked("GRU", input, run)
    }

    /// Computes [`forward`](GRU::forward) for packed sequences.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward_packed(
        &self,
        input: &PackedSequence,
        h0: Option<&Tensor>,
    ) -> Result<(PackedSequence, Tensor)> {
        let h0 = given_or(h0, || self.sizes.packed_zeros(input, self.sizes.hidden_size))?;
        let run = |stack: Stack<'_>| functional::gru_packed(input, &h0, &self.weights, stack);
        self.sizes.stacked("GRU", input.data(), run)
    }
}

/// A long short-term memory network.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::LSTM;
/// use samebits_tensor_core::DType;
///
/// samebits_tensor_core::random::manual_seed(0);
/// let lstm = LSTM::options(3, 4).num_layers(2).batch_first(true).init()?;
/// let x = Tensor::ones(&[5, 7, 3], DType::F32)?;
/// let (output, (h, c)) = lstm.forward(&x, None)?;
/// assert_eq!(output.shape(), [5, 7, 4]);
/// assert_eq!((h.shape(), c.shape()), (&[2, 5, 4][..], &[2, 5, 4][..]));
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.LSTM`.
#[derive(Clone, Debug)]
pub struct LSTM {
    /// The weights, by layer and direction.
    pub weights: Vec<Weights>,
    sizes: Sizes,
}

impl LSTM {
    /// Returns the outputs of all steps and the last hidden and cell states. A missing initial
    /// state is zero.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(
        &self,
        input: &Tensor,
        state: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        let (h0, c0) = state.unzip();
        let h0 = given_or(h0, || self.sizes.zeros(input, self.sizes.state_size()))?;
        let c0 = given_or(c0, || self.sizes.zeros(input, self.sizes.hidden_size))?;
        let run = |stack: Stack<'_>| functional::lstm(input, &h0, &c0, &self.weights, stack);
        let (output, h, c) = self.sizes.stacked("LSTM", input, run)?;
        Ok((output, (h, c)))
    }

    /// Computes [`forward`](LSTM::forward) for packed sequences.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward_packed(
        &self,
        input: &PackedSequence,
        state: Option<(&Tensor, &Tensor)>,
    ) -> Result<(PackedSequence, (Tensor, Tensor))> {
        let (h0, c0) = state.unzip();
        let h0 = given_or(h0, || self.sizes.packed_zeros(input, self.sizes.state_size()))?;
        let c0 = given_or(c0, || self.sizes.packed_zeros(input, self.sizes.hidden_size))?;
        let run = |stack: Stack<'_>| functional::lstm_packed(input, &h0, &c0, &self.weights, stack);
        let (output, h, c) = self.sizes.stacked("LSTM", input.data(), run)?;
        Ok((output, (h, c)))
    }
}

macro_rules! layers {
    ($($layer:ident $gates:literal { $($more:ident),* })*) => { $(
        impl $layer {
            /// Creates a network of one layer, with weights and biases drawn uniformly from
            /// ±1/√hidden, as PyTorch does.
            ///
            /// # Errors
            ///
            /// `hidden_size` is 0, memory runs out, or there is no generator to draw from.
            pub fn new(input_size: usize, hidden_size: usize) -> Result<$layer> {
                $layer::options(input_size, hidden_size).init()
            }

            /// Returns options for a network, starting from PyTorch's defaults.
            pub fn options(input_size: usize, hidden_size: usize) -> RecurrentOptions<$layer> {
                RecurrentOptions::new(input_size, hidden_size)
            }
        }

        impl RecurrentOptions<$layer> {
            init_with!($layer);

            /// Builds the network.
            ///
            /// # Errors
            ///
            /// There is no layer or `hidden_size` is 0, an option is out of range, memory runs out,
            /// or there is no generator to draw from.
            pub fn init(&self) -> Result<$layer> {
                let weights = self.sizes.weights(stringify!($layer), $gates, self.place)?;
                Ok($layer { weights, sizes: self.sizes, $($more: self.$more),* })
            }
        }

        impl Module for $layer {
            fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
                for (i, weights) in self.weights.iter().enumerate() {
                    weights.visit("", &mut |name, kind, tensor| {
                        visit(&self.sizes.named(path, i, name), kind, tensor);
                    });
                }
            }

            fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
                for (i, weights) in self.weights.iter_mut().enumerate() {
                    weights.visit_mut("", &mut |name, kind, tensor| {
                        visit(&self.sizes.named(path, i, name), kind, tensor);
                    });
                }
            }
        }
    )* };
}

layers! {
    RNN 1 { nonlinearity }
    GRU 3 {}
    LSTM 4 {}
}

fn given_or(given: Option<&Tensor>, make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    given.map_or_else(make, |given| Ok(given.clone()))
}

fn zeros_like(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let zero = Tensor::zeros(&[], x.dtype())?.to(x.device())?;
    functional::expand(&zero, shape)
}
