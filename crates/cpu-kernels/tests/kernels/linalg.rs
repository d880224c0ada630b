//! Decompositions in the written order, column by column.

use crate::invariance::{Random, bits, everywhere};
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::linalg::{qr, qr_batched, svd as decompose};
use samebits_numerics::reduce::dot_of;
use test_support::svd;

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

/// Returns the power of two at or below the largest magnitude; of subnormal ones the smallest normal one.
fn power(x: &[f64]) -> f64 {
    let largest = x.iter().fold(0.0f64, |max, x| max.max(x.abs()));
    if largest == 0.0 || largest.is_infinite() {
        1.0
    } else {
        f64::from_bits(largest.to_bits() >> 52 << 52).max(f64::MIN_POSITIVE)
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
    let negligible = two_to(-400) * power(&a.concat());
    let mut taus = vec![0.0; m.min(n)];
    for k in 0..taus.len() {
        if a[k][k..].iter().all(|x| x.abs() <= negligible) {
            continue;
        }
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

/// Checks the decomposition everywhere, and returns it.
fn expect_written_qr<T: Float>(
    x: &[T],
    [m, n]: [usize; 2],
    count: usize,
    what: &str,
) -> [Vec<T>; 2] {
    let [q, r] = written_qr(x, [m, n], count);
    let unwritten = T::from_f64(f64::NAN);
    let computed = everywhere(|| {
        let (mut q, mut r) = (vec![unwritten; m * count], vec![unwritten; count * n]);
        qr(x, [m, n], count, &mut q, &mut r).unwrap();
        [bits(&q), bits(&r)]
    });
    assert!(computed == [bits(&q), bits(&r)], "qr of {m}x{n}, {what}");
    [q, r]
}

/// Computes the decomposition as written.
fn written_svd<T: Float>(x: &[T], size: [usize; 2]) -> [Vec<T>; 3] {
    let x: Vec<f64> = x.iter().map(|&x| x.into()).collect();
    svd::written_svd(&x, size).map(|x| x.iter().map(|&x| T::from_f64(x).canonical()).collect())
}

/// Shapes below, at and above the sizes of short and long columns, tiles, strips, panels, a task's columns, groups
/// of columns, blocks of a dot product, and the ratio from which `qr` comes before `svd`.
const SHAPES: [[usize; 2]; 32] = [
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
    [16, 47],
    [48, 16],
    [4200, 17],
    [20, 250],
    [1100, 33],
    [200, 2],
    [5, 199],
    [200, 1],
];

fn check<T: Float>(seed: u64) {
    let mut random = Random(seed);
    for [m, n] in SHAPES {
        let x: Vec<T> = random.units(m * n);
        let (k, unwritten) = (m.min(n), T::from_f64(f64::NAN));
        for count in [k, if m > 2000 { k } else { m }] {
            expect_written_qr(&x, [m, n], count, &format!("{count} columns"));
        }
        let computed = everywhere(|| {
            let [mut u, mut s, mut v] = [m * k, k, n * k].map(|len| vec![unwritten; len]);
            decompose(&x, [m, n], &mut u, &mut s, &mut v).unwrap();
            [u, s, v].map(|x| bits(&x))
        });
        let expected = written_svd(&x, [m, n]).map(|x| bits(&x));
        assert!(computed == expected, "svd of {m}x{n}");
    }
}

fn two_to(power: i64) -> f64 {
    f64::from_bits(((1023 + power) as u64) << 52)
}

#[test]
fn singular_values_of_any_matrix_are_the_written_ones() {
    let mut random = Random(5);
    for [m, n] in [[1, 3], [2, 2], [7, 6], [20, 33], [60, 17], [70, 66]] {
        let normal: Vec<f64> = random.units(m * n);
        let at = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..m * n).map(|i| f(i / n, i % n)).collect()
        };
        let scaled = |f: &dyn Fn(usize, usize) -> f64| at(&|i, j| normal[i * n + j] * f(i, j));
        for (kind, x) in [
            ("zeros", at(&|_, _| -0.0)),
            ("ones", at(&|_, _| 1.0)),
            ("rank one", at(&|i, j| (i % 3 * (j % 2)) as f64)),
            ("equal columns", at(&|i, _| normal[i * n])),
            ("equal rows", at(&|_, j| normal[j])),
            ("a permutation", at(&|i, j| f64::from(u8::from(j == (i + 1) % n)))),
            ("a diagonal", at(&|i, j| if i == j { (i % 4) as f64 - 1.0 } else { 0.0 })),
            (
                "two diagonals",
                at(&|i, j| if i == j { (i % 4) as f64 } else { f64::from(u8::from(i + 1 == j)) }),
            ),
            ("descending rows", scaled(&|i, _| two_to(-3 * i as i64))),
            ("ascending rows", scaled(&|i, _| two_to(3 * i as i64))),
            ("columns of any size", scaled(&|_, j| two_to((j * 377 % 2000) as i64 - 1000))),
            (
                "large and tiny elements",
                scaled(&|i, j| if (i + j) % 2 == 0 { 1.0 } else { 1e-200 }),
            ),
            (
                "zero rows and columns",
                scaled(&|i, j| f64::from(u8::from(i % 5 != 3 && j % 4 != 2))),
            ),
            ("subnormal elements", scaled(&|_, _| 1e-310)),
            ("large elements", scaled(&|_, _| 1e306)),
        ] {
            let k = m.min(n);
            let computed = everywhere(|| {
                let [mut u, mut s, mut v] = [m * k, k, n * k].map(|len| vec![f64::NAN; len]);
                decompose(&x, [m, n], &mut u, &mut s, &mut v).unwrap();
                [u, s, v].map(|x| bits(&x))
            });
            let expected = written_svd(&x, [m, n]);
            assert!(expected.iter().flatten().all(|x| x.is_finite()), "svd of {m}x{n}, {kind}");
            assert!(computed == expected.map(|x| bits(&x)), "svd of {m}x{n}, {kind}");
        }
    }
}

/// A matrix whose groups of columns several threads take.
#[test]
fn singular_values_of_a_large_matrix_are_the_written_ones() {
    let [m, n] = [270, 300];
    let x: Vec<f64> = Random(6).units(m * n);
    let computed = everywhere(|| {
        let [mut u, mut s, mut v] = [m * m, m, n * m].map(|len| vec![f64::NAN; len]);
        decompose(&x, [m, n], &mut u, &mut s, &mut v).unwrap();
        [u, s, v].map(|x| bits(&x))
    });
    assert!(computed == written_svd(&x, [m, n]).map(|x| bits(&x)));
}

#[test]
fn matrices_that_are_not_finite_are_decomposed_as_written() {
    let mut random = Random(3);
    for [m, n] in [[5, 3], [12, 40], [40, 33], [330, 20], [1100, 33]] {
        for value in [f64::NAN, f64::INFINITY, 0.0] {
            let mut x: Vec<f64> = random.units(m * n);
            let column = random.below(n);
            match value {
                0.0 => x.iter_mut().skip(column).step_by(n).for_each(|x| *x = 0.0),
                _ => x[random.below(m) * n + column] = value,
            }
            expect_written_qr(&x, [m, n], m.min(n), &format!("with {value}"));
        }
    }
}

/// Equal columns leave rounding errors of rounding errors, and so on, under which others are small.
#[test]
fn matrices_of_low_rank_are_decomposed_as_written() {
    let mut random = Random(4);
    for [m, n] in [[5, 3], [12, 40], [40, 33], [70, 70], [330, 20], [1100, 33], [1100, 70]] {
        let normal: Vec<f64> = random.units(m * n);
        let at = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..m * n).map(|i| f(i / n, i % n)).collect()
        };
        for (kind, x) in [
            ("equal columns", at(&|i, _| normal[i * n])),
            ("equal rows", at(&|_, j| normal[j])),
            ("large equal columns", at(&|i, _| normal[i * n] * 1e300)),
            ("subnormal equal columns", at(&|i, _| normal[i * n] * 1e-310)),
            ("rank two", at(&|i, j| normal[i * n] + normal[i * n + 1] * j as f64)),
            ("descending columns", at(&|i, j| normal[i * n + j] * two_to(-30 * j as i64))),
        ] {
            let count = m.min(n);
            let [q, r] = expect_written_qr(&x, [m, n], count, kind);
            let largest = x.iter().fold(0.0f64, |max, x| max.max(x.abs()));
            for i in 0..m {
                for j in 0..n {
                    let product: f64 = (0..count).map(|k| q[i * count + k] * r[k * n + j]).sum();
                    let error = (product - x[i * n + j]).abs() / largest;
                    assert!(error < 1e-11, "qr of {m}x{n}, {kind}: {error:e} at {i}, {j}");
                }
            }
        }
    }
}

