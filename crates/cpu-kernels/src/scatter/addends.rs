//! The addends of a sum.

use crate::Float;

/// The rows that are added to output rows.
pub trait Addends<T>: Sync {
    /// Returns elements `first..first + count` of the row of source `source`, as stored. It returns
    /// a slice, so that loops over it vectorise.
    fn row(&self, source: usize, first: usize, count: usize) -> &[T];

    /// Returns the addend that element `x` of the row of source `source` represents.
    fn form(&self, source: usize, x: T) -> T;
}

/// Rows of one slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a, T, P, F> {
    /// The slice.
    pub data: &'a [T],
    /// A function that returns the start of a source's row.
    pub place: P,
    /// A function that returns the addend for a source and an element of its row.
    pub form: F,
}

impl<T, P, F> Addends<T> for Stored<'_, T, P, F>
where
    T: Float,
    P: Fn(usize) -> usize + Sync,
    F: Fn(usize, T) -> T + Sync,
{
    #[inline(always)]
    fn row(&self, source: usize, first: usize, count: usize) -> &[T] {
        &self.data[(self.place)(source) + first..][..count]
    }

    #[inline(always)]
    fn form(&self, source: usize, x: T) -> T {
        (self.form)(source, x)
    }
}

/// Returns consecutive rows of `width` elements, added as they are.
pub(crate) fn rows<T: Float>(data: &[T], width: usize) -> impl Addends<T> {
    Stored { data, place: move |source| source * width, form: |_, x| x }
}

/// Returns the rows of `width` elements that `sources` lists, added as they are.
pub(crate) fn picked<'a, T: Float>(
    data: &'a [T],
    sources: &'a [usize],
    width: usize,
) -> impl Addends<T> + 'a {
    Stored { data, place: move |source: usize| sources[source] * width, form: |_, x| x }
}
