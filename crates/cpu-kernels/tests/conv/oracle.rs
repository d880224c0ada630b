//! The passes of a convolution as plain loops in the written order.

use samebits_cpu_kernels::conv::{ConvParams, Convolution, WEIGHT_BLOCK};
use samebits_cpu_kernels::matmul::{K_BLOCK, Real};

/// A convolution between an `input` and an `output` side, with all spatial sizes of rank 3.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) dimensions: usize,
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) input: [usize; 3],
    pub(crate) output: [usize; 3],
    pub(crate) kernel: [usize; 3],
    pub(crate) stride: [usize; 3],
    pub(crate) padding: [usize; 3],
    pub(crate) dilation: [usize; 3],
}

pub(crate) fn volume(dims: [usize; 3]) -> usize {
    dims[0] * dims[1] * dims[2]
}

pub(crate) fn positions(dims: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..volume(dims)).map(move |i| [i / dims[2] / dims[1], i / dims[2] % dims[1], i % dims[2]])
}

/// A chain of fma in blocks; the caller counts the steps.
pub(crate) struct Chain<T> {
    pub(crate) block: usize,
    pub(crate) current: usize,
    pub(crate) partial: T,
    pub(crate) total: Option<T>,
}

impl<T: Real> Chain<T> {
    pub(crate) fn new(block: usize) -> Chain<T> {
        Chain { block, current: 0, partial: T::default(), total: None }
    }
    pub(crate) fn close(&mut self, to: usize) {
        while self.current < to {
            self.total = Some(match self.total {
                None => self.partial,
                Some(total) => total.plus(self.partial),
            });
            self.partial = T::default();
            self.current += 1;
        }
    }
    pub(crate) fn step(&mut self, k: usize, a: T, b: T) {
        self.close(k / self.block);
        self.partial = a.fma(b, self.partial);
    }
    pub(crate) fn finish(mut self, steps: usize) -> T {
        self.close(steps.div_ceil(self.block));
        self.total.unwrap_or_default().canonical()
    }
}

impl Case {
    /// Returns the position that a tap of an output position reads.
    pub(crate) fn source(&self, output: [usize; 3], tap: [usize; 3]) -> Option<usize> {
        let mut at = 0;
        for d in 0..3 {
            let x = output[d] * self.stride[d] + tap[d] * self.dilation[d];
            let x = x.checked_sub(self.padding[d]).filter(|&x| x < self.input[d])?;
            at = at * self.input[d] + x;
        }
        Some(at)
    }

    pub(crate) fn lengths(&self) -> (usize, usize, usize) {
        (
            self.batch * self.groups * self.inputs * volume(self.input),
            self.groups * self.outputs * self.inputs * volume(self.kernel),
            self.batch * self.groups * self.outputs * volume(self.output),
        )
    }

    pub(crate) fn forward<T: Real>(&self, input: &[T], weight: &[T], bias: Option<&[T]>) -> Vec<T> {
        let taps = volume(self.kernel);
        let mut out = Vec::new();
        for n in 0..self.batch {
            for o in 0..self.groups * self.outputs {
                let group = o / self.outputs;
                for at in positions(self.output) {
                    let mut chain = Chain::new(K_BLOCK);
                    for c in 0..self.inputs {
                        let channel = (n * self.groups + group) * self.inputs + c;
                        for (t, tap) in positions(self.kernel).enumerate() {
                            let k = c * taps + t;
                            if let Some(x) = self.source(at, tap) {
                                let w = weight[o * self.inputs * taps + k];
                                chain.step(k, w, input[channel * volume(self.input) + x]);
                            }
                        }
                    }
                    let sum = chain.finish(self.inputs * taps);
                    out.push(bias.map_or(sum, |bias| sum.plus(bias[o]).canonical()));
                }
            }
        }
        out
    }

