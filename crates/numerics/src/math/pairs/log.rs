//! Logarithms by a table of inverses (P.-T. P. Tang, *Table-driven implementation of the
//! logarithm function in IEEE floating-point arithmetic*, ACM TOMS 16(4), 1990).
//!
//! x = 2^k m with m in one of 32 intervals, each of which has an inverse c of few bits. r = c m - 1 is
//! exact and below 2^-5, and log x = k log 2 - log c + log(1 + r). Near 1, c is 1.

use super::table::Table;
use super::{Bounded, Vector, from_bits, rounded};
use crate::math::fma::NAN;
use crate::math::log;
use crate::simd::Aligned;

/// Returns `numbers` times `unit`.
const fn fixed<const N: usize>(numbers: [i16; N], unit: f32) -> [f32; N] {
    let mut floats = [0.0; N];
    let mut i = 0;
    while i < N {
        floats[i] = numbers[i] as f32 * unit;
        i += 1;
    }
    floats
}

/// The bits of the least m, 0.7109375.
const FIRST: i32 = 0x3f36_0000;
/// The inverses c, near the inverse of the middle of each interval, in 64ths.
static INVERSES: Table = Aligned(fixed(
    [
        90, 88, 86, 84, 82, 80, 78, 78, 76, 74, 74, 72, 70, 70, 68, 68, 66, 64, 64, 62, 60, 59, 57,
        55, 54, 53, 51, 50, 49, 48, 47, 46,
    ],
    1.0 / 64.0,
));
/// The numbers -log c in multiples of 2^-16, and what that lost.
static NATURAL: [Table; 2] = [
    Aligned(fixed(
        [
            -22343, -20870, -19364, -17821, -16242, -14624, -12965, -12965, -11262, -9515, -9515,
            -7719, -5873, -5873, -3973, -3973, -2017, 0, 0, 2081, 4230, 5331, 7591, 9932, 11135,
            12360, 14880, 16178, 17502, 18854, 20233, 21643,
        ],
        1.0 / 65536.0,
    )),
    Aligned(from_bits([
        0x3510_29fe,
        0xb63c_21c6,
        0x36ea_28f7,
        0xb6e5_5d5d,
        0xb643_6af2,
        0x3583_8656,
        0x3695_8c2f,
        0x3695_8c2f,
        0xb6c1_c29e,
        0x36b4_1f80,
        0x36b4_1f80,
        0xb4ed_c55e,
        0x3635_d46a,
        0x3635_d46a,
        0xb5c3_0046,
        0xb5c3_0046,
        0x36b2_78c4,
        0x0000_0000,
        0x0000_0000,
        0xb6a2_7619,
        0xb6ce_94c4,
        0x358a_e904,
        0x361d_8e11,
        0xb4d3_fa9c,
        0xb6fe_52af,
        0xb6fa_6ab9,
        0x36df_c995,
        0x3663_659e,
        0x3668_227e,
        0xb6ef_7659,
        0x3693_b99a,
        0xb68f_c63b,
    ])),
];
/// The numbers -log2 c in multiples of 2^-16, and what that lost.
static BINARY: [Table; 2] = [
    Aligned(fixed(
        [
            -32234, -30109, -27936, -25711, -23433, -21098, -18704, -18704, -16248, -13727, -13727,
            -11136, -8473, -8473, -5732, -5732, -2909, 0, 0, 3002, 6102, 7691, 10952, 14329, 16064,
            17831, 21468, 23340, 25250, 27200, 29190, 31224,
        ],
        1.0 / 65536.0,
    )),
    Aligned(from_bits([
        0xb5ad_1961,
        0xb69f_0197,
        0x36a0_463c,
        0x35ae_dc1d,
        0x36f1_9318,
        0x35f6_865d,
        0xb5f5_61c1,
        0xb5f5_61c1,
        0xb635_c813,
        0x3687_492c,
        0x3687_492c,
        0xb651_cfdf,
        0x369d_cc96,
        0x369d_cc96,
        0x3510_536f,
        0x3510_536f,
        0xb6d3_758f,
        0x0000_0000,
        0x0000_0000,
        0xb656_6c4d,
        0x3492_d9f7,
        0x35d7_4798,
        0xb68f_5801,
        0xb642_c000,
        0xb69d_5be7,
        0x33a6_c7e3,
        0xb589_a627,
        0x3676_865d,
        0x36c0_55fe,
        0xb5d1_cfdf,
        0x36ee_16a3,
        0xb620_1ac7,
    ])),
];
/// The numbers -log10 c in multiples of 2^-16, and what that lost.
static DECIMAL: [Table; 2] = [
    Aligned(fixed(
        [
            -9703, -9064, -8409, -7740, -7054, -6351, -5631, -5631, -4891, -4132, -4132, -3352,
            -2551, -2551, -1725, -1725, -876, 0, 0, 904, 1837, 2315, 3297, 4313, 4836, 5368, 6462,
            7026, 7601, 8188, 8787, 9399,
        ],
        1.0 / 65536.0,
    )),
    Aligned(from_bits([
        0xb6da_4717,
        0x3647_09b6,
        0xb6f5_9e9b,
        0x3679_53c8,
        0x35d9_62a6,
        0xb5c1_c432,
        0x36ff_6eea,
        0x36ff_6eea,
        0xb641_5712,
        0xb623_07c2,
        0xb623_07c2,
        0xb6a9_d60a,
        0x36ee_665a,
        0x36ee_665a,
        0xb6fc_9580,
        0xb6fc_9580,
        0x3637_b8a7,
        0x0000_0000,
        0x0000_0000,
        0xb6bd_f222,
        0xb5e0_664f,
        0x3681_b5c9,
        0xb650_a820,
        0x36cd_98ca,
        0xb6b1_7e91,
        0xb6aa_4c88,
        0x36fb_c1f8,
        0x35e6_8b8b,
        0x35f6_bb35,
        0xb475_10e2,
        0x3652_7d9f,
        0x36a0_856c,
    ])),
];

