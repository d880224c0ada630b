use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{CompareKind, IndexReduce, ScatterReduce, ScatterReduceKind};

use super::elementwise::{compare, div, equal, mul, wanted, where_};
use super::index::{gather, scatter_add, scatter_value, shrink};
use super::like::full_like;
use super::reduce::has_any;
use super::scalar::lifted_all;
use super::shape::reshape;
use super::support::{mask_like, masked, masked_fill};
use super::{once_differentiable, zeros_of};
use crate::dims::Dim;
use crate::{Tensor, is_recording, run};

/// Reduces values of `source` into the elements of `input` named by `index`, as in [`scatter_add`].
/// With `include_self`, the old element enters the reduction; without it, an element that receives
/// values is replaced.
///
/// # Shapes
///
/// As [`scatter`](super::scatter).
///
/// # Determinism
///
/// Portable. Sums are exact and rounded once; products are taken in ascending source order. The
/// gradient of a maximum or minimum is split evenly among equal elements. The gradient of a product
/// can be differentiated again, unless several zeros go to one element.
///
/// # Errors
///
/// The shapes do not match, or an index is out of range.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_tensor_core::ops::ScatterReduceKind;
///
/// let x = Tensor::from_slice(&[10.0f32, 20.0], &[2])?;
/// let source = Tensor::from_slice(&[1.0f32, 2.0], &[2])?;
/// let index = Tensor::from_slice(&[0i64, 0], &[2])?;
/// let y = functional::scatter_reduce(&x, 0, &index, &source, ScatterReduceKind::Mean, false)?;
/// assert_eq!(y.to_vec::<f32>()?, [1.5, 20.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.scatter_reduce`.
#[named]
#[track_caller]
pub fn scatter_reduce(
    input: &Tensor,
    dim: impl Dim,
    index: &Tensor,
    source: &Tensor,
    reduce: ScatterReduceKind,
    include_self: bool,
) -> Result<Tensor> {
    let dim = dim.dim("scatter_reduce", input.rank())?;
    if let Some((x, index, source)) = lifted_all(input, dim, index, source)? {
        let y = scatter_reduce(&x, 0, &index, &source, reduce, include_self)?;
        return reshape(&y, input.shape());
    }
    let value = run(&ScatterReduce {
        input: input.value().clone(),
        dim,
        index: index.value().clone(),
        source: source.value().clone(),
        kind: reduce,
        include_self,
    })?;
    let source = &shrink(source, index.shape())?;
    let reduction = Reduction {
        input: input.clone(),
        dim,
        index: index.clone(),
        source: source.clone(),
        result: Tensor::from(&value),
        reduce,
        include_self,
    };
    Ok(Tensor::computed(value, &[input, source], move |grad| reduction.backward(grad)))
}

/// Reduces as [`scatter_reduce`] does, with one index per slice along `dim`.
///
/// # Shapes
///
/// `index` is `[m]`; `source` has the shape of `input`, except for size `m` along `dim`.
///
/// # Determinism
///
/// As [`scatter_reduce`].
///
/// # Errors
///
/// The shapes do not match, or an index is out of range.
///
/// # References
///
/// `torch.Tensor.index_reduce`.
#[named]
#[track_caller]
pub fn index_reduce(
    input: &Tensor,
    dim: impl Dim,
    index: &Tensor,
    source: &Tensor,
    reduce: ScatterReduceKind,
    include_self: bool,
) -> Result<Tensor> {
    let dim = dim.dim("index_reduce", input.rank())?;
    if let Some((x, index, source)) = lifted_all(input, dim, index, source)? {
        let y = index_reduce(&x, 0, &index, &source, reduce, include_self)?;
        return reshape(&y, input.shape());
    }
    let value = run(&IndexReduce {
        input: input.value().clone(),
        dim,
        index: index.value().clone(),
        source: source.value().clone(),
        kind: reduce,
        include_self,
    })?;
    let mut shape = vec![1; input.shape().len()];
    shape[dim] = index.numel();
    let reduction = Reduction {
        input: input.clone(),
        dim,
        index: index.reshape(&shape)?.expand(source.shape())?,
        source: source.clone(),
        result: Tensor::from(&value),
        reduce,
        include_self,
    };
    Ok(Tensor::computed(value, &[input, source], move |grad| reduction.backward(grad)))
}

/// The operation named in the error for a missing second derivative.
const SEVERAL: &str = "scatter_reduce of several zeros";

/// The data that the gradient of a reduction needs. The index has the shape of the source.
struct Reduction {
    input: Tensor,
    dim: usize,
    index: Tensor,
    source: Tensor,
    result: Tensor,
    reduce: ScatterReduceKind,
    include_self: bool,
}

