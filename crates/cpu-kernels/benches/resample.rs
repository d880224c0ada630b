//! Padding, interpolation and grid sampling of 16 x 64 planes of 56 x 56.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::grid_sample::{GridMode, GridPadding, GridSample};
use samebits_cpu_kernels::interpolate::{Interpolate, InterpolateMode};
use samebits_cpu_kernels::padding::{PadMode, Padding, pad, pad_backward};
use std::hint::black_box;

fn values(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 8) as f32 / 8388608.0 - 1.0).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("resample");
    let planes = 16 * 64;
    let size = [56, 56];
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
    let resize =
        Interpolate::<f32>::new("i", planes, &size, &[112, 112], &[None, None], mode).unwrap();
    let grad = values(resize.output_len());
    let mut out = vec![0.0f32; resize.output_len()];
    group.bench_function("bilinear x2", |b| {
        b.iter(|| resize.forward(black_box(&input), &mut out));
    });
    group.bench_function("bilinear x2 backward", |b| {
        b.iter(|| resize.backward(black_box(&grad), &mut back));
    });

    for (name, target, mode) in [
        ("nearest x2", [112, 112], InterpolateMode::Nearest),
        ("bicubic x2", [112, 112], InterpolateMode::Cubic { align_corners: false }),
    ] {
        let resize =
            Interpolate::<f32>::new("i", planes, &size, &target, &[None, None], mode).unwrap();
        let grad = values(resize.output_len());
        let mut out = vec![0.0f32; resize.output_len()];
        group.bench_function(name, |b| b.iter(|| resize.forward(black_box(&input), &mut out)));
        group.bench_function(format!("{name} backward"), |b| {
            b.iter(|| resize.backward(black_box(&grad), &mut back));
        });
    }

    for (name, batch, channels, size, points, mode) in [
        ("bilinear", 16, 64, &[56, 56][..], 56 * 56, GridMode::Linear),
        ("bicubic", 16, 64, &[56, 56], 56 * 56, GridMode::Cubic),
        ("bilinear rgb", 16, 3, &[224, 224], 224 * 224, GridMode::Linear),
        ("trilinear", 4, 16, &[16, 32, 32], 16 * 32 * 32, GridMode::Linear),
    ] {
        let padding = GridPadding::Zeros;
        let sample =
            GridSample::new("g", batch, channels, size, points, mode, padding, false).unwrap();
        let input = values(sample.input_len());
        let grid = values(sample.grid_len());
        let grad = values(sample.output_len());
        let mut out = vec![0.0f32; sample.output_len()];
        let mut back = vec![0.0f32; sample.input_len()];
        let mut grad_grid = vec![0.0f32; grid.len()];
        group.bench_function(format!("grid_sample {name}"), |b| {
            b.iter(|| sample.forward(black_box(&input), &grid, &mut out));
        });
        group.bench_function(format!("grid_sample {name} backward (input)"), |b| {
            b.iter(|| sample.input_backward(black_box(&grad), &grid, &mut back));
        });
        group.bench_function(format!("grid_sample {name} backward (grid)"), |b| {
            b.iter(|| sample.grid_backward(black_box(&grad), &input, &grid, &mut grad_grid));
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
