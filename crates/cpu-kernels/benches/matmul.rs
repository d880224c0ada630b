//! Matrix products of many shapes.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use samebits_cpu_kernels::matmul::{Matrix, Real, matmul_batched};
use std::hint::black_box;

fn values<T: Real + From<f32>>(n: usize) -> Vec<T> {
    let mut state = 7u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            T::from((state >> 40) as f32 / 16777216.0 - 0.5)
        })
        .collect()
}

/// Name, rows, columns, inner size, true if `b` is transposed, number of products.
type Shape = (&'static str, usize, usize, usize, bool, usize);

const SHAPES: [Shape; 12] = [
    ("1024^3", 1024, 1024, 1024, false, 1),
    ("1024^3, b transposed", 1024, 1024, 1024, true, 1),
    ("256^3", 256, 256, 256, false, 1),
    ("64^3", 64, 64, 64, false, 1),
    ("64 of 64^3", 64, 64, 64, false, 64),
    ("4096x256 over 64", 4096, 256, 64, false, 1),
    ("64x4096 over 256", 64, 4096, 256, false, 1),
    ("32x32 over 65536", 32, 32, 65536, false, 1),
    ("1x4096 over 4096", 1, 4096, 4096, false, 1),
    ("1024x1 over 1024", 1024, 1, 1024, false, 1),
    ("1000x1 over 1000", 1000, 1, 1000, false, 1),
    ("64x10 over 512, b transposed", 64, 10, 512, true, 1),
];

fn shapes<T: Real + From<f32>>(c: &mut Criterion, dtype: &str, shapes: &[Shape]) {
    let mut group = c.benchmark_group(format!("matmul/{dtype}"));
    for &(name, m, n, k, transposed, count) in shapes {
        let (a, b) = (values::<T>(count * m * k), values::<T>(count * k * n));
        let mut out = vec![T::default(); count * m * n];
        let (row, column) = if transposed { (1, k) } else { (n, 1) };
        let left = Matrix::new(&a, m, k).unwrap();
        let right = Matrix::with_strides(&b, k, n, row, column).unwrap();
        let a_offsets: Vec<_> = (0..count).map(|p| p * m * k).collect();
        let b_offsets: Vec<_> = (0..count).map(|p| p * n * k).collect();
        group.throughput(Throughput::Elements((count * m * n * k) as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                matmul_batched(left, &a_offsets, right, &b_offsets, black_box(&mut out)).unwrap();
            });
        });
    }
}

fn benches(c: &mut Criterion) {
    shapes::<f32>(c, "f32", &SHAPES);
    shapes::<f64>(c, "f64", &SHAPES[..3]);
}

criterion_group!(matmul, benches);
criterion_main!(matmul);
