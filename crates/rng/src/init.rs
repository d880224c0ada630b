//! Initial values of weights.
//!
//! The functions take slices and fans, so that any tensor library can use them; for a weight of
//! shape \[out, in, kernel...\] see [`fans`]. Bounds and deviations are computed in f64 and rounded
//! to f32.
//!
//! # References
//!
//! * X. Glorot, Y. Bengio, *Understanding the difficulty of training deep feedforward neural
//!   networks*, AISTATS 2010.
//! * K. He, X. Zhang, S. Ren, J. Sun, *Delving deep into rectifiers*, ICCV 2015.
//! * A. M. Saxe, J. L. McClelland, S. Ganguli, *Exact solutions to the nonlinear dynamics of
//!   learning in deep linear neural networks*, ICLR 2014.

#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

use crate::parallel::*;
use crate::{Draw, Error, Generator};
use samebits_numerics::{fpenv, memory, simd};

/// Recommended gain for the nonlinearity that follows a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Gain {
    /// None, or a sigmoid: 1.
    Linear,
    /// tanh: 5/3.
    Tanh,
    /// max(0, x): √2.
    Relu,
    /// x or slope·x: √(2 / (1 + slope²)).
    LeakyRelu(f64),
    /// The self-normalising unit: 3/4.
    Selu,
}

impl Gain {
    /// Returns the factor.
    pub fn value(self) -> f64 {
        match self {
            Gain::Linear => 1.0,
            Gain::Tanh => 5.0 / 3.0,
            Gain::Relu => core::f64::consts::SQRT_2,
            Gain::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Gain::Selu => 0.75,
        }
    }
}

/// Returns the fan-in and the fan-out of a weight: the number of inputs per output, and of outputs
/// per input.
///
/// # Shapes
///
/// `shape` is \[out, in, kernel...\]: the fans are in·kernel and out·kernel.
///
/// # Errors
///
/// If `shape` has fewer than two dimensions, or a fan does not fit into a `usize`.
///
/// # Examples
///
/// ```
/// use samebits_rng::init::fans;
///
/// assert_eq!(fans(&[64, 3, 5, 5])?, (75, 1600));
/// # Ok::<(), samebits_rng::Error>(())
/// ```
pub fn fans(shape: &[usize]) -> Result<(usize, usize), Error> {
    let refused = |needed| Error::parameter("fans", "shape", shape, needed);
    let [outputs, inputs, kernel @ ..] = shape else {
        return Err(refused("of at least two dimensions"));
    };
    let fan = |count: usize| memory::product(&[&[count], kernel].concat());
    fan(*inputs).zip(fan(*outputs)).ok_or(refused("of fans that fit into a usize"))
}

/// Fills `out` uniformly in ±gain·√(3 / fan). Advances by ⌈n/4⌉ blocks.
///
/// # Errors
///
/// If `fan` is 0, or the gain is not finite.
pub fn kaiming_uniform(
    generator: &mut Generator,
    out: &mut [f32],
    fan: usize,
    gain: Gain,
) -> Result<(), Error> {
    let bound = gain.value() * (3.0 / fan as f64).sqrt();
    symmetric("kaiming_uniform", generator, out, bound)
}

/// Fills `out` with normal variates of standard deviation gain / √fan. Advances by ⌈n/4⌉ blocks.
///
/// # Errors
///
/// If `fan` is 0, or the gain is not finite.
pub fn kaiming_normal(
    generator: &mut Generator,
    out: &mut [f32],
    fan: usize,
    gain: Gain,
) -> Result<(), Error> {
    centred("kaiming_normal", generator, out, gain.value() / (fan as f64).sqrt())
}

/// Fills `out` uniformly in ±gain·√(6 / (fan in + fan out)). Advances by ⌈n/4⌉ blocks.
///
/// # Errors
///
/// If both fans are 0, or the gain is not finite.
///
/// # Examples
///
/// ```
/// use samebits_rng::{Generator, init};
///
/// let mut weight = [0.0; 6 * 4];
/// let (fan_in, fan_out) = init::fans(&[6, 4])?;
/// let mut generator = Generator::new(0);
/// init::xavier_uniform(&mut generator, &mut weight, fan_in, fan_out, init::Gain::Linear)?;
/// assert!(weight.iter().all(|w| w.abs() <= 0.6f32.sqrt()));
/// # Ok::<(), samebits_rng::Error>(())
/// ```
pub fn xavier_uniform(
    generator: &mut Generator,
    out: &mut [f32],
    fan_in: usize,
    fan_out: usize,
    gain: Gain,
) -> Result<(), Error> {
    let bound = gain.value() * (6.0 / sum_of_fans(fan_in, fan_out)).sqrt();
    symmetric("xavier_uniform", generator, out, bound)
}

/// Fills `out` with normal variates of standard deviation gain·√(2 / (fan in + fan out)). Advances
/// by ⌈n/4⌉ blocks.
///
/// # Errors
///
/// If both fans are 0, or the gain is not finite.
pub fn xavier_normal(
    generator: &mut Generator,
    out: &mut [f32],
    fan_in: usize,
    fan_out: usize,
    gain: Gain,
) -> Result<(), Error> {
    let std = gain.value() * (2.0 / sum_of_fans(fan_in, fan_out)).sqrt();
    centred("xavier_normal", generator, out, std)
}

