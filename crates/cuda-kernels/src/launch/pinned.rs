//! Downloads through page-locked memory of the host, which the device writes without the driver's help.

use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use samebits_numerics::memory::{OutOfMemory, with_capacity};

use super::Buffer;
use super::buffer::{bind, ordered, wait};
use crate::error::{CudaError, Result};

/// The size of one of the two halves: the device writes one while the host reads the other.
const HALF: usize = 4 << 20;

/// Page-locked memory for the downloads of a device.
#[derive(Debug)]
pub(crate) struct Staging {
    memory: NonNull<u8>,
    /// The events of the last copy to each half.
    written: [sys::CUevent; 2],
    context: Arc<CudaContext>,
}

// SAFETY: the memory and the events belong to this value alone, and the driver lets any thread use them.
unsafe impl Send for Staging {}

impl Staging {
    /// Allocates the memory in the context of a stream.
    pub(crate) fn new(stream: &CudaStream) -> std::result::Result<Staging, DriverError> {
        bind(stream)?;
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let written = [result::event::create(flags)?, result::event::create(flags)?];
        // SAFETY: the size is not zero, and the memory is written before it is read.
        let memory = unsafe { result::malloc_host(2 * HALF, 0)? };
        let memory = NonNull::new(memory.cast())
            .ok_or(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY))?;
        Ok(Staging { memory, written, context: stream.context().clone() })
    }

    /// Copies a buffer to the host, after all work submitted to `stream`, and waits for it.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] if the host's memory runs out, or the buffer is on another device;
    /// [`CudaError::Driver`].
    pub(crate) fn read<T: Pod>(
        &mut self,
        op: &'static str,
        stream: &CudaStream,
        from: &Buffer<T>,
    ) -> Result<Vec<T>> {
        let mut values = with_capacity(from.len()).map_err(|OutOfMemory { bytes }| {
            CudaError::invalid(op, format!("the host has no memory left for {bytes} bytes"))
        })?;
        let read = ordered(op, stream, &[from.stream()], || {
            self.copy(stream, from, &mut values).map_err(|error| CudaError::driver(op, error))
        });
        if read.is_err() {
            // Nothing may write the memory when it is used again. The first error is returned.
            let _ = wait(stream);
        }
        read.map(|()| values)
    }

    fn copy<T: Pod>(
        &mut self,
        stream: &CudaStream,
        from: &Buffer<T>,
        values: &mut Vec<T>,
    ) -> std::result::Result<(), DriverError> {
        bind(stream)?;
        let most = HALF / size_of::<T>();
        let pieces = from.len().div_ceil(most);
        let piece = |number: usize| number * most..from.len().min((number + 1) * most);
        // SAFETY: both halves lie in the memory, and their start is a multiple of 4096 as the driver
        // returns it, and so of the alignment of every plain type.
        let half = |number: usize| unsafe { self.memory.add(number % 2 * HALF) };
        let submit = |number: usize| {
            let (piece, half) = (piece(number), half(number));
            let address = *from.address() + (piece.start * size_of::<T>()) as u64;
            // SAFETY: a half has room for a piece, the buffer holds it, and the host has read what the
            // half held before: the last piece but one.
            unsafe {
                let bytes = std::slice::from_raw_parts_mut(half.as_ptr().cast::<T>(), piece.len());
                result::memcpy_dtoh_async(bytes, address, stream.cu_stream())?;
                result::event::record(self.written[number % 2], stream.cu_stream())
            }
        };
        if pieces > 0 {
            submit(0)?;
        }
        for number in 0..pieces {
            if number + 1 < pieces {
                submit(number + 1)?;
            }
            // SAFETY: the event was recorded after the copy to this half. Then the half holds the
            // piece, and any bytes are valid elements.
            let piece = unsafe {
                result::event::synchronize(self.written[number % 2])?;
                std::slice::from_raw_parts(half(number).as_ptr().cast::<T>(), piece(number).len())
            };
            values.extend_from_slice(piece);
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: the context lives as long as this value.
        let bound = unsafe { result::ctx::set_current(self.context.cu_ctx()) };
        let freed = bound.and_then(|()| {
            // SAFETY: each is destroyed once. `read` has waited for every copy.
            unsafe {
                result::free_host(self.memory.as_ptr().cast())?;
                self.written.into_iter().try_for_each(|event| result::event::destroy(event))
            }
        });
        // `drop` cannot return the error; the next call of a `Device` reports it.
        self.context.record_err(freed);
    }
}
