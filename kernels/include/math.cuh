// Correctly rounded elementary functions of f32: samebits_numerics::math, operation by
// operation. Both sides evaluate in f64 by the same basic operations, so they give the same
// bits; that these are the correctly rounded ones is what the CPU's exhaustive check shows.
#pragma once

#include "samebits.cuh"

// 1.5 * 2^52: a sum with it holds the nearest integer in its low bits.
#define SB_ROUND 6755399441055744.0

__device__ __forceinline__ u64 sb_bits(double x) { return (u64)__double_as_longlong(x); }
__device__ __forceinline__ double sb_double(u64 bits) { return __longlong_as_double((i64)bits); }
__device__ __forceinline__ double sb_abs64(double x) { return sb_double(sb_bits(x) & ~(1ull << 63)); }

// x times 2^k, where `rounded` (a sum with SB_ROUND) holds k.
__device__ __forceinline__ double sb_scale(double x, double rounded) {
    return sb_double(sb_bits(x) + (sb_bits(rounded) << 52));
}

__device__ __forceinline__ double sb_flip_if_odd(double x, double rounded) {
    return sb_double(sb_bits(x) ^ (sb_bits(rounded) << 63));
}

// high + low rounded to odd, so that rounding it to f32 is as if the exact sum were rounded.
// |high| >= |low|, or high = 0.
__device__ __forceinline__ double sb_add_odd(double high, double low) {
    double sum = high + low;
    double lost = low - (sum - high);
    u64 step = 1ull - ((sb_bits(sum) ^ sb_bits(lost)) >> 63 << 1);
    bool mend = (sb_bits(sum) & 1ull) == 0 && lost != 0.0;
    return sb_double(mend ? sb_bits(sum) + step : sb_bits(sum));
}

// `value` if x has the bits `at`: mends an input whose true value is too near a boundary.
__device__ __forceinline__ float sb_except(float x, u32 at, u32 value, float y) {
    return __float_as_uint(x) == at ? __uint_as_float(value) : y;
}

__device__ __forceinline__ double sb_copysign64(double x, double sign) {
    return sb_double((sb_bits(x) & ~(1ull << 63)) | (sb_bits(sign) & (1ull << 63)));
}

__device__ __forceinline__ float sb_nan_if(bool condition, float y) {
    return condition ? sb_nan() : y;
}

// c[0] + x (c[1] + x (c[2] + ...)), one rounding per step.
template <int N>
__device__ __forceinline__ double sb_horner(double x, const double (&c)[N]) {
    double p = c[N - 1];
#pragma unroll
    for (int i = N - 2; i >= 0; --i) p = __fma_rn(p, x, c[i]);
    return p;
}

__device__ __forceinline__ double sb_clamp(double x, double low, double high) {
    x = x > high ? high : x;
    return x < low ? low : x;
}

// ---- Exponentials -------------------------------------------------------------------------

// k in the low bits of `rounded`, and r = x - k ln 2.
__device__ __forceinline__ double sb_reduce_ln2(double x, double* r) {
    const double log2_e = sb_double(0x3ff71547652b82feull);
    const double ln2_hi = sb_double(0x3fe62e42fefa2000ull);
    const double ln2_lo = sb_double(0x3d69ef35793c7673ull);
    double rounded = __fma_rn(x, log2_e, SB_ROUND);
    double k = rounded - SB_ROUND;
    *r = __fma_rn(-k, ln2_lo, __fma_rn(-k, ln2_hi, x));
    return rounded;
}

__device__ __forceinline__ float sb_exp(float x) {
    double r;
    double k = sb_reduce_ln2(sb_clamp((double)x, -110.0, 90.0), &r);
    const double c[] = {0.5,
                        0.16666666666666685,
                        0.04166666666660277,
                        0.008333333333314381,
                        0.0013888888927278025,
                        0.00019841269903674532,
                        2.4801508079521782e-05,
                        2.7557227394401727e-06,
                        2.7625424800821167e-07,
                        2.5114615907973533e-08};
    double y = sb_scale(1.0 + __fma_rn(r * r, sb_horner(r, c), r), k);
    return sb_nan_if(x != x, (float)y);
}

