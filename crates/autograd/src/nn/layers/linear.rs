use samebits_macros::{Module, layer};
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{Error, Result};

use super::bound;
use crate::nn::Layer;
use crate::nn::options::{Place, init_with, place_setters, setters};
use crate::{Tensor, functional};

/// A fully connected layer: `x · weightᵀ + bias`.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::Linear;
/// use samebits_rng::Generator;
///
/// samebits_tensor_core::random::manual_seed(0);
/// let layer = Linear::new(64, 10)?;
/// assert_eq!(layer.weight.shape(), [10, 64]);
/// let projection = Linear::options(64, 10).bias(false).init_with(&mut Generator::new(7))?;
/// assert!(projection.bias.is_none());
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.Linear`.
#[derive(Clone, Debug, Module)]
pub struct Linear {
    /// The weight, `[out, in]`.
    pub weight: Tensor,
    /// The bias, `[out]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// Creates a layer with weight and bias drawn uniformly from ±1/√in, as PyTorch does.
    ///
    /// # Errors
    ///
    /// `in_features` is 0, memory runs out, or there is no generator to draw from.
    pub fn new(in_features: usize, out_features: usize) -> Result<Linear> {
        Linear::options(in_features, out_features).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(in_features: usize, out_features: usize) -> LinearOptions {
        LinearOptions { in_features, out_features, bias: true, place: Place::default() }
    }
}

impl Layer for Linear {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::linear(x, &self.weight, self.bias.as_ref())
    }
}

/// Options of a [`Linear`] layer.
#[derive(Clone, Debug)]
pub struct LinearOptions {
    in_features: usize,
    out_features: usize,
    bias: bool,
    place: Place,
}

impl LinearOptions {
    setters! {
        /// Sets whether the layer has a bias (default true).
        bias: bool;
    }
    place_setters!();
    init_with!(Linear);

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// As [`Linear::new`].
    pub fn init(&self) -> Result<Linear> {
        let &LinearOptions { in_features, out_features, bias, place } = self;
        let bound = bound("Linear", in_features)?;
        let draw = |shape: &[usize]| place.uniform("Linear", shape, bound);
        Ok(Linear {
            weight: draw(&[out_features, in_features])?,
            bias: bias.then(|| draw(&[out_features])).transpose()?,
        })
    }
}

/// A bilinear form of two inputs: `y[.., k] = Σ a[.., i] · weight[k, i, j] · b[.., j] + bias[k]`.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::Bilinear;
/// use samebits_tensor_core::DType;
///
/// samebits_tensor_core::random::manual_seed(0);
/// let layer = Bilinear::new(3, 4, 2)?;
/// let (a, b) = (Tensor::ones(&[5, 3], DType::F32)?, Tensor::ones(&[5, 4], DType::F32)?);
/// assert_eq!(layer.forward(&a, &b)?.shape(), [5, 2]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.Bilinear`.
#[derive(Clone, Debug, Module)]
pub struct Bilinear {
    /// The weight, `[out, in1, in2]`.
    pub weight: Tensor,
    /// The bias, `[out]`.
    pub bias: Option<Tensor>,
}

impl Bilinear {
    /// Creates a layer with weight and bias drawn uniformly from ±1/√in1, as PyTorch does.
    ///
    /// # Errors
    ///
    /// `in1_features` is 0, memory runs out, or there is no generator to draw from.
    pub fn new(in1_features: usize, in2_features: usize, out_features: usize) -> Result<Bilinear> {
        Bilinear::options(in1_features, in2_features, out_features).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(
        in1_features: usize,
        in2_features: usize,
        out_features: usize,
    ) -> BilinearOptions {
        let place = Place::default();
        BilinearOptions { in1_features, in2_features, out_features, bias: true, place }
    }

    /// Computes the layer.
    ///
    /// # Shapes
    ///
    /// `a` is `[.., in1]`, `b` `[.., in2]`, the result `[.., out]`.
    ///
    /// # Determinism
    ///
    /// Multiplies by `a`, summing over `in1`, then by `b`, summing over `in2`, each with
    /// [`matmul`](functional::matmul); then adds the bias.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let op = "Bilinear";
        let &[outputs, in1, in2] = self.weight.shape() else {
            let shape = self.weight.shape();
            return Err(Error::invalid(
                op,
                format!("expected a weight of 3 dimensions, got shape {shape:?}"),
            ));
        };
        let ([outer @ .., a_last], [b_outer @ .., b_last]) = (a.shape(), b.shape()) else {
            return Err(Error::invalid(op, "expected inputs of at least one dimension"));
        };
        if outer != b_outer || (*a_last, *b_last) != (in1, in2) {
            return Err(Error::invalid(
                op,
                format!(
                    "expected inputs [.., {in1}] and [.., {in2}], got shapes {:?} and {:?}",
                    a.shape(),
                    b.shape()
                ),
            ));
        }
        let rows = numel(op, outer)?;
        // [in1, out * in2]
        let weight = functional::permute(&self.weight, [1, 0, 2])?;
        let weight = functional::reshape(&weight, [in1, outputs * in2])?;
        let x = functional::matmul(&functional::reshape(a, [rows, in1])?, &weight)?;
        let x = functional::reshape(&x, [rows, outputs, in2])?;
        let y = functional::bmm(&x, &functional::reshape(b, [rows, in2, 1])?)?;
        let y = functional::reshape(&y, [outer, &[outputs]].concat())?;
        match &self.bias {
            Some(bias) => functional::add(&y, bias),
            None => Ok(y),
        }
    }
}

/// Options of a [`Bilinear`] layer.
#[derive(Clone, Debug)]
pub struct BilinearOptions {
    in1_features: usize,
    in2_features: usize,
    out_features: usize,
    bias: bool,
    place: Place,
}

impl BilinearOptions {
    setters! {
        /// Sets whether the layer has a bias (default true).
        bias: bool;
    }
    place_setters!();
    init_with!(Bilinear);

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// As [`Bilinear::new`].
    pub fn init(&self) -> Result<Bilinear> {
        let &BilinearOptions { in1_features, in2_features, out_features, bias, place } = self;
        let bound = bound("Bilinear", in1_features)?;
        let draw = |shape: &[usize]| place.uniform("Bilinear", shape, bound);
        Ok(Bilinear {
            weight: draw(&[out_features, in1_features, in2_features])?,
            bias: bias.then(|| draw(&[out_features])).transpose()?,
        })
    }
}
