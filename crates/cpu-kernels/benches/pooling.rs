//! Pooling of 16 x 64 planes of 56 x 56.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::pooling::{
    AdaptivePool, Average, Pool, PoolParams, adaptive_avg_pool, adaptive_avg_pool_backward,
    avg_pool, avg_pool_backward, max_pool, max_pool_backward,
};
use std::hint::black_box;

fn values(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 8) as f32 / 16777216.0 - 0.5).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("pooling");
    let planes = 16 * 64;
    let params = PoolParams { stride: vec![2; 2], padding: vec![1; 2], ..PoolParams::square(2, 3) };
    let geometry = Pool::new("pool", &[1, planes, 56, 56], &params).unwrap();
    let average = Average::new(geometry.clone(), true, None).unwrap();
    let input = values(geometry.input_len());
    let grad = values(geometry.output_len());
    let mut out = vec![0.0f32; geometry.output_len()];
    let mut indices = vec![0; geometry.output_len()];
    let mut back = vec![0.0f32; geometry.input_len()];
    group.bench_function("max_pool2d 3s2", |b| {
        b.iter(|| max_pool(&geometry, black_box(&input), &mut out, &mut indices).unwrap());
    });
    group.bench_function("max_pool2d 3s2 backward", |b| {
        b.iter(|| max_pool_backward("p", planes, black_box(&grad), &indices, &mut back).unwrap());
    });
    group.bench_function("avg_pool2d 3s2", |b| {
        b.iter(|| avg_pool(&average, black_box(&input), &mut out).unwrap());
    });
    group.bench_function("avg_pool2d 3s2 backward", |b| {
        b.iter(|| avg_pool_backward(&average, black_box(&grad), &mut back).unwrap());
    });
    let sizes = AdaptivePool::new("pool", &[1, planes, 56, 56], &[7, 7]).unwrap();
    let grad = values(sizes.output_len());
    let mut out = vec![0.0f32; sizes.output_len()];
    group.bench_function("adaptive_avg_pool2d 7", |b| {
        b.iter(|| adaptive_avg_pool(&sizes, black_box(&input), &mut out).unwrap());
    });
    group.bench_function("adaptive_avg_pool2d 7 backward", |b| {
        b.iter(|| adaptive_avg_pool_backward(&sizes, black_box(&grad), &mut back).unwrap());
    });
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(all);
