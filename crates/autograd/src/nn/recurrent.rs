//! Recurrent layers.

use samebits_rng::Generator;
use samebits_tensor_core::{Error, Result};

use super::layers::{bound, uniform};
use super::{Context, Module, Slot, join};
use crate::Tensor;
use crate::functional::{self, PackedSequence, Stack, Weights};

/// The sizes and options of a recurrent network, under PyTorch's names.
#[derive(Clone, Debug)]
pub struct RecurrentOptions {
    /// The width of the input.
    pub input_size: usize,
    /// The number of units of each layer.
    pub hidden_size: usize,
    /// The number of layers.
    pub num_layers: usize,
    /// Whether there are biases.
    pub bias: bool,
    /// Whether the input is `[n, steps, ..]` and not `[steps, n, ..]`.
    pub batch_first: bool,
    /// The probability of dropping an element between layers while training.
    pub dropout: f64,
    /// Whether every layer also runs backward.
    pub bidirectional: bool,
    /// The width that an LSTM's hidden state is projected to; 0 for no projection.
    pub proj_size: usize,
}

impl RecurrentOptions {
    /// One layer with biases, and PyTorch's defaults otherwise.
    pub fn new(input_size: usize, hidden_size: usize) -> RecurrentOptions {
        RecurrentOptions {
            input_size,
            hidden_size,
            num_layers: 1,
            bias: true,
            batch_first: false,
            dropout: 0.0,
            bidirectional: false,
            proj_size: 0,
        }
    }

    fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// The width of the hidden state.
    fn state_size(&self) -> usize {
        if self.proj_size > 0 { self.proj_size } else { self.hidden_size }
    }