/// The coefficients of r^3 to r^0 of (log(1 + r) - r + r^2 / 2) / r^3.
const COEFFICIENTS: [f32; 4] = from_bits([0xbe2a_bc4d, 0x3e4c_e0f4, 0xbe80_0000, 0x3eaa_aaaa]);

/// More than the error, relatively, confirmed by trying all inputs.
const BOUND: f32 = 1e-10;

/// A logarithm.
pub(in super::super) trait Logarithm {
    /// The logarithm of 2: leading bits whose product with an exponent is exact, and the rest.
    const TWO: [f32; 2];
    /// Minus the logarithms of [`INVERSES`].
    const INVERSES: &'static [Table; 2];
    /// The logarithm of e, as a pair, if it is not 1.
    const E: Option<[f32; 2]>;
    /// True for the logarithm of 1 + x.
    const OF_ONE_PLUS: bool = false;

    /// Computes the function in f64.
    fn value(x: f32) -> f32;
}

/// [`log`](log::log()).
pub(in super::super) struct Log;
/// [`log2`](log::log2()).
pub(in super::super) struct Log2;
/// [`log10`](log::log10()).
pub(in super::super) struct Log10;
/// [`log1p`](log::log1p()).
pub(in super::super) struct Log1p;

impl Logarithm for Log {
    const TWO: [f32; 2] = [45426.0 / 65536.0, f32::from_bits(0x35bf_be8e)];
    const INVERSES: &'static [Table; 2] = &NATURAL;
    const E: Option<[f32; 2]> = None;

    #[inline(always)]
    fn value(x: f32) -> f32 {
        log::log(x)
    }
}

impl Logarithm for Log2 {
    const TWO: [f32; 2] = [1.0, 0.0];
    const INVERSES: &'static [Table; 2] = &BINARY;
    const E: Option<[f32; 2]> = Some(from_bits([0x3fb8_aa3b, 0x32a5_7060]));

    #[inline(always)]
    fn value(x: f32) -> f32 {
        log::log2(x)
    }
}

impl Logarithm for Log10 {
    const TWO: [f32; 2] = [39457.0 / 131072.0, f32::from_bits(0xb64a_f608)];
    const INVERSES: &'static [Table; 2] = &DECIMAL;
    const E: Option<[f32; 2]> = Some(from_bits([0x3ede_5bd9, 0xb22d_91af]));

    #[inline(always)]
    fn value(x: f32) -> f32 {
        log::log10(x)
    }
}

