//! Calls of cuBLAS. As for a launch, the typed functions first check that every access stays inside
//! its buffer.

use std::sync::{Arc, OnceLock};

use cudarc::cublas::{CudaBlas, Gemm, StridedBatchedConfig, result::CublasError, sys};
use cudarc::driver::{
    CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop, sys::CUdeviceptr,
};

use super::{Buffer, ordered};
use crate::error::CudaError;
use crate::error::Result;

/// The library's name.
pub const LIBRARY: &str = "cuBLAS";

/// Returns true if the library can be opened; otherwise cudarc would panic at the first call.
pub(crate) fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: opening the library runs only its own initialisers.
    *PRESENT.get_or_init(|| unsafe { sys::is_culib_present() })
}

/// Returns a handle for one stream that computes in full precision, without atomics, in a workspace
/// that nothing else uses.
pub(crate) fn open(
    stream: &Arc<CudaStream>,
    workspace: &mut Buffer<u8>,
) -> std::result::Result<CudaBlas, CublasError> {
    let blas = CudaBlas::new(stream.clone())?;
    let handle = *blas.handle();
    let bytes = workspace.len();
    let address = *workspace.address();
    // SAFETY: the handle was just created; the workspace has that number of bytes, has the
    // alignment of every allocation, and the caller keeps it as long as the handle.
    unsafe {
        sys::cublasSetWorkspace_v2(handle, address as *mut _, bytes).result()?;
        sys::cublasSetMathMode(handle, sys::cublasMath_t::CUBLAS_DEFAULT_MATH).result()?;
        let never = sys::cublasAtomicsMode_t::CUBLAS_ATOMICS_NOT_ALLOWED;
        sys::cublasSetAtomicsMode(handle, never).result()?;
    }
    Ok(blas)
}

/// Elements of a buffer from element `first` on, as cudarc's slice trait. [`gemm`] orders the
/// streams.
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

/// Computes a product of matrices that lie inside their buffers, as the caller has checked. `left`
/// and `right` begin at the given elements.
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
        // buffer; the written buffer is borrowed exclusively.
        let done = unsafe { blas.gemm_strided_batched(config, &left, &right, &mut out) };
        done.map_err(|error| failed(op, &error))
    })
}

/// Converts an error of the library.
pub(crate) fn failed(op: &'static str, error: &CublasError) -> CudaError {
    CudaError::Library { op, library: LIBRARY, message: error.to_string() }
}
