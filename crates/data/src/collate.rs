//! Collate functions: assembling the samples of a batch.

use samebits_numerics::memory;
use samebits_rng::Generator;

use crate::memory::allocated;
use crate::{Error, Result};

const OP: &str = "stack";

/// Turns the samples of one batch into the batch.
///
/// It runs on the worker that loaded the samples. Closures of the form
/// `Fn(Vec<S>) -> Result<B>` are collate functions.
///
/// # Determinism
///
/// The samples arrive in the order of the sampler. A collate function must depend only on them and
/// on its generator. The batch has its own generator, addressed by its first sample: the sample's
/// index and its number of earlier visits, or its shard and position in a stream.
pub trait Collate<S>: Send + Sync + 'static {
    /// The batch.
    type Batch: Send + 'static;

    /// Assembles `samples` into a batch. Random numbers must come from `rng`.
    ///
    /// # Errors
    ///
    /// Any error of the implementation, for example for samples of different sizes.
    fn collate(&self, samples: Vec<S>, rng: &mut Generator) -> Result<Self::Batch>;
}

impl<S, B, F> Collate<S> for F
where
    B: Send + 'static,
    F: Fn(Vec<S>) -> Result<B> + Send + Sync + 'static,
{
    type Batch = B;

    fn collate(&self, samples: Vec<S>, _: &mut Generator) -> Result<B> {
        self(samples)
    }
}

/// The default collate function: stacks samples into flat buffers.
///
/// [`Stackable`] defines the result for each type: numbers become a `Vec`, vectors and arrays
/// become a [`Stacked`] matrix, tuples are stacked field by field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack;

impl<S: Stackable> Collate<S> for Stack {
    type Batch = S::Stacked;

    fn collate(&self, samples: Vec<S>, _: &mut Generator) -> Result<S::Stacked> {
        S::stack(samples)
    }
}

/// A collate function that returns the samples unchanged, in a `Vec`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep;

impl<S: Send + 'static> Collate<S> for Keep {
    type Batch = Vec<S>;

    fn collate(&self, samples: Vec<S>, _: &mut Generator) -> Result<Vec<S>> {
        Ok(samples)
    }
}

/// Rows of equal length, one after another in one buffer.
///
/// # Shapes
///
/// `values` holds `rows * columns` elements, row by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacked<T> {
    /// The elements, row by row.
    pub values: Vec<T>,
    /// The number of samples stacked.
    pub rows: usize,
    /// The number of values per sample.
    pub columns: usize,
}

impl<T> Stacked<T> {
    /// Returns one sample's values, or `None` if there is no such row.
    pub fn row(&self, row: usize) -> Option<&[T]> {
        let start = row.checked_mul(self.columns)?;
        let end = start.checked_add(self.columns)?;
        if row < self.rows { self.values.get(start..end) } else { None }
    }
}

/// A sample that the [`Stack`] collate function can stack.
///
/// The batch is allocated before the first sample arrives, and each sample is written straight into
/// it: one allocation per buffer of the batch.
///
/// # Examples
///
/// ```
/// use samebits_data::Stackable;
///
/// let (pixels, classes) = <(Vec<f32>, i64)>::stack(vec![
///     (vec![0.0, 0.5], 3),
///     (vec![1.0, 0.25], 7),
/// ])?;
/// assert_eq!(pixels.values, [0.0, 0.5, 1.0, 0.25]);
/// assert_eq!((pixels.rows, pixels.columns), (2, 2));
/// assert_eq!(classes, [3, 7]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
pub trait Stackable: Send + Sized + 'static {
    /// The stacked samples.
    type Stacked: Send + 'static;

    /// Creates a batch without samples, with room for `count` samples of the size of `first`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    fn room(count: usize, first: Option<&Self>) -> Result<Self::Stacked>;

    /// Appends the sample to the batch `stacked`.
    ///
    /// # Errors
    ///
    /// [`Error::Ragged`] if its size differs from that of the earlier samples.
    fn push(self, stacked: &mut Self::Stacked) -> Result<()>;

    /// Stacks `samples` in their order.
    ///
    /// # Errors
    ///
    /// As for [`room`](Stackable::room) and [`push`](Stackable::push).
    fn stack(samples: Vec<Self>) -> Result<Self::Stacked> {
        let mut stacked = Self::room(samples.len(), samples.first())?;
        samples.into_iter().try_for_each(|sample| sample.push(&mut stacked))?;
        Ok(stacked)
    }
}

