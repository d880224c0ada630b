//! Parallel work on parts of arrays: on rayon's pool with the feature `rayon`, otherwise
//! sequentially under the same names.

#[cfg(feature = "rayon")]
pub(crate) use rayon::prelude::*;

#[cfg(not(feature = "rayon"))]
pub(crate) use serial::*;

#[cfg(not(feature = "rayon"))]
mod serial {
    use core::cmp::Ordering;
    use core::slice::{Chunks, ChunksMut, IterMut};

    /// Methods of slices used by this crate.
    pub(crate) trait Slice<T> {
        fn par_chunks(&self, size: usize) -> Chunks<'_, T>;
        fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T>;
        fn par_iter_mut(&mut self) -> IterMut<'_, T>;
        fn par_sort_unstable_by(&mut self, order: impl Fn(&T, &T) -> Ordering);
        fn par_sort_unstable_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K);
    }

    impl<T> Slice<T> for [T] {
        fn par_chunks(&self, size: usize) -> Chunks<'_, T> {
            self.chunks(size)
        }

        fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T> {
            self.chunks_mut(size)
        }

        fn par_iter_mut(&mut self) -> IterMut<'_, T> {
            self.iter_mut()
        }

        fn par_sort_unstable_by(&mut self, order: impl Fn(&T, &T) -> Ordering) {
            self.sort_unstable_by(order);
        }

        fn par_sort_unstable_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
            self.sort_unstable_by_key(key);
        }
    }

    /// Methods of collections.
    pub(crate) trait IntoSerial: IntoIterator + Sized {
        fn into_par_iter(self) -> Self::IntoIter {
            self.into_iter()
        }
    }

    impl<I: IntoIterator> IntoSerial for I {}

    /// Methods of iterators.
    pub(crate) trait Serial: Iterator + Sized {
        fn for_each_init<S>(self, init: impl Fn() -> S, work: impl Fn(&mut S, Self::Item)) {
            let mut state = init();
            self.for_each(|item| work(&mut state, item));
        }
    }

    impl<I: Iterator> Serial for I {}
}
