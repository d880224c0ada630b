//! Matrices in the layouts of the steps: columns for the reduction, tiles of `W` columns for
//! reflections, strips of [`TURNED`] rows, column by column, for rotations.

use samebits_numerics::simd::Kernel;

use crate::Float;
use crate::arch::columns::TURNED;
use crate::linalg::qr::along::ReadColumns;
use crate::linalg::qr::columns::Shape;
use crate::linalg::qr::tiles::Read;
use crate::linalg::{largest, scale_of};

/// The columns of a tile.
pub(super) const W: usize = 8;

/// Writes columns of `rows` elements, divided by the power of two at or below the largest magnitude,
/// `step` elements apart. Returns the divisor.
pub(super) struct Scale<'a, T> {
    pub(super) x: &'a [T],
    pub(super) rows: usize,
    pub(super) step: usize,
    pub(super) out: &'a mut [f64],
}

impl<T: Float> Kernel for Scale<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let Scale { x, rows, step, out } = self;
        for (out, x) in out.chunks_exact_mut(step).zip(x.chunks_exact(rows)) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = x.into();
            }
            out[rows..].fill(0.0);
        }
        divide(out)
    }
}

/// Does what [`Scale`] does, from rows of `count` elements to tiles.
pub(super) struct ScaleTiles<'a, T> {
    pub(super) x: &'a [T],
    pub(super) rows: usize,
    pub(super) count: usize,
    pub(super) tiles: &'a mut [[f64; W]],
}

impl<T: Float> Kernel for ScaleTiles<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let ScaleTiles { x, rows, count, tiles } = self;
        Read { x, count, rows, first: 0, tiles }.run();
        divide(tiles.as_flattened_mut())
    }
}

/// Does what [`Scale`] does to columns of the given shape, from rows, or from the columns that the rows
/// of a matrix with more columns than rows are.
pub(super) struct ScaleColumns<'a, T> {
    pub(super) x: &'a [T],
    pub(super) size: [usize; 2],
    pub(super) shape: Shape,
    pub(super) columns: &'a mut [f64],
}

impl<T: Float> Kernel for ScaleColumns<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let ScaleColumns { x, size: [m, n], shape, columns } = self;
        if m < n {
            for (column, x) in columns.chunks_exact_mut(shape.step).zip(x.chunks_exact(n)) {
                for (to, &x) in column.iter_mut().zip(x) {
                    *to = x.into();
                }
                column[n..].fill(0.0);
            }
        } else {
            for column in columns.chunks_exact_mut(shape.step) {
                column[m..].fill(0.0);
            }
            let columns = &mut *columns;
            ReadColumns { x, count: n, shape, first: 0, columns }.run();
        }
        divide(columns)
    }
}

#[inline(always)]
fn divide(x: &mut [f64]) -> f64 {
    let scale = scale_of(x);
    // The inverse of a power of two is exact.
    let inverse = 1.0 / scale;
    for x in x {
        *x *= inverse;
    }
    scale
}

/// Writes the columns of the upper triangle of tiles, `step` elements apart.
pub(super) fn triangle(tiles: &[[f64; W]], rows: usize, step: usize, out: &mut [f64]) {
    for (j, out) in out.chunks_exact_mut(step).enumerate() {
        let tile = &tiles[j / W * rows..][..j + 1];
        let (inside, outside) = out.split_at_mut(j + 1);
        for (out, row) in inside.iter_mut().zip(tile) {
            *out = row[j % W];
        }
        outside.fill(0.0);
    }
}

/// Does what [`triangle`] does from columns.
pub(super) fn triangle_of_columns(columns: &[f64], shape: Shape, step: usize, out: &mut [f64]) {
    let pairs = out.chunks_exact_mut(step).zip(columns.chunks_exact(shape.step));
    for (j, (out, column)) in pairs.enumerate() {
        let (inside, outside) = out.split_at_mut(j + 1);
        inside.copy_from_slice(&column[..j + 1]);
        outside.fill(0.0);
    }
}

