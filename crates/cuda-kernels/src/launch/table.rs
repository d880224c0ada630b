//! Tables of tensors: the operands of a launch that computes several.

use cudarc::driver::CudaStream;

use super::declared::table::RawRow;
use super::{Buffer, ordered};
use crate::device::Device;
use crate::error::{CudaError, Result};

/// The number of elements that a thread takes of its tensor: `SB_TURNS` times four of
/// `kernels/include/table.cuh`.
const PER_THREAD: usize = 16;

/// The tensors of a launch, with the blocks that compute each.
pub(crate) struct Table<'a> {
    rows: Vec<RawRow>,
    blocks: usize,
    /// The threads of a block.
    threads: u32,
    /// The streams of the buffers that the launch reads.
    streams: Vec<&'a CudaStream>,
}

/// The extent of a grid or a block.
pub(crate) type Extent = (u32, u32, u32);

impl<'a> Table<'a> {
    /// Creates an empty table for blocks of `threads` threads.
    pub(crate) fn new(threads: u32) -> Table<'a> {
        Table { rows: Vec::new(), blocks: 0, threads, streams: Vec::new() }
    }

    /// Adds a tensor of `n` elements, unless it is empty: the buffers that the kernel writes, of the
    /// launching device, and those that it reads. All must have `n` elements, or as many as the kernel
    /// accesses.
    pub(crate) fn push<R, T>(
        &mut self,
        n: usize,
        written: &mut [Buffer<R>],
        read: &[&'a Buffer<T>],
    ) {
        if n == 0 {
            return;
        }
        let mut operands = [0; 7];
        let addresses = written.iter().map(|buffer| *buffer.address());
        let addresses = addresses.chain(read.iter().map(|buffer| *buffer.address()));
        operands.iter_mut().zip(addresses).for_each(|(operand, address)| *operand = address);
        self.push_row(n, operands, read);
    }

    /// Adds a tensor that the kernel only reads, unless it is empty: its second operand is `number`.
    pub(crate) fn push_numbered<T>(&mut self, read: &'a Buffer<T>, n: usize, number: u64) {
        if n > 0 {
            self.push_row(n, [*read.address(), number, 0, 0, 0, 0, 0], &[read]);
        }
    }

    fn push_row<T>(&mut self, n: usize, operands: [u64; 7], read: &[&'a Buffer<T>]) {
        self.rows.push(RawRow { operands, n, first_block: self.blocks });
        self.blocks += n.div_ceil(PER_THREAD * self.threads as usize);
        self.streams.extend(read.iter().map(|buffer| &**buffer.stream()));
    }

    /// Calls `launch` with the rows, their number, and the extents of the grid and its blocks, unless
    /// there are none.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] if the tensors are more than one launch can cover; those of
    /// `launch`.
    pub(crate) fn launch(
        &self,
        device: &Device,
        op: &'static str,
        launch: impl FnOnce(&Buffer<RawRow>, u32, [Extent; 2]) -> Result<()>,
    ) -> Result<()> {
        let (Ok(count), Ok(blocks)) = (u32::try_from(self.rows.len()), u32::try_from(self.blocks))
        else {
            return Err(CudaError::invalid(op, "the tensors are more than one launch can cover"));
        };
        if count == 0 {
            return Ok(());
        }
        let rows = device.upload(&self.rows)?;
        let extents = [(blocks, 1, 1), (self.threads, 1, 1)];
        ordered(op, device.stream(), &self.streams, || launch(&rows, count, extents))
    }
}
