//! Search for NaN and infinities.

use std::collections::BTreeMap;

use samebits_tensor_core::{DType, Device, Result, Tensor as Value, bf16, f16, observe};

use crate::{Tensor, functional};

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
        let mut elsewhere: BTreeMap<Device, (Vec<usize>, Vec<Tensor>)> = BTreeMap::new();
        for (position, tensor) in tensors.into_iter().enumerate() {
            let value = tensor.value();
            // Device kernels do not compute in the 16-bit types.
            let short = value.dtype().is_half();
            if value.device() == Device::Cpu || short {
                if !is_finite(&value.to(Device::Cpu)?)? {
                    first = Some(position);
                    break;
                }
            } else if value.dtype().is_float() {
                let finite = functional::all(&functional::isfinite(&value.into())?, (), false)?;
                let (positions, flags) = elsewhere.entry(value.device()).or_default();
                positions.push(position);
                flags.push(finite);
            }
        }
        // Wait once per device.
        for (positions, flags) in elsewhere.into_values() {
            let flags = functional::stack(&flags, 0)?.to_bools()?;
            let found = positions.into_iter().zip(flags).find(|(_, finite)| !finite);
            first = first.into_iter().chain(found.map(|(position, _)| position)).min();
        }
        Ok(first)
    })
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
