//! Sorting and selection. Every algorithm gives the same result, so there is one variant.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::sort::{kthvalue, median, sort, topk, unique, unique_rows};
use std::hint::black_box;

fn random(n: usize, size: u64) -> Vec<i64> {
    let mut state = 1u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % size) as i64
        })
        .collect()
}

fn values(n: usize) -> Vec<f32> {
    random(n, 1 << 24).into_iter().map(|i| i as f32 / 16777216.0 - 0.5).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("sort");
    for shape in [[1, 1_000_000, 1], [4096, 1000, 1], [16, 1000, 256]] {
        let [outer, dim, inner] = shape;
        let x = values(outer * dim * inner);
        let (mut sorted, mut indices) = (x.clone(), vec![0; x.len()]);
        group.bench_function(format!("sort {shape:?}"), |b| {
            b.iter(|| sort(black_box(&x), shape, false, &mut sorted, &mut indices));
        });
        let k = 100;
        let places = outer * k * inner;
        group.bench_function(format!("topk 100 of {shape:?}"), |b| {
            let (values, indices) = (&mut sorted[..places], &mut indices[..places]);
            b.iter(|| topk(black_box(&x), shape, k, true, values, indices));
        });
        let places = outer * inner;
        group.bench_function(format!("kthvalue of {shape:?}"), |b| {
            let (values, indices) = (&mut sorted[..places], &mut indices[..places]);
            b.iter(|| kthvalue(black_box(&x), shape, k, values, indices));
        });
        group.bench_function(format!("median of {shape:?}"), |b| {
            let (values, indices) = (&mut sorted[..places], &mut indices[..places]);
            b.iter(|| median(black_box(&x), shape, values, indices));
        });
    }
    let x = random(1_000_000, 10_000);
    group.bench_function("unique 1M integers below 10k", |b| b.iter(|| unique(black_box(&x))));
    let x = random(100_000 * 8, 3);
    group.bench_function("unique 100k rows of 8 integers below 3", |b| {
        b.iter(|| unique_rows(black_box(&x), [100_000, 8], false))
    });
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(all);
