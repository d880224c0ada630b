//! Convolution by products of spectra.
//!
//! Each plane is put into a rectangle large enough that nothing wraps round into what is read,
//! and transformed with real FFTs along rows and complex ones along columns. Spectra are kept
//! column by column.

use std::sync::Arc;

use rayon::prelude::*;
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};
use samebits_numerics::{fpenv, simd};

use super::Pass;
use super::shape::{Shape, volume};
use samebits_numerics::nan::canonical;

/// Elements of workspace.
pub(super) fn workspace(s: &Shape) -> usize {
    let [rows, columns] = size(s);
    let planes = s.batch * s.groups * (s.inputs + s.outputs) + s.groups * s.inputs * s.outputs;
    2 * planes.saturating_mul(rows * (columns / 2 + 1))
}

/// The estimate of [`Plan`](super::Plan) for any pass.
pub(super) fn estimate(s: &Shape) -> f64 {
    let [rows, columns] = size(s);
    let points = (rows * columns) as f64;
    let kernels = (s.groups * s.inputs * s.outputs) as f64;
    let planes = (s.batch * s.groups * (s.inputs + s.outputs)) as f64 + kernels;
    let transforms = planes * points * f64::from((rows * columns).ilog2() + 1) * 2.0;
    transforms + 6.0 * s.batch as f64 * kernels * points
}

/// Forward pass or input gradient.
pub(super) fn gather(s: &Shape, pass: Pass, source: &[f32], weights: &[f32], target: &mut [f32]) {
    if target.is_empty() {
        return;
    }
    let t = Transforms::new(s);
    let forward = pass == Pass::Forward;
    let (from, to) = if forward { (s.input, s.output) } else { (s.output, s.input) };
    let (rows, channels) = if forward { (s.outputs, s.inputs) } else { (s.inputs, s.outputs) };
    let sources = t.spectra(source, from, [1; 3]);
    let kernels = t.spectra(weights, s.kernel, s.dilation);
    let points = t.points();
    // Lag 0 is where the first tap meets the first source element.
    let shift = s.padding.map(|p| if forward { -(p as isize) } else { p as isize });
    target.par_chunks_mut(volume(to)).enumerate().for_each_init(
        || t.scratch(),
        |scratch, (plane, target)| {
            let (image, row) = (plane / rows, plane % rows);
            let group = image % s.groups;
            scratch.sum.fill(Complex::default());
            for channel in 0..channels {
                let (r, c) = if forward { (row, channel) } else { (channel, row) };
                let kernel = (group * s.outputs + r) * s.inputs + c;
                simd::dispatch(Multiply {
                    a: &sources[(image * channels + channel) * points..][..points],
                    b: &kernels[kernel * points..][..points],
                    conjugate: forward,
                    sum: &mut scratch.sum,
                });
            }
            t.back(scratch, target, to, shift, [1; 3]);
        },
    );
}

/// The weight gradient.
pub(super) fn weight_gradient(s: &Shape, input: &[f32], gradient: &[f32], out: &mut [f32]) {
    let t = Transforms::new(s);
    let inputs = t.spectra(input, s.input, [1; 3]);
    let gradients = t.spectra(gradient, s.output, [1; 3]);
    let points = t.points();
    let shift = s.padding.map(|p| -(p as isize));
    out.par_chunks_mut(volume(s.kernel)).enumerate().for_each_init(
        || t.scratch(),
        |scratch, (kernel, out)| {
            let (row, channel) = (kernel / s.inputs, kernel % s.inputs);
            let group = row / s.outputs;
            scratch.sum.fill(Complex::default());
            for image in 0..s.batch {
                let x = (image * s.groups + group) * s.inputs + channel;
                let g = image * s.groups * s.outputs + row;
                simd::dispatch(Multiply {
                    a: &inputs[x * points..][..points],
                    b: &gradients[g * points..][..points],
                    conjugate: true,
                    sum: &mut scratch.sum,
                });
            }
            t.back(scratch, out, s.kernel, shift, s.dilation);
        },
    );
}

/// Rows and columns of the rectangle. Lags run from −padding to the size of the input, in every
/// pass, so that a period of size + padding keeps them apart; kernel and output must fit, too.
fn size(s: &Shape) -> [usize; 2] {
    [1, 2].map(|d| {
        let reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
        let least = (s.input[d] + s.padding[d]).max(s.output[d]).max(reach);
        let smooth = |n: &usize| {
            let mut n = *n;
            for p in [2, 3, 5] {
                while n.is_multiple_of(p) {
                    n /= p;
                }
            }
            n == 1
        };
        // The real transform is best at even lengths.
        (least..).filter(|n| d == 1 || n.is_multiple_of(2)).find(smooth).unwrap_or(least)
    })
}

