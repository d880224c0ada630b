//! What is added.

use crate::Float;

/// The rows that are added to output rows.
pub trait Addends<T>: Sync {
    /// Elements `first..first + count` of the row of source `source`, as stored. A slice and not
    /// single elements, so that loops over it are vectorised.
    fn row(&self, source: usize, first: usize, count: usize) -> &[T];

    /// Returns the addend that element `x` of the row of source `source` stands for.
    fn form(&self, source: usize, x: T) -> T;
}

/// Rows of one slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a, T, P, F> {
    /// The slice.
    pub data: &'a [T],
    /// Where the row of a source starts.
    pub place: P,
    /// How an addend is formed from a source and an element of its row.
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

/// Rows of `width` elements, one after the other, added as they are.
pub(crate) fn rows<T: Float>(data: &[T], width: usize) -> impl Addends<T> {
    Stored { data, place: move |source| source * width, form: |_, x| x }
}

/// Those of the rows of `width` elements that `sources` lists, added as they are.
pub(crate) fn picked<'a, T: Float>(
    data: &'a [T],
    sources: &'a [usize],
    width: usize,
) -> impl Addends<T> + 'a {
    Stored { data, place: move |source: usize| sources[source] * width, form: |_, x| x }
}
