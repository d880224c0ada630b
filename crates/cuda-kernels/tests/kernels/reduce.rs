//! Reductions: the tree of `samebits_numerics::reduce`.

use crate::data::{Source, bits, clean, order_sensitive, same, same64};
use crate::device::{under_schedules, varies};
use crate::numbers::{Number, all_bits, mixed, same_bits};
use samebits_cuda_kernels::Device;
use samebits_cuda_kernels::reduce::{self, Integers, Sum};
use samebits_numerics::extrema;
use samebits_numerics::math::f64 as math;
use samebits_numerics::reduce::{norm_scale, sum_by};

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
fn long_columns_follow_the_tree() {
    under_schedules(|device| {
        let [n, inner] = [4100, 33];
        let x = Source::new(3).broken(n * inner);
        let expected: Vec<f32> =
            (0..inner).map(|o| clean(sum_by(n, |i| f64::from(x[i * inner + o])) as f32)).collect();
        let buffer = device.upload(&x).unwrap();
        let got = reduce::sum(device, &buffer, [1, n, inner], Sum::Sum).unwrap();
        let got = device.download(&got).unwrap();
        same("long columns", &got, &expected);
        bits(&got)
    });
}

#[test]
fn the_first_extreme_wins() {
    under_schedules(|device| {
        // The last shape has several blocks of columns' rows.
        let shapes = SHAPES.into_iter().chain([[2, 1100, 33]]);
        for shape in shapes.filter(|s| s[1] > 0) {
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

/// Two lines, each with more blocks than a warp compares.
#[test]
fn the_first_extreme_of_long_lines_wins() {
    const N: usize = 4096 * 256 + 1;
    let mut x = vec![0.5f32; 2 * N];
    // Equal numbers in the first and the last block of the second level; a NaN in the last element.
    for place in [4096 * 255 + 7, 4096 * 256 - 1, N - 1] {
        x[place] = 1.0;
    }
    x[N + 3] = f32::INFINITY;
    x[2 * N - 1] = f32::NAN;
    under_schedules(|device| {
        let x = device.upload(&x).unwrap();
        let (values, indices) = reduce::extreme(device, &x, [2, N, 1], false).unwrap();
        same("long lines", &device.download(&values).unwrap(), &[1.0, clean(f32::NAN)]);
        assert_eq!(device.download(&indices).unwrap(), [4096 * 255 + 7, N as i64 - 1]);
    });
}

/// Computes the product over the tree: lanes of 32 in blocks of 4096.
fn product_of(terms: &[f64]) -> f64 {
    let block = |terms: &[f64]| {
        let mut lanes = [1.0; 32];
        for (i, x) in terms.iter().enumerate() {
            lanes[i % 32] *= x;
        }
        for half in [16, 8, 4, 2, 1] {
            for lane in 0..half {
                lanes[lane] *= lanes[lane + half];
            }
        }
        lanes[0]
    };
    if terms.len() <= 4096 {
        return block(terms);
    }
    product_of(&terms.chunks(4096).map(block).collect::<Vec<_>>())
}

fn norm_of(row: &[f64], p: f64) -> f64 {
    let sum = |term: &dyn Fn(f64) -> f64| sum_by(row.len(), |i| term(row[i].abs()));
    if p.is_infinite() {
        let magnitudes: Vec<f64> = row.iter().map(|x| x.abs()).collect();
        let best =
            if p > 0.0 { extrema::argmax(&magnitudes) } else { extrema::argmin(&magnitudes) };
        best.unwrap().1
    } else if p == 0.0 {
        sum(&|x| if x == 0.0 { 0.0 } else { 1.0 })
    } else if p == 1.0 {
        sum(&|x| x)
    } else {
        let magnitudes = row.iter().map(|x| x.abs());
        let most = match p > 0.0 {
            true => magnitudes.fold(0.0, f64::max),
            false => magnitudes.fold(f64::INFINITY, f64::min),
        };
        let scale = norm_scale(most, p);
        if p == 2.0 {
            return math::sqrt(sum(&|x| (x / scale) * (x / scale))) * scale;
        }
        math::pow(sum(&|x| math::pow(x / scale, p)), 1.0 / p) * scale
    }
}

fn logsumexp_of(row: &[f64]) -> f64 {
    let Some((_, largest)) = extrema::argmax(row) else { return f64::NEG_INFINITY };
    if !largest.is_finite() {
        return largest;
    }
    largest + math::log(sum_by(row.len(), |i| math::exp(row[i] - largest)))
}

/// Computes the variance and the mean.
fn variance_of(row: &[f64], correction: f64) -> [f64; 2] {
    let (n, divisor) = (row.len() as f64, (row.len() as f64 - correction).max(0.0));
    let mut mean = sum_by(row.len(), |i| row[i]) / n;
    // Sums beyond the range are taken again of elements times 2^-64, and squares of times 2^-600.
    if !mean.is_finite() {
        let scale = math::powi(0.5, 64);
        let scaled = sum_by(row.len(), |i| row[i] * scale) / n;
        mean = match scaled.is_finite() {
            true => (scaled / scale).clamp(-f64::MAX, f64::MAX),
            false => scaled,
        };
    }
    let about = |mean: f64, scale: f64| {
        sum_by(row.len(), |i| (row[i] * scale - mean) * (row[i] * scale - mean))
    };
    let squares = about(mean, 1.0);
    if squares.is_finite() {
        return [squares / divisor, mean];
    }
    let scale = math::powi(0.5, 600);
    [about(mean * scale, scale) / divisor / scale / scale, mean]
}

fn moments<T: Number>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    for shape in SHAPES {
        let [outer, n, inner] = shape;
        for broken in [false, true] {
            let x: Vec<T> = mixed(&mut Source::new(n as u64 + 31), broken, outer * n * inner);
            let rows: Vec<Vec<f64>> = (0..outer * inner)
                .map(|o| {
                    (0..n).map(|i| x[(o / inner * n + i) * inner + o % inner].into()).collect()
                })
                .collect();
            let x = device.upload(&x).unwrap();
            let mut check =
                |what: &str, got: samebits_cuda_kernels::Buffer<T>, of: &dyn Fn(&[f64]) -> f64| {
                    let expected: Vec<T> =
                        rows.iter().map(|row| T::from_f64(of(row)).canonical()).collect();
                    let got = device.download(&got).unwrap();
                    same_bits(&format!("{what} {shape:?} {broken}"), &got, &expected);
                    all.extend(all_bits(&got));
                };
            check("prod", reduce::prod(device, &x, shape).unwrap(), &product_of);
            check("logsumexp", reduce::logsumexp(device, &x, shape).unwrap(), &logsumexp_of);
            for correction in [0.0, 1.0, 1e6] {
                let (variance, mean) = reduce::variance(device, &x, shape, correction).unwrap();
                check("var", variance, &|row| variance_of(row, correction)[0]);
                check("mean", mean, &|row| variance_of(row, correction)[1]);
            }
            for p in [0.0, 1.0, 2.0, 3.0, -1.5, 40.0, f64::INFINITY, f64::NEG_INFINITY] {
                // A power takes thousands of instructions.
                let costly = ![0.0, 1.0, 2.0].contains(&p) && p.is_finite() && n > 200;
                if costly || n == 0 && p.is_infinite() {
                    continue;
                }
                let got = reduce::norm(device, &x, shape, p).unwrap();
                check(&format!("norm {p}"), got, &|row| norm_of(row, p));
            }
        }
    }
    all
}

#[test]
fn products_norms_and_moments_follow_the_tree() {
    under_schedules(|device| (moments::<f32>(device), moments::<f64>(device)));
}

#[test]
fn integers_wrap_around() {
    let kinds: [(Integers, i64, fn(i64, i64) -> i64); 4] = [
        (Integers::Sum, 0, i64::wrapping_add),
        (Integers::Product, 1, i64::wrapping_mul),
        (Integers::Largest, i64::MIN, i64::max),
        (Integers::Smallest, i64::MAX, i64::min),
    ];
    under_schedules(|device| {
        for [outer, n, inner] in SHAPES.into_iter().chain([[2, 1100, 33]]) {
            // Odd numbers of either sign: their products do not become 0.
            let x: Vec<i64> = (0..(outer * n * inner) as i64)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) | 1)
                .collect();
            let buffer = device.upload(&x).unwrap();
            for (kind, first, join) in kinds {
                let got = reduce::integers(device, &buffer, [outer, n, inner], kind);
                if n == 0 && matches!(kind, Integers::Largest | Integers::Smallest) {
                    assert!(got.is_err(), "{kind:?} of no elements");
                    continue;
                }
                let expected: Vec<i64> = (0..outer * inner)
                    .map(|o| {
                        let at = |i| x[(o / inner * n + i) * inner + o % inner];
                        (0..n).map(at).fold(first, join)
                    })
                    .collect();
                let got = device.download(&got.unwrap()).unwrap();
                assert_eq!(got, expected, "{kind:?} of {:?}", [outer, n, inner]);
            }
        }
    });
}

#[test]
fn atomic_sums_vary() {
    let x = order_sensitive(20_000);
    for inner in [1, 2] {
        varies(|device| {
            let buffer = device.upload(&x).unwrap();
            let sums = reduce::sum_atomic(device, &buffer, [1, 20_000 / inner, inner]).unwrap();
            bits(&device.download(&sums).unwrap())
        });
    }
}

#[test]
fn atomic_sums_take_every_element_once() {
    under_schedules(|device| {
        for [outer, n, inner] in
            [[1, 1, 1], [3, 64, 1], [2, 5000, 1], [3, 65, 1], [2, 1000, 7], [70, 3, 70]]
        {
            // Sums of small integers are equal in every order.
            let x: Vec<f32> = (0..outer * n * inner).map(|i| (i % 13) as f32).collect();
            let sums = reduce::sum_atomic(device, &device.upload(&x).unwrap(), [outer, n, inner]);
            let at = |o: usize, i: usize| x[(o / inner * n + i) * inner + o % inner];
            let expected: Vec<f32> =
                (0..outer * inner).map(|o| (0..n).map(|i| at(o, i)).sum()).collect();
            assert_eq!(
                device.download(&sums.unwrap()).unwrap(),
                expected,
                "{:?}",
                [outer, n, inner]
            );
        }
    });
}
