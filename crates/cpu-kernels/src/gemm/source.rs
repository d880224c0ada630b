//! Elements of operands: of the type in which products are computed, or halves that packing widens.

use samebits_tensor_core::{bf16, f16};

use super::Real;
use crate::arch::transpose::CHAINS;
use crate::elementwise::halves::Half;

/// An element of an operand of products in `T`.
pub(crate) trait Source<T>: Copy + Send + Sync + 'static {
    /// The number of elements of B packed at a time, which limits the memory.
    const PACKED_ELEMENTS: usize;

    /// Tells if elements are widened.
    const IS_NARROW: bool;

    /// Returns the same number in the type of the products.
    fn widen(self) -> T;

    /// Returns elements that products can read as they are; `None` means that all are packed.
    fn in_place(elements: &[Self]) -> Option<&[T]>;

    /// Writes the elements of `from` to `to`, which has the same length.
    fn copy(from: &[Self], to: &mut [T]);

    /// Sets `to[step * width + lane] = from[lane * stride + step]`.
    fn pack_transposed(
        from: &[Self],
        stride: usize,
        lanes_and_steps: (usize, usize),
        to: &mut [T],
        width: usize,
    );

    /// Adds `factors[r][step] * from[lane * stride + step]` to the sum of each lane for each row of
    /// factors, step by step, and returns the number of steps that it took.
    fn add_products<const R: usize>(
        factors: [&[T]; R],
        from: &[Self],
        stride: usize,
        lanes: usize,
        sums: &mut [[T; CHAINS]; R],
    ) -> usize;
}

impl<T: Real> Source<T> for T {
    const PACKED_ELEMENTS: usize = 1 << 24;
    const IS_NARROW: bool = false;

    #[inline(always)]
    fn widen(self) -> T {
        self
    }

    #[inline(always)]
    fn in_place(elements: &[T]) -> Option<&[T]> {
        Some(elements)
    }

    #[inline(always)]
    fn copy(from: &[T], to: &mut [T]) {
        to.copy_from_slice(from);
    }

    #[inline(always)]
    fn pack_transposed(
        from: &[T],
        stride: usize,
        lanes_and_steps: (usize, usize),
        to: &mut [T],
        width: usize,
    ) {
        <T as super::real::sealed::Sealed>::pack_transposed(
            from,
            stride,
            lanes_and_steps,
            to,
            width,
        );
    }

    #[inline(always)]
    fn add_products<const R: usize>(
        factors: [&[T]; R],
        from: &[T],
        stride: usize,
        lanes: usize,
        sums: &mut [[T; CHAINS]; R],
    ) -> usize {
        <T as super::real::sealed::Sealed>::add_products(factors, from, stride, lanes, sums)
    }
}

/// The lanes and steps that are widened at a time, before they are transposed or added: 16 KiB.
const LANES: usize = CHAINS;
const STEPS: usize = 128;

macro_rules! halves {
    ($($half:ty),*) => {$(
        impl Source<f32> for $half {
            const PACKED_ELEMENTS: usize = 1 << 19;
            const IS_NARROW: bool = true;

            #[inline(always)]
            fn widen(self) -> f32 {
                Half::widen(self)
            }

            #[inline(always)]
            fn in_place(_: &[$half]) -> Option<&[f32]> {
                None
            }

            #[inline(always)]
            fn copy(from: &[$half], to: &mut [f32]) {
                to.iter_mut().zip(from).for_each(|(to, &x)| *to = Half::widen(x));
            }

            #[inline(always)]
            fn pack_transposed(
                from: &[$half],
                stride: usize,
                (lanes, steps): (usize, usize),
                to: &mut [f32],
                width: usize,
            ) {
                let mut wide = [0.0; LANES * STEPS];
                for lane in (0..lanes).step_by(LANES) {
                    let lanes = LANES.min(lanes - lane);
                    for step in (0..steps).step_by(STEPS) {
                        let steps = STEPS.min(steps - step);
                        for (i, wide) in wide.chunks_exact_mut(STEPS).take(lanes).enumerate() {
                            let from = &from[(lane + i) * stride + step..][..steps];
                            Self::copy(from, &mut wide[..steps]);
                        }
                        let to = &mut to[step * width + lane..];
                        let shape = (lanes, steps);
                        <f32 as Source<f32>>::pack_transposed(&wide, STEPS, shape, to, width);
                    }
                }
            }

            #[inline(always)]
            fn add_products<const R: usize>(
                factors: [&[f32]; R],
                from: &[$half],
                stride: usize,
                lanes: usize,
                sums: &mut [[f32; CHAINS]; R],
            ) -> usize {
                if lanes > LANES {
                    return 0;
                }
                let mut wide = [0.0; LANES * STEPS];
                let (mut taken, all) = (0, factors[0].len());
                while taken < all {
                    let count = STEPS.min(all - taken);
                    let rows = wide.chunks_exact_mut(STEPS).take(lanes).enumerate();
                    for (lane, wide) in rows {
                        let from = &from[lane * stride + taken..][..count];
                        Self::copy(from, &mut wide[..count]);
                    }
                    let mut some = factors;
                    for some in &mut some {
                        *some = &some[taken..taken + count];
                    }
                    let steps = <f32 as Source<f32>>::add_products(some, &wide, STEPS, lanes, sums);
                    taken += steps;
                    if steps < count {
                        break;
                    }
                }
                taken
            }
        }
    )*};
}
halves!(bf16, f16);
