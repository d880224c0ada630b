//! Parameters of a convolution, and what is refused.

use super::geometry::{DIMS, Dims, Geometry, volume};
use thiserror::Error;

/// Why a convolution was refused.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape has the wrong number of dimensions.
    #[error(
        "{op}: the {what} has shape {shape:?}; it needs batch or output channels, channels and \
         one to three spatial dimensions, as many as the other"
    )]
    Rank {
        /// The operation.
        op: &'static str,
        /// Which operand.
        what: &'static str,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A parameter does not have one value for each spatial dimension.
    #[error("{op}: {what} has {got} values for {want} spatial dimensions; give one for each")]
    ParameterCount {
        /// The operation.
        op: &'static str,
        /// Which parameter.
        what: &'static str,
        /// Values it has.
        got: usize,
        /// Spatial dimensions.
        want: usize,
    },
    /// A parameter that must be positive is zero.
    #[error("{op}: {what} must be at least 1, got {got:?}")]
    Zero {
        /// The operation.
        op: &'static str,
        /// Which parameter.
        what: &'static str,
        /// Its values.
        got: Vec<usize>,
    },
    /// Channels of input and weights do not fit together.
    #[error(
        "{op}: input of shape {input:?} has {got} channels, weights of shape {weight:?} in {groups} \
         groups take {want}"
    )]
    Channels {
        /// The operation.
        op: &'static str,
        /// Shape of the input.
        input: Vec<usize>,
        /// Shape of the weights.
        weight: Vec<usize>,
        /// Number of groups.
        groups: usize,
        /// Channels that the weights take.
        want: usize,
        /// Channels that the input has.
        got: usize,
    },
    /// The output channels cannot be shared out among the groups.
    #[error("{op}: {channels} output channels do not divide into {groups} groups")]
    Groups {
        /// The operation.
        op: &'static str,
        /// Output channels.
        channels: usize,
        /// Number of groups.
        groups: usize,
    },
    /// The kernel does not fit into the padded input.
    #[error(
        "{op}: the kernel reaches over {kernel:?} elements and the padded input has {input:?}; \
         pad more or use a smaller kernel"
    )]
    KernelTooLarge {
        /// The operation.
        op: &'static str,
        /// Size of the padded input.
        input: Vec<usize>,
        /// Size of the dilated kernel.
        kernel: Vec<usize>,
    },
    /// A slice does not have as many elements as its shape.
    #[error("{op}: the {what} has {got} elements, its shape has {want}; pass a slice of {want}")]
    Length {
        /// The operation.
        op: &'static str,
        /// Which operand.
        what: &'static str,
        /// Elements of the shape.
        want: usize,
        /// Elements of the slice.
        got: usize,
    },
    /// The algorithm cannot compute this pass of this convolution.
    #[error("{op}: {algorithm} does not apply to these shapes; ask `Plan::applies` first")]
    NotApplicable {
        /// The operation.
        op: &'static str,
        /// The algorithm.
        algorithm: &'static str,
    },
    /// There is no memory for a buffer that the pass needs besides its arguments.
    #[error("{op}: no memory left for {bytes} bytes; use smaller sizes")]
    OutOfMemory {
        /// The operation.
        op: &'static str,
        /// The size of the buffer.
        bytes: usize,
    },
    /// A tensor or a padded dimension has more elements than can be counted.
    #[error(
        "{op}: a tensor or a padded dimension of this convolution has too many elements; use smaller sizes or \
         less padding"
    )]
    TooLarge {
        /// The operation.
        op: &'static str,
    },
}

samebits_numerics::debug_is_message!(Error);

/// Parameters of a convolution, with one value for each spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Distance of the positions at which the kernel is applied.
    pub stride: Vec<usize>,
    /// Positions added on both sides of the input, which count as absent.
    pub padding: Vec<usize>,
    /// Distance of the elements of the kernel.
    pub dilation: Vec<usize>,
    /// Groups of channels that do not mix.
    pub groups: usize,
}

impl Params {
    /// Stride 1, no padding, dilation 1, one group.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_cpu_kernels::conv::Params;
    ///
    /// let same_size = Params { padding: vec![1, 1], ..Params::new(2) };
    /// assert_eq!(same_size.stride, [1, 1]);
    /// ```
    #[must_use]
    pub fn new(dimensions: usize) -> Params {
        Params {
            stride: vec![1; dimensions],
            padding: vec![0; dimensions],
            dilation: vec![1; dimensions],
            groups: 1,
        }
    }
}

impl Geometry {
    /// Checks slices against the sizes of input, weights and output.
    pub(super) fn check<T>(
        &self,
        op: &'static str,
        input: (&'static str, &[T]),
        weight: (&'static str, &[T]),
        output: (&'static str, &[T]),
    ) -> Result<(), Error> {
        let (inputs, weights, outputs) = self.lengths().ok_or(Error::TooLarge { op })?;
        for ((what, slice), want) in [(input, inputs), (weight, weights), (output, outputs)] {
            if slice.len() != want {
                return Err(Error::Length { op, what, want, got: slice.len() });
            }
        }
        Ok(())
    }
}

/// Checks ranks and parameters; gives the number of spatial dimensions.
pub(super) fn check_params(
    op: &'static str,
    input: &[usize],
    weight: &[usize],
    params: &Params,
) -> Result<usize, Error> {
    for (what, shape) in [("input", input), ("weights", weight)] {
        if !(3..=2 + DIMS).contains(&shape.len()) || shape.len() != input.len() {
            return Err(Error::Rank { op, what, shape: shape.to_vec() });
        }
    }
    let want = input.len() - 2;
    let values =
        [("stride", &params.stride), ("padding", &params.padding), ("dilation", &params.dilation)];
    for (what, values) in values {
        if values.len() != want {
            return Err(Error::ParameterCount { op, what, got: values.len(), want });
        }
    }
    for (what, values) in [
        ("stride", &params.stride[..]),
        ("dilation", &params.dilation[..]),
        ("groups", &[params.groups]),
        ("each size of the weights", weight),
        ("each channel and spatial size of the input", &input[1..]),
    ] {
        if values.contains(&0) {
            return Err(Error::Zero { op, what, got: values.to_vec() });
        }
    }
    Ok(want)
}

pub(super) fn check_channels(
    op: &'static str,
    input: &[usize],
    weight: &[usize],
    groups: usize,
    want: usize,
) -> Result<(), Error> {
    let got = input[1];
    if got == want {
        return Ok(());
    }
    let (input, weight) = (input.to_vec(), weight.to_vec());
    Err(Error::Channels { op, input, weight, groups, want, got })
}

pub(super) fn check_bias<T>(
    op: &'static str,
    bias: Option<&[T]>,
    want: usize,
) -> Result<(), Error> {
    match bias {
        Some(bias) if bias.len() != want => {
            Err(Error::Length { op, what: "bias", want, got: bias.len() })
        }
        _ => Ok(()),
    }
}

/// Elements from the first to the last of a dilated kernel.
pub(super) fn reach(kernel: usize, dilation: usize) -> Option<usize> {
    (kernel - 1).checked_mul(dilation)?.checked_add(1)
}

/// Fills up to three dimensions in front.
pub(super) fn spatial(values: &[usize], fill: usize) -> Dims {
    let mut dims = [fill; DIMS];
    dims[DIMS - values.len()..].copy_from_slice(values);
    dims
}

pub(super) fn shape(batch: usize, channels: usize, size: Dims, dimensions: usize) -> Vec<usize> {
    debug_assert!(volume(size) > 0);
    [batch, channels].into_iter().chain(size[DIMS - dimensions..].iter().copied()).collect()
}
