//! Decompositions, step by step from their descriptions: columns as vectors of f64.

use crate::data::Source;
use crate::device::{on_device, under_schedules};
use crate::numbers::{Number, all_bits, mixed, plain, same_bits};
use samebits_cuda_kernels::linalg::{qr, qr_grad, svd};
use samebits_cuda_kernels::{Buffer, Device};
use samebits_numerics::reduce::sum_by;
use test_support::svd::written_svd;

type Columns = Vec<Vec<f64>>;

/// (matrices, rows, columns): tall, wide, empty, and more rows than a warp has lanes.
const SHAPES: [[usize; 3]; 7] =
    [[2, 5, 3], [2, 3, 5], [1, 1, 1], [2, 45, 7], [1, 7, 45], [1, 4, 0], [2, 0, 3]];

/// Matrices that are reduced to a triangle first, and more columns than a group has.
const LARGER: [[usize; 3]; 4] = [[1, 50, 16], [1, 16, 48], [1, 40, 35], [1, 3, 200]];

fn dot(x: &[f64], y: &[f64]) -> f64 {
    sum_by(x.len(), |i| x[i] * y[i])
}

fn add_scaled(factor: f64, x: &[f64], y: &mut [f64]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = factor.mul_add(x, *y));
}

fn columns<T: Number>(x: &[T], [m, n]: [usize; 2]) -> Columns {
    (0..n).map(|j| (0..m).map(|i| x[i * n + j].into()).collect()).collect()
}

fn rows<T: Number>(x: &Columns, m: usize) -> Vec<T> {
    (0..m).flat_map(|i| x.iter().map(move |x| T::from_f64(x[i]).canonical())).collect()
}

fn identity(m: usize, n: usize) -> Columns {
    (0..n).map(|j| (0..m).map(|i| f64::from(u8::from(i == j))).collect()).collect()
}

/// Returns the power of two at or below the largest magnitude.
fn scale_of<'a>(x: impl IntoIterator<Item = &'a f64>) -> f64 {
    let largest = x.into_iter().fold(0.0f64, |max, x| if x.abs() > max { x.abs() } else { max });
    if largest == 0.0 || largest.is_infinite() {
        return 1.0;
    }
    let powers = (1..2046u64).map(|biased| f64::from_bits(biased << 52));
    powers.rev().find(|&power| power <= largest).unwrap_or(f64::MIN_POSITIVE)
}

fn reflect(tau: f64, v: &[f64], column: &mut [f64]) {
    if tau == 0.0 {
        return;
    }
    let share = tau * (column[0] + dot(v, &column[1..]));
    column[0] -= share;
    add_scaled(-share, v, &mut column[1..]);
}

fn plain_qr<T: Number>(x: &[T], [m, n]: [usize; 2], k: usize) -> [Vec<T>; 2] {
    let mut a = columns(x, [m, n]);
    let mut steps = Vec::new();
    let negligible = f64::from_bits((1023 - 400) << 52) * scale_of(a.iter().flatten());
    for s in 0..m.min(n) {
        let column = &mut a[s][s..];
        if column.iter().all(|x| x.abs() <= negligible) {
            steps.push((0.0, vec![0.0; column.len() - 1]));
            continue;
        }
        let scale = scale_of(&*column);
        column.iter_mut().for_each(|x| *x /= scale);
        let (head, squares) = (column[0], dot(&column[1..], &column[1..]));
        let mut tau = 0.0;
        column[0] = head * scale;
        if squares != 0.0 {
            let beta = -head.mul_add(head, squares).sqrt().copysign(head);
            tau = (beta - head) / beta;
            column[1..].iter_mut().for_each(|x| *x /= head - beta);
            column[0] = beta * scale;
        }
        let v = column[1..].to_vec();
        a[s + 1..].iter_mut().for_each(|column| reflect(tau, &v, &mut column[s..]));
        steps.push((tau, v));
    }
    let mut q = identity(m, k);
    for (s, (tau, v)) in steps.iter().enumerate().rev() {
        q[s..].iter_mut().for_each(|column| reflect(*tau, v, &mut column[s..]));
    }
    for (j, column) in a.iter_mut().enumerate() {
        column.resize(k, 0.0);
        column.iter_mut().skip(j + 1).for_each(|x| *x = 0.0);
    }
    [rows(&q, m), rows(&a, k)]
}

fn plain_qr_grad<T: Number>([grad_q, grad_r, q, r]: [&[T]; 4], [m, n]: [usize; 2]) -> Vec<T> {
    let (mut x, q) = (columns(grad_q, [m, n]), columns(q, [m, n]));
    let row =
        |x: &[T], i: usize| -> Vec<f64> { x[i * n..][..n].iter().map(|&x| x.into()).collect() };
    let mixed = |i: usize, j: usize, grad: &Columns| {
        let (i, j) = (i.min(j), i.max(j));
        dot(&row(grad_r, i), &row(r, j)) - dot(&q[i], &grad[j])
    };
    let grad = x.clone();
    for j in 0..n {
        for i in 0..n {
            add_scaled(mixed(i, j, &grad), &q[i], &mut x[j]);
        }
    }
    for j in (0..n).rev() {
        for k in j + 1..n {
            let solved = x[k].clone();
            add_scaled(-row(r, j)[k], &solved, &mut x[j]);
        }
        x[j].iter_mut().for_each(|x| *x /= row(r, j)[j]);
    }
    rows(&x, m)
}

fn plain_svd<T: Number>(x: &[T], size: [usize; 2]) -> [Vec<T>; 3] {
    let x: Vec<f64> = x.iter().map(|&x| x.into()).collect();
    written_svd(&x, size).map(|x| x.iter().map(|&x| T::from_f64(x).canonical()).collect())
}

