//! f64 functions for samplers, made of additions, multiplications, divisions and square roots in a
//! documented order.
//!
//! Errors are around one unit in the last place; they are the same on every machine. No fused
//! operation is used, so the order below is the whole definition.

#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

/// Returns the natural logarithm of a positive finite number; minus infinity at zero.
#[inline(always)]
pub(crate) fn log(x: f64) -> f64 {
    // Subnormals have fewer bits than the reduction needs.
    let (x, shift) = if x < f64::MIN_POSITIVE { (x * TWO_54, 54.0) } else { (x, 0.0) };
    let biased = x.to_bits().wrapping_add(ONE - HALF_SQRT) >> 52;
    let m = f64::from_bits(x.to_bits().wrapping_sub(biased << 52).wrapping_add(ONE));
    let k = biased as i64 as f64 - 1023.0 - shift;
    // log m = 2 atanh s, of which 2 s is the larger part.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let tail = s * (z * horner(z, &LOG));
    let y = k * LN_2_HI + (2.0 * s + (tail + k * LN_2_LO));
    if x == 0.0 { f64::NEG_INFINITY } else { y }
}

/// Returns log(1 + x) for x > -1.
pub(crate) fn log1p(x: f64) -> f64 {
    // Corrects the rounding error of 1 + x to first order.
    let u = 1.0 + x;
    log(u) - ((u - 1.0) - x) / u
}

/// Returns the exponential; zero below -708 and infinity above 709.
pub(crate) fn exp(x: f64) -> f64 {
    if x < -708.0 {
        return 0.0;
    }
    if x > 709.0 {
        return f64::INFINITY;
    }
    let k = (x * core::f64::consts::LOG2_E).round_ties_even();
    let (high, low) = (x - k * LN_2_HI, k * LN_2_LO);
    let r = high - low;
    let y = 1.0 + (r + r * r * horner(r, &EXP));
    // For these arguments the exponent stays that of a normal number.
    y * f64::from_bits(((k as i64 + 1023) as u64) << 52)
}

/// Returns (sin πx, cos πx) for 0 <= x < 2^30.
#[inline(always)]
pub(crate) fn sin_cos_pi(x: f64) -> (f64, f64) {
    let quarters = (2.0 * x).round_ties_even();
    let r = x - 0.5 * quarters;
    let u = r * r;
    let sin = r * core::f64::consts::PI + r * (PI_LO + u * horner(u, &SIN));
    let cos = 1.0 + u * horner(u, &COS);
    let n = quarters as i64;
    let (sin, cos) = if n & 1 == 0 { (sin, cos) } else { (cos, -sin) };
    if n & 2 == 0 { (sin, cos) } else { (-sin, -cos) }
}

/// Returns the probability that a standard normal number is above `x`.
pub(crate) fn normal_above(x: f64) -> f64 {
    if x < 0.0 {
        return 1.0 - normal_above(-x);
    }
    let density = exp(-0.5 * x * x) * INV_SQRT_2_PI;
    if x < 3.0 {
        // 1/2 - density (x + x^3/3 + x^5/(3 5) + ...)
        let (mut term, mut sum) = (x, x);
        for k in 1..60 {
            term = term * x * x / (2 * k + 1) as f64;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    // Laplace's continued fraction density / (x + 1/(x + 2/(x + ...))), from its end.
    let fraction = (1..=200).rev().fold(x, |tail, k| x + f64::from(k) / tail);
    density / fraction
}

/// Returns the quantile of the standard normal distribution at probability `p`, for 0 < p < 1.
///
/// # References
///
/// M. J. Wichura, *Algorithm AS 241: The percentage points of the normal distribution*,
/// Applied Statistics 37 (1988), function PPND16.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * horner(r, &CENTRE_NUM) / horner(r, &CENTRE_DEN);
    }
    let r = (-log(if q < 0.0 { p } else { 1.0 - p })).sqrt();
    let x = if r <= 5.0 {
        horner(r - 1.6, &SHOULDER_NUM) / horner(r - 1.6, &SHOULDER_DEN)
    } else {
        horner(r - 5.0, &TAIL_NUM) / horner(r - 5.0, &TAIL_DEN)
    };
    if q < 0.0 { -x } else { x }
}

