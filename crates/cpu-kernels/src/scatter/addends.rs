//! The addends of a sum.

use crate::Float;

/// The rows that are added to output rows.
pub trait Addends<T>: Sync {
    /// Returns elements `first..first + count` of the row of source `source`, as stored. It returns
    /// a slice, so that loops over it vectorise.
    fn row(&self, source: usize, first: usize, count: usize) -> &[T];

    /// Returns the rows of `count` sources from number `source` on, as stored, if they are single elements that
    /// lie side by side.
    fn neighbours(&self, _source: usize, _count: usize) -> Option<&[T]> {
        None
    }

    /// Calls `f` with each of `items` and the addend of its source, whose row is a single element; the sources
    /// are counted from number `first`.
    #[inline(always)]
    fn for_singles<I: ExactSizeIterator>(
        &self,
        first: usize,
        items: I,
        mut f: impl FnMut(I::Item, T),
    ) where
        Self: Sized,
        T: Copy,
    {
        if let Some(stored) = self.neighbours(first, items.len()) {
            for (i, (item, &x)) in items.zip(stored).enumerate() {
                f(item, self.form(first + i, x));
            }
        } else {
            for (i, item) in items.enumerate() {
                f(item, self.form(first + i, self.row(first + i, 0, 1)[0]));
            }
        }
    }

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
    /// True if that is the number of the source.
    pub dense: bool,
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
    fn neighbours(&self, source: usize, count: usize) -> Option<&[T]> {
        self.dense.then(|| &self.data[source..][..count])
    }

    #[inline(always)]
    fn form(&self, source: usize, x: T) -> T {
        (self.form)(source, x)
    }
}

/// Returns consecutive rows of `width` elements, added as they are.
pub(crate) fn rows<T: Float>(data: &[T], width: usize) -> impl Addends<T> {
    Stored { data, place: move |source| source * width, dense: width == 1, form: |_, x| x }
}

/// Returns the rows of `width` elements that `sources` lists, added as they are.
pub(crate) fn picked<'a, T: Float>(
    data: &'a [T],
    sources: &'a [usize],
    width: usize,
) -> impl Addends<T> + 'a {
    let place = move |source: usize| sources[source] * width;
    Stored { data, place, dense: false, form: |_, x| x }
}
