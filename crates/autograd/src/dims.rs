//! Dimensions and shapes as arguments.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use samebits_tensor_core::{Error, Result};

use crate::Tensor;

/// A dimension of a tensor. Negative numbers count from the end: `-1` is the last dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// assert_eq!(x.softmax(-1)?.to_vec::<f32>()?, x.softmax(1)?.to_vec::<f32>()?);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
pub trait Dim {
    /// Returns the dimension, counted from the front, of a tensor with `rank` dimensions.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`], naming `op`, for a negative number before the first dimension.
    /// The operation itself checks numbers past the last dimension.
    fn dim(&self, op: &'static str, rank: usize) -> Result<usize>;
}

impl Dim for usize {
    fn dim(&self, _: &'static str, _: usize) -> Result<usize> {
        Ok(*self)
    }
}

macro_rules! signed_dims {
    ($($int:ty),*) => {$(
        impl Dim for $int {
            fn dim(&self, op: &'static str, rank: usize) -> Result<usize> {
                // A tensor without dimensions is indexed as if it had one.
                let from_front = match *self < 0 {
                    true => usize::try_from(self.unsigned_abs())
                        .ok()
                        .and_then(|back| rank.max(1).checked_sub(back)),
                    false => usize::try_from(*self).ok(),
                };
                from_front.ok_or_else(|| {
                    Error::invalid(op, format!("dimension {self} of a tensor of rank {rank}"))
                })
            }
        }
    )*};
}
signed_dims!(i32, i64, isize);

/// A set of dimensions: a number, an array, slice, vector or range, or `()` for all.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// assert_eq!(x.sum(())?.item::<f32>()?, 10.0);
/// assert_eq!(x.sum(-1)?.to_vec::<f32>()?, [3.0, 7.0]);
/// assert_eq!(x.sum([0, 1])?.item::<f32>()?, 10.0);
/// assert_eq!(x.sum(1..)?.to_vec::<f32>()?, [3.0, 7.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
pub trait Dims {
    /// Returns the dimensions, counted from the front, of a tensor with `rank` dimensions, in the
    /// given order.
    ///
    /// # Errors
    ///
    /// As [`Dim::dim`].
    fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>>;
}

impl Dims for () {
    fn dims(&self, _: &'static str, rank: usize) -> Result<Vec<usize>> {
        Ok((0..rank).collect())
    }
}

impl Dims for RangeFull {
    fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
        ().dims(op, rank)
    }
}

impl<D: Dim> Dims for [D] {
    fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
        self.iter().map(|dim| dim.dim(op, rank)).collect()
    }
}

impl<D: Dim, const N: usize> Dims for [D; N] {
    fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
        self.as_slice().dims(op, rank)
    }
}

impl<D: Dim> Dims for Vec<D> {
    fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
        self.as_slice().dims(op, rank)
    }
}

impl<D: Dims + ?Sized> Dims for &D {
    fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
        (**self).dims(op, rank)
    }
}

/// Returns dimensions `start..end`. An end past the last dimension is cut to the first invalid one,
/// which is enough for the operation to reject it.
fn between(start: usize, end: usize, rank: usize) -> Vec<usize> {
    (start..end.min(rank.max(start).saturating_add(1))).collect()
}

macro_rules! dims_of_ints {
    ($($int:ty),*) => {$(
        impl Dims for $int {
            fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
                Ok(vec![self.dim(op, rank)?])
            }
        }

        impl Dims for Range<$int> {
            fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
                Ok(between(self.start.dim(op, rank)?, self.end.dim(op, rank)?, rank))
            }
        }

        impl Dims for RangeFrom<$int> {
            fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
                Ok(between(self.start.dim(op, rank)?, rank, rank))
            }
        }

        impl Dims for RangeTo<$int> {
            fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
                Ok(between(0, self.end.dim(op, rank)?, rank))
            }
        }

        impl Dims for RangeInclusive<$int> {
            fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
                let end = self.end().dim(op, rank)?.saturating_add(1);
                Ok(between(self.start().dim(op, rank)?, end, rank))
            }
        }

        impl Dims for RangeToInclusive<$int> {
            fn dims(&self, op: &'static str, rank: usize) -> Result<Vec<usize>> {
                Ok(between(0, self.end.dim(op, rank)?.saturating_add(1), rank))
            }
        }
    )*};
}
dims_of_ints!(usize, i32, i64, isize);

