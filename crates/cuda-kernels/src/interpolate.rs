//! Resizing by interpolation: nearest, linear and cubic, in one to three dimensions.
//!
//! # Determinism
//!
//! Where a tap lies is computed in f64, on the host; its weight is rounded to the element type. Taps beyond the
//! border are moved to the border, and taps on the same input are one tap with the sum of their
//! weights. An output starts from +0 and takes its taps in ascending input index, each by one
//! `fma(input, weight, sum)`; a gradient element takes the outputs that have a tap on it in
//! ascending output index, each by one `fma(gradient, weight, sum)`. The weight of several
//! dimensions is `(w_d · w_h) · w_w`, each product rounded.

use bytemuck::{Pod, Zeroable};
use cudarc::driver::CudaSlice;

use crate::Variant;
use crate::device::{Device, Float, atomic, expect_len, of, product};
use crate::error::{CudaError, Result};
use crate::pooling::sizes;

const FAMILY: &str = "interpolate";

/// How values between the input's elements are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterpolateMode {
    /// The input element at `floor(o · scale)`.
    Nearest,
    /// The input element whose centre is nearest: `floor((o + 0.5) · scale)`.
    NearestExact,
    /// The two neighbours in each dimension.
    Linear {
        /// The centres of the corner elements, not their outer corners, are aligned.
        align_corners: bool,
    },
    /// The four neighbours in each dimension, by cubic convolution with a = −0.75.
    Cubic {
        /// The centres of the corner elements, not their outer corners, are aligned.
        align_corners: bool,
    },
    /// Linear, over as many inputs as an output covers.
    LinearAntialias {
        /// As for [`Linear`](InterpolateMode::Linear).
        align_corners: bool,
    },
    /// Cubic with a = −0.5, over as many inputs as an output covers.
    CubicAntialias {
        /// As for [`Linear`](InterpolateMode::Linear).
        align_corners: bool,
    },
}

/// The sizes of one resizing, with its tables on the device.
#[derive(Debug)]
pub struct Interpolate<T> {
    planes: usize,
    input: [u32; 3],
    output: [u32; 3],
    forward: Table<T>,
    backward: Table<T>,
}

/// Taps of three dimensions.
#[derive(Debug)]
struct Table<T> {
    starts: CudaSlice<u32>,
    places: CudaSlice<u32>,
    weights: CudaSlice<T>,
    base: [u32; 3],
}

/// For each element of a dimension its taps: place and weight, ascending by place.
type Taps = Vec<Vec<(usize, f64)>>;

impl<T: Float> Interpolate<T> {
    /// The resizing of `planes` planes of size `input` to size `output`. A `scale` that is given
    /// (outputs per input) takes the place of `output / input` in the coordinates, unless the
    /// corners are aligned.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] if there are not one to three sizes, an input size is 0
    /// while the output is not, or a scale is not a positive number.
    pub fn new(
        device: &Device,
        planes: usize,
        input: &[usize],
        output: &[usize],
        scale: &[Option<f64>],
        mode: InterpolateMode,
    ) -> Result<Interpolate<T>> {
        let op = "interpolate";
        let dims = input.len();
        let from = sizes(op, "input", input, dims, 0)?;
        let to = sizes(op, "output", output, dims, 0)?;
        let bad_scale = |s: &Option<f64>| s.is_some_and(|s| !(s > 0.0 && s.is_finite()));
        if scale.len() != dims || scale.iter().any(bad_scale) {
            return Err(CudaError::invalid(
                op,
                format!("scales {scale:?} must be positive, one for each of {input:?}"),
            ));
        }
        if (0..dims).any(|d| input[d] == 0 && output[d] != 0) {
            return Err(CudaError::invalid(op, format!("the input must not be empty: {input:?}")));
        }
        let mut forward: [Taps; 3] = [const { Vec::new() }; 3];
        let mut backward: [Taps; 3] = [const { Vec::new() }; 3];
        for d in 0..3 {
            let given = (d + dims).checked_sub(3);
            let (size, mode, scale) = match given {
                Some(at) => (to[d] as usize, mode, scale[at]),
                None => (1, InterpolateMode::Nearest, None),
            };
            forward[d] =
                (0..size).map(|o| taps_of(o, from[d] as usize, size, scale, mode)).collect();
            backward[d] = vec![Vec::new(); from[d] as usize];
            for (o, taps) in forward[d].iter().enumerate() {
                for &(i, weight) in taps {
                    backward[d][i].push((o, weight));
                }
            }
        }
        Ok(Interpolate {
            planes,
            input: from,
            output: to,
            forward: Table::new(device, &forward)?,
            backward: Table::new(device, &backward)?,
        })
    }

