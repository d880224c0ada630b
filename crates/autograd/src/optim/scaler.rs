//! Gradient scaling, for training in f16.

use samebits_tensor_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Optimizer, first_not_finite};
use crate::functional::affine;
use crate::nn::Module;
use crate::{Gradients, Tensor};

const OP: &str = "GradScaler";

/// A factor on the loss that keeps the gradients of f16 in its range: small ones would become 0.
///
/// The gradients of the scaled loss are divided by the factor. If one of a parameter is NaN or
/// infinite, the step is skipped and the factor lowered; after a number of steps without, it is
/// raised. bf16 has the range of f32 and needs no scaling.
///
/// # Determinism
///
/// Portable: which steps are skipped depends on the gradients alone. With factors that are powers of
/// two, as by default, scaling changes no bit but where a gradient leaves the range. A `Trainer`
/// keeps it in its checkpoints; in a loop of your own, serialise it with the state of the optimiser.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::functional::mse_loss;
/// use samebits::nn::{Layer, Linear};
/// use samebits::optim::{GradScaler, Optimizer, Sgd};
/// use samebits::{DType, Tensor, autocast};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let mut model = Linear::new(4, 1)?;
/// let mut optimizer = Sgd::options(0.1).init()?;
/// let mut scaler = GradScaler::default();
/// let x = Tensor::new([[1.0f32, 2.0, 3.0, 4.0]])?;
/// let target = Tensor::new([[1.0f32]])?;
/// let mut skipped = 0;
/// for _ in 0..10 {
///     let loss = autocast(DType::F16, || {
///         mse_loss(&model.forward(&x)?, &target, Default::default())
///     })??;
///     let gradients = scaler.unscale(&scaler.scale(&loss)?.backward()?)?;
///     if !scaler.step(&mut optimizer, &mut model, &gradients)? {
///         skipped += 1;
///     }
/// }
/// // The first factor was too large for these gradients.
/// assert!(skipped > 0 && optimizer.steps() > 0);
/// assert_eq!(scaler.factor(), 65_536.0 / f64::powi(2.0, skipped));
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.amp.GradScaler`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "State")]
pub struct GradScaler {
    /// The factor.
    scale: f64,
    growth_factor: f64,
    backoff_factor: f64,
    growth_interval: u64,
    /// The number of steps since the last change of the factor.
    growth_tracker: u64,
}

/// A scaler as a file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    scale: f64,
    growth_factor: f64,
    backoff_factor: f64,
    growth_interval: u64,
    growth_tracker: u64,
}

impl TryFrom<State> for GradScaler {
    type Error = Error;

    fn try_from(state: State) -> Result<GradScaler> {
        let State { scale, growth_factor, backoff_factor, growth_interval, growth_tracker } = state;
        let scaler = GradScaler::new(scale, growth_factor, backoff_factor, growth_interval)?;
        if growth_tracker >= growth_interval {
            let detail =
                format!("expected fewer than {growth_interval} steps, got {growth_tracker}");
            return Err(Error::invalid(OP, detail));
        }
        Ok(GradScaler { growth_tracker, ..scaler })
    }
}

impl Default for GradScaler {
    /// Returns a scaler with PyTorch's defaults: a factor of 65,536, doubled after 2,000 steps and
    /// halved after a skipped one.
    fn default() -> GradScaler {
        GradScaler {
            scale: 65_536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            growth_tracker: 0,
        }
    }
}

impl GradScaler {
    /// Creates a scaler.
    ///
    /// # Errors
    ///
    /// `init_scale` is not positive and finite, `growth_factor` not above 1, `backoff_factor` not
    /// between 0 and 1, or `growth_interval` 0.
    pub fn new(
        init_scale: f64,
        growth_factor: f64,
        backoff_factor: f64,
        growth_interval: u64,
    ) -> Result<GradScaler> {
        let refuse = |what: &str, got: f64| Err(Error::invalid(OP, format!("{what}, got {got}")));
        if !(init_scale > 0.0 && init_scale.is_finite()) {
            return refuse("expected a positive scale", init_scale);
        }
        if !(growth_factor > 1.0 && growth_factor.is_finite()) {
            return refuse("expected a growth factor above 1", growth_factor);
        }
        if !(backoff_factor > 0.0 && backoff_factor < 1.0) {
            return refuse("expected a backoff factor between 0 and 1", backoff_factor);
        }
        if growth_interval == 0 {
            return refuse("expected a growth interval of at least 1 step", 0.0);
        }
        let scale = init_scale;
        Ok(GradScaler { scale, growth_factor, backoff_factor, growth_interval, growth_tracker: 0 })
    }

    /// Returns the factor of the next step.
    pub fn factor(&self) -> f64 {
        self.scale
    }

    /// Multiplies the loss with the factor.
    ///
    /// # Errors
    ///
    /// Memory runs out.
    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        affine(loss, self.scale, -0.0)
    }

    /// Divides the gradients of all leaves by the factor. Gradients of other variables are left
    /// out.
    ///
    /// # Errors
    ///
    /// Memory runs out.
    pub fn unscale(&self, gradients: &Gradients) -> Result<Gradients> {
        let by_id = gradients.scaled_leaves(self.scale.recip())?.into_iter().collect();
        Ok(Gradients { by_id, leaves: gradients.leaves.clone() })
    }

    /// Takes a step with gradients that [`unscale`](GradScaler::unscale) returned, unless one of a
    /// parameter is NaN or infinite, and changes the factor for the next. Returns false if the step
    /// was skipped.
    ///
    /// # Errors
    ///
    /// Those of [`Optimizer::step`]; the scaler is unchanged then.
    pub fn step(
        &mut self,
        optimizer: &mut dyn Optimizer,
        model: &mut dyn Module,
        gradients: &Gradients,
    ) -> Result<bool> {
        let parameters = model.parameters();
        let found = parameters.iter().filter_map(|parameter| gradients.of(parameter));
        if first_not_finite(found)?.is_some() {
            self.scale *= self.backoff_factor;
            self.growth_tracker = 0;
            return Ok(false);
        }
        optimizer.step(model, gradients)?;
        self.growth_tracker += 1;
        if self.growth_tracker == self.growth_interval {
            self.growth_tracker = 0;
            let grown = self.scale * self.growth_factor;
            // As PyTorch: an infinite factor would skip every step.
            if (grown as f32).is_finite() {
                self.scale = grown;
            }
        }
        Ok(true)
    }
}