/// Numbers of matrices that fill the lanes of vectors, or do not, or are too few; shapes below, at and
/// above the sizes of groups of columns, rows of the tree's steps, and pieces that are transposed.
fn check_batches<T: Float>(seed: u64) {
    let mut random = Random(seed);
    for (count, [m, n]) in [
        (8, [1, 1]),
        (5, [1, 6]),
        (7, [6, 1]),
        (8, [4, 4]),
        (9, [5, 7]),
        (13, [9, 5]),
        (12, [16, 9]),
        (16, [17, 6]),
        (6, [33, 12]),
        (21, [34, 3]),
        (8, [65, 8]),
        (8, [8, 70]),
        (6, [300, 5]),
        (16, [40, 41]),
        (40, [128, 36]),
        (3, [20, 6]),
        (8, [4096, 2]),
        (8, [4097, 2]),
    ] {
        let mut x: Vec<T> = random.units(count * m * n);
        // Matrices of equal rows, zeros, zeros below the diagonal, and broken ones among the others.
        for (i, x) in x.chunks_exact_mut(m * n).enumerate() {
            match random.below(9) {
                0 => (n..m * n).for_each(|at| x[at] = x[at % n]),
                1 => x.fill(T::from_f64(-0.0)),
                2 => x.iter_mut().skip(n).for_each(|x| *x = T::from_f64(-0.0)),
                3 => x[random.below(m * n)] = T::from_f64([f64::NAN, f64::INFINITY][i % 2]),
                4 => x.iter_mut().step_by(3).for_each(|x| *x = T::from_f64(-0.0)),
                _ => {}
            }
        }
        let (k, unwritten) = (m.min(n), T::from_f64(7.0));
        for columns in [k, if m > 400 { k } else { m }] {
            let each = x.chunks_exact(m * n).map(|x| written_qr(x, [m, n], columns));
            let (q, r): (Vec<_>, Vec<_>) = each.map(|[q, r]| (q, r)).unzip();
            let computed = everywhere(|| {
                let [mut q, mut r] =
                    [m * columns, columns * n].map(|len| vec![unwritten; count * len]);
                qr_batched(&x, [count, m, n], columns, &mut q, &mut r).unwrap();
                [bits(&q), bits(&r)]
            });
            let expected = [bits(&q.concat()), bits(&r.concat())];
            assert!(computed == expected, "qr of {count} of {m}x{n}, {columns} columns");
        }
    }
}

#[test]
fn batches_are_decomposed_as_written() {
    check_batches::<f32>(7);
    check_batches::<f64>(8);
}

#[test]
fn empty_batches_are_decomposed() {
    for [count, m, n, columns] in [[0, 3, 2, 2], [9, 0, 2, 0], [9, 3, 0, 0], [usize::MAX, 0, 0, 0]]
    {
        qr_batched::<f32>(&[], [count, m, n], columns, &mut [], &mut []).unwrap();
    }
    let mut q = [5.0f32; 36];
    qr_batched(&[], [9, 2, 0], 2, &mut q, &mut []).unwrap();
    assert_eq!(q, [[1.0, 0.0, 0.0, 1.0]; 9].as_flattened());
}

#[test]
fn decompositions_are_the_written_ones_in_single_precision() {
    check::<f32>(1);
}

#[test]
fn decompositions_are_the_written_ones_in_double_precision() {
    check::<f64>(2);
}
