//! Pooling, padding and sampling.

use samebits_cpu_kernels::Error;
use samebits_cpu_kernels::grid_sample::{
    GridMode, GridPadding, GridParams, grid_sample, grid_sample_grid_backward,
    grid_sample_input_backward,
};
use samebits_cpu_kernels::interpolate::{
    InterpolateMode, Resize, interpolate, interpolate_backward,
};
use samebits_cpu_kernels::padding::{PadMode, Padding, pad, pad_backward};
use samebits_cpu_kernels::pooling::{
    AdaptivePool, Average, FractionalPool, adaptive_avg_pool, avg_pool, avg_pool_backward,
    fractional_max_pool, max_pool, max_pool_backward, max_unpool, max_unpool_backward,
};

use super::{HALF, MAX, refused};
use crate::pool::pool;
use crate::sampling::sampling;

#[test]
fn windows() {
    let geometry = |input: usize, kernel, stride, padding, dilation, ceil| {
        pool(1, &[input], [&[kernel], &[stride], &[padding], &[dilation]], ceil)
    };
    refused(
        "pool",
        [
            geometry(0, 1, 1, 0, 1, false),
            geometry(4, 0, 1, 0, 1, false),
            geometry(4, 1, 0, 0, 1, false),
            geometry(4, 1, 1, 0, 0, false),
            geometry(4, 2, 1, 2, 1, false),
            geometry(4, MAX, 1, 0, 1, false),
            geometry(4, MAX, 1, MAX / 2, 1, false),
            geometry(4, 2, 1, 1 << 62, MAX, false),
            geometry(MAX, 1, 1, 0, 1, false),
        ],
    );
    refused(
        "pool",
        [
            pool(HALF, &[HALF], [&[1], &[1], &[0], &[1]], false),
            pool(0, &[MAX, MAX], [&[1, 1], &[1, 1], &[0, 0], &[1, 1]], false),
            pool(1, &[], [&[], &[], &[], &[]], false),
            pool(1, &[4], [&[1, 1], &[1], &[0], &[1]], false),
        ],
    );
    // Windows, strides and paddings far larger than the input.
    let input = [1.0f32, 4.0, 2.0, 3.0];
    for (kernel, stride, padding, dilation, ceil, expected) in [
        (1 << 31, 1, 1 << 30, 1, false, vec![4.0f32, 4.0, 4.0, 4.0, 4.0]),
        (1 << 21, 1 << 20, 1 << 20, 1, true, vec![4.0, 4.0]),
        (1 << 31, MAX, 1 << 30, 1, false, vec![4.0]),
        (2, MAX, 0, 1, true, vec![4.0]),
        (2, 1, 1 << 40, 1 << 41, false, vec![f32::NEG_INFINITY; 4]),
        (3, 1, 1 << 40, 1 << 40, false, vec![1.0, 4.0, 2.0, 3.0]),
    ] {
        let g = geometry(4, kernel, stride, padding, dilation, ceil).unwrap();
        let case = format!("{g:?}");
        let n = g.output_len();
        if n != expected.len() {
            assert!(padding > 1 << 39 && expected[0].is_infinite(), "{case}");
            continue;
        }
        let (mut out, mut indices) = (vec![9.0; n], vec![9; n]);
        max_pool(&g, &input, &mut out, &mut indices).unwrap();
        assert_eq!(out, expected, "{case}");
        if dilation == 1 && padding < 1 << 39 {
            let g = Average::new(g, true, None).unwrap();
            let mut average = vec![9.0f32; n];
            avg_pool(&g, &input, &mut average).unwrap();
            assert!(average.iter().all(|&x| (0.0..4.0).contains(&x)), "{case}: {average:?}");
            let mut grad = vec![9.0f32; 4];
            match avg_pool_backward(&g, &average, &mut grad) {
                Ok(()) => assert!(grad.iter().all(|&x| x < 1.0), "{case}: {grad:?}"),
                Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{case}"),
            }
        }
    }
    let g = geometry(4, 1 << 40, 1, 1 << 39, 1, false).unwrap();
    let n = g.output_len();
    refused("pool", [max_pool(&g, &input, &mut vec![0.0; n], &mut vec![0; n])]);
    let g = geometry(4, 2, 2, 0, 1, false).unwrap();
    let dilated = geometry(4, 2, 2, 0, 2, false).unwrap();
    let mut out = [0.0f32; 2];
    refused("pool", [Average::new(g.clone(), true, Some(0)), Average::new(dilated, true, None)]);
    let g = Average::new(g, true, None).unwrap();
    refused("pool", [avg_pool(&g, &input[..3], &mut out), avg_pool(&g, &input, &mut out[..1])]);
}

