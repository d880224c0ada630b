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

use crate::error::{Error, Result, expect_countable, expect_len};
use crate::{Float, memory, parallel};
use samebits_numerics::fpenv;
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
    /// output is not, a scale is not a positive number, or the sizes are more elements than can be
    /// counted; [`Error::OutOfMemory`].
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
        expect_countable(op, &[&[planes], input].concat())?;
        expect_countable(op, &[&[planes], output].concat())?;
        let missing = 3 - dims;
        let axis = |at: usize| match at.checked_sub(missing) {
            None => Axis::new(op, 1, 1, None, InterpolateMode::Nearest),
            Some(d) => Axis::new(op, input[d], output[d], scale[d], mode),
        };
        let axes = fpenv::ieee(|| Ok::<_, Error>([axis(0)?, axis(1)?, axis(2)?]))?;
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
    /// [`Error::Length`] if a slice does not fit; [`Error::OutOfMemory`].
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
        )
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
    /// [`Error::Length`] if a slice does not fit; [`Error::OutOfMemory`].
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
        )
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
    ) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let columns = Columns::new(self.op, taps[2])?;
        parallel::rows(to_size[2], to, |start, to| {
            let first = start / to_size[2];
            simd::dispatch(Rows { from, to, first, taps, columns: &columns, from_size, to_size });
        });
        Ok(())
    }
}

impl<T: Float> Axis<T> {
    fn new(
        op: &'static str,
        input: usize,
        output: usize,
        scale: Option<f64>,
        mode: InterpolateMode,
    ) -> Result<Axis<T>> {
        let sampling = Sampling { input, output, scale, mode };
        let most = sampling.most_taps();
        let mut forward = Taps::with_capacity(op, output, output.saturating_mul(most))?;
        let mut list = memory::with_capacity(op, most)?;
        for o in 0..output {
            list.clear();
            sampling.list_taps(o, &mut list);
            merge(&mut list);
            for &(place, weight) in &list {
                forward.places.push(place);
                forward.weights.push(T::from_f64(weight));
            }
            forward.starts.push(forward.places.len());
        }
        let backward = forward.reversed(op, input)?;
        Ok(Axis { input, output, forward, backward })
    }
}

impl<T: Float> Taps<T> {
    /// No lists yet, with room for so many of them and so many taps.
    fn with_capacity(op: &'static str, lists: usize, taps: usize) -> Result<Taps<T>> {
        let mut starts = memory::with_capacity(op, lists.saturating_add(1))?;
        starts.push(0);
        let (places, weights) =
            (memory::with_capacity(op, taps)?, memory::with_capacity(op, taps)?);
        Ok(Taps { starts, places, weights })
    }

    /// For each of `places` places the lists that name it, ascending, and the weight there.
    fn reversed(&self, op: &'static str, places: usize) -> Result<Taps<T>> {
        let mut starts = memory::zeroed::<usize>(op, places.saturating_add(1))?;
        self.places.iter().for_each(|&place| starts[place + 1] += 1);
        for place in 0..places {
            starts[place + 1] += starts[place];
        }
        let mut next = memory::collected(op, starts.iter().copied())?;
        let mut lists = memory::zeroed(op, self.places.len())?;
        let mut weights = memory::filled(op, self.places.len(), T::ZERO)?;
        for list in 0..self.starts.len() - 1 {
            for (place, weight) in self.of(list) {
                (lists[next[place]], weights[next[place]]) = (list, weight);
                next[place] += 1;
            }
        }
        Ok(Taps { starts, places: lists, weights })
    }

    #[inline(always)]
    fn of(&self, at: usize) -> impl Iterator<Item = (usize, T)> + '_ {
        let range = self.starts[at]..self.starts[at + 1];
        self.places[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }
}

/// What decides the taps of a dimension.
struct Sampling {
    input: usize,
    output: usize,
    scale: Option<f64>,
    mode: InterpolateMode,
}

impl Sampling {
    /// Inputs per output, unless the corners are aligned.
    fn ratio(&self) -> f64 {
        self.scale.map_or(self.input as f64 / self.output as f64, |scale| 1.0 / scale)
    }

    /// Inputs per output.
    fn step(&self, align_corners: bool) -> f64 {
        match align_corners {
            true if self.output > 1 => (self.input - 1) as f64 / (self.output - 1) as f64,
            true => 0.0,
            false => self.ratio(),
        }
    }

