//! Copies of a few elements without a call.

/// The largest number of elements that [`copy`] takes.
pub(crate) const MOST: usize = 16;

/// Copies at most [`MOST`] elements, by two copies of a fixed size that may overlap.
#[inline(always)]
pub(crate) fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    debug_assert!(from.len() == to.len() && from.len() <= MOST);
    if from.len() >= 8 {
        copy_ends::<8, T>(from, to);
    } else if from.len() >= 4 {
        copy_ends::<4, T>(from, to);
    } else if from.len() >= 2 {
        copy_ends::<2, T>(from, to);
    } else {
        copy_ends::<1, T>(from, to);
    }
}

/// Copies the first and the last `N` elements.
#[inline(always)]
fn copy_ends<const N: usize, T: Copy>(from: &[T], to: &mut [T]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut()) {
        *to = *from;
    }
}

/// Copies as [`copy`] the first elements of a vector that was just stored, by copies that do not overlap:
/// such a vector is read back fast only from where halves of it, and halves of those, begin.
#[inline(always)]
pub(crate) fn copy_stored<T: Copy>(from: &[T], to: &mut [T]) {
    debug_assert!(from.len() == to.len() && from.len() <= MOST);
    let (from, to) = copy_first::<16, T>(from, to);
    let (from, to) = copy_first::<8, T>(from, to);
    let (from, to) = copy_first::<4, T>(from, to);
    let (from, to) = copy_first::<2, T>(from, to);
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
    use super::{MOST, copy, copy_stored};

    #[test]
    fn every_length_is_copied() {
        let from: Vec<u8> = (1..=MOST as u8).collect();
        for length in 0..=MOST {
            let mut to = [0; MOST + 1];
            copy(&from[..length], &mut to[..length]);
            assert_eq!(to[..length], from[..length]);
            assert!(to[length..].iter().all(|&x| x == 0));
            let mut again = [0; MOST + 1];
            copy_stored(&from[..length], &mut again[..length]);
            assert_eq!(again, to);
        }
    }
}