struct Transforms {
    rows: usize,
    columns: usize,
    to_half: Arc<dyn RealToComplex<f32>>,
    from_half: Arc<dyn ComplexToReal<f32>>,
    down: Arc<dyn Fft<f32>>,
    up: Arc<dyn Fft<f32>>,
}

/// What one thread needs.
struct Scratch {
    sum: Vec<Complex<f32>>,
    line: Vec<f32>,
    half: Vec<Complex<f32>>,
    work: Vec<Complex<f32>>,
}

impl Transforms {
    fn new(s: &Shape) -> Transforms {
        let [rows, columns] = size(s);
        let mut real = RealFftPlanner::new();
        let mut complex = FftPlanner::new();
        Transforms {
            rows,
            columns,
            to_half: real.plan_fft_forward(columns),
            from_half: real.plan_fft_inverse(columns),
            down: complex.plan_fft_forward(rows),
            up: complex.plan_fft_inverse(rows),
        }
    }

    fn half(&self) -> usize {
        self.columns / 2 + 1
    }

    /// Elements of a spectrum.
    fn points(&self) -> usize {
        self.rows * self.half()
    }

    fn scratch(&self) -> Scratch {
        let work = [
            self.to_half.get_scratch_len(),
            self.from_half.get_scratch_len(),
            self.down.get_inplace_scratch_len(),
            self.up.get_inplace_scratch_len(),
        ];
        Scratch {
            sum: vec![Complex::default(); self.points()],
            line: vec![0.0; self.columns],
            half: vec![Complex::default(); self.half()],
            work: vec![Complex::default(); work.into_iter().max().unwrap_or(0)],
        }
    }

    /// The spectra of all planes, whose elements are `step` apart.
    fn spectra(&self, planes: &[f32], size: [usize; 3], step: [usize; 3]) -> Vec<Complex<f32>> {
        let count = planes.len() / volume(size);
        let mut out = vec![Complex::default(); count * self.points()];
        out.par_chunks_mut(self.points()).zip(planes.par_chunks(volume(size))).for_each_init(
            || self.scratch(),
            |scratch, (out, plane)| {
                fpenv::ieee(|| {
                    for (y, row) in plane.chunks_exact(size[2]).enumerate() {
                        let Scratch { line, half, work, .. } = scratch;
                        line.fill(0.0);
                        for (x, &value) in row.iter().enumerate() {
                            line[x * step[2]] = value;
                        }
                        let work = &mut work[..self.to_half.get_scratch_len()];
                        self.to_half
                            .process_with_scratch(line, half, work)
                            .expect("lengths come from the plan");
                        for (column, &value) in half.iter().enumerate() {
                            out[column * self.rows + y * step[1]] = value;
                        }
                    }
                    self.down.process_with_scratch(out, &mut scratch.work);
                });
            },
        );
        out
    }

    /// Transforms the sum of `scratch` back, and reads the elements `step` apart from `shift`.
    fn back(
        &self,
        scratch: &mut Scratch,
        out: &mut [f32],
        size: [usize; 3],
        shift: [isize; 3],
        step: [usize; 3],
    ) {
        let scale = 1.0 / (self.rows * self.columns) as f32;
        let place = |d: usize, at: usize, period: usize| {
            ((at * step[d]) as isize + shift[d]).rem_euclid(period as isize) as usize
        };
        fpenv::ieee(|| {
            let Scratch { sum, line, half, work } = scratch;
            self.up.process_with_scratch(sum, work);
            for (y, out) in out.chunks_exact_mut(size[2]).enumerate() {
                let row = place(1, y, self.rows);
                for (column, half) in half.iter_mut().enumerate() {
                    *half = sum[column * self.rows + row];
                }
                // The spectrum of a real row has real ends; rounding leaves something there.
                let last = half.len() - 1;
                half[0].im = 0.0;
                if self.columns.is_multiple_of(2) {
                    half[last].im = 0.0;
                }
                let work = &mut work[..self.from_half.get_scratch_len()];
                self.from_half
                    .process_with_scratch(half, line, work)
                    .expect("lengths come from the plan, and the ends are real");
                for (x, out) in out.iter_mut().enumerate() {
                    let value = line[place(2, x, self.columns)] * scale;
                    *out = canonical(value);
                }
            }
        });
    }
}

/// `sum += a · b`, or with the conjugate of `b`.
struct Multiply<'a> {
    a: &'a [Complex<f32>],
    b: &'a [Complex<f32>],
    conjugate: bool,
    sum: &'a mut [Complex<f32>],
}

impl simd::Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let sign = if self.conjugate { -1.0 } else { 1.0 };
        for ((sum, a), b) in self.sum.iter_mut().zip(self.a).zip(self.b) {
            let im = sign * b.im;
            sum.re = a.re.mul_add(b.re, (-a.im).mul_add(im, sum.re));
            sum.im = a.re.mul_add(im, a.im.mul_add(b.re, sum.im));
        }
    }
}