    /// The most taps that an output can have.
    fn most_taps(&self) -> usize {
        // Two for the ends of the range, whichever way they are rounded.
        let under = |align_corners: bool, radius: f64| {
            let width = (2.0 * radius * self.step(align_corners).max(1.0)).ceil() as usize;
            width.saturating_add(2).min(self.input).max(1)
        };
        match self.mode {
            InterpolateMode::Nearest | InterpolateMode::NearestExact => 1,
            InterpolateMode::Linear { .. } => 2,
            InterpolateMode::Cubic { .. } => 4,
            InterpolateMode::LinearAntialias { align_corners } => under(align_corners, 1.0),
            InterpolateMode::CubicAntialias { align_corners } => under(align_corners, 2.0),
        }
    }

    /// Adds the inputs that output `o` takes, and their weights, in f64.
    fn list_taps(&self, o: usize, list: &mut Vec<(usize, f64)>) {
        let last = self.input - 1;
        let ratio = self.ratio();
        let source = |align_corners: bool| match align_corners {
            true => o as f64 * self.step(true),
            false => (o as f64 + 0.5) * ratio - 0.5,
        };
        match self.mode {
            InterpolateMode::Nearest => list.push((((o as f64 * ratio) as usize).min(last), 1.0)),
            InterpolateMode::NearestExact => {
                list.push(((((o as f64 + 0.5) * ratio) as usize).min(last), 1.0));
            }
            InterpolateMode::Linear { align_corners } => {
                let at = source(align_corners).max(0.0);
                let left = (at as usize).min(last);
                let part = (at - left as f64).clamp(0.0, 1.0);
                list.extend([(left, 1.0 - part), ((left + 1).min(last), part)]);
            }
            InterpolateMode::Cubic { align_corners } => {
                let at = source(align_corners);
                let left = at.floor();
                let weights = cubic_weights(at - left);
                let place = |tap: usize| (left + tap as f64 - 1.0).clamp(0.0, last as f64) as usize;
                list.extend((0..4).map(|tap| (place(tap), weights[tap])));
            }
            InterpolateMode::LinearAntialias { align_corners } => {
                let triangle = |x: f64| (1.0 - x.abs()).max(0.0);
                antialias_taps(o, self.input, self.step(align_corners), 1.0, triangle, list);
            }
            InterpolateMode::CubicAntialias { align_corners } => {
                antialias_taps(o, self.input, self.step(align_corners), 2.0, cubic_kernel, list);
            }
        }
    }
}

/// Adds the inputs under a `kernel` that ends at ±`radius`, made wider by `step` inputs per output
/// if there are several. The weights are scaled to add up to 1.
fn antialias_taps(
    o: usize,
    input: usize,
    step: f64,
    radius: f64,
    kernel: impl Fn(f64) -> f64,
    taps: &mut Vec<(usize, f64)>,
) {
    let wider = step.max(1.0);
    let centre = step * (o as f64 + 0.5);
    let first = (centre - radius * wider + 0.5).max(0.0) as usize;
    let end = ((centre + radius * wider + 0.5) as usize).min(input);
    taps.extend(
        (first..end)
            .map(|i| (i, kernel((i as f64 - centre + 0.5) / wider)))
            .filter(|&(_, weight)| weight != 0.0),
    );
    let total: f64 = taps.iter().map(|&(_, weight)| weight).sum();
    taps.iter_mut().for_each(|(_, weight)| *weight /= total);
    if taps.is_empty() {
        // A given scale can lead past the end.
        taps.push((first.min(input - 1), 1.0));
    }
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
    fn new(op: &'static str, taps: &Taps<T>) -> Result<Columns<T>> {
        let width = taps.starts.len() - 1;
        let length = |at: usize| taps.starts[at + 1] - taps.starts[at];
        let count = (0..width).map(length).max().unwrap_or(0);
        let size = memory::volume(op, &[count, width])?;
        let mut columns = Columns {
            count,
            width,
            places: memory::filled(op, size, usize::MAX)?,
            weights: memory::filled(op, size, T::ZERO)?,
            full: memory::filled(op, count, true)?,
        };
        for at in 0..width {
            for (tap, (place, weight)) in taps.of(at).enumerate() {
                columns.places[tap * width + at] = place;
                columns.weights[tap * width + at] = weight;
            }
            columns.full[length(at)..].iter_mut().for_each(|full| *full = false);
        }
        Ok(columns)
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
