//! Several algorithms for one convolution, to be raced against each other.
//!
//! [`Plan`] checks a convolution once and runs any [`Algorithm`] that applies to it. The canonical
//! ones give the bits of [`Convolution`], whatever the data; the others stay within
//! [`Algorithm::tolerance`] and repeat their bits on one machine and build.

mod columns;
mod depthwise;
mod direct;
mod fft;
mod shape;
mod winograd;
mod zeros;

use samebits_tensor_core::Determinism;

use samebits_numerics::fpenv;
use samebits_numerics::memory::OutOfMemory;

use crate::conv::{Convolution, Error, Geometry, Params, short_of, volume};
use crate::parallel;
use shape::Gather;
use zeros::Extent;

/// One of the three computations of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The output.
    Forward,
    /// The gradient of the input.
    InputGradient,
    /// The gradient of the weights.
    WeightGradient,
}

/// A way to compute a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Algorithm {
    /// Register tiles over a padded copy of the input, as [`Convolution`] does it. Canonical,
    /// every pass, every shape.
    ImplicitGemm,
    /// Rows of the output formed from rows of a padded copy, four output channels at a time.
    /// Canonical; forward, and the input gradient at stride 1.
    Direct,
    /// As `Direct`, one channel at a time, for groups of one input channel. Its weight gradient
    /// has the channels in the lanes. Canonical.
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

/// A checked convolution of f32 with its algorithms.
///
/// # Shapes
///
/// As [`Convolution`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::conv::Params;
/// use samebits_cpu_kernels::conv_algorithms::{Algorithm, Pass, Plan};
///
/// let params = Params { padding: vec![1, 1], ..Params::new(2) };
/// let plan = Plan::new(&[1, 1, 4, 4], &[1, 1, 3, 3], &params)?;
/// let (input, weight) = (vec![1.0; 16], vec![1.0; 9]);
/// let mut outputs = Vec::new();
/// for algorithm in Algorithm::ALL {
///     if plan.applies(algorithm, Pass::Forward) {
///         let mut output = vec![0.0; 16];
///         plan.forward(algorithm, &input, &weight, None, &mut output)?;
///         outputs.push(output[5].round());
///     }
/// }
/// assert_eq!(outputs, [9.0; 7]);
/// # Ok::<(), samebits_cpu_kernels::conv::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    convolution: Convolution,
}

