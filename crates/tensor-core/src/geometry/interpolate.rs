//! Resizing by interpolation.

use samebits_numerics::fpenv;
use samebits_numerics::memory::{self, OutOfMemory};

use super::{Axis, Planes, spatial};
use crate::{Error, Result};

/// The interpolation between elements of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterpolateMode {
    /// The input element at `floor(o * input / output)`.
    Nearest,
    /// The input element whose centre is nearest: `floor((o + 0.5) * input / output)`.
    NearestExact,
    /// Linear interpolation between the two neighbours in each dimension.
    Linear {
        /// If true, the centres of the corner elements are aligned, not their outer corners.
        align_corners: bool,
    },
    /// Cubic convolution of the four neighbours in each dimension, with a = -0.75.
    Cubic {
        /// If true, the centres of the corner elements are aligned, not their outer corners.
        align_corners: bool,
    },
    /// As `Linear`; when downscaling a dimension, the filter widens by the scale.
    LinearAntialias {
        /// If true, the centres of the corner elements are aligned, not their outer corners.
        align_corners: bool,
    },
    /// As `LinearAntialias`, with the kernel of cubic convolution with a = -0.5.
    CubicAntialias {
        /// If true, the centres of the corner elements are aligned, not their outer corners.
        align_corners: bool,
    },
}

/// The checked geometry of resizing planes.
///
/// In each dimension an output is a weighted mean of a few inputs, its [`Taps`]. The positions and
/// weights of taps are computed in f64 by PyTorch's formulas, and a position that is an integer is
/// exact. Taps beyond the border move to the border. Taps on the same input become one tap with the
/// sum of their weights. A tap of weight 0 is left out, so an infinite input next to an exact
/// position has no effect.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::{InterpolateMode, Resize};
///
/// let mode = InterpolateMode::Linear { align_corners: true };
/// let resize = Resize::new("interpolate", &[1, 1, 2], &[3], &[None], mode)?;
/// let [.., width] = resize.axes();
/// let taps = width.taps().expect("there is memory for two taps");
/// assert_eq!(taps.of(1).collect::<Vec<_>>(), [(0, 0.5), (1, 0.5)]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.interpolate`, `area_pixel_compute_source_index` in ATen;
/// R. Keys, *Cubic convolution interpolation for digital image processing*, 1981.
pub type Resize = Planes<ResizedAxis>;

/// One dimension of a [`Resize`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResizedAxis {
    /// The size of the input.
    pub input: usize,
    /// The size of the output.
    pub output: usize,
    /// The scale (outputs per input) to use instead of `output / input`, unless the corners are
    /// aligned.
    pub scale: Option<f64>,
    /// The interpolation between elements of the input.
    pub mode: InterpolateMode,
}

impl Axis for ResizedAxis {
    const UNIT: ResizedAxis =
        ResizedAxis { input: 1, output: 1, scale: None, mode: InterpolateMode::Nearest };

    fn input(&self) -> usize {
        self.input
    }

    fn output(&self) -> usize {
        self.output
    }
}

impl Resize {
    /// Checks and returns the resizing of an input `[n, channels, ..]`, with one to three spatial
    /// dimensions, to size `output`. A given scale (outputs per input) replaces `output / input` in
    /// the coordinates, unless the corners are aligned.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the sizes do not fit together, the input is empty while the
    /// output is not, a scale is not a positive number, or there are too many elements.
    pub fn new(
        op: &'static str,
        input: &[usize],
        output: &[usize],
        scales: &[Option<f64>],
        mode: InterpolateMode,
    ) -> Result<Resize> {
        let (_, size) = spatial(op, input, 1..=3)?;
        if output.len() != size.len() || scales.len() != size.len() {
            return Err(Error::invalid(
                op,
                format!(
                    "an input of shape {input:?} cannot be resized to {output:?} with scales \
                     {scales:?}"
                ),
            ));
        }
        if scales.iter().flatten().any(|scale| !(*scale > 0.0 && scale.is_finite())) {
            return Err(Error::invalid(op, format!("scales must be positive, got {scales:?}")));
        }
        if size.iter().zip(output).any(|(&input, &output)| input == 0 && output != 0) {
            return Err(Error::invalid(
                op,
                format!("the spatial dimensions of the input must not be empty, got {input:?}"),
            ));
        }
        Planes::build(op, input, size.len(), |dim, input| {
            Ok(ResizedAxis { input, output: output[dim], scale: scales[dim], mode })
        })
    }
}