    /// Resizes `x`.
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`].
    pub fn forward(&self, device: &Device, x: &CudaSlice<T>) -> Result<CudaSlice<T>> {
        self.sum(device, x, &self.forward, self.input, self.output)
    }

    /// The gradient of [`forward`](Interpolate::forward).
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`].
    pub fn backward(
        &self,
        device: &Device,
        grad: &CudaSlice<T>,
        variant: Variant,
    ) -> Result<CudaSlice<T>> {
        let op = "interpolate";
        if variant == Variant::Deterministic {
            return self.sum(device, grad, &self.backward, self.output, self.input);
        }
        let n = self.elements(op, self.output)?;
        expect_len(op, "the gradient", grad, n)?;
        let mut out = device.zeros_for::<T>(op, self.elements(op, self.input)?)?;
        let table = &self.forward;
        device
            .kernel(op, FAMILY, atomic::<T>(op, "tap_scatter_f32_atomic")?)?
            .on(device.stream())
            .write(&mut out)
            .read(grad)
            .read(&table.starts)
            .read(&table.places)
            .read(&table.weights)
            .value(&self.raw(table, self.input, self.output))
            .threads(n, device.block())?;
        Ok(out)
    }

    fn sum(
        &self,
        device: &Device,
        x: &CudaSlice<T>,
        table: &Table<T>,
        from: [u32; 3],
        to: [u32; 3],
    ) -> Result<CudaSlice<T>> {
        let op = "interpolate";
        expect_len(op, "the input", x, self.elements(op, from)?)?;
        let n = self.elements(op, to)?;
        let mut out = device.uninitialised(op, n)?;
        device
            .kernel(op, FAMILY, of::<T>(["tap_sum_f32", "tap_sum_f64"]))?
            .on(device.stream())
            .write(&mut out)
            .read(x)
            .read(&table.starts)
            .read(&table.places)
            .read(&table.weights)
            .value(&self.raw(table, from, to))
            .threads(n, device.block())?;
        Ok(out)
    }

    fn raw(&self, table: &Table<T>, from: [u32; 3], to: [u32; 3]) -> RawTaps {
        RawTaps { planes: self.planes as u64, from, to, base: table.base, pad: 0 }
    }

    fn elements(&self, op: &'static str, [d, h, w]: [u32; 3]) -> Result<usize> {
        product(op, &[self.planes, d as usize, h as usize, w as usize])
    }
}

impl<T: Float> Table<T> {
    fn new(device: &Device, dims: &[Taps; 3]) -> Result<Table<T>> {
        let (mut starts, mut places, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let mut base = [0; 3];
        for (base, lists) in base.iter_mut().zip(dims) {
            *base = starts.len() as u32;
            starts.push(places.len() as u32);
            for &(place, weight) in lists.iter().flatten() {
                places.push(place as u32);
                weights.push(T::from_f64(weight));
            }
            let mut at = starts[starts.len() - 1];
            for list in lists {
                at += list.len() as u32;
                starts.push(at);
            }
        }
        Ok(Table {
            starts: device.upload(&starts)?,
            places: device.upload(&places)?,
            weights: device.upload(&weights)?,
            base,
        })
    }
}

/// The inputs that output `o` of a dimension takes, and their weights.
fn taps_of(
    o: usize,
    input: usize,
    output: usize,
    scale: Option<f64>,
    mode: InterpolateMode,
) -> Vec<(usize, f64)> {
    let last = input - 1;
    let ratio = scale.map_or(input as f64 / output as f64, |scale| 1.0 / scale);
    // Inputs per output.
    let step = |align_corners: bool| match align_corners {
        true if output > 1 => last as f64 / (output - 1) as f64,
        true => 0.0,
        false => ratio,
    };
    let source = |align_corners: bool| match align_corners {
        true => o as f64 * step(true),
        false => (o as f64 + 0.5) * ratio - 0.5,
    };
    let mut taps = match mode {
        InterpolateMode::Nearest => vec![(((o as f64 * ratio) as usize).min(last), 1.0)],
        InterpolateMode::NearestExact => {
            vec![((((o as f64 + 0.5) * ratio) as usize).min(last), 1.0)]
        }
        InterpolateMode::Linear { align_corners } => {
            let at = source(align_corners).max(0.0);
            let left = (at as usize).min(last);
            let part = (at - left as f64).clamp(0.0, 1.0);
            vec![(left, 1.0 - part), ((left + 1).min(last), part)]
        }
        InterpolateMode::Cubic { align_corners } => {
            let at = source(align_corners);
            let left = at.floor();
            let weights = cubic_weights(at - left);
            let place = |tap: usize| (left + tap as f64 - 1.0).clamp(0.0, last as f64) as usize;
            (0..4).map(|tap| (place(tap), weights[tap])).collect()
        }
        InterpolateMode::LinearAntialias { align_corners } => {
            let triangle = |x: f64| (1.0 - x.abs()).max(0.0);
            antialias_taps(o, input, step(align_corners), 1.0, triangle)
        }
        InterpolateMode::CubicAntialias { align_corners } => {
            antialias_taps(o, input, step(align_corners), 2.0, cubic_kernel)
        }
    };
    taps.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    taps
}

/// The inputs under a `kernel` that ends at ±`radius`, made wider by `step` inputs per output if
/// there are several. The weights are scaled to add up to 1.
fn antialias_taps(
    o: usize,
    input: usize,
    step: f64,
    radius: f64,
    kernel: impl Fn(f64) -> f64,
) -> Vec<(usize, f64)> {
    let wider = step.max(1.0);
    let centre = step * (o as f64 + 0.5);
    let first = (centre - radius * wider + 0.5).max(0.0) as usize;
    let end = ((centre + radius * wider + 0.5) as usize).min(input);
    let mut taps: Vec<(usize, f64)> = (first..end)
        .map(|i| (i, kernel((i as f64 - centre + 0.5) / wider)))
        .filter(|&(_, weight)| weight != 0.0)
        .collect();
    let total: f64 = taps.iter().map(|&(_, weight)| weight).sum();
    taps.iter_mut().for_each(|(_, weight)| *weight /= total);
    if taps.is_empty() {
        // A given scale can lead past the end.
        taps.push((first.min(input - 1), 1.0));
    }
    taps
}

/// Keys' kernel with a = -0.5.
fn cubic_kernel(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

/// The weights of cubic convolution for a point `t` of the way from the second to the third of
/// four neighbours.
fn cubic_weights(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// `SbTaps` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawTaps {
    planes: u64,
    from: [u32; 3],
    to: [u32; 3],
    base: [u32; 3],
    /// The compiler's padding of the structure, spelt out.
    pad: u32,
}
