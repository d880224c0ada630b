//! Random numbers by logical element index.
//!
//! # Determinism
//!
//! Element `i` is a function of the draw and of `i` alone: the bits are those of
//! [`samebits_rng::Draw`] on the CPU, on any device.
//!
//! # Examples
//!
//! ```
//! use samebits_rng::Draw;
//! use samebits_cuda_kernels::Device;
//! # if !samebits_cuda_kernels::is_available() {
//! #     return Ok(());
//! # }
//! let device = Device::new(0)?;
//! let draw = Draw::new(0, 0, 0);
//! let x = samebits_cuda_kernels::random::uniform(&device, &draw, 4, 0.0f32, 1.0)?;
//! assert_eq!(device.download(&x)?, [0.39904642, 0.88052016, 0.73571277, 0.6054818]);
//! # Ok::<(), samebits_cuda_kernels::CudaError>(())
//! ```

use crate::launch::declared::random::RawDraw;
use crate::launch::kernels::random as kernels;
use crate::launch::{Buffer, Launch};
use samebits_rng::{Draw, Philox4x32};

use crate::device::{Device, Float, expect_len};
use crate::error::{CudaError, Result};

/// The domain of the private spaces' keys; see [`Draw`], *Rejection*.
const SPACE: u64 = 0x6a09_e667_f3bc_c908;

/// Returns the first `n` words of a draw.
///
/// # Errors
///
/// [`CudaError::OutOfMemory`].
pub fn words(device: &Device, draw: &Draw, n: usize) -> Result<Buffer<u32>> {
    let op = "words";
    let mut out = device.uninitialised(op, n)?;
    kernels::Words { out: &mut out, n, draw: RawDraw::new(draw) }.threads(
        device,
        op,
        n.div_ceil(4),
    )?;
    Ok(out)
}

/// Computes Philox4x32 with 7 or 10 rounds on any counters and keys, for known-answer tests.
///
/// # Shapes
///
/// `counters: [n, 4]`, `keys: [n, 2]`; returns `[n, 4]`.
///
/// # Errors
///
/// [`CudaError::Length`], and [`CudaError::InvalidArgument`] for other numbers of rounds.
pub fn philox(
    device: &Device,
    counters: &Buffer<u32>,
    keys: &Buffer<u32>,
    rounds: u32,
) -> Result<Buffer<u32>> {
    let op = "philox";
    if rounds != 7 && rounds != 10 {
        return Err(CudaError::invalid(op, format!("expected 7 or 10 rounds, got {rounds}")));
    }
    let n = counters.len() / 4;
    expect_len(op, "the counters", counters, 4 * n)?;
    expect_len(op, "the keys", keys, 2 * n)?;
    let mut out = device.uninitialised(op, 4 * n)?;
    kernels::PhiloxBlocks { out: &mut out, counters, keys, n, rounds }.threads(device, op, n)?;
    Ok(out)
}

/// Draws `n` uniform numbers in `[low, high)`: [`Draw::uniform_f32`] or [`Draw::uniform_f64`].
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if `low > high` or `high - low` is not finite.
pub fn uniform<T: Float>(
    device: &Device,
    draw: &Draw,
    n: usize,
    low: T,
    high: T,
) -> Result<Buffer<T>> {
    let op = "uniform";
    let range = high - low;
    if !(low <= high && T::is_finite(range)) {
        return Err(CudaError::invalid(
            op,
            format!("expected low <= high with a finite difference, got {low:?} and {high:?}"),
        ));
    }
    let below = T::next_down(high);
    let last = if below < low { low } else { below };
    let per_block = [4, 2][T::WIDE as usize];
    let mut out = device.uninitialised(op, n)?;
    kernels::Uniform { out: &mut out, n, draw: RawDraw::new(draw), low, high, range, last }
        .threads(device, op, n.div_ceil(per_block))?;
    Ok(out)
}

/// Draws `n` normal numbers with the given mean and standard deviation: [`Draw::normal_f32`].
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if `std` is negative or a parameter is not finite.
pub fn normal<T: Float>(
    device: &Device,
    draw: &Draw,
    n: usize,
    mean: T,
    std: T,
) -> Result<Buffer<T>> {
    let op = "normal";
    check_normal(op, mean, std)?;
    let per_block = [4, 2][T::WIDE as usize];
    let mut out = device.uninitialised(op, n)?;
    kernels::Normal { out: &mut out, n, draw: RawDraw::new(draw), mean, std }.threads(
        device,
        op,
        n.div_ceil(per_block),
    )?;
    Ok(out)
}

