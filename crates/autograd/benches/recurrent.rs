//! Recurrent networks, forward alone and with gradients.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_autograd::nn::{GRU, LSTM};
use samebits_autograd::{Tensor, functional, no_grad};
use samebits_rng::Generator;
use samebits_tensor_core::DType;
use std::hint::black_box;

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("recurrent");
    group.sample_size(20);
    let mut generator = Generator::new(0);
    let lstm = LSTM::options(256, 256).init_with(&mut generator).expect("valid sizes");
    let gru = GRU::options(256, 256).init_with(&mut generator).expect("valid sizes");
    let x = Tensor::full(&[64, 32, 256], 0.01, DType::F32).unwrap();
    group.bench_function("lstm forward T64 N32 256", |b| {
        b.iter(|| no_grad(|| lstm.forward(black_box(&x), None)));
    });
    group.bench_function("gru forward T64 N32 256", |b| {
        b.iter(|| no_grad(|| gru.forward(black_box(&x), None)));
    });
    group.bench_function("lstm forward and backward T64 N32 256", |b| {
        b.iter(|| {
            let (y, _) = lstm.forward(black_box(&x), None)?;
            y.sum_all()?.backward()
        });
    });
    let x = Tensor::full(&[4096, 4096], 0.01, DType::F32).unwrap();
    group.bench_function("softmax 4096x4096", |b| {
        b.iter(|| functional::softmax(black_box(&x), 1));
    });
    group.finish();
}

criterion_group!(recurrent, benches);
criterion_main!(recurrent);
