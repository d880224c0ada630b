//! Optimisers.
//!
//! An optimiser owns its state by parameter name, so that it can be saved beside the model and
//! loaded into another process. A parameter that several layers share is one parameter: it takes
//! one step, its state has the name that is visited first, and it stays shared.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use samebits_tensor_core::ops::{AdamStep, SgdStep};
use samebits_tensor_core::{Error, Result, Tensor as Value};

use crate::nn::{Kind, Module};
use crate::{Gradients, Tensor, run};

pub use samebits_tensor_core::ops::{AdamParams, SgdParams};

/// Changes a model's parameters along their gradients.
pub trait Optimizer {
    /// Takes one step. A parameter that the loss does not depend on stays as it is.
    ///
    /// # Errors
    ///
    /// A gradient or state does not fit its parameter. The model is then unchanged.
    fn step(&mut self, model: &mut dyn Module, gradients: &Gradients) -> Result<()>;

    /// Sets the learning rate of the next steps.
    fn set_lr(&mut self, lr: f64);

    /// The number of steps taken.
    fn steps(&self) -> u64;

    /// Every tensor of the state by name, in a fixed order.
    fn state(&self) -> Vec<(String, Tensor)>;

    /// Replaces the state by what [`state`](Optimizer::state) returned after `steps` steps.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`] if a name is not one that this optimiser uses.
    fn load_state(&mut self, steps: u64, state: Vec<(String, Tensor)>) -> Result<()>;
}

/// Stochastic gradient descent with momentum.
#[derive(Clone, Debug)]
pub struct Sgd {
    params: SgdParams,
    steps: u64,
    velocity: BTreeMap<String, Value>,
}

impl Sgd {
    /// An optimiser that has not taken a step.
    pub fn new(params: SgdParams) -> Sgd {
        Sgd { params, steps: 0, velocity: BTreeMap::new() }
    }
}

impl Optimizer for Sgd {
    fn step(&mut self, model: &mut dyn Module, gradients: &Gradients) -> Result<()> {
        let mut velocity = self.velocity.clone();
        update(model, gradients, |name, param, grad| {
            let (param, new) = run(&SgdStep {
                param,
                grad,
                velocity: velocity.get(name).cloned(),
                params: self.params,
            })?;
            if let Some(new) = new {
                velocity.insert(name.to_owned(), new);
            }
            Ok(param)
        })?;
        self.velocity = velocity;
        self.steps += 1;
        Ok(())
    }

    fn set_lr(&mut self, lr: f64) {
        self.params.lr = lr;
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn state(&self) -> Vec<(String, Tensor)> {
        self.velocity.iter().map(|(name, v)| (format!("{name}.velocity"), v.into())).collect()
    }

    fn load_state(&mut self, steps: u64, state: Vec<(String, Tensor)>) -> Result<()> {
        let mut velocity = BTreeMap::new();
        for (name, tensor) in state {
            let Some(parameter) = name.strip_suffix(".velocity") else {
                return Err(unknown("Sgd", &name));
            };
            velocity.insert(parameter.to_owned(), tensor.into());
        }
        (self.steps, self.velocity) = (steps, velocity);
        Ok(())
    }
}

/// Adam, or AdamW if the decay is decoupled.
#[derive(Clone, Debug)]
pub struct Adam {
    params: AdamParams,
    steps: u64,
    /// Mean and mean square of each parameter's gradient.
    moments: BTreeMap<String, (Value, Value)>,
}

impl Adam {
    /// An optimiser that has not taken a step.
    pub fn new(params: AdamParams) -> Adam {
        Adam { params, steps: 0, moments: BTreeMap::new() }
    }
}

impl Optimizer for Adam {
    fn step(&mut self, model: &mut dyn Module, gradients: &Gradients) -> Result<()> {
        let mut moments = self.moments.clone();
        let step = self.steps + 1;
        update(model, gradients, |name, param, grad| {
            let (mean, square) = match moments.get(name) {
                Some(old) => old.clone(),
                None => {
                    let zeros = Value::zeros(param.shape(), param.dtype())?.to(param.device())?;
                    (zeros.clone(), zeros)
                }
            };
            let op = AdamStep { param, grad, mean, square, step, params: self.params };
            let (param, mean, square) = run(&op)?;
            moments.insert(name.to_owned(), (mean, square));
            Ok(param)
        })?;
        self.moments = moments;
        self.steps = step;
        Ok(())
    }

    fn set_lr(&mut self, lr: f64) {
        self.params.lr = lr;
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn state(&self) -> Vec<(String, Tensor)> {
        self.moments
            .iter()
            .flat_map(|(name, (mean, square))| {
                [(format!("{name}.mean"), mean.into()), (format!("{name}.square"), square.into())]
            })
            .collect()
    }

    fn load_state(&mut self, steps: u64, state: Vec<(String, Tensor)>) -> Result<()> {
        let (mut means, mut squares) = (BTreeMap::new(), BTreeMap::new());
        for (name, tensor) in state {
            if let Some(parameter) = name.strip_suffix(".mean") {
                means.insert(parameter.to_owned(), tensor.into());
            } else if let Some(parameter) = name.strip_suffix(".square") {
                squares.insert(parameter.to_owned(), tensor.into());
            } else {
                return Err(unknown("Adam", &name));
            }
        }
        let mut moments = BTreeMap::new();
        for (name, mean) in means {
            let Some(square) = squares.remove(&name) else {
                return Err(unknown("Adam", &format!("{name}.mean without {name}.square")));
            };
            moments.insert(name, (mean, square));
        }
        if let Some((name, _)) = squares.first_key_value() {
            return Err(unknown("Adam", &format!("{name}.square without {name}.mean")));
        }
        (self.steps, self.moments) = (steps, moments);
        Ok(())
    }
}

/// Computes every new parameter, and only when all are there puts them in place: each wherever the
/// model has the old one.
fn update(
    model: &mut dyn Module,
    gradients: &Gradients,
    mut step: impl FnMut(&str, Value, Value) -> Result<Value>,
) -> Result<()> {
    let mut updated = BTreeMap::new();
    for (name, param) in model.named_parameters() {
        if let (Some(identity), Some(grad)) = (param.identity(), gradients.of(&param))
            && let Entry::Vacant(entry) = updated.entry(identity)
        {
            let new = step(&name, param.value().clone(), grad.value().clone())?;
            entry.insert(Tensor::from(new).set_requires_grad(true));
        }
    }
    model.visit_mut("", &mut |_, kind, param| {
        if kind == Kind::Parameter
            && let Some(new) = param.identity().and_then(|identity| updated.get(&identity))
        {
            *param = new.clone();
        }
    });
    Ok(())
}

fn unknown(op: &'static str, name: &str) -> Error {
    Error::InvalidState { op, message: format!("unexpected state tensor {name}") }
}
