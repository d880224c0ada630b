//! Copies to memory that is not read again soon.

/// Copies `from` to `to`, if possible without first reading the lines of `to` into a cache.
///
/// # Panics
///
/// If the slices differ in length.
pub(crate) fn stream<T: bytemuck::Pod>(from: &[T], to: &mut [T]) {
    assert_eq!(from.len(), to.len(), "stream: the slices differ in length");
    let (from, to) = (bytemuck::cast_slice::<T, u8>(from), bytemuck::cast_slice_mut::<T, u8>(to));
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const WIDTH: usize = size_of::<__m128i>();
        let (head, lines, tail) = bytemuck::pod_align_to_mut::<u8, __m128i>(to);
        let (first, rest) = from.split_at(head.len());
        let (middle, last) = rest.split_at(lines.len() * WIDTH);
        head.copy_from_slice(first);
        tail.copy_from_slice(last);
        for (line, from) in lines.iter_mut().zip(middle.chunks_exact(WIDTH)) {
            // SAFETY: every x86-64 CPU has SSE2. `from` holds the 16 bytes that are read, at any
            // alignment, and `line` is an aligned vector that is borrowed mutably.
            unsafe { _mm_stream_si128(line, _mm_loadu_si128(from.as_ptr().cast())) };
        }
        // Streamed stores are not ordered with what follows, which may tell another thread of them.
        // SAFETY: every x86-64 CPU has SSE.
        unsafe { _mm_sfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::stream;

    #[test]
    fn every_element_is_copied_at_every_alignment() {
        let from: Vec<u32> = (1..=70).collect();
        for start in 0..9 {
            for length in 0..from.len() - start {
                for offset in 0..9 {
                    let mut to = vec![0; 80];
                    stream(&from[start..][..length], &mut to[offset..][..length]);
                    assert_eq!(to[offset..][..length], from[start..][..length]);
                    assert_eq!(to.iter().filter(|&&x| x != 0).count(), length);
                }
            }
        }
    }
}
