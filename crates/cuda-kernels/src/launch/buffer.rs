//! Memory of a device: its owner, its elements, and copies to and from the host.
//!
//! cudarc's own slice is not used: it is freed in the context that is current on its thread, and
//! its copy to the host returns before the copy is done.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaStream, DriverError, result, sys};

use crate::error::{CudaError, Result};

/// Elements in the memory of a device. The memory is freed when its last part is dropped, on any
/// thread.
///
/// # Examples
///
/// ```
/// # if !samebits_cuda_kernels::is_available() {
/// #     return Ok(());
/// # }
/// let device = samebits_cuda_kernels::Device::new(0)?;
/// let buffer = device.upload(&[1.0f32, 2.0])?;
/// assert_eq!(buffer.len(), 2);
/// # Ok::<(), samebits_cuda_kernels::CudaError>(())
/// ```
#[derive(Debug)]
pub struct Buffer<T> {
    memory: Arc<Memory>,
    address: sys::CUdeviceptr,
    len: usize,
    elements: PhantomData<T>,
}

/// An allocation of the driver, and the stream that orders its uses.
#[derive(Debug)]
struct Memory {
    address: sys::CUdeviceptr,
    stream: Arc<CudaStream>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let (context, stream) = (self.stream.context(), &self.stream);
        let freed = bind(stream).and_then(|()| {
            if context.has_async_alloc() {
                // SAFETY: allocated once, freed once. Every use comes before this free in the order
                // of the stream; `ordered` ensures that for uses in other streams.
                return unsafe { result::free_async(self.address, stream.cu_stream()) };
            }
            wait(stream)?;
            // SAFETY: as above, and all uses are done.
            unsafe { result::free_sync(self.address) }
        });
        // `drop` cannot return the error; the next call of a `Device` reports it.
        context.record_err(freed);
    }
}

/// Makes a stream's context current on this thread, even if cudarc has stored an error.
pub(super) fn bind(stream: &CudaStream) -> std::result::Result<(), DriverError> {
    // SAFETY: the context lives as long as the stream.
    unsafe { result::ctx::set_current(stream.context().cu_ctx()) }
}

/// Waits for a stream. cudarc's own function returns at once if another thread has left an error.
pub(crate) fn wait(stream: &CudaStream) -> std::result::Result<(), DriverError> {
    bind(stream)?;
    // SAFETY: the stream exists.
    unsafe { result::stream::synchronize(stream.cu_stream()) }
}

/// Runs `body`, which works in `stream`, after all work submitted to the streams of its buffers so
/// far and before all later work there.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if a buffer is on another device; [`CudaError::Driver`].
pub(crate) fn ordered<R>(
    op: &'static str,
    stream: &CudaStream,
    buffers: &[&CudaStream],
    body: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let mut others: Vec<&CudaStream> = Vec::new();
    for &other in buffers {
        let (own, its) = (stream.context().ordinal(), other.context().ordinal());
        if own != its {
            let message = format!("a buffer is on device {its}, and the call on device {own}");
            return Err(CudaError::invalid(op, message));
        }
        if other != stream && !others.contains(&other) {
            others.push(other);
        }
    }
    let driver = |error| CudaError::driver(op, error);
    for other in &others {
        stream.join(other).map_err(driver)?;
    }
    let done = body();
    // Even if `body` failed, its buffers must not be used again or freed before its work is done.
    for other in &others {
        other.join(stream).map_err(driver)?;
    }
    done
}

/// Returns the size in bytes of a buffer of `len` elements, or of one element if `len` is 0,
/// because the driver allocates no empty memory.
fn size<T>(op: &'static str, len: usize) -> Result<usize> {
    let bytes = len.max(1).checked_mul(size_of::<T>());
    bytes.ok_or(CudaError::OutOfMemory { op, bytes: usize::MAX })
}

impl<T> Buffer<T> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Returns the address of the elements, which is a kernel's argument.
    pub(crate) fn address(&self) -> &sys::CUdeviceptr {
        &self.address
    }

    /// Returns the stream that orders the uses of the memory.
    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.memory.stream
    }
}

impl<T: Pod> Buffer<T> {
    /// Allocates `len` elements, or one if `len` is 0, with unspecified content.
    ///
    /// Use it only for buffers that the next kernel writes completely before anything reads them.
    pub(crate) fn uninitialised(
        stream: &Arc<CudaStream>,
        op: &'static str,
        len: usize,
    ) -> Result<Buffer<T>> {
        let len = len.max(1);
        let bytes = size::<T>(op, len)?;
        let allocated = bind(stream).and_then(|()| {
            if stream.context().has_async_alloc() {
                // SAFETY: the stream exists and the size is not zero. Any bytes are valid elements.
                unsafe { result::malloc_async(stream.cu_stream(), bytes) }
            } else {
                // SAFETY: as above.
                unsafe { result::malloc_sync(bytes) }
            }
        });
        let address = allocated.map_err(|error| CudaError::allocation(op, bytes, error))?;
        let memory = Arc::new(Memory { address, stream: stream.clone() });
        Ok(Buffer { memory, address, len, elements: PhantomData })
    }

