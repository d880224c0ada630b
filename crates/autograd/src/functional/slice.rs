//! Indexing as in PyTorch: `x[.., 1:3, -1]` is `x.i((.., 1..3, -1))`.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use samebits_macros::named;
use samebits_tensor_core::{DType, Error, Result};

use super::{index, narrow, nonzero, squeeze, unsqueeze};
use crate::Tensor;
use crate::dims::Dim;

/// An index that inserts a dimension of size 1: `None` in PyTorch.
#[derive(Clone, Copy, Debug)]
pub struct NewAxis;

/// An index for all dimensions that no other index covers: `...` in PyTorch.
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;

/// The effect of one index. Negative positions count from the end. The integers hold every position
/// that a caller can write.
#[derive(Clone, Debug)]
pub enum At {
    /// Takes one position and removes the dimension.
    One(i128),
    /// Takes the positions from a start up to but not including an end; a missing bound is open.
    Span(Option<i128>, Option<i128>),
    /// Inserts a dimension.
    NewAxis,
    /// Takes all dimensions that no other index covers.
    Ellipsis,
    /// Takes the positions that a tensor of integers names, or those where a mask is true; a mask
    /// covers as many dimensions as it has.
    Tensor(Tensor),
}

/// An index: an integer, a range of integers, a tensor of integers, a mask, [`NewAxis`] or
/// [`Ellipsis`].
pub trait Position {
    /// Returns the effect of the index.
    fn at(&self) -> At;
}

impl Position for NewAxis {
    fn at(&self) -> At {
        At::NewAxis
    }
}

impl Position for Ellipsis {
    fn at(&self) -> At {
        At::Ellipsis
    }
}

impl Position for Tensor {
    fn at(&self) -> At {
        At::Tensor(self.clone())
    }
}

impl Position for &Tensor {
    fn at(&self) -> At {
        At::Tensor((*self).clone())
    }
}

impl Position for RangeFull {
    fn at(&self) -> At {
        At::Span(None, None)
    }
}

/// Returns the exclusive end of an inclusive range; after `-1` the range is open.
fn after(last: i128) -> Option<i128> {
    (last != -1).then_some(last + 1)
}

macro_rules! positions {
    ($($int:ty),*) => {$(
        impl Position for $int {
            fn at(&self) -> At {
                At::One(*self as i128)
            }
        }

        impl Position for Range<$int> {
            fn at(&self) -> At {
                At::Span(Some(self.start as i128), Some(self.end as i128))
            }
        }

        impl Position for RangeFrom<$int> {
            fn at(&self) -> At {
                At::Span(Some(self.start as i128), None)
            }
        }

        impl Position for RangeTo<$int> {
            fn at(&self) -> At {
                At::Span(None, Some(self.end as i128))
            }
        }

        impl Position for RangeInclusive<$int> {
            fn at(&self) -> At {
                At::Span(Some(*self.start() as i128), after(*self.end() as i128))
            }
        }

        impl Position for RangeToInclusive<$int> {
            fn at(&self) -> At {
                At::Span(None, after(self.end as i128))
            }
        }
    )*};
}
positions!(usize, i32, i64, isize);

/// The indices of [`i`]: a [`Position`], or a tuple of up to six.
pub trait Positions {
    /// Returns the effect of each index, in order.
    fn ats(&self) -> Vec<At>;
}

impl<P: Position> Positions for P {
    fn ats(&self) -> Vec<At> {
        vec![self.at()]
    }
}