/// Returns the logarithm of the probability that a Poisson variate of mean `mean` is `k`.
///
/// # References
///
/// C. Loader, *Fast and accurate computation of binomial probabilities*, 2000: the saddle-point
/// form of this and the next function, which stays accurate for large arguments.
pub(crate) fn log_poisson(k: f64, mean: f64) -> f64 {
    if k == 0.0 {
        return -mean;
    }
    -stirling_error(k) - deviance(k, mean) - 0.5 * (LOG_2_PI + log(k))
}

/// Returns the logarithm of the probability that `k` of `n` events of probability `p` = 1 - `q`
/// occur.
pub(crate) fn log_binomial(k: f64, n: f64, p: f64, q: f64) -> f64 {
    if k == 0.0 {
        return n * log1p(-p);
    }
    if k == n {
        return n * log(p);
    }
    let rest = n - k;
    let correction = stirling_error(n) - stirling_error(k) - stirling_error(rest);
    let deviances = deviance(k, n * p) + deviance(rest, n * q);
    correction - deviances - 0.5 * (LOG_2_PI + log(k) + log1p(-k / n))
}

/// Returns x log(x / mean) + mean - x, without cancellation if x is near the mean.
fn deviance(x: f64, mean: f64) -> f64 {
    if (x - mean).abs() >= 0.1 * (x + mean) {
        return x * log(x / mean) + mean - x;
    }
    let v = (x - mean) / (x + mean);
    let mut sum = (x - mean) * v;
    let mut term = 2.0 * x * v;
    let mut j = 1.0;
    loop {
        term = term * v * v;
        j += 2.0;
        let next = sum + term / j;
        // Terms fall by v^2 <= 1/100, so the loop ends.
        if next == sum {
            return sum;
        }
        sum = next;
    }
}

/// Returns log n! minus Stirling's formula, for a whole n.
fn stirling_error(n: f64) -> f64 {
    if n < STIRLING_ERROR.len() as f64 {
        return STIRLING_ERROR[n as usize];
    }
    let z = 1.0 / (n * n);
    horner(z, &[1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0]) / n
}

/// Evaluates c[0] + x (c[1] + x (...)).
#[inline(always)]
fn horner<const N: usize>(x: f64, c: &[f64; N]) -> f64 {
    let mut y = c[N - 1];
    for i in (0..N - 1).rev() {
        y = y * x + c[i];
    }
    y
}

const ONE: u64 = 0x3ff0_0000_0000_0000;
/// The bits of the square root of 1/2.
const HALF_SQRT: u64 = 0x3fe6_a09e_667f_3bcd;
const TWO_54: f64 = 18014398509481984.0;
/// The leading 40 bits of ln 2, so that its product with an exponent is exact.
const LN_2_HI: f64 = f64::from_bits(0x3fe6_2e42_fefa_2000);
const LN_2_LO: f64 = 7.371002565167799e-13;
const PI_LO: f64 = 1.2246467991473532e-16;
const LOG_2_PI: f64 = 1.8378770664093456;
const INV_SQRT_2_PI: f64 = 0.3989422804014327;

/// 2 / (2k + 3): the series of 2 atanh s in s^2 after its first term.
const LOG: [f64; 12] = [
    2.0 / 3.0,
    2.0 / 5.0,
    2.0 / 7.0,
    2.0 / 9.0,
    2.0 / 11.0,
    2.0 / 13.0,
    2.0 / 15.0,
    2.0 / 17.0,
    2.0 / 19.0,
    2.0 / 21.0,
    2.0 / 23.0,
    2.0 / 25.0,
];

