//! Padding, interpolation and grid sampling of 16 x 64 planes of 56 x 56.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::grid_sample::{
    GridMode, GridPadding, GridParams, Sampling, grid_sample, grid_sample_grid_backward,
    grid_sample_input_backward,
};
use samebits_cpu_kernels::interpolate::{
    InterpolateMode, Resize, interpolate, interpolate_backward,
};
use samebits_cpu_kernels::padding::{PadMode, Padding, pad, pad_backward};
use std::hint::black_box;

fn values(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 8) as f32 / 8388608.0 - 1.0).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("resample");
    let planes = 16 * 64;
    let input = values(planes * 56 * 56);
    let mut back = vec![0.0f32; input.len()];

    let padding =
        Padding::new("pad", &[planes, 56, 56], &[[3, 3], [3, 3]], PadMode::Reflect).unwrap();
    let grad = values(padding.output_len());
    let mut out = vec![0.0f32; padding.output_len()];
    group.bench_function("reflect pad 3", |b| {
        b.iter(|| pad(&padding, black_box(&input), 0.0, &mut out));
    });
    group.bench_function("reflect pad 3 backward", |b| {
        b.iter(|| pad_backward(&padding, black_box(&grad), &mut back));
    });

    let mode = InterpolateMode::Linear { align_corners: false };
    let resize = Resize::new("i", &[1, planes, 56, 56], &[112, 112], &[None, None], mode).unwrap();
    let grad = values(resize.output_len());
    let mut out = vec![0.0f32; resize.output_len()];
    group.bench_function("bilinear x2", |b| {
        b.iter(|| interpolate(&resize, black_box(&input), &mut out));
    });
    group.bench_function("bilinear x2 backward", |b| {
        b.iter(|| interpolate_backward(&resize, black_box(&grad), &mut back));
    });

    for (name, target, mode) in [
        ("nearest x2", [112, 112], InterpolateMode::Nearest),
        ("bicubic x2", [112, 112], InterpolateMode::Cubic { align_corners: false }),
    ] {
        let resize = Resize::new("i", &[1, planes, 56, 56], &target, &[None, None], mode).unwrap();
        let grad = values(resize.output_len());
        let mut out = vec![0.0f32; resize.output_len()];
        group
            .bench_function(name, |b| b.iter(|| interpolate(&resize, black_box(&input), &mut out)));
        group.bench_function(format!("{name} backward"), |b| {
            b.iter(|| interpolate_backward(&resize, black_box(&grad), &mut back));
        });
    }

    for (name, input, grid, mode) in [
        ("bilinear", &[16, 64, 56, 56][..], &[16, 56, 56, 2][..], GridMode::Linear),
        ("bicubic", &[16, 64, 56, 56], &[16, 56, 56, 2], GridMode::Cubic),
        ("bilinear rgb", &[16, 3, 224, 224], &[16, 224, 224, 2], GridMode::Linear),
        ("trilinear", &[4, 16, 16, 32, 32], &[4, 16, 32, 32, 3], GridMode::Linear),
    ] {
        let params = GridParams { mode, padding: GridPadding::Zeros, align_corners: false };
        let sample = Sampling::new("g", input, grid, params).unwrap();
        let input = values(sample.input_len());
        let grid = values(sample.grid_len());
        let grad = values(sample.output_len());
        let mut out = vec![0.0f32; sample.output_len()];
        let mut back = vec![0.0f32; sample.input_len()];
        let mut grad_grid = vec![0.0f32; grid.len()];
        group.bench_function(format!("grid_sample {name}"), |b| {
            b.iter(|| grid_sample(&sample, black_box(&input), &grid, &mut out));
        });
        group.bench_function(format!("grid_sample {name} backward (input)"), |b| {
            b.iter(|| grid_sample_input_backward(&sample, black_box(&grad), &grid, &mut back));
        });
        group.bench_function(format!("grid_sample {name} backward (grid)"), |b| {
            b.iter(|| {
                grid_sample_grid_backward(&sample, black_box(&grad), &input, &grid, &mut grad_grid)
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(all);
