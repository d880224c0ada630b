//! Winograd's minimal filtering: F(2×2, 3×3) and F(4×4, 3×3).
//!
//! The source is cut into overlapping tiles of `A` = `M` + 2. Tiles and weights are transformed,
//! multiplied point by point (a matrix product over channels for each point), and transformed back
//! to `M` × `M` targets.
//!
//! # References
//!
//! Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*, CVPR 2016.

use samebits_numerics::memory::OutOfMemory;
use samebits_numerics::simd;

use super::shape::{Gather, buffer, count};
use crate::conv::volume;
use crate::gemm::driver::products;
use crate::gemm::pack::{Factors, Lanes};
use crate::parallel;
use samebits_numerics::nan::canonical;

/// The number of tiles that are transformed together.
const LANES: usize = 16;

/// The number of tiles of one product, so that it is worth dividing.
const TILES: usize = 1024;

/// Returns the number of elements of workspace.
pub(super) fn workspace<const M: usize, const A: usize>(gather: &Gather) -> usize {
    let cut = Cut::new::<M>(gather);
    let tiles = count(&[cut.images, cut.tiles(), gather.channels + gather.rows]);
    count(&[A * A, (gather.rows * gather.channels).saturating_add(tiles)])
}

/// Computes every element of `target`.
pub(super) fn run<const M: usize, const A: usize>(
    gather: &Gather,
    source: &[f32],
    weights: &[f32],
    target: &mut [f32],
) -> Result<(), OutOfMemory> {
    if target.is_empty() {
        return Ok(());
    }
    let cut = Cut::new::<M>(gather);
    let (rows, channels, points) = (gather.rows, gather.channels, A * A);
    let (planes, positions) = (volume(gather.source), volume(gather.target));
    let mut u = buffer(&[points, rows, channels])?;
    let mut v = buffer(&[channels, points, cut.images, cut.tiles()])?;
    let mut m = buffer(&[points, rows, cut.images, cut.tiles()])?;
    for group in 0..gather.groups {
        transform_weights::<A>(gather, &weights[group * gather.weight_group..], &mut u);
        for first in (0..gather.batch).step_by(cut.images) {
            let images = cut.images.min(gather.batch - first);
            let count = images * cut.tiles();
            parallel::chunks_mut(&mut v[..channels * points * count], points * count)
                .enumerate()
                .try_for_each_with(
                || buffer(&[cut.down * M + 2, cut.width]),
                |buffer, (channel, v)| {
                    for (image, first_tile) in (first..).zip((0..count).step_by(cut.tiles())) {
                        let plane = (image * gather.groups + group) * channels + channel;
                        let source = &source[plane * planes..][..planes];
                        cut.pad::<M>(gather, source, buffer);
                        simd::dispatch(Input::<M, A> { cut: &cut, buffer, v, first_tile });
                    }
                    Ok(())
                },
            )?;
            let lanes = |data, lane_stride, step_stride| Lanes { data, lane_stride, step_stride };
            let factors = |point: usize| Factors {
                a: lanes(&u[point * channels..], points * channels, 1),
                b: lanes(&v[point * count..], 1, points * count),
            };
            let m = &mut m[..points * rows * count];
            products(points, (rows, count, channels), factors, m)?;
            let from = first * gather.groups * rows * positions;
            let planes = &mut target[from..][..images * gather.groups * rows * positions];
            parallel::chunks_mut(planes, positions).enumerate().for_each(|(plane, target)| {
                if plane / rows % gather.groups != group {
                    return;
                }
                let first_tile = plane / rows / gather.groups * cut.tiles();
                let size = gather.target;
                let row = plane % rows;
                simd::dispatch(Output::<M, A> {
                    cut: &cut,
                    m,
                    rows,
                    row,
                    count,
                    first_tile,
                    size,
                    target,
                });
            });
        }
    }
    Ok(())
}

/// The division of the target into tiles, and the number of images computed together.
struct Cut {
    down: usize,
    across: usize,
    images: usize,
    /// The number of elements of a row of the padded source.
    width: usize,
}