__device__ __forceinline__ float sb_exp2(float value) {
    double x = sb_clamp((double)value, -160.0, 130.0);
    double k = x + SB_ROUND;
    double r = x - (k - SB_ROUND);
    const double ln2 = sb_double(0x3fe62e42fefa39efull);
    const double c[] = {2.3190468138462996e-17, 0.24022650695910133,    0.05550410866482169,
                        0.009618129107593566,   0.0013333558146387465,  0.00015403530457843548,
                        1.5252733861614901e-05, 1.3215434915317494e-06, 1.0178048446254541e-07,
                        7.073845666736494e-09,  4.457131502751815e-10};
    float y = (float)sb_scale(1.0 + __fma_rn(r, ln2, r * sb_horner(r, c)), k);
    y = sb_except(value, 0xbcf3a937u, 0x3f7ac6b1u, y);
    y = sb_except(value, 0x3b429d37u, 0x3f804385u, y);
    return sb_nan_if(value != value, y);
}

// e^r - 1 for |r| <= ln(2)/2.
__device__ __forceinline__ double sb_expm1_reduced(double r) {
    const double c[] = {0.5,
                        0.16666666666666677,
                        0.04166666666666667,
                        0.008333333333321386,
                        0.0013888888888886042,
                        0.0001984126988681587,
                        2.480158731785479e-05,
                        2.7557243452369166e-06,
                        2.755728314290839e-07,
                        2.5109320565672487e-08,
                        2.0910808661192885e-09};
    return __fma_rn(r * r, sb_horner(r, c), r);
}

__device__ __forceinline__ float sb_expm1(float x) {
    double r;
    double k = sb_reduce_ln2(sb_clamp((double)x, -30.0, 90.0), &r);
    double s = sb_scale(1.0, k);
    float y = (float)__fma_rn(s, sb_expm1_reduced(r), s - 1.0);
    return sb_nan_if(x != x, x == 0.0f ? x : y);
}

__device__ __forceinline__ float sb_sigmoid(float value) {
    double x = (double)value;
    double a = sb_abs64(x);
    double r;
    double k = sb_reduce_ln2(-(a > 110.0 ? 110.0 : a), &r);
    double s = sb_scale(1.0, k);
    double q = sb_expm1_reduced(r);
    // Near zero 1/2 -+ (e - 1) / (2 (1 + e)); elsewhere 1 - e / (1 + e) or 0 + e / (1 + e).
    bool near = a < 1.0;
    double numerator = near ? 0.5 * __fma_rn(s, q, s - 1.0) : __fma_rn(s, q, s);
    double quotient = numerator / __fma_rn(s, q, 1.0 + s);
    double low = x > 0.0 ? -quotient : quotient;
    double high = near ? 0.5 : (x > 0.0 ? 1.0 : 0.0);
    return sb_nan_if(value != value, (float)sb_add_odd(high, low));
}

__device__ __forceinline__ float sb_tanh(float value) {
    double x = (double)value;
    double a = sb_abs64(x);
    double r;
    double k = sb_reduce_ln2(2.0 * (a > 20.0 ? 20.0 : a), &r);
    double s = sb_scale(1.0, k);
    double t = __fma_rn(s, sb_expm1_reduced(r), s - 1.0);
    return sb_nan_if(value != value, (float)sb_copysign64(t / (t + 2.0), x));
}

// ---- Logarithms ---------------------------------------------------------------------------

// (k, m) with x = 2^k m and sqrt(1/2) <= m < sqrt(2).
__device__ __forceinline__ double sb_split(double x, double* m) {
    const u64 half_sqrt = 0x3fe6a09e667f3bcdull;
    const u64 one = 0x3ff0000000000000ull;
    u64 biased = (sb_bits(x) + (one - half_sqrt)) >> 52;
    *m = sb_double(sb_bits(x) - (biased << 52) + one);
    return sb_double(0x4330000000000000ull | biased) - 4503599627371519.0;
}

// (2 atanh s - 2s) / s^3 for z = s^2.
__device__ __forceinline__ double sb_atanh_tail(double z) {
    const double c[] = {0.6666666666666734,  0.3999999999941653,  0.2857142874206991,
                        0.22222198599483725, 0.18183563195905386, 0.15314074804554312,
                        0.14795744705550054};
    return sb_horner(z, c);
}

// log m = s2 + rest.
__device__ __forceinline__ double sb_log_m(double m, double* rest) {
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    *rest = s * z * sb_atanh_tail(z);
    return 2.0 * s;
}

