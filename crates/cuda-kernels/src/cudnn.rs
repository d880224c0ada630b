//! Convolutions by cuDNN, with the feature `cudnn`.
//!
//! The library is opened at run time; building does not need it. Run on one GPU, an H200.
//!
//! # Determinism
//!
//! Run to run: the same bits on the same machine with the same release of cuDNN, but other bits
//! than [`conv`](crate::conv). Algorithms are tried in the order of cuDNN's heuristics, which
//! measure nothing. An algorithm is chosen if cuDNN calls it deterministic, if it fits the fixed
//! workspace, and if it passes a test: the first call for a shape runs it twice and compares the
//! bits. If they differ, a warning is written and the next algorithm is tried. Each [`Device`],
//! which is one stream, has its own handle and workspace. TF32 is off (`CUDNN_FMA_MATH`).
//!
//! # References
//!
//! cuDNN documentation, "Reproducibility (determinism)", `cudnnConvolutionFwdAlgoPerf_t`.

pub use crate::launch::cudnn::LIBRARY;
use std::collections::BTreeMap;

use crate::launch::Buffer;
use cudarc::cudnn::result::CudnnError;
use samebits_tensor_core::geometry::{self, ConvPass};

use crate::device::{Device, Float, expect_len};
use crate::error::{CudaError, Result};
use crate::launch::cudnn as raw;
use raw::{Algorithm, Candidate, Handle, Sizes};

/// The size of the workspace of each stream in bytes. It is fixed, because algorithms that do not
/// fit are not chosen.
const WORKSPACE: usize = 256 << 20;

/// Checks that cuDNN can be used.
///
/// # Errors
///
/// [`CudaError::LibraryMissing`].
pub fn find() -> Result<()> {
    if raw::is_present() { Ok(()) } else { Err(CudaError::LibraryMissing { library: LIBRARY }) }
}

/// A convolution without a bias, as cuDNN takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    op: &'static str,
    sizes: Sizes,
    lengths: [usize; 3],
}

impl Convolution {
    /// Returns a checked convolution for cuDNN.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] if a tensor has 2^31 elements or more.
    pub fn new(conv: &geometry::Convolution) -> Result<Convolution> {
        let (op, s) = (conv.op(), conv.sizes());
        let shapes = [conv.input_shape(), conv.weight_shape(), conv.output_shape()];
        let lengths = [s.input_len(), s.weight_len(), s.output_len()];
        // cuDNN counts elements in 32 bits.
        if let Some(at) = lengths.iter().position(|&length| i32::try_from(length).is_err()) {
            let message = format!("cuDNN takes no tensor of shape {:?}", shapes[at]);
            return Err(CudaError::invalid(op, message));
        }
        let [input, weight, output] = shapes.map(|shape| with_height(&shape, 2, 1));
        // One dimension has become two, so there are two or three.
        let list = |sizes: [usize; 3]| {
            sizes[5 - input.len()..].iter().map(|&x| narrow(x)).collect::<Vec<i32>>()
        };
        let [padding, stride, dilation] = [s.padding, s.stride, s.dilation].map(list);
        let groups = narrow(s.groups);
        let sizes = Sizes { input, weight, output, padding, stride, dilation, groups };
        Ok(Convolution { op, sizes, lengths })
    }

