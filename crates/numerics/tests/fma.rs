//! `mul_add` rounds once, whatever the platform calls for it.

use std::hint::black_box;

use samebits_numerics::Ieee;

/// Returns 2^`exponent`.
fn two(exponent: i32) -> f64 {
    if exponent < -1022 {
        f64::from_bits(1 << (exponent + 1074))
    } else {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    }
}

#[test]
fn products_and_sums_of_f64_are_rounded_once() {
    let one = |exponent| 1.0 + two(exponent);
    let cases = [
        (
            "a product that is rounded before the sum",
            1.0 + two(-27),
            1.0 - two(-27),
            -1.0,
            -two(-54),
        ),
        ("the last bit of a square", one(-52), one(-52), -one(-51), two(-104)),
        ("just above a tie, also in 64 bits", two(-53), one(-40), 1.0, one(-52)),
        ("the same with another sign", two(-53), -one(-40), -1.0, -one(-52)),
        ("just below a tie", two(-53), 1.0 - two(-40), one(-52), one(-52)),
        ("just above a tie, by more than 64 bits", one(-30), two(-53) * one(-30), 1.0, one(-52)),
        ("a tie of subnormal numbers", two(-537), two(-538), 3.0 * two(-1074), 4.0 * two(-1074)),
        ("half of the smallest number and more", two(-537), two(-538) * one(-30), 0.0, two(-1074)),
        ("a product beyond the largest number", f64::MAX, 2.0, -f64::MAX, f64::MAX),
        ("a zero of cancellation", 3.0, 5.0, -15.0, 0.0),
        ("the sign of a zero", -0.0, 1.0, -0.0, -0.0),
    ];
    for (what, a, b, c, want) in cases {
        let [a, b, c] = black_box([a, b, c]);
        for got in [a.mul_add(b, c), Ieee::mul_add(a, b, c)] {
            assert_eq!(got.to_bits(), want.to_bits(), "{what}: {got:e}, want {want:e}");
        }
    }
}

#[test]
fn products_and_sums_of_f32_are_rounded_once() {
    let two = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
    let one = |exponent| 1.0 + two(exponent);
    let cases = [
        ("a product that is rounded before the sum", one(-12), 1.0 - two(-12), -1.0, -two(-24)),
        // Rounded to f64 the sum is a tie.
        ("below a tie by 2^-60", two(-24) * one(-18), 1.0 - two(-18), one(-23), one(-23)),
        ("a product beyond the largest number", f32::MAX, 2.0, -f32::MAX, f32::MAX),
    ];
    for (what, a, b, c, want) in cases {
        let [a, b, c] = black_box([a, b, c]);
        for got in [a.mul_add(b, c), Ieee::mul_add(a, b, c)] {
            assert_eq!(got.to_bits(), want.to_bits(), "{what}: {got:e}, want {want:e}");
        }
    }
}
