//! The tensor: a value with a shape, an element type and a device.

mod views;

use std::fmt;
use std::sync::{Arc, Weak};

use samebits_numerics::memory::{self, OutOfMemory};

use crate::backend::{self, DeviceBuffer};
use crate::buffer::Buffer;
use crate::dense;
use crate::gather::{gather_bytes, gather_each};
use crate::scalar::{Exact, Scalar};
use crate::{
    DType, Determinism, Device, Element, Error, Layout, Result, determinism, with_element,
};

/// A dense or strided block of elements on one device.
///
/// Cloning a tensor and taking a view share its storage, and the first write to shared storage
/// copies it: a write never shows through another tensor, and no operation receives memory that
/// overlaps itself.
#[derive(Clone)]
pub struct Tensor {
    storage: Storage,
    layout: Layout,
    dtype: DType,
}

#[derive(Clone)]
enum Storage {
    Host(Arc<Buffer>),
    Device(Arc<dyn DeviceBuffer>),
}

/// A reference to the storage of a [`Tensor`]. It reserves the [address](Tensor::storage_address),
/// but does not keep the elements alive. The elements of the storage it names never change: a write
/// to a tensor with such a reference copies first.
#[derive(Clone, Debug)]
pub struct StorageRef(WeakStorage);

#[derive(Clone, Debug)]
enum WeakStorage {
    Host(Weak<Buffer>),
    Device(Weak<dyn DeviceBuffer>),
}

impl StorageRef {
    /// Returns true if a tensor still uses the storage.
    pub fn is_alive(&self) -> bool {
        match &self.0 {
            WeakStorage::Host(buffer) => buffer.strong_count() > 0,
            WeakStorage::Device(buffer) => buffer.strong_count() > 0,
        }
    }
}

