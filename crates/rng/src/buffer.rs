//! The working memory of permutations.

pub(crate) use kind::Buffer;

#[cfg(not(feature = "mmap"))]
mod kind {
    use alloc::vec::Vec;
    use samebits_numerics::memory::{self, OutOfMemory};

    /// Numbers without meaning yet.
    pub(crate) struct Buffer(Vec<u64>);

    impl Buffer {
        /// A buffer of `n` numbers.
        pub(crate) fn of(n: usize) -> Result<Buffer, OutOfMemory> {
            Ok(Buffer(memory::zeroed(n)?))
        }

        pub(crate) fn as_mut_slice(&mut self) -> &mut [u64] {
            &mut self.0
        }

        /// Gives the buffer back.
        pub(crate) fn keep(self) {}
    }
}

#[cfg(feature = "mmap")]
mod kind {
    use samebits_numerics::memory::{self, OutOfMemory};
    use std::sync::Mutex;

    /// Numbers without meaning yet, in large pages where the system has them. The last one is kept for
    /// the next permutation: at four million numbers, asking the system for new pages takes a
    /// seventh of the time, and in small pages a third.
    pub(crate) enum Buffer {
        Mapped(memmap2::MmapMut),
        Owned(Vec<u64>),
    }

    static SPARE: Mutex<Option<Buffer>> = Mutex::new(None);

    /// A larger buffer is given back to the system at once.
    const MOST_KEPT: usize = 64 << 20;

    impl Buffer {
        /// A buffer of at least `n` numbers.
        pub(crate) fn of(n: usize) -> Result<Buffer, OutOfMemory> {
            let spare = SPARE.lock().ok().and_then(|mut spare| spare.take());
            if let Some(mut spare) = spare
                && spare.as_mut_slice().len() >= n
            {
                return Ok(spare);
            }
            Ok(match memmap2::MmapMut::map_anon(n * size_of::<u64>()) {
                Ok(map) => {
                    // Refusal costs time and nothing else.
                    #[cfg(target_os = "linux")]
                    let _ = map.advise(memmap2::Advice::HugePage);
                    Buffer::Mapped(map)
                }
                Err(_) => Buffer::Owned(memory::zeroed(n)?),
            })
        }

        pub(crate) fn as_mut_slice(&mut self) -> &mut [u64] {
            match self {
                // A map starts at a page, so it is aligned.
                Buffer::Mapped(map) => bytemuck::cast_slice_mut(map),
                Buffer::Owned(numbers) => numbers,
            }
        }

        /// Hands the buffer to whoever needs one next.
        pub(crate) fn keep(mut self) {
            if size_of_val(self.as_mut_slice()) <= MOST_KEPT
                && let Ok(mut spare) = SPARE.lock()
            {
                *spare = Some(self);
            }
        }
    }
}