macro_rules! scalar {
    ($($t:ty)*) => {$(
        impl Stackable for $t {
            type Stacked = Vec<$t>;

            fn room(count: usize, _: Option<&Self>) -> Result<Vec<$t>> {
                allocated(OP, memory::with_capacity(count))
            }

            fn push(self, stacked: &mut Vec<$t>) -> Result<()> {
                stacked.push(self);
                Ok(())
            }

            fn stack(samples: Vec<Self>) -> Result<Vec<$t>> {
                Ok(samples)
            }
        }
    )*};
}

scalar!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 usize bool String);

impl<T: Copy + Send + 'static> Stackable for Vec<T> {
    type Stacked = Stacked<T>;

    fn room(count: usize, first: Option<&Self>) -> Result<Stacked<T>> {
        room(count, first.map_or(0, Vec::len))
    }

    fn push(self, stacked: &mut Stacked<T>) -> Result<()> {
        push(&self, stacked)
    }
}

impl<T: Copy + Send + 'static, const N: usize> Stackable for [T; N] {
    type Stacked = Stacked<T>;

    fn room(count: usize, _: Option<&Self>) -> Result<Stacked<T>> {
        room(count, N)
    }

    fn push(self, stacked: &mut Stacked<T>) -> Result<()> {
        push(&self, stacked)
    }
}

/// Creates a matrix without rows. The length may overflow for zero-sized elements.
fn room<T>(rows: usize, columns: usize) -> Result<Stacked<T>> {
    let too_large = Error::OutOfMemory { op: OP, bytes: usize::MAX };
    let area = memory::product(&[rows, columns]).ok_or(too_large)?;
    Ok(Stacked { values: allocated(OP, memory::with_capacity(area))?, rows: 0, columns })
}

/// Appends a row.
fn push<T: Copy>(row: &[T], stacked: &mut Stacked<T>) -> Result<()> {
    let (position, expected, found) = (stacked.rows, stacked.columns, row.len());
    if found != expected {
        return Err(Error::Ragged { op: OP, position, expected, found });
    }
    stacked.values.extend_from_slice(row);
    stacked.rows += 1;
    Ok(())
}

macro_rules! tuple {
    ($($S:ident $i:tt)*) => {
        impl<$($S: Stackable),*> Stackable for ($($S,)*) {
            type Stacked = ($($S::Stacked,)*);

            fn room(count: usize, first: Option<&Self>) -> Result<Self::Stacked> {
                Ok(($($S::room(count, first.map(|sample| &sample.$i))?,)*))
            }

            fn push(self, stacked: &mut Self::Stacked) -> Result<()> {
                $(self.$i.push(&mut stacked.$i)?;)*
                Ok(())
            }
        }
    };
}

tuple!(A 0 B 1);
tuple!(A 0 B 1 C 2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_scalars_and_triples_stack() {
        let (a, b, c) =
            <([u8; 2], f32, Vec<i64>)>::stack(vec![([1, 2], 0.5, vec![]), ([3, 4], 1.5, vec![])])
                .unwrap();
        assert_eq!(a, Stacked { values: vec![1, 2, 3, 4], rows: 2, columns: 2 });
        assert_eq!(b, [0.5, 1.5]);
        assert_eq!((c.rows, c.columns), (2, 0));
        assert_eq!(a.row(1), Some(&[3, 4][..]));
        assert_eq!(a.row(2), None);
        assert_eq!(c.row(1), Some(&[][..]));
    }

    #[test]
    fn ragged_samples_are_an_error() {
        let error = Vec::<f32>::stack(vec![vec![1.0], vec![1.0, 2.0]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stack: sample 1 of the batch holds 2 values, the first holds 1: give samples one \
             size, or use a collate function of your own"
        );
    }
}