/// Constructors.
impl Tensor {
    /// Returns a host tensor of `shape` that holds `values` in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the number of values does not fit the shape,
    /// [`Error::OutOfMemory`] if there is no memory for them.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_tensor_core::Tensor;
    ///
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.transpose(0, 1)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), samebits_tensor_core::Error>(())
    /// ```
    pub fn from_slice<T: Element>(values: &[T], shape: &[usize]) -> Result<Tensor> {
        let layout = Layout::contiguous("from_slice", shape)?;
        if layout.numel() != values.len() {
            return Err(Error::invalid(
                "from_slice",
                format!("{} values for a tensor of shape {shape:?}", values.len()),
            ));
        }
        let buffer = Buffer::from_slice(values).map_err(Error::out_of_host_memory("from_slice"))?;
        Ok(Tensor::from_buffer(buffer, layout, T::DTYPE))
    }

    /// Returns a host tensor of truth values.
    ///
    /// # Errors
    ///
    /// As [`from_slice`](Tensor::from_slice).
    pub fn from_bools(values: &[bool], shape: &[usize]) -> Result<Tensor> {
        let mut tensor = Tensor::from_slice::<u8>(bytemuck::cast_slice(values), shape)?;
        tensor.dtype = DType::Bool;
        Ok(tensor)
    }

    /// Returns a host tensor with no dimensions and one element.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Tensor::from_buffer(Buffer::of(value), Layout::default(), T::DTYPE)
    }

    /// Returns a host tensor of zeros.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if no machine can address that many elements,
    /// [`Error::OutOfMemory`] if there is no memory for them. So do the other functions that make a
    /// tensor of a given shape.
    pub fn zeros(shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::made("zeros", shape, dtype, Buffer::zeroed)
    }

    /// Returns a host tensor of ones.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn ones(shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::filled("ones", shape, 1.0, dtype)
    }

    /// Returns a host tensor with every element `value`, converted to `dtype` as by [`Scalar::of`]
    /// (for `Bool`: true unless 0).
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn full(shape: &[usize], value: f64, dtype: DType) -> Result<Tensor> {
        Tensor::filled("full", shape, value, dtype)
    }

    fn filled(op: &'static str, shape: &[usize], value: f64, dtype: DType) -> Result<Tensor> {
        Tensor::made(op, shape, dtype, |bytes| {
            let mut buffer = Buffer::scratch(bytes)?;
            match dtype {
                DType::Bool => dense::fill(buffer.as_mut_slice(), u8::from(value != 0.0)),
                _ => with_element!(dtype, T => {
                    dense::fill(buffer.as_mut_slice(), T::of(Exact::Float(value)));
                }),
            }
            Ok(buffer)
        })
    }

    /// Returns the host tensor `[0, 1, .., n - 1]` of type `I64`.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn arange(n: usize) -> Result<Tensor> {
        Tensor::made("arange", &[n], DType::I64, |bytes| {
            let mut buffer = Buffer::scratch(bytes)?;
            for (i, value) in (0..).zip(buffer.as_mut_slice::<i64>()) {
                *value = i;
            }
            Ok(buffer)
        })
    }

    /// Returns a host tensor of meaningless content.
    ///
    /// # Determinism
    ///
    /// At [`Determinism::RunToRun`] and above the content is filled, so that a program which reads
    /// it repeats: NaN for floats, the maximum for integers, true for truth values.
    /// [`set_fill_uninitialized`] disables that.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    ///
    /// # References
    ///
    /// PyTorch's `torch.utils.deterministic.fill_uninitialized_memory`.
    pub fn empty(shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::made("empty", shape, dtype, |bytes| unread(bytes, dtype))
    }

    /// Returns [`empty`](Tensor::empty) with the shape and type of this tensor.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn empty_like(&self) -> Result<Tensor> {
        Tensor::empty(self.shape(), self.dtype)
    }

    /// Returns [`empty`](Tensor::empty) with explicit strides.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `shape` and `strides` differ in length; else as
    /// [`zeros`](Tensor::zeros).
    pub fn empty_strided(shape: &[usize], strides: &[usize], dtype: DType) -> Result<Tensor> {
        let layout = Layout::strided(shape, strides, 0)?;
        let mut tensor = Tensor::empty(&[layout.extent()], dtype)?;
        tensor.layout = layout;
        Ok(tensor)
    }

    /// Returns a host tensor of unspecified content that is never filled, for the output of a
    /// kernel that overwrites all of it.
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros).
    pub fn scratch(shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::made("scratch", shape, dtype, Buffer::scratch)
    }

    /// Returns a host tensor over the buffer that `make` allocates for its size in bytes.
    fn made(
        op: &'static str,
        shape: &[usize],
        dtype: DType,
        make: impl FnOnce(usize) -> Result<Buffer, OutOfMemory>,
    ) -> Result<Tensor> {
        let layout = Layout::contiguous(op, shape)?;
        // The limit on a layout's elements allows eight bytes for each, so the product fits.
        let buffer = make(layout.numel() * dtype.size()).map_err(Error::out_of_host_memory(op))?;
        Ok(Tensor::from_buffer(buffer, layout, dtype))
    }

    /// Returns a dense tensor over a buffer that a device's kernel has written.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if no machine can address that many elements, or the buffer does
    /// not hold them.
    pub fn from_device_buffer(
        buffer: Arc<dyn DeviceBuffer>,
        shape: &[usize],
        dtype: DType,
    ) -> Result<Tensor> {
        let op = "from_device_buffer";
        let layout = Layout::contiguous(op, shape)?;
        if layout.numel() * dtype.size() > buffer.len() {
            let bytes = buffer.len();
            return Err(Error::invalid(
                op,
                format!("{bytes} bytes for a tensor of shape {shape:?} and type {dtype}"),
            ));
        }
        Ok(Tensor { storage: Storage::Device(buffer), layout, dtype })
    }

    fn from_buffer(buffer: Buffer, layout: Layout, dtype: DType) -> Tensor {
        Tensor { storage: Storage::Host(Arc::new(buffer)), layout, dtype }
    }
}

