//! The errors of kernels on tensors.

use samebits_tensor_core::Error;

use crate::CudaError;

/// The return type of a registered kernel.
pub(super) type Tensors<T> = samebits_tensor_core::Result<T>;

/// An error of a computation: of a tensor, or of the device.
#[derive(Debug)]
pub(super) enum Failure {
    Tensor(Error),
    Cuda(CudaError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Tensor(error)
    }
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Failure {
        Failure::Cuda(error)
    }
}
