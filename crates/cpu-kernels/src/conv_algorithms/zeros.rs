//! The test for data on which multiplying with a zero is equivalent to skipping. Tests include this
//! file.

use samebits_numerics::simd;

/// The magnitudes of some values that the test needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The bits of the smallest nonzero magnitude, minus one; the largest number if there is none.
    least: u32,
    /// The bits of the largest magnitude.
    most: u32,
}

impl Extent {
    /// The extent of no values.
    pub(crate) const NONE: Extent = Extent { least: u32::MAX, most: 0 };

    pub(crate) fn of(values: &[f32]) -> Extent {
        simd::dispatch(Values(values))
    }

    pub(crate) fn with(self, other: Extent) -> Extent {
        Extent { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

struct Values<'a>(&'a [f32]);

impl simd::Kernel for Values<'_> {
    type Output = Extent;
    #[inline(always)]
    fn run(self) -> Extent {
        self.0.iter().fold(Extent::NONE, |extent, value| {
            let magnitude = value.to_bits() & 0x7fff_ffff;
            // Zero wraps to the largest number.
            extent.with(Extent { least: magnitude.wrapping_sub(1), most: magnitude })
        })
    }
}

/// Returns true if multiplying with zero, where the contract skips, changes no bit of any sum.
///
/// With finite weights it can only turn a −0 into +0. A chain from +0 reaches −0 only by underflow.
/// There is no underflow if every product is a multiple of the smallest subnormal number, because
/// then every sum is one too.
pub(crate) fn zeros_are_harmless(weights: Extent, source: Extent) -> bool {
    let least = |extent: Extent| unit(extent.least.wrapping_add(1));
    weights.most < 0x7f80_0000 && least(weights) + least(source) >= -149
}

/// Returns the exponent of the last bit of a magnitude; if there is none, that of the largest
/// number.
pub(crate) fn unit(magnitude: u32) -> i32 {
    if magnitude == 0 { 104 } else { ((magnitude >> 23) as i32).max(1) - 150 }
}
