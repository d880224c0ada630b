//! Rotary position embedding.

use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::Rotation;

use crate::error::{Result, expect_len, expect_size};
use crate::float::Float;
use crate::parallel;

const ROTARY: &str = "rotary_embedding";

/// The arguments of [`rotary_embedding`].
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a, T> {
    /// The cosine for each position and pair, length by half.
    pub cos: &'a [T],
    /// The sines.
    pub sin: &'a [T],
    /// If true, a pair are features `2i` and `2i + 1`; else `i` and `i + half`.
    pub interleaved: bool,
}

/// Rotates pairs of features of rows; row `r` is at position `r mod length`.
///
/// # Determinism
///
/// `Portable`: a pair `(a, b)` becomes `(a · cos − b · sin, b · cos + a · sin)`, and each operation is
/// rounded.
///
/// # Errors
///
/// [`Error`](crate::Error) if a slice does not have the sizes.
pub fn rotary_embedding<T: Float>(
    x: &[T],
    tables: Tables<'_, T>,
    rotation: Rotation,
    out: &mut [T],
) -> Result<()> {
    let Rotation { length, width, half } = rotation;
    expect_len(ROTARY, "out", out.len(), x.len())?;
    expect_size(ROTARY, "cos", tables.cos.len(), &[length, half])?;
    expect_size(ROTARY, "sin", tables.sin.len(), &[length, half])?;
    if !x.is_empty() {
        parallel::rows(width, out, |start, out| {
            let x = &x[start..][..out.len()];
            simd::dispatch(Rotate { x, tables, rotation, row: start / width, out });
        });
    }
    Ok(())
}

struct Rotate<'a, T> {
    x: &'a [T],
    tables: Tables<'a, T>,
    rotation: Rotation,
    /// The first row.
    row: usize,
    out: &'a mut [T],
}

impl<T: Float> Kernel for Rotate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Rotate { x, tables, rotation: Rotation { length, width, half }, row, out } = self;
        let rows = x.chunks_exact(width).zip(out.chunks_exact_mut(width));
        for (position, (x, out)) in (row..).zip(rows) {
            let at = position % length * half;
            let (cos, sin) = (&tables.cos[at..][..half], &tables.sin[at..][..half]);
            let (x, rest) = x.split_at(2 * half);
            let (out, out_rest) = out.split_at_mut(2 * half);
            out_rest.copy_from_slice(rest);
            let angles = cos.iter().zip(sin);
            if tables.interleaved {
                let pairs = x.chunks_exact(2).zip(out.chunks_exact_mut(2));
                for ((x, out), (&cos, &sin)) in pairs.zip(angles) {
                    [out[0], out[1]] = turned(x[0], x[1], cos, sin);
                }
            } else {
                let ((a, b), (first, second)) = (x.split_at(half), out.split_at_mut(half));
                let pairs = a.iter().zip(b).zip(first.iter_mut().zip(second));
                for (((&a, &b), (first, second)), (&cos, &sin)) in pairs.zip(angles) {
                    [*first, *second] = turned(a, b, cos, sin);
                }
            }
        }
    }
}

#[inline(always)]
fn turned<T: Float>(a: T, b: T, cos: T, sin: T) -> [T; 2] {
    [(a * cos - b * sin).canonical(), (b * cos + a * sin).canonical()]
}
