//! Irregular sums: exact, and with float atomics.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::scatter::{
    Reduce, index_add, index_add_fast, index_reduce, put_add, put_add_fast, scatter_add,
    scatter_add_fast, scatter_reduce, scatter_reduce_fast,
};
use std::hint::black_box;

fn indices(n: usize, size: usize) -> Vec<i64> {
    let mut state = 1u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as usize % size) as i64
        })
        .collect()
}

/// Returns sums of four uniform numbers: roughly normal, with small and large values.
fn values(n: usize) -> Vec<f32> {
    let mut state = 7u64;
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / 16777216.0 - 0.5
    };
    (0..n).map(|_| uniform() + uniform() + uniform() + uniform()).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("scatter");
    let (n, width, rows) = (1_000_000, 16, 100_000);
    let index = indices(n, rows);
    let source = values(n * width);
    let mut out = vec![0.0f32; rows * width];
    let shape = [1, rows, width];
    group.bench_function("index_add 1M x 16 -> 100k, exact", |b| {
        b.iter(|| index_add(black_box(&mut out), shape, &index, &source, 1.0).unwrap());
    });
    group.bench_function("index_add 1M x 16 -> 100k, atomics", |b| {
        b.iter(|| index_add_fast(black_box(&mut out), shape, &index, &source, 1.0).unwrap());
    });
    for (name, n, dim) in [
        ("4M -> 1M", 4_000_000, 1_000_000),
        ("8M -> 1000", 8_000_000, 1000),
        ("1M -> 1", 1_000_000, 1),
    ] {
        let index = indices(n, dim);
        let source = values(n);
        let mut out = vec![0.0f32; dim];
        let shape = [1, dim, 1];
        group.bench_function(format!("scatter_add {name}, exact"), |b| {
            b.iter(|| scatter_add(black_box(&mut out), shape, &index, &source).unwrap());
        });
        group.bench_function(format!("scatter_add {name}, atomics"), |b| {
            b.iter(|| scatter_add_fast(black_box(&mut out), shape, &index, &source).unwrap());
        });
        group.bench_function(format!("scatter_add {name}, one plain loop"), |b| {
            b.iter(|| {
                let out = black_box(&mut out);
                index.iter().zip(&source).for_each(|(&i, x)| out[i as usize] += x);
            });
        });
    }
    reductions(&mut group);
    group.finish();
}

/// `scatter_reduce`, `index_reduce` and `index_put` with accumulation. Products and extrema have
/// one variant: products have no atomics, and extrema do not depend on the order.
fn reductions(group: &mut BenchmarkGroup<'_, WallTime>) {
    use Reduce::{Amax, Amin, Mean, Prod, Sum};
    for (name, n, dim) in [("4M -> 1M", 4_000_000, 1_000_000), ("8M -> 1000", 8_000_000, 1000)] {
        let index = indices(n, dim);
        let source = values(n);
        let mut out = vec![1.0f32; dim];
        let shape = [1, dim, 1];
        for kind in [Sum, Mean, Prod, Amax, Amin] {
            group.bench_function(format!("scatter_reduce {kind:?} {name}"), |b| {
                b.iter(|| {
                    scatter_reduce(black_box(&mut out), shape, &index, &source, kind, true)
                        .unwrap();
                });
            });
        }
        for kind in [Sum, Mean] {
            group.bench_function(format!("scatter_reduce {kind:?} {name}, atomics"), |b| {
                b.iter(|| {
                    let out = black_box(&mut out);
                    scatter_reduce_fast(out, shape, &index, &source, kind, true).unwrap();
                });
            });
        }
        group.bench_function(format!("index_put added {name}, exact"), |b| {
            b.iter(|| put_add(black_box(&mut out), [dim, 1], &index, &source).unwrap());
        });
        group.bench_function(format!("index_put added {name}, atomics"), |b| {
            b.iter(|| put_add_fast(black_box(&mut out), [dim, 1], &index, &source).unwrap());
        });
    }
    let (n, width, rows) = (1_000_000, 16, 100_000);
    let index = indices(n, rows);
    let source = values(n * width);
    let mut out = vec![1.0f32; rows * width];
    let shape = [1, rows, width];
    for kind in [Mean, Prod, Amax] {
        group.bench_function(format!("index_reduce {kind:?} 1M x 16 -> 100k"), |b| {
            b.iter(|| {
                index_reduce(black_box(&mut out), shape, &index, &source, kind, true).unwrap();
            });
        });
    }
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(all);