impl ResizedAxis {
    /// Returns the inputs of each output, in ascending order, and their weights.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn taps(&self) -> Result<Taps, OutOfMemory> {
        fpenv::ieee(|| {
            let most = self.most_taps();
            let mut taps = Taps::with_capacity(self.output, self.output.saturating_mul(most))?;
            let mut list = memory::with_capacity(most)?;
            for o in 0..self.output {
                list.clear();
                self.list_taps(o, &mut list);
                merge(&mut list);
                taps.push(list.iter().copied().filter(|&(_, weight)| weight != 0.0));
            }
            Ok(taps)
        })
    }

    /// Returns the number of inputs that `outputs` outputs cover: exact if it is a multiple of one
    /// half.
    fn covered(&self, outputs: f64, align_corners: bool) -> f64 {
        let (inputs, per) = match self.scale {
            _ if align_corners && self.output <= 1 => return 0.0,
            _ if align_corners => ((self.input - 1) as f64, (self.output - 1) as f64),
            Some(scale) => (1.0, scale),
            None => (self.input as f64, self.output as f64),
        };
        let once = outputs * inputs / per;
        if (2.0 * once).fract() == 0.0 { once } else { outputs * (inputs / per) }
    }

    /// Returns the number of inputs per output.
    fn step(&self, align_corners: bool) -> f64 {
        self.covered(1.0, align_corners)
    }

    /// Returns the largest number of taps of an output.
    fn most_taps(&self) -> usize {
        // Two more for the ends of the range, which rounding may move either way.
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

    /// Appends the inputs of output `o` and their weights, in f64.
    fn list_taps(&self, o: usize, list: &mut Vec<(usize, f64)>) {
        let last = self.input - 1;
        let source = |align_corners: bool| match align_corners {
            true => self.covered(o as f64, true),
            false => self.covered(o as f64 + 0.5, false) - 0.5,
        };
        let mut nearest = |outputs: f64| {
            list.push(((self.covered(outputs, false) as usize).min(last), 1.0));
        };
        match self.mode {
            InterpolateMode::Nearest => nearest(o as f64),
            InterpolateMode::NearestExact => nearest(o as f64 + 0.5),
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

/// Appends the inputs under a `kernel` that ends at ±`radius`. If there are several inputs per
/// output (`step`), the kernel widens by `step`. The weights are scaled to add up to 1.
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
        // A given scale can lead past the end of the input.
        taps.push((first.min(input - 1), 1.0));
    }
}

/// Evaluates Keys' kernel with a = -0.5.
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

/// Returns the weights of cubic convolution with a = -0.75, in f64, for a point at fraction `t` of
/// the way from the second to the third of four neighbours.
#[inline(always)]
pub fn cubic_weights(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// Merges neighbouring taps at the same place into one.
fn merge(list: &mut Vec<(usize, f64)>) {
    list.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}

/// Lists of places and weights, stored one after the other; each is ascending by place.
#[derive(Clone, Debug, PartialEq)]
pub struct Taps<W = f64> {
    starts: Vec<usize>,
    places: Vec<usize>,
    weights: Vec<W>,
}

impl Taps {
    /// Returns the same lists with each weight converted, usually rounded to an element type.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn with_weights<W>(self, convert: impl Fn(f64) -> W) -> Result<Taps<W>, OutOfMemory> {
        let weights = fpenv::ieee(|| memory::collected(self.weights.into_iter().map(convert)))?;
        Ok(Taps { starts: self.starts, places: self.places, weights })
    }
}

impl<W: Copy> Taps<W> {
    /// Returns an empty set of lists with room for `lists` lists and `taps` taps.
    pub(super) fn with_capacity(lists: usize, taps: usize) -> Result<Taps<W>, OutOfMemory> {
        let mut starts = memory::with_capacity(lists.saturating_add(1))?;
        starts.push(0);
        let (places, weights) = (memory::with_capacity(taps)?, memory::with_capacity(taps)?);
        Ok(Taps { starts, places, weights })
    }

    /// Appends a list.
    pub(super) fn push(&mut self, list: impl IntoIterator<Item = (usize, W)>) {
        for (place, weight) in list {
            self.places.push(place);
            self.weights.push(weight);
        }
        self.starts.push(self.places.len());
    }

    /// Returns the number of lists.
    pub fn lists(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the places and weights of list `at`.
    ///
    /// # Panics
    ///
    /// If there is no such list.
    #[inline(always)]
    pub fn of(&self, at: usize) -> impl ExactSizeIterator<Item = (usize, W)> + '_ {
        let range = self.starts[at]..self.starts[at + 1];
        self.places[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }

    /// Returns the start of each list in [`places`](Taps::places) and [`weights`](Taps::weights),
    /// then the end of the last one.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Returns the places of all lists.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// Returns the weights of all lists.
    pub fn weights(&self) -> &[W] {
        &self.weights
    }

    /// Returns, for each of `places` places, the lists that name it, ascending, and their weights
    /// there.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn reversed(&self, places: usize) -> Result<Taps<W>, OutOfMemory> {
        let mut starts = memory::zeroed::<usize>(places.saturating_add(1))?;
        self.places.iter().for_each(|&place| starts[place + 1] += 1);
        for place in 0..places {
            starts[place + 1] += starts[place];
        }
        let mut next = memory::collected(starts.iter().copied())?;
        let mut lists = memory::zeroed(self.places.len())?;
        // The loop below replaces every element.
        let mut weights = memory::collected(self.weights.iter().copied())?;
        for list in 0..self.lists() {
            for (place, weight) in self.of(list) {
                (lists[next[place]], weights[next[place]]) = (list, weight);
                next[place] += 1;
            }
        }
        Ok(Taps { starts, places: lists, weights })
    }
}
