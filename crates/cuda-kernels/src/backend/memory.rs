//! Device memory for tensors: bytes, with upload, download and gather.

use std::any::Any;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use crate::launch::Buffer;
use samebits_numerics::exact::ExactSum64;
use samebits_numerics::memory::{OutOfMemory, product, with_capacity};
use samebits_tensor_core::backend::{self, Backend, DeviceBuffer, DigestSum, LateSum};
use samebits_tensor_core::{DType, Error, Layout, Tensor, bf16, f16};

use super::failure::{Failure, Tensors};
use crate::device::{Device, Word};
use crate::digest::digest_sum;
use crate::elementwise::{self, MAX_RANK, View};
use crate::error::{CudaError, Result};
use crate::totals;

/// A CUDA device as a place for tensors. The driver's context is created at first use.
#[derive(Debug)]
pub(super) struct Home {
    ordinal: u32,
    device: OnceLock<Result<Device>>,
}

impl Home {
    /// Returns the device with this number; without `device`, it is opened at first use.
    pub(super) fn new(ordinal: u32, device: Option<Device>) -> Home {
        Home { ordinal, device: device.map_or_else(OnceLock::new, |device| Ok(device).into()) }
    }

    /// Makes the device usable for tensors.
    pub(super) fn install(self: Arc<Home>) {
        backend::install(self.name(), Arc::new(CudaBackend(self)));
    }

    /// Returns the device, and opens it first if necessary.
    pub(super) fn device(&self) -> Result<&Device> {
        self.device
            .get_or_init(|| Device::new(self.ordinal as usize))
            .as_ref()
            .map_err(CudaError::clone)
    }

    /// Returns the first `len` bytes of a buffer that a kernel has written, as memory of a tensor.
    pub(super) fn memory<T: Word>(&self, buffer: Buffer<T>, len: usize) -> Memory {
        Memory { device: self.name(), bytes: buffer.erase(), len }
    }

    /// Converts an error of `op` on this device to that of tensors.
    pub(super) fn error(&self, op: &'static str, error: CudaError) -> Error {
        let device = self.name();
        match error {
            CudaError::IndexOutOfRange { op, position, index, size } => {
                Error::IndexOutOfRange { op, position, index, size }
            }
            CudaError::Operand { op, what, value } => {
                Error::invalid(op, format!("{what} {value} of integers"))
            }
            CudaError::InvalidArgument { message, .. } => Error::invalid(op, message),
            CudaError::OutOfMemory { bytes, .. } => Error::OutOfMemory { op, device, bytes },
            other => {
                let text = other.to_string();
                let message = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
                Error::Backend { op, device, message: message.to_owned() }
            }
        }
    }

    fn name(&self) -> samebits_tensor_core::Device {
        samebits_tensor_core::Device::Cuda(self.ordinal)
    }

    fn gather(&self, memory: &Memory, layout: &Layout, size: usize) -> Result<Memory, Failure> {
        let merged = merged(layout);
        if merged.0.len() > MAX_RANK {
            return self.gather_on_host(memory, layout, size);
        }
        match size {
            1 => self.gather_as::<u8>(memory, &merged, layout),
            2 => self.gather_as::<u16>(memory, &merged, layout),
            4 => self.gather_as::<u32>(memory, &merged, layout),
            _ => self.gather_as::<u64>(memory, &merged, layout),
        }
    }

    fn gather_as<T: Word>(
        &self,
        memory: &Memory,
        (shape, strides): &(Vec<usize>, Vec<isize>),
        layout: &Layout,
    ) -> Result<Memory, Failure> {
        let source = memory.part::<T>(0, memory.len / size_of::<T>())?;
        let view = View { strides, offset: layout.offset() };
        let out = elementwise::copy(self.device()?, &source, shape, view)?;
        Ok(self.memory(out, layout.numel() * size_of::<T>()))
    }

    /// Gathers on the host, for more dimensions than a kernel supports.
    fn gather_on_host(
        &self,
        memory: &Memory,
        layout: &Layout,
        size: usize,
    ) -> Result<Memory, Failure> {
        let len = product(&[layout.numel(), size]).unwrap_or(usize::MAX);
        let mut out = on_host("contiguous", len)?;
        let bytes = self.device()?.download(&memory.bytes)?;
        for position in layout.positions() {
            out.extend_from_slice(&bytes[position * size..][..size]);
        }
        Ok(self.memory(self.device()?.upload(&out)?, out.len()))
    }
}