/// Writes strip number `strip` of a matrix in tiles of `rows` rows, behind `unit` rows and columns of the
/// identity. Rows that the tiles lack are zero.
pub(super) fn to_strip(
    tiles: &[[f64; W]],
    rows: usize,
    unit: usize,
    strip: usize,
    out: &mut [[f64; TURNED]],
) {
    let first = strip * TURNED;
    for (j, out) in out.iter_mut().enumerate() {
        *out = [0.0; TURNED];
        if j < unit {
            if let Some(out) = j.checked_sub(first).and_then(|row| out.get_mut(row)) {
                *out = 1.0;
            }
            continue;
        }
        let (tile, column) = (&tiles[(j - unit) / W * rows..][..rows], (j - unit) % W);
        // The first rows are above those of the tile.
        let above = unit.saturating_sub(first);
        let tile = tile.get(first + above - unit..).unwrap_or_default();
        for (out, row) in out[above..].iter_mut().zip(tile) {
            *out = row[column];
        }
    }
}

/// Writes a tile of `rows` rows, and zeros below, from columns of strips.
pub(super) fn to_tile(
    strips: &[[f64; TURNED]],
    count: usize,
    rows: usize,
    columns: &[usize],
    tile: &mut [[f64; W]],
) {
    let (inside, below) = tile.split_at_mut(rows);
    for (rows, strip) in inside.chunks_mut(TURNED).zip(strips.chunks_exact(count)) {
        for (r, row) in rows.iter_mut().enumerate() {
            *row = [0.0; W];
            for (to, &from) in row.iter_mut().zip(columns) {
                *to = strip[from][r];
            }
        }
    }
    below.fill([0.0; W]);
}

/// Writes columns, and zeros below, from those of strips that `order` names.
pub(super) fn to_columns(
    strips: &[[f64; TURNED]],
    count: usize,
    order: &[usize],
    shape: Shape,
    columns: &mut [f64],
) {
    for (column, &from) in columns.chunks_exact_mut(shape.step).zip(order) {
        let (inside, below) = column.split_at_mut(count);
        for (to, strip) in inside.chunks_mut(TURNED).zip(strips.chunks_exact(count)) {
            to.copy_from_slice(&strip[from][..to.len()]);
        }
        below.fill(0.0);
    }
}

/// Does what [`Orient`] does to columns and tiles of as many columns, of which either may lead.
pub(super) struct OrientColumns<'a> {
    pub(super) columns: &'a mut [f64],
    pub(super) shape: Shape,
    pub(super) tiles: &'a mut [[f64; W]],
    pub(super) tiles_lead: bool,
}

impl Kernel for OrientColumns<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let OrientColumns { columns, shape: Shape { rows, step }, tiles, tiles_lead } = self;
        let count = columns.len() / step;
        for (j, column) in columns.chunks_exact_mut(step).enumerate() {
            let (column, tile) = (&mut column[..rows], &mut tiles[j / W * count..][..count]);
            let lead = if tiles_lead {
                let lead = |lead: f64, row: &[f64; W]| larger(lead, row[j % W]);
                tile.iter().fold(0.0, lead)
            } else {
                let largest = largest(column);
                column.iter().copied().find(|x| x.abs() == largest).unwrap_or_default()
            };
            if lead < 0.0 {
                column.iter_mut().for_each(|x| *x = -*x);
                tile.iter_mut().for_each(|row| row[j % W] = -row[j % W]);
            }
        }
    }
}

/// Returns the element with the larger magnitude, or the first one.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if b.abs() > a.abs() { b } else { a }
}

/// Changes the signs of columns of one tile so that the first element of largest magnitude is not
/// negative, and the same signs in the other one.
pub(super) struct Orient<'a> {
    pub(super) leading: &'a mut [[f64; W]],
    pub(super) other: &'a mut [[f64; W]],
}

impl Kernel for Orient<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Orient { leading, other } = self;
        let mut leads = [0.0f64; W];
        for row in &*leading {
            for c in 0..W {
                leads[c] = larger(leads[c], row[c]);
            }
        }
        if leads.iter().all(|&lead| lead >= 0.0) {
            return;
        }
        let signs = leads.map(|lead| if lead < 0.0 { -1.0 } else { 1.0 });
        for row in leading.iter_mut().chain(other) {
            for c in 0..W {
                row[c] *= signs[c];
            }
        }
    }
}