macro_rules! tuples {
    ($($($P:ident)*;)*) => {$(
        impl<$($P: Position),*> Positions for ($($P,)*) {
            #[allow(non_snake_case, reason = "each field has the name of its type")]
            fn ats(&self) -> Vec<At> {
                let ($($P,)*) = self;
                vec![$($P.at()),*]
            }
        }
    )*};
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

/// Indexes `x` by integers, ranges, tensors of integers and masks, one per dimension; later
/// dimensions stay whole.
///
/// An integer removes its dimension. Positions may be negative: `-1` is the last. As in PyTorch, a
/// range that extends past the end stops there, and a range that ends before it starts is empty.
/// `..` takes the whole of one dimension, [`Ellipsis`] all dimensions that no other index covers.
/// Tensors of indices go together as in [`index`]: `x.i((.., &i, &j))` is `x[:, i, j]`. A mask
/// stands for the positions of its true elements, and covers as many dimensions as it has.
///
/// # Determinism
///
/// Portable. The gradient of tensors of indices is an exact sum, rounded once.
///
/// # Errors
///
/// An integer is out of range, there are more indices than dimensions, or more than one
/// [`Ellipsis`]; a mask has another shape than its dimensions; or as [`index`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::functional::{Ellipsis, NewAxis};
///
/// let x = Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
/// assert_eq!(x.i(-1)?.to_vec::<f32>()?, [4.0, 5.0, 6.0]);
/// assert_eq!(x.i((.., 1..3))?.to_vec::<f32>()?, [2.0, 3.0, 5.0, 6.0]);
/// assert_eq!(x.i((Ellipsis, -1))?.to_vec::<f32>()?, [3.0, 6.0]);
/// assert_eq!(x.i((.., NewAxis, ..-1))?.shape(), [2, 1, 2]);
///
/// let (rows, columns) = (Tensor::new([1, 0])?, Tensor::new([true, false, true])?);
/// assert_eq!(x.i((&rows, &columns))?.to_vec::<f32>()?, [4.0, 3.0]);
/// assert_eq!(x.i(&x.gt(3.5)?)?.to_vec::<f32>()?, [4.0, 5.0, 6.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[doc(alias = "getitem")]
#[doc(alias = "slice")]
#[named]
#[track_caller]
pub fn i(x: &Tensor, positions: impl Positions) -> Result<Tensor> {
    let ats = positions.ats();
    let covered = |at: &At| match at {
        At::One(_) | At::Span(..) => 1,
        At::NewAxis | At::Ellipsis => 0,
        At::Tensor(index) if index.dtype() == DType::Bool => index.rank(),
        At::Tensor(_) => 1,
    };
    let taken: usize = ats.iter().map(covered).sum();
    let left = x.rank().checked_sub(taken).ok_or_else(|| {
        Error::invalid("i", format!("{taken} indices for a tensor of rank {}", x.rank()))
    })?;
    let ellipses = ats.iter().filter(|at| matches!(at, At::Ellipsis)).count();
    if ellipses > 1 {
        return Err(Error::invalid("i", format!("expected at most one ellipsis, got {ellipses}")));
    }
    // `dim` counts the dimensions of the result, `from` those of the tensor that was given.
    let (mut x, mut dim, mut from) = (x.clone(), 0, 0);
    // The tensors of indices of the first dimensions of the result.
    let mut tensors: Vec<Option<Tensor>> = Vec::new();
    for at in ats {
        match at {
            At::One(index) => {
                let start = position("i", index, from, x.shape()[dim])?;
                x = squeeze(&narrow(&x, dim, start, 1)?, dim)?;
                from += 1;
            }
            At::Span(start, end) => {
                let size = x.shape()[dim];
                let start = start.map_or(0, |start| bound(start, size));
                let end = end.map_or(size, |end| bound(end, size));
                if (start, end) != (0, size) {
                    x = narrow(&x, dim, start, end.saturating_sub(start))?;
                }
                dim += 1;
                from += 1;
            }
            At::NewAxis => {
                x = unsqueeze(&x, dim)?;
                dim += 1;
            }
            At::Ellipsis => {
                dim += left;
                from += left;
            }
            At::Tensor(index) => {
                tensors.resize(dim, None);
                if index.dtype() != DType::Bool {
                    tensors.push(Some(index));
                    from += 1;
                } else if index.rank() == 0 {
                    x = unsqueeze(&x, dim)?;
                    tensors.extend(places(&unsqueeze(&index, 0)?, &[1])?);
                } else {
                    tensors.extend(places(&index, &x.shape()[dim..][..index.rank()])?);
                    from += index.rank();
                }
                dim = tensors.len();
            }
        }
    }
    if tensors.is_empty() { Ok(x) } else { index(&x, &tensors) }
}

/// Returns the indices of the true elements of a mask, for each dimension that it covers.
fn places(mask: &Tensor, shape: &[usize]) -> Result<Vec<Option<Tensor>>> {
    if mask.shape() != shape {
        let message = format!("a mask of shape {:?} for dimensions of {shape:?}", mask.shape());
        return Err(Error::invalid("i", message));
    }
    let places = nonzero(mask)?;
    (0..mask.rank()).map(|dim| Ok(Some(select(&places, 1, dim as i64)?))).collect()
}

/// Selects one position of `dim` and removes that dimension. Negative positions count from the end.
///
/// # Errors
///
/// There is no such dimension, or no such position.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// assert_eq!(x.select(1, -1)?.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn select(x: &Tensor, dim: impl Dim, index: i64) -> Result<Tensor> {
    let dim = dim.dim("select", x.rank())?;
    let size = x.value().size("select", dim)?;
    let start = position("select", i128::from(index), dim, size)?;
    squeeze(&narrow(x, dim, start, 1)?, dim)
}

/// Returns position `index` of dimension `dim`, which has size `size`, counted from the front.
fn position(op: &'static str, index: i128, dim: usize, size: usize) -> Result<usize> {
    let from_front = if index < 0 { index + size as i128 } else { index };
    usize::try_from(from_front).ok().filter(|&start| start < size).ok_or_else(|| {
        Error::invalid(op, format!("index {index} into dimension {dim}, which has size {size}"))
    })
}

/// Returns the bound of a range, counted from the front and clamped to `0..=size`.
fn bound(position: i128, size: usize) -> usize {
    let size = size as i128;
    let from_front = if position < 0 { position + size } else { position };
    from_front.clamp(0, size) as usize
}
