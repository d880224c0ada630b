//! Several algorithms for one convolution, to be raced against each other.
//!
//! Any [`Algorithm`] runs any checked [`Convolution`] that it applies to. The canonical ones give the
//! bits of [`conv`], whatever the data; the others stay within
//! [`Algorithm::tolerance`] and repeat their bits on one machine and build.

mod columns;
mod depthwise;
mod fft;
mod shape;
mod winograd;
mod zeros;

use samebits_tensor_core::Determinism;
use samebits_tensor_core::geometry::ConvSizes;

use samebits_numerics::fpenv;

use crate::conv::{
    self, Convolution, expect_forward, expect_input_grad, expect_weight_grad, volume,
};
use crate::memory::named;
use crate::{Error, Result, parallel};
pub use samebits_tensor_core::geometry::ConvPass;
use shape::Gather;
use zeros::Extent;

/// A way to compute a convolution of f32.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::conv::{ConvParams, Convolution};
/// use samebits_cpu_kernels::conv_algorithms::{Algorithm, ConvPass};
///
/// let params = ConvParams::padded(2, 1);
/// let conv = Convolution::new("conv", &[1, 1, 4, 4], &[1, 1, 3, 3], &params)?;
/// let (input, weight) = (vec![1.0; 16], vec![1.0; 9]);
/// let mut results = Vec::new();
/// for algorithm in Algorithm::ALL {
///     if algorithm.applies(&conv, ConvPass::Forward) {
///         let mut out = vec![0.0; 16];
///         algorithm.forward(&conv, &input, &weight, None, &mut out)?;
///         results.push(out[5].round());
///     }
/// }
/// assert_eq!(results, [9.0; 5]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Algorithm {
    /// Register tiles over a padded copy of the input, as [`conv`] does it. Canonical,
    /// every pass, every shape.
    ImplicitGemm,
    /// One channel at a time, for groups of one input and one output channel: neighbours of a row or channels
    /// are the lanes. Canonical.
    Depthwise,
    /// The matrix of all windows, multiplied with the weights. Canonical in the forward pass and
    /// the input gradient; the weight gradient adds blocks of another length and is not.
    Im2col,
    /// Winograd's F(2×2, 3×3): 16 products for 36. Bounded.
    Winograd2,
    /// Winograd's F(4×4, 3×3): 36 products for 144. Bounded.
    Winograd4,
    /// Products of spectra. Bounded; stride 1, one or two dimensions.
    Fft,
}

impl Algorithm {
    /// Every algorithm. The order is that of the ids of candidates, which break ties.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::ImplicitGemm,
        Algorithm::Depthwise,
        Algorithm::Im2col,
        Algorithm::Winograd2,
        Algorithm::Winograd4,
        Algorithm::Fft,
    ];

    /// Returns the name in choice files, whose meaning never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::ImplicitGemm => "implicit-gemm",
            Algorithm::Depthwise => "depthwise",
            Algorithm::Im2col => "im2col",
            Algorithm::Winograd2 => "winograd-2x2",
            Algorithm::Winograd4 => "winograd-4x4",
            Algorithm::Fft => "fft",
        }
    }

    /// Returns true if the pass has the bits of the contract.
    #[must_use]
    pub fn is_canonical(self, pass: ConvPass) -> bool {
        match self {
            Algorithm::ImplicitGemm | Algorithm::Depthwise => true,
            Algorithm::Im2col => pass != ConvPass::WeightGrad,
            Algorithm::Winograd2 | Algorithm::Winograd4 | Algorithm::Fft => false,
        }
    }

    /// Returns the level that the pass promises of its own bits: the FFT library chooses its code
    /// by the processor, everything else is the same everywhere.
    #[must_use]
    pub fn level(self, _pass: ConvPass) -> Determinism {
        match self {
            Algorithm::Fft => Determinism::RunToRun,
            _ => Determinism::Portable,
        }
    }

    /// Returns the largest distance of an element from the contract's, as a multiple of terms · max
    /// |a| · max |b|: the terms are those of the element's sum, a and b the two factors. 0 for a
    /// canonical pass. Holds for finite inputs whose sums do not overflow.
    #[must_use]
    pub fn tolerance(self, pass: ConvPass) -> f64 {
        if self.is_canonical(pass) {
            return 0.0;
        }
        match self {
            Algorithm::Winograd4 => 4e-6,
            Algorithm::Fft => 1e-5,
            _ => 1e-6,
        }
    }
}

