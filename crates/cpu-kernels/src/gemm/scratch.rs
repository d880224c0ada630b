//! Buffers that outlive a call, so that a kernel does not get fresh pages each time.

use bytemuck::{Pod, Zeroable};
use samebits_numerics::memory::{self, OutOfMemory};
use std::cell::Cell;
use std::marker::PhantomData;

/// A cache line, the alignment of packed panels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A growing buffer of elements that starts on a cache line.
pub(crate) struct Buffer<T> {
    lines: Vec<Line>,
    _elem: PhantomData<T>,
}

/// The number of bytes that a buffer keeps after a call; a larger buffer is freed.
const KEPT_BYTES: usize = 64 << 20;

impl<T: Pod> Buffer<T> {
    pub(crate) const fn new() -> Self {
        Buffer { lines: Vec::new(), _elem: PhantomData }
    }

    /// Returns space for the product of `sizes` elements, with unspecified contents.
    pub(crate) fn slice(&mut self, sizes: &[usize]) -> Result<&mut [T], OutOfMemory> {
        let unaddressable = OutOfMemory { bytes: usize::MAX };
        let count = memory::product(sizes).ok_or(unaddressable)?;
        let bytes = count.checked_mul(size_of::<T>()).ok_or(unaddressable)?;
        let lines = bytes.div_ceil(size_of::<Line>());
        if self.lines.len() < lines {
            // Frees the old buffer first, so that both do not exist at once.
            self.lines = Vec::new();
            self.lines = memory::zeroed(lines)?;
        }
        Ok(&mut bytemuck::cast_slice_mut(&mut self.lines)[..count])
    }

    /// Returns spaces for these numbers of elements, with unspecified contents; each starts on a cache
    /// line. `None` is a number that overflows.
    pub(crate) fn parts<const N: usize>(
        &mut self,
        lens: [Option<usize>; N],
    ) -> Result<[&mut [T]; N], OutOfMemory> {
        let line = 64 / size_of::<T>();
        let mut all = 0usize;
        for len in lens {
            let len = len.and_then(|len| len.checked_next_multiple_of(line));
            let sum = len.and_then(|len| all.checked_add(len));
            all = sum.ok_or(OutOfMemory { bytes: usize::MAX })?;
        }
        let mut rest = self.slice(&[all])?;
        Ok(lens.map(|len| {
            let len = len.unwrap_or(0);
            let (now, later) = std::mem::take(&mut rest).split_at_mut(len.next_multiple_of(line));
            rest = later;
            &mut now[..len]
        }))
    }

    /// Returns the first `count` elements of the last [`slice`](Self::slice).
    pub(crate) fn get(&self, count: usize) -> &[T] {
        &bytemuck::cast_slice(&self.lines)[..count]
    }

    fn shrink(&mut self) {
        if self.lines.len() * size_of::<Line>() > KEPT_BYTES {
            self.lines = Vec::new();
        }
    }
}

/// The buffers of one thread for one element type.
pub(crate) struct Scratch<T> {
    /// Packed rows.
    pub(crate) a: Buffer<T>,
    /// Packed columns.
    pub(crate) b: Buffer<T>,
    /// One register tile that does not fit its place in the output.
    pub(crate) tile: Buffer<T>,
    /// A padded piece of a convolution's input.
    pub(crate) source: Buffer<T>,
    /// A block of a result that is rounded to halves.
    pub(crate) wide: Buffer<T>,
}

impl<T: Pod> Scratch<T> {
    const fn new() -> Self {
        Scratch {
            a: Buffer::new(),
            b: Buffer::new(),
            tile: Buffer::new(),
            source: Buffer::new(),
            wide: Buffer::new(),
        }
    }
}

/// The place where a thread keeps its [`Scratch`] between calls.
pub(crate) struct ScratchCell<T>(Cell<Vec<Scratch<T>>>);

impl<T: Pod> ScratchCell<T> {
    pub(crate) const fn new() -> Self {
        ScratchCell(Cell::new(Vec::new()))
    }

    /// Lends the buffers; a nested call from `work` on the same thread gets other ones.
    pub(crate) fn lend<R>(&self, work: impl FnOnce(&mut Scratch<T>) -> R) -> R {
        // While user code runs, the cell does not hold the lent buffers, so nesting is safe.
        let mut idle = self.0.take();
        let mut scratch = idle.pop().unwrap_or_else(Scratch::new);
        self.0.set(idle);
        let result = work(&mut scratch);
        let Scratch { a, b, tile, source, wide } = &mut scratch;
        [a, b, tile, source, wide].into_iter().for_each(Buffer::shrink);
        let mut idle = self.0.take();
        idle.push(scratch);
        self.0.set(idle);
        result
    }
}