    /// Sets every byte to `byte`.
    pub(crate) fn set(&mut self, op: &'static str, byte: u8) -> Result<()> {
        let (stream, bytes) = (self.stream(), self.bytes());
        let done = bind(stream).and_then(|()| {
            // SAFETY: the memory has this number of bytes, and any bytes are valid elements.
            unsafe { result::memset_d8_async(self.address, byte, bytes, stream.cu_stream()) }
        });
        done.map_err(|error| CudaError::driver(op, error))
    }

    /// Overwrites the first elements. `values` may change as soon as this returns.
    pub(crate) fn write(&mut self, op: &'static str, values: &[T]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.expect(op, 0, values.len())?;
        let stream = self.stream();
        let done = bind(stream).and_then(|()| {
            // SAFETY: the memory has room for these elements. They are in pageable memory, which
            // the driver copies before it returns.
            unsafe { result::memcpy_htod_async(self.address, values, stream.cu_stream()) }
        });
        done.map_err(|error| CudaError::driver(op, error))
    }

    /// Overwrites the elements with those of another buffer of equal length.
    pub(crate) fn copy_from(&mut self, op: &'static str, from: &Buffer<T>) -> Result<()> {
        self.expect(op, 0, from.len)?;
        let (stream, bytes) = (self.stream(), from.bytes());
        ordered(op, stream, &[from.stream()], || {
            let done = bind(stream).and_then(|()| {
                // SAFETY: both have this number of bytes, and the written buffer is borrowed
                // exclusively.
                unsafe {
                    let stream = stream.cu_stream();
                    result::memcpy_dtod_async(self.address, from.address, bytes, stream)
                }
            });
            done.map_err(|error| CudaError::driver(op, error))
        })
    }

    /// Copies `len` elements from element `start` on to the host, after all work submitted to
    /// `stream`, and waits for them.
    pub(crate) fn read(
        &self,
        op: &'static str,
        stream: &CudaStream,
        start: usize,
        len: usize,
    ) -> Result<Vec<T>> {
        self.expect(op, start, len)?;
        let from = self.address + (start * size_of::<T>()) as u64;
        let mut values = vec![T::zeroed(); len];
        let copied = ordered(op, stream, &[self.stream()], || {
            let copied = bind(stream).and_then(|()| {
                // SAFETY: both sides have this number of elements, and the code below waits for the
                // copy before the vector can be moved or dropped.
                unsafe { result::memcpy_dtoh_async(&mut values, from, stream.cu_stream()) }
            });
            copied.map_err(|error| CudaError::driver(op, error))
        });
        // A driver may copy to pageable memory after the call returns.
        wait(stream).map_err(|error| CudaError::driver(op, error))?;
        copied.map(|()| values)
    }

    fn expect(&self, op: &'static str, start: usize, len: usize) -> Result<()> {
        if start.checked_add(len).is_some_and(|end| end <= self.len) {
            return Ok(());
        }
        let (what, expected) = ("a buffer", start.saturating_add(len));
        Err(CudaError::Length { op, what, expected, got: self.len })
    }

    /// Returns the same elements in the same memory. No kernel may write them while it has another.
    pub(crate) fn shared(&self) -> Buffer<T> {
        let Buffer { ref memory, address, len, elements } = *self;
        Buffer { memory: memory.clone(), address, len, elements }
    }

    /// Returns each element as a buffer of its own.
    pub(crate) fn split(self) -> Vec<Buffer<T>> {
        let address = |at: usize| self.address + (at * size_of::<T>()) as u64;
        let part = |at| Buffer {
            memory: self.memory.clone(),
            address: address(at),
            len: 1,
            elements: PhantomData,
        };
        (0..self.len).map(part).collect()
    }

    /// Returns the bytes of the elements.
    pub(crate) fn erase(self) -> Buffer<u8> {
        let len = self.bytes();
        Buffer { memory: self.memory, address: self.address, len, elements: PhantomData }
    }
}

impl Buffer<u8> {
    /// Returns `len` elements from element `start` on, in the same memory, for reading only; `None`
    /// if the buffer does not reach that far.
    pub(crate) fn part<T: Pod>(&self, start: usize, len: usize) -> Option<Buffer<T>> {
        let end = start.checked_add(len)?.checked_mul(size_of::<T>())?;
        if end > self.len {
            return None;
        }
        let address = self.address + (start * size_of::<T>()) as u64;
        Some(Buffer { memory: self.memory.clone(), address, len, elements: PhantomData })
    }
}