impl Cut {
    fn new<const M: usize>(gather: &Gather) -> Cut {
        let down = gather.target[1].div_ceil(M);
        let across = gather.target[2].div_ceil(M);
        let images = TILES.div_ceil((down * across).max(1)).clamp(1, gather.batch.max(1));
        Cut { down, across, images, width: across * M + 2 }
    }

    fn tiles(&self) -> usize {
        self.down * self.across
    }

    /// Copies a plane so that the first tile begins at the first element. A gradient reads its
    /// source backwards from the start of the window, so the weights are reversed instead.
    fn pad<const M: usize>(&self, gather: &Gather, source: &[f32], buffer: &mut [f32]) {
        let begin = |d: usize| gather.shift[d] + (gather.reach[d] * 2).min(0);
        let (top, left) = (begin(1), begin(2));
        let [_, height, width] = gather.source;
        for (line, to) in buffer.chunks_exact_mut(self.width).enumerate() {
            let at = line as isize + top;
            if at < 0 || at >= height as isize {
                to.fill(0.0);
                continue;
            }
            let from = &source[at as usize * width..][..width];
            let zeros = (-left).clamp(0, to.len() as isize) as usize;
            let skipped = left.clamp(0, width as isize) as usize;
            let count = (width - skipped).min(to.len() - zeros);
            to[..zeros].fill(0.0);
            to[zeros..zeros + count].copy_from_slice(&from[skipped..skipped + count]);
            to[zeros + count..].fill(0.0);
        }
    }
}

/// Computes `u[row][point][channel]` in double precision.
fn transform_weights<const A: usize>(gather: &Gather, weights: &[f32], u: &mut [f32]) {
    let g: [[f64; 3]; A] = std::array::from_fn(|i| if A == 4 { G2[i % 4] } else { G4[i % 6] });
    let backwards = gather.reach[1] < 0;
    let channels = gather.channels;
    parallel::chunks_mut(u, A * A * channels).enumerate().for_each(|(row, u)| {
        for channel in 0..channels {
            let at = row * gather.weight_row + channel * gather.weight_channel;
            let w: [[f64; 3]; 3] = std::array::from_fn(|i| {
                std::array::from_fn(|j| {
                    let tap = i * 3 + j;
                    f64::from(weights[at + if backwards { 8 - tap } else { tap }])
                })
            });
            for i in 0..A {
                let half: [f64; 3] = std::array::from_fn(|j| {
                    g[i][0] * w[0][j] + g[i][1] * w[1][j] + g[i][2] * w[2][j]
                });
                for j in 0..A {
                    let value = g[j][0] * half[0] + g[j][1] * half[1] + g[j][2] * half[2];
                    u[(i * A + j) * channels + channel] = value as f32;
                }
            }
        }
    });
}

const G2: [[f64; 3]; 4] = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];