    pub(crate) fn input_gradient<T: Real>(&self, gradient: &[T], weight: &[T]) -> Vec<T> {
        let taps = volume(self.kernel);
        let mut out = Vec::new();
        for n in 0..self.batch {
            for c in 0..self.groups * self.inputs {
                let group = c / self.inputs;
                // The output that each tap of each input position meets.
                let mut meets = vec![None; volume(self.input) * taps];
                for (o, at) in positions(self.output).enumerate() {
                    for (t, tap) in positions(self.kernel).enumerate() {
                        if let Some(x) = self.source(at, tap) {
                            meets[x * taps + t] = Some(o);
                        }
                    }
                }
                for x in 0..volume(self.input) {
                    let mut chain = Chain::new(K_BLOCK);
                    for o in 0..self.outputs {
                        let channel = (n * self.groups + group) * self.outputs + o;
                        for t in 0..taps {
                            if let Some(at) = meets[x * taps + t] {
                                let w = ((group * self.outputs + o) * self.inputs
                                    + c % self.inputs)
                                    * taps;
                                let g = gradient[channel * volume(self.output) + at];
                                chain.step(o * taps + t, weight[w + t], g);
                            }
                        }
                    }
                    out.push(chain.finish(self.outputs * taps));
                }
            }
        }
        out
    }

    pub(crate) fn weight_gradient<T: Real>(&self, input: &[T], gradient: &[T]) -> Vec<T> {
        let count = volume(self.output);
        let mut out = Vec::new();
        for o in 0..self.groups * self.outputs {
            let group = o / self.outputs;
            for c in 0..self.inputs {
                for tap in positions(self.kernel) {
                    let mut chain = Chain::new(WEIGHT_BLOCK);
                    for n in 0..self.batch {
                        let channel = (n * self.groups + group) * self.inputs + c;
                        let values = &input[channel * volume(self.input)..];
                        let gradient = &gradient[(n * self.groups * self.outputs + o) * count..];
                        for (i, at) in positions(self.output).enumerate() {
                            if let Some(x) = self.source(at, tap) {
                                chain.step(n * count + i, values[x], gradient[i]);
                            }
                        }
                    }
                    out.push(chain.finish(self.batch * count));
                }
            }
        }
        out
    }

    pub(crate) fn params(&self) -> ConvParams {
        let last = |values: [usize; 3]| values[3 - self.dimensions..].to_vec();
        ConvParams {
            stride: last(self.stride),
            padding: last(self.padding),
            dilation: last(self.dilation),
            groups: self.groups,
        }
    }

    pub(crate) fn shape(&self, outer: [usize; 2], dims: [usize; 3]) -> Vec<usize> {
        [&outer[..], &dims[3 - self.dimensions..]].concat()
    }

    pub(crate) fn convolution(&self) -> Convolution {
        let conv = Convolution::new(
            "conv",
            &self.shape([self.batch, self.groups * self.inputs], self.input),
            &self.shape([self.groups * self.outputs, self.inputs], self.kernel),
            &self.params(),
        )
        .unwrap();
        let want = self.shape([self.batch, self.groups * self.outputs], self.output);
        assert_eq!(conv.output_shape(), want);
        conv
    }

    /// Draws sizes small enough for the oracle.
    pub(crate) fn random(rng: &mut Xorshift) -> Case {
        let dimensions = 1 + rng.below(3);
        let mut case = Case {
            dimensions,
            batch: rng.below(5),
            groups: [1, 1, 1, 2, 3][rng.below(5)],
            inputs: 1 + rng.below(4),
            outputs: 1 + rng.below(5),
            input: [1; 3],
            output: [1; 3],
            kernel: [1; 3],
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
        };
        match rng.below(6) {
            // Several blocks of channels.
            0 => case.inputs = 30 + rng.below(60),
            1 => case.outputs = 30 + rng.below(60),
            // Depthwise.
            2 => (case.groups, case.inputs, case.outputs) = (1 + rng.below(20), 1, 1),
            _ => {}
        }
        for d in 3 - dimensions..3 {
            case.kernel[d] = 1 + rng.below(4);
            case.stride[d] = 1 + rng.below(3);
            case.dilation[d] = 1 + rng.below(2);
            let reach = (case.kernel[d] - 1) * case.dilation[d] + 1;
            case.padding[d] = rng.below(reach + 1);
            let least = (reach.saturating_sub(2 * case.padding[d])).max(1);
            case.input[d] = least + rng.below([0, 40, 12, 6][dimensions]);
            case.output[d] = (case.input[d] + 2 * case.padding[d] - reach) / case.stride[d] + 1;
        }
        case
    }
}

pub(crate) struct Xorshift(pub(crate) u64);

impl Xorshift {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }
}
