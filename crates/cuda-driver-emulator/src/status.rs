//! The driver's error codes, their names and their descriptions.

use parking_lot::Mutex;
use samebits_ptx_emulator::{Error, FaultKind};
use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char, c_int},
};

/// A `CUresult`.
pub(crate) type Code = c_int;

macro_rules! codes {
    ($($name:ident = $value:literal $full:literal $text:literal;)*) => {
        $(pub(crate) const $name: Code = $value;)*

        fn entry(code: Code) -> Option<(&'static CStr, &'static CStr)> {
            Some(match code { $($value => ($full, $text),)* _ => return None })
        }
    };
}

codes! {
    SUCCESS = 0 c"CUDA_SUCCESS" c"no error";
    INVALID_VALUE = 1 c"CUDA_ERROR_INVALID_VALUE" c"invalid argument";
    OUT_OF_MEMORY = 2 c"CUDA_ERROR_OUT_OF_MEMORY" c"out of memory";
    NOT_INITIALIZED = 3 c"CUDA_ERROR_NOT_INITIALIZED" c"initialization error";
    NO_DEVICE = 100 c"CUDA_ERROR_NO_DEVICE" c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101 c"CUDA_ERROR_INVALID_DEVICE" c"invalid device ordinal";
    INVALID_IMAGE = 200 c"CUDA_ERROR_INVALID_IMAGE" c"device kernel image is invalid";
    INVALID_CONTEXT = 201 c"CUDA_ERROR_INVALID_CONTEXT" c"invalid device context";
    NO_BINARY_FOR_GPU = 209 c"CUDA_ERROR_NO_BINARY_FOR_GPU"
        c"no kernel image is available for execution on the device";
    UNSUPPORTED_LIMIT = 215 c"CUDA_ERROR_UNSUPPORTED_LIMIT"
        c"limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217 c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"
        c"peer access is not supported between these two devices";
    INVALID_PTX = 218 c"CUDA_ERROR_INVALID_PTX" c"a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222 c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
        c"the provided PTX was compiled with an unsupported toolchain.";
    FILE_NOT_FOUND = 301 c"CUDA_ERROR_FILE_NOT_FOUND" c"file not found";
    INVALID_HANDLE = 400 c"CUDA_ERROR_INVALID_HANDLE" c"invalid resource handle";
    NOT_FOUND = 500 c"CUDA_ERROR_NOT_FOUND" c"named symbol not found";
    NOT_READY = 600 c"CUDA_ERROR_NOT_READY" c"device not ready";
    ILLEGAL_ADDRESS = 700 c"CUDA_ERROR_ILLEGAL_ADDRESS"
        c"an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701 c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        c"too many resources requested for launch";
    LAUNCH_TIMEOUT = 702 c"CUDA_ERROR_LAUNCH_TIMEOUT"
        c"the launch timed out and was terminated";
    CONTEXT_IS_DESTROYED = 709 c"CUDA_ERROR_CONTEXT_IS_DESTROYED" c"context is destroyed";
    HARDWARE_STACK_ERROR = 714 c"CUDA_ERROR_HARDWARE_STACK_ERROR" c"hardware stack error";
    MISALIGNED_ADDRESS = 716 c"CUDA_ERROR_MISALIGNED_ADDRESS" c"misaligned address";
    INVALID_ADDRESS_SPACE = 717 c"CUDA_ERROR_INVALID_ADDRESS_SPACE"
        c"operation not supported on global/shared address space";
    INVALID_PC = 718 c"CUDA_ERROR_INVALID_PC" c"invalid program counter";
    LAUNCH_FAILED = 719 c"CUDA_ERROR_LAUNCH_FAILED" c"unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720 c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"
        c"too many blocks in cooperative launch";
    NOT_PERMITTED = 800 c"CUDA_ERROR_NOT_PERMITTED" c"operation not permitted";
    NOT_SUPPORTED = 801 c"CUDA_ERROR_NOT_SUPPORTED" c"operation not supported";
    UNKNOWN = 999 c"CUDA_ERROR_UNKNOWN" c"unknown error";
}

/// Descriptions of what went wrong, by code: they are more detailed than the code.
static DETAILS: Mutex<BTreeMap<Code, &'static CStr>> = Mutex::new(BTreeMap::new());

/// Stores a message for `cuGetErrorString`, and writes it to standard error.
pub(crate) fn report(code: Code, message: &str) {
    use std::io::Write;
    let name = entry(code).map_or("an error", |(name, _)| name.to_str().unwrap_or("an error"));
    // A closed standard error stream must not cause a failure.
    let _ = writeln!(std::io::stderr(), "CUDA driver emulator: {name}: {message}");
    let base = entry(code).map_or("", |(_, text)| text.to_str().unwrap_or(""));
    if let Ok(text) = CString::new(format!("{base}: {message}")) {
        // The interface returns pointers that stay valid for ever.
        DETAILS.lock().insert(code, Box::leak(text.into_boxed_c_str()));
    }
}

/// Returns the code for an error of the emulator, after reporting it.
pub(crate) fn from_error(error: &Error) -> Code {
    let code = match error {
        Error::Load { message, .. } if message.starts_with("PTX ISA version") => {
            UNSUPPORTED_PTX_VERSION
        }
        Error::Load { .. } => INVALID_PTX,
        Error::Launch { message, .. } if message.contains(".maxntid") => LAUNCH_OUT_OF_RESOURCES,
        Error::Memory { op: "alloc", .. } => OUT_OF_MEMORY,
        Error::Launch { .. } | Error::Memory { .. } => INVALID_VALUE,
        Error::Fault(fault) => match fault.kind {
            FaultKind::OutOfBounds { .. } | FaultKind::Freed { .. } => ILLEGAL_ADDRESS,
            FaultKind::Misaligned { .. } => MISALIGNED_ADDRESS,
            FaultKind::InvalidSpace { .. } => INVALID_ADDRESS_SPACE,
            FaultKind::InvalidTarget { .. } => INVALID_PC,
            FaultKind::CallDepth { .. } => HARDWARE_STACK_ERROR,
            FaultKind::StepLimit { .. } | FaultKind::Deadlock { .. } => LAUNCH_TIMEOUT,
            _ => LAUNCH_FAILED,
        },
        _ => UNKNOWN,
    };
    report(code, &error.to_string());
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: Code, text: *mut *const c_char) -> Code {
    let found = entry(error).map(|(name, _)| name.as_ptr());
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { name_out(found, text) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: Code, text: *mut *const c_char) -> Code {
    let detail = DETAILS.lock().get(&error).copied();
    let found = detail.or(entry(error).map(|(_, text)| text)).map(CStr::as_ptr);
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { name_out(found, text) }
}

/// # Safety
///
/// `text` is null or valid for a write.
unsafe fn name_out(found: Option<*const c_char>, text: *mut *const c_char) -> Code {
    if text.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller guarantees it.
    unsafe { text.write(found.unwrap_or(std::ptr::null())) };
    if found.is_some() { SUCCESS } else { INVALID_VALUE }
}
