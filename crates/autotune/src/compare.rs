//! Comparison of a candidate's output with its promise.

use sha2::{Digest as _, Sha256};

use crate::{Numerics, Values};

/// Describes the first element at which `got` breaks its promise.
pub(crate) fn breach(
    reference: &Values<'_>,
    got: &Values<'_>,
    numerics: Numerics,
    magnitude: f64,
) -> Option<String> {
    if reference.element() != got.element() {
        return Some("the output has another element type than the reference".to_owned());
    }
    if reference.len() != got.len() {
        return Some(format!("{} elements where the reference has {}", got.len(), reference.len()));
    }
    let at = match numerics {
        Numerics::Canonical => {
            let size = got.element().size();
            let (a, b) = (reference.bytes(), got.bytes());
            a.chunks_exact(size).zip(b.chunks_exact(size)).position(|(a, b)| a != b)
        }
        Numerics::Bounded { tolerance } => {
            let bound = tolerance * magnitude;
            reference.numbers().zip(got.numbers()).position(|(a, b)| !close(a, b, bound))
        }
    }?;
    let (is, has) = (got.text(at), reference.text(at));
    Some(format!("element {at} is {is} where the reference has {has}"))
}

/// Returns true if two outputs have the same elements, bit for bit.
pub(crate) fn same_bits(a: &Values<'_>, b: &Values<'_>) -> bool {
    breach(a, b, Numerics::Canonical, 0.0).is_none()
}

/// Returns `sha256:` and the digest of the elements' bits, little-endian.
pub(crate) fn digest(values: &Values<'_>) -> String {
    let mut hash = Sha256::new();
    if cfg!(target_endian = "little") {
        hash.update(values.bytes());
    } else {
        for element in values.bytes().chunks_exact(values.element().size()) {
            element.iter().rev().for_each(|byte| hash.update([*byte]));
        }
    }
    format!("sha256:{}", hex(&hash.finalize()))
}

/// Formats bytes as two hexadecimal digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Returns true if `a` is within `bound` of `b`. A NaN is close to a NaN only, and an infinity only
/// to itself.
fn close(a: f64, b: f64, bound: f64) -> bool {
    if a.is_finite() && b.is_finite() {
        (a - b).abs() <= bound
    } else {
        a.is_nan() == b.is_nan() && (a.is_nan() || a == b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Values<'static> {
        Values::owned(values.to_vec())
    }

    #[test]
    fn canonical_means_bits() {
        let reference = f32s(&[1.0, 0.0]);
        assert_eq!(breach(&reference, &f32s(&[1.0, 0.0]), Numerics::Canonical, 1.0), None);
        let zero = breach(&reference, &f32s(&[1.0, -0.0]), Numerics::Canonical, 1.0);
        assert_eq!(zero.unwrap(), "element 1 is -0.0 where the reference has 0.0");
        assert!(breach(&reference, &f32s(&[1.0]), Numerics::Canonical, 1.0).is_some());
        let nan = f32s(&[f32::NAN]);
        assert_eq!(breach(&nan, &nan, Numerics::Canonical, 1.0), None);
    }

    #[test]
    fn bounded_means_the_bound_and_no_further() {
        let bounded = Numerics::Bounded { tolerance: 1e-6 };
        let reference = f32s(&[1.0, 100.0]);
        assert_eq!(breach(&reference, &f32s(&[1.0, 100.0]), bounded, 0.0), None);
        assert_eq!(breach(&reference, &f32s(&[1.00005, 100.0]), bounded, 100.0), None);
        assert!(breach(&reference, &f32s(&[1.0002, 100.0]), bounded, 100.0).is_some());
        assert!(breach(&reference, &f32s(&[f32::NAN, 100.0]), bounded, 100.0).is_some());
        let infinite = f32s(&[f32::INFINITY]);
        assert_eq!(breach(&infinite, &infinite, bounded, f64::INFINITY), None);
        assert!(breach(&infinite, &f32s(&[f32::NAN]), bounded, f64::INFINITY).is_some());
    }

    #[test]
    fn any_type_is_compared_by_its_own_bits() {
        let counts = Values::of(&[1i64, -2]);
        assert_eq!(breach(&counts, &Values::owned(vec![1i64, -2]), Numerics::Canonical, 0.0), None);
        let other = breach(&counts, &Values::of(&[1i64, -3]), Numerics::Canonical, 0.0);
        assert_eq!(other.unwrap(), "element 1 is -3 where the reference has -2");
        let halves = [1.0, 2.0].map(half::f16::from_f64);
        let near = [1.0, 2.002].map(half::f16::from_f64);
        let bounded = Numerics::Bounded { tolerance: 1e-3 };
        assert_eq!(breach(&Values::of(&halves), &Values::of(&near), bounded, 2.0), None);
        assert!(breach(&Values::of(&halves), &Values::of(&near), bounded, 1.0).is_some());
        let foreign = breach(&counts, &Values::of(&[1u64, 2]), bounded, 1e9);
        assert!(foreign.unwrap().contains("another element type"));
    }

    #[test]
    fn the_digest_is_that_of_the_bytes() {
        // `printf '\0\0\200\77' | sha256sum`
        assert_eq!(
            digest(&f32s(&[1.0])),
            "sha256:e00e5eb9444182f352323374ef4e08ebcb784725fdd4fd612d7730540b3e0c8c"
        );
    }
}
