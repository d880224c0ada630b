//! Running sums, products, logarithms of sums and extrema, and their gradients.

use crate::data::{Source, bits, clean, same, same64};
use crate::device::{on_device, under_schedules};
use crate::numbers::{Number, all_bits, mixed, same_bits};
use samebits_cuda_kernels::Device;
use samebits_cuda_kernels::scan::{self as scans, Scan, scan};
use samebits_numerics::extrema::{replaces_max, replaces_min};
use samebits_numerics::math::f64::{exp, log};

/// (outer, n, inner): empty, short, whole tiles, and tiles with a tail.
const SHAPES: [[usize; 3]; 8] = [
    [2, 0, 3],
    [3, 1, 2],
    [2, 100, 3],
    [1, 1024, 1],
    [2, 2500, 1],
    [1, 1030, 3],
    [3, 127, 1],
    // So many tiles that a launch of its own combines them.
    [1, 17_450, 1],
];

/// Computes by the definition: tiles of 1024, runs of 32, carries in order.
fn line(x: &[f64], product: bool) -> Vec<f64> {
    let start = if product { 1.0 } else { 0.0 };
    let apply = |a: f64, b: f64| if product { a * b } else { a + b };
    let mut out = Vec::new();
    let mut carry = start;
    for tile in x.chunks(1024) {
        let mut before = start;
        for run in tile.chunks(32) {
            let mut local = start;
            for &x in run {
                local = apply(local, x);
                out.push(apply(carry, apply(before, local)));
            }
            before = apply(before, local);
        }
        carry = apply(carry, before);
    }
    out
}

fn expected(x: &[f64], [outer, n, inner]: [usize; 3], kind: Scan) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    for o in 0..outer * inner {
        let mut places: Vec<usize> =
            (0..n).map(|i| (o / inner * n + i) * inner + o % inner).collect();
        if kind == Scan::SumFromEnd {
            places.reverse();
        }
        let values: Vec<f64> = places.iter().map(|&p| x[p]).collect();
        for (p, y) in places.into_iter().zip(line(&values, kind == Scan::Product)) {
            out[p] = y;
        }
    }
    out
}

/// More tiles than a warp combines in one portion.
#[test]
fn long_lines_follow_the_tiles() {
    on_device(|device| {
        let x: Vec<i64> = (0..1_100_000).map(|i: i64| i.wrapping_mul(i << 40) - 7).collect();
        let buffer = device.upload(&x).unwrap();
        let got = scans::integers(device, &buffer, [1, x.len(), 1], Scan::Sum).unwrap();
        let sums = x.iter().scan(0i64, |sum, &x| {
            *sum = sum.wrapping_add(x);
            Some(*sum)
        });
        assert!(device.download(&got).unwrap().into_iter().eq(sums), "integers");
        for shape in [[1, 1_100_000, 1], [1, 18_000, 2]] {
            let x = Source::new(9).broken(shape.iter().product());
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            for kind in [Scan::Sum, Scan::SumFromEnd] {
                let result = expected(&wide, shape, kind);
                let result: Vec<f32> = result.iter().map(|&y| clean(y as f32)).collect();
                let buffer = device.upload(&x).unwrap();
                let got = scan(device, &buffer, shape, kind).unwrap();
                same(&format!("{shape:?} {kind:?}"), &device.download(&got).unwrap(), &result);
            }
        }
    });
}

#[test]
fn scans_follow_the_tiles() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for shape in SHAPES {
            let n = shape.iter().product();
            for kind in [Scan::Sum, Scan::SumFromEnd, Scan::Product] {
                let mut source = Source::new(n as u64);
                let x = if kind == Scan::Product {
                    source.plain(n).iter().map(|x| 1.0 + x / 16.0).collect()
                } else {
                    source.broken(n)
                };
                let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                let result = expected(&wide, shape, kind);
                let result: Vec<f32> = result.iter().map(|&y| clean(y as f32)).collect();
                let buffer = device.upload(&x).unwrap();
                let got = device.download(&scan(device, &buffer, shape, kind).unwrap()).unwrap();
                let got = &got[..n];
                same(&format!("{shape:?} {kind:?}"), got, &result);
                all.extend(bits(got));
                if kind == Scan::Sum {
                    let wide: Vec<f64> =
                        Source::new(1).plain(n).iter().map(|&x| f64::from(x) * 1.1).collect();
                    let buffer = device.upload(&wide).unwrap();
                    let got =
                        device.download(&scan(device, &buffer, shape, kind).unwrap()).unwrap();
                    same64("f64", &got[..n], &expected(&wide, shape, kind));
                }
            }
        }
        all
    });
}

