//! The working memory of permutations.

pub(crate) use kind::Buffer;

#[cfg(not(feature = "mmap"))]
mod kind {
    use alloc::vec::Vec;
    use samebits_numerics::memory::{self, OutOfMemory};

    /// Buffer of uninitialised meaning: its contents are arbitrary.
    pub(crate) struct Buffer(Vec<u64>);

    impl Buffer {
        /// Allocates a buffer of `n` numbers.
        pub(crate) fn of(n: usize) -> Result<Buffer, OutOfMemory> {
            Ok(Buffer(memory::zeroed(n)?))
        }

        pub(crate) fn as_mut_slice(&mut self) -> &mut [u64] {
            &mut self.0
        }

        /// Frees the buffer.
        pub(crate) fn keep(self) {}
    }
}

#[cfg(feature = "mmap")]
mod kind {
    use samebits_numerics::memory::{self, OutOfMemory};
    use std::sync::Mutex;

    /// Buffer of arbitrary contents, in large pages if the system provides them. The last buffer is
    /// kept for the next permutation: at four million numbers, requesting new pages takes a seventh
    /// of the time, and small pages take a third.
    pub(crate) enum Buffer {
        Mapped(memmap2::MmapMut),
        Owned(Vec<u64>),
    }

    static SPARE: Mutex<Option<Buffer>> = Mutex::new(None);

    /// Limit on the bytes of a kept buffer; larger ones are freed at once.
    const MOST_KEPT: usize = 64 << 20;

    impl Buffer {
        /// Returns a buffer of at least `n` numbers.
        pub(crate) fn of(n: usize) -> Result<Buffer, OutOfMemory> {
            let spare = SPARE.lock().ok().and_then(|mut spare| spare.take());
            if let Some(mut spare) = spare
                && spare.as_mut_slice().len() >= n
            {
                return Ok(spare);
            }
            Ok(match memmap2::MmapMut::map_anon(n * size_of::<u64>()) {
                Ok(map) => {
                    // A refusal costs only time.
                    #[cfg(target_os = "linux")]
                    let _ = map.advise(memmap2::Advice::HugePage);
                    Buffer::Mapped(map)
                }
                Err(_) => Buffer::Owned(memory::zeroed(n)?),
            })
        }

        pub(crate) fn as_mut_slice(&mut self) -> &mut [u64] {
            match self {
                // A map starts at a page boundary, so it is aligned.
                Buffer::Mapped(map) => bytemuck::cast_slice_mut(map),
                Buffer::Owned(numbers) => numbers,
            }
        }

        /// Keeps the buffer for the next caller.
        pub(crate) fn keep(mut self) {
            if size_of_val(self.as_mut_slice()) <= MOST_KEPT
                && let Ok(mut spare) = SPARE.lock()
            {
                *spare = Some(self);
            }
        }
    }
}
