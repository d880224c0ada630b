//! Convolutions on tensors as problems to tune.

use samebits_numerics::memory;
use samebits_rng::Generator;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvWeightGrad};
use samebits_tensor_core::{DType, Determinism, Device, Error, Op, Tensor};

use crate::{BoxError, ConvKey, ConvPass, Problem, Values};

/// One pass of a convolution on tensors.
#[derive(Clone, Debug)]
pub enum ConvCall {
    /// The output.
    Forward(Conv),
    /// The gradient of the input.
    DataGradient(ConvInputGrad),
    /// The gradient of the weights.
    WeightGradient(ConvWeightGrad),
}

impl ConvCall {
    /// The device that it runs on.
    pub fn device(&self) -> Device {
        match self {
            ConvCall::Forward(op) => op.device(),
            ConvCall::DataGradient(op) => op.device(),
            ConvCall::WeightGradient(op) => op.device(),
        }
    }

    /// A call that stands for every call with this key: uniform inputs in [-1, 1) that are a
    /// function of the shapes alone, on `device`.
    ///
    /// A race on these cannot be swayed by the data of the first real call, and a recorded
    /// digest can be checked at any time.
    ///
    /// # Errors
    ///
    /// The key's shapes do not go together, its type is not a float, or the device fails.
    pub fn probe(key: &ConvKey, device: Device) -> Result<ConvCall, BoxError> {
        let output_shape = key.output()?;
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
        let params = key.params();
        Ok(match key.pass {
            ConvPass::Forward => ConvCall::Forward(Conv {
                input: draw(0, &key.input)?,
                weight: draw(1, &key.weight)?,
                bias: None,
                params,
            }),
            ConvPass::DataGradient => ConvCall::DataGradient(ConvInputGrad {
                grad: draw(2, &output_shape)?,
                weight: draw(1, &key.weight)?,
                input_shape: key.input.clone(),
                params,
            }),
            ConvPass::WeightGradient => ConvCall::WeightGradient(ConvWeightGrad {
                grad: draw(2, &output_shape)?,
                input: draw(0, &key.input)?,
                weight_shape: key.weight.clone(),
                params,
            }),
        })
    }
}

/// Any number will do; changing it changes the recorded digests.
const PROBE_SEED: u64 = 0x636f_6e76;

impl Problem for ConvCall {
    type Key = ConvKey;
    type Output = Tensor;

    fn key(&self, level: Determinism) -> ConvKey {
        match self {
            ConvCall::Forward(op) => ConvKey::new(
                ConvPass::Forward,
                op.input.dtype(),
                op.input.shape(),
                op.weight.shape(),
                &op.params,
                level,
            ),
            ConvCall::DataGradient(op) => ConvKey::new(
                ConvPass::DataGradient,
                op.grad.dtype(),
                &op.input_shape,
                op.weight.shape(),
                &op.params,
                level,
            ),
            ConvCall::WeightGradient(op) => ConvKey::new(
                ConvPass::WeightGradient,
                op.grad.dtype(),
                op.input.shape(),
                &op.weight_shape,
                &op.params,
                level,
            ),
        }
    }

    fn magnitude(&self) -> f64 {
        let (a, b, terms) = match self {
            ConvCall::Forward(op) => {
                (&op.input, &op.weight, op.weight.shape()[1..].iter().product())
            }
            ConvCall::DataGradient(op) => {
                let weight = op.weight.shape();
                let taps: usize = weight[2..].iter().product();
                (&op.grad, &op.weight, weight[0] / op.params.groups.max(1) * taps)
            }
            ConvCall::WeightGradient(op) => {
                let shape = op.grad.shape();
                (&op.grad, &op.input, shape[0] * shape[2..].iter().product::<usize>())
            }
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

/// The elements of a tensor, wherever it is.
fn values(tensor: &Tensor) -> Result<Values<'static>, BoxError> {
    match tensor.dtype() {
        DType::F32 => Ok(Values::owned(tensor.to_vec::<f32>()?)),
        DType::F64 => Ok(Values::owned(tensor.to_vec::<f64>()?)),
        other => Err(format!("a result of type {other} cannot be compared").into()),
    }
}

/// The greatest absolute value; 0 of a tensor that cannot be read, which fails the comparison.
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