const G4: [[f64; 3]; 6] = [
    [0.25, 0.0, 0.0],
    [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
    [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
    [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
    [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
    [0.0, 0.0, 1.0],
];

/// One number of each tile.
type Lane = [f32; LANES];

/// Arguments of a kernel that transforms the tiles of one plane to `v[point][tile]`.
struct Input<'a, 'b, const M: usize, const A: usize> {
    cut: &'a Cut,
    buffer: &'a [f32],
    v: &'b mut [f32],
    first_tile: usize,
}

impl<const M: usize, const A: usize> simd::Kernel for Input<'_, '_, M, A> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Input { cut, buffer, v, first_tile } = self;
        let all = v.len() / (A * A);
        let tiles = cut.tiles();
        for from in (0..tiles).step_by(LANES) {
            let count = LANES.min(tiles - from);
            let mut d = [[[0.0; LANES]; A]; A];
            for lane in 0..count {
                let (y, x) = ((from + lane) / cut.across, (from + lane) % cut.across);
                let corner = &buffer[y * M * cut.width + x * M..];
                for i in 0..A {
                    let line: &[f32; A] = corner[i * cut.width..i * cut.width + A]
                        .try_into()
                        .expect("of this length");
                    for j in 0..A {
                        d[i][j][lane] = line[j];
                    }
                }
            }
            for row in &mut d {
                *row = input_line::<A>(row);
            }
            for j in 0..A {
                let column = input_line::<A>(&std::array::from_fn(|i| d[i][j]));
                for i in 0..A {
                    let to = (i * A + j) * all + first_tile + from;
                    v[to..to + count].copy_from_slice(&column[i][..count]);
                }
            }
        }
    }
}

/// Arguments of a kernel that transforms one row of points back to a plane.
struct Output<'a, 'b, const M: usize, const A: usize> {
    cut: &'a Cut,
    m: &'a [f32],
    rows: usize,
    row: usize,
    count: usize,
    first_tile: usize,
    size: [usize; 3],
    target: &'b mut [f32],
}

impl<const M: usize, const A: usize> simd::Kernel for Output<'_, '_, M, A> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Output { cut, m, rows, row, count: all, first_tile, size, target } = self;
        let [_, height, width] = size;
        let tiles = cut.tiles();
        for from in (0..tiles).step_by(LANES) {
            let count = LANES.min(tiles - from);
            let mut half = [[[0.0; LANES]; A]; M];
            for j in 0..A {
                let column: [Lane; A] = std::array::from_fn(|i| {
                    let at = ((i * A + j) * rows + row) * all + first_tile + from;
                    let mut lane = [0.0; LANES];
                    lane[..count].copy_from_slice(&m[at..at + count]);
                    lane
                });
                let column = output_line::<M, A>(&column);
                for i in 0..M {
                    half[i][j] = column[i];
                }
            }
            let y: [[Lane; M]; M] = std::array::from_fn(|i| output_line::<M, A>(&half[i]));
            for lane in 0..count {
                let (down, across) = ((from + lane) / cut.across, (from + lane) % cut.across);
                let wide = M.min(width - across * M);
                for i in 0..M.min(height - down * M) {
                    let at = (down * M + i) * width + across * M;
                    for (j, to) in target[at..at + wide].iter_mut().enumerate() {
                        let value = y[i][j][lane];
                        *to = canonical(value);
                    }
                }
            }
        }
    }
}

/// Returns Bᵀ times a column.
#[inline(always)]
fn input_line<const A: usize>(d: &[Lane; A]) -> [Lane; A] {
    let mut to = [[0.0; LANES]; A];
    for l in 0..LANES {
        if A == 4 {
            to[0][l] = d[0][l] - d[2][l];
            to[1][l] = d[1][l] + d[2][l];
            to[2][l] = d[2][l] - d[1][l];
            to[3][l] = d[1][l] - d[3][l];
        } else {
            let even = d[4][l] - 4.0 * d[2][l];
            let odd = d[3][l] - 4.0 * d[1][l];
            let difference = d[4][l] - d[2][l];
            let twice = 2.0 * (d[3][l] - d[1][l]);
            to[0][l] = 4.0 * d[0][l] - 5.0 * d[2][l] + d[4][l];
            to[1][l] = even + odd;
            to[2][l] = even - odd;
            to[3][l] = difference + twice;
            to[4][l] = difference - twice;
            to[5][l] = 4.0 * d[1][l] - 5.0 * d[3][l] + d[5 % A][l];
        }
    }
    to
}

/// Returns Aᵀ times a column.
#[inline(always)]
fn output_line<const M: usize, const A: usize>(m: &[Lane; A]) -> [Lane; M] {
    let mut to = [[0.0; LANES]; M];
    for l in 0..LANES {
        let (sum, difference) = (m[1][l] + m[2][l], m[1][l] - m[2][l]);
        if M == 2 {
            to[0][l] = m[0][l] + sum;
            to[1][l] = difference - m[3][l];
        } else {
            let (more, less) = (m[3][l] + m[4 % A][l], m[3][l] - m[4 % A][l]);
            to[0][l] = m[0][l] + sum + more;
            to[1][l] = difference + 2.0 * less;
            to[2 % M][l] = sum + 4.0 * more;
            to[3 % M][l] = difference + 8.0 * less + m[5 % A][l];
        }
    }
    to
}
