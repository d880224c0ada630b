//! Drawn cases: their inputs, and what is called.

mod calls;
mod models;

use std::error::Error;
use std::hint::black_box;
use std::sync::OnceLock;

use samebits::prelude::*;
use samebits::{Result, functional as f, no_grad, rand, randint, randn};
use serde::Deserialize;
use serde_json::{Map, Value};

static DEVICE: OnceLock<Device> = OnceLock::new();

/// Chooses the device of all cases; the CPU if this is never called.
pub(crate) fn set_device(device: Device) {
    DEVICE.set(device).expect("it is chosen once");
}

/// Returns the device of all cases.
pub(crate) fn device() -> Device {
    DEVICE.get().copied().unwrap_or(Device::Cpu)
}

/// Calls a case once, and returns how many bytes its results have.
pub(crate) type Call = Box<dyn FnMut() -> Result<usize>>;

/// One call of an operation, or one step of a model.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    op: String,
    dtype: String,
    pub(crate) both: bool,
    inputs: Vec<Input>,
    params: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
struct Input {
    shape: Vec<usize>,
    views: Vec<View>,
    fill: Fill,
    grad: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum View {
    Permute(Vec<usize>),
    Narrow(usize, usize, usize),
    Expand(Vec<usize>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fill {
    Normal,
    Unit,
    Positive,
    Mask,
    Uniform(usize),
    Skewed(usize),
}

impl Input {
    fn make(&self, dtype: DType) -> Result<Tensor> {
        let shape = &self.shape;
        let mut x = match self.fill {
            Fill::Normal => randn(shape)?.to(dtype)?,
            Fill::Unit => rand(shape)?.to(dtype)?,
            Fill::Positive => f::affine(&rand(shape)?, 1.0, 0.5)?.to(dtype)?,
            Fill::Mask => f::gt(&rand(shape)?, 0.5)?,
            Fill::Uniform(high) => randint(0, high as i64, shape)?,
            Fill::Skewed(high) => {
                // The fourth power: half of the indices are in the first sixteenth.
                let shares = rand(shape)?.to(DType::F64)?.square()?.square()?;
                f::affine(&shares, high as f64 - 0.5, 0.0)?.to(DType::I64)?
            }
        };
        x = x.to(device())?;
        for view in &self.views {
            x = match view {
                View::Permute(order) => x.permute(order)?,
                View::Narrow(dim, start, length) => x.narrow(*dim, *start, *length)?,
                View::Expand(shape) => x.expand(shape)?,
            };
        }
        Ok(x)
    }
}

impl Case {
    fn dtype(&self) -> DType {
        if self.dtype == "f64" { DType::F64 } else { DType::F32 }
    }

    fn int(&self, name: &str) -> usize {
        self.params[name].as_u64().expect("a number") as usize
    }

    fn ints(&self, name: &str) -> Vec<usize> {
        let values = self.params[name].as_array().expect("a list");
        values.iter().map(|value| value.as_u64().expect("a number") as usize).collect()
    }

    fn flag(&self, name: &str) -> bool {
        self.params[name].as_bool().expect("a flag")
    }

    fn text(&self, name: &str) -> &str {
        self.params[name].as_str().expect("a text")
    }

    /// The bytes of the inputs, each dense one once.
    pub(crate) fn bytes(&self) -> usize {
        let width = if self.dtype == "f64" { 8 } else { 4 };
        let inputs = self.inputs.iter().map(|input| {
            let width = match input.fill {
                Fill::Mask => 1,
                Fill::Uniform(_) | Fill::Skewed(_) => 8,
                _ => width,
            };
            width * input.shape.iter().product::<usize>()
        });
        inputs.sum()
    }

    /// What is timed.
    pub(crate) fn call(&self) -> std::result::Result<Call, Box<dyn Error>> {
        if self.inputs.is_empty() || calls::is_step(&self.op) {
            return Ok(models::call(self)?);
        }
        let case = self.clone();
        let inputs: Result<Vec<Tensor>> = self
            .inputs
            .iter()
            .map(|input| {
                let x = no_grad(|| input.make(self.dtype()))?;
                if self.both && input.grad { x.set_requires_grad(true) } else { Ok(x) }
            })
            .collect();
        let inputs = inputs?;
        if !self.both {
            return Ok(Box::new(move || {
                let results = no_grad(|| calls::results(&case, &inputs))?;
                Ok(size(&black_box(results)))
            }));
        }
        let first = no_grad(|| calls::results(&case, &inputs))?;
        let grad = first[0].randn_like()?;
        Ok(Box::new(move || {
            let results = calls::results(&case, &inputs)?;
            black_box(results[0].backward_from(grad.clone(), false)?);
            Ok(size(&results))
        }))
    }
}

fn size(results: &[Tensor]) -> usize {
    results.iter().map(|result| result.numel() * result.dtype().size()).sum()
}
