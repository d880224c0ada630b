//! Calls of cuDNN: a handle, the descriptors of one convolution, its algorithms and their launch.
//! As for a launch, the typed functions first check that every buffer has the length in its
//! descriptor.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use cudarc::cudnn::result::{self, CudnnError};
use cudarc::cudnn::sys;
use cudarc::driver::CudaStream;
use samebits_tensor_core::geometry::ConvPass;

use super::{Buffer, ordered};
use crate::device::Float;
use crate::error::CudaError;

/// The library's name.
pub const LIBRARY: &str = "cuDNN";

/// The number of algorithms to query: more than there are.
const MOST: usize = 16;

type Result<T> = std::result::Result<T, CudnnError>;

/// Returns true if the library can be opened; otherwise cudarc would panic at the first call.
pub(crate) fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: opening the library runs only its own initialisers.
    *PRESENT.get_or_init(|| unsafe { sys::is_culib_present() })
}

/// An algorithm of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Forward(sys::cudnnConvolutionFwdAlgo_t),
    Input(sys::cudnnConvolutionBwdDataAlgo_t),
    Weight(sys::cudnnConvolutionBwdFilterAlgo_t),
}

/// cuDNN's description of an algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) algorithm: Algorithm,
    /// True if it promises to repeat its bits.
    pub(crate) deterministic: bool,
    /// The size of the workspace that it needs, in bytes.
    pub(crate) bytes: usize,
}

/// A handle for one stream.
#[derive(Debug)]
pub(crate) struct Handle {
    raw: sys::cudnnHandle_t,
    stream: Arc<CudaStream>,
}

// SAFETY: any thread may use a handle, but only one at a time: it is behind a lock.
unsafe impl Send for Handle {}

impl Handle {
    pub(crate) fn new(stream: &Arc<CudaStream>) -> Result<Handle> {
        let handle = Handle { raw: result::create_handle()?, stream: stream.clone() };
        // SAFETY: both were just seen to exist; the stream is kept as long as the handle.
        unsafe { result::set_stream(handle.raw, stream.cu_stream() as sys::cudaStream_t) }?;
        Ok(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created once and dropped once. A failure cannot be reported.
        let _ = unsafe { result::destroy_handle(self.raw) };
    }
}

/// The sizes of a convolution over two or three dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sizes {
    pub(crate) input: Vec<c_int>,
    pub(crate) weight: Vec<c_int>,
    pub(crate) output: Vec<c_int>,
    pub(crate) padding: Vec<c_int>,
    pub(crate) stride: Vec<c_int>,
    pub(crate) dilation: Vec<c_int>,
    pub(crate) groups: c_int,
}

/// The descriptors of a convolution.
#[derive(Debug)]
pub(crate) struct Convolution {
    input: Tensor,
    output: Tensor,
    weight: Filter,
    window: Window,
}

#[derive(Debug)]
struct Tensor(sys::cudnnTensorDescriptor_t);
#[derive(Debug)]
struct Filter(sys::cudnnFilterDescriptor_t);
#[derive(Debug)]
struct Window(sys::cudnnConvolutionDescriptor_t);

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: created once, dropped once.
        let _ = unsafe { result::destroy_tensor_descriptor(self.0) };
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // SAFETY: created once, dropped once.
        let _ = unsafe { result::destroy_filter_descriptor(self.0) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: created once, dropped once.
        let _ = unsafe { result::destroy_convolution_descriptor(self.0) };
    }
}

fn tensor(dims: &[c_int], kind: sys::cudnnDataType_t) -> Result<Tensor> {
    let mut strides = vec![1; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d];
    }
    let tensor = Tensor(result::create_tensor_descriptor()?);
    let (count, dims) = (dims.len() as c_int, dims.as_ptr());
    // SAFETY: the descriptor was just created, and both lists have `count` numbers.
    unsafe { result::set_tensornd_descriptor(tensor.0, kind, count, dims, strides.as_ptr()) }?;
    Ok(tensor)
}

impl Convolution {
    /// Creates the descriptors for elements of type `T`, in full precision without TF32.
    pub(crate) fn new<T: Float>(sizes: &Sizes) -> Result<Convolution> {
        let kind = if T::WIDE {
            sys::cudnnDataType_t::CUDNN_DATA_DOUBLE
        } else {
            sys::cudnnDataType_t::CUDNN_DATA_FLOAT
        };
        let weight = Filter(result::create_filter_descriptor()?);
        let format = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW;
        let (count, dims) = (sizes.weight.len() as c_int, sizes.weight.as_ptr());
        // SAFETY: the descriptor was just created, and the list has `count` numbers.
        unsafe { result::set_filternd_descriptor(weight.0, kind, format, count, dims) }?;
        let window = Window(result::create_convolution_descriptor()?);
        // SAFETY: the descriptor was just created, and the three lists have equal lengths.
        unsafe {
            result::set_convolutionnd_descriptor(
                window.0,
                sizes.padding.len() as c_int,
                sizes.padding.as_ptr(),
                sizes.stride.as_ptr(),
                sizes.dilation.as_ptr(),
                sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION,
                kind,
            )?;
            result::set_convolution_group_count(window.0, sizes.groups)?;
            result::set_convolution_math_type(window.0, sys::cudnnMathType_t::CUDNN_FMA_MATH)?;
        }
        let (input, output) = (tensor(&sizes.input, kind)?, tensor(&sizes.output, kind)?);
        Ok(Convolution { input, output, weight, window })
    }

