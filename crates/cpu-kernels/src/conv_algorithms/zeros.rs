//! Whether a zero may be multiplied where the contract skips. Tests include this file.

use samebits_numerics::simd;

/// What decides about some values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The bits of the smallest magnitude but zero, less one: none is the largest number.
    least: u32,
    /// The bits of the largest magnitude.
    most: u32,
}

impl Extent {
    /// That of no value.
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
            // Zero wraps round to the largest number.
            extent.with(Extent { least: magnitude.wrapping_sub(1), most: magnitude })
        })
    }
}

/// Whether multiplying with zero, where the contract skips, changes no bit of any sum.
///
/// With finite weights it can only turn a −0 into +0. A chain from +0 comes to −0 by underflow
/// alone, and there is none if every product is a multiple of the smallest subnormal number: then
/// every sum is one too.
pub(crate) fn zeros_are_harmless(weights: Extent, source: Extent) -> bool {
    let least = |extent: Extent| unit(extent.least.wrapping_add(1));
    weights.most < 0x7f80_0000 && least(weights) + least(source) >= -149
}

/// The exponent of the last bit of a magnitude; without any, that of the largest number.
pub(crate) fn unit(magnitude: u32) -> i32 {
    if magnitude == 0 { 104 } else { ((magnitude >> 23) as i32).max(1) - 150 }
}
