//! Calls of cuBLAS. What the typed functions check before they call is the same as for a launch:
//! every access stays inside its buffer.

use std::sync::{Arc, OnceLock};

use cudarc::cublas::{CudaBlas, Gemm, StridedBatchedConfig, result::CublasError, sys};
use cudarc::driver::{
    CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop, sys::CUdeviceptr,
};

use super::{Buffer, ordered};
use crate::error::Result;

/// Returns true if the library can be opened. cudarc panics at the first call where it cannot.
pub(crate) fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: opening the library runs only its own initialisers.
    *PRESENT.get_or_init(|| unsafe { sys::is_culib_present() })
}

/// Returns a handle for one stream, which computes in full precision, without atomics, and in a
/// workspace that nobody else uses.
pub(crate) fn open(
    stream: &Arc<CudaStream>,
    workspace: &mut Buffer<u8>,
) -> std::result::Result<CudaBlas, CublasError> {
    let blas = CudaBlas::new(stream.clone())?;
    let handle = *blas.handle();
    let bytes = workspace.len();
    let address = *workspace.address();
    // SAFETY: the handle was just made; the workspace has that many bytes, is aligned as every
    // allocation is, and is kept as long as the handle by the caller.
    unsafe {
        sys::cublasSetWorkspace_v2(handle, address as *mut _, bytes).result()?;
        sys::cublasSetMathMode(handle, sys::cublasMath_t::CUBLAS_DEFAULT_MATH).result()?;
        let never = sys::cublasAtomicsMode_t::CUBLAS_ATOMICS_NOT_ALLOWED;
        sys::cublasSetAtomicsMode(handle, never).result()?;
    }
    Ok(blas)
}

/// Elements of a buffer from the one at `first`, as cudarc takes them. Streams are ordered by
/// [`gemm`].
struct Matrices<'a, T> {
    buffer: &'a Buffer<T>,
    first: usize,
}

impl<T> DeviceSlice<T> for Matrices<'_, T> {
    fn len(&self) -> usize {
        self.buffer.len() - self.first
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.buffer.stream()
    }
}

impl<T> DevicePtr<T> for Matrices<'_, T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        let address = self.buffer.address() + (self.first * size_of::<T>()) as u64;
        (address, SyncOnDrop::record_event(&None, stream))
    }
}

impl<T> DevicePtrMut<T> for Matrices<'_, T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.device_ptr(stream)
    }
}

/// Returns a product of matrices that lie inside their buffers, as the caller has checked. Those of
/// `left` and `right` begin at the elements that go with them.
pub(crate) fn gemm<T>(
    op: &'static str,
    stream: &CudaStream,
    blas: &CudaBlas,
    config: StridedBatchedConfig<T>,
    [(left, first), (right, second)]: [(&Buffer<T>, usize); 2],
    out: &mut Buffer<T>,
) -> Result<()>
where
    CudaBlas: Gemm<T>,
{
    let streams: [&CudaStream; 3] = [left.stream(), right.stream(), out.stream()];
    let left = Matrices { buffer: left, first };
    let right = Matrices { buffer: right, first: second };
    let mut out = Matrices { buffer: out, first: 0 };
    ordered(op, stream, &streams, || {
        // SAFETY: the caller has compared the last element that each matrix reaches with its
        // buffer; nobody else has the buffer that is written.
        let done = unsafe { blas.gemm_strided_batched(config, &left, &right, &mut out) };
        done.map_err(|error| crate::cublas::failed(op, &error))
    })
}
