//! Dense reductions against the plain loops they replace.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use samebits_numerics::reduce;
use std::hint::black_box;

fn values(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 8) as f32 / 16777216.0 - 0.5).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("reduce");
    for (name, n) in [("4k", 4096), ("1M", 1 << 20), ("16M", 1 << 24)] {
        let x = values(n);
        group.throughput(Throughput::Bytes(4 * n as u64));
        group.bench_function(format!("sum {name}"), |b| b.iter(|| reduce::sum(black_box(&x))));
        group.bench_function(format!("sum of squares {name}"), |b| {
            b.iter(|| reduce::sum_squares(black_box(&x)));
        });
        group.bench_function(format!("naive f32 sum {name}"), |b| {
            b.iter(|| black_box(&x).iter().fold(0.0f32, |sum, x| sum + x));
        });
    }
    let x = values(1 << 24);
    for width in [64, 512, 4096] {
        group.throughput(Throughput::Bytes(4 << 24));
        let mut out = vec![0.0; width];
        group.bench_function(format!("columns 16M, width {width}"), |b| {
            b.iter(|| {
                samebits_numerics::simd::dispatch(Columns(black_box(&x), width, &mut out));
            });
        });
    }
    group.finish();
}

struct Columns<'a>(&'a [f32], usize, &'a mut [f64]);

impl samebits_numerics::simd::Kernel for Columns<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::columns(self.0, self.1, f64::from, self.2);
    }
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(all);
