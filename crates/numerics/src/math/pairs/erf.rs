//! The error function with AVX-512, as a polynomial around the nearest multiple of 1/8.

use core::arch::x86_64::*;

use super::{Bounded, Vector, from_bits, rounded};
use crate::math::erf;
use crate::math::fma::nan_if;
use crate::math::pairs::exp::ROUND;
use crate::math::pairs::table::{Table, lookup};
use crate::simd::Aligned;

/// The error function.
pub(in super::super) struct Erf;

/// Below the last boundary between two multiples of 1/8; from here on the function rounds to 1.
const LIMIT: f32 = 3.937;
/// From here on the tails are normal f32.
const TINY: f32 = 1e-30;

/// The values erf(i/8) from 0 up to [`LIMIT`], rounded.
static VALUES: Table = Aligned(from_bits([
    0x0000_0000,
    0x3e0f_af0d,
    0x3e8d_7aa7,
    0x3ece_e869,
    0x3f05_3f7b,
    0x3f1f_8cb7,
    0x3f36_0e4c,
    0x3f48_b925,
    0x3f57_bb3d,
    0x3f63_6d69,
    0x3f6c_432f,
    0x3f72_bb46,
    0x3f77_52ab,
    0x3f7a_7b4a,
    0x3f7c_9684,
    0x3f7d_f30f,
    0x3f7e_cd71,
    0x3f7f_5211,
    0x3f7f_a024,
    0x3f7f_ccb0,
    0x3f7f_e554,
    0x3f7f_f28a,
    0x3f7f_f968,
    0x3f7f_fcdd,
    0x3f7f_fe8d,
    0x3f7f_ff5a,
    0x3f7f_ffb8,
    0x3f7f_ffe2,
    0x3f7f_fff4,
    0x3f7f_fffb,
    0x3f7f_fffe,
    0x3f7f_ffff,
]));
/// What the roundings of VALUES lost.
static VALUE_TAILS: Table = Aligned(from_bits([
    0x0000_0000,
    0x30d7_0e87,
    0x310c_b533,
    0x3237_21dd,
    0xb1f9_c4b5,
    0xb1cb_c3ce,
    0xb2a6_2f1c,
    0xb2ae_4702,
    0x3268_211b,
    0x3282_9ecc,
    0xb24e_a834,
    0x31ed_2910,
    0xb28e_c850,
    0xb213_0850,
    0xb280_72aa,
    0x32ef_4cf5,
    0xb2bd_86a3,
    0xb265_34da,
    0xb29f_ce66,
    0x32f3_eb32,
    0x32f4_c9be,
    0x32bb_dc19,
    0xb21f_7585,
    0x3204_1d07,
    0x32c4_1360,
    0xb122_6cc2,
    0xb241_3035,
    0xb2e9_2613,
    0xb2ef_2a9a,
    0x3146_1ed3,
    0x31bc_5c79,
    0x3292_ced9,
]));
/// The slopes at i/8, rounded.
static SLOPES: Table = Aligned(from_bits([
    0x3f90_6ebb,
    0x3f8e_317d,
    0x3f87_ae8b,
    0x3f7a_f867,
    0x3f60_f7e5,
    0x3f43_74b5,
    0x3f24_9721,
    0x3f06_55b1,
    0x3ed4_88f8,
    0x3ea2_f4ce,
    0x3e72_3298,
    0x3e2e_72cb,
    0x3df3_91b9,
    0x3da4_cea4,
    0x3d58_2a98,
    0x3d09_675a,
    0x3ca9_4dcf,
    0x3c4a_3127,
    0x3bea_0a1d,
    0x3b83_48c6,
    0x3b0e_c18c,
    0x3a96_744c,
    0x3a19_b066,
    0x3998_29c8,
    0x3912_0475,
    0x3887_cf0e,
    0x37f4_daf5,
    0x3755_f050,
    0x36b5_2cba,
    0x3614_b539,
    0x356c_9b91,
    0x34b6_70d7,
]));
/// What the roundings of SLOPES lost.
static SLOPE_TAILS: Table = Aligned(from_bits([
    0xb37b_d649,
    0x31ee_d6ca,
    0x3021_0a3e,
    0xb222_721b,
    0x3213_e485,
    0xb2be_0441,
    0x32d8_9508,
    0xb0e7_10a3,
    0x3218_adde,
    0xb14c_d43f,
    0xb122_c88d,
    0xb0ef_ec04,
    0x30d2_c798,
    0xb0ed_f32f,
    0x2fb2_d346,
    0xb084_7018,
    0x3006_eb64,
    0x2f64_57dc,
    0x2f19_2b32,
    0xaf1b_cd14,
    0xaee8_80d4,
    0x2e14_0f6c,
    0x2df7_41bd,
    0xaafd_98e7,
    0x2b1e_7e00,
    0xab5f_59a7,
    0x2905_8128,
    0x288e_1979,
    0xa969_6ae5,
    0x29c3_d1ed,
    0xa70d_1aa9,
    0xa65a_9d09,
]));
/// The coefficients of d^6 to d^2.
static COEFFICIENTS: [Table; 5] = [
    Aligned(from_bits([
        0xbb89_513c,
        0xbcb9_4b93,
        0xbd25_b63a,
        0xbd4c_e093,
        0xbd4c_a660,
        0xbd29_2276,
        0xbcdb_fe02,
        0xbc2a_19fa,
        0x3b95_ea32,
        0x3c7d_c8c9,
        0x3cae_22ba,
        0x3cb5_45b2,
        0x3c9e_2b34,
        0x3c6c_1905,
        0x3c12_f194,
        0x3b86_e26a,
        0x39f7_4c7d,
        0xbaed_5202,
        0xbb3d_d407,
        0xbb4b_c7ab,
        0xbb37_44a7,
        0xbb13_3b06,
        0xbad9_51ef,
        0xba95_920f,
        0xba41_bfb9,
        0xb9ed_995d,
        0xb98a_7fd3,
        0xb919_f869,
        0xb8a3_9a6d,
        0xb826_74c1,
        0xb7a2_66cb,
        0xb718_1dd9,
    ])),
    Aligned(from_bits([
        0x3de7_8f9d,
        0x3dd5_0746,
        0x3da3_b904,
        0x3d3a_1d3c,
        0x3bf1_2cb0,
        0xbcdf_caf0,
        0xbd59_910c,
        0xbd89_65e4,
        0xbd8d_7a5e,
        0xbd7a_e9b2,
        0xbd41_26e1,
        0xbcfa_cd9d,
        0xbc74_1978,
        0xbb0e_ae8b,
        0x3bd7_b5ff,
        0x3c3b_404e,
        0x3c56_12bd,
        0x3c4c_8437,
        0x3c2e_8a45,
        0x3c08_f0ef,
        0x3bc8_9311,
        0x3b8a_5d26,
        0x3b34_e4d8,
        0x3ae1_08cd,
        0x3a85_9745,
        0x3a17_b98a,
        0x39a5_213d,
        0x392c_7671,
        0x38ad_0bb2,
        0x3826_f7a2,
        0x379b_0abe,
        0x370a_a517,
    ])),
    Aligned(from_bits([
        0xb6ab_68c7,
        0x3d8c_b640,
        0x3e02_0739,
        0x3e2a_94c8,
        0x3e3b_7932,
        0x3e34_b1dc,
        0x3e1a_4dac,
        0x3de6_3030,
        0x3d8d_b0b2,
        0x3ce5_287f,
        0xbbc9_d3eb,
        0xbcf9_dc3f,
        0xbd36_ad3f,
        0xbd4b_a5ff,
        0xbd45_06d6,
        0xbd2d_18ba,
        0xbd0d_1635,
        0xbcd7_f2b8,
        0xbc9c_54cc,
        0xbc57_2cbd,
        0xbc0d_44e2,
        0xbbb1_6a65,
        0xbb55_860c,
        0xbaf6_a54e,
        0xba88_e417,
        0xba12_2a03,
        0xb996_3e7a,
        0xb914_c77f,
        0xb88e_035f,
        0xb802_ba9c,
        0xb768_36c2,
        0xb6c7_0eec,
    ])),
    Aligned(from_bits([
        0xbec0_93a2,
        0xbeb7_aa8c,
        0xbe9e_4b9b,
        0xbe70_835e,
        0xbe15_fa9e,
        0xbd64_085a,
        0x3cdb_73a9,
        0x3dbe_4e99,
        0x3e0d_b098,
        0x3e26_59df,
        0x3e2b_8e7e,
        0x3e21_ba6d,
        0x3e0e_1506,
        0x3deb_319a,
        0x3db8_a46d,
        0x3d8a_1e97,
        0x3d45_857e,
        0x3d07_5242,
        0x3cb1_f7b6,
        0x3c60_f606,
        0x3c08_cec9,
        0x3ba0_3fcb,
        0x3b34_e77e,
        0x3ac4_f081,
        0x3a4e_db4c,
        0x39d1_b945,
        0x394d_51a9,
        0x38c2_285c,
        0x3831_659f,
        0x379c_a4a8,
        0x3705_b44e,
        0x365c_adf9,
    ])),
    Aligned(from_bits([
        0xae5b_4613,
        0xbe0e_317d,
        0xbe87_ae8b,
        0xbebc_3a4d,
        0xbee0_f7e5,
        0xbef4_51e2,
        0xbef6_e2b2,
        0xbeeb_15f6,
        0xbed4_88f8,
        0xbeb7_5368,
        0xbe97_5f9f,
        0xbe6f_ddd7,
        0xbe36_ad4b,
        0xbe05_e7e5,
        0xbdbd_2545,
        0xbd80_d0e4,
        0xbd29_4dcf,
        0xbcd6_d43a,
        0xbc83_a5b0,
        0xbc1b_e66b,
        0xbbb2_71ee,
        0xbb45_78a4,
        0xbad3_528d,
        0xba5a_bc0f,
        0xb9db_06af,
        0xb954_3385,
        0xb8c6_f1e7,
        0xb834_82c3,
        0xb79e_8722,
        0xb706_c43c,
        0xb65d_d1d7,
        0xb5b0_bd4f,
    ])),
];