/// Fills `out` with a matrix with orthonormal rows, or orthonormal columns if it has more rows than
/// columns, times the gain. Advances by ⌈n/2⌉ blocks.
///
/// The modified Gram–Schmidt process in f64 makes the shorter vectors of a matrix of
/// [`Draw::normal_f64`] numbers orthonormal, in order: from each vector it subtracts the components
/// along the finished ones in ascending order; every dot product is summed in 8 lanes, which are
/// added in order. The result is distributed uniformly over all such matrices.
///
/// # Shapes
///
/// `out` holds `rows` rows of `columns` numbers.
///
/// # Errors
///
/// If `out` does not hold `rows`·`columns` numbers, the gain is not finite, or there is no memory
/// for as many f64. The generator is then unchanged.
pub fn orthogonal(
    generator: &mut Generator,
    out: &mut [f32],
    rows: usize,
    columns: usize,
    gain: Gain,
) -> Result<(), Error> {
    let op = "orthogonal";
    let gain = gain.value();
    if !gain.is_finite() {
        return Err(Error::parameter(op, "the gain", gain, "finite"));
    }
    if rows.checked_mul(columns) != Some(out.len()) {
        let expected = rows.saturating_mul(columns);
        return Err(Error::length(op, "out", out.len(), "rows times columns", expected));
    }
    if out.is_empty() {
        return Ok(());
    }
    let (count, length) = if rows <= columns { (rows, columns) } else { (columns, rows) };
    let mut vectors = memory::zeroed(count * length).map_err(Error::memory(op))?;
    generator.draw(Draw::blocks_u64(vectors.len())).normal_f64(0, &mut vectors, 0.0, 1.0)?;
    fpenv::ieee(|| orthonormalise(&mut vectors, length));
    for (i, out) in out.iter_mut().enumerate() {
        let (row, column) = (i / columns, i % columns);
        let at = if rows <= columns { i } else { column * length + row };
        *out = (gain * vectors[at]) as f32;
    }
    Ok(())
}

/// Returns the sum of two fans, rounded once.
fn sum_of_fans(fan_in: usize, fan_out: usize) -> f64 {
    (fan_in as u128 + fan_out as u128) as f64
}

fn symmetric(
    op: &'static str,
    generator: &mut Generator,
    out: &mut [f32],
    bound: f64,
) -> Result<(), Error> {
    let bound = bound.abs() as f32;
    if !bound.is_finite() {
        return Err(Error::parameter(op, "the bound", bound, "finite: check the fan and the gain"));
    }
    generator.fill_uniform_f32(out, -bound, bound)
}

fn centred(
    op: &'static str,
    generator: &mut Generator,
    out: &mut [f32],
    std: f64,
) -> Result<(), Error> {
    let std = std.abs() as f32;
    if !std.is_finite() {
        let needed = "finite: check the fan and the gain";
        return Err(Error::parameter(op, "the deviation", std, needed));
    }
    generator.fill_normal_f32(out, 0.0, std)
}

/// The number of vectors finished together, so that they are read from cache for all others.
const PANEL: usize = 16;

/// Applies the modified Gram–Schmidt process to the vectors of `length` numbers in `vectors`.
///
/// The components along the finished vectors are subtracted in ascending order, one by one or by
/// panels, so panels change no bit.
fn orthonormalise(vectors: &mut [f64], length: usize) {
    let mut rest = vectors;
    while !rest.is_empty() {
        let (panel, tail) = rest.split_at_mut((PANEL * length).min(rest.len()));
        for i in 0..panel.len() / length {
            let (finished, vector) = panel.split_at_mut(i * length);
            let vector = &mut vector[..length];
            subtract_all(finished, vector);
            let scale = 1.0 / dot(vector, vector).sqrt();
            for x in vector {
                *x *= scale;
            }
        }
        let panel = &*panel;
        tail.par_chunks_mut(length).for_each(|vector| {
            simd::dispatch(SubtractAll(panel, vector));
        });
        rest = tail;
    }
}

/// [`subtract_all`] compiled for each instruction set. It uses no fused operation, so only the
/// speed differs.
struct SubtractAll<'a>(&'a [f64], &'a mut [f64]);

impl simd::Kernel for SubtractAll<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        subtract_all(self.0, self.1);
    }
}

#[inline(always)]
fn subtract_all(finished: &[f64], vector: &mut [f64]) {
    for unit in finished.chunks_exact(vector.len()) {
        let component = dot(unit, vector);
        for (x, u) in vector.iter_mut().zip(unit) {
            *x -= component * u;
        }
    }
}

#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (a_lanes, b_lanes) = (a.chunks_exact(8), b.chunks_exact(8));
    let tails = a_lanes.remainder().iter().zip(b_lanes.remainder());
    let tail = tails.fold(0.0, |sum, (x, y)| sum + x * y);
    for (a, b) in a_lanes.zip(b_lanes) {
        for i in 0..8 {
            lanes[i] += a[i] * b[i];
        }
    }
    lanes.iter().sum::<f64>() + tail
}
