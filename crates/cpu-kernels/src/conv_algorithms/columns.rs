//! The matrix of all windows (`im2col`), and one matrix product for each image and group.
//!
//! Where a window reaches into the padding the matrix holds a zero. `Plan` runs these passes only
//! on data for which multiplying with it changes no bit of what skipping gives.

use samebits_numerics::memory::OutOfMemory;
use samebits_tensor_core::geometry::{ConvPass, ConvSizes};

use super::shape::{Gather, buffer, count};
use crate::conv::volume;
use crate::gemm::driver::products;
use crate::gemm::pack::{Factors, Lanes};
use crate::parallel;

/// Returns the number of elements of the workspace.
pub(super) fn workspace(s: &ConvSizes, pass: ConvPass, gather: &Gather) -> usize {
    let matrix = if is_source(gather) {
        0
    } else {
        count(&[gather.channels, gather.taps(), volume(gather.target)])
    };
    match pass {
        ConvPass::Forward => matrix,
        ConvPass::InputGrad | ConvPass::WeightGrad => {
            matrix.saturating_add(s.outputs * s.inputs * gather.taps())
        }
    }
}

/// Forms every element of `target`.
pub(super) fn run(
    gather: &Gather,
    source: &[f32],
    weights: &[f32],
    target: &mut [f32],
) -> Result<(), OutOfMemory> {
    if target.is_empty() {
        return Ok(());
    }
    let (taps, positions) = (gather.taps(), volume(gather.target));
    let steps = gather.channels * taps;
    let from = gather.channels * volume(gather.source);
    let mut matrix = Matrix::new(gather)?;
    let mut moved = Vec::new();
    for image in 0..gather.batch * gather.groups {
        let group = image % gather.groups;
        let columns = matrix.of(gather, &source[image * from..][..from]);
        let weights = &weights[group * gather.weight_group..][..gather.rows * steps];
        let weights = if gather.weight_channel == taps {
            weights
        } else {
            // The weights of one target channel lie apart: bring them together.
            if moved.is_empty() {
                moved = buffer(&[gather.rows, steps])?;
            }
            for (row, to) in moved.chunks_exact_mut(steps).enumerate() {
                for (channel, to) in to.chunks_exact_mut(taps).enumerate() {
                    let at = row * gather.weight_row + channel * gather.weight_channel;
                    to.copy_from_slice(&weights[at..at + taps]);
                }
            }
            &moved
        };
        let a = Lanes { data: weights, lane_stride: steps, step_stride: 1 };
        let b = Lanes { data: columns, lane_stride: 1, step_stride: positions };
        let out = &mut target[image * gather.rows * positions..][..gather.rows * positions];
        products(1, (gather.rows, positions, steps), |_| Factors { a, b }, out)?;
    }
    Ok(())
}

/// Computes the weight gradient, summed image by image.
pub(super) fn weight_grad(
    s: &ConvSizes,
    input: &[f32],
    gradient: &[f32],
    out: &mut [f32],
) -> Result<(), OutOfMemory> {
    let gather = Gather::forward(s);
    let positions = volume(s.output);
    let steps = s.inputs * gather.taps();
    let from = s.inputs * volume(s.input);
    let mut matrix = Matrix::new(&gather)?;
    let mut part = buffer(&[s.outputs, steps])?;
    out.fill(0.0);
    for image in 0..s.batch * s.groups {
        let columns = matrix.of(&gather, &input[image * from..][..from]);
        let gradient = &gradient[image * s.outputs * positions..][..s.outputs * positions];
        let a = Lanes { data: gradient, lane_stride: positions, step_stride: 1 };
        let b = Lanes { data: columns, lane_stride: positions, step_stride: 1 };
        products(1, (s.outputs, steps, positions), |_| Factors { a, b }, &mut part)?;
        let out = &mut out[image % s.groups * part.len()..][..part.len()];
        for (out, part) in out.iter_mut().zip(&part) {
            *out += part;
        }
    }
    Ok(())
}

/// The matrix of all windows of one image and group; nothing if that is the source itself.
struct Matrix(Option<Vec<f32>>);

impl Matrix {
    fn new(gather: &Gather) -> Result<Matrix, OutOfMemory> {
        if is_source(gather) {
            return Ok(Matrix(None));
        }
        let sizes = [gather.channels, gather.taps(), volume(gather.target)];
        Ok(Matrix(Some(buffer(&sizes)?)))
    }

    fn of<'a>(&'a mut self, gather: &Gather, source: &'a [f32]) -> &'a [f32] {
        match &mut self.0 {
            None => source,
            Some(matrix) => {
                fill(gather, source, matrix);
                matrix
            }
        }
    }
}

/// Returns true if the matrix is the source itself.
fn is_source(gather: &Gather) -> bool {
    gather.taps() == 1
        && gather.step == [1; 3]
        && gather.divisor == [1; 3]
        && gather.shift == [0; 3]
}

/// Fills the matrix: row (channel, tap) holds the elements that the tap reads, by target position.
fn fill(gather: &Gather, source: &[f32], matrix: &mut [f32]) {
    let (taps, plane) = (gather.taps(), volume(gather.source));
    let [depth, height, width] = gather.target;
    parallel::chunks_mut(matrix, depth * height * width).enumerate().for_each(|(row, to)| {
        let source = &source[row / taps * plane..][..plane];
        let [tap_z, tap_y, tap_x] = gather.tap(row % taps);
        for (line, to) in to.chunks_exact_mut(width).enumerate() {
            let z = gather.at(0, line / height, tap_z);
            let y = gather.at(1, line % height, tap_y);
            let (Some(z), Some(y)) = (z, y) else {
                to.fill(0.0);
                continue;
            };
            let line = &source[(z * gather.source[1] + y) * gather.source[2]..];
            let line = &line[..gather.source[2]];
            if gather.step[2] == 1 && gather.divisor[2] == 1 {
                let shift = tap_x as isize * gather.reach[2] + gather.shift[2];
                let zeros = (-shift).clamp(0, width as isize) as usize;
                let begin = shift.max(0) as usize;
                let count = line.len().saturating_sub(begin).min(width - zeros);
                to[..zeros].fill(0.0);
                if count > 0 {
                    to[zeros..zeros + count].copy_from_slice(&line[begin..begin + count]);
                }
                to[zeros + count..].fill(0.0);
            } else {
                for (x, to) in to.iter_mut().enumerate() {
                    *to = gather.at(2, x, tap_x).map_or(0.0, |at| line[at]);
                }
            }
        }
    });
}