    /// Weights and biases uniform in ±1/√hidden, as PyTorch draws them.
    fn weights(
        &self,
        layer: &'static str,
        gates: usize,
        generator: &mut Generator,
    ) -> Result<Vec<Weights>> {
        if self.num_layers == 0 || !(0.0..=1.0).contains(&self.dropout) {
            return Err(Error::invalid(
                layer,
                format!(
                    "expected at least one layer and a dropout in [0, 1], got {} and {}",
                    self.num_layers, self.dropout
                ),
            ));
        }
        if self.proj_size > 0 && (gates != 4 || self.proj_size >= self.hidden_size) {
            return Err(Error::invalid(
                layer,
                format!(
                    "a projection to {} is for an LSTM with more than that many units, got {}",
                    self.proj_size, self.hidden_size
                ),
            ));
        }
        let bound = bound(self.hidden_size, layer)?;
        let rows = gates * self.hidden_size;
        let mut all = Vec::new();
        for layer in 0..self.num_layers {
            let input =
                if layer == 0 { self.input_size } else { self.state_size() * self.directions() };
            for _ in 0..self.directions() {
                let mut draw = |shape: &[usize]| uniform(shape, bound, generator);
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

    fn stack<'a>(&self, context: &'a mut Context<'_>) -> Stack<'a> {
        let drops = context.training && self.dropout > 0.0;
        Stack {
            bidirectional: self.bidirectional,
            batch_first: self.batch_first,
            dropout: drops.then_some((self.dropout, &mut *context.generator)),
        }
    }

    /// A first state of zeros for `input`.
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

    fn visit(&self, weights: &mut [Weights], path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        let directions = self.directions();
        for (i, weights) in weights.iter_mut().enumerate() {
            let reverse = if i % directions == 1 { "_reverse" } else { "" };
            let name = |what: &str| join(path, &format!("{what}_l{}{reverse}", i / directions));
            visit(&name("weight_ih"), Slot::Parameter(&mut weights.weight_ih));
            visit(&name("weight_hh"), Slot::Parameter(&mut weights.weight_hh));
            let rest = [
                ("bias_ih", &mut weights.bias_ih),
                ("bias_hh", &mut weights.bias_hh),
                ("weight_hr", &mut weights.weight_hr),
            ];
            for (what, parameter) in rest {
                if let Some(parameter) = parameter {
                    visit(&name(what), Slot::Parameter(parameter));
                }
            }
        }
    }
}

/// The nonlinearity of an [`Rnn`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nonlinearity {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
    /// `max(x, 0)`.
    Relu,
}

/// A plain recurrent network.
#[derive(Clone, Debug)]
pub struct Rnn {
    /// Those of each direction of each layer.
    pub weights: Vec<Weights>,
    /// Sizes and options.
    pub options: RecurrentOptions,
    /// What each step applies.
    pub nonlinearity: Nonlinearity,
}

impl Rnn {
    /// Weights and biases uniform in ±1/√hidden, as PyTorch draws them.
    ///
    /// # Errors
    ///
    /// There is no layer or no unit, or an option is out of range.
    pub fn new(
        options: RecurrentOptions,
        nonlinearity: Nonlinearity,
        generator: &mut Generator,
    ) -> Result<Rnn> {
        let weights = options.weights("Rnn", 1, generator)?;
        Ok(Rnn { weights, options, nonlinearity })
    }

    /// The outputs of all steps and the last states, from a first state (zero if missing).
    ///
    /// # Errors
    ///
    /// The shapes do not go together.
    pub fn run(
        &self,
        input: &Tensor,
        h0: Option<&Tensor>,
        context: &mut Context<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let h0 = given_or(h0, || self.options.zeros(input, self.options.hidden_size))?;
        let function = match self.nonlinearity {
            Nonlinearity::Tanh => functional::rnn_tanh,
            Nonlinearity::Relu => functional::rnn_relu,
        };
        function(input, &h0, &self.weights, self.options.stack(context))
    }

    /// [`run`](Rnn::run) for packed sequences.
    ///
    /// # Errors
    ///
    /// The shapes do not go together.
    pub fn run_packed(
        &self,
        input: &PackedSequence,
        h0: Option<&Tensor>,
        context: &mut Context<'_>,
    ) -> Result<(PackedSequence, Tensor)> {
        let h0 = given_or(h0, || self.options.packed_zeros(input, self.options.hidden_size))?;
        let function = match self.nonlinearity {
            Nonlinearity::Tanh => functional::rnn_tanh_packed,
            Nonlinearity::Relu => functional::rnn_relu_packed,
        };
        function(input, &h0, &self.weights, self.options.stack(context))
    }
}

/// Gated recurrent units.
#[derive(Clone, Debug)]
pub struct Gru {
    /// Those of each direction of each layer.
    pub weights: Vec<Weights>,
    /// Sizes and options.
    pub options: RecurrentOptions,
}

impl Gru {
    /// Weights and biases uniform in ±1/√hidden, as PyTorch draws them.
    ///
    /// # Errors
    ///
    /// There is no layer or no unit, or an option is out of range.
    pub fn new(options: RecurrentOptions, generator: &mut Generator) -> Result<Gru> {
        let weights = options.weights("Gru", 3, generator)?;
        Ok(Gru { weights, options })
    }

    /// The outputs of all steps and the last states, from a first state (zero if missing).
    ///
    /// # Errors
    ///
    /// The shapes do not go together.
    pub fn run(
        &self,
        input: &Tensor,
        h0: Option<&Tensor>,
        context: &mut Context<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let h0 = given_or(h0, || self.options.zeros(input, self.options.hidden_size))?;
        functional::gru(input, &h0, &self.weights, self.options.stack(context))
    }

    /// [`run`](Gru::run) for packed sequences.
    ///
    /// # Errors
    ///
    /// The shapes do not go together.
    pub fn run_packed(
        &self,
        input: &PackedSequence,
        h0: Option<&Tensor>,
        context: &mut Context<'_>,
    ) -> Result<(PackedSequence, Tensor)> {
        let h0 = given_or(h0, || self.options.packed_zeros(input, self.options.hidden_size))?;
        functional::gru_packed(input, &h0, &self.weights, self.options.stack(context))
    }
}

/// Long short-term memories.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::nn::{Context, Lstm, RecurrentOptions};
/// use samebits_rng::Generator;
/// use samebits_tensor_core::DType;
///
/// let mut generator = Generator::new(0);
/// let options = RecurrentOptions { num_layers: 2, ..RecurrentOptions::new(3, 4) };
/// let lstm = Lstm::new(options, &mut generator)?;
/// let x = Tensor::ones(&[5, 2, 3], DType::F32)?;
/// let mut context = Context { training: false, generator: &mut generator };
/// let (output, (h, c)) = lstm.run(&x, None, &mut context)?;
/// assert_eq!(output.shape(), [5, 2, 4]);
/// assert_eq!((h.shape(), c.shape()), (&[2, 2, 4][..], &[2, 2, 4][..]));
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lstm {
    /// Those of each direction of each layer.
    pub weights: Vec<Weights>,
    /// Sizes and options.
    pub options: RecurrentOptions,
}

impl Lstm {
    /// Weights and biases uniform in ±1/√hidden, as PyTorch draws them.
    ///
    /// # Errors
    ///
    /// There is no layer or no unit, or an option is out of range.
    pub fn new(options: RecurrentOptions, generator: &mut Generator) -> Result<Lstm> {
        let weights = options.weights("Lstm", 4, generator)?;
        Ok(Lstm { weights, options })
    }

    /// The outputs of all steps and the last hidden and cell states, from first ones (zero if
    /// missing).
    ///
    /// # Errors
    ///
    /// The shapes do not go together.
    pub fn run(
        &self,
        input: &Tensor,
        state: Option<(&Tensor, &Tensor)>,
        context: &mut Context<'_>,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        let (h0, c0) = state.unzip();
        let h0 = given_or(h0, || self.options.zeros(input, self.options.state_size()))?;
        let c0 = given_or(c0, || self.options.zeros(input, self.options.hidden_size))?;
        let stack = self.options.stack(context);
        let (output, h, c) = functional::lstm(input, &h0, &c0, &self.weights, stack)?;
        Ok((output, (h, c)))
    }

    /// [`run`](Lstm::run) for packed sequences.
    ///
    /// # Errors
    ///
    /// The shapes do not go together.
    pub fn run_packed(
        &self,
        input: &PackedSequence,
        state: Option<(&Tensor, &Tensor)>,
        context: &mut Context<'_>,
    ) -> Result<(PackedSequence, (Tensor, Tensor))> {
        let (h0, c0) = state.unzip();
        let h0 = given_or(h0, || self.options.packed_zeros(input, self.options.state_size()))?;
        let c0 = given_or(c0, || self.options.packed_zeros(input, self.options.hidden_size))?;
        let stack = self.options.stack(context);
        let (output, h, c) = functional::lstm_packed(input, &h0, &c0, &self.weights, stack)?;
        Ok((output, (h, c)))
    }
}

macro_rules! module {
    ($($layer:ident)*) => {
        $(
            /// The outputs of all steps from first states of zeros.
            impl Module for $layer {
                fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
                    Ok(self.run(x, None, context)?.0)
                }

                fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
                    self.options.visit(&mut self.weights, path, visit);
                }
            }
        )*
    };
}

module! { Rnn Gru Lstm }

fn given_or(given: Option<&Tensor>, make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    given.map_or_else(make, |given| Ok(given.clone()))
}

fn zeros_like(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let zero = Tensor::zeros(&[], x.dtype())?.to(x.device())?;
    zero.expand(shape)
}
