//! Numbers about all elements of several buffers, in a launch for each type and one wait.

use std::marker::PhantomData;

use samebits_numerics::exact::ExactSum64;
use samebits_tensor_core::{bf16, f16};

use crate::device::{Device, Float, Word};
use crate::error::Result;
use crate::launch::kernels::totals as kernels;
use crate::launch::{Buffer, Launch, Table};
use crate::optim::cast_all;

/// The elements of a buffer of any float type.
#[derive(Clone, Copy, Debug)]
pub enum Floats<'a> {
    /// Elements of f16.
    F16(&'a Buffer<f16>),
    /// Elements of bf16.
    BF16(&'a Buffer<bf16>),
    /// Elements of f32.
    F32(&'a Buffer<f32>),
    /// Elements of f64.
    F64(&'a Buffer<f64>),
}

/// The bits of the exponents.
const EXPONENT_F16: u16 = 0x7c00;
const EXPONENT_BF16: u16 = 0x7f80;
const EXPONENT_F32: u32 = 0x7f80_0000;
const EXPONENT_F64: u64 = 0x7ff0_0000_0000_0000;

/// The words of an exact sum: `SB_ACC64` of `kernels/include/exact64.cuh`. The last one has the flags.
const SUM: usize = 70;

/// Returns the position of the first of several buffers that holds NaN or an infinity.
///
/// # Determinism
///
/// Portable: an integer minimum.
///
/// # Errors
///
/// The errors of [`Device::synchronize`]; [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory).
pub fn first_not_finite(device: &Device, all: &[Floats<'_>]) -> Result<Option<usize>> {
    let op = "first_not_finite";
    let mut first = device.uninitialised::<u64>(op, 1)?;
    first.set(op, 0xff)?;
    let mut tables = [(); 4].map(|()| Table::new(device.block()));
    let [f16, bf16, f32, f64] = &mut tables;
    for (&floats, number) in all.iter().zip(0..) {
        match floats {
            Floats::F16(x) => f16.push_numbered(x, x.len(), number),
            Floats::BF16(x) => bf16.push_numbered(x, x.len(), number),
            Floats::F32(x) => f32.push_numbered(x, x.len(), number),
            Floats::F64(x) => f64.push_numbered(x, x.len(), number),
        }
    }
    let [f16, bf16, f32, f64] = &tables;
    find(device, op, &mut first, f16, EXPONENT_F16)?;
    find(device, op, &mut first, bf16, EXPONENT_BF16)?;
    find(device, op, &mut first, f32, EXPONENT_F32)?;
    find(device, op, &mut first, f64, EXPONENT_F64)?;
    let first = device.element(&first, 0)?;
    Ok(usize::try_from(first).ok().filter(|&first| first < all.len()))
}

fn find<T: Word>(
    device: &Device,
    op: &'static str,
    first: &mut Buffer<u64>,
    table: &Table<'_>,
    mask: T,
) -> Result<()> {
    table.launch(device, op, |rows, count, [grid, block]| {
        kernels::FirstNotFinite { first, rows, count, mask }.grid(device, op, grid, block)
    })
}

/// Returns the largest magnitude among the elements of several buffers, in f64: NaN if one is NaN, and 0
/// if there is no element.
///
/// # Determinism
///
/// Portable: an integer maximum.
///
/// # Errors
///
/// As [`first_not_finite`].
pub fn largest_magnitude(device: &Device, all: &[Floats<'_>]) -> Result<f64> {
    fn launch<T: Float>(
        device: &Device,
        op: &'static str,
        most: &mut Buffer<u64>,
        table: &Table<'_>,
    ) -> Result<()> {
        table.launch(device, op, |rows, count, [grid, block]| {
            kernels::LargestMagnitude::<T> { most, rows, count, t: PhantomData }
                .grid(device, op, grid, block)
        })
    }
    let op = "largest_magnitude";
    let mut most = device.zeros_for::<u64>(op, 1)?;
    let halves = widened(device, all)?;
    let [f32, f64] = tables(device, all, &halves);
    launch::<f32>(device, op, &mut most, &f32)?;
    launch::<f64>(device, op, &mut most, &f64)?;
    let most = f64::from_bits(device.element(&most, 0)?);
    Ok(if most.is_nan() { f64::NAN } else { most })
}

/// Returns the exact sum of `(|x| / scale)^p` over the elements of several buffers. The quotient and the
/// power are rounded to f64.
///
/// # Determinism
///
/// Portable: an exact sum.
///
/// # Errors
///
/// As [`first_not_finite`].
pub fn sum_of_powers(
    device: &Device,
    all: &[Floats<'_>],
    scale: f64,
    p: f64,
) -> Result<ExactSum64> {
    fn launch<T: Float>(
        device: &Device,
        op: &'static str,
        acc: &mut Buffer<u64>,
        table: &Table<'_>,
        [scale, exponent]: [f64; 2],
    ) -> Result<()> {
        table.launch(device, op, |rows, count, [grid, block]| {
            kernels::SumPowers::<T> { acc, rows, count, scale, exponent, t: PhantomData }
                .grid(device, op, grid, block)
        })
    }
    let op = "sum_of_powers";
    let mut acc = device.zeros_for::<u64>(op, SUM)?;
    let halves = widened(device, all)?;
    let [f32, f64] = tables(device, all, &halves);
    launch::<f32>(device, op, &mut acc, &f32, [scale, p])?;
    launch::<f64>(device, op, &mut acc, &f64, [scale, p])?;
    let words = device.download(&acc)?;
    let limbs: Vec<i64> = words[..SUM - 1].iter().map(|&limb| limb as i64).collect();
    let mut sum = ExactSum64::new();
    sum.add_limbs(&limbs);
    let specials = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN].into_iter().enumerate();
    sum.extend(specials.filter(|(bit, _)| words[SUM - 1] >> bit & 1 == 1).map(|(_, x)| x));
    Ok(sum)
}

/// Returns halves in f32, and nothing for other buffers.
fn widened(device: &Device, all: &[Floats<'_>]) -> Result<Vec<Option<Buffer<f32>>>> {
    let (mut f16, mut bf16) = (Vec::new(), Vec::new());
    for &floats in all {
        match floats {
            Floats::F16(x) => f16.push(x),
            Floats::BF16(x) => bf16.push(x),
            Floats::F32(_) | Floats::F64(_) => {}
        }
    }
    let mut f16 = cast_all(device, &f16)?.into_iter();
    let mut bf16 = cast_all(device, &bf16)?.into_iter();
    let next = |floats: &Floats<'_>| match floats {
        Floats::F16(_) => f16.next(),
        Floats::BF16(_) => bf16.next(),
        Floats::F32(_) | Floats::F64(_) => None,
    };
    Ok(all.iter().map(next).collect())
}

/// Returns tables of the buffers of f32, including widened halves, and of f64.
fn tables<'a>(
    device: &Device,
    all: &[Floats<'a>],
    halves: &'a [Option<Buffer<f32>>],
) -> [Table<'a>; 2] {
    let mut tables = [(); 2].map(|()| Table::new(device.block()));
    let [f32, f64] = &mut tables;
    for (&floats, half) in all.iter().zip(halves) {
        match (floats, half) {
            (Floats::F16(x), Some(wide)) => f32.push_numbered(wide, x.len(), 0),
            (Floats::BF16(x), Some(wide)) => f32.push_numbered(wide, x.len(), 0),
            (Floats::F32(x), _) => f32.push_numbered(x, x.len(), 0),
            (Floats::F64(x), _) => f64.push_numbered(x, x.len(), 0),
            (Floats::F16(_) | Floats::BF16(_), None) => {}
        }
    }
    tables
}