#[test]
fn other_poolings() {
    refused(
        "pool",
        [
            AdaptivePool::new("pool", &[1, 1, HALF], &[HALF]),
            AdaptivePool::new("pool", &[1, 0, HALF, HALF], &[1, 1]),
            AdaptivePool::new("pool", &[1, HALF, 1], &[HALF]),
            AdaptivePool::new("pool", &[1, 1, 0], &[1]),
            AdaptivePool::new("pool", &[1, 1, 1, 1], &[1]),
        ],
    );
    let sizes = AdaptivePool::new("pool", &[1, 1, 4], &[1 << 45]).unwrap();
    refused("pool", [adaptive_avg_pool(&sizes, &[1.0f32; 4], &mut [0.0])]);
    let none = AdaptivePool::new("pool", &[1, 2, 4], &[0]).unwrap();
    adaptive_avg_pool(&none, &[1.0f32; 8], &mut []).unwrap();
    refused(
        "pool",
        [
            FractionalPool::new("pool", &[1, 1, 4, 4], &[MAX, 1], &[2, 1]),
            FractionalPool::new("pool", &[1, 1, 4, 4], &[1, 1], &[MAX, 1]),
            FractionalPool::new("pool", &[1, 1, 4, 4], &[2, 2], &[4, 1]),
            FractionalPool::new("pool", &[1, HALF, HALF, 1], &[1, 1], &[1, 1]),
            FractionalPool::new("pool", &[1, 1, 4, 4], &[0, 1], &[1, 1]),
        ],
    );
    let sizes = FractionalPool::new("pool", &[1, 1, 2, 2], &[1, 1], &[1, 1]).unwrap();
    let (x, mut out, mut indices) = ([1.0f32; 4], [0.0f32], [0i64]);
    for sample in [f32::NAN, -1e-45, 1.0, f32::INFINITY] {
        let samples = [sample, 0.0];
        refused("pool", [fractional_max_pool(&sizes, &x, &samples, &mut out, &mut indices)]);
    }
    for index in [-2, 1, i64::MIN, i64::MAX] {
        refused(
            "pool",
            [
                max_pool_backward("pool", 1, &[1.0f32], &[index], &mut out),
                max_unpool("pool", 1, &[1.0f32], &[index], &mut out),
                max_unpool_backward("pool", 1, &[1.0f32], &[index], &mut out),
            ],
        );
    }
    for planes in [0, 2, MAX] {
        refused(
            "pool",
            [
                max_pool_backward("pool", planes, &[1.0f32], &[0], &mut out),
                max_unpool("pool", planes, &[1.0f32], &[0], &mut out),
            ],
        );
    }
}

#[test]
fn paddings() {
    use PadMode::{Circular, Constant, Reflect, Replicate};
    for mode in [Constant, Reflect, Replicate, Circular] {
        for pads in [[i64::MIN, 0], [0, i64::MIN], [i64::MAX, 0], [0, i64::MAX], [-5, 0], [-2, -3]]
        {
            refused("pad", [Padding::new("pad", &[4], &[pads], mode)]);
        }
        refused(
            "pad",
            [
                Padding::new("pad", &[MAX], &[[-(1 << 47), 0]], mode),
                Padding::new("pad", &[], &[], mode),
                Padding::new("pad", &[4], &[], mode),
                Padding::new("pad", &[HALF, HALF], &[[0, 0]], mode),
            ],
        );
    }
    for mode in [Constant, Replicate] {
        // Beyond any memory, but a size that can be counted.
        let padding = Padding::new("pad", &[4], &[[1 << 47, 0]], mode).unwrap();
        let (x, mut out) = ([1.0f32; 4], [0.0; 4]);
        refused("pad", [pad(&padding, &x, 0.0, &mut out), pad_backward(&padding, &x, &mut out)]);
    }
    refused("pad", [Replicate, Reflect].map(|m| Padding::new("pad", &[0], &[[1, 0]], m)));
    let padding = Padding::new("pad", &[2, 2], &[[-1, -1]], Constant).unwrap();
    pad(&padding, &[1.0f32; 4], 0.0, &mut []).unwrap();
    let mut grad = [9.0f32; 4];
    pad_backward(&padding, &[], &mut grad).unwrap();
    assert_eq!(grad, [0.0; 4]);
    refused(
        "pad",
        [pad(&padding, &[1.0f32; 3], 0.0, &mut []), pad_backward(&padding, &[1.0], &mut grad)],
    );
}

