//! Products of halves: computed in f32 from operands that packing widens, and rounded once.

use super::pack::{Factors, Lanes};
use super::real::sealed::Sealed as _;
use super::split_k::products;
use super::{Source, even_parts};
use crate::elementwise::halves::Half;
use crate::parallel;
use samebits_numerics::memory::OutOfMemory;
use samebits_numerics::simd::{self, Kernel};

/// The number of rows, and of columns, that are computed in f32 at a time.
const BLOCK: usize = 1024;

/// Computes `count` products of one shape as [`products`] does, adds `bias` to each row, and rounds
/// each element once.
///
/// Only blocks of the result exist in f32, and only some of the columns of B are packed at once.
pub(crate) fn half_products<'a, S: Source<f32> + Half>(
    count: usize,
    (m, n, k): (usize, usize, usize),
    factors: impl Fn(usize) -> Factors<'a, S> + Sync,
    bias: Option<&[S]>,
    out: &mut [S],
) -> Result<(), OutOfMemory> {
    if out.is_empty() {
        return Ok(());
    }
    let bias: Option<Vec<f32>> = bias.map(|bias| bias.iter().map(|&x| Half::widen(x)).collect());
    let bias = bias.as_deref();
    f32::with_scratch(|scratch| {
        if m <= BLOCK && n <= BLOCK {
            let together = (BLOCK * BLOCK / (m * n)).clamp(1, count);
            for (group, out) in out.chunks_mut(together * m * n).enumerate() {
                let wide = scratch.wide.slice(&[out.len()])?;
                let first = group * together;
                let factors = |index: usize| factors(first + index);
                products(out.len() / (m * n), (m, n, k), factors, wide)?;
                round_rows(wide, n, bias, out, n, 0);
            }
            return Ok(());
        }
        for (index, out) in out.chunks_exact_mut(m * n).enumerate() {
            let Factors { a, b } = factors(index);
            for rows in even_parts(m, BLOCK) {
                let out = &mut out[rows.start * n..rows.end * n];
                for columns in even_parts(n, BLOCK) {
                    let factors = |_| Factors { a: from(a, rows.start), b: from(b, columns.start) };
                    let shape = (rows.len(), columns.len(), k);
                    let wide = scratch.wide.slice(&[shape.0, shape.1])?;
                    products(1, shape, factors, wide)?;
                    let bias = bias.map(|bias| &bias[columns.clone()]);
                    round_rows(wide, shape.1, bias, out, n, columns.start);
                }
            }
        }
        Ok(())
    })
}

/// Returns the lanes from `first` on.
fn from<S>(lanes: Lanes<'_, S>, first: usize) -> Lanes<'_, S> {
    // Without steps, even the first lane may lie outside.
    let data = lanes.data.get(first * lanes.lane_stride..).unwrap_or(&[]);
    Lanes { data, ..lanes }
}

/// Rounds rows of `columns` elements to places `first..` of the rows of `out`, which are `stride`
/// long.
fn round_rows<S: Half>(
    wide: &[f32],
    columns: usize,
    bias: Option<&[f32]>,
    out: &mut [S],
    stride: usize,
    first: usize,
) {
    // A piece is a number of rows that depends on their length alone.
    let rows = parallel::CHUNK.div_ceil(stride);
    parallel::chunks_mut(out, rows * stride).enumerate().for_each(|(piece, out)| {
        let wide = &wide[piece * rows * columns..];
        simd::dispatch(RoundRows { wide, columns, bias, out, stride, first });
    });
}

struct RoundRows<'a, S> {
    wide: &'a [f32],
    columns: usize,
    bias: Option<&'a [f32]>,
    out: &'a mut [S],
    stride: usize,
    first: usize,
}

impl<S: Half> Kernel for RoundRows<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let RoundRows { wide, columns, bias, out, stride, first } = self;
        for (out, wide) in out.chunks_exact_mut(stride).zip(wide.chunks_exact(columns)) {
            let out = &mut out[first..first + columns];
            match bias {
                Some(bias) => {
                    for ((out, &x), &bias) in out.iter_mut().zip(wide).zip(bias) {
                        *out = S::round(x + bias);
                    }
                }
                None => out.iter_mut().zip(wide).for_each(|(out, &x)| *out = S::round(x)),
            }
        }
    }
}