// The IEEE results of zero, infinity, NaN and negative inputs.
__device__ __forceinline__ float sb_log_finish(float x, double y) {
    float result = __float_as_uint(x) == 0x7f800000u ? x : (float)y;
    if (x == 0.0f) result = __uint_as_float(0xff800000u);
    return sb_nan_if(x != x || x < 0.0f, result);
}

__device__ __forceinline__ float sb_log(float x) {
    const double ln2_hi = sb_double(0x3fe62e42fefa2000ull);
    const double ln2_lo = sb_double(0x3d69ef35793c7673ull);
    double m, rest;
    double k = sb_split((double)x, &m);
    double s2 = sb_log_m(m, &rest);
    return sb_log_finish(x, sb_add_odd(k * ln2_hi, s2 + __fma_rn(k, ln2_lo, rest)));
}

__device__ __forceinline__ float sb_log2(float x) {
    const double log2_e = sb_double(0x3ff71547652b82feull);
    const double log2_e_lo = sb_double(0x3c7777d0ffda0d24ull);
    double m, rest;
    double k = sb_split((double)x, &m);
    double s2 = sb_log_m(m, &rest);
    double low = __fma_rn(s2, log2_e, __fma_rn(s2, log2_e_lo, rest * log2_e));
    return sb_log_finish(x, sb_add_odd(k, low));
}

__device__ __forceinline__ float sb_log10(float x) {
    const double log10_e = sb_double(0x3fdbcb7b1526e50eull);
    const double log10_e_lo = sb_double(0x3c695355baaafad3ull);
    const double log10_2_hi = sb_double(0x3fd34413509f6000ull);
    const double log10_2_lo = sb_double(0x3d59fef311f12b36ull);
    double m, rest;
    double k = sb_split((double)x, &m);
    double s2 = sb_log_m(m, &rest);
    double tail = __fma_rn(s2, log10_e_lo, __fma_rn(rest, log10_e, k * log10_2_lo));
    return sb_log_finish(x, sb_add_odd(k * log10_2_hi, __fma_rn(s2, log10_e, tail)));
}

__device__ __forceinline__ float sb_log1p(float value) {
    const double ln2_hi = sb_double(0x3fe62e42fefa2000ull);
    const double ln2_lo = sb_double(0x3d69ef35793c7673ull);
    double x = (double)value;
    double m;
    double k = sb_split(1.0 + x, &m);
    double scale = sb_double(sb_bits((1023.0 + 4503599627370496.0) - k) << 52);
    double f = __fma_rn(x, scale, scale - 1.0);
    double half = 0.5 * f * f;
    double s = f / (2.0 + f);
    double z = s * s;
    double correction = half - s * __fma_rn(z, sb_atanh_tail(z), half);
    bool near = k == 0.0;
    double high = near ? f : k * ln2_hi;
    double low = __fma_rn(k, ln2_lo, near ? -correction : f - correction);
    float y = sb_except(value, 0x3efd81adu, 0x3ecdeee1u, (float)sb_add_odd(high, low));
    if (__float_as_uint(value) == 0x7f800000u) y = value;
    if (value == -1.0f) y = __uint_as_float(0xff800000u);
    if (value == 0.0f) y = value;
    return sb_nan_if(value != value || value < -1.0f, y);
}

// ---- Roots --------------------------------------------------------------------------------

__device__ __forceinline__ float sb_sqrt(float x) { return sb_canonical(__fsqrt_rn(x)); }

__device__ __forceinline__ float sb_rsqrt(float x) {
    double y = (double)(1.0f / __fsqrt_rn(x));
    double e = __fma_rn(-(double)x, y * y, 1.0);
    float result = (float)__fma_rn(y * e, __fma_rn(e, 0.375, 0.5), y);
    u32 bits = __float_as_uint(x);
    if (bits == 0x7f800000u) result = 0.0f;
    if (x == 0.0f) result = __uint_as_float((bits & 0x80000000u) | 0x7f800000u);
    return sb_nan_if(x != x || x < 0.0f, result);
}

// ---- Error function -----------------------------------------------------------------------

// erf(a) for 0 <= a <= 0.9.
__device__ __forceinline__ double sb_erf_small(double a) {
    const double two_by_sqrt_pi = sb_double(0x3ff20dd750429b6dull);
    const double c[] = {1.533545961316588e-17,  -0.37612638903183737,    0.11283791670954062,
                        -0.026866170644865364,  0.005223977622125264,    -0.0008548326782817625,
                        0.00012055321988891369, -1.492532062325262e-05,  1.6455512398400903e-06,
                        -1.6278141292711546e-07, 1.4059559470243347e-08, -8.511539849574628e-10};
    return __fma_rn(a, two_by_sqrt_pi, a * sb_horner(a * a, c));
}