#[test]
fn resizings() {
    use InterpolateMode::{Cubic, CubicAntialias, Linear, LinearAntialias, Nearest, NearestExact};
    let align_corners = false;
    let modes = [
        Nearest,
        NearestExact,
        Linear { align_corners },
        Cubic { align_corners },
        LinearAntialias { align_corners },
        CubicAntialias { align_corners },
        Linear { align_corners: true },
        LinearAntialias { align_corners: true },
    ];
    for mode in modes {
        let new = |planes, input: &[usize], output: &[usize], scale: &[Option<f64>]| {
            Resize::new("interpolate", &[&[1, planes], input].concat(), output, scale, mode)
        };
        refused(
            "interpolate",
            [
                new(1, &[MAX], &[4], &[None]),
                new(HALF, &[HALF], &[4], &[None]),
                new(0, &[4, 4], &[HALF, HALF], &[None; 2]),
                new(1, &[0], &[4], &[None]),
                new(1, &[4], &[4], &[Some(0.0)]),
                new(1, &[4], &[4], &[Some(f64::NAN)]),
                new(1, &[], &[], &[]),
            ],
        );
        for scale in [1e-320, 1e-3, 1e3, f64::MAX] {
            let resize = new(1, &[4], &[3], &[Some(scale)]).unwrap();
            let (mut out, mut grad) = ([9.0f32; 3], [9.0f32; 4]);
            interpolate(&resize, &[1.0; 4], &mut out).unwrap();
            interpolate_backward(&resize, &[1.0; 3], &mut grad).unwrap();
            assert!(out.iter().all(|&x| x != 9.0), "{mode:?} {scale}");
            assert!(grad.iter().all(|&x| x != 9.0), "{mode:?} {scale}");
        }
        let long = new(1, &[4], &[1 << 45], &[None]).unwrap();
        let resize = new(1, &[4], &[3], &[None]).unwrap();
        refused(
            "interpolate",
            [
                interpolate(&long, &[1.0f32; 4], &mut [0.0; 3]),
                interpolate(&resize, &[1.0; 3], &mut [0.0; 3]),
                interpolate(&resize, &[1.0; 4], &mut [0.0; 4]),
                interpolate_backward(&resize, &[1.0; 4], &mut [0.0; 4]),
            ],
        );
    }
}

#[test]
fn samplings() {
    let new = |batch, channels, input: &[usize], points| {
        let (mode, padding) = (GridMode::Linear, GridPadding::Zeros);
        let params = GridParams { mode, padding, align_corners: true };
        sampling("grid_sample", [batch, channels, points], input, params)
    };
    refused(
        "grid_sample",
        [
            new(1, 1, &[0, 1], 1),
            new(1, 1, &[1], 1),
            new(HALF, HALF, &[1, 1], 1),
            new(0, 1, &[HALF, HALF], 1),
            new(0, HALF, &[1, 1], HALF),
            new(HALF, 1, &[1, 1], HALF),
        ],
    );
    let (x, mut out, mut grad) = ([1.0f32; 4], [9.0f32], [9.0f32; 4]);
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN];
    for mode in [GridMode::Nearest, GridMode::Linear, GridMode::Cubic] {
        for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
            for corners in [true, false] {
                let op = "grid_sample";
                let params = GridParams { mode, padding, align_corners: corners };
                let sample = sampling(op, [1; 3], &[2, 2], params).unwrap();
                for at in odd.iter().flat_map(|&a| odd.map(|b| [a, b])) {
                    (out, grad) = ([9.0], [9.0; 4]);
                    let mut slope = [9.0f32; 2];
                    grid_sample(&sample, &x, &at, &mut out).unwrap();
                    grid_sample_input_backward(&sample, &[1.0], &at, &mut grad).unwrap();
                    grid_sample_grid_backward(&sample, &[1.0], &x, &at, &mut slope).unwrap();
                    assert!(
                        out[0] != 9.0 && grad[0] != 9.0 && slope[1] != 9.0,
                        "{sample:?} {at:?}"
                    );
                }
                refused(
                    op,
                    [
                        grid_sample(&sample, &x[..3], &[0.0; 2], &mut out),
                        grid_sample(&sample, &x, &[0.0; 3], &mut out),
                        grid_sample_input_backward(&sample, &[1.0; 2], &[0.0; 2], &mut grad),
                        grid_sample_grid_backward(&sample, &[1.0], &x, &[0.0; 2], &mut grad),
                    ],
                );
            }
        }
    }
}
