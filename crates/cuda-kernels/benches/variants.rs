//! Both variants of kernels that sum irregularly, side by side on the available device.
//!
//! The emulated device gets sizes a thousand times smaller: its times say nothing about a GPU, only
//! that the benchmark runs.

#![allow(clippy::print_stderr, reason = "a benchmark talks to its reader")]

use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use samebits_cuda_kernels::Variant::{self, Atomic, Deterministic};
use samebits_cuda_kernels::bincount::bincount_weighted;
use samebits_cuda_kernels::embedding::embedding_grad;
use samebits_cuda_kernels::pooling::{
    Average, Pool, PoolParams, avg_pool_grad, max_pool, max_pool_grad,
};
use samebits_cuda_kernels::scatter::{Rows, index_add};
use samebits_cuda_kernels::{Buffer, Device, device_count};
use samebits_rng::Generator;

fn benches(c: &mut Criterion) {
    let device = match device_count() {
        Ok(0) => return eprintln!("nothing to measure: the driver sees no device"),
        Err(error) => return eprintln!("nothing to measure: {error}"),
        Ok(_) => Device::new(0).expect("the driver sees a device"),
    };
    let name = device.name().expect("a device has a name");
    let share = if name.to_lowercase().contains("emulat") { 1000 } else { 1 };
    eprintln!("on {name}, sizes divided by {share}");
    scattered(c, &device, share);
    pooled(c, &device, share);
}

/// Times sums over rows named by an index.
fn scattered(c: &mut Criterion, device: &Device, share: usize) {
    let (n, width, rows) = (1_000_000 / share, 16, 100_000 / share);
    let index = indices(device, n, rows);
    let source = floats(device, n * width);
    let shape = Rows { outer: 1, size: rows, n, inner: width };
    let mut out = floats(device, rows * width);
    both(c, device, "index_add 1M x 16 into 100k", n * width, |variant| {
        index_add(device, &mut out, &index, &source, shape, 1.0, variant).expect("it is valid");
    });

    let (n, bins) = (8_000_000 / share, 1000);
    let (values, weights) = (indices(device, n, bins), floats(device, n));
    both(c, device, "bincount weighted, 8M into 1000", n, |variant| {
        bincount_weighted(device, &values, &weights, bins, variant).expect("it is valid");
    });

    let (n, width, rows) = (32_768 / share, 64, 100_000 / share);
    let (index, grad) = (indices(device, n, rows), floats(device, n * width));
    both(c, device, "embedding backward, 32k x 64 of 100k", n * width, |variant| {
        embedding_grad(device, &grad, &index, [rows, width], None, false, variant)
            .expect("it is valid");
    });
}

/// Times gradients of overlapping windows.
fn pooled(c: &mut Criterion, device: &Device, share: usize) {
    let planes = (16 * 64 / share).max(1);
    let params = PoolParams { stride: vec![2; 2], padding: vec![1; 2], ..PoolParams::square(2, 3) };
    let pool = Pool::new("pool", &[1, planes, 56, 56], &params).expect("the window fits");
    let x = floats(device, planes * 56 * 56);
    let (y, places) = max_pool(device, &x, &pool).expect("it is valid");
    both(c, device, "max_pool2d 3s2 backward, 16x64x56x56", x.len(), |variant| {
        max_pool_grad(device, &y, &places, &pool, variant).expect("it is valid");
    });
    let average = Average::new(pool, true, None).expect("it is an average");
    both(c, device, "avg_pool2d 3s2 backward, 16x64x56x56", x.len(), |variant| {
        avg_pool_grad(device, &y, &average, variant).expect("it is valid");
    });
}

/// Times calls of each variant, in sequence in the device's stream.
fn both(
    c: &mut Criterion,
    device: &Device,
    name: &str,
    elements: usize,
    mut call: impl FnMut(Variant),
) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(elements as u64));
    for (name, variant) in [("deterministic", Deterministic), ("atomic", Atomic)] {
        group.bench_function(name, |b| {
            // One wait for all calls: launches overlap with earlier work, and freed memory is
            // reused, as in a program.
            b.iter_custom(|calls| {
                call(variant);
                device.synchronize().expect("no launch failed");
                let start = Instant::now();
                for _ in 0..calls {
                    call(variant);
                }
                device.synchronize().expect("no launch failed");
                start.elapsed()
            });
        });
    }
}

fn floats(device: &Device, count: usize) -> Buffer<f32> {
    let mut values = vec![0.0f32; count];
    Generator::new(1).fill_uniform_f32(&mut values, -1.0, 1.0).expect("an interval");
    device.upload(&values).expect("there is memory")
}

fn indices(device: &Device, count: usize, bound: usize) -> Buffer<i64> {
    let mut values = vec![0i64; count];
    Generator::new(2).fill_randint(&mut values, 0, bound as i64).expect("a positive bound");
    device.upload(&values).expect("there is memory")
}

criterion_group!(variants, benches);
criterion_main!(variants);
