//! Matrix products in the written order.

use crate::data::{Source, bits, clean, same, same64};
use crate::device::{under_schedules, varies};
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::matmul::{Matrix, matmul, matmul_split};

/// One output: chains of fma within blocks of 256, blocks added in ascending order.
fn dot(k: usize, a: impl Fn(usize) -> f32, b: impl Fn(usize) -> f32) -> f32 {
    let block =
        |start: usize| (start..k.min(start + 256)).fold(0.0f32, |acc, i| a(i).mul_add(b(i), acc));
    let mut total = if k == 0 { 0.0 } else { block(0) };
    for start in (256..k).step_by(256) {
        total += block(start);
    }
    clean(total)
}

#[test]
fn products_follow_the_written_order() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for [m, n, k] in [[1, 1, 0], [1, 1, 1], [5, 7, 3], [70, 65, 17], [3, 2, 600], [2, 3, 2100]]
        {
            for kind in 0..3 {
                let mut source = Source::new((m * n + k) as u64);
                let mut make = |len| match kind {
                    0 => source.plain(len),
                    1 => source.wild(len),
                    _ => source.broken(len),
                };
                let (a, b) = (make(m * k), make(k * n));
                let expected: Vec<f32> = (0..m * n)
                    .map(|o| dot(k, |i| a[o / n * k + i], |i| b[i * n + o % n]))
                    .collect();
                let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
                let left = Matrix { data: &a, row: k, column: 1, offsets: &[0] };
                let right = Matrix { data: &b, row: n, column: 1, offsets: &[0] };
                let got = matmul(device, left, right, [m, n, k]).unwrap();
                let got = device.download(&got).unwrap();
                same(&format!("{m} {n} {k} kind {kind}"), &got, &expected);
                let split = matmul_split(device, left, right, [m, n, k], Deterministic).unwrap();
                same("split k", &device.download(&split).unwrap(), &expected);
                all.extend(bits(&got));
            }
        }
        all
    });
}

#[test]
fn strides_and_batches_change_no_bit() {
    under_schedules(|device| {
        let [m, n, k] = [4, 5, 40];
        let mut source = Source::new(11);
        // Two left matrices, stored transposed; one right matrix for both.
        let (a, b) = (source.plain(2 * m * k), source.plain(n * k));
        let (a_dev, b_dev) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let left = Matrix { data: &a_dev, row: 1, column: m, offsets: &[m * k, 0] };
        let right = Matrix { data: &b_dev, row: 1, column: k, offsets: &[0, 0] };
        let got = device.download(&matmul(device, left, right, [m, n, k]).unwrap()).unwrap();
        let expected: Vec<f32> = (0..2 * m * n)
            .map(|o| {
                let (batch, row, column) = (o / (m * n), o / n % m, o % n);
                let first = (1 - batch) * m * k;
                dot(k, |i| a[first + i * m + row], |i| b[column * k + i])
            })
            .collect();
        same("strided", &got, &expected);
        assert!(matmul(device, Matrix { row: 2, ..left }, right, [m, n, k]).is_err());
    });
}

#[test]
fn f64_products_follow_the_same_order() {
    under_schedules(|device| {
        let [m, n, k] = [3, 4, 300];
        let mut source = Source::new(12);
        let mut wide = |len| -> Vec<f64> {
            source.plain(len).into_iter().map(|x| f64::from(x) * 1.0000001).collect()
        };
        let (a, b) = (wide(m * k), wide(k * n));
        let expected: Vec<f64> = (0..m * n)
            .map(|o| {
                let part = |r: std::ops::Range<usize>| {
                    r.fold(0.0f64, |acc, i| a[o / n * k + i].mul_add(b[i * n + o % n], acc))
                };
                part(0..256) + part(256..k)
            })
            .collect();
        let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let left = Matrix { data: &a, row: k, column: 1, offsets: &[0] };
        let right = Matrix { data: &b, row: n, column: 1, offsets: &[0] };
        let got = matmul(device, left, right, [m, n, k]).unwrap();
        same64("f64", &device.download(&got).unwrap(), &expected);
    });
}

#[test]
fn a_row_does_not_depend_on_the_batch() {
    under_schedules(|device| {
        let [m, n, k] = [6, 3, 50];
        let mut source = Source::new(13);
        let (a, b) = (source.plain(m * k), source.plain(k * n));
        let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let left = Matrix { data: &a, row: k, column: 1, offsets: &[0] };
        let right = Matrix { data: &b, row: n, column: 1, offsets: &[0] };
        let whole = device.download(&matmul(device, left, right, [m, n, k]).unwrap()).unwrap();
        for row in 0..m {
            let left = Matrix { offsets: &[row * k], ..left };
            let one = device.download(&matmul(device, left, right, [1, n, k]).unwrap()).unwrap();
            same("row", &one, &whole[row * n..(row + 1) * n]);
        }
    });
}

#[test]
fn atomic_split_varies() {
    // One block of k each: 1, 2^24, -2^24, ...
    let k = 256 * 9;
    let a: Vec<f32> = (0..k)
        .map(|i| if i % 256 == 0 { [1.0, 16777216.0, -16777216.0][i / 256 % 3] } else { 0.0 })
        .collect();
    let b = vec![1.0f32; k];
    varies(|device| {
        let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let left = Matrix { data: &a, row: k, column: 1, offsets: &[0] };
        let right = Matrix { data: &b, row: 1, column: 1, offsets: &[0] };
        let got = matmul_split(device, left, right, [1, 1, k], Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
}