/// Returns an empty vector with room for `capacity` elements, a number that a caller chooses.
pub(super) fn on_host<T>(op: &'static str, capacity: usize) -> Result<Vec<T>, Failure> {
    let device = samebits_tensor_core::Device::Cpu;
    with_capacity(capacity)
        .map_err(|OutOfMemory { bytes }| Error::OutOfMemory { op, device, bytes }.into())
}

/// A piece of a device's memory.
#[derive(Debug)]
pub(super) struct Memory {
    device: samebits_tensor_core::Device,
    bytes: Buffer<u8>,
    /// The length in bytes. The buffer may be longer, because the driver allocates no empty memory.
    len: usize,
}

impl Memory {
    /// Returns `len` elements from element `start` on.
    fn part<T: Word>(&self, start: usize, len: usize) -> Result<Input<T>, Failure> {
        self.bytes.part(start, len).map(Input).ok_or_else(|| {
            let message = format!("elements {start} to {} lie outside the buffer", start + len);
            CudaError::Driver { op: "tensor", message }.into()
        })
    }
}

impl DeviceBuffer for Memory {
    fn device(&self) -> samebits_tensor_core::Device {
        self.device
    }

    fn len(&self) -> usize {
        self.len
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The elements of a tensor that a kernel reads.
pub(super) struct Input<T>(Buffer<T>);

impl<T> Deref for Input<T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        &self.0
    }
}

/// Returns the elements of a dense tensor, without copying.
pub(super) fn input<T: Word>(dense: &Tensor) -> Result<Input<T>, Failure> {
    let memory = memory(dense)?;
    memory.part(dense.layout().offset(), dense.numel())
}

/// Returns a tensor's whole buffer, to be read at its layout's positions.
pub(super) fn storage<T: Word>(x: &Tensor) -> Result<Input<T>, Failure> {
    let memory = memory(x)?;
    memory.part(0, memory.len / size_of::<T>())
}

fn memory(x: &Tensor) -> Result<&Memory, Failure> {
    x.device_buffer().and_then(|buffer| buffer.as_any().downcast_ref()).ok_or_else(|| {
        Failure::Tensor(Error::invalid("tensor", "the tensor's memory is not of this backend"))
    })
}

/// Returns shape and strides, with neighbouring dimensions merged if a single stride covers both.
pub(super) fn merged(layout: &Layout) -> (Vec<usize>, Vec<isize>) {
    let (mut shape, mut strides) = (Vec::new(), Vec::new());
    for (&n, &stride) in layout.shape().iter().zip(layout.strides()) {
        if n == 1 {
            continue;
        }
        match (shape.last_mut(), strides.last_mut()) {
            (Some(size), Some(last)) if *last == (stride * n) as isize => {
                *size *= n;
                *last = stride as isize;
            }
            _ => {
                shape.push(n);
                strides.push(stride as isize);
            }
        }
    }
    (shape, strides)
}

/// The backend of a device for tensors.
#[derive(Debug)]
struct CudaBackend(Arc<Home>);

impl CudaBackend {
    fn run<R>(&self, op: &'static str, body: impl FnOnce() -> Result<R, Failure>) -> Tensors<R> {
        body().map_err(|failure| match failure {
            Failure::Tensor(error) => error,
            Failure::Cuda(error) => self.0.error(op, error),
        })
    }