#[test]
fn integers_wrap_around() {
    under_schedules(|device| {
        for shape in SHAPES {
            // Odd numbers of either sign: their products do not become 0.
            let x: Vec<i64> = (0..shape.iter().product::<usize>() as i64)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) | 1)
                .collect();
            let buffer = device.upload(&x).unwrap();
            for kind in [Scan::Sum, Scan::SumFromEnd, Scan::Product] {
                let mut expected = x.clone();
                for mut places in lines(shape) {
                    if kind == Scan::SumFromEnd {
                        places.reverse();
                    }
                    for pair in places.windows(2) {
                        let (before, here) = (expected[pair[0]], expected[pair[1]]);
                        expected[pair[1]] = match kind {
                            Scan::Product => before.wrapping_mul(here),
                            _ => before.wrapping_add(here),
                        };
                    }
                }
                let got = scans::integers(device, &buffer, shape, kind).unwrap();
                let got = device.download(&got).unwrap();
                assert_eq!(got[..x.len()], expected, "{shape:?} {kind:?}");
            }
        }
    });
}

/// Returns the positions of every line of a tensor, in order.
fn lines([outer, n, inner]: [usize; 3]) -> Vec<Vec<usize>> {
    (0..outer * inner)
        .map(|o| (0..n).map(|i| (o / inner * n + i) * inner + o % inner).collect())
        .collect()
}

fn wide<T: Number>(x: &[T], places: &[usize]) -> Vec<f64> {
    places.iter().map(|&p| x[p].into()).collect()
}

/// Combines pairs (m, s), which stand for s · exp(m), as the contract defines.
fn log_sums(x: &[f64]) -> Vec<f64> {
    let none = (f64::NEG_INFINITY, 1.0);
    let apply = |(m, s): (f64, f64), (n, t): (f64, f64)| {
        if m == f64::NEG_INFINITY {
            (n, t)
        } else if n == f64::NEG_INFINITY {
            (m, s)
        } else if m == n {
            (m, s + t)
        } else if m > n {
            (m, s + t * exp(n - m))
        } else {
            (n, s * exp(m - n) + t)
        }
    };
    let mut out = Vec::new();
    let mut carry = none;
    for tile in x.chunks(1024) {
        let mut before = none;
        for run in tile.chunks(32) {
            let mut local = none;
            for &x in run {
                local = apply(local, (x, 1.0));
                let (m, s) = apply(carry, apply(before, local));
                out.push(if m.is_infinite() && !s.is_nan() { m } else { m + log(s) });
            }
            before = apply(before, local);
        }
        carry = apply(carry, before);
    }
    out
}

/// Computes the gradient of a running product, from its definition.
fn product_grad(x: &[f64], grad: &[f64]) -> Vec<f64> {
    let n = x.len();
    let zeros: Vec<usize> = (0..n).filter(|&k| x[k] == 0.0).collect();
    let first = zeros.first().copied().unwrap_or(n);
    let second = zeros.get(1).copied().unwrap_or(n);
    let product = |j: usize| (0..=j).filter(|&k| k != first).fold(1.0, |product, k| product * x[k]);
    // One chain of multiplications for all: the sums below need every prefix.
    let mut prefixes = Vec::new();
    for k in 0..second {
        let before = prefixes.last().copied().unwrap_or(1.0);
        prefixes.push(if k == first { before } else { before * x[k] });
    }
    assert!(second == 0 || prefixes[second / 2].to_bits() == product(second / 2).to_bits());
    let mut out = vec![0.0; n];
    let mut sum = 0.0;
    for i in (0..first).rev() {
        sum += grad[i] * prefixes[i];
        out[i] = sum / x[i];
    }
    if first < n {
        out[first] = (first..second).rev().fold(0.0, |sum, j| sum + grad[j] * prefixes[j]);
    }
    out
}

/// Computes the gradients of that gradient's arguments: of the incoming gradient, and of the
/// elements.
fn product_grad_grad(x: &[f64], grad: &[f64], outer: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let n = x.len();
    // Before each element, and after the last.
    let (mut tangents, mut prefixes) = (vec![0.0], vec![1.0]);
    for k in 0..n {
        tangents.push(tangents[k] * x[k] + prefixes[k] * outer[k]);
        prefixes.push(prefixes[k] * x[k]);
    }
    let mut of_x = vec![0.0; n];
    let (mut of_prefix, mut of_tangent) = (0.0, 0.0);
    for k in (0..n).rev() {
        if k + 1 < n {
            of_prefix = of_prefix * x[k + 1] + of_tangent * outer[k + 1];
            of_tangent *= x[k + 1];
        }
        of_tangent += grad[k];
        of_x[k] = of_tangent * tangents[k] + of_prefix * prefixes[k];
    }
    (tangents.split_off(1), of_x)
}

/// Computes the gradient of a running logarithm of sums, from the last element down. Results of at
/// least `large` split theirs evenly among the elements that equal them.
fn log_sums_grad(x: &[f64], y: &[f64], grad: &[f64], large: f64) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    let (mut m, mut s) = (f64::NEG_INFINITY, 0.0);
    for i in (0..x.len()).rev() {
        let (n, g) = (-y[i], grad[i]);
        (m, s) = if y[i].abs() >= large {
            (m, s)
        } else if m == f64::NEG_INFINITY && s == 0.0 {
            (n, g)
        } else if m == n {
            (m, s + g)
        } else if m > n {
            (m, s + g * exp(n - m))
        } else {
            (n, s * exp(m - n) + g)
        };
        let empty = x[i] == f64::INFINITY && !m.is_nan();
        out[i] = if empty { 0.0 } else { s * exp(m + x[i]) };
        if x[i] == y[i] && y[i].abs() >= large {
            let among = |k: usize| x[..=k].iter().filter(|x| **x == y[k]).count() as f64;
            let equal = (i..x.len()).rev().filter(|&k| y[k] == x[i]);
            out[i] += equal.fold(0.0, |sum, k| sum + grad[k] / among(k));
        }
    }
    out
}

