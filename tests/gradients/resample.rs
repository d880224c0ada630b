use super::normal_of;
use samebits::DType;
use samebits::functional::{self as f, Resize};
use samebits::ops::{GridMode, GridPadding, GridParams, InterpolateMode, PadMode};

use super::{check, check_twice};

#[test]
fn padding() {
    let shape = [2, 3, 4, 5];
    for mode in [PadMode::Reflect, PadMode::Replicate, PadMode::Circular, PadMode::Constant] {
        check_twice("pad", &[&shape], &|x| f::pad(&x[0], &[2, 1, -1, 2], mode, 0.5));
        check_twice("pad 3d", &[&shape], &|x| f::pad(&x[0], &[0, 3, 1, 1, 2, 0], mode, 0.5));
    }
    let pads = [1, 0, -1, 1, 0, 2, 1, 1];
    check_twice("pad 4d", &[&[2, 1, 3, 2]], &|x| f::pad(&x[0], &pads, PadMode::Constant, 0.5));
}

#[test]
fn interpolation() {
    for align_corners in [false, true] {
        for mode in [
            InterpolateMode::Nearest,
            InterpolateMode::NearestExact,
            InterpolateMode::Linear { align_corners },
            InterpolateMode::Cubic { align_corners },
            InterpolateMode::LinearAntialias { align_corners },
            InterpolateMode::CubicAntialias { align_corners },
        ] {
            check_twice("interpolate", &[&[1, 2, 5, 4]], &|x| {
                f::interpolate(&x[0], Resize::Size(&[3, 7]), mode)
            });
            check("interpolate", &[&[2, 1, 6]], &|x| {
                f::interpolate(&x[0], Resize::Scale(&[0.7]), mode)
            });
        }
    }
    check_twice("area", &[&[1, 2, 5, 4]], &|x| f::interpolate_area(&x[0], Resize::Size(&[3, 2])));
    check_twice("pixel_shuffle", &[&[1, 8, 2, 3]], &|x| f::pixel_shuffle(&x[0].square()?, 2));
    check_twice("pixel_unshuffle", &[&[2, 4, 6]], &|x| f::pixel_unshuffle(&x[0].square()?, 2));
}

#[test]
fn grids() {
    for mode in [GridMode::Nearest, GridMode::Linear, GridMode::Cubic] {
        for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
            for align_corners in [false, true] {
                let params = GridParams { mode, padding, align_corners };
                let name = format!("{params:?}");
                // Some points lie outside.
                check(&name, &[&[2, 2, 4, 5], &[2, 3, 2, 2]], &|x| {
                    f::grid_sample(&x[0], &x[1].affine(0.9, 0.01)?, params)
                });
                if mode != GridMode::Cubic {
                    check(&name, &[&[1, 2, 3, 4, 5], &[1, 2, 2, 2, 3]], &|x| {
                        f::grid_sample(&x[0], &x[1].affine(0.7, 0.01)?, params)
                    });
                }
            }
        }
    }
    check_twice("affine_grid", &[&[2, 2, 3]], &|x| f::affine_grid(&x[0], &[2, 1, 2, 3], false));
    check_twice("affine_grid", &[&[1, 3, 4]], &|x| f::affine_grid(&x[0], &[1, 1, 2, 1, 3], true));
}

/// The gradient of the input is linear in the incoming one, and PyTorch users differentiate it.
#[test]
fn grids_again_by_the_input() {
    let params =
        GridParams { mode: GridMode::Linear, padding: GridPadding::Border, align_corners: false };
    let grid = normal_of(&[1, 3, 2, 2], DType::F64, 7);
    check_twice("grid_sample", &[&[1, 2, 4, 5]], &|x| f::grid_sample(&x[0], &grid, params));
}
