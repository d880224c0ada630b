//! Sparse products in both variants, and decompositions.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::linalg::{qr, svd};
use samebits_cpu_kernels::sparse::{Elements, mm, mm_fast, sampled_product};
use std::hint::black_box;

fn random(n: usize, size: usize, seed: u64) -> Vec<i64> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as usize % size) as i64
        })
        .collect()
}

fn values(n: usize) -> Vec<f32> {
    random(n, 1 << 24, 9).into_iter().map(|i| i as f32 / 16777216.0 - 0.5).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("sparse");
    let (size, count, width) = (1024, 100_000, 256);
    let mut places: Vec<(i64, i64)> =
        random(count, size, 1).into_iter().zip(random(count, size, 2)).collect();
    places.sort_unstable();
    let (rows, columns): (Vec<i64>, Vec<i64>) = places.into_iter().unzip();
    let (elements, dense) = (values(count), values(size * width));
    let sparse = Elements {
        rows: &rows,
        columns: &columns,
        values: &elements,
        size: [size, size],
        period: size,
    };
    let mut out = vec![0.0f32; size * width];
    group.bench_function("rows, 1024x1024 with 100k elements by 256 columns", |b| {
        b.iter(|| mm(black_box(sparse), &dense, width, &mut out));
    });
    group.bench_function("atomic, 1024x1024 with 100k elements by 256 columns", |b| {
        b.iter(|| mm_fast(black_box(sparse), &dense, width, &mut out));
    });
    let mut grad = vec![0.0f32; count];
    group.bench_function("gradient of the 100k elements", |b| {
        b.iter(|| {
            let sizes = [size, size];
            sampled_product([&rows, &columns], [&dense, black_box(&dense)], sizes, width, &mut grad)
        });
    });
    let x = values(200 * 100);
    let (mut q, mut r) = (vec![0.0f32; 200 * 100], vec![0.0f32; 100 * 100]);
    group.bench_function("qr 200x100", |b| {
        b.iter(|| qr(black_box(&x), [200, 100], 100, &mut q, &mut r));
    });
    let mut s = vec![0.0f32; 100];
    group.bench_function("svd 200x100", |b| {
        b.iter(|| svd(black_box(&x), [200, 100], &mut q, &mut s, &mut r));
    });
    group.finish();
}

criterion_group!(sparse, benches);
criterion_main!(sparse);
