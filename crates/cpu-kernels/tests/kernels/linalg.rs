//! Decompositions in the written order, column by column.

use crate::invariance::{Random, bits, everywhere};
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::linalg::{qr, svd};
use samebits_numerics::reduce::dot_of;

type Columns = Vec<Vec<f64>>;

fn dot(x: &[f64], y: &[f64]) -> f64 {
    dot_of(x, y, |x, y| x * y)
}

fn columns<T: Float>(x: &[T], n: usize) -> Columns {
    (0..n).map(|j| x[j..].iter().step_by(n).map(|&x| x.into()).collect()).collect()
}

fn identity(rows: usize, n: usize) -> Columns {
    (0..n).map(|j| (0..rows).map(|i| f64::from(u8::from(i == j))).collect()).collect()
}

fn rounded<T: Float>(columns: &Columns, rows: usize) -> Vec<T> {
    (0..rows).flat_map(|i| columns.iter().map(move |x| T::from_f64(x[i]).canonical())).collect()
}

/// Returns the power of two at or below the largest magnitude.
fn power(x: &[f64]) -> f64 {
    let largest = x.iter().fold(0.0f64, |max, x| max.max(x.abs()));
    if largest == 0.0 || largest.is_infinite() {
        1.0
    } else {
        f64::from_bits(largest.to_bits() >> 52 << 52)
    }
}

fn reflect(tau: f64, v: &[f64], column: &mut [f64]) {
    if tau != 0.0 {
        let share = tau * (column[0] + dot(v, &column[1..]));
        column[0] -= share;
        for (c, v) in column[1..].iter_mut().zip(v) {
            *c = (-share).mul_add(*v, *c);
        }
    }
}

fn written_qr<T: Float>(x: &[T], [m, n]: [usize; 2], count: usize) -> [Vec<T>; 2] {
    let mut a = columns(x, n);
    let mut taus = vec![0.0; m.min(n)];
    for k in 0..taus.len() {
        let s = power(&a[k][k..]);
        a[k][k..].iter_mut().for_each(|x| *x /= s);
        let (head, squares) = (a[k][k], dot(&a[k][k + 1..], &a[k][k + 1..]));
        if squares == 0.0 {
            a[k][k] *= s;
            continue;
        }
        let b = -head.mul_add(head, squares).sqrt().copysign(head);
        taus[k] = (b - head) / b;
        a[k][k + 1..].iter_mut().for_each(|x| *x /= head - b);
        a[k][k] = b * s;
        let v = a[k][k + 1..].to_vec();
        a[k + 1..].iter_mut().for_each(|c| reflect(taus[k], &v, &mut c[k..]));
    }
    let mut q = identity(m, count);
    for k in (0..taus.len()).rev() {
        q[k..].iter_mut().for_each(|c| reflect(taus[k], &a[k][k + 1..], &mut c[k..]));
    }
    for (j, column) in a.iter_mut().enumerate() {
        column.iter_mut().skip(j + 1).for_each(|x| *x = 0.0);
        column.resize(count, 0.0);
    }
    [rounded(&q, m), rounded(&a, count)]
}

/// Computes the decomposition as written, for matrices of full rank.
fn written_svd<T: Float>(x: &[T], [m, n]: [usize; 2]) -> [Vec<T>; 3] {
    let (mut u, s, mut v) = if m < n {
        let transposed: Vec<T> = (0..n).flat_map(|j| x[j..].iter().step_by(n).copied()).collect();
        let (v, s, u) = jacobi(&transposed, [n, m]);
        (u, s, v)
    } else {
        jacobi(x, [m, n])
    };
    for (u, v) in u.iter_mut().zip(&mut v) {
        let lead = u.iter().fold(0.0f64, |lead, x| if x.abs() > lead.abs() { *x } else { lead });
        if lead < 0.0 {
            u.iter_mut().chain(v).for_each(|x| *x = -*x);
        }
    }
    let s = s.iter().map(|&s| T::from_f64(s).canonical()).collect();
    [rounded(&u, m), s, rounded(&v, n)]
}

