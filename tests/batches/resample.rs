use samebits::functional::{self as f, Resize};
use samebits::ops::{GridMode, GridPadding, GridParams, InterpolateMode, PadMode};

use super::{Batches, Make};

pub(super) fn add(batches: &mut Batches, make: Make) {
    for shape in [vec![5, 3, 301], vec![5, 4, 33, 41], vec![3, 3, 11, 12, 13]] {
        let dims = shape.len() - 2;
        let x = make.each(&shape, 110);
        for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Replicate, PadMode::Circular] {
            let pads = [3, 5, -2, 4, 6, 0][..2 * dims].to_vec();
            batches.one(make.name(&format!("pad {mode:?} {dims}d")), x.clone(), move |x| {
                f::pad(x, &pads, mode, 0.7)
            });
        }
        for mode in [
            InterpolateMode::Nearest,
            InterpolateMode::NearestExact,
            InterpolateMode::Linear { align_corners: false },
            InterpolateMode::Cubic { align_corners: true },
            InterpolateMode::LinearAntialias { align_corners: false },
            InterpolateMode::CubicAntialias { align_corners: false },
        ] {
            let size = [70, 20, 9][..dims].to_vec();
            batches.one(make.name(&format!("interpolate {mode:?} {dims}d")), x.clone(), move |x| {
                f::interpolate(x, Resize::Size(&size), mode)
            });
        }
    }
    for mode in [GridMode::Nearest, GridMode::Linear, GridMode::Cubic] {
        for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
            let params = GridParams { mode, padding, align_corners: false };
            let inputs = [make.each(&[5, 9, 17, 23], 111), make.each(&[5, 40, 31, 2], 112)];
            batches.add(make.name(&format!("grid_sample {params:?}")), inputs, move |x| {
                Ok(vec![f::grid_sample(&x[0], &x[1], params)?])
            });
        }
    }
    let params =
        GridParams { mode: GridMode::Linear, padding: GridPadding::Zeros, align_corners: true };
    let inputs = [make.each(&[4, 3, 5, 6, 7], 113), make.each(&[4, 9, 10, 11, 3], 114)];
    batches.add(make.name("grid_sample 3d"), inputs, move |x| {
        Ok(vec![f::grid_sample(&x[0], &x[1], params)?])
    });
    batches.one(make.name("affine_grid"), make.each(&[5, 2, 3], 115), |x| {
        f::affine_grid(x, &[x.shape()[0], 3, 20, 30], false)
    });
    batches.one(make.name("pixel_shuffle"), make.each(&[5, 8, 7, 9], 116), |x| {
        f::pixel_unshuffle(&f::pixel_shuffle(x, 2)?, 2)
    });
}
