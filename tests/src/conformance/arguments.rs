use std::collections::BTreeMap;

use samebits::ops::{Cast, Unary, UnaryKind};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Device, Error, Result, Tensor, dispatch};
use serde::de::DeserializeOwned;

use super::{Record, Reference};

/// The results under the names of the reference.
pub type Outputs = Vec<(&'static str, Tensor)>;

/// The arguments of one case: tensors of one type on one device, and parameters.
#[derive(Debug)]
pub struct Arguments<'a> {
    record: &'a Record,
    inputs: BTreeMap<&'a str, Tensor>,
    dtype: DType,
    device: Device,
    absolute: bool,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(
        record: &'a Record,
        reference: &Reference,
        dtype: DType,
        device: Device,
        absolute: bool,
    ) -> Result<Arguments<'a>> {
        let mut new = Arguments { record, inputs: BTreeMap::new(), dtype, device, absolute };
        for (name, key) in &record.inputs {
            let tensor = new.cast(reference.tensor(key)?)?;
            let var = if record.grads.contains_key(name) {
                Tensor::from(tensor).set_requires_grad(true).unwrap()
            } else {
                Tensor::from(tensor)
            };
            new.inputs.insert(name, var);
        }
        Ok(new)
    }

    /// Converts a tensor of the file to an argument: floats get the type of the run.
    pub(super) fn cast(&self, x: Value) -> Result<Value> {
        let mut x = x;
        if x.dtype().is_float() {
            x = dispatch(&Cast { x, to: self.dtype })?;
            if self.absolute {
                x = dispatch(&Unary { kind: UnaryKind::Abs, x })?;
            }
        }
        x.to(self.device)
    }

    /// Returns a tensor argument.
    ///
    /// # Errors
    ///
    /// The case has no argument of this name.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.optional(name).ok_or_else(|| self.missing(name))
    }

    /// Returns a tensor argument that may be missing.
    pub fn optional(&self, name: &str) -> Option<&Tensor> {
        self.inputs.get(name)
    }

    /// Returns a parameter; the type decides the meaning of `null` or a missing one.
    ///
    /// # Errors
    ///
    /// It has another type.
    pub fn param<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let value = self.record.params.get(name).unwrap_or(&serde_json::Value::Null);
        T::deserialize(value).map_err(|error| {
            let op = &self.record.op;
            Error::invalid("conformance", format!("{op}: parameter {name} is {value}: {error}"))
        })
    }

    /// Returns a parameter that multiplies terms of a sum: its absolute value in a run with
    /// absolute inputs.
    ///
    /// # Errors
    ///
    /// The parameter is not a number.
    pub fn factor(&self, name: &str) -> Result<f64> {
        let factor: f64 = self.param(name)?;
        Ok(if self.absolute { factor.abs() } else { factor })
    }

    /// Returns whether this run computes the magnitudes that bounds are multiples of: all inputs
    /// are absolute values, and an operator that subtracts must add instead.
    pub fn absolute(&self) -> bool {
        self.absolute
    }

    /// Returns the operator's name.
    pub fn op(&self) -> &str {
        &self.record.op
    }

    /// Returns the type of floats.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    fn missing(&self, name: &str) -> Error {
        Error::invalid("conformance", format!("{} has no argument {name}", self.record.op))
    }
}