/// Draws `n` numbers whose logarithms are normal: [`Draw::log_normal_f32`].
///
/// # Errors
///
/// As [`normal`].
pub fn log_normal(
    device: &Device,
    draw: &Draw,
    n: usize,
    mean: f32,
    std: f32,
) -> Result<Buffer<f32>> {
    let op = "log_normal";
    check_normal(op, mean, std)?;
    let mut out = device.uninitialised(op, n)?;
    kernels::LogNormal { out: &mut out, n, draw: RawDraw::new(draw), mean, std }.threads(
        device,
        op,
        n.div_ceil(4),
    )?;
    Ok(out)
}

fn check_normal<T: Float>(op: &'static str, mean: T, std: T) -> Result<()> {
    if std >= T::default() && T::is_finite(std) && T::is_finite(mean) {
        return Ok(());
    }
    let message = format!("expected a finite mean and std >= 0, got {mean:?} and {std:?}");
    Err(CudaError::invalid(op, message))
}

/// Draws `n` exponential numbers with the given rate: [`Draw::exponential_f32`].
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if the rate is not positive and finite.
pub fn exponential(device: &Device, draw: &Draw, n: usize, rate: f32) -> Result<Buffer<f32>> {
    let op = "exponential";
    if !(rate > 0.0 && rate.is_finite()) {
        return Err(CudaError::invalid(op, format!("expected a positive rate, got {rate}")));
    }
    let mut out = device.uninitialised(op, n)?;
    kernels::Exponential { out: &mut out, n, draw: RawDraw::new(draw), rate }.threads(
        device,
        op,
        n.div_ceil(4),
    )?;
    Ok(out)
}

/// Draws `n` events of probability `p`, 1 or 0: [`Draw::bernoulli`].
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if `p` is not in `[0, 1]`.
pub fn bernoulli(device: &Device, draw: &Draw, n: usize, p: f64) -> Result<Buffer<u8>> {
    let op = "bernoulli";
    let (last, any) = below(op, p)?;
    let mut out = device.uninitialised(op, n)?;
    kernels::Bernoulli { out: &mut out, n, draw: RawDraw::new(draw), last, any }.threads(
        device,
        op,
        n.div_ceil(4),
    )?;
    Ok(out)
}

/// Drops each element with probability `p` and scales the others by 1 / (1 − `p`). Returns the
/// result and the mask, 1 for a kept element: [`Draw::dropout`].
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if `p` is not in `[0, 1]`.
pub fn dropout<T: Float>(
    device: &Device,
    draw: &Draw,
    x: &Buffer<T>,
    p: f64,
) -> Result<(Buffer<T>, Buffer<u8>)> {
    let op = "dropout";
    let (last, any) = below(op, p)?;
    let scale = T::from_f64(if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) });
    let n = x.len();
    let mut out = device.uninitialised(op, n)?;
    let mut mask = device.uninitialised(op, n)?;
    kernels::Dropout {
        out: &mut out,
        mask: &mut mask,
        input: x,
        n,
        draw: RawDraw::new(draw),
        last,
        any,
        scale,
    }
    .threads(device, op, n.div_ceil(4))?;
    Ok((out, mask))
}

/// Draws `n` uniform integers in `[low, high)` without bias: [`Draw::randint`].
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if `low >= high`.
pub fn randint(device: &Device, draw: &Draw, n: usize, low: i64, high: i64) -> Result<Buffer<i64>> {
    let op = "randint";
    if low >= high {
        return Err(CudaError::invalid(op, format!("expected low < high, got {low} and {high}")));
    }
    let range = high.wrapping_sub(low) as usize;
    let excess = range.wrapping_neg() % range;
    let [space0, space1, ..] = Philox4x32::from_seed(draw.seed() ^ SPACE).at(0, draw.stream());
    let mut out = device.uninitialised(op, n)?;
    kernels::Randint {
        out: &mut out,
        n,
        draw: RawDraw::new(draw),
        low,
        range,
        excess,
        space0,
        space1,
    }
    .threads(device, op, n.div_ceil(2))?;
    Ok(out)
}

/// Returns the largest word that means an event, and 1 if any word does.
pub(crate) fn below(op: &'static str, p: f64) -> Result<(u32, u32)> {
    if !(0.0..=1.0).contains(&p) {
        return Err(CudaError::invalid(op, format!("expected a probability in [0, 1], got {p}")));
    }
    // Exact: a multiplication by a power of two, and an integer of at most 33 bits.
    let bound = (p * 4294967296.0).ceil() as u64;
    Ok((bound.wrapping_sub(1) as u32, u32::from(bound > 0)))
}

impl RawDraw {
    pub(crate) fn new(draw: &Draw) -> RawDraw {
        RawDraw { seed: draw.seed(), stream: draw.stream(), first: draw.first() }
    }
}
