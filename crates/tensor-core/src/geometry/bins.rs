//! Bins of equal width.

use num_bigint::{BigInt, Sign};
use samebits_numerics::fpenv;
use samebits_numerics::memory::{self, OutOfMemory};

use crate::DType;

/// Returns the lower edges of `bins` bins of equal width from `low` to `high`: the least number of
/// the type that is not below `low + k · (high − low) / bins`, as f64.
///
/// The edges are exact: no intermediate result is rounded. So a number `x` of the type between the
/// limits lies in bin `floor((x − low) · bins / (high − low))`, computed in real numbers, if it is
/// not below that bin's edge and below the next one.
///
/// # Errors
///
/// [`OutOfMemory`].
///
/// # Panics
///
/// If a limit is not finite.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::DType;
/// use samebits_tensor_core::geometry::bin_edges;
///
/// let edges = bin_edges(0.0, 1.0, 5, DType::F32).expect("there is memory for five numbers");
/// // 0.2 as f32 is above 1/5, 0.6 as f32 above 3/5, and 0.8 as f32 above 4/5; 0.4 too.
/// assert_eq!(edges, [0.0f32, 0.2, 0.4, 0.6, 0.8].map(f64::from));
/// let edges = bin_edges(-3.0, 4.0, 7, DType::F64).expect("there is memory for seven numbers");
/// assert_eq!(edges, [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
pub fn bin_edges(low: f64, high: f64, bins: usize, dtype: DType) -> Result<Vec<f64>, OutOfMemory> {
    let ((low, low_unit), (high, high_unit)) = (integer(low), integer(high));
    let unit = low_unit.min(high_unit);
    let (low, high) = (low << (low_unit - unit), high << (high_unit - unit));
    let (mut edge, width) = (&low * bins, high - low);
    fpenv::ieee(|| {
        memory::collected((0..bins).map(|_| {
            let next = &edge + &width;
            rounded_up(&std::mem::replace(&mut edge, next), bins, unit as i64 + LEAST, dtype)
        }))
    })
}

/// The exponent of the smallest positive f64.
const LEAST: i64 = -1074;

/// Returns `x` as an integer number of units, and the exponent of the unit above [`LEAST`].
fn integer(x: f64) -> (BigInt, u64) {
    assert!(x.is_finite(), "the limit {x} of bins");
    let (exponent, fraction) = (x.to_bits() >> 52 & 0x7ff, x.to_bits() & ((1 << 52) - 1));
    // Subnormal numbers use the unit of the smallest normal ones, but have no hidden bit.
    let normal = exponent.min(1);
    let size = BigInt::from(fraction | normal << 52);
    (if x.is_sign_negative() { -size } else { size }, exponent - normal)
}

/// Returns the least number of the type that is not below `x / divisor · 2^unit`.
fn rounded_up(x: &BigInt, divisor: usize, unit: i64, dtype: DType) -> f64 {
    let (digits, least) = if dtype == DType::F64 { (53, LEAST) } else { (24, -149) };
    // The quotient lies between 2^(top − 2) and 2^top: it has at least all digits of the type.
    let top = x.bits() as i64 - i64::from(divisor.ilog2()) + unit;
    let last = (top - 2 - digits).max(least);
    let (dividend, divisor) = match unit - last {
        up @ 0.. => (x.magnitude() << up as u64, divisor.into()),
        down => (x.magnitude().clone(), num_bigint::BigUint::from(divisor) << down.unsigned_abs()),
    };
    let quotient = &dividend / &divisor;
    let exact = &quotient * &divisor == dividend;
    let quotient = u64::try_from(quotient).expect("two more digits than the type has");
    let excess = (u64::BITS - quotient.leading_zeros()).saturating_sub(digits as u32);
    let (kept, exact) = (quotient >> excess, exact && quotient.trailing_zeros() >= excess);
    let (sign, kept) = match x.sign() {
        Sign::Minus => (-1.0, kept),
        _ => (1.0, kept + u64::from(!exact)),
    };
    // Both factors and the product are exact in f64.
    sign * kept as f64 * power_of_two(last + i64::from(excess))
}

/// Returns 2^exponent, for an exponent from [`LEAST`] to 1023.
fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(match exponent {
        -1022.. => ((exponent + 1023) as u64) << 52,
        _ => 1 << (exponent - LEAST),
    })
}
