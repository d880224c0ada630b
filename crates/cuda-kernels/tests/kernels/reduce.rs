//! Reductions: the tree of `samebits_numerics::reduce`.

use crate::data::{Source, bits, clean, order_sensitive, same, same64};
use crate::device::{under_schedules, varies};
use samebits_cuda_kernels::reduce::{self, Sum};
use samebits_numerics::extrema;
use samebits_numerics::reduce::sum_by;

/// (outer, n, inner): one block, columns, several blocks.
const SHAPES: [[usize; 3]; 7] =
    [[1, 0, 3], [3, 1, 1], [2, 100, 3], [2, 77, 40], [1, 4096, 1], [2, 4097, 2], [1, 10_000, 1]];

#[test]
fn sums_follow_the_tree() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for shape in SHAPES {
            let [outer, n, inner] = shape;
            for kind in 0..3 {
                let mut source = Source::new(n as u64);
                let x = match kind {
                    0 => source.plain(outer * n * inner),
                    1 => source.wild(outer * n * inner),
                    _ => source.broken(outer * n * inner),
                };
                let at = |o: usize, i: usize| f64::from(x[(o / inner * n + i) * inner + o % inner]);
                let buffer = device.upload(&x).unwrap();
                for sum in [Sum::Sum, Sum::Mean, Sum::Squares] {
                    let expected: Vec<f32> = (0..outer * inner)
                        .map(|o| match sum {
                            Sum::Sum => sum_by(n, |i| at(o, i)) as f32,
                            Sum::Mean => (sum_by(n, |i| at(o, i)) / n as f64) as f32,
                            Sum::Squares => sum_by(n, |i| at(o, i) * at(o, i)) as f32,
                        })
                        .map(clean)
                        .collect();
                    let got = reduce::sum(device, &buffer, shape, sum).unwrap();
                    let got = device.download(&got).unwrap();
                    same(&format!("{shape:?} {sum:?}"), &got, &expected);
                    all.extend(bits(&got));
                }
            }
        }
        all
    });
}

#[test]
fn f64_sums_follow_the_tree() {
    under_schedules(|device| {
        for shape in SHAPES {
            let [outer, n, inner] = shape;
            let x: Vec<f64> = Source::new(3)
                .plain(outer * n * inner)
                .into_iter()
                .map(|x| f64::from(x) * 1.000000001)
                .collect();
            let at = |o: usize, i: usize| x[(o / inner * n + i) * inner + o % inner];
            let expected: Vec<f64> = (0..outer * inner).map(|o| sum_by(n, |i| at(o, i))).collect();
            let buffer = device.upload(&x).unwrap();
            let got = reduce::sum(device, &buffer, shape, Sum::Sum).unwrap();
            same64(&format!("{shape:?}"), &device.download(&got).unwrap(), &expected);
        }
    });
}

#[test]
fn the_first_extreme_wins() {
    under_schedules(|device| {
        for shape in SHAPES.into_iter().filter(|s| s[1] > 0) {
            let [outer, n, inner] = shape;
            for kind in 0..3 {
                let mut source = Source::new(n as u64 + 50);
                let x: Vec<f32> = match kind {
                    0 => (0..outer * n * inner).map(|_| source.below(5) as f32 - 2.0).collect(),
                    1 => source.wild(outer * n * inner),
                    _ => source.broken(outer * n * inner),
                };
                let buffer = device.upload(&x).unwrap();
                for minimum in [false, true] {
                    let expected: Vec<(usize, f32)> = (0..outer * inner)
                        .map(|o| {
                            let row: Vec<f32> = (0..n)
                                .map(|i| x[(o / inner * n + i) * inner + o % inner])
                                .collect();
                            let found =
                                if minimum { extrema::argmin(&row) } else { extrema::argmax(&row) };
                            found.unwrap()
                        })
                        .collect();
                    let (values, indices) =
                        reduce::extreme(device, &buffer, shape, minimum).unwrap();
                    let values = device.download(&values).unwrap();
                    let expected_values: Vec<f32> = expected.iter().map(|e| e.1).collect();
                    same(&format!("{shape:?} {minimum}"), &values, &expected_values);
                    let indices = device.download(&indices).unwrap();
                    let expected: Vec<i64> = expected.iter().map(|e| e.0 as i64).collect();
                    assert_eq!(indices, expected, "{shape:?} {minimum}");
                }
            }
        }
    });
}

#[test]
fn atomic_sums_vary() {
    let x = order_sensitive(300);
    varies(|device| {
        let buffer = device.upload(&x).unwrap();
        bits(&device.download(&reduce::sum_atomic(device, &buffer, [1, 300, 1]).unwrap()).unwrap())
    });
}
