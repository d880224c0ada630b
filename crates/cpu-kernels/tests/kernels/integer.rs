//! Integer kernels against loops over 128-bit numbers, for any number of threads and every SIMD
//! level.

use crate::invariance::{Random, everywhere};
use samebits_cpu_kernels::Error;
use samebits_cpu_kernels::elementwise::Operand;
use samebits_cpu_kernels::integer::{binary, unary};
use samebits_cpu_kernels::scan::{integer_cumprod, integer_cumsum};
use samebits_cpu_kernels::scatter::Reduce;
use samebits_cpu_kernels::scatter::integer::{
    index_add, index_reduce, put_add, scatter_add, scatter_reduce,
};
use samebits_tensor_core::ops::{BinaryKind, UnaryKind};

/// Returns integers of every magnitude, so that sums and products overflow.
fn wild(random: &mut Random, n: usize) -> Vec<i64> {
    let high = random.indices(n, 1 << 32);
    let low = random.indices(n, 1 << 32);
    let numbers = high.iter().zip(&low).enumerate();
    numbers.map(|(i, (high, low))| (high << 32 | low) >> (i % 63)).collect()
}

/// Computes by the definition: each output and its sources in ascending order.
fn oracle(
    out: &[i64],
    [outer, dim, inner]: [usize; 3],
    place: impl Fn(usize) -> i64,
    source: &[i64],
    reduce: Reduce,
    include_self: bool,
) -> Vec<i64> {
    let n = source.len() / (outer * inner);
    let mut sent: Vec<Vec<i128>> =
        out.iter().map(|&x| if include_self { vec![x.into()] } else { Vec::new() }).collect();
    for (e, &x) in source.iter().enumerate() {
        let (o, j) = (e / (n * inner), e % inner);
        sent[(o * dim + place(e) as usize) * inner + j].push(x.into());
    }
    let wrapped = |x: i128| x as i64;
    let reduced = sent.iter().zip(out).map(|(sent, &old)| {
        if sent.is_empty() {
            return old;
        }
        let sum = wrapped(sent.iter().sum());
        match reduce {
            Reduce::Sum => sum,
            Reduce::Mean => i128::from(sum).div_euclid(sent.len() as i128) as i64,
            Reduce::Prod => sent.iter().fold(1, |product, &x| wrapped(i128::from(product) * x)),
            Reduce::Amax => wrapped(*sent.iter().max().expect("not empty")),
            Reduce::Amin => wrapped(*sent.iter().min().expect("not empty")),
        }
    });
    reduced.collect()
}

/// Small shapes, many sources per output, many outputs, several slabs.
const SHAPES: [([usize; 3], usize); 5] = [
    ([2, 5, 3], 7),
    ([1, 7, 1], 70_000),
    ([1, 40_000, 1], 50_000),
    ([1, 300, 33], 900),
    ([2, 1, 4000], 3),
];

#[test]
fn scattered_integers_are_those_of_the_definition_everywhere() {
    for (case, (shape, n)) in SHAPES.into_iter().enumerate() {
        let [outer, dim, inner] = shape;
        let mut random = Random(case as u64);
        let out = wild(&mut random, outer * dim * inner);
        let source = wild(&mut random, outer * n * inner);
        let (slices, each) = (random.indices(n, dim), random.indices(outer * n * inner, dim));
        let slice_of = |e: usize| slices[e / inner % n];
        let run = |f: &dyn Fn(&mut [i64])| {
            let mut out = out.clone();
            f(&mut out);
            out
        };
        for reduce in [Reduce::Sum, Reduce::Mean, Reduce::Prod, Reduce::Amax, Reduce::Amin] {
            for include_self in [false, true] {
                let found = everywhere(|| {
                    run(&|out| {
                        scatter_reduce(out, shape, &each, &source, reduce, include_self).unwrap()
                    })
                });
                let expected = oracle(&out, shape, |e| each[e], &source, reduce, include_self);
                assert!(found == expected, "{shape:?} {reduce:?} {include_self}");
                let found = everywhere(|| {
                    run(&|out| {
                        index_reduce(out, shape, &slices, &source, reduce, include_self).unwrap()
                    })
                });
                let expected = oracle(&out, shape, slice_of, &source, reduce, include_self);
                assert!(found == expected, "{shape:?} {reduce:?} {include_self} slices");
            }
        }
        let sums = |place: &dyn Fn(usize) -> i64, source: &[i64]| {
            oracle(&out, shape, place, source, Reduce::Sum, true)
        };
        let found = everywhere(|| run(&|out| scatter_add(out, shape, &each, &source).unwrap()));
        assert!(found == sums(&|e| each[e], &source), "{shape:?}");
        let tripled: Vec<i64> = source.iter().map(|&x| x.wrapping_mul(-3)).collect();
        let found = everywhere(|| run(&|out| index_add(out, shape, &slices, &source, -3).unwrap()));
        assert!(found == sums(&slice_of, &tripled), "{shape:?}");
        if outer == 1 {
            // The same positions, counted from the end.
            let negative: Vec<i64> = slices.iter().map(|&i| i - dim as i64).collect();
            let found =
                everywhere(|| run(&|out| put_add(out, [dim, inner], &negative, &source).unwrap()));
            assert!(found == sums(&slice_of, &source), "{shape:?}");
        }
    }
}

