//! Convolutions on tensors as problems to tune.

use samebits_numerics::memory;
use samebits_rng::Generator;
use samebits_tensor_core::geometry::{ConvPass, Convolution};
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvWeightGrad};
use samebits_tensor_core::{DType, Determinism, Device, Error, Op, Tensor};

use crate::{BoxError, ConvKey, Problem, Values};

/// A checked call of a pass of a convolution on tensors.
#[derive(Clone, Debug)]
pub struct ConvCall {
    op: ConvOp,
    geometry: Convolution,
}

/// The operation of a [`ConvCall`].
#[derive(Clone, Debug)]
pub enum ConvOp {
    /// Computes the output.
    Forward(Conv),
    /// Computes the gradient of the input.
    InputGrad(ConvInputGrad),
    /// Computes the gradient of the weight.
    WeightGrad(ConvWeightGrad),
}

impl From<Conv> for ConvOp {
    fn from(op: Conv) -> ConvOp {
        ConvOp::Forward(op)
    }
}

impl From<ConvInputGrad> for ConvOp {
    fn from(op: ConvInputGrad) -> ConvOp {
        ConvOp::InputGrad(op)
    }
}

impl From<ConvWeightGrad> for ConvOp {
    fn from(op: ConvWeightGrad) -> ConvOp {
        ConvOp::WeightGrad(op)
    }
}

impl ConvCall {
    /// Checks and returns a call.
    ///
    /// # Errors
    ///
    /// As the operation's [`plan`](Op::plan).
    pub fn new(op: impl Into<ConvOp>) -> samebits_tensor_core::Result<ConvCall> {
        let op = op.into();
        let geometry = match &op {
            ConvOp::Forward(op) => op.plan()?,
            ConvOp::InputGrad(op) => op.plan()?,
            ConvOp::WeightGrad(op) => op.plan()?,
        };
        Ok(ConvCall { op, geometry })
    }

    /// Returns a call of an operation whose plan is `geometry`.
    pub(crate) fn planned(op: impl Into<ConvOp>, geometry: &Convolution) -> ConvCall {
        ConvCall { op: op.into(), geometry: geometry.clone() }
    }

    /// Returns the operation.
    pub fn op(&self) -> &ConvOp {
        &self.op
    }

    /// Returns the geometry, which was checked once.
    pub fn geometry(&self) -> &Convolution {
        &self.geometry
    }

    /// Returns the pass.
    pub fn pass(&self) -> ConvPass {
        match self.op {
            ConvOp::Forward(_) => ConvPass::Forward,
            ConvOp::InputGrad(_) => ConvPass::InputGrad,
            ConvOp::WeightGrad(_) => ConvPass::WeightGrad,
        }
    }

    /// Returns the device that the call runs on.
    pub fn device(&self) -> Device {
        match &self.op {
            ConvOp::Forward(op) => op.device(),
            ConvOp::InputGrad(op) => op.device(),
            ConvOp::WeightGrad(op) => op.device(),
        }
    }

    /// Returns a call that stands for every call with this key: uniform inputs in [-1, 1) that are
    /// a function of the shapes alone, on `device`.
    ///
    /// A race on these cannot be swayed by the data of the first real call, and a recorded
    /// digest can be checked at any time.
    ///
    /// # Errors
    ///
    /// The key's shapes do not go together, its type is not a float, or the device fails.
    pub fn probe(key: &ConvKey, device: Device) -> Result<ConvCall, BoxError> {
        let geometry = key.geometry()?;
        // The three tensors are drawn from streams of their own, so that each depends on its
        // own shape alone.
        let draw = |stream: u64, shape: &[usize]| -> Result<Tensor, BoxError> {
            let count = memory::product(shape).unwrap_or(usize::MAX);
            let mut generator = Generator::new(PROBE_SEED).with_stream(stream);
            let host = match key.dtype {
                DType::F32 => {
                    let mut values = memory::zeroed(count)?;
                    generator.fill_uniform_f32(&mut values, -1.0, 1.0)?;
                    Tensor::from_slice(&values, shape)?
                }
                DType::F64 => {
                    let mut values = memory::zeroed(count)?;
                    generator.fill_uniform_f64(&mut values, -1.0, 1.0)?;
                    Tensor::from_slice(&values, shape)?
                }
                other => return Err(format!("a convolution of {other} cannot be tuned").into()),
            };
            Ok(host.to(device)?)
        };
        let params = key.params.clone();
        let grad = || draw(2, &geometry.output_shape());
        let op: ConvOp = match key.pass {
            ConvPass::Forward => {
                let (input, weight) = (draw(0, &key.input)?, draw(1, &key.weight)?);
                Conv { input, weight, bias: None, params }.into()
            }
            ConvPass::InputGrad => {
                let input_shape = key.input.clone();
                let (grad, weight) = (grad()?, draw(1, &key.weight)?);
                ConvInputGrad { grad, weight, input_shape, params }.into()
            }
            ConvPass::WeightGrad => {
                let weight_shape = key.weight.clone();
                let (grad, input) = (grad()?, draw(0, &key.input)?);
                ConvWeightGrad { grad, input, weight_shape, params }.into()
            }
        };
        Ok(ConvCall { op, geometry })
    }
}