impl Reduction {
    fn backward(&self, grad: &Tensor) -> Result<Vec<Option<Tensor>>> {
        match self.reduce {
            ScatterReduceKind::Sum => self.shared(grad),
            ScatterReduceKind::Mean => {
                let ones = full_like(&self.source, 1.0)?;
                // An element that receives no value keeps its own: its divisor is 1.
                let own = match self.include_self {
                    true => full_like(&self.input, 1.0)?,
                    false => self.untouched()?,
                };
                self.shared(&div(grad, &scatter_add(&own, self.dim, &self.index, &ones)?)?)
            }
            ScatterReduceKind::Amax | ScatterReduceKind::Amin => self.extreme(grad),
            ScatterReduceKind::Prod => self.product(grad),
        }
    }

    /// Returns the gradient of a sum: that of the result, for everything that was added.
    fn shared(&self, grad: &Tensor) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![
            wanted(&self.input, || self.own(grad))?,
            wanted(&self.source, || gather(grad, self.dim, &self.index))?,
        ])
    }

    /// Splits the gradient among everything that equals the result.
    fn extreme(&self, grad: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let own = match self.include_self {
            true => mask_like(&equal(&self.input, &self.result)?, grad)?,
            false => self.untouched()?,
        };
        let results = gather(&self.result, self.dim, &self.index)?;
        let sent = mask_like(&equal(&self.source, &results)?, grad)?;
        let share = div(grad, &scatter_add(&own, self.dim, &self.index, &sent)?)?;
        Ok(vec![
            wanted(&self.input, || mul(&own, &share))?,
            wanted(&self.source, || mul(&sent, &gather(&share, self.dim, &self.index)?))?,
        ])
    }

    /// Multiplies the gradient by the product of everything else. With one zero, the product is
    /// computed with a one in its place; with two zeros it is zero.
    fn product(&self, grad: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let (input, source) = (&self.input, &self.source);
        let products = |input: &Tensor, source: &Tensor| {
            let (dim, index, kind) = (self.dim, &self.index, ScatterReduceKind::Prod);
            scatter_reduce(input, dim, index, source, kind, self.include_self)
        };
        let own = wanted(input, || {
            let zero = is_zero(input)?;
            let ones = masked_fill(input, &zero, 1.0)?;
            let others = div(&products(&ones, source)?, &ones)?;
            self.own(&mul(grad, &others)?)
        })?;
        let sent = wanted(source, || {
            let zero = is_zero(source)?;
            let ones = masked_fill(source, &zero, 1.0)?;
            let nothing = zeros_of(input.shape(), grad.dtype(), grad)?;
            let marks = mask_like(&zero, grad)?;
            let zeros = scatter_add(&nothing, self.dim, &self.index, &marks)?;
            let zeros = gather(&zeros, self.dim, &self.index)?;
            let alone = compare(CompareKind::Eq, &zeros, 1.0)?;
            let none = is_zero(&zeros)?;
            let all = gather(&products(input, &ones)?, self.dim, &self.index)?;
            // The only zero gets the product of the rest. With a zero, all other elements get 0,
            let mut rest = masked(&none, &div(&all, &ones)?)?;
            if is_recording() {
                // but this 0 must still depend on the zero for the second derivative.
                let whole = gather(&products(input, source)?, self.dim, &self.index)?;
                rest = where_(&none, &rest, &div(&whole, &ones)?)?;
            }
            let others = where_(&zero, &masked(&alone, &all)?, &rest)?;
            let sent = mul(&gather(grad, self.dim, &self.index)?, &others)?;
            let several = is_recording() && has_any(&compare(CompareKind::Gt, &zeros, 1.0)?)?;
            // The second derivative of two zeros by each other is missing here, too.
            Ok(if several {
                once_differentiable(SEVERAL, sent.value().clone(), &[grad, input, source])
            } else {
                sent
            })
        })?;
        Ok(vec![own, sent])
    }

    /// Returns the gradient of the old elements.
    fn own(&self, grad: &Tensor) -> Result<Tensor> {
        if self.include_self {
            return Ok(grad.clone());
        }
        scatter_value(grad, self.dim, &self.index, 0.0)
    }

    /// Returns 1 for elements that receive no value, else 0.
    fn untouched(&self) -> Result<Tensor> {
        let ones = full_like(&self.input, 1.0)?;
        scatter_value(&ones, self.dim, &self.index, 0.0)
    }
}

fn is_zero(x: &Tensor) -> Result<Tensor> {
    compare(CompareKind::Eq, x, 0.0)
}