impl Algorithm {
    /// Returns whether the algorithm can compute `pass` of the convolution.
    #[must_use]
    pub fn applies(self, conv: &Convolution, pass: ConvPass) -> bool {
        let s = conv.sizes();
        let unit_stride = s.stride == [1; 3];
        match self {
            Algorithm::ImplicitGemm | Algorithm::Im2col => true,
            Algorithm::Depthwise => {
                let single = s.inputs == 1 && s.outputs == 1;
                single
                    && match pass {
                        ConvPass::WeightGrad => true,
                        ConvPass::InputGrad if !unit_stride => {
                            depthwise::by_lanes(&gather(s, pass))
                        }
                        _ => depthwise::applies(&gather(s, pass)),
                    }
            }
            Algorithm::Winograd2 | Algorithm::Winograd4 => {
                let three = s.kernel == [1, 3, 3] && s.dilation == [1; 3] && s.input[0] == 1;
                let gather = pass != ConvPass::WeightGrad;
                three
                    && gather
                    && unit_stride
                    && s.padding.iter().all(|&p| p <= 2)
                    && s.padding[0] == 0
            }
            Algorithm::Fft => {
                unit_stride && s.input[0] == 1 && s.kernel[0] == 1 && s.padding[0] == 0
            }
        }
    }

    /// Returns the bytes that the algorithm needs beside input, weight and output, but for buffers of a
    /// thread that depend on the size of a register tile alone.
    #[must_use]
    pub fn workspace(self, conv: &Convolution, pass: ConvPass) -> usize {
        let s = conv.sizes();
        let elements = match self {
            Algorithm::ImplicitGemm => s.weight_len(),
            Algorithm::Depthwise => 0,
            Algorithm::Im2col => columns::workspace(s, pass, &gather(s, pass)),
            Algorithm::Winograd2 => winograd::workspace::<2, 4>(&gather(s, pass)),
            Algorithm::Winograd4 => winograd::workspace::<4, 6>(&gather(s, pass)),
            Algorithm::Fft => fft::workspace(s),
        };
        elements.saturating_mul(size_of::<f32>())
    }

    /// Returns the written heuristic: an estimate of the time in units of one fused multiply-add of
    /// a good matrix product, from the shape alone.
    #[must_use]
    pub fn estimate(self, conv: &Convolution, pass: ConvPass) -> f64 {
        let s = conv.sizes();
        let work = s.output_len() as f64 * (s.inputs * volume(s.kernel)) as f64;
        let traffic = (s.input_len() + s.output_len() + s.weight_len()) as f64;
        // Lanes or rows of a register tile are channels of a group: with few, most are idle. Those of
        // a single channel are positions, but not of its weights.
        let single = s.inputs == 1 && s.outputs == 1 && pass != ConvPass::WeightGrad;
        let idle = s.groups > 1 && !single;
        let few = |channels: usize| if channels < 4 && idle { 4.0 } else { 1.0 };
        let channels = match pass {
            ConvPass::Forward | ConvPass::WeightGrad => s.outputs,
            ConvPass::InputGrad => s.inputs,
        };
        let products = (s.batch * s.groups) as f64;
        match self {
            Algorithm::ImplicitGemm => work * few(channels) + 4.0 * traffic,
            Algorithm::Depthwise => {
                work * if pass == ConvPass::WeightGrad { 3.0 } else { 1.0 } + 2.0 * traffic
            }
            Algorithm::Im2col => {
                let copied = columns::workspace(s, pass, &gather(s, pass)) as f64;
                work * few(channels) + 5.0 * traffic + (16.0 * copied + 2e5) * products
            }
            Algorithm::Winograd2 | Algorithm::Winograd4 => {
                let pairs = (s.groups * s.inputs * s.outputs) as f64;
                let (gain, around, weights) = match self {
                    Algorithm::Winograd2 => (1.1, 60.0, 250.0),
                    _ => (1.6, 70.0, 600.0),
                };
                work / gain + around * traffic + weights * pairs
            }
            Algorithm::Fft => fft::estimate(s),
        }
    }