/// Any number will do; changing it changes the recorded digests.
const PROBE_SEED: u64 = 0x636f_6e76;

impl Problem for ConvCall {
    type Key = ConvKey;
    type Output = Tensor;

    fn key(&self, level: Determinism) -> ConvKey {
        let (dtype, params) = match &self.op {
            ConvOp::Forward(op) => (op.input.dtype(), &op.params),
            ConvOp::InputGrad(op) => (op.grad.dtype(), &op.params),
            ConvOp::WeightGrad(op) => (op.grad.dtype(), &op.params),
        };
        ConvKey {
            pass: self.pass(),
            dtype,
            level,
            input: self.geometry.input_shape(),
            weight: self.geometry.weight_shape(),
            params: params.clone(),
        }
    }

    fn magnitude(&self) -> f64 {
        let s = self.geometry.sizes();
        let volume = |sizes: [usize; 3]| sizes.iter().product::<usize>();
        let (a, b, terms) = match &self.op {
            ConvOp::Forward(op) => (&op.input, &op.weight, s.inputs * volume(s.kernel)),
            ConvOp::InputGrad(op) => (&op.grad, &op.weight, s.outputs * volume(s.kernel)),
            ConvOp::WeightGrad(op) => (&op.grad, &op.input, s.batch * volume(s.output)),
        };
        terms as f64 * greatest(a) * greatest(b)
    }

    fn values(output: &Tensor) -> Result<Values<'_>, BoxError> {
        values(output)
    }

    fn missing_memory(error: &(dyn std::error::Error + 'static)) -> Option<usize> {
        let of_tensors = |error: &(dyn std::error::Error + 'static)| match error.downcast_ref() {
            Some(&Error::OutOfMemory { bytes, .. }) => Some(bytes),
            _ => None,
        };
        std::iter::successors(Some(error), |error| error.source())
            .find_map(of_tensors)
            .or_else(|| samebits_autotune::missing_memory(error))
    }
}

/// Returns the elements of a tensor, wherever it is.
fn values(tensor: &Tensor) -> Result<Values<'static>, BoxError> {
    match tensor.dtype() {
        DType::F32 => Ok(Values::owned(tensor.to_vec::<f32>()?)),
        DType::F64 => Ok(Values::owned(tensor.to_vec::<f64>()?)),
        other => Err(format!("a result of type {other} cannot be compared").into()),
    }
}

/// Returns the greatest absolute value; 0 of a tensor that cannot be read, which fails the
/// comparison.
fn greatest(tensor: &Tensor) -> f64 {
    values(tensor).map_or(0.0, |values| values.numbers().fold(0.0, |m, v| v.abs().max(m)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_memory_is_known_by_any_name() {
        let device = Device::Cpu;
        let of_tensors = Error::OutOfMemory { op: "conv", device, bytes: 7 };
        let inside = samebits_autotune::Error::Run {
            name: "direct".to_owned(),
            key: "a call".to_owned(),
            source: Box::new(memory::OutOfMemory { bytes: 9 }),
        };
        assert_eq!(ConvCall::missing_memory(&of_tensors), Some(7));
        assert_eq!(ConvCall::missing_memory(&inside), Some(9));
        assert_eq!(ConvCall::missing_memory(&Error::NoBackend { device }), None);
    }
}
