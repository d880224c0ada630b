//! The canonical NaN, the only one that results contain.
//!
//! The NaN from an addition of two NaNs depends on the operand order on x86, is always `7fffffff`
//! on a GPU and always `7fc00000` on Arm. So kernels replace any NaN by [`CANONICAL_F32`] or
//! [`CANONICAL_F64`] in the step that stores the result.

/// The NaN of f32 results: quiet, positive, empty payload.
pub const CANONICAL_F32: f32 = f32::from_bits(0x7fc0_0000);

/// The NaN of f64 results: quiet, positive, empty payload.
pub const CANONICAL_F64: f64 = f64::from_bits(0x7ff8_0000_0000_0000);

/// A type whose NaNs have one canonical form.
pub trait Canonical: Copy {
    /// Returns `self`, or the canonical NaN if `self` is any NaN.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_numerics::nan::Canonical;
    ///
    /// let negative_nan = f64::from_bits(0xfff8_0000_0000_0001);
    /// assert_eq!(negative_nan.canonical().to_bits(), 0x7ff8_0000_0000_0000);
    /// ```
    #[must_use]
    fn canonical(self) -> Self;
}

impl Canonical for f32 {
    #[inline(always)]
    fn canonical(self) -> f32 {
        // Works on the bits and not with `if self.is_nan()`: LLVM knows that the square root of a
        // negative number is a NaN and treats all NaNs as equal, so it removes a choice between
        // floats and returns the machine's own NaN. It keeps a choice between integers.
        let bits = self.to_bits();
        let nan = bits & 0x7fff_ffff > 0x7f80_0000;
        f32::from_bits(if nan { CANONICAL_F32.to_bits() } else { bits })
    }
}

impl Canonical for f64 {
    #[inline(always)]
    fn canonical(self) -> f64 {
        let bits = self.to_bits();
        let nan = bits & 0x7fff_ffff_ffff_ffff > 0x7ff0_0000_0000_0000;
        f64::from_bits(if nan { CANONICAL_F64.to_bits() } else { bits })
    }
}

/// Returns `x`, or the canonical NaN if `x` is any NaN.
///
/// # Examples
///
/// ```
/// use samebits_numerics::nan::canonical;
///
/// assert_eq!(canonical(f32::from_bits(0xffc1_2345)).to_bits(), 0x7fc0_0000);
/// assert_eq!(canonical(-0.0f32).to_bits(), (-0.0f32).to_bits());
/// ```
#[inline(always)]
#[must_use]
pub fn canonical<T: Canonical>(x: T) -> T {
    x.canonical()
}

/// Replaces every NaN in `values` with the canonical one.
///
/// # Examples
///
/// ```
/// let mut values = [1.0f32, f32::from_bits(0xffff_ffff)];
/// samebits_numerics::nan::canonicalize(&mut values);
/// assert_eq!(values[1].to_bits(), 0x7fc0_0000);
/// ```
#[inline(always)]
pub fn canonicalize<T: Canonical>(values: &mut [T]) {
    for value in values {
        *value = value.canonical();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_nan_becomes_the_canonical_one_and_nothing_else_changes() {
        for bits in [0x7f80_0001u32, 0x7fff_ffff, 0xff80_0001, 0xffff_ffff, 0xffc0_0000] {
            assert_eq!(canonical(f32::from_bits(bits)).to_bits(), 0x7fc0_0000);
        }
        for bits in [0u32, 0x8000_0000, 1, 0x7f80_0000, 0xff80_0000, 0x3f80_0000] {
            assert_eq!(canonical(f32::from_bits(bits)).to_bits(), bits);
        }
        for bits in [0x7ff0_0000_0000_0001u64, 0xffff_ffff_ffff_ffff] {
            assert_eq!(canonical(f64::from_bits(bits)).to_bits(), 0x7ff8_0000_0000_0000);
        }
        for bits in [0u64, 1 << 63, 0x7ff0_0000_0000_0000, 0xfff0_0000_0000_0000] {
            assert_eq!(canonical(f64::from_bits(bits)).to_bits(), bits);
        }
    }

    /// Square roots: the compiler removed a choice between floats here.
    struct Roots<'a, T>(&'a mut [T]);

    macro_rules! roots {
        ($type:ty) => {
            impl crate::simd::Kernel for Roots<'_, $type> {
                type Output = ();
                #[inline(always)]
                fn run(self) {
                    for x in self.0 {
                        *x = x.sqrt().canonical();
                    }
                }
            }
        };
    }

    roots!(f32);
    roots!(f64);

    #[test]
    fn the_root_of_a_negative_number_is_canonical_at_every_level() {
        for level in crate::simd::Level::ALL {
            let mut x = [-1.0f32; 67];
            x[66] = f32::from_bits(0xffc0_0001);
            crate::simd::dispatch_at(level, Roots(core::hint::black_box(&mut x)));
            assert!(x.iter().all(|x| x.to_bits() == 0x7fc0_0000), "{level:?} {x:?}");
            let mut x = [-1.0f64; 67];
            x[66] = f64::from_bits(0xfff8_0000_0000_0001);
            crate::simd::dispatch_at(level, Roots(core::hint::black_box(&mut x)));
            assert!(x.iter().all(|x| x.to_bits() == 0x7ff8 << 48), "{level:?} {x:?}");
        }
    }
}