// exp(-a^2).
__device__ __forceinline__ double sb_exp_square(double a) {
    double r;
    double k = sb_reduce_ln2(-(a * a), &r);
    return sb_scale(1.0 + sb_expm1_reduced(r), k);
}

__device__ __forceinline__ float sb_erf(float value) {
    double a = sb_abs64((double)value);
    a = a > 4.0 ? 4.0 : a;
    const double c[] = {0.25539567631050575, 1.708743389655836,  3.866531107879139,
                        5.054629185004306,   0.955620456688858,  -7.1654008465715435,
                        -3.4698996098511112, 16.088747646647196, 2.85433337038039,
                        -45.71949807077468,  29.050169416682454, 115.65441987980056,
                        -258.6160672034656,  155.78028085119342};
    double large = sb_exp_square(a) * sb_horner(1.0 / (a + 2.0) - 0.25, c);
    double y = a < 0.9 ? sb_erf_small(a) : sb_add_odd(1.0, -large);
    return sb_nan_if(value != value, (float)sb_copysign64(y, (double)value));
}

__device__ __forceinline__ float sb_erfc(float value) {
    double x = (double)value;
    double a = sb_abs64(x);
    a = a > 10.1 ? 10.1 : a;
    const double c[] = {0.14869064425042725, 1.6880493004020471,  7.366736944990545,
                        26.741085448695262,  77.9292831202973,    168.85662646750822,
                        214.73245493719168,  -70.9895406799383,   -890.1843984839614,
                        -1014.4038120240477, 2743.0823639444748,  7391.802796547618,
                        -9265.642349736247,  -44971.4880736039,   44285.81335289868,
                        276906.5076686532,   -340872.5399195887,  -1563332.7747060915,
                        3114666.7218669937,  1652639.3512346637};
    double tail = sb_exp_square(a) * sb_horner(1.0 / (a + 3.0) - 0.15, c);
    double small = sb_erf_small(a);
    double y = a < 0.9 ? sb_add_odd(1.0, x < 0.0 ? small : -small)
                       : sb_add_odd(x < 0.0 ? 2.0 : 0.0, x < 0.0 ? -tail : tail);
    return sb_nan_if(value != value, (float)y);
}

// ---- Trigonometry -------------------------------------------------------------------------

