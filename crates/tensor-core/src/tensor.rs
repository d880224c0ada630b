//! The tensor: a value with a shape, an element type and a device.

mod views;

use std::fmt;
use std::sync::Arc;

use crate::backend::{self, DeviceBuffer};
use crate::buffer::Buffer;
use crate::layout::numel;
use crate::{DType, Determinism, Device, Element, Error, Layout, Result, determinism};

/// A dense or strided block of elements on one device.
///
/// A tensor is a value. Cloning it shares storage, views share storage, and the first write to a
/// shared storage copies it: no write ever shows through another tensor, and no operation can be
/// handed memory that overlaps itself.
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

/// Making tensors.
impl Tensor {
    /// A host tensor of `shape` that holds `values` in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the number of values does not fit the shape.
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
        if numel("from_slice", shape)? != values.len() {
            return Err(Error::invalid(
                "from_slice",
                format!("{} values for a tensor of shape {shape:?}", values.len()),
            ));
        }
        Ok(Tensor::from_buffer(Buffer::from_slice(values), shape, T::DTYPE))
    }

    /// A host tensor of truth values.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the number of values does not fit the shape.
    pub fn from_bools(values: &[bool], shape: &[usize]) -> Result<Tensor> {
        let bytes: Vec<u8> = values.iter().map(|&b| u8::from(b)).collect();
        let mut tensor = Tensor::from_slice(&bytes, shape)?;
        tensor.dtype = DType::Bool;
        Ok(tensor)
    }

    /// A host tensor with no dimensions and one element.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Tensor::from_buffer(Buffer::from_slice(&[value]), &[], T::DTYPE)
    }

    /// A host tensor of zeros.
    ///
    /// # Panics
    ///
    /// If a machine cannot address that many elements; [`layout::numel`](crate::layout::numel)
    /// tells. So do the other functions that make a tensor of a given shape.
    pub fn zeros(shape: &[usize], dtype: DType) -> Tensor {
        Tensor::from_buffer(Buffer::zeroed(bytes(shape, dtype)), shape, dtype)
    }

    /// A host tensor of ones.
    pub fn ones(shape: &[usize], dtype: DType) -> Tensor {
        Tensor::full(shape, 1.0, dtype)
    }

    /// A host tensor whose every element is `value`, converted to `dtype` as Rust's `as` does
    /// (for `Bool`: whether it is not zero).
    pub fn full(shape: &[usize], value: f64, dtype: DType) -> Tensor {
        let mut tensor = Tensor::scratch(shape, dtype);
        let buffer = tensor.host_mut();
        match dtype {
            DType::F32 => buffer.as_mut_slice().fill(value as f32),
            DType::F64 => buffer.as_mut_slice().fill(value),
            DType::I64 => buffer.as_mut_slice().fill(value as i64),
            DType::U8 => buffer.as_mut_slice().fill(value as u8),
            DType::Bool => buffer.as_mut_slice().fill(u8::from(value != 0.0)),
        }
        tensor
    }

    /// The host tensor `[0, 1, .., n - 1]` of type `I64`.
    pub fn arange(n: usize) -> Tensor {
        let values: Vec<i64> = (0..n as i64).collect();
        Tensor::from_buffer(Buffer::from_slice(&values), &[n], DType::I64)
    }

    /// A host tensor whose content has no meaning yet.
    ///
    /// # Determinism
    ///
    /// At [`Determinism::RunToRun`] and above the content is filled, so that a program which
    /// reads it repeats: NaN for floats, the maximum for integers, true for truth values.
    /// [`set_fill_uninitialized`] switches that off.
    ///
    /// # References
    ///
    /// PyTorch's `torch.utils.deterministic.fill_uninitialized_memory`.
    pub fn empty(shape: &[usize], dtype: DType) -> Tensor {
        let mut tensor = Tensor::scratch(shape, dtype);
        if fills_uninitialized() {
            fill_unread(tensor.host_mut().as_mut_slice(), dtype);
        }
        tensor
    }

    /// [`empty`](Tensor::empty) with the shape and type of this tensor.
    pub fn empty_like(&self) -> Tensor {
        Tensor::empty(self.shape(), self.dtype)
    }

    /// [`empty`](Tensor::empty) with explicit strides.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `shape` and `strides` differ in length.
    pub fn empty_strided(shape: &[usize], strides: &[usize], dtype: DType) -> Result<Tensor> {
        let layout = Layout::strided(shape, strides, 0)?;
        let mut tensor = Tensor::empty(&[layout.extent()], dtype);
        tensor.layout = layout;
        Ok(tensor)
    }

    /// A host tensor whose content is unspecified and never filled, for a kernel's output that
    /// is written whole before anyone reads it.
    pub fn scratch(shape: &[usize], dtype: DType) -> Tensor {
        Tensor::from_buffer(Buffer::scratch(bytes(shape, dtype)), shape, dtype)
    }

    /// A dense tensor over a buffer that a device's kernel has written.
    pub fn from_device_buffer(
        buffer: Arc<dyn DeviceBuffer>,
        shape: &[usize],
        dtype: DType,
    ) -> Tensor {
        Tensor { storage: Storage::Device(buffer), layout: Layout::contiguous(shape), dtype }
    }

    fn from_buffer(buffer: Buffer, shape: &[usize], dtype: DType) -> Tensor {
        Tensor {
            storage: Storage::Host(Arc::new(buffer)),
            layout: Layout::contiguous(shape),
            dtype,
        }
    }
}