/// 1 / (k + 2)!
const EXP: [f64; 13] = [
    0.5,
    0.16666666666666666,
    0.041666666666666664,
    0.008333333333333333,
    0.001388888888888889,
    0.0001984126984126984,
    2.48015873015873e-05,
    2.7557319223985893e-06,
    2.755731922398589e-07,
    2.505210838544172e-08,
    2.08767569878681e-09,
    1.6059043836821613e-10,
    1.1470745597729725e-11,
];

/// The series of sin(πr)/r in r^2 after its first term.
const SIN: [f64; 9] = [
    -5.16771278004997,
    2.5501640398773455,
    -0.5992645293207921,
    0.08214588661112823,
    -0.0073704309457143504,
    0.00046630280576761255,
    -2.1915353447830217e-05,
    7.952054001475513e-07,
    -2.2948428997269873e-08,
];

/// The series of cos(πr) in r^2 after its first term.
const COS: [f64; 10] = [
    -4.934802200544679,
    4.0587121264167685,
    -1.3352627688545895,
    0.2353306303588932,
    -0.02580689139001406,
    0.0019295743094039231,
    -0.0001046381049248457,
    4.303069587032947e-06,
    -1.3878952462213771e-07,
    3.604730797462501e-09,
];

const STIRLING_ERROR: [f64; 16] = [
    0.0,
    0.08106146679532726,
    0.0413406959554093,
    0.02767792568499834,
    0.020790672103765093,
    0.016644691189821193,
    0.013876128823070748,
    0.01189670994589177,
    0.010411265261972096,
    0.009255462182712733,
    0.00833056343336287,
    0.007573675487951841,
    0.00694284010720953,
    0.006408994188004207,
    0.0059513701127588475,
    0.005554733551962801,
];

const CENTRE_NUM: [f64; 8] = [
    3.387132872796366608,
    133.14166789178437745,
    1971.5909503065514427,
    13731.693765509461125,
    45921.953931549871457,
    67265.770927008700853,
    33430.575583588128105,
    2509.0809287301226727,
];
const CENTRE_DEN: [f64; 8] = [
    1.0,
    42.313330701600911252,
    687.1870074920579083,
    5394.1960214247511077,
    21213.794301586595867,
    39307.89580009271061,
    28729.085735721942674,
    5226.495278852545925,
];
const SHOULDER_NUM: [f64; 8] = [
    1.42343711074968357734,
    4.6303378461565452959,
    5.7694972214606914055,
    3.64784832476320460504,
    1.27045825245236838258,
    0.24178072517745061177,
    0.0227238449892691845833,
    7.7454501427834140764e-4,
];
const SHOULDER_DEN: [f64; 8] = [
    1.0,
    2.05319162663775882187,
    1.6763848301838038494,
    0.68976733498510000455,
    0.14810397642748007459,
    0.0151986665636164571966,
    5.475938084995344946e-4,
    1.05075007164441684324e-9,
];
const TAIL_NUM: [f64; 8] = [
    6.6579046435011037772,
    5.4637849111641143699,
    1.7848265399172913358,
    0.29656057182850489123,
    0.026532189526576123093,
    0.0012426609473880784386,
    2.71155556874348757815e-5,
    2.01033439929228813265e-7,
];
const TAIL_DEN: [f64; 8] = [
    1.0,
    0.59983220655588793769,
    0.13692988092273580531,
    0.0148753612908506148525,
    7.868691311456132591e-4,
    1.8463183175100546818e-5,
    1.4215117583164458887e-7,
    2.04426310338993978564e-15,
];

// The expected values were computed elsewhere; some are well-known constants.
#[cfg(test)]
#[allow(clippy::approx_constant)]
mod tests {
    use super::*;

    /// Returns |found - expected| in units in the last place of `expected`.
    fn ulps(found: f64, expected: f64) -> f64 {
        (found - expected).abs() / (expected.abs().next_up() - expected.abs())
    }

