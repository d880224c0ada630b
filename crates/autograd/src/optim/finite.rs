//! Search for NaN and infinities.

use std::collections::BTreeMap;

use samebits_tensor_core::{DType, Device, Result, Tensor as Value, bf16, f16, observe};

use super::totals::on_device;
use crate::Tensor;

/// Returns the position of the first of `tensors` that holds NaN or an infinity. Integers and
/// booleans are finite. Observers do not see this call.
///
/// # Errors
///
/// Memory runs out, or a device fails.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::optim::first_not_finite;
///
/// let (x, y) = (Tensor::scalar(1.0f32), Tensor::scalar(f64::NAN));
/// assert_eq!(first_not_finite([&x, &y])?, Some(1));
/// assert_eq!(first_not_finite([&x])?, None);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
pub fn first_not_finite<'a>(
    tensors: impl IntoIterator<Item = &'a Tensor>,
) -> Result<Option<usize>> {
    observe::unobserved(|| {
        let mut first = None;
        let mut elsewhere: BTreeMap<Device, (Vec<usize>, Vec<Value>)> = BTreeMap::new();
        for (position, tensor) in tensors.into_iter().enumerate() {
            let value = tensor.value();
            if value.device() == Device::Cpu {
                if !is_finite(value)? {
                    first = Some(position);
                    break;
                }
            } else if value.dtype().is_float() {
                let (positions, dense) = elsewhere.entry(value.device()).or_default();
                positions.push(position);
                dense.push(value.contiguous()?);
            }
        }
        // Wait once per device.
        for (device, (positions, dense)) in elsewhere {
            let found = on_device(device, &dense, |backend, all| backend.first_not_finite(all))?;
            let found = match found {
                Some(found) => found,
                None => first_on_host(&dense)?,
            };
            first = first.into_iter().chain(positions.get(found).copied()).min();
        }
        Ok(first)
    })
}

/// Returns the position of the first tensor that is not finite, or their number.
fn first_on_host(all: &[Value]) -> Result<usize> {
    for (position, value) in all.iter().enumerate() {
        if !is_finite(&value.to(Device::Cpu)?)? {
            return Ok(position);
        }
    }
    Ok(all.len())
}

fn is_finite(value: &Value) -> Result<bool> {
    let value = value.contiguous()?;
    // Blocks have no early exit, so the compiler can vectorise them.
    fn all<T: Copy>(values: &[T], finite: impl Fn(T) -> bool) -> bool {
        values.chunks(1024).all(|block| block.iter().fold(true, |all, &x| all & finite(x)))
    }
    Ok(match value.dtype() {
        DType::F32 => all(value.as_slice()?, f32::is_finite),
        DType::F64 => all(value.as_slice()?, f64::is_finite),
        DType::F16 => all(value.as_slice()?, f16::is_finite),
        DType::BF16 => all(value.as_slice()?, bf16::is_finite),
        _ => true,
    })
}
