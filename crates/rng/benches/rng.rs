//! Throughput of the fills, compared with filling memory with a constant.
#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_rng::Generator;
use std::hint::black_box;

const N: usize = 16_000_000;

fn fills(c: &mut Criterion) {
    let mut group = c.benchmark_group("rng");
    group.sample_size(10);
    let mut generator = Generator::new(0);
    let mut out = vec![0.0f32; N];
    group.bench_function("memset 16M f32", |b| {
        b.iter(|| {
            use rayon::prelude::*;
            out.par_chunks_mut(1 << 15).for_each(|out| out.fill(black_box(1.0)));
        });
    });
    group.bench_function("rand 16M f32", |b| {
        b.iter(|| generator.fill_uniform_f32(&mut out, 0.0, 1.0));
    });
    group.bench_function("randn 16M f32", |b| {
        b.iter(|| generator.fill_normal_f32(&mut out, 0.0, 1.0));
    });
    group.bench_function("exponential 16M f32", |b| {
        b.iter(|| generator.fill_exponential_f32(&mut out, 1.0));
    });
    let input = out.clone();
    let mut mask = vec![0; N];
    group.bench_function("dropout 16M f32", |b| {
        b.iter(|| generator.dropout(&input, 0.5, &mut out, &mut mask));
    });
    group.bench_function("randperm 4M", |b| b.iter(|| generator.permutation(4_000_000).unwrap()));
    group.bench_function("bijection 10^9, first element", |b| {
        b.iter(|| generator.bijection(black_box(1_000_000_000)).at(0))
    });
    let mut order = vec![0; 4_000_000];
    group.bench_function("randperm 4M into", |b| {
        b.iter(|| generator.fill_permutation(&mut order).unwrap())
    });
    let mut integers = vec![0i64; N];
    group.bench_function("randint 16M i64", |b| {
        b.iter(|| generator.fill_randint(&mut integers, 0, 1000));
    });
    let shapes = vec![2.5; 1 << 20];
    group.bench_function("gamma 1M f32", |b| {
        b.iter(|| generator.fill_gamma_f32(&shapes, &mut out[..1 << 20]));
    });
    group.bench_function("poisson 1M", |b| {
        b.iter(|| generator.fill_poisson(&shapes, &mut integers[..1 << 20]));
    });
    group.finish();
}

criterion_group!(benches, fills);
criterion_main!(benches);
