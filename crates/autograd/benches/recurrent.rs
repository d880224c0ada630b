//! Recurrent networks, forward alone and with gradients.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_autograd::nn::{Context, Gru, Lstm, RecurrentOptions};
use samebits_autograd::{Tensor, functional, no_grad};
use samebits_rng::Generator;
use samebits_tensor_core::DType;
use std::hint::black_box;

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("recurrent");
    group.sample_size(20);
    let mut generator = Generator::new(0);
    let options = RecurrentOptions::new(256, 256);
    let lstm = Lstm::new(options.clone(), &mut generator).expect("valid sizes");
    let gru = Gru::new(options, &mut generator).expect("valid sizes");
    let x = Tensor::full(&[64, 32, 256], 0.01, DType::F32).unwrap();
    let mut context = Context { training: false, generator: &mut generator };
    group.bench_function("lstm forward T64 N32 256", |b| {
        b.iter(|| no_grad(|| lstm.run(black_box(&x), None, &mut context)));
    });
    group.bench_function("gru forward T64 N32 256", |b| {
        b.iter(|| no_grad(|| gru.run(black_box(&x), None, &mut context)));
    });
    group.bench_function("lstm forward and backward T64 N32 256", |b| {
        b.iter(|| {
            let (y, _) = lstm.run(black_box(&x), None, &mut context)?;
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
