//! Tables of tensors: the operands of a launch that computes several.

use cudarc::driver::CudaStream;

use super::Buffer;
use super::declared::optim::RawRow;

/// The number of elements that a thread takes of its tensor: `SB_TURNS` times four of
/// `kernels/include/table.cuh`.
const PER_THREAD: usize = 16;

/// The tensors of a launch, with the blocks that compute each.
#[derive(Default)]
pub(crate) struct Table<'a> {
    rows: Vec<RawRow>,
    blocks: usize,
    /// The streams of the buffers that the launch reads.
    streams: Vec<&'a CudaStream>,
}

impl<'a> Table<'a> {
    /// Adds a tensor of `n` elements, for blocks of `block` threads: the buffers that the kernel writes,
    /// of the launching device, and those that it reads. All must have `n` elements.
    pub(crate) fn push<T>(
        &mut self,
        block: u32,
        n: usize,
        written: &mut [Buffer<T>],
        read: &[&'a Buffer<T>],
    ) {
        if n == 0 {
            return;
        }
        let mut operands = [0; 7];
        let addresses = written.iter().map(|buffer| *buffer.address());
        let addresses = addresses.chain(read.iter().map(|buffer| *buffer.address()));
        operands.iter_mut().zip(addresses).for_each(|(operand, address)| *operand = address);
        self.rows.push(RawRow { operands, n, first_block: self.blocks });
        self.blocks += n.div_ceil(PER_THREAD * block as usize);
        self.streams.extend(read.iter().map(|buffer| &**buffer.stream()));
    }

    /// Returns the rows that the kernel reads.
    pub(crate) fn rows(&self) -> &[RawRow] {
        &self.rows
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns the streams of the buffers that the launch reads; it must run in the order of these.
    pub(crate) fn streams(&self) -> &[&'a CudaStream] {
        &self.streams
    }
}