/// Runs `plain` on each matrix and concatenates the results.
fn joined<T: Number, const N: usize>(
    count: usize,
    plain: impl Fn(usize) -> [Vec<T>; N],
) -> [Vec<T>; N] {
    let mut all: [Vec<T>; N] = std::array::from_fn(|_| Vec::new());
    for i in 0..count {
        all.iter_mut().zip(plain(i)).for_each(|(all, part)| all.extend(part));
    }
    all
}

fn check<T: Number>(device: &Device, what: &str, got: &Buffer<T>, expected: &[T]) -> Vec<u64> {
    let got = &device.download(got).unwrap()[..expected.len()];
    same_bits(what, got, expected);
    all_bits(got)
}

fn qr_of<T: Number>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    for [count, m, n] in SHAPES {
        for kind in 0..4 {
            let mut source = Source::new((m * n + kind) as u64);
            let size = m * n;
            let mut x: Vec<T> = mixed(&mut source, kind == 1, count * size);
            if kind == 2 {
                // Zeros below a diagonal, and a column of zeros.
                x.iter_mut().enumerate().for_each(|(i, x)| {
                    if i % n == 1 || (i % n == 0 && i % size != 0) {
                        *x = T::from_f64(0.0);
                    }
                });
            }
            if kind == 3 {
                // Equal columns.
                (0..x.len()).for_each(|i| x[i] = x[i / n * n]);
            }
            let x_dev = device.upload(&x).unwrap();
            for k in [m.min(n), m] {
                let what = format!("qr {count} {m} {n} {k} {kind}");
                let [q, r] = joined(count, |i| plain_qr(&x[i * size..][..size], [m, n], k));
                let (q_dev, r_dev) = qr(device, &x_dev, [count, m, n], k).unwrap();
                all.extend(check(device, &format!("{what} q"), &q_dev, &q));
                all.extend(check(device, &format!("{what} r"), &r_dev, &r));
            }
            if m < n {
                continue;
            }
            let square = n * n;
            let [q, r] = joined(count, |i| plain_qr(&x[i * size..][..size], [m, n], n));
            let (grad_q, grad_r): (Vec<T>, Vec<T>) =
                (plain(&mut source, count * size), plain(&mut source, count * square));
            let [expected] = joined(count, |i| {
                let tall = |x: &'_ [T]| x[i * size..][..size].to_vec();
                let small = |x: &'_ [T]| x[i * square..][..square].to_vec();
                let parts = [tall(&grad_q), small(&grad_r), tall(&q), small(&r)];
                [plain_qr_grad(parts.each_ref().map(|x| &x[..]), [m, n])]
            });
            let [grad_q, grad_r, q, r] = [grad_q, grad_r, q, r].map(|x| device.upload(&x).unwrap());
            let got = qr_grad(device, [&grad_q, &grad_r], [&q, &r], [count, m, n]).unwrap();
            all.extend(check(device, &format!("qr grad {count} {m} {n} {kind}"), &got, &expected));
        }
    }
    all
}

fn svd_of<T: Number>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    for [count, m, n] in SHAPES.into_iter().chain(LARGER) {
        for kind in 0..3 {
            let (mut source, size) = (Source::new((m * n + kind) as u64 + 5), m * n);
            let x: Vec<T> = match kind {
                0 => plain(&mut source, count * size),
                // Every magnitude, but finite.
                1 => {
                    let x = T::broken(&mut source, count * size);
                    x.into_iter().map(|x| if x.is_finite() { x } else { T::ONE }).collect()
                }
                // Rank one, with zeros.
                _ => (0..count * size)
                    .map(|i| T::from_f64(((i / n.max(1)) % 3 * (i % n.max(1) % 2)) as f64))
                    .collect(),
            };
            let parts = joined(count, |i| plain_svd(&x[i * size..][..size], [m, n]));
            let x = device.upload(&x).unwrap();
            let (u, s, v) = svd(device, &x, [count, m, n]).unwrap();
            for ((part, got), expected) in [("u", u), ("s", s), ("v", v)].into_iter().zip(&parts) {
                let what = format!("svd {count} {m} {n} {kind} {part}");
                all.extend(check(device, &what, &got, expected));
            }
        }
    }
    all
}

#[test]
fn qr_decompositions_and_gradients() {
    under_schedules(|device| (qr_of::<f32>(device), qr_of::<f64>(device)));
}

#[test]
fn singular_values() {
    under_schedules(|device| (svd_of::<f32>(device), svd_of::<f64>(device)));
}

#[test]
fn what_is_not_finite_is_refused() {
    on_device(|device| {
        let x = device.upload(&[1.0f64, 2.0, 3.0, 4.0, 5.0, f64::NEG_INFINITY]).unwrap();
        let error = svd(device, &x, [3, 1, 2]).unwrap_err().to_string();
        let expected = "svd: element 1 of the matrix is -inf, but all must be finite";
        assert_eq!(error, expected);
        assert!(qr(device, &x, [1, 2, 3], 3).is_err());
        assert!(qr(device, &x, [1, 2, 2], 2).is_err());
    });
}

#[test]
fn empty_matrices_are_no_work_however_many() {
    under_schedules(|device| {
        let none = device.upload::<f32>(&[]).unwrap();
        for shape @ [_, m, n] in [[1 << 40, 0, 3], [1 << 40, 3, 0], [0, 1 << 40, 1 << 40]] {
            svd(device, &none, shape).unwrap();
            qr(device, &none, shape, m.min(n)).unwrap();
            if m >= n {
                qr_grad(device, [&none, &none], [&none, &none], shape).unwrap();
            }
        }
    });
}