/// More than the error, as the coefficients of the part of the polynomial beyond the slope and of the
/// value, confirmed by trying all inputs. That part is negative.
const BOUND: [f32; 2] = [-2.4e-7, 3e-11];

/// # Safety
///
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn nearest(x: __m512) -> (__m512, __mmask16) {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let a = x.abs();
        // A NaN stays one.
        let within = __m512::splat(LIMIT).min(a);
        let place = within.fma(__m512::splat(8.0), __m512::splat(ROUND));
        let d = place.sub(__m512::splat(ROUND)).fma_negated(__m512::splat(0.125), within);
        let bits = place.bits();

        let mut beyond = lookup(bits, &COEFFICIENTS[0]);
        for table in &COEFFICIENTS[1..] {
            beyond = beyond.fma(d, lookup(bits, table));
        }
        let beyond = beyond.fma(d, lookup(bits, &SLOPE_TAILS));

        // What the roundings of the product and of the sum lost is exact.
        let (value, slope) = (lookup(bits, &VALUES), lookup(bits, &SLOPES));
        let product = slope.mul(d);
        let lost = _mm512_fmsub_ps(slope, d, product);
        let head = value.add(product);
        let lost = value.sub(head).add(product).add(lost.add(lookup(bits, &VALUE_TAILS)));
        let tail = beyond.fma(d, lost);

        let bound = beyond.mul(d).fma(__m512::splat(BOUND[0]), head.mul(__m512::splat(BOUND[1])));
        let (y, is_certain) = rounded(head, tail, bound);
        // Zero wraps around and is none of them.
        let before = _mm512_sub_epi32(a.bits(), _mm512_set1_epi32(1));
        let is_tiny = _mm512_cmplt_epu32_mask(before, _mm512_set1_epi32(TINY.to_bits() as i32 - 1));
        (y.with_sign(x), is_certain & !is_tiny)
    }
}

// SAFETY: all is inlined, and the caller guarantees the instructions.
unsafe impl Bounded<__m512, 2> for Erf {
    #[inline(always)]
    unsafe fn nearest(x: [__m512; 2]) -> [(__m512, __mmask16); 2] {
        // SAFETY: as above.
        unsafe { [nearest(x[0]), nearest(x[1])] }
    }

    #[inline(always)]
    unsafe fn again(x: &[f32], y: &mut [f32]) {
        // SAFETY: as above, and the slice has a vector.
        let large = unsafe {
            let a = __m512::load(x.as_ptr()).abs();
            __m512::splat(erf::LIMIT as f32).is_at_most(a)
        };
        if large == 0 {
            for (y, &x) in y.iter_mut().zip(x) {
                let found = erf::erf_small(x.abs().into()) as f32;
                *y = nan_if(x.is_nan(), found.copysign(x));
            }
        } else {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = erf::erf(x);
            }
        }
    }
}