    /// Computes the convolution, plus `bias` for each output channel.
    ///
    /// # Determinism
    ///
    /// Portable for a canonical algorithm, else [`Algorithm::level`].
    ///
    /// # Errors
    ///
    /// [`Error::Length`]; [`Error::Argument`] if the algorithm does not
    /// [apply](Algorithm::applies); [`Error::OutOfMemory`] if there is no memory for its workspace.
    pub fn forward(
        self,
        conv: &Convolution,
        input: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
        out: &mut [f32],
    ) -> Result<()> {
        let pass = ConvPass::Forward;
        if self == Algorithm::ImplicitGemm {
            return conv::forward(conv, input, weight, bias, out);
        }
        self.check(conv, pass)?;
        expect_forward(conv, input, weight, bias, out)?;
        if !self.gathered(conv, pass, input, weight, out)? {
            return conv::forward(conv, input, weight, bias, out);
        }
        if let Some(bias) = bias {
            shape::add_bias(out, bias, volume(conv.sizes().output));
        }
        Ok(())
    }

    /// Computes the gradient of the input from that of the output.
    ///
    /// # Determinism
    ///
    /// As [`forward`](Algorithm::forward).
    ///
    /// # Errors
    ///
    /// As [`forward`](Algorithm::forward).
    pub fn input_grad(
        self,
        conv: &Convolution,
        grad: &[f32],
        weight: &[f32],
        grad_input: &mut [f32],
    ) -> Result<()> {
        let pass = ConvPass::InputGrad;
        if self == Algorithm::ImplicitGemm {
            return conv::input_grad(conv, grad, weight, grad_input);
        }
        self.check(conv, pass)?;
        expect_input_grad(conv, grad, weight, grad_input)?;
        if !self.gathered(conv, pass, grad, weight, grad_input)? {
            return conv::input_grad(conv, grad, weight, grad_input);
        }
        Ok(())
    }

    /// Computes the gradient of the weight from that of the output.
    ///
    /// # Determinism
    ///
    /// As [`forward`](Algorithm::forward).
    ///
    /// # Errors
    ///
    /// As [`forward`](Algorithm::forward).
    pub fn weight_grad(
        self,
        conv: &Convolution,
        input: &[f32],
        grad: &[f32],
        grad_weight: &mut [f32],
    ) -> Result<()> {
        if self == Algorithm::ImplicitGemm {
            return conv::weight_grad(conv, input, grad, grad_weight);
        }
        self.check(conv, ConvPass::WeightGrad)?;
        expect_weight_grad(conv, input, grad, grad_weight)?;
        let compute = match self {
            Algorithm::Depthwise => depthwise::weight_grad,
            Algorithm::Im2col => columns::weight_grad,
            Algorithm::Fft => fft::weight_grad,
            _ => unreachable!("checked to apply"),
        };
        fpenv::ieee(|| compute(conv.sizes(), input, grad, grad_weight)).map_err(named(conv.op()))
    }

    /// Runs a pass that forms each target from the source under the kernel. Returns false if these
    /// data need the contract's own steps, which the algorithm does not take.
    fn gathered(
        self,
        conv: &Convolution,
        pass: ConvPass,
        source: &[f32],
        weight: &[f32],
        target: &mut [f32],
    ) -> Result<bool> {
        let gather = gather(conv.sizes(), pass);
        let harmless = || {
            let extent = |values| {
                parallel::chunks(values, 1 << 16).reduce(Extent::NONE, Extent::of, Extent::with)
            };
            zeros::zeros_are_harmless(extent(weight), extent(source))
        };
        let run = match self {
            Algorithm::Depthwise => depthwise::run,
            Algorithm::Im2col if gather.skips() && !harmless() => return Ok(false),
            Algorithm::Im2col => columns::run,
            Algorithm::Winograd2 => winograd::run::<2, 4>,
            Algorithm::Winograd4 => winograd::run::<4, 6>,
            Algorithm::Fft => {
                fpenv::ieee(|| fft::gather(conv.sizes(), pass, source, weight, target))
                    .map_err(named(conv.op()))?;
                return Ok(true);
            }
            Algorithm::ImplicitGemm => unreachable!("computed by `conv`"),
        };
        fpenv::ieee(|| run(&gather, source, weight, target)).map_err(named(conv.op()))?;
        Ok(true)
    }

    fn check(self, conv: &Convolution, pass: ConvPass) -> Result<()> {
        if self.applies(conv, pass) {
            return Ok(());
        }
        let (name, sizes) = (self.name(), conv.sizes());
        Err(Error::argument(conv.op(), format!("{name} does not apply to {pass} of {sizes:?}")))
    }
}

fn gather(s: &ConvSizes, pass: ConvPass) -> Gather {
    match pass {
        ConvPass::Forward | ConvPass::WeightGrad => Gather::forward(s),
        ConvPass::InputGrad => Gather::input_grad(s),
    }
}
