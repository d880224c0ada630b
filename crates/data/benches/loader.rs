//! The loader's cost per sample, and the utilisation of its workers.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use samebits_data::{DataLoader, DatasetExt, Memory};

/// Times samples of 64 bytes that cost nothing to make: all time is the loader's.
fn overhead(c: &mut Criterion) {
    let mut group = c.benchmark_group("overhead/64B");
    let samples = 1 << 16;
    group.throughput(Throughput::Elements(samples as u64));
    group.sample_size(10);
    let data = Arc::new(Memory::new(vec![[1.0_f32; 16]; samples]));
    for workers in [0, 1, 2] {
        let loader = DataLoader::builder(Arc::clone(&data))
            .batch_size(64)
            .shuffle(true)
            .workers(workers)
            .persistent_workers(true)
            .build()
            .expect("the settings are valid");
        let mut epoch = 0;
        group.bench_function(format!("workers={workers}"), |b| {
            b.iter(|| {
                epoch += 1;
                for batch in loader.epoch(epoch) {
                    black_box(batch.expect("memory does not fail"));
                }
            });
        });
    }
    group.finish();
}

/// Times samples that cost about 50 microseconds each: ideally all time is the workers'.
fn decoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode/50us");
    let samples = 2000_usize;
    group.throughput(Throughput::Elements(samples as u64));
    group.sample_size(10);
    let data = Memory::new((0..samples as u32).collect::<Vec<_>>()).map(|seed, _| {
        let mut word = seed + 1;
        for _ in 0..25_000 {
            word ^= word << 13;
            word ^= word >> 17;
            word ^= word << 5;
        }
        Ok(word)
    });
    let data = Arc::new(data);
    for workers in [0, 1, 2] {
        let loader = DataLoader::builder(Arc::clone(&data))
            .batch_size(16)
            .workers(workers)
            .persistent_workers(true)
            .build()
            .expect("the settings are valid");
        group.bench_function(format!("workers={workers}"), |b| {
            b.iter(|| {
                for batch in loader.epoch(0) {
                    black_box(batch.expect("arithmetic does not fail"));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, overhead, decoding);
criterion_main!(benches);
