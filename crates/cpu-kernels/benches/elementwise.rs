//! Functions of one and two elements.

use criterion::{Criterion, criterion_group, criterion_main};
use samebits_cpu_kernels::elementwise::{Operand, binary, unary};
use samebits_tensor_core::ops::{BinaryKind, UnaryKind};
use std::hint::black_box;

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("elementwise");
    let n = 1 << 24;
    let x: Vec<f32> = (0..n).map(|i| (i as f32 - 8388608.0) / 2097152.0).collect();
    let positive: Vec<f32> = x.iter().map(|x| x.abs() + 0.1).collect();
    let mut out = vec![0.0f32; n];
    for kind in [
        UnaryKind::Exp,
        UnaryKind::Tanh,
        UnaryKind::Sigmoid,
        UnaryKind::Erf,
        UnaryKind::Sin,
        UnaryKind::Relu,
    ] {
        group.bench_function(format!("{kind:?} 16M"), |b| {
            b.iter(|| unary(kind, black_box(&x), &mut out));
        });
    }
    for kind in [UnaryKind::Log, UnaryKind::Rsqrt] {
        group.bench_function(format!("{kind:?} 16M"), |b| {
            b.iter(|| unary(kind, black_box(&positive), &mut out));
        });
    }
    group.bench_function("Pow 16M", |b| {
        b.iter(|| {
            let (a, b) = (Operand::Each(black_box(&positive[..])), Operand::Each(&x[..]));
            binary(BinaryKind::Pow, a, b, &mut out)
        });
    });
    group.finish();
}

criterion_group!(elementwise, benches);
criterion_main!(elementwise);
