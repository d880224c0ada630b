//! Functions that cudarc names and this library does not implement: graphs, managed and external
//! memory.
//!
//! The symbols exist, because cudarc panics if one is missing.

use crate::status::{Code, NOT_SUPPORTED, SUCCESS};

macro_rules! unsupported {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            // The function ignores its arguments: on every platform with a CUDA driver, the caller
            // cleans up the stack.
            unsafe extern "C" fn $name() -> Code {
                NOT_SUPPORTED
            }
        )*
    };
}

unsupported! {
    cuCtxCreate_v4
    cuDestroyExternalMemory
    cuExternalMemoryGetMappedBuffer
    cuGraphDestroy
    cuGraphExecDestroy
    cuGraphInstantiateWithFlags
    cuGraphLaunch
    cuGraphUpload
    cuImportExternalMemory
    cuLaunchKernelEx
    cuMemAdvise
    cuMemAdvise_v2
    cuMemAllocManaged
    cuMemPrefetchAsync
    cuMemPrefetchAsync_v2
    cuOccupancyMaxActiveClusters
    cuOccupancyMaxPotentialClusterSize
    cuStreamAttachMemAsync
    cuStreamBeginCapture_v2
    cuStreamEndCapture
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuProfilerStart() -> Code {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuProfilerStop() -> Code {
    SUCCESS
}
