//! Exact sums against the naive sum.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use samebits_numerics::exact::{ExactSum, sum_f32, sum_f64};
use std::hint::black_box;

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("exact");
    let hash = |i: u32| i.wrapping_mul(2654435761) ^ i.wrapping_mul(40503) >> 7;
    for (name, n) in [("4k", 4096u32), ("1M", 1 << 20), ("16M", 1 << 24)] {
        let narrow: Vec<f32> = (0..n).map(|i| (hash(i) >> 8) as f32 / 16777216.0 - 0.5).collect();
        // Every finite f32: no partial sum is exact.
        let any: Vec<f32> = (0..n).map(|i| f32::from_bits(hash(i) % 0x7f80_0000)).collect();
        let wide: Vec<f64> = narrow.iter().map(|&x| f64::from(x)).collect();
        group.throughput(Throughput::Elements(n.into()));
        group.bench_function(format!("naive sum {name}"), |b| {
            b.iter(|| black_box(&narrow).iter().fold(0.0f32, |sum, x| sum + x));
        });
        group.bench_function(format!("sum_f32 {name}"), |b| b.iter(|| sum_f32(black_box(&narrow))));
        group.bench_function(format!("sum_f64 {name}"), |b| b.iter(|| sum_f64(black_box(&wide))));
        group.bench_function(format!("sum_f32, all exponents, {name}"), |b| {
            b.iter(|| sum_f32(black_box(&any)));
        });
        group.bench_function(format!("limbs only {name}"), |b| {
            b.iter(|| black_box(&narrow).iter().copied().collect::<ExactSum>().to_f32());
        });
    }
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(1));
    targets = benches
}
criterion_main!(all);