impl Algorithm {
    /// Every algorithm. The order is that of the ids of candidates, which break ties.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::ImplicitGemm,
        Algorithm::Direct,
        Algorithm::Depthwise,
        Algorithm::Im2col,
        Algorithm::Winograd2,
        Algorithm::Winograd4,
        Algorithm::Fft,
    ];

    /// The name in choice files. It will not come to mean anything else.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::ImplicitGemm => "implicit-gemm",
            Algorithm::Direct => "direct",
            Algorithm::Depthwise => "depthwise",
            Algorithm::Im2col => "im2col",
            Algorithm::Winograd2 => "winograd-2x2",
            Algorithm::Winograd4 => "winograd-4x4",
            Algorithm::Fft => "fft",
        }
    }

    /// Whether the pass has the bits of the contract.
    #[must_use]
    pub fn is_canonical(self, pass: Pass) -> bool {
        match self {
            Algorithm::ImplicitGemm | Algorithm::Direct | Algorithm::Depthwise => true,
            Algorithm::Im2col => pass != Pass::WeightGradient,
            Algorithm::Winograd2 | Algorithm::Winograd4 | Algorithm::Fft => false,
        }
    }

    /// The level that the pass promises of its own bits: the FFT library chooses its code by the
    /// processor, everything else is the same everywhere.
    #[must_use]
    pub fn level(self, _pass: Pass) -> Determinism {
        match self {
            Algorithm::Fft => Determinism::RunToRun,
            _ => Determinism::Portable,
        }
    }

    /// How far an element may be from the contract's, as a multiple of terms · max |a| · max |b|,
    /// where terms are those of the element's sum and a and b the two factors. 0 for a canonical
    /// pass. Inputs are finite; where sums overflow nothing is said.
    #[must_use]
    pub fn tolerance(self, pass: Pass) -> f64 {
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

impl Plan {
    /// Checks the shapes of input and weights against each other and the parameters.
    ///
    /// # Errors
    ///
    /// As [`Convolution::new`].
    pub fn new(input: &[usize], weight: &[usize], params: &Params) -> Result<Plan, Error> {
        Ok(Plan { convolution: Convolution::new(input, weight, params)? })
    }

    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> Vec<usize> {
        self.convolution.output_shape()
    }

    /// Whether `algorithm` can compute `pass` of this convolution.
    #[must_use]
    pub fn applies(&self, algorithm: Algorithm, pass: Pass) -> bool {
        let s = self.shape();
        let unit_stride = s.stride == [1; 3];
        match algorithm {
            Algorithm::ImplicitGemm | Algorithm::Im2col => true,
            Algorithm::Direct => match pass {
                Pass::Forward => true,
                Pass::InputGradient => unit_stride,
                Pass::WeightGradient => false,
            },
            Algorithm::Depthwise => {
                let single = s.inputs == 1 && s.outputs == 1;
                single && (unit_stride || pass != Pass::InputGradient)
            }
            Algorithm::Winograd2 | Algorithm::Winograd4 => {
                let three = s.kernel == [1, 3, 3] && s.dilation == [1; 3] && s.input[0] == 1;
                let gather = pass != Pass::WeightGradient;
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

    /// Bytes that `algorithm` needs beside input, weights and output, but for buffers of a
    /// thread that depend on the size of a register tile alone.
    #[must_use]
    pub fn workspace(&self, algorithm: Algorithm, pass: Pass) -> usize {
        let s = self.shape();
        let elements = match algorithm {
            Algorithm::ImplicitGemm => weight_len(s),
            Algorithm::Direct => direct::workspace(&self.gather(pass)),
            Algorithm::Depthwise => 0,
            Algorithm::Im2col => columns::workspace(s, pass, &self.gather(pass)),
            Algorithm::Winograd2 => winograd::workspace::<2, 4>(&self.gather(pass)),
            Algorithm::Winograd4 => winograd::workspace::<4, 6>(&self.gather(pass)),
            Algorithm::Fft => fft::workspace(s),
        };
        elements.saturating_mul(size_of::<f32>())
    }

    /// The written heuristic: an estimate of the time in units of one fused multiply-add of a
    /// good matrix product, from the shape alone.
    #[must_use]
    pub fn estimate(&self, algorithm: Algorithm, pass: Pass) -> f64 {
        let s = self.shape();
        let work = work(s);
        let traffic = (input_len(s) + output_len(s) + weight_len(s)) as f64;
        // Lanes or rows of a register tile are channels of a group: with few, most are idle. Those of
        // a single channel are positions, but not of its weights.
        let single = s.inputs == 1 && s.outputs == 1 && pass != Pass::WeightGradient;
        let idle = s.groups > 1 && !single;
        let few = |channels: usize| if channels < 4 && idle { 4.0 } else { 1.0 };
        let channels = match pass {
            Pass::Forward | Pass::WeightGradient => s.outputs,
            Pass::InputGradient => s.inputs,
        };
        let products = (s.batch * s.groups) as f64;
        match algorithm {
            Algorithm::ImplicitGemm => work * few(channels) + 4.0 * traffic,
            Algorithm::Direct => {
                let width = self.gather(pass).target[2];
                let waste = width.next_multiple_of(direct::LANES) as f64 / width as f64;
                let strided = if s.stride[2] > 1 { 1.5 } else { 1.0 };
                let single = if channels >= 4 { 12.0 } else { 3.0 };
                work * waste * strided * single + 8.0 * traffic
            }
            Algorithm::Depthwise => {
                let weights = pass == Pass::WeightGradient;
                let straight = !weights && depthwise::straight(&self.gather(pass)).is_some();
                work * if straight { 1.0 } else { 3.0 } + 2.0 * traffic
            }
            Algorithm::Im2col => {
                let copied = columns::workspace(s, pass, &self.gather(pass)) as f64;
                work * few(channels) + 5.0 * traffic + (16.0 * copied + 2e5) * products
            }
            Algorithm::Winograd2 | Algorithm::Winograd4 => {
                let pairs = (s.groups * s.inputs * s.outputs) as f64;
                let (gain, around, weights) = match algorithm {
                    Algorithm::Winograd2 => (1.1, 60.0, 250.0),
                    _ => (1.6, 70.0, 600.0),
                };
                work / gain + around * traffic + weights * pairs
            }
            Algorithm::Fft => fft::estimate(s),
        }
    }

    /// The convolution, plus `bias` for each output channel.
    ///
    /// # Determinism
    ///
    /// Portable for a canonical algorithm, else [`Algorithm::level`].
    ///
    /// # Errors
    ///
    /// [`Error::Length`]; [`Error::NotApplicable`] if the algorithm does not
    /// [apply](Plan::applies); [`Error::OutOfMemory`] if there is no memory for its workspace.
    pub fn forward(
        &self,
        algorithm: Algorithm,
        input: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
        output: &mut [f32],
    ) -> Result<(), Error> {
        let pass = Pass::Forward;
        if algorithm == Algorithm::ImplicitGemm {
            return self.convolution.forward(input, weight, bias, output);
        }
        self.check(algorithm, pass)?;
        let s = self.shape();
        length("input", input, input_len(s))?;
        length("weights", weight, weight_len(s))?;
        length("output", output, output_len(s))?;
        if let Some(bias) = bias {
            length("bias", bias, s.groups * s.outputs)?;
        }
        let gathered = self.gathered(algorithm, pass, input, weight, output);
        if !gathered.map_err(short_of(name(pass)))? {
            return self.convolution.forward(input, weight, bias, output);
        }
        if let Some(bias) = bias {
            shape::add_bias(output, bias, volume(s.output));
        }
        Ok(())
    }

    /// The gradient of the input, given the gradient of the output.
    ///
    /// # Determinism
    ///
    /// As [`forward`](Plan::forward).
    ///
    /// # Errors
    ///
    /// [`Error::Length`]; [`Error::NotApplicable`] if the algorithm does not
    /// [apply](Plan::applies); [`Error::OutOfMemory`] if there is no memory for its workspace.
    pub fn input_gradient(
        &self,
        algorithm: Algorithm,
        output_gradient: &[f32],
        weight: &[f32],
        input_gradient: &mut [f32],
    ) -> Result<(), Error> {
        let pass = Pass::InputGradient;
        if algorithm == Algorithm::ImplicitGemm {
            return self.convolution.input_gradient(output_gradient, weight, input_gradient);
        }
        self.check(algorithm, pass)?;
        let s = self.shape();
        length("output gradient", output_gradient, output_len(s))?;
        length("weights", weight, weight_len(s))?;
        length("input gradient", input_gradient, input_len(s))?;
        let gathered = self.gathered(algorithm, pass, output_gradient, weight, input_gradient);
        if !gathered.map_err(short_of(name(pass)))? {
            return self.convolution.input_gradient(output_gradient, weight, input_gradient);
        }
        Ok(())
    }

    /// The gradient of the weights, given the gradient of the output.
    ///
    /// # Determinism
    ///
    /// As [`forward`](Plan::forward).
    ///
    /// # Errors
    ///
    /// [`Error::Length`]; [`Error::NotApplicable`] if the algorithm does not
    /// [apply](Plan::applies); [`Error::OutOfMemory`] if there is no memory for its workspace.
    pub fn weight_gradient(
        &self,
        algorithm: Algorithm,
        input: &[f32],
        output_gradient: &[f32],
        weight_gradient: &mut [f32],
    ) -> Result<(), Error> {
        if algorithm == Algorithm::ImplicitGemm {
            return self.convolution.weight_gradient(input, output_gradient, weight_gradient);
        }
        self.check(algorithm, Pass::WeightGradient)?;
        let s = self.shape();
        length("input", input, input_len(s))?;
        length("output gradient", output_gradient, output_len(s))?;
        length("weight gradient", weight_gradient, weight_len(s))?;
        let compute = match algorithm {
            Algorithm::Depthwise => depthwise::weight_gradient,
            Algorithm::Im2col => columns::weight_gradient,
            Algorithm::Fft => fft::weight_gradient,
            _ => unreachable!("checked to apply"),
        };
        fpenv::ieee(|| compute(s, input, output_gradient, weight_gradient))
            .map_err(short_of(name(Pass::WeightGradient)))
    }

    /// Runs a pass that forms each target from the source under the kernel. False if this very
    /// data needs the letter of the contract, which the algorithm cannot follow.
    fn gathered(
        &self,
        algorithm: Algorithm,
        pass: Pass,
        source: &[f32],
        weight: &[f32],
        target: &mut [f32],
    ) -> Result<bool, OutOfMemory> {
        let gather = self.gather(pass);
        let harmless = || {
            let extent = |values| {
                parallel::chunks(values, 1 << 16).reduce(Extent::NONE, Extent::of, Extent::with)
            };
            zeros::zeros_are_harmless(extent(weight), extent(source))
        };
        let run = match algorithm {
            Algorithm::Direct => direct::run,
            Algorithm::Depthwise => depthwise::run,
            Algorithm::Im2col if gather.skips() && !harmless() => return Ok(false),
            Algorithm::Im2col => columns::run,
            Algorithm::Winograd2 => winograd::run::<2, 4>,
            Algorithm::Winograd4 => winograd::run::<4, 6>,
            Algorithm::Fft => {
                fpenv::ieee(|| fft::gather(self.shape(), pass, source, weight, target))?;
                return Ok(true);
            }
            Algorithm::ImplicitGemm => unreachable!("computed by `Convolution`"),
        };
        fpenv::ieee(|| run(&gather, source, weight, target))?;
        Ok(true)
    }

    fn shape(&self) -> &Geometry {
        self.convolution.geometry()
    }

    fn gather(&self, pass: Pass) -> Gather {
        match pass {
            Pass::Forward | Pass::WeightGradient => Gather::forward(self.shape()),
            Pass::InputGradient => Gather::input_gradient(self.shape()),
        }
    }

    fn check(&self, algorithm: Algorithm, pass: Pass) -> Result<(), Error> {
        if self.applies(algorithm, pass) {
            return Ok(());
        }
        Err(Error::NotApplicable { op: name(pass), algorithm: algorithm.name() })
    }
}

fn name(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "convolution",
        Pass::InputGradient => "convolution input gradient",
        Pass::WeightGradient => "convolution weight gradient",
    }
}

fn input_len(s: &Geometry) -> usize {
    s.batch * s.groups * s.inputs * volume(s.input)
}

fn output_len(s: &Geometry) -> usize {
    s.batch * s.groups * s.outputs * volume(s.output)
}

fn weight_len(s: &Geometry) -> usize {
    s.groups * s.outputs * s.inputs * volume(s.kernel)
}

/// Multiply-adds of a pass.
fn work(s: &Geometry) -> f64 {
    output_len(s) as f64 * (s.inputs * volume(s.kernel)) as f64
}

fn length(what: &'static str, slice: &[f32], want: usize) -> Result<(), Error> {
    if slice.len() == want {
        return Ok(());
    }
    Err(Error::Length { op: "convolution", what, want, got: slice.len() })
}