/// What a tensor is.
impl Tensor {
    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The size of dimension `dim`, or an error that names `op`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if there is no such dimension.
    pub fn size(&self, op: &'static str, dim: usize) -> Result<usize> {
        self.layout.size(op, dim)
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where the elements are.
    pub fn device(&self) -> Device {
        match &self.storage {
            Storage::Host(_) => Device::Cpu,
            Storage::Device(buffer) => buffer.device(),
        }
    }

    /// Shape, strides and offset.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// True if the logical order is the storage order, without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// The device memory and where in it this tensor lies, for a backend's kernels.
    pub fn device_buffer(&self) -> Option<&Arc<dyn DeviceBuffer>> {
        match &self.storage {
            Storage::Host(_) => None,
            Storage::Device(buffer) => Some(buffer),
        }
    }
}

/// Reading and writing.
impl Tensor {
    /// The same values in row-major order without gaps; free if they already are.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] if the device fails.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        match &self.storage {
            Storage::Host(buffer) => {
                let mut out = Tensor::scratch(self.shape(), self.dtype);
                match self.dtype.size() {
                    1 => gather::<u8>(buffer, &self.layout, out.host_mut()),
                    4 => gather::<u32>(buffer, &self.layout, out.host_mut()),
                    _ => gather::<u64>(buffer, &self.layout, out.host_mut()),
                }
                Ok(out)
            }
            Storage::Device(buffer) => {
                let dense = backend::backend(buffer.device())?.gather(
                    buffer.as_ref(),
                    &self.layout,
                    self.dtype.size(),
                )?;
                Ok(Tensor::from_device_buffer(dense, self.shape(), self.dtype))
            }
        }
    }

    /// The elements of a dense host tensor, in row-major order.
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

    /// Everything in a host tensor's storage, to be read at its [`layout`](Tensor::layout)'s
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

    /// The elements of a dense host tensor, to be written. Copies first if they are shared.
    ///
    /// # Errors
    ///
    /// As [`as_slice`](Tensor::as_slice).
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        self.as_slice::<T>()?;
        let (start, numel) = (self.layout.offset(), self.numel());
        let Storage::Host(buffer) = &mut self.storage else {
            unreachable!("as_slice accepted the tensor, so it is on the host");
        };
        Ok(&mut Arc::make_mut(buffer).as_mut_slice()[start..start + numel])
    }

    /// The elements in row-major order, whatever the layout and device.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `T` is not the element type, [`Error::Backend`] if the device
    /// fails.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_dtype::<T>("to_vec")?;
        Ok(self.to(Device::Cpu)?.contiguous()?.as_slice::<T>()?.to_vec())
    }

    /// The truth values in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] unless the type is `Bool`.
    pub fn to_bools(&self) -> Result<Vec<bool>> {
        if self.dtype != DType::Bool {
            return Err(self.dtype_mismatch("to_bools", DType::Bool));
        }
        Ok(self.to_vec::<u8>()?.into_iter().map(|b| b != 0).collect())
    }

    /// The only element.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless there is exactly one.
    pub fn item<T: Element>(&self) -> Result<T> {
        match self.to_vec::<T>()?[..] {
            [value] => Ok(value),
            _ => Err(Error::invalid(
                "item",
                format!(
                    "a tensor of shape {:?} has {} elements, not 1",
                    self.shape(),
                    self.numel()
                ),
            )),
        }
    }

    /// The elements' bytes in row-major order, little-endian.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] if the device fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let host = self.to(Device::Cpu)?.contiguous()?;
        fn bytes<T: Element, const N: usize>(values: &[T], to_le: fn(T) -> [u8; N]) -> Vec<u8> {
            values.iter().flat_map(|&x| to_le(x)).collect()
        }
        Ok(match self.dtype {
            DType::F32 => bytes(host.as_slice()?, f32::to_le_bytes),
            DType::F64 => bytes(host.as_slice()?, f64::to_le_bytes),
            DType::I64 => bytes(host.as_slice()?, i64::to_le_bytes),
            DType::U8 | DType::Bool => host.as_slice::<u8>()?.to_vec(),
        })
    }

    /// This tensor on `device`; free if it is already there.
    ///
    /// # Errors
    ///
    /// [`Error::NoBackend`] if the device cannot be used, [`Error::Backend`] if it fails.
    pub fn to(&self, device: Device) -> Result<Tensor> {
        if self.device() == device {
            return Ok(self.clone());
        }
        let dense = self.contiguous()?;
        let host = match &dense.storage {
            Storage::Host(_) => dense,
            Storage::Device(buffer) => {
                let bytes = backend::backend(buffer.device())?.download(buffer.as_ref())?;
                let start = dense.layout.offset() * self.dtype.size();
                let bytes = &bytes[start..start + self.numel() * self.dtype.size()];
                Tensor::from_buffer(Buffer::from_slice(bytes), self.shape(), self.dtype)
            }
        };
        if device == Device::Cpu {
            return Ok(host);
        }
        let Storage::Host(buffer) = &host.storage else {
            unreachable!("just brought to the host");
        };
        let start = host.layout.offset() * self.dtype.size();
        let bytes = &buffer.as_slice::<u8>()[start..start + self.numel() * self.dtype.size()];
        let uploaded = backend::backend(device)?.upload(bytes)?;
        Ok(Tensor::from_device_buffer(uploaded, self.shape(), self.dtype))
    }

    /// Changes the shape in place as PyTorch's `resize_` does: the elements that were there keep
    /// their place in row-major storage, and a newly grown part is filled as
    /// [`empty`](Tensor::empty) fills it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if a machine cannot address that many elements;
    /// [`Error::Backend`] if the device fails.
    pub fn resize_(&mut self, shape: &[usize]) -> Result<()> {
        numel("resize_", shape)?;
        let old = self.to(Device::Cpu)?.contiguous()?;
        let device = self.device();
        let mut new = Tensor::empty(shape, self.dtype);
        let kept = old.numel().min(new.numel()) * self.dtype.size();
        let old_bytes = old.to_host_bytes();
        new.host_mut().as_mut_slice::<u8>()[..kept].copy_from_slice(&old_bytes[..kept]);
        *self = new.to(device)?;
        Ok(())
    }

    /// The dense host elements as bytes in the machine's own order.
    fn to_host_bytes(&self) -> &[u8] {
        let Storage::Host(buffer) = &self.storage else {
            unreachable!("callers bring the tensor to the host first");
        };
        let start = self.layout.offset() * self.dtype.size();
        &buffer.as_slice::<u8>()[start..start + self.numel() * self.dtype.size()]
    }

    /// The buffer of a tensor that was just made on the host, so nobody shares it.
    fn host_mut(&mut self) -> &mut Buffer {
        match &mut self.storage {
            Storage::Host(buffer) => Arc::make_mut(buffer),
            Storage::Device(_) => unreachable!("only called on new host tensors"),
        }
    }

    fn expect_dtype<T: Element>(&self, op: &'static str) -> Result<()> {
        if T::stores(self.dtype) { Ok(()) } else { Err(self.dtype_mismatch(op, T::DTYPE)) }
    }

    fn dtype_mismatch(&self, op: &'static str, expected: DType) -> Error {
        Error::DTypeMismatch { op, what: "a tensor", expected, got: self.dtype }
    }
}

