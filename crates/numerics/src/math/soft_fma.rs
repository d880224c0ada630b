//! Fused multiply-add from basic operations, for machines without the instruction.

/// Returns `a * b + c` with one rounding, from f64 operations that vectorise under SSE2.
///
/// The product of two f32 is exact in f64. The sum with `c` is rounded to odd: its last bit keeps
/// enough of the rounding error that the final rounding to 24 bits is that of the exact value.
///
/// # References
///
/// S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms
/// using rounding to odd", IEEE Transactions on Computers 57(4), 2008.
#[inline(always)]
#[must_use]
pub fn soft_fma(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    // TwoSum: `sum + lost` is exactly `product + c`. No step can overflow in f64.
    let back = sum - product;
    let lost = (product - (sum - back)) + (c - back);
    // False for NaN: `lost` is NaN if the sum is an infinity or a NaN.
    let inexact = lost.abs() > 0.0;
    let bits = sum.to_bits();
    // +1 moves away from zero; that is right if the rounding error has the sign of the sum.
    let away = 1u64.wrapping_sub(2 * ((bits ^ lost.to_bits()) >> 63));
    let even = (bits & 1).wrapping_sub(1);
    let step = away & even & 0u64.wrapping_sub(u64::from(inexact));
    f64::from_bits(bits.wrapping_add(step)) as f32
}

#[cfg(test)]
mod tests {
    use super::soft_fma;

    fn same(a: f32, b: f32, c: f32) {
        let want = a.mul_add(b, c);
        let got = soft_fma(a, b, c);
        assert!(
            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
            "fma({a:e}, {b:e}, {c:e}): got {got:e} ({:08x}), want {want:e} ({:08x})",
            got.to_bits(),
            want.to_bits(),
        );
    }

    fn corner_values() -> Vec<f32> {
        let mut values = vec![0.0, 1.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE];
        for exponent in [1u32, 2, 23, 24, 25, 100, 126, 127, 128, 129, 150, 151, 230, 253, 254] {
            for mantissa in [0u32, 1, 2, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff] {
                values.push(f32::from_bits(exponent << 23 | mantissa));
            }
        }
        for subnormal in [1u32, 2, 3, 0x40_0000, 0x7f_ffff] {
            values.push(f32::from_bits(subnormal));
        }
        let negated: Vec<f32> = values.iter().map(|v| -v).collect();
        values.extend(negated);
        values
    }

    #[test]
    fn agrees_with_the_hardware_on_corner_values() {
        let values = corner_values();
        for &a in &values {
            for &b in &values {
                for &c in values.iter().step_by(3) {
                    same(a, b, c);
                }
            }
        }
    }

    #[test]
    fn agrees_with_the_hardware_on_random_bits() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u32
        };
        for _ in 0..2_000_000 {
            let (a, b, c) = (next(), next(), next());
            same(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            // `c` of the product's magnitude, for cancellation and ties.
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let near = f32::from_bits((-(x * y)).to_bits().wrapping_add(c & 3));
            same(x, y, near);
        }
    }

    #[test]
    fn rounds_once_where_rounding_through_f64_would_round_twice() {
        // The product is 2^6 - 2^-40, so the exact sum lies just below the midpoint of two f32. f64
        // cannot hold the 2^-40 and rounds to the midpoint, which ties-to-even would then round up.
        let a = 64.0 * (1.0 + f32::EPSILON);
        let b = 1.0 - f32::EPSILON;
        let c = f32::from_bits(0x4e80_0001);
        let through_f64 = (f64::from(a) * f64::from(b) + f64::from(c)) as f32;
        assert_ne!(through_f64.to_bits(), a.mul_add(b, c).to_bits(), "not a hard case");
        same(a, b, c);
        same(-a, b, -c);
    }
}
