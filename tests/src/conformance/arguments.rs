use std::collections::BTreeMap;

use samebits::ops::{Cast, Unary, UnaryKind};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Device, Error, Result, Tensor, dispatch};
use serde::de::DeserializeOwned;

use super::{Record, Reference};

/// Results under the names of the reference.
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

    /// A tensor of the file as an argument: floats in the type that is being run.
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

    /// A tensor argument.
    ///
    /// # Errors
    ///
    /// The case has none of this name.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.optional(name).ok_or_else(|| self.missing(name))
    }

    /// A tensor argument that may be missing.
    pub fn optional(&self, name: &str) -> Option<&Tensor> {
        self.inputs.get(name)
    }

    /// A parameter; what `null` or a missing one means is up to the type.
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

    /// A parameter that multiplies terms of a sum: its absolute value where those of the inputs are
    /// taken.
    ///
    /// # Errors
    ///
    /// It is no number.
    pub fn factor(&self, name: &str) -> Result<f64> {
        let factor: f64 = self.param(name)?;
        Ok(if self.absolute { factor.abs() } else { factor })
    }

    /// Whether this run is for the magnitudes that bounds are multiples of: all inputs are absolute
    /// values, and an operator that subtracts must add instead.
    pub fn absolute(&self) -> bool {
        self.absolute
    }

    /// The operator's name.
    pub fn op(&self) -> &str {
        &self.record.op
    }

    /// The type that floats have.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    fn missing(&self, name: &str) -> Error {
        Error::invalid("conformance", format!("{} has no argument {name}", self.record.op))
    }
}
