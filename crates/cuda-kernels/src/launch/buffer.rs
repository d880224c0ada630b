//! Memory of a device: its owner, its elements, and copies between it and the host.
//!
//! cudarc's own slice is not used: it is freed in whatever context its thread happens to have, and a
//! copy to the host returns before it is done.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaStream, DriverError, result, sys};

use crate::error::{CudaError, Result};

/// Elements in the memory of a device, freed when the last part of them is dropped, on any thread.
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

/// What the driver gave, and the stream in whose order it is used.
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
                // SAFETY: allocated once, freed once. Every use is ordered before the end of the
                // stream, those in other streams by `ordered`.
                return unsafe { result::free_async(self.address, stream.cu_stream()) };
            }
            wait(stream)?;
            // SAFETY: as before, and all of it is done.
            unsafe { result::free_sync(self.address) }
        });
        // Nobody can be told here: the next call of a `Device` tells.
        context.record_err(freed);
    }
}

/// Makes a stream's context current on this thread, whatever errors it has kept.
pub(super) fn bind(stream: &CudaStream) -> std::result::Result<(), DriverError> {
    // SAFETY: the context lives as long as the stream.
    unsafe { result::ctx::set_current(stream.context().cu_ctx()) }
}

/// Waits for a stream. cudarc's function returns at once if another thread has left an error.
pub(crate) fn wait(stream: &CudaStream) -> std::result::Result<(), DriverError> {
    bind(stream)?;
    // SAFETY: the stream exists.
    unsafe { result::stream::synchronize(stream.cu_stream()) }
}

/// Runs `body`, which works in `stream`, between what has been asked of the streams of its buffers
/// and what will be.
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
    // Whatever became of it, nothing of a buffer may be used again or freed before.
    for other in &others {
        other.join(stream).map_err(driver)?;
    }
    done
}

/// Returns the size in bytes of a buffer of `len` elements, or of one, because the driver allocates
/// nothing empty.
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

    /// Where the elements are; a kernel's argument.
    pub(super) fn address(&self) -> &sys::CUdeviceptr {
        &self.address
    }

    /// Returns the stream in whose order the memory is used.
    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.memory.stream
    }
}

impl<T: Pod> Buffer<T> {
    /// `len` elements, or one if that is none, with whatever was there before.
    ///
    /// Only for buffers that the next kernel writes completely before anything reads them.
    pub(crate) fn uninitialised(
        stream: &Arc<CudaStream>,
        op: &'static str,
        len: usize,
    ) -> Result<Buffer<T>> {
        let len = len.max(1);
        let bytes = size::<T>(op, len)?;
        let allocated = bind(stream).and_then(|()| {
            if stream.context().has_async_alloc() {
                // SAFETY: the stream exists and the size is not zero. Any bytes are elements.
                unsafe { result::malloc_async(stream.cu_stream(), bytes) }
            } else {
                // SAFETY: as before.
                unsafe { result::malloc_sync(bytes) }
            }
        });
        let address = allocated.map_err(|error| CudaError::allocation(op, bytes, error))?;
        let memory = Arc::new(Memory { address, stream: stream.clone() });
        Ok(Buffer { memory, address, len, elements: PhantomData })
    }

    /// Sets every byte.
    pub(crate) fn set(&mut self, op: &'static str, byte: u8) -> Result<()> {
        let (stream, bytes) = (self.stream(), self.bytes());
        let done = bind(stream).and_then(|()| {
            // SAFETY: the memory has this many bytes, and any bytes are elements.
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
            // SAFETY: the memory has room for these elements. They are in ordinary memory, of
            // which the driver takes a copy before it returns.
            unsafe { result::memcpy_htod_async(self.address, values, stream.cu_stream()) }
        });
        done.map_err(|error| CudaError::driver(op, error))
    }

    /// Overwrites the elements with those of another buffer, which has as many.
    pub(crate) fn copy_from(&mut self, op: &'static str, from: &Buffer<T>) -> Result<()> {
        self.expect(op, 0, from.len)?;
        let (stream, bytes) = (self.stream(), from.bytes());
        ordered(op, stream, &[from.stream()], || {
            let done = bind(stream).and_then(|()| {
                // SAFETY: both have this many bytes; a buffer that is written is nobody else's.
                unsafe {
                    let stream = stream.cu_stream();
                    result::memcpy_dtod_async(self.address, from.address, bytes, stream)
                }
            });
            done.map_err(|error| CudaError::driver(op, error))
        })
    }

    /// Copies `len` elements from element `start` to the host, after everything that has been
    /// asked of `stream`, and waits for them.
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
                // SAFETY: both sides have this many elements, and what is below waits for the copy
                // before the vector can be moved or dropped.
                unsafe { result::memcpy_dtoh_async(&mut values, from, stream.cu_stream()) }
            });
            copied.map_err(|error| CudaError::driver(op, error))
        });
        // A driver may copy to ordinary memory after the call that asks for it.
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

    /// Returns the bytes of the elements.
    pub(crate) fn erase(self) -> Buffer<u8> {
        let len = self.bytes();
        Buffer { memory: self.memory, address: self.address, len, elements: PhantomData }
    }
}

impl Buffer<u8> {
    /// `len` elements from element `start`, in the same memory, to be read only. None if the
    /// buffer does not reach that far.
    pub(crate) fn part<T: Pod>(&self, start: usize, len: usize) -> Option<Buffer<T>> {
        let end = start.checked_add(len)?.checked_mul(size_of::<T>())?;
        if end > self.len {
            return None;
        }
        let address = self.address + (start * size_of::<T>()) as u64;
        Some(Buffer { memory: self.memory.clone(), address, len, elements: PhantomData })
    }
}
