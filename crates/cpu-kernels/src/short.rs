//! Copies of a few elements without a call.

/// The largest number of elements that [`copy`] takes.
pub(crate) const MOST: usize = 16;

/// Copies at most [`MOST`] elements, by copies of fixed sizes.
///
/// They do not overlap: a vector that was just stored is read back fast only from where halves of it, and
/// halves of those, begin.
#[inline(always)]
pub(crate) fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    debug_assert!(from.len() == to.len() && from.len() <= MOST);
    let count = from.len();
    let (mut from, mut to) = (from, &mut to[..count]);
    if from.len() >= 4 {
        if from.len() >= 8 {
            (from, to) = copy_first::<16, T>(from, to);
            (from, to) = copy_first::<8, T>(from, to);
        }
        (from, to) = copy_first::<4, T>(from, to);
    }
    (from, to) = copy_first::<2, T>(from, to);
    copy_first::<1, T>(from, to);
}

/// Copies the first `N` elements, if there are as many, and returns the others.
#[inline(always)]
fn copy_first<'a, const N: usize, T: Copy>(
    from: &'a [T],
    to: &'a mut [T],
) -> (&'a [T], &'a mut [T]) {
    match from.split_first_chunk::<N>() {
        Some((first, rest)) if to.len() >= N => {
            let (to, others) = to.split_at_mut(N);
            to.copy_from_slice(first);
            (rest, others)
        }
        _ => (from, to),
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, copy};

    #[test]
    fn every_length_is_copied() {
        let from: Vec<u8> = (1..=MOST as u8).collect();
        for length in 0..=MOST {
            let mut to = [0; MOST + 1];
            copy(&from[..length], &mut to[..length]);
            assert_eq!(to[..length], from[..length]);
            assert!(to[length..].iter().all(|&x| x == 0));
        }
    }
}
