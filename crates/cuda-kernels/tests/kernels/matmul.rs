//! Matrix products in the written order.

use crate::data::{Source, bits, clean, same, same64};
use crate::device::{under_schedules, varies};
use samebits_cuda_kernels::Device;
use samebits_cuda_kernels::matmul::{Matrix, Plan, matmul, matmul_atomic, matmul_by};

/// Computes one output: chains of fma within blocks of 256, blocks added in ascending order.
fn dot(k: usize, a: impl Fn(usize) -> f32, b: impl Fn(usize) -> f32) -> f32 {
    let block =
        |start: usize| (start..k.min(start + 256)).fold(0.0f32, |acc, i| a(i).mul_add(b(i), acc));
    let mut total = if k == 0 { 0.0 } else { block(0) };
    for start in (256..k).step_by(256) {
        total += block(start);
    }
    clean(total)
}

/// Returns the product by the likely plan, after all others have given the same bits.
fn by_each(
    what: &str,
    device: &Device,
    a: Matrix<'_, f32>,
    b: Matrix<'_, f32>,
    shape: [usize; 3],
    expected: &[f32],
) -> Vec<u32> {
    for (large, split) in [(false, false), (true, false), (false, true), (true, true)] {
        // One block of k cannot be split, and many add no information.
        if split && (shape[2] <= 256 || large) {
            continue;
        }
        let plan = Plan { large, split };
        let got = matmul_by(device, a, b, shape, plan).unwrap();
        same(&format!("{what}, {plan:?}"), &device.download(&got).unwrap(), expected);
    }
    let got = device.download(&matmul(device, a, b, shape).unwrap()).unwrap();
    same(what, &got, expected);
    bits(&got)
}

#[test]
fn products_follow_the_written_order() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for [m, n, k] in [
            [1, 1, 0],
            [1, 1, 1],
            [5, 7, 3],
            [70, 65, 17],
            [130, 132, 40],
            [2, 4, 513],
            [3, 2, 600],
        ] {
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
                let what = format!("{m} {n} {k} kind {kind}");
                all.extend(by_each(&what, device, left, right, [m, n, k], &expected));
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
        let expected: Vec<f32> = (0..2 * m * n)
            .map(|o| {
                let (batch, row, column) = (o / (m * n), o / n % m, o % n);
                let first = (1 - batch) * m * k;
                dot(k, |i| a[first + i * m + row], |i| b[column * k + i])
            })
            .collect();
        by_each("strided", device, left, right, [m, n, k], &expected);
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
        for split in [false, true] {
            let plan = Plan { large: false, split };
            let got = matmul_by(device, left, right, [m, n, k], plan).unwrap();
            same64("f64", &device.download(&got).unwrap(), &expected);
        }
        let plan = Plan { large: true, split: false };
        let error = matmul_by(device, left, right, [m, n, k], plan).unwrap_err().to_string();
        assert!(error.contains("does not apply to f64 and k = 300"), "{error}");
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
        let got = matmul_atomic(device, left, right, [1, 1, k]).unwrap();
        bits(&device.download(&got).unwrap())
    });
}

#[test]
fn a_plan_follows_the_shape() {
    let likely = |m, n, k| Plan::likely::<f32>([m, n, k], 1);
    assert_eq!(likely(4096, 4096, 4096), Plan { large: true, split: false });
    assert_eq!(likely(64, 64, 1 << 16), Plan { large: false, split: true });
    assert_eq!(likely(64, 64, 64), Plan { large: false, split: false });
    assert!(!Plan::likely::<f64>([4096; 3], 1).large);
}
