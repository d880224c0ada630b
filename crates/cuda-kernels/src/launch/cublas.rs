//! Calls of cuBLAS. What the typed functions check before they call is the same as for a launch:
//! every access stays inside its buffer.

use std::sync::{Arc, OnceLock};

use cudarc::cublas::{CudaBlas, Gemm, StridedBatchedConfig, result::CublasError, sys};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtrMut};

/// Whether the library can be opened. cudarc panics at the first call where it cannot.
pub(crate) fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: opening the library runs only its own initialisers.
    *PRESENT.get_or_init(|| unsafe { sys::is_culib_present() })
}

/// A handle for one stream, which computes in full precision, without atomics, and in a workspace
/// that nobody else uses.
pub(crate) fn open(
    stream: &Arc<CudaStream>,
    workspace: &mut CudaSlice<u8>,
) -> Result<CudaBlas, CublasError> {
    let blas = CudaBlas::new(stream.clone())?;
    let handle = *blas.handle();
    let bytes = workspace.len();
    let (address, _) = workspace.device_ptr_mut(stream);
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

/// A product of matrices that lie inside their buffers, as the caller has checked.
pub(crate) fn gemm<T>(
    blas: &CudaBlas,
    config: StridedBatchedConfig<T>,
    left: &CudaView<'_, T>,
    right: &CudaView<'_, T>,
    out: &mut CudaSlice<T>,
) -> Result<(), CublasError>
where
    CudaBlas: Gemm<T>,
{
    // SAFETY: the caller has compared the last element that each matrix reaches with its buffer.
    unsafe { blas.gemm_strided_batched(config, left, right, out) }
}
