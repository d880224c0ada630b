//! Padding of up to three dimensions: constant, reflect, replicate, circular.

use bytemuck::{Pod, Zeroable};
use cudarc::driver::CudaSlice;

use crate::Variant;
use crate::device::{Device, Float, Word, atomic, expect_len, of, product, sized};
use crate::error::{CudaError, Result};
use crate::pooling::sizes;

const FAMILY: &str = "padding";

/// What stands outside the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadMode {
    /// One value.
    Constant,
    /// The input mirrored at its first and last element.
    Reflect,
    /// The first and the last element.
    Replicate,
    /// The input again.
    Circular,
}

/// A checked padding of planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Padding {
    raw: RawPad,
}

impl Padding {
    /// Pads `planes` planes of size `input` by (before, after) amounts in each dimension;
    /// negative ones cut off.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] if the lists differ in length, nothing is left, or the
    /// input has too few elements for the mode: reflection needs more than the amount, a
    /// circle at least as many, replication one.
    pub fn new(
        planes: usize,
        input: &[usize],
        amounts: &[(i32, i32)],
        mode: PadMode,
    ) -> Result<Padding> {
        let op = "pad";
        let dims = input.len();
        if amounts.len() != dims {
            return Err(CudaError::invalid(
                op,
                format!("amounts {amounts:?} for an input of {input:?}"),
            ));
        }
        let mut raw = RawPad {
            planes: planes as u64,
            input: sizes(op, "input", input, dims, 0)?,
            output: [1; 3],
            before: [0; 3],
            mode: mode as u32,
        };
        for (d, (&size, &(before, after))) in input.iter().zip(amounts).enumerate() {
            let most = i64::from(before.max(after));
            let fits = match mode {
                PadMode::Constant => true,
                PadMode::Reflect => most < size as i64 || (most <= 0 && size == 0),
                PadMode::Replicate => size > 0 || most <= 0,
                PadMode::Circular => most <= size as i64,
            };
            let out = size as i64 + i64::from(before) + i64::from(after);
            if !fits || !(0..1 << 31).contains(&out) {
                return Err(CudaError::invalid(
                    op,
                    format!("cannot pad size {size} by {before} and {after} with {mode:?}"),
                ));
            }
            let at = 3 - dims + d;
            (raw.output[at], raw.before[at]) = (out as u32, before);
        }
        Ok(Padding { raw })
    }

    /// The size of an output plane, in three dimensions.
    pub fn output_size(&self) -> [usize; 3] {
        self.raw.output.map(|x| x as usize)
    }

    fn lengths(&self, op: &'static str) -> Result<(usize, usize)> {
        let volume = |[d, h, w]: [u32; 3]| {
            product(op, &[self.raw.planes as usize, d as usize, h as usize, w as usize])
        };
        Ok((volume(self.raw.input)?, volume(self.raw.output)?))
    }
}

/// The padded input. `value` stands outside in [`PadMode::Constant`].
///
/// # Determinism
///
/// Copies bits.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for a type of 1 byte.
pub fn pad<T: Word>(
    device: &Device,
    x: &CudaSlice<T>,
    padding: &Padding,
    value: T,
) -> Result<CudaSlice<T>> {
    let op = "pad";
    let (n_in, n) = padding.lengths(op)?;
    expect_len(op, "the input", x, n_in)?;
    let name = sized::<T>(["pad_b8", "pad_b32", "pad_b64"]);
    let mut out = device.uninitialised(op, n)?;
    device
        .kernel(op, FAMILY, name)?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .value(&padding.raw)
        .bits(&value)
        .threads(n, device.block())?;
    Ok(out)
}

/// The gradient of [`pad`] with respect to its input.
///
/// # Determinism
///
/// Deterministic: the outputs that copied an element are added in ascending output index from
/// +0. Atomic: in the order of arrival.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn pad_grad<T: Float>(
    device: &Device,
    grad: &CudaSlice<T>,
    padding: &Padding,
    variant: Variant,
) -> Result<CudaSlice<T>> {
    let op = "pad";
    let (n_in, n) = padding.lengths(op)?;
    expect_len(op, "the gradient", grad, n)?;
    let mut out = device.zeros_for::<T>(op, n_in)?;
    let (name, threads) = match variant {
        Variant::Deterministic => (of::<T>(["pad_grad_f32", "pad_grad_f64"]), n_in),
        Variant::Atomic => (atomic::<T>(op, "pad_grad_f32_atomic")?, n),
    };
    device
        .kernel(op, FAMILY, name)?
        .on(device.stream())
        .write(&mut out)
        .read(grad)
        .value(&padding.raw)
        .threads(threads, device.block())?;
    Ok(out)
}

/// `SbPad` of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct RawPad {
    planes: u64,
    input: [u32; 3],
    output: [u32; 3],
    before: [i32; 3],
    mode: u32,
}
