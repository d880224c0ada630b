//! Convolution by products of spectra.
//!
//! Each plane is put into a rectangle large enough that nothing wraps round into what is read,
//! and transformed with real FFTs along rows and complex ones along columns. Spectra are kept
//! column by column.

use samebits_tensor_core::geometry::{ConvPass, ConvSizes};
use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};
use samebits_numerics::memory::{OutOfMemory, filled, product, with_capacity, zeroed};
use samebits_numerics::simd;

use super::shape::count;
use crate::conv::volume;
use crate::parallel;
use samebits_numerics::nan::canonical;

/// Returns the number of elements of the workspace.
pub(super) fn workspace(s: &ConvSizes) -> usize {
    let [rows, columns] = size(s);
    let planes = s.batch * s.groups * (s.inputs + s.outputs) + s.groups * s.inputs * s.outputs;
    count(&[2, planes, rows, columns / 2 + 1])
}

/// Returns the estimate of [`Algorithm::estimate`](super::Algorithm::estimate) for any pass.
pub(super) fn estimate(s: &ConvSizes) -> f64 {
    let [rows, columns] = size(s);
    let points = rows as f64 * columns as f64;
    let kernels = (s.groups * s.inputs * s.outputs) as f64;
    let planes = (s.batch * s.groups * (s.inputs + s.outputs)) as f64 + kernels;
    let transforms = planes * points * f64::from(count(&[rows, columns]).ilog2() + 1) * 2.0;
    2.0 * (transforms + 6.0 * s.batch as f64 * kernels * points)
}

/// Computes the forward pass or input gradient.
pub(super) fn gather(
    s: &ConvSizes,
    pass: ConvPass,
    source: &[f32],
    weights: &[f32],
    target: &mut [f32],
) -> Result<(), OutOfMemory> {
    if target.is_empty() {
        return Ok(());
    }
    let t = Transforms::new(s)?;
    let forward = pass == ConvPass::Forward;
    let (from, to) = if forward { (s.input, s.output) } else { (s.output, s.input) };
    let (rows, channels) = if forward { (s.outputs, s.inputs) } else { (s.inputs, s.outputs) };
    let sources = t.spectra(source, from, [1; 3])?;
    let kernels = t.spectra(weights, s.kernel, s.dilation)?;
    let points = t.points();
    // Lag 0 is where the first tap meets the first source element.
    let shift = s.padding.map(|p| if forward { -(p as isize) } else { p as isize });
    parallel::chunks_mut(target, volume(to)).enumerate().try_for_each_with(
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
            Ok(())
        },
    )
}

/// Computes the weight gradient.
pub(super) fn weight_grad(
    s: &ConvSizes,
    input: &[f32],
    gradient: &[f32],
    out: &mut [f32],
) -> Result<(), OutOfMemory> {
    let t = Transforms::new(s)?;
    let inputs = t.spectra(input, s.input, [1; 3])?;
    let gradients = t.spectra(gradient, s.output, [1; 3])?;
    let points = t.points();
    let shift = s.padding.map(|p| -(p as isize));
    parallel::chunks_mut(out, volume(s.kernel)).enumerate().try_for_each_with(
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
            Ok(())
        },
    )
}

/// Returns the rows and columns of the rectangle. Lags run from −padding to the size of the input,
/// in every pass, so that a period of size + padding keeps them apart; kernel and output must fit,
/// too.
fn size(s: &ConvSizes) -> [usize; 2] {
    [1, 2].map(|d| {
        let reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
        let least = (s.input[d] + s.padding[d]).max(s.output[d]).max(reach);
        // The real transform is best at even lengths.
        smooth(least, d == 2)
    })
}

/// Returns the least product of powers of 2, 3 and 5 that is not below `least`, and even if asked
/// for.
fn smooth(least: usize, even: bool) -> usize {
    let powers = |base: usize, from: usize| {
        std::iter::successors(Some(from), move |n| n.checked_mul(base)).take_while(move |n| {
            // One beyond `least` is enough.
            n / base < least
        })
    };
    powers(5, 1)
        .flat_map(|fives| powers(3, fives))
        .filter_map(|odd| {
            let twos = least.div_ceil(odd).checked_next_power_of_two()?;
            odd.checked_mul(twos.max(if even { 2 } else { 1 }))
        })
        .min()
        .unwrap_or(least)
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
    fn new(s: &ConvSizes) -> Result<Transforms, OutOfMemory> {
        let [rows, columns] = size(s);
        // The plans' tables are no larger than a spectrum, but do not say if there is no memory.
        with_capacity::<Complex<f32>>(elements(1, rows, columns)?)?;
        let mut real = RealFftPlanner::new();
        let mut complex = FftPlanner::new();
        Ok(Transforms {
            rows,
            columns,
            to_half: real.plan_fft_forward(columns),
            from_half: real.plan_fft_inverse(columns),
            down: complex.plan_fft_forward(rows),
            up: complex.plan_fft_inverse(rows),
        })
    }

    fn half(&self) -> usize {
        self.columns / 2 + 1
    }

    /// Returns the number of elements of a spectrum.
    fn points(&self) -> usize {
        self.rows * self.half()
    }

    fn scratch(&self) -> Result<Scratch, OutOfMemory> {
        let work = [
            self.to_half.get_scratch_len(),
            self.from_half.get_scratch_len(),
            self.down.get_inplace_scratch_len(),
            self.up.get_inplace_scratch_len(),
        ];
        Ok(Scratch {
            sum: filled(self.points(), Complex::default())?,
            line: zeroed(self.columns)?,
            half: filled(self.half(), Complex::default())?,
            work: filled(work.into_iter().max().unwrap_or(0), Complex::default())?,
        })
    }

    /// Returns the spectra of all planes, whose elements are `step` apart.
    fn spectra(
        &self,
        planes: &[f32],
        size: [usize; 3],
        step: [usize; 3],
    ) -> Result<Vec<Complex<f32>>, OutOfMemory> {
        let len = elements(planes.len() / volume(size), self.rows, self.columns)?;
        let mut out = filled(len, Complex::default())?;
        let planes = parallel::chunks(planes, volume(size));
        parallel::chunks_mut(&mut out, self.points()).zip(planes).try_for_each_with(
            || self.scratch(),
            |scratch, (out, plane)| {
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
                Ok(())
            },
        )?;
        Ok(out)
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
    }
}

/// Returns the number of elements of the spectra of so many planes.
fn elements(planes: usize, rows: usize, columns: usize) -> Result<usize, OutOfMemory> {
    product(&[planes, rows, columns / 2 + 1]).ok_or(OutOfMemory { bytes: usize::MAX })
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
