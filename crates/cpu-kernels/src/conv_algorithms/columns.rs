//! The matrix of all windows (`im2col`), and one matrix product for each image and group.
//!
//! Where a window reaches into the padding the matrix holds a zero. `Plan` runs these passes only
//! on data for which multiplying with it changes no bit of what skipping gives.

use rayon::prelude::*;

use super::Pass;
use super::shape::{Gather, Shape, volume};
use crate::matmul::{Matrix, matmul};

/// Elements of workspace.
pub(super) fn workspace(s: &Shape, pass: Pass, gather: &Gather) -> usize {
    let matrix =
        if is_source(gather) { 0 } else { gather.channels * gather.taps() * volume(gather.target) };
    match pass {
        Pass::Forward => matrix,
        Pass::InputGradient => matrix + s.outputs * s.inputs * gather.taps(),
        Pass::WeightGradient => matrix + s.outputs * s.inputs * gather.taps(),
    }
}

/// Forms every element of `target`.
pub(super) fn run(gather: &Gather, source: &[f32], weights: &[f32], target: &mut [f32]) {
    if target.is_empty() {
        return;
    }
    let (taps, positions) = (gather.taps(), volume(gather.target));
    let steps = gather.channels * taps;
    let from = gather.channels * volume(gather.source);
    let mut matrix = if is_source(gather) { Vec::new() } else { vec![0.0; steps * positions] };
    let mut moved = Vec::new();
    for image in 0..gather.batch * gather.groups {
        let group = image % gather.groups;
        let source = &source[image * from..][..from];
        let columns = if matrix.is_empty() {
            source
        } else {
            fill(gather, source, &mut matrix);
            &matrix
        };
        let weights = &weights[group * gather.weight_group..][..gather.rows * steps];
        let weights = if gather.weight_channel == taps {
            weights
        } else {
            // The weights of one target channel lie apart: bring them together.
            moved.resize(gather.rows * steps, 0.0);
            for (row, to) in moved.chunks_exact_mut(steps).enumerate() {
                for (channel, to) in to.chunks_exact_mut(taps).enumerate() {
                    let at = row * gather.weight_row + channel * gather.weight_channel;
                    to.copy_from_slice(&weights[at..at + taps]);
                }
            }
            &moved
        };
        let a = Matrix::new(weights, gather.rows, steps).expect("sizes of the same shape");
        let b = Matrix::new(columns, steps, positions).expect("sizes of the same shape");
        let out = &mut target[image * gather.rows * positions..][..gather.rows * positions];
        matmul(a, b, out).expect("sizes of the same shape");
    }
}

/// The weight gradient, summed image by image.
pub(super) fn weight_gradient(s: &Shape, input: &[f32], gradient: &[f32], out: &mut [f32]) {
    let gather = s.forward();
    let positions = volume(s.output);
    let steps = s.inputs * gather.taps();
    let from = s.inputs * volume(s.input);
    let mut matrix = if is_source(&gather) { Vec::new() } else { vec![0.0; steps * positions] };
    let mut part = vec![0.0; s.outputs * steps];
    out.fill(0.0);
    for image in 0..s.batch * s.groups {
        let source = &input[image * from..][..from];
        let columns = if matrix.is_empty() {
            source
        } else {
            fill(&gather, source, &mut matrix);
            &matrix
        };
        let gradient = &gradient[image * s.outputs * positions..][..s.outputs * positions];
        let a = Matrix::new(gradient, s.outputs, positions).expect("sizes of the same shape");
        let b = Matrix::new(columns, steps, positions).expect("sizes of the same shape");
        matmul(a, b.transposed(), &mut part).expect("sizes of the same shape");
        let out = &mut out[image % s.groups * part.len()..][..part.len()];
        for (out, part) in out.iter_mut().zip(&part) {
            *out += part;
        }
    }
}

/// Whether the matrix is the source itself.
fn is_source(gather: &Gather) -> bool {
    gather.taps() == 1
        && gather.step == [1; 3]
        && gather.divisor == [1; 3]
        && gather.shift == [0; 3]
}

/// Row (channel, tap) of the matrix: what that tap reads at each target position.
fn fill(gather: &Gather, source: &[f32], matrix: &mut [f32]) {
    let (taps, plane) = (gather.taps(), volume(gather.source));
    let [depth, height, width] = gather.target;
    matrix.par_chunks_mut(depth * height * width).enumerate().for_each(|(row, to)| {
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