impl Logarithm for Log1p {
    const TWO: [f32; 2] = Log::TWO;
    const INVERSES: &'static [Table; 2] = Log::INVERSES;
    const E: Option<[f32; 2]> = None;
    const OF_ONE_PLUS: bool = true;

    #[inline(always)]
    fn value(x: f32) -> f32 {
        log::log1p(x)
    }
}

/// The arguments between which a logarithm is certain: the normal numbers.
const LEAST: f32 = f32::MIN_POSITIVE;
const MOST: f32 = f32::MAX;
/// Those of log1p, for which no step overflows.
const LEAST_ADDEND: f32 = -0.99999994;
const MOST_ADDEND: f32 = 1e30;

/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn nearest<V: Vector, L: Logarithm>(x: V) -> (V, V::Mask) {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        let is_number = zero.is_at_most(x);
        let argument = match L::OF_ONE_PLUS {
            true => one.add(x),
            false => V::select(is_number, x, one),
        };
        let place = V::sub_bits(argument.bits(), V::splat_bits(FIRST));
        let k = V::exponent(place);
        let exponent = V::and_bits(place, V::splat_bits(-1 << 23));
        let m = V::from_bits(V::sub_bits(argument.bits(), exponent));
        let c = V::lookup_interval(place, &INVERSES);
        let mut r = m.fms(c, one);
        let high = k.fma(V::splat(L::TWO[0]), V::lookup_interval(place, &L::INVERSES[0]));
        let mut low = k.fma(V::splat(L::TWO[1]), V::lookup_interval(place, &L::INVERSES[1]));
        let is_certain;
        if L::OF_ONE_PLUS {
            // What the rounding of 1 + x lost changes r, and the logarithm by as much over 1 + r. Near 1,
            // x is r.
            let lost = one.min(x).sub(argument.sub(one.max(x)));
            let scale = V::from_bits(V::sub_bits(one.bits(), exponent));
            let lost = lost.mul(scale).mul(c);
            let is_near = high.is_equal(zero);
            let change = lost.fma(r.fms(r, r), lost);
            low = V::select(is_near, low, low.add(change));
            r = V::select(is_near, x, r);
            let is_above = V::splat(LEAST_ADDEND).is_at_most(x);
            is_certain = V::both(is_above, x.is_at_most(V::splat(MOST_ADDEND)));
        } else {
            let is_normal = V::splat(LEAST).is_at_most(argument);
            is_certain = V::both(is_normal, argument.is_at_most(V::splat(MOST)));
        }

        // log(1 + r) as a pair: what the roundings of the square and of the sum lost is exact.
        let square = r.mul(r);
        let lost = r.fms(r, square);
        let half = V::splat(-0.5);
        let mut head = half.fma(square, r);
        let lost = half.fma(lost, half.fma(square, r.sub(head)));
        let mut cubic = V::splat(COEFFICIENTS[0]);
        for &coefficient in &COEFFICIENTS[1..] {
            cubic = cubic.fma(r, V::splat(coefficient));
        }
        let mut tail = cubic.fma(square.mul(r), lost);
        if let Some([e, e_tail]) = L::E {
            let (natural, e) = (head, V::splat(e));
            head = natural.mul(e);
            let lost = natural.fms(e, head);
            tail = tail.fma(e, natural.fma(V::splat(e_tail), lost));
        }

        // The high part is zero, or larger than the head.
        let sum = high.add(head);
        let lost = head.sub(sum.sub(high));
        let tail = lost.add(tail.add(low));
        let (y, is_rounded) = rounded(sum, tail, sum.mul(V::splat(BOUND)));
        let y = match L::OF_ONE_PLUS {
            // Zero keeps its sign.
            true => y.with_sign(x),
            false => V::select(is_number, y, V::splat(f32::from_bits(NAN))),
        };
        (y, V::both(is_certain, is_rounded))
    }
}

// SAFETY: all is inlined, and the caller guarantees the instructions.
unsafe impl<V: Vector, L: Logarithm> Bounded<V, 2> for L {
    #[inline(always)]
    unsafe fn nearest(x: [V; 2]) -> [(V, V::Mask); 2] {
        // SAFETY: as above.
        unsafe { [nearest::<V, L>(x[0]), nearest::<V, L>(x[1])] }
    }

    #[inline(always)]
    unsafe fn again(x: &[f32], y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = L::value(x);
        }
    }
}
