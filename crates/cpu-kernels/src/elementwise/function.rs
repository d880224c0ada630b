//! Functions of elements, as types.

use crate::float::Float;

/// A function of one element, as a type, so that each gets its own loop.
pub(crate) trait Function1<T: Float>: Copy + Sync {
    fn eval(self, x: T) -> T;

    /// Computes the function of each element, with canonical NaNs.
    #[inline(always)]
    fn each(self, x: &[T], out: &mut [T]) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = self.eval(x).canonical();
        }
    }
}

/// A function of two elements, as a type.
pub(crate) trait Function2<T>: Copy + Sync {
    fn eval(self, a: T, b: T) -> T;
}