// For e in 0..128, 2^23 (2^(e-23) / pi mod 2) in three parts: 28 bits, the next 28, the next 53.
static __constant__ double sb_inv_pi[128][3] = {
    {0.3125, 0.005809886148199439, 3.559123248900044e-11},
    {0.625, 0.011619772296398878, 7.118246497800087e-11},
    {1.25, 0.023239544592797756, 1.4236492995600175e-10},
    {2.5, 0.046479089418426156, 5.189921625813387e-11},
    {5.0625, 0.030458178836852312, 1.0379843251626774e-10},
    {10.125, 0.060916357673704624, 2.0759686503253547e-10},
    {20.3125, 0.05933271558023989, 1.823630864112013e-10},
    {40.6875, 0.05616543139331043, 1.3189552916853299e-10},
    {81.4375, 0.0498308630194515, 3.0960414683196316e-11},
    {162.9375, 0.037161726038903, 6.192082936639263e-11},
    {325.9375, 0.011823452077805996, 1.2384165873278526e-10},
    {651.875, 0.023646904388442636, 1.4852673811700927e-11},
    {1303.75, 0.04729380877688527, 2.9705347623401853e-11},
    {2607.5625, 0.03208761755377054, 5.941069524680371e-11},
    {5215.1875, 0.0016752351075410843, 1.1882139049360741e-10},
    {10430.375, 0.0033504704479128122, 4.8121373333451895e-12},
    {20860.75, 0.0067009408958256245, 9.624274666690379e-12},
    {41721.5, 0.013401881791651249, 1.9248549333380758e-11},
    {83443.0, 0.026803763583302498, 3.8497098666761516e-11},
    {166886.0, 0.053607527166604996, 7.699419733352303e-11},
    {333772.0625, 0.04471505433320999, 1.5398839466704606e-10},
    {667544.1875, 0.026930108899250627, 7.514614568022251e-11},
    {1335088.375, 0.05386021779850125, 1.5029229136044503e-10},
    {2670176.8125, 0.04522043582983315, 6.775393906702041e-11},
    {5340353.6875, 0.0279408716596663, 1.3550787813404083e-10},
    {10680707.375, 0.05588174355216324, 3.818511261421204e-11},
    {4584198.8125, 0.04926348710432649, 7.637022522842408e-11},
    {9168397.6875, 0.03602697420865297, 1.5274045045684815e-10},
    {1559579.4375, 0.00955394865013659, 7.26502572598267e-11},
    {3119158.875, 0.01910789730027318, 1.453005145196534e-10},
    {6238317.75, 0.038215794833377004, 5.7770385385437156e-11},
    {12476635.5625, 0.013931589666754007, 1.1554077077087431e-10},
    {8176055.125, 0.027863179333508015, 2.3108154154174863e-10},
    {16352110.25, 0.05572635889984667, 2.2933243942962762e-10},
    {15927004.5625, 0.04895271803252399, 2.258342352053856e-10},
    {15076793.1875, 0.03540543629787862, 2.1883782675690158e-10},
    {13376370.4375, 0.00831087282858789, 2.0484500985993353e-10},
    {9975524.875, 0.016621745890006423, 1.7685937606599743e-10},
    {3173833.75, 0.03324349201284349, 1.208881084781252e-10},
    {6347667.5625, 0.003986984258517623, 8.945573302380787e-12},
    {12695335.125, 0.007973968517035246, 1.7891146604761573e-11},
    {8613454.25, 0.015947937034070492, 3.5782293209523147e-11},
    {449692.5, 0.031895874068140984, 7.156458641904629e-11},
    {899385.0625, 0.0012917481362819672, 1.4312917283809259e-10},
    {1798770.125, 0.002583496505394578, 5.3427702022315564e-11},
    {3597540.25, 0.005166993010789156, 1.0685540404463113e-10},
    {7195080.5, 0.010333986021578312, 2.1371080808926225e-10},
    {14390161.0, 0.020667972275987267, 1.945909725246549e-10},
    {12003106.0, 0.04133594478480518, 1.5635130139544018e-10},
    {7228996.0625, 0.020171889802441, 7.987195913701072e-11},
    {14457992.125, 0.040343779604882, 1.5974391827402145e-10},
    {12138768.3125, 0.018187559442594647, 8.665719289417326e-11},
    {7500320.625, 0.036375118885189295, 1.733143857883465e-10},
    {15000641.3125, 0.010250238003209233, 1.1379812792282342e-10},
    {13224066.625, 0.020500476006418467, 2.2759625584564684e-10},
    {9670917.25, 0.04100095224566758, 2.2236186803742402e-10},
    {2564618.5625, 0.019501904724165797, 2.118930924209784e-10},
    {5129237.125, 0.03900380968116224, 1.9095554118808718e-10},
    {10258474.3125, 0.01550761959515512, 1.4908043872230476e-10},
    {3739732.625, 0.031015239423140883, 6.533023379073988e-11},
    {7479465.25, 0.06203047884628177, 1.3066046758147975e-10},
    {14958930.5625, 0.06156095792539418, 2.8490291509089852e-11},
    {13140645.1875, 0.060621915850788355, 5.6980583018179705e-11},
    {9504074.4375, 0.05874383170157671, 1.1396116603635941e-10},
    {2230932.9375, 0.05498766340315342, 2.2792233207271882e-10},
    {4461865.9375, 0.04747532703913748, 2.2301402049156804e-10},
    {8923731.9375, 0.03245065431110561, 2.1319739732926642e-10},
    {1070247.9375, 0.0024013088550418615, 1.9356415100466323e-10},
    {2140495.875, 0.004802617942914367, 1.5429765835545683e-10},
    {4280991.75, 0.009605236118659377, 7.576467305704401e-11},
    {8561983.5, 0.019210472237318754, 1.5152934611408802e-10},
    {346751.0, 0.03842094470746815, 7.022804857430644e-11},
    {693502.0625, 0.014341889414936304, 1.4045609714861289e-10},
    {1387004.125, 0.028683779062703252, 4.808155064335612e-11},
    {2774008.25, 0.057367558125406504, 9.616310128671225e-11},
    {5548016.5625, 0.05223511625081301, 1.923262025734245e-10},
    {11096033.1875, 0.04197023273445666, 1.5182176149297933e-10},
    {5414850.4375, 0.02144046570174396, 7.081287933208904e-11},
    {10829700.875, 0.04288093140348792, 1.4162575866417808e-10},
    {4882185.8125, 0.023261863039806485, 5.0420873674486534e-11},
    {9764371.625, 0.04652372607961297, 1.0084174734897307e-10},
    {2751527.3125, 0.03054745215922594, 2.0168349469794614e-10},
    {5503054.625, 0.061094904551282525, 1.7053634574202262e-10},
    {11006109.3125, 0.059689809335395694, 1.082420478301756e-10},
    {5235002.6875, 0.05687961867079139, 2.164840956603512e-10},
    {10470005.4375, 0.05125923757441342, 2.0013754766683282e-10},
    {4162794.9375, 0.04001847538165748, 1.6744445167979598e-10},
    {8325589.9375, 0.017536950996145606, 1.0205825970572234e-10},
    {16651179.875, 0.03507390199229121, 2.0411651941144468e-10},
    {16525143.8125, 0.007647804217413068, 1.7540239516901973e-10},
    {16273071.625, 0.01529560866765678, 1.1797414668416986e-10},
    {15768927.25, 0.030591217568144202, 3.1176497144700797e-12},
    {14760638.5, 0.061182435136288404, 6.235299428940159e-12},
    {12744061.0625, 0.05986487027257681, 1.2470598857880319e-11},
    {8710906.1875, 0.05722974054515362, 2.4941197715760637e-11},
    {644596.4375, 0.051959481090307236, 4.9882395431521274e-11},
    {1289192.9375, 0.04141896218061447, 9.976479086304255e-11},
    {2578385.9375, 0.020337924361228943, 1.995295817260851e-10},
    {5156771.875, 0.04067584895528853, 1.6622851979830057e-10},
    {10313543.8125, 0.018851698143407702, 9.96263959427315e-11},
    {3849871.625, 0.037703396286815405, 1.99252791885463e-10},
    {7699743.3125, 0.012906792806461453, 1.656749401170564e-10},
    {15399486.625, 0.02581358584575355, 9.851923658024317e-11},
    {14021757.25, 0.0516271716915071, 1.9703847316048634e-10},
    {11266298.5625, 0.040754343615844846, 1.6124630266710305e-10},
    {5755381.1875, 0.019008687464520335, 8.966196168033648e-11},
    {11510762.375, 0.03801737492904067, 1.7932392336067296e-10},
    {6244308.8125, 0.013534750090911984, 1.258172030674763e-10},
    {12488617.625, 0.027069500414654613, 1.8803762481082987e-11},
    {8200019.25, 0.054139000829309225, 3.760752496216597e-11},
    {16400038.5625, 0.04577800165861845, 7.521504992433195e-11},
    {16022861.1875, 0.0290560033172369, 1.504300998486639e-10},
    {15268506.375, 0.058112006867304444, 6.802955604345816e-11},
    {13759796.8125, 0.05372401373460889, 1.360591120869163e-10},
    {10742377.6875, 0.04494802770204842, 3.928758051996298e-11},
    {4707539.4375, 0.027396055404096842, 7.857516103992596e-11},
    {9415078.875, 0.054792110808193684, 1.5715032207985192e-10},
    {2052941.8125, 0.04708422184921801, 8.147000050583422e-11},
    {4105883.6875, 0.03166844369843602, 1.6294000101166844e-10},
    {8211767.4375, 0.0008368876297026873, 9.304935836946727e-11},
    {16423534.875, 0.0016737752594053745, 1.8609871673893455e-10},
    {16069853.75, 0.0033475507516413927, 1.3936678982399946e-10},
    {15362491.5, 0.006695101736113429, 4.5902935994129305e-11},
    {13947767.0, 0.013390203472226858, 9.180587198825861e-11},
    {11118318.0, 0.026780406944453716, 1.8361174397651722e-10},
    {5459420.0, 0.053560814121738076, 1.3439284429916484e-10},
    {10918840.0625, 0.044621628476306796, 3.595504494446003e-11},
    {5060464.1875, 0.026743256952613592, 7.191008988892006e-11}};

