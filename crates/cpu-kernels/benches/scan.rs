//! Scans and sorting.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::scan::{cumprod, cumsum};
use samebits_cpu_kernels::sort::{sort, topk};
use std::hint::black_box;

fn values(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 8) as f32 / 16777216.0 - 0.5).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("scan");
    let n = 1 << 24;
    let input = values(n);
    let mut out = vec![0.0f32; n];
    for (name, shape) in [
        ("16M", [1, n, 1]),
        ("4096 rows of 4096", [4096, 4096, 1]),
        ("4096 columns of 4096", [1, 4096, 4096]),
    ] {
        group.bench_function(format!("cumsum {name}"), |b| {
            b.iter(|| cumsum(black_box(&input), shape, &mut out));
        });
    }
    group.bench_function("cumprod 16M", |b| {
        b.iter(|| cumprod(black_box(&input), [1, n, 1], &mut out));
    });
    let n = 1 << 20;
    let (mut sorted, mut indices) = (vec![0.0f32; n], vec![0; n]);
    group.bench_function("sort 1M", |b| {
        b.iter(|| sort(black_box(&input[..n]), [1, n, 1], false, &mut sorted, &mut indices));
    });
    group.bench_function("topk 100 of 1M", |b| {
        b.iter(|| {
            let (values, indices) = (&mut sorted[..100], &mut indices[..100]);
            topk(black_box(&input[..n]), [1, n, 1], 100, true, values, indices)
        });
    });
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(10).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(all);