/// Properties.
impl Tensor {
    /// Returns the size of each dimension.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Returns the size of dimension `dim`, or an error that names `op`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if there is no such dimension.
    pub fn size(&self, op: &'static str, dim: usize) -> Result<usize> {
        self.layout.size(op, dim)
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// Returns the number of elements.
    pub fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the device of the elements.
    pub fn device(&self) -> Device {
        match &self.storage {
            Storage::Host(_) => Device::Cpu,
            Storage::Device(buffer) => buffer.device(),
        }
    }

    /// Returns shape, strides and offset.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns true if the logical order is the storage order, without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// Returns the address of the storage. Tensors that share storage have the same address while
    /// they live, so that clones and views of a parameter can be recognised.
    pub fn storage_address(&self) -> usize {
        match &self.storage {
            Storage::Host(buffer) => Arc::as_ptr(buffer).addr(),
            Storage::Device(buffer) => Arc::as_ptr(buffer).addr(),
        }
    }

    /// Returns a reference to the storage that does not keep it alive, for caches of facts about
    /// its contents.
    pub fn storage(&self) -> StorageRef {
        StorageRef(match &self.storage {
            Storage::Host(buffer) => WeakStorage::Host(Arc::downgrade(buffer)),
            Storage::Device(buffer) => WeakStorage::Device(Arc::downgrade(buffer)),
        })
    }

    /// Returns the device memory, for a backend's kernels; the layout gives the position in it.
    pub fn device_buffer(&self) -> Option<&Arc<dyn DeviceBuffer>> {
        match &self.storage {
            Storage::Host(_) => None,
            Storage::Device(buffer) => Some(buffer),
        }
    }
}

/// Reading and writing.
impl Tensor {
    /// Returns the same values in row-major order without gaps; free if they already are.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for a copy, [`Error::Backend`] if the device
    /// fails.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        match &self.storage {
            Storage::Host(buffer) => {
                Tensor::made("contiguous", self.shape(), self.dtype, |bytes| {
                    let mut out = Buffer::scratch(bytes)?;
                    let size = self.dtype.size();
                    gather_bytes(size, buffer.as_slice(), &self.layout, out.as_mut_slice());
                    Ok(out)
                })
            }
            Storage::Device(buffer) => {
                let dense = backend::backend(buffer.device())?.gather(
                    buffer.as_ref(),
                    &self.layout,
                    self.dtype.size(),
                )?;
                Tensor::from_device_buffer(dense, self.shape(), self.dtype)
            }
        }
    }

    /// Returns the elements of a dense host tensor, in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `T` is not the element type, [`Error::InvalidArgument`] if the
    /// tensor is strided or not on the host: call [`contiguous`](Tensor::contiguous) or
    /// [`to`](Tensor::to) first.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.expect_dtype::<T>("as_slice")?;
        if !self.is_contiguous() {
            return Err(Error::invalid(
                "as_slice",
                "the tensor is strided; call `contiguous` first",
            ));
        }
        match &self.storage {
            Storage::Host(buffer) => {
                let start = self.layout.offset();
                Ok(&buffer.as_slice()[start..start + self.numel()])
            }
            Storage::Device(buffer) => Err(Error::invalid(
                "as_slice",
                format!("the tensor is on {}; call `to(Device::Cpu)` first", buffer.device()),
            )),
        }
    }

    /// Returns the whole storage of a host tensor, to be read at its [`layout`](Tensor::layout)'s
    /// positions.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `T` is not the element type, [`Error::InvalidArgument`] if the
    /// tensor is not on the host.
    pub fn storage_slice<T: Element>(&self) -> Result<&[T]> {
        self.expect_dtype::<T>("storage_slice")?;
        match &self.storage {
            Storage::Host(buffer) => Ok(buffer.as_slice()),
            Storage::Device(buffer) => Err(Error::invalid(
                "storage_slice",
                format!("the tensor is on {}; call `to(Device::Cpu)` first", buffer.device()),
            )),
        }
    }

    /// Copies the elements of this host tensor to a slice in logical order, on several threads if there are
    /// many.
    ///
    /// # Errors
    ///
    /// As [`storage_slice`](Tensor::storage_slice); [`Error::InvalidArgument`] if `to` is not as long as
    /// the tensor.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_tensor_core::Tensor;
    ///
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// let mut columns = [0i64; 6];
    /// x.permute(&[1, 0])?.copy_to(&mut columns)?;
    /// assert_eq!(columns, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), samebits_tensor_core::Error>(())
    /// ```
    pub fn copy_to<T: Element>(&self, to: &mut [T]) -> Result<()> {
        let data = self.storage_slice::<T>()?;
        if to.len() != self.numel() {
            let message = format!("expected {} elements, got {}", self.numel(), to.len());
            return Err(Error::invalid("copy_to", message));
        }
        let (from, to) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(to));
        gather_bytes(size_of::<T>(), from, &self.layout, to);
        Ok(())
    }

    /// Calls `f(elements, part)` for parts of `to`, with as many elements of this host tensor in logical
    /// order. Those of a dense tensor are one part. Those of a strided one are copied part by part, on
    /// several threads, so that a kernel reads its copies from a cache.
    ///
    /// # Errors
    ///
    /// As [`storage_slice`](Tensor::storage_slice); [`Error::InvalidArgument`] if `to` is not as long as
    /// the tensor; [`Error::OutOfMemory`]; the error of the first part for which `f` fails.
    pub fn each_part<T: Element, R: Send>(
        &self,
        to: &mut [R],
        f: impl Fn(&[T], &mut [R]) -> Result<()> + Sync,
    ) -> Result<()> {
        let data = self.storage_slice::<T>()?;
        if to.len() != self.numel() {
            let (expected, got) = (self.numel(), to.len());
            let message = format!("expected {expected} results, got {got}");
            return Err(Error::invalid("each_part", message));
        }
        if self.is_contiguous() {
            return f(self.as_slice()?, to);
        }
        gather_each(data, &self.layout, to, f)
    }

    /// Returns the elements of a dense host tensor as a mutable slice. Copies first if they are
    /// shared, or if a [`StorageRef`] names them.
    ///
    /// # Errors
    ///
    /// As [`as_slice`](Tensor::as_slice); [`Error::OutOfMemory`] if there is no memory for the copy.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        self.as_slice::<T>()?;
        let (start, numel) = (self.layout.offset(), self.numel());
        let Storage::Host(buffer) = &mut self.storage else {
            unreachable!("as_slice accepted the tensor, so it is on the host");
        };
        if Arc::get_mut(buffer).is_none() {
            *buffer =
                Arc::new(buffer.try_clone().map_err(Error::out_of_host_memory("as_mut_slice"))?);
        }
        let buffer = Arc::get_mut(buffer).expect("nobody else has the copy");
        Ok(&mut buffer.as_mut_slice()[start..start + numel])
    }

    /// Returns the elements in row-major order, whatever the layout and device.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `T` is not the element type, [`Error::OutOfMemory`] if there is
    /// no memory for them, [`Error::Backend`] if the device fails.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_dtype::<T>("to_vec")?;
        let dense = self.to(Device::Cpu)?.contiguous()?;
        let values = dense.as_slice::<T>()?;
        memory::collected(values.iter().copied()).map_err(Error::out_of_host_memory("to_vec"))
    }

    /// Returns the truth values in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] unless the type is `Bool`; else as [`to_vec`](Tensor::to_vec).
    pub fn to_bools(&self) -> Result<Vec<bool>> {
        if self.dtype != DType::Bool {
            return Err(self.dtype_mismatch("to_bools", DType::Bool));
        }
        Ok(self.to_vec::<u8>()?.into_iter().map(|b| b != 0).collect())
    }

    /// Returns the only element.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless there is exactly one; else as [`to_vec`](Tensor::to_vec).
    pub fn item<T: Element>(&self) -> Result<T> {
        self.expect_dtype::<T>("item")?;
        if self.numel() != 1 {
            let (shape, numel) = (self.shape(), self.numel());
            return Err(Error::invalid(
                "item",
                format!("a tensor of shape {shape:?} has {numel} elements, not 1"),
            ));
        }
        Ok(self.to_vec()?[0])
    }

    /// Returns the elements' bytes in row-major order, little-endian.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for them, [`Error::Backend`] if the device
    /// fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let dense = self.to(Device::Cpu)?.contiguous()?;
        let native = dense.to_host_bytes();
        let mut bytes =
            memory::with_capacity(native.len()).map_err(Error::out_of_host_memory("to_bytes"))?;
        bytes.extend_from_slice(native);
        if cfg!(target_endian = "big") {
            bytes.chunks_exact_mut(self.dtype.size()).for_each(<[u8]>::reverse);
        }
        Ok(bytes)
    }

    /// Returns this tensor on `device`; free if it is already there.
    ///
    /// # Errors
    ///
    /// [`Error::NoBackend`] if the device cannot be used, [`Error::OutOfMemory`] if there is no
    /// memory for the copy, [`Error::Backend`] if the device fails.
    pub fn to(&self, device: Device) -> Result<Tensor> {
        if self.device() == device {
            return Ok(self.clone());
        }
        let dense = self.contiguous()?;
        let on_host = match &dense.storage {
            Storage::Host(_) => dense,
            Storage::Device(buffer) => {
                let bytes = backend::backend(buffer.device())?.download(buffer.as_ref())?;
                let start = dense.layout.offset() * self.dtype.size();
                let bytes = &bytes[start..start + self.numel() * self.dtype.size()];
                let buffer = Buffer::from_slice(bytes).map_err(Error::out_of_host_memory("to"))?;
                Tensor::from_buffer(buffer, Layout::contiguous("to", self.shape())?, self.dtype)
            }
        };
        if device == Device::Cpu {
            return Ok(on_host);
        }
        let uploaded = backend::backend(device)?.upload(on_host.to_host_bytes())?;
        Tensor::from_device_buffer(uploaded, self.shape(), self.dtype)
    }

    /// Changes the shape in place as PyTorch's `resize_` does: previous elements keep their
    /// position in row-major storage, and new ones are filled as by [`empty`](Tensor::empty).
    ///
    /// # Errors
    ///
    /// As [`zeros`](Tensor::zeros); [`Error::Backend`] if the device fails. The tensor is then
    /// unchanged.
    pub fn resize_(&mut self, shape: &[usize]) -> Result<()> {
        let old = self.to(Device::Cpu)?.contiguous()?;
        let new = Tensor::made("resize_", shape, self.dtype, |bytes| {
            let mut buffer = unread(bytes, self.dtype)?;
            let kept = bytes.min(old.to_host_bytes().len());
            buffer.as_mut_slice::<u8>()[..kept].copy_from_slice(&old.to_host_bytes()[..kept]);
            Ok(buffer)
        })?;
        *self = new.to(self.device())?;
        Ok(())
    }

    /// Returns the dense host elements as bytes in native byte order.
    fn to_host_bytes(&self) -> &[u8] {
        let Storage::Host(buffer) = &self.storage else {
            unreachable!("callers bring the tensor to the host first");
        };
        let start = self.layout.offset() * self.dtype.size();
        &buffer.as_slice::<u8>()[start..start + self.numel() * self.dtype.size()]
    }

    fn expect_dtype<T: Element>(&self, op: &'static str) -> Result<()> {
        if T::stores(self.dtype) { Ok(()) } else { Err(self.dtype_mismatch(op, T::DTYPE)) }
    }

    fn dtype_mismatch(&self, op: &'static str, expected: DType) -> Error {
        Error::DTypeMismatch { op, what: "a tensor", expected, got: self.dtype }
    }
}

