//! Reads by index and their gradients, embeddings and histograms.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::bincount::{bincount, bincount_weighted, bincount_weighted_fast};
use samebits_cpu_kernels::embedding::{
    BagBounds, BagMode, Bags, embedding_backward, embedding_backward_fast, embedding_bag_backward,
    embedding_bag_backward_fast,
};
use samebits_cpu_kernels::index::{
    gather, gather_backward, index_copy, index_select, index_select_backward, put,
    repeat_interleave_index, scatter, take, take_backward,
};
use samebits_cpu_kernels::scatter::{index_add_fast, put_add_fast, scatter_add_fast};
use std::hint::black_box;

fn random(n: usize, size: usize) -> Vec<i64> {
    let mut state = 1u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as usize % size) as i64
        })
        .collect()
}

fn values(n: usize) -> Vec<f32> {
    random(n, 1 << 24).into_iter().map(|i| i as f32 / 16777216.0 - 0.5).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("index");
    let (rows, width, n) = (100_000, 64, 512 * 64);
    let index = random(n, rows);
    let table = values(rows * width);
    let grad = values(n * width);
    let mut out = vec![0.0f32; n * width];
    let mut back = vec![0.0f32; rows * width];
    group.bench_function("index_select 32k rows of 64", |b| {
        b.iter(|| index_select("x", &mut out, black_box(&table), [1, rows, width], &index));
    });
    group.bench_function("embedding backward 32k of 100k x 64", |b| {
        b.iter(|| {
            embedding_backward(&mut back, [rows, width], &index, black_box(&grad), None, false)
        });
    });
    group.bench_function("embedding backward 32k of 100k x 64, atomics", |b| {
        b.iter(|| {
            embedding_backward_fast(&mut back, [rows, width], &index, black_box(&grad), None, false)
        });
    });
    let offsets: Vec<i64> = (0..512).map(|bag| bag * 64).collect();
    let bounds = BagBounds::new("embedding_bag", index.len(), &offsets, false).unwrap();
    let bags = Bags::new(rows, &index, &bounds, None).unwrap();
    let bag_grad = values(512 * width);
    group.bench_function("embedding_bag sum backward 512 x 64 of 100k x 64", |b| {
        b.iter(|| {
            let grad = black_box(&bag_grad);
            embedding_bag_backward(&mut back, width, grad, &bags, BagMode::Sum, None, None, false)
        });
    });
    group.bench_function("embedding_bag sum backward 512 x 64 of 100k x 64, atomics", |b| {
        b.iter(|| {
            let (grad, mode) = (black_box(&bag_grad), BagMode::Sum);
            embedding_bag_backward_fast(&mut back, width, grad, &bags, mode, None, None, false)
        });
    });
    let repeats: Vec<i64> = random(rows, 10);
    let index = repeat_interleave_index(&repeats).unwrap();
    let grad = values(index.len() * width);
    group.bench_function("repeat_interleave backward 100k x 64", |b| {
        b.iter(|| index_select_backward(&mut back, [1, rows, width], &index, black_box(&grad)));
    });
    group.bench_function("repeat_interleave backward 100k x 64, atomics", |b| {
        b.iter(|| {
            back.fill(0.0);
            index_add_fast(&mut back, [1, rows, width], &index, black_box(&grad), 1.0)
        });
    });
    let mut repeated = vec![0.0f32; grad.len()];
    group.bench_function("repeat_interleave 100k x 64", |b| {
        b.iter(|| {
            let index = repeat_interleave_index(black_box(&repeats)).unwrap();
            index_select("x", &mut repeated, &table, [1, rows, width], &index)
        });
    });
    elements(&mut group);
    let (n, bins) = (8_000_000, 1000);
    let index = random(n, bins);
    let weights = values(n);
    let (mut counts, mut sums) = (vec![0; bins], vec![0.0f32; bins]);
    group.bench_function("bincount 8M -> 1000", |b| {
        b.iter(|| bincount(&mut counts, black_box(&index)));
    });
    group.bench_function("bincount weighted 8M -> 1000", |b| {
        b.iter(|| bincount_weighted(&mut sums, black_box(&index), &weights));
    });
    group.bench_function("bincount weighted 8M -> 1000, atomics", |b| {
        b.iter(|| bincount_weighted_fast(&mut sums, black_box(&index), &weights));
    });
    group.finish();
}

/// Reads and writes of single elements and of rows.
fn elements(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (n, size) = (4_000_000, 1_000_000);
    let index = random(n, size);
    let source = values(n);
    let (table, mut out, mut read) = (values(size), vec![0.0f32; size], vec![0.0f32; n]);
    let shape = [1, size, 1];
    group.bench_function("scatter 4M -> 1M", |b| {
        b.iter(|| scatter(&mut out, shape, &index, black_box(&source)));
    });
    group.bench_function("gather 4M of 1M", |b| {
        b.iter(|| gather(&mut read, black_box(&table), shape, &index));
    });
    group.bench_function("gather backward 4M of 1M", |b| {
        b.iter(|| gather_backward(&mut out, shape, &index, black_box(&source)));
    });
    group.bench_function("gather backward 4M of 1M, atomics", |b| {
        b.iter(|| {
            out.fill(0.0);
            scatter_add_fast(&mut out, shape, &index, black_box(&source))
        });
    });
    group.bench_function("index, take 4M of 1M", |b| {
        b.iter(|| take(&mut read, black_box(&table), [size, 1], &index));
    });
    group.bench_function("index, take backward 4M of 1M", |b| {
        b.iter(|| take_backward(&mut out, [size, 1], &index, black_box(&source)));
    });
    group.bench_function("index, take backward 4M of 1M, atomics", |b| {
        b.iter(|| {
            out.fill(0.0);
            put_add_fast(&mut out, [size, 1], &index, black_box(&source))
        });
    });
    group.bench_function("index_put, put 4M -> 1M", |b| {
        b.iter(|| put(&mut out, [size, 1], &index, black_box(&source)));
    });
    let (rows, width) = (100_000, 64);
    let index = random(n / width, rows);
    let mut out = vec![0.0f32; rows * width];
    group.bench_function("index_copy 62k rows of 64 -> 100k", |b| {
        b.iter(|| index_copy(&mut out, [1, rows, width], &index, black_box(&source)));
    });
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(all);