    /// Returns the algorithms of a pass that cuDNN can run, in the order of its heuristics, which
    /// measure nothing.
    pub(crate) fn algorithms(&self, handle: &Handle, pass: ConvPass) -> Result<Vec<Candidate>> {
        let Convolution { input, output, weight, window } = self;
        let mut count = 0;
        macro_rules! list {
            ($get:ident, $kind:ident, $($descriptor:expr),*) => {{
                // SAFETY: all zeros is a valid value of every field.
                let mut found = [unsafe { std::mem::zeroed() }; MOST];
                let (most, all) = (MOST as c_int, found.as_mut_ptr());
                // SAFETY: the descriptors are alive, and there is room for the number of algorithms
                // requested.
                unsafe { result::$get(handle.raw, $($descriptor),*, most, &mut count, all) }?;
                found
                    .iter()
                    .take(usize::try_from(count).unwrap_or(0))
                    .filter(|one| one.status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS)
                    .map(|one| Candidate {
                        algorithm: Algorithm::$kind(one.algo),
                        deterministic: one.determinism
                            == sys::cudnnDeterminism_t::CUDNN_DETERMINISTIC,
                        bytes: one.memory,
                    })
                    .collect()
            }};
        }
        Ok(match pass {
            ConvPass::Forward => list!(
                get_convolution_forward_algorithm,
                Forward,
                input.0,
                weight.0,
                window.0,
                output.0
            ),
            ConvPass::InputGrad => list!(
                get_convolution_backward_data_algorithm,
                Input,
                weight.0,
                output.0,
                window.0,
                input.0
            ),
            ConvPass::WeightGrad => list!(
                get_convolution_backward_filter_algorithm,
                Weight,
                input.0,
                output.0,
                window.0,
                weight.0
            ),
        })
    }

    /// Runs an algorithm: `left` and `right` are the operands of its [`ConvPass`], in that order. The
    /// caller has compared the buffers' lengths with the sizes.
    pub(crate) fn run<T: Float>(
        &self,
        op: &'static str,
        handle: &Handle,
        algorithm: Algorithm,
        [left, right]: [&Buffer<T>; 2],
        out: &mut Buffer<T>,
        workspace: &mut Buffer<u8>,
    ) -> crate::Result<()> {
        let Convolution { input, output, weight, window } = self;
        let streams: [&CudaStream; 3] = [left.stream(), right.stream(), out.stream()];
        let bytes = workspace.len();
        let (left, right) = (*left.address() as *const c_void, *right.address() as *const c_void);
        let (out, space) = (*out.address() as *mut c_void, *workspace.address() as *mut c_void);
        // Scale factors are f64 for f64 elements and f32 otherwise.
        let (one, zero): (&[u8], &[u8]) = if T::WIDE {
            (bytemuck::bytes_of(&1.0f64), bytemuck::bytes_of(&0.0f64))
        } else {
            (bytemuck::bytes_of(&1.0f32), bytemuck::bytes_of(&0.0f32))
        };
        let (one, zero) = (one.as_ptr().cast::<c_void>(), zero.as_ptr().cast::<c_void>());
        // SAFETY: handle and descriptors are alive; the buffers have the lengths in the descriptors
        // and stay alive until the stream has passed this call; the factors have the type that
        // matches the elements.
        let call = || unsafe {
            match algorithm {
                Algorithm::Forward(algorithm) => result::convolution_forward(
                    handle.raw, one, input.0, left, weight.0, right, window.0, algorithm, space,
                    bytes, zero, output.0, out,
                ),
                Algorithm::Input(algorithm) => result::convolution_backward_data(
                    handle.raw, one, weight.0, right, output.0, left, window.0, algorithm, space,
                    bytes, zero, input.0, out,
                ),
                Algorithm::Weight(algorithm) => result::convolution_backward_filter(
                    handle.raw, one, input.0, right, output.0, left, window.0, algorithm, space,
                    bytes, zero, weight.0, out,
                ),
            }
        };
        ordered(op, &handle.stream, &streams, || {
            call().map_err(|error| library(op, format!("{error:?}")))
        })
    }
}

pub(crate) fn library(op: &'static str, message: String) -> CudaError {
    CudaError::Library { op, library: LIBRARY, message }
}