fn jacobi<T: Float>(x: &[T], [_, n]: [usize; 2]) -> (Columns, Vec<f64>, Columns) {
    let mut a = columns(x, n);
    let mut v = identity(n, n);
    let scale = power(&a.concat());
    a.iter_mut().flatten().for_each(|x| *x /= scale);
    for _ in 0..60 {
        let mut rotated = false;
        for (p, q) in (0..n).flat_map(|p| (p + 1..n).map(move |q| (p, q))) {
            let [aa, bb, g] = [[p, p], [q, q], [p, q]].map(|[i, j]| dot(&a[i], &a[j]));
            if g.abs() <= f64::EPSILON * (aa.sqrt() * bb.sqrt()) {
                continue;
            }
            rotated = true;
            let z = (bb - aa) / (2.0 * g);
            let t = 1f64.copysign(z) / (z.abs() + (1.0 + z * z).sqrt());
            let c = 1.0 / (1.0 + t * t).sqrt();
            let s = c * t;
            for x in [&mut a, &mut v] {
                for i in 0..x[p].len() {
                    let (x_p, x_q) = (x[p][i], x[q][i]);
                    x[p][i] = c.mul_add(x_p, -(s * x_q));
                    x[q][i] = s.mul_add(x_p, c * x_q);
                }
            }
        }
        if !rotated {
            break;
        }
    }
    let mut order: Vec<(f64, usize)> =
        a.iter().enumerate().map(|(j, x)| (dot(x, x).sqrt(), j)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let unit = |&(norm, j): &(f64, usize)| a[j].iter().map(|x| x / norm).collect();
    let u = order.iter().map(unit).collect();
    let v = order.iter().map(|&(_, j)| v[j].clone()).collect();
    (u, order.iter().map(|(norm, _)| norm * scale).collect(), v)
}

/// Shapes below, at and above the sizes of short columns, tiles, panels, a task's columns, blocks of
/// columns, and blocks of a dot product.
const SHAPES: [[usize; 2]; 24] = [
    [1, 1],
    [5, 3],
    [3, 5],
    [8, 8],
    [9, 30],
    [16, 15],
    [16, 16],
    [17, 16],
    [2, 40],
    [32, 32],
    [40, 33],
    [33, 70],
    [70, 70],
    [90, 64],
    [3000, 9],
    [7, 600],
    [25, 185],
    [321, 20],
    [330, 8],
    [900, 50],
    [4097, 9],
    [110, 113],
    [300, 67],
    [5000, 4],
];

fn check<T: Float>(seed: u64) {
    let mut random = Random(seed);
    for [m, n] in SHAPES {
        let x: Vec<T> = random.units(m * n);
        let (k, unwritten) = (m.min(n), T::from_f64(f64::NAN));
        for count in [k, if m > 4096 { k } else { m }] {
            let [q, r] = written_qr(&x, [m, n], count);
            let computed = everywhere(|| {
                let (mut q, mut r) = (vec![unwritten; m * count], vec![unwritten; count * n]);
                qr(&x, [m, n], count, &mut q, &mut r).unwrap();
                [bits(&q), bits(&r)]
            });
            assert!(computed == [bits(&q), bits(&r)], "qr of {m}x{n}, {count} columns");
        }
        let computed = everywhere(|| {
            let [mut u, mut s, mut v] = [m * k, k, n * k].map(|len| vec![unwritten; len]);
            svd(&x, [m, n], &mut u, &mut s, &mut v).unwrap();
            [u, s, v].map(|x| bits(&x))
        });
        let expected = written_svd(&x, [m, n]).map(|x| bits(&x));
        assert!(computed == expected, "svd of {m}x{n}");
    }
}

#[test]
fn matrices_that_are_not_finite_are_decomposed_as_written() {
    let mut random = Random(3);
    for [m, n] in [[5, 3], [12, 40], [40, 33], [330, 20]] {
        for value in [f64::NAN, f64::INFINITY, 0.0] {
            let mut x: Vec<f64> = random.units(m * n);
            let column = random.below(n);
            match value {
                0.0 => x.iter_mut().skip(column).step_by(n).for_each(|x| *x = 0.0),
                _ => x[random.below(m) * n + column] = value,
            }
            let count = m.min(n);
            let [q, r] = written_qr(&x, [m, n], count);
            let computed = everywhere(|| {
                let (mut q, mut r) = (vec![f64::NAN; m * count], vec![f64::NAN; count * n]);
                qr(&x, [m, n], count, &mut q, &mut r).unwrap();
                [bits(&q), bits(&r)]
            });
            assert!(computed == [bits(&q), bits(&r)], "qr of {m}x{n} with {value}");
        }
    }
}

#[test]
fn decompositions_are_the_written_ones_in_single_precision() {
    check::<f32>(1);
}

#[test]
fn decompositions_are_the_written_ones_in_double_precision() {
    check::<f64>(2);
}