    /// Computes the convolution (without flipping the kernel).
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`]; the errors of [`find`]; [`CudaError::Library`] if no algorithm
    /// repeats its bits.
    pub fn forward<T: Float>(
        &self,
        device: &Device,
        input: &Buffer<T>,
        weight: &Buffer<T>,
    ) -> Result<Buffer<T>> {
        let op = self.op;
        expect_len(op, "the input", input, self.lengths[0])?;
        expect_len(op, "the weight", weight, self.lengths[1])?;
        self.run(op, device, ConvPass::Forward, [input, weight], self.lengths[2])
    }

    /// Computes the gradient with respect to the input.
    ///
    /// # Errors
    ///
    /// As [`forward`](Convolution::forward).
    pub fn input_grad<T: Float>(
        &self,
        device: &Device,
        grad: &Buffer<T>,
        weight: &Buffer<T>,
    ) -> Result<Buffer<T>> {
        let op = self.op;
        expect_len(op, "the gradient", grad, self.lengths[2])?;
        expect_len(op, "the weight", weight, self.lengths[1])?;
        self.run(op, device, ConvPass::InputGrad, [grad, weight], self.lengths[0])
    }

    /// Computes the gradient with respect to the weights.
    ///
    /// # Errors
    ///
    /// As [`forward`](Convolution::forward).
    pub fn weight_grad<T: Float>(
        &self,
        device: &Device,
        grad: &Buffer<T>,
        input: &Buffer<T>,
    ) -> Result<Buffer<T>> {
        let op = self.op;
        expect_len(op, "the gradient", grad, self.lengths[2])?;
        expect_len(op, "the input", input, self.lengths[0])?;
        self.run(op, device, ConvPass::WeightGrad, [grad, input], self.lengths[1])
    }

    fn run<T: Float>(
        &self,
        op: &'static str,
        device: &Device,
        pass: ConvPass,
        from: [&Buffer<T>; 2],
        len: usize,
    ) -> Result<Buffer<T>> {
        find()?;
        // cuDNN has no empty tensors.
        if self.lengths.contains(&0) {
            return device.zeros_for(op, len);
        }
        let failed = |error: CudnnError| raw::library(op, format!("{error:?}"));
        device.with_held("cudnn", Dnn::new, |dnn| {
            let Dnn { handle, workspace, chosen } = dnn;
            let raw = raw::Convolution::new::<T>(&self.sizes).map_err(failed)?;
            let mut launch = |algorithm| -> Result<Buffer<T>> {
                let mut out = device.uninitialised(op, len)?;
                raw.run(op, handle, algorithm, from, &mut out, workspace)?;
                Ok(out)
            };
            let key = (pass, T::WIDE, self.sizes.clone());
            if let Some(&algorithm) = chosen.get(&key) {
                return launch(algorithm);
            }
            let candidates = raw.algorithms(handle, pass).map_err(failed)?;
            for algorithm in promising(&candidates) {
                let (Ok(first), Ok(second)) = (launch(algorithm), launch(algorithm)) else {
                    continue;
                };
                if same_bits(&device.download(&first)?, &device.download(&second)?) {
                    chosen.insert(key, algorithm);
                    return Ok(first);
                }
                tracing::warn!(op, ?algorithm, "cuDNN calls it deterministic, and its bits differ");
            }
            let message = "no algorithm promises and shows that it repeats its bits";
            Err(raw::library(op, message.to_owned()))
        })
    }
}

/// The handle of a stream, its workspace, and the algorithm chosen for each shape.
#[derive(Debug)]
pub(crate) struct Dnn {
    handle: Handle,
    workspace: Buffer<u8>,
    chosen: BTreeMap<(ConvPass, bool, Sizes), Algorithm>,
}

impl Dnn {
    pub(crate) fn new(device: &Device) -> Result<Dnn> {
        let op = "cudnn";
        let handle = Handle::new(device.stream_handle())
            .map_err(|error| raw::library(op, format!("{error:?}")))?;
        let workspace = device.zeros_for::<u8>(op, WORKSPACE)?;
        Ok(Dnn { handle, workspace, chosen: BTreeMap::new() })
    }
}

/// Returns the algorithms that promise to repeat their bits and fit the workspace, in the given
/// order.
fn promising(candidates: &[Candidate]) -> impl Iterator<Item = Algorithm> + '_ {
    let fine = |one: &&Candidate| one.deterministic && one.bytes <= WORKSPACE;
    candidates.iter().filter(fine).map(|one| one.algorithm)
}

fn same_bits<T: Float>(left: &[T], right: &[T]) -> bool {
    bytemuck::cast_slice::<T, u8>(left) == bytemuck::cast_slice::<T, u8>(right)
}

/// Turns a single spatial dimension into two, the first of size `one`; the first `kept` entries
/// stay before them.
fn with_height(list: &[usize], kept: usize, one: i32) -> Vec<i32> {
    let mut found: Vec<i32> = list.iter().map(|&x| narrow(x)).collect();
    if list.len() == kept + 1 {
        found.insert(kept, one);
    }
    found
}

/// Converts to 32 bits. Sizes of tensors fit, as was checked; cuDNN rejects a stride or padding
/// that is too large.
fn narrow(x: usize) -> i32 {
    i32::try_from(x).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use cudarc::cudnn::sys::cudnnConvolutionBwdFilterAlgo_t as Algo;

    use super::*;
    use geometry::ConvParams;

    #[test]
    fn only_what_promises_and_fits_is_tried() {
        let one = |algorithm, deterministic, bytes| Candidate {
            algorithm: Algorithm::Weight(algorithm),
            deterministic,
            bytes,
        };
        let all = [
            one(Algo::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, false, 0),
            one(Algo::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, true, WORKSPACE + 1),
            one(Algo::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, true, WORKSPACE),
            one(Algo::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, false, 10),
        ];
        let left: Vec<Algorithm> = promising(&all).collect();
        assert_eq!(left, [Algorithm::Weight(Algo::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1)]);
    }

    #[test]
    fn bits_are_compared_and_not_values() {
        assert!(same_bits(&[1.0f32, f32::NAN], &[1.0, f32::NAN]));
        assert!(!same_bits(&[0.0f64], &[-0.0]));
        assert!(!same_bits(&[1.0f32], &[1.0f32.next_up()]));
    }

    #[test]
    fn a_line_is_an_image_of_height_one() {
        let params = ConvParams { stride: vec![2], padding: vec![1], dilation: vec![3], groups: 2 };
        let conv = geometry::Convolution::new("conv", &[5, 4, 20], &[6, 2, 3], &params).unwrap();
        let conv = Convolution::new(&conv).unwrap();
        let Sizes { input, weight, output, padding, stride, dilation, groups } = conv.sizes;
        assert_eq!((input, weight), (vec![5, 4, 1, 20], vec![6, 2, 1, 3]));
        assert_eq!(output, [5, 6, 1, 8]);
        assert_eq!((padding, stride, dilation, groups), (vec![0, 1], vec![1, 2], vec![1, 3], 2));
        assert_eq!(conv.lengths, [400, 36, 240]);
    }
}
