//! Normalisation of 16 x 64 planes of 56 x 56, and of 4096 rows of 1024.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::norm::{
    Batch, batch_norm_backward, batch_normalize, batch_statistics, layer_norm, layer_norm_backward,
    scaled,
};
use std::hint::black_box;

fn values(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 8) as f32 / 8388608.0 - 1.0).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("norm");
    // One sample whose channels are groups: group normalisation.
    for (name, n, channels) in [("batch_norm", 16, 64), ("group_norm", 1, 16 * 8)] {
        let shape = Batch { n, channels, spatial: 16 * 64 * 56 * 56 / n / channels };
        let x = values(16 * 64 * 56 * 56);
        let (mean, weight) = (values(channels), values(channels));
        let rstd = vec![1.0f32; channels];
        let mut out = vec![0.0f32; x.len()];
        group.bench_function(name, |b| {
            b.iter(|| {
                let statistics = batch_statistics(black_box(&x), shape, 1e-5).unwrap();
                let statistics = scaled::<f32>(&statistics).unwrap();
                batch_normalize(&x, shape, &statistics, &weight, &weight, &mut out)
            });
        });
        group.bench_function(format!("{name} backward"), |b| {
            b.iter(|| {
                let x = black_box(&x);
                batch_norm_backward(x, x, shape, [&mean, &rstd], &weight, 1e-5, &mut out)
            });
        });
    }
    let (rows, width) = (4096, 1024);
    let (x, weight) = (values(rows * width), values(width));
    let (mut mean, mut rstd) = (vec![0.0f32; rows], vec![0.0f32; rows]);
    let mut out = vec![0.0f32; x.len()];
    group.bench_function("layer_norm", |b| {
        b.iter(|| {
            layer_norm(black_box(&x), &weight, &weight, 1e-5, &mut out, &mut mean, &mut rstd)
        });
    });
    group.bench_function("layer_norm backward", |b| {
        let statistics = [&mean[..], &rstd];
        b.iter(|| layer_norm_backward(black_box(&x), &x, &weight, statistics, 1e-5, &mut out));
    });
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(all);