__device__ __forceinline__ bool sb_finite(float x) {
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

// sin(r) for |r| <= pi/2.
__device__ __forceinline__ double sb_sin_r(double r) {
    double u = r * r;
    const double c[] = {-0.16666666666666666,   0.008333333333333212,   -0.00019841269841215235,
                        2.755731921212263e-06,  -2.5052106959273848e-08, 1.6058943881823908e-10,
                        -7.643096112266014e-13, 2.7222374851752595e-15};
    return __fma_rn(r * u, sb_horner(u, c), r);
}

// sin(x + pi phase) for a phase of 0 or 1/2, before the rounding to f32.
__device__ __forceinline__ double sb_sin_wide(double x, double phase) {
    const double pi = sb_double(0x400921fb54442d18ull);
    const double pi_lo = sb_double(0x3ca1a62633145c07ull);
    double n, r;
    if (sb_abs64(x) < 262144.0) {
        // Cody and Waite: the product with the 33-bit head of pi is exact.
        const double inverse = sb_double(0x3fd45f306dc9c883ull);
        const double head = sb_double(0x400921fb54400000ull);
        const double tail = sb_double(0x3de0b4611a626331ull);
        n = __fma_rn(x, inverse, phase) + SB_ROUND;
        double k = (n - SB_ROUND) - phase;
        r = __fma_rn(-k, tail, __fma_rn(-k, head, x));
    } else {
        // Payne and Hanek: only the bits of 2^e / pi below 2 matter.
        u32 exponent = ((u32)(sb_bits(x) >> 52) - 1023u) & 127u;
        double a = sb_inv_pi[exponent][0];
        double b = sb_inv_pi[exponent][1];
        double c = sb_inv_pi[exponent][2];
        double m = sb_double((sb_bits(x) & 0x800fffffffffffffull) | 0x3ff0000000000000ull);
        double first = __fma_rn(m, a, phase);
        double second = m * b;
        n = (first + second) + SB_ROUND;
        double fraction = first - (n - SB_ROUND);
        double high = fraction + second;
        double low = __fma_rn(m, c, second - (high - fraction));
        r = __fma_rn(high, pi, __fma_rn(high, pi_lo, low * pi));
    }
    return sb_flip_if_odd(sb_sin_r(r), n);
}

__device__ __forceinline__ float sb_sin(float x) {
    float y = (float)sb_sin_wide((double)x, 0.0);
    y = sb_except(x, 0x46199998u, 0xbeb1fa5du, y);
    y = sb_except(x, 0xc6199998u, 0x3eb1fa5du, y);
    return sb_nan_if(!sb_finite(x), x == 0.0f ? x : y);
}

__device__ __forceinline__ float sb_cos(float x) {
    float y = (float)sb_sin_wide((double)x, 0.5);
    float a = __uint_as_float(__float_as_uint(x) & 0x7fffffffu);
    y = sb_except(a, 0x5f18b878u, 0x3f7f14bbu, y);
    y = sb_except(a, 0x6115cb11u, 0x3f78142fu, y);
    y = sb_except(a, 0x7908cd73u, 0x3f798bb5u, y);
    return sb_nan_if(!sb_finite(x), y);
}

// sin(pi r) for |r| <= 1/2.
__device__ __forceinline__ double sb_sin_pi_r(double r) {
    const double pi = sb_double(0x400921fb54442d18ull);
    double u = r * r;
    const double c[] = {sb_double(0x3ca1a62633145c07ull), -5.167712780049969,
                        2.550164039877268,                -0.5992645293176785,
                        0.08214588655079139,              -0.0073704302995635605,
                        0.0004662987787461239,            -2.1900813737160557e-05,
                        7.669866412801172e-07};
    return __fma_rn(r, pi, r * sb_horner(u, c));
}

__device__ __forceinline__ double sb_even_if_huge(double x) {
    return sb_abs64(x) < 16777216.0 ? x : 0.0;
}

__device__ __forceinline__ float sb_sinpi(float value) {
    double x = sb_even_if_huge((double)value);
    double n = x + SB_ROUND;
    double r = x - (n - SB_ROUND);
    double y = sb_flip_if_odd(sb_sin_pi_r(r), n);
    float zero = __uint_as_float(__float_as_uint(value) & 0x80000000u);
    return sb_nan_if(!sb_finite(value), r == 0.0 ? zero : (float)y);
}

__device__ __forceinline__ float sb_cospi(float value) {
    double x = sb_even_if_huge((double)value) + 0.5;
    double n = x + SB_ROUND;
    double r = x - (n - SB_ROUND);
    double y = sb_flip_if_odd(sb_sin_pi_r(r), n);
    return sb_nan_if(!sb_finite(value), r == 0.0 ? 0.0f : (float)y);
}
