//! Resizing by interpolation: nearest, linear and cubic, in one to three dimensions.
//!
//! # Layouts
//!
//! Tensors are contiguous and are seen as `planes` planes of one to three dimensions each.
//! (Bilinear is linear in two dimensions, trilinear in three. The mode `area` is
//! [`adaptive_avg_pool`](crate::pooling::adaptive_avg_pool).)
//!
//! # What is computed
//!
//! In each dimension an output is a weighted mean of a few inputs, its taps. Where a tap lies is
//! computed in f64 as PyTorch describes it; its weight is rounded to the element type. Taps
//! beyond the border are moved to the border; taps on the same input are one tap with the sum
//! of their weights.
//!
//! - An output starts from `+0` and takes its taps in ascending input index (row-major), each by
//!   one `mul_add(input, weight, sum)`.
//! - A gradient element starts from `+0` and takes the outputs that have a tap on it in
//!   ascending output index, each by one `mul_add(gradient, weight, sum)`.
//! - The weight of several dimensions is `(w_d * w_h) * w_w`, each product rounded.

use crate::error::{Error, Result, expect_len};
use crate::{Float, parallel};
use samebits_numerics::simd::{self, Kernel};

pub use samebits_tensor_core::ops::InterpolateMode;

/// The sizes and weights of one resizing.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::interpolate::{Interpolate, InterpolateMode};
///
/// let mode = InterpolateMode::Linear { align_corners: true };
/// let resize = Interpolate::<f32>::new("interpolate", 1, &[2], &[3], &[None], mode)?;
/// let mut out = [0.0; 3];
/// resize.forward(&[1.0, 3.0], &mut out)?;
/// assert_eq!(out, [1.0, 2.0, 3.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Interpolate<T> {
    op: &'static str,
    planes: usize,
    axes: [Axis<T>; 3],
}

/// One dimension.
#[derive(Clone, Debug)]
struct Axis<T> {
    input: usize,
    output: usize,
    /// For each output the inputs it takes.
    forward: Taps<T>,
    /// For each input the outputs that take it.
    backward: Taps<T>,
}

/// Lists of (place, weight), one after the other, each ascending by place.
#[derive(Clone, Debug)]
struct Taps<T> {
    starts: Vec<usize>,
    places: Vec<usize>,
    weights: Vec<T>,
}

impl<T: Float> Interpolate<T> {
    /// The resizing of `planes` planes of size `input` to size `output`. A `scale` that is given
    /// (outputs per input) takes the place of `output / input` in the coordinates, unless the
    /// corners are aligned.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if there are not one to three sizes, an input size is 0 while the
    /// output is not, or a scale is not a positive number.
    ///
    /// # References
    ///
    /// `torch.nn.functional.interpolate`, `area_pixel_compute_source_index` in ATen;
    /// R. Keys, *Cubic convolution interpolation for digital image processing*, 1981.
    pub fn new(
        op: &'static str,
        planes: usize,
        input: &[usize],
        output: &[usize],
        scale: &[Option<f64>],
        mode: InterpolateMode,
    ) -> Result<Interpolate<T>> {
        let dims = input.len();
        if !(1..=3).contains(&dims) || output.len() != dims || scale.len() != dims {
            return Err(Error::argument(
                op,
                format!("1 to 3 sizes each, got {input:?}, {output:?} and scales {scale:?}"),
            ));
        }
        for d in 0..dims {
            if input[d] == 0 && output[d] != 0 {
                return Err(Error::argument(op, format!("the input must not be empty: {input:?}")));
            }
            if scale[d].is_some_and(|scale| !(scale > 0.0 && scale.is_finite())) {
                return Err(Error::argument(op, format!("scales must be positive, got {scale:?}")));
            }
        }
        let missing = 3 - dims;
        let axes = [0usize, 1, 2].map(|at| match at.checked_sub(missing) {
            None => Axis::new(1, 1, None, InterpolateMode::Nearest),
            Some(d) => Axis::new(input[d], output[d], scale[d], mode),
        });
        Ok(Interpolate { op, planes, axes })
    }

    /// Elements of the input, all planes together.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.planes * self.axes.iter().map(|axis| axis.input).product::<usize>()
    }

    /// Elements of the output, all planes together.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.planes * self.axes.iter().map(|axis| axis.output).product::<usize>()
    }

    /// Resizes `input`.
    ///
    /// # Shapes
    ///
    /// `input` has [`Interpolate::input_len`] elements, `out` has [`Interpolate::output_len`].
    ///
    /// # Determinism
    ///
    /// Portable: see the [module](self).
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if a slice does not fit.
    pub fn forward(&self, input: &[T], out: &mut [T]) -> Result<()> {
        expect_len(self.op, "input", input.len(), self.input_len())?;
        expect_len(self.op, "out", out.len(), self.output_len())?;
        let axes = self.axes.each_ref();
        self.run(
            input,
            out,
            axes.map(|axis| &axis.forward),
            axes.map(|axis| axis.input),
            axes.map(|axis| axis.output),
        );
        Ok(())
    }

    /// The gradient of [`forward`](Interpolate::forward).
    ///
    /// # Shapes
    ///
    /// `grad_out` has [`Interpolate::output_len`] elements; `grad_input` has
    /// [`Interpolate::input_len`] and is overwritten.
    ///
    /// # Determinism
    ///
    /// Portable: see the [module](self).
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if a slice does not fit.
    pub fn backward(&self, grad_out: &[T], grad_input: &mut [T]) -> Result<()> {
        expect_len(self.op, "grad_out", grad_out.len(), self.output_len())?;
        expect_len(self.op, "grad_input", grad_input.len(), self.input_len())?;
        let axes = self.axes.each_ref();
        self.run(
            grad_out,
            grad_input,
            axes.map(|axis| &axis.backward),
            axes.map(|axis| axis.output),
            axes.map(|axis| axis.input),
        );
        Ok(())
    }

    /// Both directions are the same computation: each element of `to` is a weighted sum of
    /// elements of `from`.
    fn run(
        &self,
        from: &[T],
        to: &mut [T],
        taps: [&Taps<T>; 3],
        from_size: [usize; 3],
        to_size: [usize; 3],
    ) {
        if to.is_empty() {
            return;
        }
        let columns = Columns::new(taps[2]);
        parallel::rows(to_size[2], to, |start, to| {
            let first = start / to_size[2];
            simd::dispatch(Rows { from, to, first, taps, columns: &columns, from_size, to_size });
        });
    }
}