#[test]
fn running_integers_wrap_around_everywhere() {
    for [outer, dim, inner] in [[3, 7, 1], [2, 33, 5], [1, 50_000, 1], [40, 1100, 3]] {
        let x = wild(&mut Random(9), outer * dim * inner);
        let at = |o: usize, k: usize, j: usize| (o * dim + k) * inner + j;
        let expected = |reverse: bool, join: fn(i64, i64) -> i64| {
            let mut y = x.clone();
            for (o, j) in (0..outer).flat_map(|o| (0..inner).map(move |j| (o, j))) {
                let mut so_far = None;
                for k in 0..dim {
                    let here = at(o, if reverse { dim - 1 - k } else { k }, j);
                    let joined = so_far.map_or(x[here], |so_far| join(so_far, x[here]));
                    (y[here], so_far) = (joined, Some(joined));
                }
            }
            y
        };
        let (shape, zeros) = ([outer, dim, inner], || vec![0; x.len()]);
        for reverse in [false, true] {
            let found = everywhere(|| {
                let mut out = zeros();
                integer_cumsum(&x, shape, reverse, &mut out).unwrap();
                out
            });
            assert!(found == expected(reverse, i64::wrapping_add), "{shape:?} {reverse}");
        }
        let found = everywhere(|| {
            let mut out = zeros();
            integer_cumprod(&x, shape, &mut out).unwrap();
            out
        });
        assert!(found == expected(false, i64::wrapping_mul), "{shape:?}");
    }
}

#[test]
fn elements_are_the_same_everywhere() {
    let mut random = Random(10);
    let (a, b) = (wild(&mut random, 50_003), wild(&mut random, 50_003));
    let b: Vec<i64> = b.iter().map(|&b| b | 1).collect();
    type Exact = fn(i128, i128) -> i128;
    let kinds: [(BinaryKind, Exact); 7] = [
        (BinaryKind::Add, |a, b| a + b),
        (BinaryKind::Sub, |a, b| a - b),
        (BinaryKind::Mul, |a, b| a * b),
        (BinaryKind::Maximum, i128::max),
        (BinaryKind::Minimum, i128::min),
        (BinaryKind::FloorDivide, |a, b| (a - (a % b + b) % b) / b),
        (BinaryKind::Remainder, |a, b| (a % b + b) % b),
    ];
    for (kind, exact) in kinds {
        for (x, y) in [
            (Operand::Each(&a[..]), Operand::Each(&b[..])),
            (Operand::Each(&a[..]), Operand::Splat(-7)),
            (Operand::Splat(i64::MIN), Operand::Each(&b[..])),
            (Operand::Splat(i64::MIN), Operand::Splat(-1)),
        ] {
            let of = |x: Operand<'_, i64>, i: usize| match x {
                Operand::Each(x) => i128::from(x[i]),
                Operand::Splat(x) => x.into(),
            };
            let found = everywhere(|| {
                let mut out = vec![0; a.len()];
                binary(kind, x, y, &mut out).unwrap();
                out
            });
            let expected: Vec<i64> =
                (0..a.len()).map(|i| exact(of(x, i), of(y, i)) as i64).collect();
            assert!(found == expected, "{kind:?}");
        }
    }
}

#[test]
fn what_integers_do_not_have_is_an_error() {
    let mut out = [0; 2];
    let refused = |result: Result<(), Error>| result.unwrap_err().to_string();
    let (a, zero) = (Operand::Each(&[1, 2][..]), Operand::Each(&[1, 0][..]));
    let error = refused(binary(BinaryKind::Remainder, a, zero, &mut out));
    assert_eq!(error, "binary: divisor 0 of integers");
    let error = refused(binary(BinaryKind::Pow, a, Operand::Splat(-2), &mut out));
    assert_eq!(error, "binary: exponent -2 of integers");
    let error = refused(binary(BinaryKind::Div, a, a, &mut out));
    assert_eq!(error, "binary: integers have no Div");
    let error = refused(unary(UnaryKind::Sqrt, &[1, 2], &mut out));
    assert_eq!(error, "unary: integers have no Sqrt");
    let error = refused(binary(BinaryKind::Add, a, Operand::Each(&[1]), &mut out));
    assert_eq!(error, "binary: b must have 2 elements, got 1");
    assert!(matches!(
        scatter_add(&mut out, [1, 2, 1], &[2], &[1]),
        Err(Error::IndexOutOfRange { index: 2, .. })
    ));
    assert_eq!(out, [0; 2]);
    // Without elements, nothing is divided and nothing rejected.
    assert_eq!(
        binary(BinaryKind::Remainder, Operand::Each(&[]), Operand::Splat(0), &mut []),
        Ok(())
    );
}
