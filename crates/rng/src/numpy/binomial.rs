//! Binomial variates of both of NumPy's generators.

#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;
use samebits_numerics::math;

use crate::{Error, wide};

pub(super) fn check(op: &'static str, n: i64, p: f64) -> Result<(), Error> {
    if n < 0 {
        return Err(Error::parameter(op, "n", n, "at least 0"));
    }
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::parameter(op, "p", p, "from 0 to 1"));
    }
    Ok(())
}

/// Draws a binomial variate. `log_rest(p)` is the generator's way to the logarithm of 1 − p.
pub(super) fn binomial(
    n: i64,
    p: f64,
    log_rest: impl Fn(f64) -> f64,
    mut random: impl FnMut() -> f64,
) -> i64 {
    let rare = if p <= 0.5 { p } else { 1.0 - p };
    let drawn = if rare * n as f64 <= 30.0 {
        inversion(n, rare, wide::exp(n as f64 * log_rest(rare)), &mut random)
    } else {
        btpe(n, rare, &mut random)
    };
    if p <= 0.5 { drawn } else { n - drawn }
}

/// Draws by inversion of the distribution function, from 0 on; `none` is the probability of 0.
fn inversion(n: i64, p: f64, none: f64, random: &mut impl FnMut() -> f64) -> i64 {
    let (q, mean) = (1.0 - p, n as f64 * p);
    let bound = (n as f64).min(mean + 10.0 * (mean * q + 1.0).sqrt()) as i64;
    'again: loop {
        let (mut k, mut chance, mut rest) = (0, none, random());
        while rest > chance {
            k += 1;
            if k > bound {
                continue 'again;
            }
            rest -= chance;
            chance = ((n - k + 1) as f64 * p * chance) / (k as f64 * q);
        }
        return k;
    }
}

/// Draws by the method BTPE of Kachitvichyanukul and Schmeiser: rejection from a triangle, a
/// parallelogram and two exponential tails. The order of every operation is NumPy's.
fn btpe(n: i64, p: f64, random: &mut impl FnMut() -> f64) -> i64 {
    let (r, size) = (p, n as f64);
    let q = 1.0 - r;
    let fm = size * r + r;
    let mode = fm.floor() as i64;
    let m = mode as f64;
    let p1 = (2.195 * (size * r * q).sqrt() - 4.6 * q).floor() + 0.5;
    let xm = m + 0.5;
    let (xl, xr) = (xm - p1, xm + p1);
    let c = 0.134 + 20.5 / (15.3 + m);
    let a = (fm - xl) / (fm - xl * r);
    let left = a * (1.0 + a / 2.0);
    let a = (xr - fm) / (xr * q);
    let right = a * (1.0 + a / 2.0);
    let p2 = p1 * (1.0 + 2.0 * c);
    let p3 = p2 + c / left;
    let p4 = p3 + c / right;
    let variance = size * r * q;
    loop {
        let u = random() * p4;
        let mut v = random();
        if u <= p1 {
            return (xm - p1 * v + u).floor() as i64;
        }
        let y = if u <= p2 {
            let x = xl + (u - p1) / c;
            v = v * c + 1.0 - (m - x + 0.5).abs() / p1;
            if v > 1.0 {
                continue;
            }
            x.floor() as i64
        } else if u <= p3 {
            let y = (xl + log(v) / left).floor();
            if y < 0.0 {
                continue;
            }
            v = v * (u - p2) * left;
            y as i64
        } else {
            let y = (xr - log(v) / right).floor();
            if y > size {
                continue;
            }
            v = v * (u - p3) * right;
            y as i64
        };
        let distance = (y - mode).unsigned_abs();
        let k = distance as f64;
        if distance > 20 && k < variance / 2.0 - 1.0 {
            let rho =
                (k / variance) * ((k * (k / 3.0 + 0.625) + 0.16666666666666666) / variance + 0.5);
            let t = -k * k / (2.0 * variance);
            let a = log(v);
            if a < t - rho || a <= t + rho && a <= ratio(n, mode, y, xm, r, q) {
                return y;
            }
        } else if v <= ratio_by_steps(n, mode, y, r / q) {
            return y;
        }
    }
}

/// Returns the logarithm of a non-negative number.
fn log(x: f64) -> f64 {
    if x == 0.0 { f64::NEG_INFINITY } else { math::f64::log_rounded(x) }
}

/// Returns the probability of `y` divided by that of the mode, computed factor by factor.
fn ratio_by_steps(n: i64, mode: i64, y: i64, s: f64) -> f64 {
    let a = s * n.saturating_add(1) as f64;
    let mut ratio = 1.0;
    for i in mode + 1..=y {
        ratio *= a / i as f64 - s;
    }
    for i in y + 1..=mode {
        ratio /= a / i as f64 - s;
    }
    ratio
}

/// Returns the logarithm of the same ratio by Stirling's formula.
fn ratio(n: i64, mode: i64, y: i64, xm: f64, r: f64, q: f64) -> f64 {
    let stirling = |x: f64| {
        let square = x * x;
        (13680.0 - (462.0 - (132.0 - (99.0 - 140.0 / square) / square) / square) / square)
            / x
            / 166320.0
    };
    let (x1, f1) = ((y + 1) as f64, (mode + 1) as f64);
    let (z, w) = ((n - mode + 1) as f64, (n - y + 1) as f64);
    xm * log(f1 / x1)
        + ((n - mode) as f64 + 0.5) * log(z / w)
        + (y - mode) as f64 * log(w * r / (x1 * q))
        + stirling(f1)
        + stirling(z)
        + stirling(x1)
        + stirling(w)
}