impl<T: Float> Axis<T> {
    fn new(input: usize, output: usize, scale: Option<f64>, mode: InterpolateMode) -> Axis<T> {
        let taps = |o| taps_of(o, input, output, scale, mode);
        let mut lists: Vec<Vec<(usize, f64)>> = (0..output).map(taps).collect();
        for list in &mut lists {
            merge(list);
        }
        let forward = Taps::new(&lists);
        let mut reverse = vec![Vec::new(); input];
        for (o, list) in lists.iter().enumerate() {
            for &(i, weight) in list {
                reverse[i].push((o, weight));
            }
        }
        Axis { input, output, forward, backward: Taps::new(&reverse) }
    }
}

impl<T: Float> Taps<T> {
    fn new(lists: &[Vec<(usize, f64)>]) -> Taps<T> {
        let mut taps = Taps { starts: vec![0], places: Vec::new(), weights: Vec::new() };
        for list in lists {
            for &(place, weight) in list {
                taps.places.push(place);
                taps.weights.push(T::from_f64(weight));
            }
            taps.starts.push(taps.places.len());
        }
        taps
    }

    #[inline(always)]
    fn of(&self, at: usize) -> impl Iterator<Item = (usize, T)> + '_ {
        let range = self.starts[at]..self.starts[at + 1];
        self.places[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }
}

/// The inputs that output `o` of a dimension takes, and their weights, in f64.
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
    match mode {
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
    }
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
/// four neighbours, in f64.
#[inline(always)]
pub(crate) fn cubic_weights(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// Makes neighbours on the same place one.
fn merge(list: &mut Vec<(usize, f64)>) {
    list.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}

/// The taps of a row, one column for the first taps of all elements, one for the second ones,
/// and so on: the loop over the elements of a row is then the inner one.
struct Columns<T> {
    count: usize,
    width: usize,
    places: Vec<usize>,
    weights: Vec<T>,
    /// Whether every element has this tap.
    full: Vec<bool>,
}

impl<T: Float> Columns<T> {
    fn new(taps: &Taps<T>) -> Columns<T> {
        let width = taps.starts.len() - 1;
        let length = |at: usize| taps.starts[at + 1] - taps.starts[at];
        let count = (0..width).map(length).max().unwrap_or(0);
        let mut columns = Columns {
            count,
            width,
            places: vec![usize::MAX; count * width],
            weights: vec![T::ZERO; count * width],
            full: vec![true; count],
        };
        for at in 0..width {
            for (tap, (place, weight)) in taps.of(at).enumerate() {
                columns.places[tap * width + at] = place;
                columns.weights[tap * width + at] = weight;
            }
            columns.full[length(at)..].iter_mut().for_each(|full| *full = false);
        }
        columns
    }
}

struct Rows<'a, T> {
    from: &'a [T],
    to: &'a mut [T],
    first: usize,
    taps: [&'a Taps<T>; 3],
    columns: &'a Columns<T>,
    from_size: [usize; 3],
    to_size: [usize; 3],
}

impl<T: Float> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let [depth, height, width] = self.from_size;
        let lines = self.to_size[0] * self.to_size[1];
        for (offset, sums) in self.to.chunks_exact_mut(self.to_size[2]).enumerate() {
            let row = self.first + offset;
            sums.fill(T::ZERO);
            let plane =
                &self.from[row / lines * depth * height * width..][..depth * height * width];
            for (d, depth_weight) in self.taps[0].of(row % lines / self.to_size[1]) {
                for (h, height_weight) in self.taps[1].of(row % self.to_size[1]) {
                    let line = &plane[(d * height + h) * width..][..width];
                    self.columns.add(sums, line, depth_weight * height_weight);
                }
            }
            sums.iter_mut().for_each(|sum| *sum = sum.canonical());
        }
    }
}

impl<T: Float> Columns<T> {
    #[inline(always)]
    fn add(&self, sums: &mut [T], line: &[T], outer_weight: T) {
        for tap in 0..self.count {
            let places = &self.places[tap * self.width..][..self.width];
            let weights = &self.weights[tap * self.width..][..self.width];
            let taps = sums.iter_mut().zip(places).zip(weights);
            if self.full[tap] {
                for ((sum, &place), &weight) in taps {
                    *sum = line[place].mul_add(outer_weight * weight, *sum);
                }
            } else {
                // An element without this tap must not see a product with a weight of zero:
                // that would be NaN where the line is infinite.
                for ((sum, &place), &weight) in taps {
                    if let Some(&x) = line.get(place) {
                        *sum = x.mul_add(outer_weight * weight, *sum);
                    }
                }
            }
        }
    }
}