    /// Calls `body` with the elements of ranges of floats.
    fn total<R>(
        &self,
        op: &'static str,
        floats: &[backend::Floats<'_>],
        body: impl FnOnce(&Device, &[totals::Floats<'_>]) -> Result<R>,
    ) -> Tensors<Option<R>> {
        self.run(op, || {
            let inputs = floats.iter().map(|&backend::Floats { buffer, start, len, dtype }| {
                let memory = own(buffer)?;
                Ok(match dtype {
                    DType::F16 => Floats::F16(memory.part(start, len)?),
                    DType::BF16 => Floats::BF16(memory.part(start, len)?),
                    DType::F32 => Floats::F32(memory.part(start, len)?),
                    DType::F64 => Floats::F64(memory.part(start, len)?),
                    other => {
                        let message = format!("expected floats, got {other}");
                        return Err(Error::invalid(op, message).into());
                    }
                })
            });
            let inputs = inputs.collect::<Result<Vec<_>, Failure>>()?;
            let all = inputs.iter().map(|input| match input {
                Floats::F16(x) => totals::Floats::F16(x),
                Floats::BF16(x) => totals::Floats::BF16(x),
                Floats::F32(x) => totals::Floats::F32(x),
                Floats::F64(x) => totals::Floats::F64(x),
            });
            Ok(Some(body(self.0.device()?, &all.collect::<Vec<_>>())?))
        })
    }
}

/// The elements of a range of floats.
enum Floats {
    F16(Input<f16>),
    BF16(Input<bf16>),
    F32(Input<f32>),
    F64(Input<f64>),
}

impl Backend for CudaBackend {
    fn name(&self) -> String {
        match self.0.device().and_then(Device::name) {
            Ok(name) => name,
            Err(error) => error.to_string(),
        }
    }

    fn upload(&self, bytes: &[u8]) -> Tensors<Arc<dyn DeviceBuffer>> {
        self.run("upload", || {
            let buffer = self.0.device()?.upload(bytes)?;
            Ok(Arc::new(self.0.memory(buffer, bytes.len())) as _)
        })
    }

    fn download(&self, buffer: &dyn DeviceBuffer) -> Tensors<Vec<u8>> {
        self.run("download", || {
            let memory = own(buffer)?;
            let mut bytes = self.0.device()?.download(&memory.bytes)?;
            bytes.truncate(memory.len);
            Ok(bytes)
        })
    }

    fn gather(
        &self,
        buffer: &dyn DeviceBuffer,
        layout: &Layout,
        size: usize,
    ) -> Tensors<Arc<dyn DeviceBuffer>> {
        self.run("contiguous", || Ok(Arc::new(self.0.gather(own(buffer)?, layout, size)?) as _))
    }

    fn digest(
        &self,
        buffer: &dyn DeviceBuffer,
        elements: Range<usize>,
        size: usize,
        what: DigestSum,
    ) -> Tensors<Option<LateSum>> {
        fn sum<T: Word>(
            device: &Device,
            memory: &Memory,
            elements: Range<usize>,
            what: DigestSum,
        ) -> Result<Buffer<u64>, Failure> {
            let x = memory.part::<T>(elements.start, elements.len())?;
            Ok(digest_sum::<T>(device, &x, elements.len(), what)?)
        }
        let sum = self.run("digest", || {
            let (device, memory) = (self.0.device()?, own(buffer)?);
            match size {
                1 => sum::<u8>(device, memory, elements, what),
                2 => sum::<u16>(device, memory, elements, what),
                4 => sum::<u32>(device, memory, elements, what),
                _ => sum::<u64>(device, memory, elements, what),
            }
        })?;
        let home = self.0.clone();
        Ok(Some(Box::new(move || {
            // Errors that operations have reported stay for the next read of their results.
            let read = home.device().and_then(|device| sum.read("digest", device.stream(), 0, 1));
            read.map(|words| words[0]).map_err(|error| home.error("digest", error))
        })))
    }

    fn first_not_finite(&self, floats: &[backend::Floats<'_>]) -> Tensors<Option<usize>> {
        self.total("first_not_finite", floats, |device, all| {
            Ok(totals::first_not_finite(device, all)?.unwrap_or(all.len()))
        })
    }

    fn largest_magnitude(&self, floats: &[backend::Floats<'_>]) -> Tensors<Option<f64>> {
        self.total("largest_magnitude", floats, totals::largest_magnitude)
    }

    fn sum_of_powers(
        &self,
        floats: &[backend::Floats<'_>],
        scale: f64,
        p: f64,
    ) -> Tensors<Option<ExactSum64>> {
        self.total("sum_of_powers", floats, |device, all| {
            totals::sum_of_powers(device, all, scale, p)
        })
    }

    fn synchronize(&self) -> Tensors<()> {
        self.run("synchronize", || Ok(self.0.device()?.synchronize()?))
    }
}

fn own(buffer: &dyn DeviceBuffer) -> Result<&Memory, Failure> {
    buffer.as_any().downcast_ref().ok_or_else(|| {
        Failure::Tensor(Error::invalid("tensor", "the buffer is not of this backend"))
    })
}