/// Draws inputs of a scan: ordinary, of every magnitude and kind, or with equal elements and zeros.
fn inputs<T: Number>(source: &mut Source, kind: usize, n: usize) -> Vec<T> {
    match kind {
        0 | 1 => mixed(source, kind == 1, n),
        2 => (0..n).map(|_| T::from_f64(source.below(5) as f64 - 2.0)).collect(),
        _ => (0..n)
            .map(|_| match source.below(900) {
                0 => T::from_f64(0.0),
                1 => T::from_f64(-0.0),
                at => T::finer(1.0 + at as f32 / 16384.0),
            })
            .collect(),
    }
}

fn lines_of<T: Number>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    for shape in SHAPES {
        let n = shape.iter().product();
        for kind in if n > 10_000 { 2..3 } else { 0..4 } {
            let mut source = Source::new(n as u64 + 9);
            let x: Vec<T> = inputs(&mut source, kind, n);
            let grad: Vec<T> = mixed(&mut source, kind == 1, n);
            let outer: Vec<T> = mixed(&mut source, kind == 1, n);
            let [mut y, mut of_product, mut of_sums, mut of_grad, mut of_x] =
                std::array::from_fn(|_| x.clone());
            let round = |x: f64| T::from_f64(x).canonical();
            let lines = lines(shape);
            let is_f64 = T::ONE.bits() == f64::ONE.bits();
            let large = (1u64 << if is_f64 { 59 } else { 30 }) as f64;
            for line in &lines {
                let (x, grad) = (wide(&x, line), wide(&grad, line));
                let sums = log_sums(&x);
                let products = product_grad(&x, &grad);
                let second = product_grad_grad(&x, &grad, &wide(&outer, line));
                for (i, &p) in line.iter().enumerate() {
                    (y[p], of_product[p]) = (round(sums[i]), round(products[i]));
                    (of_grad[p], of_x[p]) = (round(second.0[i]), round(second.1[i]));
                }
                let sums = log_sums_grad(&x, &wide(&y, line), &grad, large);
                for (i, &p) in line.iter().enumerate() {
                    of_sums[p] = round(sums[i]);
                }
            }
            let what = format!("{shape:?} {kind} f64 {is_f64}");
            let (x_dev, grad_dev) = (device.upload(&x).unwrap(), device.upload(&grad).unwrap());
            let outer_dev = device.upload(&outer).unwrap();
            let y_dev = scans::logcumsumexp(device, &x_dev, shape).unwrap();
            let mut parts = vec![("logcumsumexp", device.duplicate(&y_dev).unwrap(), &y)];
            // A thread walks each line.
            if n < 10_000 {
                let of_sum = scans::logcumsumexp_grad(device, &x_dev, &y_dev, &grad_dev, shape);
                let of_one = scans::cumprod_grad(device, &x_dev, &grad_dev, shape);
                let second = scans::cumprod_grad_grad(device, &x_dev, &grad_dev, &outer_dev, shape);
                let second = second.unwrap();
                parts.extend([
                    ("logcumsumexp grad", of_sum.unwrap(), &of_sums),
                    ("cumprod grad", of_one.unwrap(), &of_product),
                    ("cumprod grad grad, of the gradient", second.0, &of_grad),
                    ("cumprod grad grad, of the input", second.1, &of_x),
                ]);
            }
            for (part, got, expected) in &parts {
                let got = &device.download(got).unwrap()[..n];
                same_bits(&format!("{part} {what}"), got, expected);
                all.extend(all_bits(got));
            }
            for largest in [false, true] {
                let (mut values, mut places) = (x.clone(), vec![0i64; n]);
                for line in &lines {
                    let mut best = 0;
                    for (i, &p) in line.iter().enumerate() {
                        let (old, new) = (x[line[best]], x[p]);
                        let better =
                            if largest { replaces_max(old, new) } else { replaces_min(old, new) };
                        best = if better { i } else { best };
                        (values[p], places[p]) = (x[line[best]].canonical(), best as i64);
                    }
                }
                let (got, at) = scans::cumextreme(device, &x_dev, shape, largest).unwrap();
                let got = &device.download(&got).unwrap()[..n];
                same_bits(&format!("cumextreme {largest} {what}"), got, &values);
                assert_eq!(device.download(&at).unwrap()[..n], places, "{largest} {what}");
                all.extend(all_bits(got));
            }
        }
    }
    all
}

#[test]
fn logarithms_extrema_and_gradients() {
    under_schedules(|device| (lines_of::<f32>(device), lines_of::<f64>(device)));
}
