//! Floating-point operations that `core` lacks.

/// The operations of IEEE 754 that are methods of `f32` and `f64` in `std` but not in `core`.
///
/// Code without `std` imports the trait and calls the same methods. With `std`, the inherent
/// methods take precedence; the bits are the same.
///
/// # Determinism
///
/// Each operation rounds once on any target, so it gives the bits of `std`'s method. Only the
/// payload of a NaN may differ.
///
/// # Examples
///
/// ```
/// use samebits_numerics::Ieee;
///
/// // The product is 1 - 2^-54. Rounded before the addition, it would be 1.
/// let small = f64::from_bits((1023 - 27) << 52);
/// assert_eq!(Ieee::mul_add(1.0 + small, 1.0 - small, -1.0), -small * small);
/// assert_eq!(Ieee::sqrt(9.0f32), 3.0);
/// ```
pub trait Ieee: Copy {
    /// Returns `self * a + b`, rounded once.
    #[must_use]
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// Returns the square root, correctly rounded.
    #[must_use]
    fn sqrt(self) -> Self;
    /// Returns the largest integer that is not above `self`.
    #[must_use]
    fn floor(self) -> Self;
    /// Returns the smallest integer that is not below `self`.
    #[must_use]
    fn ceil(self) -> Self;
    /// Returns the integer part.
    #[must_use]
    fn trunc(self) -> Self;
    /// Returns the nearest integer, ties to even.
    #[must_use]
    fn round_ties_even(self) -> Self;
}

macro_rules! ieee {
    ($type:ty: $fma:ident $sqrt:ident $floor:ident $ceil:ident $trunc:ident $round:ident) => {
        impl Ieee for $type {
            #[inline]
            fn mul_add(self, a: $type, b: $type) -> $type {
                libm::$fma(self, a, b)
            }

            #[inline]
            fn sqrt(self) -> $type {
                libm::$sqrt(self)
            }

            #[inline]
            fn floor(self) -> $type {
                libm::$floor(self)
            }

            #[inline]
            fn ceil(self) -> $type {
                libm::$ceil(self)
            }

            #[inline]
            fn trunc(self) -> $type {
                libm::$trunc(self)
            }

            #[inline]
            fn round_ties_even(self) -> $type {
                libm::$round(self)
            }
        }
    };
}

ieee!(f32: fmaf sqrtf floorf ceilf truncf roundevenf);
ieee!(f64: fma sqrt floor ceil trunc roundeven);
