//! Whether a candidate's output is what it promised.

use sha2::{Digest as _, Sha256};

use crate::{Numerics, Values};

/// The first element at which `got` breaks its promise, in words.
pub(crate) fn breach(
    reference: &Values<'_>,
    got: &Values<'_>,
    numerics: Numerics,
    magnitude: f64,
) -> Option<String> {
    match (reference, got) {
        (Values::F32(a), Values::F32(b)) => first(a, b, |&a, &b| match numerics {
            Numerics::Canonical => a.to_bits() == b.to_bits(),
            Numerics::Bounded { tolerance } => close(a.into(), b.into(), tolerance * magnitude),
        }),
        (Values::F64(a), Values::F64(b)) => first(a, b, |&a, &b| match numerics {
            Numerics::Canonical => a.to_bits() == b.to_bits(),
            Numerics::Bounded { tolerance } => close(a, b, tolerance * magnitude),
        }),
        _ => Some("the output has another element type than the reference".to_owned()),
    }
}

/// Whether two outputs have the same elements, bit for bit.
pub(crate) fn same_bits(a: &Values<'_>, b: &Values<'_>) -> bool {
    breach(a, b, Numerics::Canonical, 0.0).is_none()
}

/// `sha256:` and the digest of the elements' bits, little-endian.
pub(crate) fn digest(values: &Values<'_>) -> String {
    let mut hash = Sha256::new();
    match values {
        Values::F32(values) => in_pieces(values, |v| v.to_le_bytes(), &mut hash),
        Values::F64(values) => in_pieces(values, |v| v.to_le_bytes(), &mut hash),
    }
    let mut text = String::from("sha256:");
    for byte in hash.finalize() {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn first<T: std::fmt::Debug>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> Option<String> {
    if a.len() != b.len() {
        return Some(format!("{} elements where the reference has {}", b.len(), a.len()));
    }
    let at = (0..a.len()).find(|&i| !same(&a[i], &b[i]))?;
    Some(format!("element {at} is {:?} where the reference has {:?}", b[at], a[at]))
}

/// A NaN or an infinity is close to its like only.
fn close(a: f64, b: f64, bound: f64) -> bool {
    if a.is_finite() && b.is_finite() {
        (a - b).abs() <= bound
    } else {
        a.is_nan() == b.is_nan() && (a.is_nan() || a == b)
    }
}

fn in_pieces<T: Copy, const N: usize>(
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
    hash: &mut Sha256,
) {
    let mut buffer = Vec::with_capacity(1024 * N);
    for piece in values.chunks(1024) {
        buffer.clear();
        for &value in piece {
            buffer.extend_from_slice(&bytes(value));
        }
        hash.update(&buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Values<'static> {
        Values::F32(values.to_vec().into())
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
    fn the_digest_is_that_of_the_bytes() {
        // `printf '\0\0\200\77' | sha256sum`
        assert_eq!(
            digest(&f32s(&[1.0])),
            "sha256:e00e5eb9444182f352323374ef4e08ebcb784725fdd4fd612d7730540b3e0c8c"
        );
    }
}