    #[test]
    fn logarithms() {
        let cases = [
            (1.1102230246251565e-16, -36.7368005696771),
            (3e-320, -735.7286286023058),
            (1e-300, -690.7755278982137),
            (1e-10, -23.025850929940457),
            (0.1, -2.3025850929940455),
            (0.5, -0.6931471805599453),
            (0.7071, -0.346583180371942),
            (0.999, -0.0010005003335835344),
            (0.9999999999999999, -1.1102230246251565e-16),
            (1.0000000000000002, 2.2204460492503128e-16),
            (1.5, 0.4054651081081644),
            (3.0, 1.0986122886681098),
            (100000.0, 11.512925464970229),
            (1e+300, 690.7755278982137),
            (0.13436424411240122, -2.0072009271185753),
            (0.8474337369372327, -0.16554262928899602),
            (0.763774618976614, -0.2694825346765816),
            (0.2550690257394217, -1.3662210812792126),
            (0.49543508709194095, -0.7023189386538373),
            (0.4494910647887381, -0.7996393033798517),
            (0.651592972722763, -0.42833518696132294),
            (0.7887233511355132, -0.23733965189651304),
            (0.0938595867742349, -2.3659553712013626),
            (0.02834747652200631, -3.563217264339583),
        ];
        for (x, expected) in cases {
            let error = ulps(log(x), expected);
            assert!(error <= 1.5, "log(x): {error}");
        }
    }

    #[test]
    fn logarithms_near_one() {
        let cases = [
            (-0.999, -6.907755278982136),
            (-0.5, -0.6931471805599453),
            (-0.001, -0.0010005003335835335),
            (-1e-17, -1e-17),
            (1e-18, 1e-18),
            (1e-05, 9.999950000333332e-06),
            (0.3, 0.26236426446749106),
            (5.0, 1.791759469228055),
        ];
        for (x, expected) in cases {
            let error = ulps(log1p(x), expected);
            assert!(error <= 3.0, "log1p(x): {error}");
        }
    }

    #[test]
    fn exponentials() {
        let cases = [
            (-700.0, 9.85967654375977e-305),
            (-10.0, 4.5399929762484854e-05),
            (-1.0, 0.36787944117144233),
            (-0.3, 0.7408182206817179),
            (-1e-09, 0.999999999),
            (0.0, 1.0),
            (1e-05, 1.00001000005),
            (0.5, 1.6487212707001282),
            (1.0, 2.718281828459045),
            (20.0, 485165195.4097903),
            (700.0, 1.0142320547350045e+304),
            (20.14590623519218, 561378674.6717308),
            (-4.033975925696797, 0.01770380084062003),
            (15.736804947476521, 6829793.162930767),
            (-29.873636798933358, 1.0618040654507721e-13),
            (-3.2767683567119157, 0.03775005460825283),
            (13.29240194044695, 592675.2805816082),
        ];
        for (x, expected) in cases {
            let error = ulps(exp(x), expected);
            assert!(error <= 1.5, "exp(x): {error}");
        }
    }

    #[test]
    fn sines() {
        let cases = [
            (0.1, 0.30901699437494745),
            (0.25, 0.7071067811865476),
            (0.2499, 0.7068846021489731),
            (0.3, 0.8090169943749475),
            (0.49999, 0.9999999995065197),
            (0.75, 0.7071067811865476),
            (0.9, 0.30901699437494734),
            (1.1, -0.3090169943749477),
            (1.3, -0.8090169943749475),
            (1.7, -0.8090169943749475),
            (1.99, -0.03141075907812832),
        ];
        for (x, expected) in cases {
            let error = ulps(sin_cos_pi(x).0, expected);
            assert!(error <= 1.5, "sin_cos_pi(x).0: {error}");
        }
    }

    #[test]
    fn cosines() {
        let cases = [
            (0.1, 0.9510565162951535),
            (0.25, 0.7071067811865476),
            (0.2499, 0.7073288904354805),
            (0.3, 0.5877852522924731),
            (0.49, 0.03141075907812832),
            (0.75, -0.7071067811865476),
            (0.9, -0.9510565162951536),
            (1.1, -0.9510565162951535),
            (1.3, -0.587785252292473),
            (1.7, 0.587785252292473),
            (1.99, 0.9995065603657316),
        ];
        for (x, expected) in cases {
            let error = ulps(sin_cos_pi(x).1, expected);
            assert!(error <= 1.5, "sin_cos_pi(x).1: {error}");
        }
    }

