//! Repeated elements.

use samebits_macros::named;
use samebits_numerics::memory;
use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Device, Error, Result};

use super::broadcast::expand;
use super::elementwise::{compare, scalar_like, where_};
use super::index::{index_add, index_select};
use super::scan::cumsum;
use super::shape::reshape;
use super::zeros_of;
use crate::Tensor;
use crate::dims::DimOrAll;

/// Repeats element `i` of `dim` `repeats[i]` times; without a `dim`, flattens `x` first.
///
/// # Shapes
///
/// `repeats` is `[n]` for a dimension of `n` elements, or holds a single number for all.
///
/// # Determinism
///
/// Portable. The gradient is an exact sum, rounded once.
///
/// # Errors
///
/// The sizes differ, or a number is negative.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
/// let repeats = Tensor::from_slice(&[2i64, 0, 1], &[3])?;
/// let y = functional::repeat_interleave(&x, &repeats, Some(0))?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 3.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.repeat_interleave`.
#[named]
#[track_caller]
pub fn repeat_interleave(x: &Tensor, repeats: &Tensor, dim: impl DimOrAll) -> Result<Tensor> {
    let dim = dim.dim_or_all("repeat_interleave", x.rank())?;
    const OP: &str = "repeat_interleave";
    let Some(dim) = dim else {
        return repeat_interleave(&reshape(x, [x.numel()])?, repeats, Some(0));
    };
    let size = x.value().size(OP, dim)?;
    check_repeats(OP, repeats, size)?;
    let index = repeated(OP, repeats, size)?;
    let index = Tensor::from_slice(&index, &[index.len()])?.to(x.device())?;
    index_select(x, dim, &index)
}

fn check_repeats(op: &'static str, repeats: &Tensor, size: usize) -> Result<()> {
    if repeats.rank() > 1 || (repeats.numel() != 1 && repeats.numel() != size) {
        return Err(Error::invalid(
            op,
            format!(
                "repeats of shape {:?} for a dimension of size {size}: expected one number, or \
                 one for each element",
                repeats.shape()
            ),
        ));
    }
    Ok(())
}

/// Returns the element that each place of the result of [`repeat_interleave`] holds.
fn repeated(op: &'static str, repeats: &Tensor, size: usize) -> Result<Vec<i64>> {
    let mut counts = repeats.to_vec::<i64>()?;
    if counts.len() != size {
        counts = memory::filled(size, counts[0]).map_err(Error::out_of_host_memory(op))?;
    }
    Ok(samebits_cpu_kernels::index::repeat_interleave_index(&counts)?)
}

/// Computes [`repeat_interleave`] with a result of `output_size` elements along `dim`. A GPU is not
/// waited for.
///
/// # Shapes
///
/// As [`repeat_interleave`].
///
/// # Determinism
///
/// As [`repeat_interleave`].
///
/// # Errors
///
/// Those of [`repeat_interleave`], and the numbers do not add up to `output_size`. On a GPU these and
/// negative numbers are the error of an index at the next synchronisation.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let (x, repeats) = (Tensor::new([1.0f32, 2.0, 3.0])?, Tensor::new([2i64, 0, 1])?);
/// assert_eq!(x.repeat_interleave_to(&repeats, 0, 3)?.to_vec::<f32>()?, [1.0, 1.0, 3.0]);
/// assert!(x.repeat_interleave_to(&repeats, 0, 4).is_err());
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.repeat_interleave` with an `output_size`.
#[named]
#[track_caller]
pub fn repeat_interleave_to(
    x: &Tensor,
    repeats: &Tensor,
    dim: impl DimOrAll,
    output_size: usize,
) -> Result<Tensor> {
    let dim = dim.dim_or_all("repeat_interleave_to", x.rank())?;
    const OP: &str = "repeat_interleave_to";
    let Some(dim) = dim else {
        return repeat_interleave_to(&reshape(x, [x.numel()])?, repeats, Some(0), output_size);
    };
    let size = x.value().size(OP, dim)?;
    check_repeats(OP, repeats, size)?;
    if repeats.device() == Device::Cpu {
        let index = repeated(OP, repeats, size)?;
        if index.len() != output_size {
            let message = format!("the repeats add up to {}, not to {output_size}", index.len());
            return Err(Error::invalid(OP, message));
        }
        let index = Tensor::from_slice(&index, &[output_size])?.to(x.device())?;
        return index_select(x, dim, &index);
    }
    let Some(places) = output_size.checked_add(1) else {
        return Err(Error::invalid(OP, format!("a result of {output_size} elements")));
    };
    // The place after each element's last; -1, which no index is, for a negative number.
    let repeats = expand(&reshape(repeats, [repeats.numel()])?, &[size])?;
    let is_negative = compare(CompareKind::Lt, &repeats, 0.0)?;
    let ends = where_(&is_negative, &scalar_like(&repeats, -1.0)?, &cumsum(&repeats, 0)?)?;
    let one = expand(&scalar_like(&repeats, 1.0)?, &[size])?;
    let passed = zeros_of(&[places], DType::I64, &repeats)?;
    // An element is repeated at the places that as many earlier elements have passed.
    let index = cumsum(&index_add(&passed, 0, &ends, &one, 1.0)?, 0)?;
    index_select(x, dim, &index.narrow(0, 0, output_size)?)
}

/// Repeats every element of `dim` `repeats` times; see [`repeat_interleave`].
///
/// # Errors
///
/// There is no such dimension.
///
/// # References
///
/// `torch.repeat_interleave` with a number.
#[named]
#[track_caller]
pub fn repeat_interleave_n(x: &Tensor, repeats: usize, dim: impl DimOrAll) -> Result<Tensor> {
    let dim = dim.dim_or_all("repeat_interleave_n", x.rank())?;
    let count = i64::try_from(repeats)
        .map_err(|_| Error::invalid("repeat_interleave", format!("{repeats} repeats")))?;
    repeat_interleave(x, &Tensor::from_slice(&[count], &[1])?, dim)
}
