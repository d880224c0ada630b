//! Whether a zero may be multiplied where the contract skips. Tests include this file.

use rayon::prelude::*;
use samebits_numerics::simd;

/// Whether multiplying with zero, where the contract skips, changes no bit of any sum.
///
/// With finite weights it can only turn a −0 into +0. A chain from +0 comes to −0 by underflow
/// alone, and there is none if every product is a multiple of the smallest subnormal number: then
/// every sum is one too.
pub(crate) fn zeros_are_harmless(weights: &[f32], source: &[f32]) -> bool {
    let (least_weight, finite) = extent(weights);
    let (least_source, _) = extent(source);
    finite && unit(least_weight) + unit(least_source) >= -149
}

/// The bits of the smallest magnitude but zero, and whether all values are finite.
fn extent(values: &[f32]) -> (u32, bool) {
    struct Extent<'a>(&'a [f32]);
    impl simd::Kernel for Extent<'_> {
        type Output = (u32, u32);
        #[inline(always)]
        fn run(self) -> (u32, u32) {
            // Zero wraps round to the largest number.
            self.0.iter().fold((u32::MAX, 0), |(least, most), value| {
                let magnitude = value.to_bits() & 0x7fff_ffff;
                (least.min(magnitude.wrapping_sub(1)), most.max(magnitude))
            })
        }
    }
    let (least, most) = values
        .par_chunks(1 << 16)
        .map(|piece| simd::dispatch(Extent(piece)))
        .reduce(|| (u32::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    (least.wrapping_add(1), most < 0x7f80_0000)
}

/// The exponent of the last bit of a magnitude; without any, that of the largest number.
pub(crate) fn unit(magnitude: u32) -> i32 {
    if magnitude == 0 { 104 } else { ((magnitude >> 23) as i32).max(1) - 150 }
}
