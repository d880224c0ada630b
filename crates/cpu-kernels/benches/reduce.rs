//! Reductions in the written order, beside plain loops that add in sequence.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::reduce::{
    Extreme, arg_extreme_rows, extreme_rows, integer_rows, logsumexp_rows, norm_rows, product_rows,
    sum_columns, sum_rows, variance_rows,
};
use samebits_tensor_core::ops::ReduceKind;
use std::hint::black_box;

fn values(n: usize) -> Vec<f32> {
    let mut state = 7u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / 16777216.0 - 0.5
        })
        .collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("reduce");
    for (rows, n) in [(1, 16_000_000), (4096, 4096), (100_000, 100), (1_000_000, 16)] {
        let x = values(rows * n);
        let mut out = vec![0.0f32; rows];
        let size = format!("{rows} x {n}");
        group.bench_function(BenchmarkId::new("sum", &size), |b| {
            b.iter(|| sum_rows(black_box(&x), n, &mut out));
        });
        group.bench_function(BenchmarkId::new("sum, one plain loop", &size), |b| {
            b.iter(|| {
                for (row, out) in black_box(&x).chunks_exact(n).zip(&mut out) {
                    *out = row.iter().fold(0.0, |sum, &x| sum + f64::from(x)) as f32;
                }
            });
        });
        group.bench_function(BenchmarkId::new("prod", &size), |b| {
            b.iter(|| product_rows(black_box(&x), n, &mut out));
        });
        let mut moments = vec![[0.0f32; 2]; rows];
        group.bench_function(BenchmarkId::new("var", &size), |b| {
            b.iter(|| variance_rows(black_box(&x), n, 1.0, &mut moments));
        });
        group.bench_function(BenchmarkId::new("norm", &size), |b| {
            b.iter(|| norm_rows(black_box(&x), n, 2.0, &mut out));
        });
        group.bench_function(BenchmarkId::new("logsumexp", &size), |b| {
            b.iter(|| logsumexp_rows(black_box(&x), n, &mut out));
        });
        group.bench_function(BenchmarkId::new("amax", &size), |b| {
            b.iter(|| extreme_rows(Extreme::Max, black_box(&x), n, &mut out));
        });
        let mut indices = vec![0; rows];
        group.bench_function(BenchmarkId::new("argmax", &size), |b| {
            b.iter(|| arg_extreme_rows(Extreme::Max, black_box(&x), n, &mut indices));
        });
        let integers: Vec<i64> = x.iter().map(|x| x.to_bits().into()).collect();
        group.bench_function(BenchmarkId::new("sum of i64", &size), |b| {
            b.iter(|| integer_rows(ReduceKind::Sum, black_box(&integers), n, &mut indices));
        });
    }
    for (n, inner) in [(4096, 4096), (1_000_000, 16)] {
        let x = values(n * inner);
        let mut out = vec![0.0; inner];
        group.bench_function(format!("sum of columns/{n} x {inner}"), |b| {
            b.iter(|| sum_columns(black_box(&x), n, inner, &mut out));
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
