//! Convolutions of well-known networks: forward and gradients, ordered and unordered.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use samebits_cpu_kernels::conv::{self, ConvParams, Convolution};
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

/// Batch, channels, filters, size, kernel, stride, padding, groups.
const LAYERS: [[usize; 8]; 8] = [
    [16, 64, 64, 56, 3, 1, 1, 1],
    [64, 1, 32, 8, 3, 1, 1, 1],
    [64, 32, 64, 8, 3, 1, 1, 1],
    [8, 3, 64, 224, 7, 2, 3, 1],
    [8, 64, 64, 56, 1, 1, 0, 1],
    [8, 128, 128, 56, 3, 2, 1, 1],
    [8, 512, 512, 7, 3, 1, 1, 1],
    [8, 96, 96, 56, 3, 1, 1, 96],
];

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("conv/f32");
    group.sample_size(20);
    for [batch, channels, filters, size, kernel, stride, padding, groups] in LAYERS {
        let params = ConvParams {
            stride: vec![stride; 2],
            padding: vec![padding; 2],
            groups,
            ..ConvParams::padded(2, 0)
        };
        let input_shape = [batch, channels, size, size];
        let weight_shape = [filters, channels / groups, kernel, kernel];
        let conv = Convolution::new("conv", &input_shape, &weight_shape, &params).unwrap();
        let input = values(input_shape.iter().product());
        let weight = values(weight_shape.iter().product());
        let gradient = values(conv.output_shape().iter().product());
        let name = format!(
            "{batch}x{channels}x{size}x{size} {filters} of {kernel}x{kernel} stride {stride} groups \
             {groups}"
        );
        let steps = gradient.len() * channels / groups * kernel * kernel;
        group.throughput(Throughput::Elements(steps as u64));
        let mut output = vec![0.0; gradient.len()];
        group.bench_function(format!("{name}, forward"), |b| {
            b.iter(|| conv::forward(&conv, &input, &weight, None, black_box(&mut output)).unwrap());
        });
        let mut output = vec![0.0; input.len()];
        group.bench_function(format!("{name}, input gradient"), |b| {
            b.iter(|| conv::input_grad(&conv, &gradient, &weight, black_box(&mut output)).unwrap());
        });
        let mut output = vec![0.0; weight.len()];
        group.bench_function(format!("{name}, weight gradient"), |b| {
            b.iter(|| conv::weight_grad(&conv, &input, &gradient, black_box(&mut output)).unwrap());
        });
        group.bench_function(format!("{name}, weight gradient, unordered"), |b| {
            b.iter(|| {
                conv::weight_grad_unordered(&conv, &input, &gradient, black_box(&mut output))
                    .unwrap();
            });
        });
    }
}

criterion_group!(conv, benches);
criterion_main!(conv);