/// Whether user-visible uninitialised memory is filled at `RunToRun` and above (the default).
pub fn set_fill_uninitialized(fill: bool) {
    FILL.store(fill, std::sync::atomic::Ordering::Relaxed);
}

static FILL: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(true);

/// The size of a tensor that a function without an error makes.
fn bytes(shape: &[usize], dtype: DType) -> usize {
    let numel = numel("tensor", shape).unwrap_or_else(|error| panic!("{error}"));
    numel * dtype.size()
}

fn fills_uninitialized() -> bool {
    determinism::required() >= Determinism::RunToRun
        && FILL.load(std::sync::atomic::Ordering::Relaxed)
}

/// Fills raw elements with what PyTorch fills them with.
fn fill_unread(bytes: &mut [u8], dtype: DType) {
    match dtype {
        DType::F32 => bytemuck::cast_slice_mut(bytes).fill(f32::from_bits(0x7fc0_0000)),
        DType::F64 => bytemuck::cast_slice_mut(bytes).fill(f64::from_bits(0x7ff8 << 48)),
        DType::I64 => bytemuck::cast_slice_mut(bytes).fill(i64::MAX),
        DType::U8 => bytes.fill(u8::MAX),
        DType::Bool => bytes.fill(1),
    }
}

/// Copies the elements that `layout` selects, in logical order.
fn gather<T: bytemuck::Pod>(from: &Buffer, layout: &Layout, to: &mut Buffer) {
    let (from, to) = (from.as_slice::<T>(), to.as_mut_slice::<T>());
    let rank = layout.rank();
    let (Some(&n), Some(&stride)) = (layout.shape().last(), layout.strides().last()) else {
        to[0] = from[layout.offset()];
        return;
    };
    if to.is_empty() {
        return;
    }
    // The innermost dimension is a plain loop, so that the general stepping is paid per row.
    let rows = Layout::strided(
        &layout.shape()[..rank - 1],
        &layout.strides()[..rank - 1],
        layout.offset(),
    )
    .expect("as many sizes as strides");
    for (row, start) in to.chunks_exact_mut(n).zip(rows.positions()) {
        if stride == 1 {
            row.copy_from_slice(&from[start..start + n]);
        } else {
            for (i, out) in row.iter_mut().enumerate() {
                *out = from[start + i * stride];
            }
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, {:?}, {}", self.dtype, self.shape(), self.device())?;
        if self.numel() <= 16 && self.device() == Device::Cpu {
            let shown = match self.dtype {
                DType::F32 => self.to_vec::<f32>().map(|v| format!("{v:?}")),
                DType::F64 => self.to_vec::<f64>().map(|v| format!("{v:?}")),
                DType::I64 => self.to_vec::<i64>().map(|v| format!("{v:?}")),
                DType::U8 => self.to_vec::<u8>().map(|v| format!("{v:?}")),
                DType::Bool => self.to_bools().map(|v| format!("{v:?}")),
            };
            write!(f, ", {}", shown.map_err(|_| fmt::Error)?)?;
        }
        f.write_str(")")
    }
}