/// A single dimension, or all: a [`Dim`], an `Option` of one, or `()` for all.
pub trait DimOrAll {
    /// Returns the dimension, counted from the front, or `None` for all.
    ///
    /// # Errors
    ///
    /// As [`Dim::dim`].
    fn dim_or_all(&self, op: &'static str, rank: usize) -> Result<Option<usize>>;
}

impl DimOrAll for () {
    fn dim_or_all(&self, _: &'static str, _: usize) -> Result<Option<usize>> {
        Ok(None)
    }
}

impl DimOrAll for Option<usize> {
    fn dim_or_all(&self, _: &'static str, _: usize) -> Result<Option<usize>> {
        Ok(*self)
    }
}

macro_rules! dim_or_all_of_ints {
    ($($int:ty),*) => {$(
        impl DimOrAll for $int {
            fn dim_or_all(&self, op: &'static str, rank: usize) -> Result<Option<usize>> {
                self.dim(op, rank).map(Some)
            }
        }
    )*};
}
dim_or_all_of_ints!(usize, i32, i64, isize);

/// A shape, in which one size may be `-1`: it is inferred from the others. `()` is the shape of a
/// tensor without dimensions.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::arange(6)?;
/// assert_eq!(x.reshape([2, -1])?.shape(), [2, 3]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
pub trait Sizes {
    /// Returns the sizes of a tensor with `numel` elements.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`], naming `op`, if a size is negative but not `-1`, or if `-1`
    /// cannot be inferred: no size fits, or several do.
    fn sizes(&self, op: &'static str, numel: usize) -> Result<Vec<usize>>;
}

impl Sizes for () {
    fn sizes(&self, _: &'static str, _: usize) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }
}

impl<S: Sizes + ?Sized> Sizes for &S {
    fn sizes(&self, op: &'static str, numel: usize) -> Result<Vec<usize>> {
        (**self).sizes(op, numel)
    }
}

impl<const N: usize, T> Sizes for [T; N]
where
    [T]: Sizes,
{
    fn sizes(&self, op: &'static str, numel: usize) -> Result<Vec<usize>> {
        self.as_slice().sizes(op, numel)
    }
}

impl<T> Sizes for Vec<T>
where
    [T]: Sizes,
{
    fn sizes(&self, op: &'static str, numel: usize) -> Result<Vec<usize>> {
        self.as_slice().sizes(op, numel)
    }
}

impl Sizes for usize {
    fn sizes(&self, _: &'static str, _: usize) -> Result<Vec<usize>> {
        Ok(vec![*self])
    }
}

impl Sizes for [usize] {
    fn sizes(&self, _: &'static str, _: usize) -> Result<Vec<usize>> {
        Ok(self.to_vec())
    }
}

macro_rules! signed_sizes {
    ($($int:ty),*) => {$(
        impl Sizes for $int {
            fn sizes(&self, op: &'static str, numel: usize) -> Result<Vec<usize>> {
                [*self].sizes(op, numel)
            }
        }

        impl Sizes for [$int] {
            fn sizes(&self, op: &'static str, numel: usize) -> Result<Vec<usize>> {
                let holes = self.iter().filter(|&&size| size == -1).count();
                let known = self
                    .iter()
                    .filter(|&&size| size != -1)
                    .try_fold(1usize, |all, &size| all.checked_mul(usize::try_from(size).ok()?));
                let left = match known {
                    Some(_) if holes == 0 => Some(0),
                    Some(known) if holes == 1 && known > 0 && numel.is_multiple_of(known) => {
                        Some(numel / known)
                    }
                    _ => None,
                };
                let sizes = left.and_then(|left| {
                    let size = |&size: &$int| {
                        if size == -1 { Some(left) } else { usize::try_from(size).ok() }
                    };
                    self.iter().map(size).collect()
                });
                sizes.ok_or_else(|| {
                    Error::invalid(op, format!("shape {self:?} does not fit {numel} elements"))
                })
            }
        }
    )*};
}
signed_sizes!(i32, i64, isize);

/// Returns the dimensions that a reduction of `x` runs over, in ascending order.
pub(crate) fn over(op: &'static str, x: &Tensor, dims: impl Dims) -> Result<Vec<usize>> {
    let mut dims = dims.dims(op, x.rank())?;
    dims.sort_unstable();
    Ok(dims)
}