/// Sets whether user-visible uninitialised memory is filled at `RunToRun` and above (the default).
#[doc(alias = "fill_uninitialized_memory")]
pub fn set_fill_uninitialized(fill: bool) {
    FILL.store(fill, std::sync::atomic::Ordering::Relaxed);
}

static FILL: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(true);

/// Returns an uninitialised buffer, filled if the level in force requires it.
fn unread(bytes: usize, dtype: DType) -> Result<Buffer, OutOfMemory> {
    let mut buffer = Buffer::scratch(bytes)?;
    if fills_uninitialized() {
        fill_unread(buffer.as_mut_slice(), dtype);
    }
    Ok(buffer)
}

fn fills_uninitialized() -> bool {
    determinism::required() >= Determinism::RunToRun
        && FILL.load(std::sync::atomic::Ordering::Relaxed)
}

/// Fills raw elements with PyTorch's fill values.
fn fill_unread(bytes: &mut [u8], dtype: DType) {
    match dtype {
        DType::F32 => bytemuck::cast_slice_mut(bytes).fill(f32::from_bits(0x7fc0_0000)),
        DType::F64 => bytemuck::cast_slice_mut(bytes).fill(f64::from_bits(0x7ff8 << 48)),
        DType::F16 => bytemuck::cast_slice_mut(bytes).fill(0x7e00u16),
        DType::BF16 => bytemuck::cast_slice_mut(bytes).fill(0x7fc0u16),
        DType::I64 => bytemuck::cast_slice_mut(bytes).fill(i64::MAX),
        DType::I32 => bytemuck::cast_slice_mut(bytes).fill(i32::MAX),
        DType::U32 => bytemuck::cast_slice_mut(bytes).fill(u32::MAX),
        DType::U8 => bytes.fill(u8::MAX),
        DType::Bool => bytes.fill(1),
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, {:?}, {}", self.dtype, self.shape(), self.device())?;
        if self.numel() <= 16 && self.device() == Device::Cpu {
            let shown = match self.dtype {
                DType::Bool => self.to_bools().map(|v| format!("{v:?}")),
                dtype => with_element!(dtype, T => self.to_vec::<T>().map(|v| format!("{v:?}"))),
            };
            write!(f, ", {}", shown.map_err(|_| fmt::Error)?)?;
        }
        f.write_str(")")
    }
}