    #[test]
    fn normal_tails() {
        let cases = [
            (-3.0, 0.9986501019683699),
            (-0.5, 0.6914624612740131),
            (0.0, 0.5),
            (0.1, 0.460172162722971),
            (1.0, 0.15865525393145705),
            (2.0, 0.02275013194817921),
            (2.99, 0.0013948872354922494),
            (3.0, 0.0013498980316300946),
            (3.5, 0.00023262907903552504),
            (5.0, 2.866515718791939e-07),
            (10.0, 7.619853024160525e-24),
            (30.0, 4.906713927148187e-198),
            (37.0, 5.725571222524577e-300),
        ];
        for (x, expected) in cases {
            let error = ulps(normal_above(x), expected);
            assert!(error <= 2000.0, "normal_above(x): {error}");
        }
    }

    #[test]
    fn normal_quantiles() {
        let cases = [
            (1e-300, -37.0470962993612),
            (1e-100, -21.273453560965326),
            (1e-20, -9.262340089798407),
            (1e-11, -6.706023155495136),
            (1e-05, -4.264890793922825),
            (0.01, -2.326347874040841),
            (0.0749, -1.4402382675279637),
            (0.0751, -1.43882539275254),
            (0.3, -0.5244005127080408),
            (0.49, -0.025068908258711057),
            (0.6, 0.2533471031357997),
            (0.92, 1.4050715603096329),
            (0.93, 1.475791028179171),
            (0.99, 2.3263478740408408),
            (0.999999, 4.753424308817087),
        ];
        for (p, expected) in cases {
            let error = ulps(normal_quantile(p), expected);
            assert!(error <= 20.0, "normal_quantile(p): {error}");
        }
    }

    #[test]
    fn poisson_chances() {
        let cases = [
            (0.0, 3.0, -3.0),
            (1.0, 3.0, -1.9013877113318902),
            (15.0, 20.0, -2.9632872805310266),
            (16.0, 20.0, -2.740143729216817),
            (100.0, 100.0, -3.2223569567543535),
            (1000.0, 900.0, -9.733415163852598),
            (1000000.0, 1000123.0, -7.834257775288359),
            (1000000000000.0, 1000001000000.0, -15.234448757835947),
            (5.0, 50.0, -35.22737671564131),
        ];
        for (k, mean, expected) in cases {
            let error = ulps(log_poisson(k, mean), expected);
            assert!(error <= 60.0, "log_poisson(k, mean): {error}");
        }
    }

    #[test]
    fn binomial_chances() {
        let cases = [
            (0.0, 10.0, 0.3, -3.5667494393873236),
            (10.0, 10.0, 0.3, -12.03972804325936),
            (3.0, 10.0, 0.3, -1.3211512777668886),
            (20.0, 50.0, 0.5, -3.173444885807883),
            (500.0, 1000.0, 0.49, -3.8799590027639974),
            (100000.0, 1000000.0, 0.1001, -6.67824450921263),
            (17.0, 40.0, 0.25, -4.974801108572969),
        ];
        for (k, n, p, expected) in cases {
            let error = ulps(log_binomial(k, n, p, 1.0 - p), expected);
            assert!(error <= 200.0, "log_binomial(k, n, p, 1.0 - p): {error}");
        }
    }

    #[test]
    fn errors_of_stirlings_formula() {
        let cases = [
            (0.0, 0.0),
            (15.0, 0.005554733551962801),
            (16.0, 0.005207655919609640),
            (17.0, 0.004901395948434738),
            (30.0, 0.002777674929752690),
            (1000.0, 8.333333055555635e-05),
        ];
        for (n, expected) in cases {
            let error = (stirling_error(n) - expected).abs();
            // The first omitted term of the series is 1.1e-16 at 16.
            assert!(error <= 1.5e-16, "stirling_error({n}): {error}");
        }
    }
}
