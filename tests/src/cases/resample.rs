use samebits::DType;
use samebits::functional::{self as f, Resize};
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        padding(cases, make, dtype);
        interpolation(cases, make, dtype);
        grids(cases, make, dtype);
    }
    let input = make.indices_of(&[2, 3, 4], 9, 60);
    cases.add("pad i64", Pad { input, pads: vec![[2, -1]], mode: PadMode::Constant, value: 7.0 });
}

fn padding(cases: &mut Cases, make: Make, dtype: DType) {
    let inputs = [
        make.wild(&[3, 5, 301], dtype, 51),
        make.wild(&[2, 9, 33, 41], dtype, 52),
        make.wild(&[2, 3, 11, 12, 13], dtype, 53),
    ];
    for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Replicate, PadMode::Circular] {
        for x in &inputs {
            let dims = x.rank() - 2;
            let pads = [3, 5, -2, 4, 6, 0][..2 * dims].to_vec();
            cases.graded(format!("pad {mode:?} {dims}d {dtype}"), vec![x.clone()], move |x| {
                f::pad(&x[0], &pads, mode, 0.7)
            });
        }
    }
    let x = make.wild(&[2, 3, 4, 5, 6], dtype, 54);
    cases.graded(format!("pad 5d {dtype}"), vec![x], |x| {
        f::pad(&x[0], &[1, 2, 0, 1, -1, 1, 2, 2, 1, 0], PadMode::Constant, -3.0)
    });
}

fn interpolation(cases: &mut Cases, make: Make, dtype: DType) {
    let inputs = [
        make.wild(&[3, 5, 301], dtype, 55),
        make.wild(&[2, 9, 33, 41], dtype, 56),
        make.wild(&[2, 3, 11, 12, 13], dtype, 57),
    ];
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
        for x in &inputs {
            let dims = x.rank() - 2;
            let size = [70, 20, 9][..dims].to_vec();
            let name = format!("interpolate {mode:?} {dims}d {dtype}");
            cases.graded(name, vec![x.clone()], move |x| {
                f::interpolate(&x[0], Resize::Size(&size), mode)
            });
        }
        let x = make.wild(&[2, 2, 30, 25], dtype, 58);
        cases.graded(format!("interpolate {mode:?} scale {dtype}"), vec![x], move |x| {
            f::interpolate(&x[0], Resize::Scale(&[0.37, 2.1]), mode)
        });
    }
}

fn grids(cases: &mut Cases, make: Make, dtype: DType) {
    let image = make.wild(&[2, 9, 17, 23], dtype, 61);
    let volume = make.wild(&[2, 3, 5, 6, 7], dtype, 62);
    for mode in [GridMode::Nearest, GridMode::Linear, GridMode::Cubic] {
        for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
            for align_corners in [false, true] {
                let params = GridParams { mode, padding, align_corners };
                let name = format!("{mode:?} {padding:?} {align_corners} {dtype}");
                let points = make.normal(&[2, 40, 31, 2], dtype, 63);
                let inputs = vec![image.clone(), points];
                cases.graded(format!("grid_sample 2d {name}"), inputs, move |x| {
                    f::grid_sample(&x[0], &x[1], params)
                });
                if mode != GridMode::Cubic {
                    let points = make.normal(&[2, 9, 10, 11, 3], dtype, 64);
                    let inputs = vec![volume.clone(), points];
                    cases.graded(format!("grid_sample 3d {name}"), inputs, move |x| {
                        f::grid_sample(&x[0], &x[1], params)
                    });
                }
            }
        }
    }
    let theta = Value::from_slice(&[0.9, -0.2, 0.1, 0.3, 1.1, -0.4], &[1, 2, 3]);
    let theta = theta.and_then(|x| samebits::dispatch(&Cast { x, to: dtype })).expect("as many");
    cases.graded(format!("affine_grid {dtype}"), vec![make.here(theta)], |x| {
        f::affine_grid(&x[0], &[1, 3, 20, 30], false)
    });
}
