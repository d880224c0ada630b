use samebits::functional::{self as f, Resize};
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{Result, Tensor};

use super::sample::{Input, Samples, each, given, normal, wild};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        cases.functions(dtype, samples);
    }
    let input = make.indices_of(&[2, 3, 4], 9, 60);
    cases.add("pad i64", Pad { input, pads: vec![[2, -1]], mode: PadMode::Constant, value: 7.0 });
}

pub(super) fn samples(samples: &mut Samples) {
    padding(samples);
    interpolation(samples);
    grids(samples);
    samples
        .add("pixel_shuffle, pixel_unshuffle", |x| {
            f::pixel_unshuffle(&f::pixel_shuffle(&x[0], 2)?, 2)
        })
        .batch([each(&[5, 8, 7, 9])]);
    samples
        .add("pixel_shuffle", |x| f::pixel_shuffle(&x[0], 2))
        .twice([normal(&[1, 8, 2, 3]).squared()]);
    samples
        .add("pixel_unshuffle", |x| f::pixel_unshuffle(&x[0], 2))
        .twice([normal(&[2, 4, 6]).squared()]);
}

/// Returns inputs of `dims` dimensions, for digests and for batches.
fn images(dims: usize, seed: u64) -> ([Input; 1], [Input; 1]) {
    let golden: [&[usize]; _] = [&[3, 5, 301], &[2, 9, 33, 41], &[2, 3, 11, 12, 13]];
    let batch: [&[usize]; _] = [&[5, 3, 301], &[5, 4, 33, 41], &[3, 3, 11, 12, 13]];
    ([wild(golden[dims - 1]).seed(seed + dims as u64)], [each(batch[dims - 1])])
}

fn padding(samples: &mut Samples) {
    for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Replicate, PadMode::Circular] {
        for dims in [1, 2, 3] {
            let (golden, batch) = images(dims, 50);
            let pads = &[3, 5, -2, 4, 6, 0][..2 * dims];
            samples
                .add(format!("pad {mode:?} {dims}d"), move |x| f::pad(&x[0], pads, mode, 0.7))
                .digest(golden)
                .batch(batch);
        }
        let shape = [2, 3, 4, 5];
        for pads in [&[2, 1, -1, 2][..], &[0, 3, 1, 1, 2, 0]] {
            samples
                .add(format!("pad {mode:?} {pads:?}"), move |x| f::pad(&x[0], pads, mode, 0.5))
                .twice([normal(&shape)]);
        }
    }
    samples
        .add("pad 5d", |x| f::pad(&x[0], &[1, 2, 0, 1, -1, 1, 2, 2, 1, 0], PadMode::Constant, -3.0))
        .digest([wild(&[2, 3, 4, 5, 6]).seed(54)]);
    samples
        .add("pad 4d", |x| f::pad(&x[0], &[1, 0, -1, 1, 0, 2, 1, 1], PadMode::Constant, 0.5))
        .twice([normal(&[2, 1, 3, 2])]);
}

fn interpolation(samples: &mut Samples) {
    let all = |align_corners| {
        [
            InterpolateMode::Nearest,
            InterpolateMode::NearestExact,
            InterpolateMode::Linear { align_corners },
            InterpolateMode::Cubic { align_corners },
            InterpolateMode::LinearAntialias { align_corners },
            InterpolateMode::CubicAntialias { align_corners },
        ]
    };
    for mode in all(false).into_iter().chain(all(true).into_iter().skip(2)) {
        for dims in [1, 2, 3] {
            let (golden, batch) = images(dims, 54);
            let size = &[70, 20, 9][..dims];
            samples
                .add(format!("interpolate {mode:?} {dims}d"), move |x| {
                    f::interpolate(&x[0], Resize::Size(size), mode)
                })
                .digest(golden)
                .batch(batch);
        }
        samples
            .add(format!("interpolate {mode:?} scale"), move |x| {
                f::interpolate(&x[0], Resize::Scale(&[0.37, 2.1]), mode)
            })
            .digest([wild(&[2, 2, 30, 25]).seed(58)]);
        samples
            .add(format!("interpolate {mode:?} to [3, 7]"), move |x| {
                f::interpolate(&x[0], Resize::Size(&[3, 7]), mode)
            })
            .twice([normal(&[1, 2, 5, 4])]);
        samples
            .add(format!("interpolate {mode:?} by 0.7"), move |x| {
                f::interpolate(&x[0], Resize::Scale(&[0.7]), mode)
            })
            .twice([normal(&[2, 1, 6])]);
    }
    samples
        .add("interpolate_area", |x| f::interpolate_area(&x[0], Resize::Size(&[3, 2])))
        .twice([normal(&[1, 2, 5, 4])]);
}

fn grids(samples: &mut Samples) {
    // Moves some points outside the input.
    let around: fn(&Tensor) -> Result<Tensor> = |x| x.affine(0.9, 0.01);
    for mode in [GridMode::Nearest, GridMode::Linear, GridMode::Cubic] {
        for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
            for align_corners in [false, true] {
                let params = GridParams { mode, padding, align_corners };
                let name = format!("{mode:?} {padding:?} {align_corners}");
                let image = wild(&[2, 9, 17, 23]).seed(61);
                samples
                    .add(format!("grid_sample 2d {name}"), move |x| {
                        f::grid_sample(&x[0], &x[1], params)
                    })
                    .digest([image, normal(&[2, 40, 31, 2]).seed(63)])
                    .batch([each(&[5, 9, 17, 23]), each(&[5, 40, 31, 2])])
                    .once(
                        "by the grid a gradient is not differentiable",
                        [normal(&[2, 2, 4, 5]), normal(&[2, 3, 2, 2]).by(around)],
                    );
                if mode != GridMode::Cubic {
                    let volume = wild(&[2, 3, 5, 6, 7]).seed(62);
                    samples
                        .add(format!("grid_sample 3d {name}"), move |x| {
                            f::grid_sample(&x[0], &x[1], params)
                        })
                        .digest([volume, normal(&[2, 9, 10, 11, 3]).seed(64)])
                        .batch([each(&[4, 3, 5, 6, 7]), each(&[4, 9, 10, 11, 3])])
                        .once(
                            "by the grid a gradient is not differentiable",
                            [normal(&[1, 2, 3, 4, 5]), normal(&[1, 2, 2, 2, 3]).by(around)],
                        );
                }
            }
        }
    }
    let theta = given(Value::from_slice(&[0.9, -0.2, 0.1, 0.3, 1.1, -0.4], &[1, 2, 3]));
    samples
        .add("affine_grid", |x| f::affine_grid(&x[0], &[x[0].shape()[0], 3, 20, 30], false))
        .digest([theta.variable()])
        .batch([each(&[5, 2, 3])])
        .twice([normal(&[2, 2, 3])]);
    samples
        .add("affine_grid 3d", |x| f::affine_grid(&x[0], &[1, 1, 2, 1, 3], true))
        .twice([normal(&[1, 3, 4])]);
    // The gradient of the input is linear in the incoming gradient, and PyTorch users differentiate
    // it.
    samples
        .add("grid_sample by the input", |x| {
            let (mode, padding) = (GridMode::Linear, GridPadding::Border);
            let params = GridParams { mode, padding, align_corners: false };
            f::grid_sample(&x[0], &x[1], params)
        })
        .twice([normal(&[1, 2, 4, 5]), normal(&[1, 3, 2, 2]).constant()]);
}
