//! Implicit QR iteration on a bidiagonal matrix.

use samebits_numerics::simd::{self, Kernel};

use crate::arch::columns::{ColumnPasses, TURNED};
use crate::error::Result;
use crate::linalg::NEGLIGIBLE;
use crate::memory::{volume, with_capacity};
use crate::parallel::chunks_mut;

/// Half of the distance from 1 to the next number.
const ROUNDING: f64 = f64::EPSILON / 2.0;

/// The number of whole sweeps after which the rotations are applied.
const SWEEPS: usize = 16;

/// The number of elements that a thread rotates at a time at least.
const GRAIN: usize = 1 << 17;

/// Makes the elements above the diagonal negligible, and rotates the columns of U and V: those of the
/// first `lefts` strips as U's.
pub(super) fn iterate(
    op: &'static str,
    diagonal: &mut [f64],
    above: &mut [f64],
    strips: &mut [[f64; TURNED]],
    lefts: usize,
) -> Result<()> {
    let k = diagonal.len();
    if k == 1 {
        return Ok(());
    }
    let mut rotations = Rotations {
        sweeps: with_capacity(op, 2 * SWEEPS)?,
        left: with_capacity(op, volume(op, &[SWEEPS, k])?)?,
        right: with_capacity(op, volume(op, &[SWEEPS, k])?)?,
    };
    let (mut active, mut remaining) = (k, 30 * k);
    loop {
        let (active, remaining, rotations) = (&mut active, &mut remaining, &mut rotations);
        let ended = simd::dispatch(Iterate {
            diagonal,
            above,
            active,
            remaining,
            rotations: &mut *rotations,
        });
        let rotations = &*rotations;
        let at_least = GRAIN.div_ceil(TURNED * rotations.left.len().max(1));
        chunks_mut(strips, k).at_least(at_least).enumerate().for_each(|(i, strip)| {
            rotations.apply(strip, i < lefts);
        });
        if ended {
            return Ok(());
        }
    }
}

/// Rotations of neighbouring columns, sweep by sweep.
#[derive(Debug)]
struct Rotations {
    /// The first column of each sweep, and the number of its rotations.
    sweeps: Vec<[usize; 2]>,
    left: Vec<[f64; 2]>,
    right: Vec<[f64; 2]>,
}

impl Rotations {
    fn apply(&self, strip: &mut [[f64; TURNED]], left: bool) {
        let passes = ColumnPasses::new();
        let mut angles = if left { &self.left[..] } else { &self.right[..] };
        for &[first, count] in &self.sweeps {
            let (now, later) = angles.split_at(count);
            passes.rotate(&mut strip[first..], now);
            angles = later;
        }
    }
}

/// Continues the iteration until it ends or there is no room for the rotations of the next sweep.
/// Returns true if it has ended.
struct Iterate<'a> {
    diagonal: &'a mut [f64],
    above: &'a mut [f64],
    /// The number of columns that have not converged.
    active: &'a mut usize,
    /// The number of sweeps that may still be made.
    remaining: &'a mut usize,
    rotations: &'a mut Rotations,
}

impl Kernel for Iterate<'_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let Iterate { diagonal, above, active, remaining, rotations } = self;
        rotations.sweeps.clear();
        rotations.left.clear();
        rotations.right.clear();
        loop {
            let negligible = |i: usize| {
                let size = above[i].abs();
                size <= ROUNDING * (diagonal[i].abs() + diagonal[i + 1].abs()) || size <= NEGLIGIBLE
            };
            while *active > 1 && negligible(*active - 2) {
                *active -= 1;
            }
            if *active <= 1 || *remaining == 0 {
                return true;
            }
            let mut first = *active - 2;
            while first > 0 && !negligible(first - 1) {
                first -= 1;
            }
            let count = *active - 1 - first;
            if rotations.left.capacity() - rotations.left.len() < count
                || rotations.sweeps.len() == rotations.sweeps.capacity()
            {
                return false;
            }
            *remaining -= 1;
            let (d, e) = (&mut diagonal[first..*active], &mut above[first..*active - 1]);
            match shift(d, e) {
                Some(start) => shifted(d, e, start, rotations),
                None => unshifted(d, e, rotations),
            }
            rotations.sweeps.push([first, count]);
        }
    }
}

/// Returns the first column of `BᵀB` less the shift, up to a factor: the first two elements. Returns
/// `None` if the shift or an element of the diagonal is negligible.
#[inline(always)]
fn shift(d: &[f64], e: &[f64]) -> Option<[f64; 2]> {
    let last = e.len();
    if d.iter().any(|d| d.abs() <= NEGLIGIBLE) {
        return None;
    }
    // The smaller singular value of the last two rows and columns.
    let (f, g, h) = (d[last - 1].abs(), e[last - 1].abs(), d[last].abs());
    let squares = g * g;
    let (sum, difference) = (f + h, f - h);
    let twice = sum.mul_add(sum, squares).sqrt() + difference.mul_add(difference, squares).sqrt();
    let shift = 2.0 * f / twice * h;
    let size = d[0].abs();
    let ratio = shift / size;
    if ratio * ratio < ROUNDING {
        return None;
    }
    Some([(size - shift) * (1f64.copysign(d[0]) + shift / d[0]), e[0]])
}

/// Returns the cosine and the sine that rotate `[f, g]` to `[r, 0]`, and `r`.
#[inline(always)]
fn rotation(f: f64, g: f64) -> ([f64; 2], f64) {
    let squares = f.mul_add(f, g * g);
    if squares < NEGLIGIBLE * NEGLIGIBLE {
        return ([1.0, 0.0], f);
    }
    let r = squares.sqrt();
    ([f / r, g / r], r)
}

/// Chases the bulge that a rotation by the shift makes below the diagonal to the end.
#[inline(always)]
fn shifted(d: &mut [f64], e: &mut [f64], [mut f, mut g]: [f64; 2], rotations: &mut Rotations) {
    let count = e.len();
    let e = &mut e[..count];
    let d = &mut d[..count + 1];
    for i in 0..count {
        let ([c, s], r) = rotation(f, g);
        rotations.right.push([c, s]);
        if i > 0 {
            e[i - 1] = r;
        }
        f = c.mul_add(d[i], s * e[i]);
        let rest = c.mul_add(e[i], -(s * d[i]));
        g = s * d[i + 1];
        let next = c * d[i + 1];
        let ([c, s], r) = rotation(f, g);
        rotations.left.push([c, s]);
        d[i] = r;
        f = c.mul_add(rest, s * next);
        d[i + 1] = c.mul_add(next, -(s * rest));
        if i + 1 < count {
            g = s * e[i + 1];
            e[i + 1] *= c;
        }
    }
    e[count - 1] = f;
}

/// Makes a sweep without shift, which leaves small singular values accurate.
#[inline(always)]
fn unshifted(d: &mut [f64], e: &mut [f64], rotations: &mut Rotations) {
    let count = e.len();
    let (mut right, mut left) = ([1.0, 0.0], [1.0, 0.0]);
    for i in 0..count {
        let r;
        (right, r) = rotation(d[i] * right[0], e[i]);
        if i > 0 {
            e[i - 1] = left[1] * r;
        }
        (left, d[i]) = rotation(left[0] * r, d[i + 1] * right[1]);
        rotations.right.push(right);
        rotations.left.push(left);
    }
    let last = d[count] * right[0];
    e[count - 1] = last * left[1];
    d[count] = last * left[0];
}
