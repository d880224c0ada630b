//! Softmax, losses of classes and CTC.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::ctc::{Batch, ctc_loss, ctc_loss_backward};
use samebits_cpu_kernels::loss::{Targets, log_softmax, nll_loss_sums};
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
    random(n, 1 << 24).into_iter().map(|i| i as f32 / 4194304.0 - 2.0).collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("loss");
    let x = values(4096 * 4096);
    let mut out = vec![0.0f32; x.len()];
    group.bench_function("log_softmax 4096x4096", |b| {
        b.iter(|| log_softmax(black_box(&x), 4096, &mut out));
    });
    group.bench_function("log_softmax 1000000x16", |b| {
        b.iter(|| log_softmax(black_box(&x[..16_000_000]), 16, &mut out[..16_000_000]));
    });
    let classes = random(4096, 4096);
    let targets =
        Targets { classes: &classes, count: 4096, inner: 1, weight: None, ignore_index: -100 };
    group.bench_function("nll_loss 4096 of 4096", |b| {
        b.iter(|| nll_loss_sums(black_box(&out), targets));
    });
    let (steps, n, classes, labels) = (150, 32, 60, 30);
    let scores = values(steps * n * classes);
    let mut log_probs = vec![0.0f32; scores.len()];
    log_softmax(&scores, classes, &mut log_probs).unwrap();
    let targets: Vec<i64> = random(n * labels, classes - 1).iter().map(|label| label + 1).collect();
    let starts: Vec<usize> = (0..n).map(|i| i * labels).collect();
    let batch = Batch {
        log_probs: &log_probs,
        n,
        classes,
        labels: &targets,
        starts: &starts,
        target_lengths: &vec![labels; n],
        input_lengths: &vec![steps; n],
        blank: 0,
    };
    let scale = vec![1.0; n];
    let mut grad = vec![0.0f32; log_probs.len()];
    group.bench_function("ctc forward and backward T150 N32 C60 S30", |b| {
        b.iter(|| {
            let losses = ctc_loss(black_box(batch));
            let grads = ctc_loss_backward(black_box(batch), &scale, false, &mut grad);
            (losses, grads)
        });
    });
    group.finish();
}

criterion_group!(loss, benches);
criterion_main!(loss);
