//! Irregular sums equal the exact sum, whatever the order, the threads and the SIMD level.

use crate::exact::BigSum;
use crate::invariance::{Random, bits, everywhere, on_threads};
use samebits_cpu_kernels::scatter::{
    Reduce, Sums, index_add, index_add_fast, index_reduce, put_add, scatter_add, scatter_add_fast,
    scatter_reduce,
};
use samebits_cpu_kernels::{Error, Float};
use samebits_numerics::nan::canonical;

/// Computes element by element from the definition, with one long accumulator per output.
fn naive_scatter_add(
    out: &[f32],
    [outer, dim, inner]: [usize; 3],
    index: &[i64],
    source: &[f32],
) -> Vec<f32> {
    let n = index.len() / (outer * inner).max(1);
    let mut sums: Vec<BigSum> = out.iter().map(|&x| [x].into_iter().collect()).collect();
    for o in 0..outer {
        for k in 0..n {
            for j in 0..inner {
                let e = (o * n + k) * inner + j;
                sums[(o * dim + index[e] as usize) * inner + j].add(source[e]);
            }
        }
    }
    sums.iter().map(BigSum::to_f32).collect()
}

/// Returns the indices of an `index_add` as those of a `scatter_add`.
fn expand(index: &[i64], outer: usize, inner: usize) -> Vec<i64> {
    (0..outer).flat_map(|_| index.iter().flat_map(|&i| vec![i; inner])).collect()
}

/// Small shapes, many sources per output (a table per piece), many outputs (stretches), several
/// slabs, slabs of which tasks have whole ones, more slabs of one index, few sources of many outputs,
/// a table per piece for narrow rows, for wide ones and for many outputs, a table for some slabs.
const SHAPES: [([usize; 3], usize); 26] = [
    ([853, 7, 1], 6),
    ([500, 9, 2], 40),
    ([1, 3, 1], 8),
    ([2, 5, 3], 7),
    ([1, 10, 17], 300),
    ([1, 7, 1], 300_000),
    ([1, 50, 20], 150_000 / 20),
    ([1, 70_000, 1], 90_000),
    ([1, 3000, 33], 2500),
    ([3, 40_000, 1], 20_000),
    ([2, 1, 40_000], 3),
    ([37, 1500, 1], 700),
    ([60, 33, 40], 25),
    ([3, 20_000, 1], 40_000),
    ([40, 143, 1], 900),
    ([7, 90, 3], 200),
    ([9, 300, 2], 64),
    ([1, 900, 1], 100),
    ([3, 900, 1], 100),
    ([1, 3000, 5], 300),
    ([1, 200, 2], 90_000),
    ([1, 1500, 4], 40_000),
    ([1, 100, 9], 20_000),
    ([1, 12_000, 3], 200_000),
    ([50, 700, 1], 2000),
    ([40, 300, 3], 700),
];

#[test]
fn outputs_without_sources_are_rounded_too() {
    let mut out = vec![-0.0f32; 4000];
    out[7] = f32::from_bits(0xffc1_2345);
    out[8] = f32::from_bits(0x7fa0_0001);
    let mut expected = vec![0.0f32; 4000];
    expected[7..9].fill(canonical(f32::NAN));
    // So few that only their outputs are summed.
    index_add(&mut out, [1, 4000, 1], &[5, 7], &[-0.0, 1.0], 1.0).unwrap();
    assert_eq!(bits(&out), bits(&expected));
}

#[test]
fn sums_of_few_sources_are_exact_everywhere() {
    let shapes = [[1, 9, 1], [3, 40, 2], [1, 700, 20], [172, 81, 70], [1, 4000, 9], [40, 500, 1]];
    let special = [-0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-45, 0.0];
    for (case, shape) in shapes.into_iter().enumerate() {
        let [outer, dim, inner] = shape;
        for (n, twice) in [(1, false), (3, false), (dim, false), (dim / 10 + 2, true)] {
            let mut random = Random(300 + case as u64);
            let mut index: Vec<i64> = (0..dim as i64).collect();
            for i in 0..dim {
                index.swap(i, random.below(dim));
            }
            if twice {
                // Rows of two and of three sources.
                index[n - 1] = index[0];
                index[n / 2] = index[n / 3];
                index[n / 3 + 1] = index[0];
            }
            let index = &index[..n];
            let mut out: Vec<f32> = random.wide(outer * dim * inner);
            let mut source: Vec<f32> = random.wide(outer * n * inner);
            for (i, x) in out.iter_mut().step_by(2).enumerate() {
                *x = special[i % special.len()];
            }
            for (i, x) in source.iter_mut().step_by(3).enumerate() {
                *x = special[i / 2 % special.len()];
            }
            let scaled: Vec<f32> = source.iter().map(|x| -x).collect();
            let expected = naive_scatter_add(&out, shape, &expand(index, outer, inner), &scaled);
            let got = everywhere(|| {
                let mut got = out.clone();
                index_add(&mut got, shape, index, &source, -1.0).unwrap();
                bits(&got)
            });
            assert_eq!(got, bits(&expected), "{shape:?}, {n} sources");

            let (out, source) = (widened(&out), widened(&source));
            let mut expected = out.clone();
            for (e, x) in source.iter().enumerate() {
                let (o, k, j) = (e / inner / n, e / inner % n, e % inner);
                expected[(o * dim + index[k] as usize) * inner + j] += x;
            }
            let expected: Vec<f64> = expected.into_iter().map(canonical).collect();
            let got = everywhere(|| {
                let mut got = out.clone();
                index_add(&mut got, shape, index, &source, 1.0).unwrap();
                bits(&got)
            });
            assert_eq!(got, bits(&expected), "f64 {shape:?}, {n} sources");
        }
    }
}

fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| x.into()).collect()
}

#[test]
fn index_add_is_the_exact_sum_everywhere() {
    for (case, (shape, n)) in SHAPES.into_iter().enumerate() {
        let [outer, dim, inner] = shape;
        let mut random = Random(case as u64);
        let out: Vec<f32> = random.wide(outer * dim * inner);
        let index = random.indices(n, dim);
        let source: Vec<f32> = random.wide(outer * n * inner);
        for alpha in [1.0f32, -0.3] {
            let scaled: Vec<f32> = source.iter().map(|x| alpha * x).collect();
            let expected = naive_scatter_add(&out, shape, &expand(&index, outer, inner), &scaled);
            let got = everywhere(|| {
                let mut got = out.clone();
                index_add(&mut got, shape, &index, &source, alpha).unwrap();
                bits(&got)
            });
            assert_eq!(got, bits(&expected), "{shape:?}, {n} sources, alpha {alpha}");
        }
    }
}

#[test]
fn scatter_add_is_the_exact_sum_everywhere_and_in_any_order() {
    for (case, (shape, n)) in SHAPES.into_iter().enumerate() {
        let [outer, dim, inner] = shape;
        let mut random = Random(100 + case as u64);
        let out: Vec<f32> = random.wide(outer * dim * inner);
        let index = random.indices(outer * n * inner, dim);
        let source: Vec<f32> = random.wide(outer * n * inner);
        let expected = bits(&naive_scatter_add(&out, shape, &index, &source));
        let got = everywhere(|| {
            let mut got = out.clone();
            scatter_add(&mut got, shape, &index, &source).unwrap();
            bits(&got)
        });
        assert_eq!(got, expected, "{shape:?}, {n} sources");
        if outer * inner == 1 {
            let order = random.permutation(n);
            let index: Vec<i64> = order.iter().map(|&i| index[i]).collect();
            let source: Vec<f32> = order.iter().map(|&i| source[i]).collect();
            let mut got = out.clone();
            scatter_add(&mut got, shape, &index, &source).unwrap();
            assert_eq!(bits(&got), expected, "{shape:?}, permuted");
        }
    }
}

/// Half of the sources go to a few rows, so one stretch of the output has more than its share.
#[test]
fn uneven_rows_are_the_exact_sum_everywhere() {
    for (shape, n) in [([1, 90_000, 1], 70_000), ([1, 9000, 9], 40_000)] {
        let [_, dim, inner] = shape;
        let mut random = Random(dim as u64);
        let few = random.indices(n, 3);
        let any = random.indices(n, dim);
        let index: Vec<i64> = few
            .into_iter()
            .zip(any)
            .enumerate()
            .map(|(i, (a, b))| if i % 2 == 0 { a } else { b })
            .collect();
        let source: Vec<f32> = random.units(n * inner);
        let zeros = vec![0.0f32; dim * inner];
        let expected = naive_scatter_add(&zeros, shape, &expand(&index, 1, inner), &source);
        let got = everywhere(|| {
            let mut got = zeros.clone();
            index_add(&mut got, shape, &index, &source, 1.0).unwrap();
            bits(&got)
        });
        assert_eq!(got, bits(&expected), "{shape:?}");
    }
}

#[test]
fn numbers_so_wide_that_every_addition_is_inexact() {
    let mut random = Random(7);
    let n = 200_000;
    let source: Vec<f32> =
        (0..n).map(|_| f32::from_bits(random.next() as u32 & 0xbfff_ffff)).collect();
    for dim in [3, 50_000] {
        let index = random.indices(n, dim);
        let out = vec![0.0f32; dim];
        let expected = bits(&naive_scatter_add(&out, [1, dim, 1], &index, &source));
        let got = everywhere(|| {
            let mut got = out.clone();
            scatter_add(&mut got, [1, dim, 1], &index, &source).unwrap();
            bits(&got)
        });
        assert_eq!(got, expected, "{dim}");
    }
}

#[test]
fn a_rounded_sum_would_differ() {
    let mut random = Random(8);
    let index = random.indices(5000, 3);
    let source: Vec<f32> = random.wide(5000);
    let mut rounded = vec![0.0f32; 3];
    index.iter().zip(&source).for_each(|(&i, x)| rounded[i as usize] += x);
    let mut exact = vec![0.0f32; 3];
    scatter_add(&mut exact, [1, 3, 1], &index, &source).unwrap();
    assert_ne!(bits(&rounded), bits(&exact));
}

#[test]
fn the_fast_variant_depends_on_the_order_and_the_exact_one_does_not() {
    let mut random = Random(9);
    let (index, source) = (vec![0i64; 4000], random.wide::<f32>(4000));
    let order = random.permutation(4000);
    let permuted: Vec<f32> = order.iter().map(|&i| source[i]).collect();
    let fast = |source: &[f32]| {
        let mut out = [0.0f32];
        scatter_add_fast(&mut out, [1, 1, 1], &index, source).unwrap();
        let mut row = [0.0f32];
        index_add_fast(&mut row, [1, 1, 1], &index, source, 1.0).unwrap();
        on_threads(1, || bits(&[out[0], row[0]]))
    };
    let exact = |source: &[f32]| {
        let mut out = [0.0f32];
        scatter_add(&mut out, [1, 1, 1], &index, source).unwrap();
        bits(&out)
    };
    assert_ne!(fast(&source), fast(&permuted), "the control cannot fail");
    assert_eq!(exact(&source), exact(&permuted));
}

#[test]
fn the_fast_variants_are_near_the_exact_sum() {
    let mut random = Random(10);
    let shape = [2, 50, 3];
    let index = random.indices(400, 50);
    let source: Vec<f32> = random.units(2 * 400 * 3);
    let mut exact = vec![0.0f32; 300];
    index_add(&mut exact, shape, &index, &source, 0.5).unwrap();
    let mut fast = vec![0.0f32; 300];
    index_add_fast(&mut fast, shape, &index, &source, 0.5).unwrap();
    let mut scattered = vec![0.0f32; 300];
    let halved: Vec<f32> = source.iter().map(|x| 0.5 * x).collect();
    scatter_add_fast(&mut scattered, shape, &expand(&index, 2, 3), &halved).unwrap();
    for ((exact, fast), scattered) in exact.iter().zip(fast).zip(scattered) {
        assert!((exact - fast).abs() < 1e-5 && (exact - scattered).abs() < 1e-5);
    }
}

#[test]
fn nan_infinity_and_zero() {
    let (inf, nan) = (f32::INFINITY, -f32::NAN);
    for pad in [0, 70_000] {
        // The second round has so many outputs that they are split into stretches.
        let dim = 6 + pad;
        let mut out = vec![0.0f32; dim];
        out[..6].copy_from_slice(&[-0.0, 1.0, inf, nan, 0.0, -0.0]);
        let mut index = vec![1, 2, 4, 4, 5];
        let mut source = vec![nan, -inf, inf, 1.0, -0.0];
        index.resize(30_000, 5);
        source.resize(30_000, 0.0);
        scatter_add(&mut out, [1, dim, 1], &index, &source).unwrap();
        assert_eq!(
            bits(&out[..6]),
            [0, 0x7fc0_0000, 0x7fc0_0000, 0x7fc0_0000, 0x7f80_0000, 0],
            "{dim} outputs"
        );
    }
}

#[test]
fn sums_in_f64_are_in_ascending_order() {
    for (case, (shape, n)) in SHAPES.into_iter().enumerate() {
        let [outer, dim, inner] = shape;
        let mut random = Random(200 + case as u64);
        let out: Vec<f64> = random.wide(outer * dim * inner);
        let index = random.indices(n, dim);
        let source: Vec<f64> = random.wide(outer * n * inner);
        let mut expected = out.clone();
        for o in 0..outer {
            for (k, &i) in index.iter().enumerate() {
                for j in 0..inner {
                    expected[(o * dim + i as usize) * inner + j] +=
                        1.5 * source[(o * n + k) * inner + j];
                }
            }
        }
        let got = everywhere(|| {
            let mut got = out.clone();
            index_add(&mut got, shape, &index, &source, 1.5).unwrap();
            bits(&got)
        });
        assert_eq!(got, bits(&expected), "{shape:?}");
    }
}

fn naive_reduce<T: Float>(
    out: &[T],
    index: &[i64],
    source: &[T],
    reduce: Reduce,
    include_self: bool,
) -> Vec<T> {
    let one = |(at, &old): (usize, &T)| {
        let mut values: Vec<T> = if include_self { vec![old] } else { Vec::new() };
        values.extend(index.iter().zip(source).filter(|&(&i, _)| i as usize == at).map(|(_, x)| x));
        if values.is_empty() {
            return if matches!(reduce, Reduce::Amax | Reduce::Amin | Reduce::Prod) {
                old
            } else {
                canonical(if size_of::<T>() == 4 { old + T::ZERO } else { old })
            };
        }
        // Exact in f32; f64 adds in ascending order.
        let sum = if size_of::<T>() == 4 {
            let exact: BigSum = values.iter().map(|&x| x.into() as f32).collect();
            T::from_f64(exact.to_f32().into())
        } else {
            let start = if include_self { values[0] } else { T::ZERO + values[0] };
            values[1..].iter().fold(start, |sum, &x| sum + x)
        };
        let best = |better: fn(T, T) -> bool| {
            values[1..].iter().fold(values[0], |best, &x| {
                if best.is_nan() || x.is_nan() {
                    T::from_f64(f64::NAN)
                } else if better(x, best) {
                    x
                } else {
                    best
                }
            })
        };
        canonical(match reduce {
            Reduce::Sum => sum,
            Reduce::Mean => sum / T::from_usize(values.len()),
            Reduce::Prod => values.iter().fold(T::ONE, |product, &x| product * x),
            Reduce::Amax => best(|new, old| new > old),
            Reduce::Amin => best(|new, old| new < old),
        })
    };
    out.iter().enumerate().map(one).collect()
}

fn check_reductions<T: Sums>(seed: u64) {
    let mut random = Random(seed);
    let (dim, n) = (40, 100);
    let out: Vec<T> = random.units(dim);
    let index = random.indices(n, dim);
    let mut source: Vec<T> = random.units(n);
    source[17] = T::from_f64(f64::NAN);
    for reduce in [Reduce::Sum, Reduce::Mean, Reduce::Prod, Reduce::Amax, Reduce::Amin] {
        for include_self in [true, false] {
            let expected = bits(&naive_reduce(&out, &index, &source, reduce, include_self));
            let got = everywhere(|| {
                let mut got = out.clone();
                scatter_reduce(&mut got, [1, dim, 1], &index, &source, reduce, include_self)
                    .unwrap();
                bits(&got)
            });
            assert_eq!(got, expected, "{reduce:?}, include_self {include_self}");
            let mut rows = out.clone();
            index_reduce(&mut rows, [1, dim, 1], &index, &source, reduce, include_self).unwrap();
            assert_eq!(bits(&rows), expected, "index_reduce {reduce:?}");
        }
    }
}

#[test]
fn reductions_equal_the_definition() {
    check_reductions::<f32>(11);
    check_reductions::<f64>(12);
}

#[test]
fn reductions_of_many_outputs_are_the_same_everywhere() {
    let mut random = Random(13);
    let out: Vec<f32> = random.units(100_000);
    let index = random.indices(200_000, 100_000);
    let source: Vec<f32> = random.wide(200_000);
    for reduce in [Reduce::Mean, Reduce::Prod, Reduce::Amax, Reduce::Amin] {
        let got = everywhere(|| {
            let mut got = out.clone();
            scatter_reduce(&mut got, [1, 100_000, 1], &index, &source, reduce, false).unwrap();
            bits(&got)
        });
        let mut rows = out.clone();
        on_threads(1, || ());
        index_reduce(&mut rows, [1, 100_000, 1], &index, &source, reduce, false).unwrap();
        assert_eq!(got, bits(&rows), "{reduce:?}");
    }
}

#[test]
fn put_wraps_negative_indices() {
    let mut out = [0.0f32; 6];
    put_add(&mut out, [3, 2], &[-1, 0, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    assert_eq!(out, [3.0, 4.0, 0.0, 0.0, 6.0, 8.0]);
    let error = put_add(&mut out, [3, 2], &[0, -4], &[0.0; 4]).unwrap_err();
    assert_eq!(error, Error::IndexOutOfRange { op: "index_put", position: 1, index: -4, size: 3 });
}

#[test]
fn slabs_are_reduced_as_if_they_were_alone() {
    let (shape, n) = ([37, 1500, 1], 700);
    let [outer, dim, _] = shape;
    fn check<T: Sums>([outer, dim, n]: [usize; 3]) {
        let mut random = Random(14);
        let out: Vec<T> = random.units(outer * dim);
        let index = random.indices(outer * n, dim);
        let source: Vec<T> = random.units(outer * n);
        for reduce in [Reduce::Sum, Reduce::Mean, Reduce::Prod, Reduce::Amax, Reduce::Amin] {
            let mut alone = out.clone();
            for (o, out) in alone.chunks_exact_mut(dim).enumerate() {
                let (index, source) = (&index[o * n..][..n], &source[o * n..][..n]);
                scatter_reduce(out, [1, dim, 1], index, source, reduce, true).unwrap();
            }
            let got = everywhere(|| {
                let mut got = out.clone();
                scatter_reduce(&mut got, [outer, dim, 1], &index, &source, reduce, true).unwrap();
                bits(&got)
            });
            assert_eq!(got, bits(&alone), "{reduce:?}");
        }
    }
    check::<f32>([outer, dim, n]);
    check::<f64>([outer, dim, n]);
    let mut index = vec![1i64; outer * n];
    (index[20 * n + 5], index[9 * n]) = (-1, dim as i64);
    let mut out = vec![0.5f32; outer * dim];
    let error = scatter_add(&mut out, shape, &index, &vec![1.0; outer * n]).unwrap_err();
    let expected =
        Error::IndexOutOfRange { op: "scatter_add", position: 9 * n, index: dim as i64, size: dim };
    assert_eq!(error, expected);
    assert!(out.iter().all(|&x| x == 0.5), "something was written");
}

/// Lines that lie next to each other, of few and of many elements, with one source and with many, in small and
/// in large slabs.
#[test]
fn elements_go_along_their_own_lines() {
    fn check<T: Sums>([outer, dim, inner]: [usize; 3], n: usize) {
        let shape = [outer, dim, inner];
        let mut random = Random(15);
        let mut out: Vec<T> = random.wide(outer * dim * inner);
        out.iter_mut().step_by(3).for_each(|x| *x = T::from_f64(-0.0));
        let index = random.indices(outer * n * inner, dim);
        let source: Vec<T> = random.wide(index.len());
        // The same sources, each with the number of its element.
        let rows: Vec<i64> = index
            .iter()
            .enumerate()
            .map(|(e, i)| {
                let (o, j) = (e / (n * inner), e % inner);
                ((o * dim + *i as usize) * inner + j) as i64
            })
            .collect();
        let all = [1, out.len(), 1];
        for reduce in [Reduce::Sum, Reduce::Mean, Reduce::Prod, Reduce::Amax, Reduce::Amin] {
            for include_self in [true, false] {
                let expected = on_threads(1, || {
                    let mut out = out.clone();
                    scatter_reduce(&mut out, all, &rows, &source, reduce, include_self).unwrap();
                    out
                });
                let got = everywhere(|| {
                    let mut got = out.clone();
                    scatter_reduce(&mut got, shape, &index, &source, reduce, include_self).unwrap();
                    bits(&got)
                });
                let what = format!("{shape:?}, {n} sources, {reduce:?}, {include_self}");
                assert!(got == bits(&expected), "{what}");
            }
        }
    }
    for (shape, n) in [
        ([3, 40, 7], 500),
        ([2, 9, 31], 90),
        ([5, 6, 2], 700),
        ([3, 1300, 32], 60),
        ([3, 2000, 20], 50),
        ([1, 6, 5000], 1),
        ([4, 3, 9], 1),
        ([1, 700, 3], 1),
        ([2, 45_000, 1], 9000),
    ] {
        check::<f32>(shape, n);
        check::<f64>(shape, n);
        let [outer, dim, inner] = shape;
        let mut random = Random(16);
        let out: Vec<f32> = random.wide(outer * dim * inner);
        let index = random.indices(outer * n * inner, dim);
        let source: Vec<f32> = random.wide(index.len());
        let expected = naive_scatter_add(&out, shape, &index, &source);
        let mut got = out.clone();
        scatter_add(&mut got, shape, &index, &source).unwrap();
        assert!(bits(&got) == bits(&expected), "{shape:?}, {n} sources");

        let mut index = index;
        let (last, row) = (index.len() - 1, dim as i64);
        index[last] = row;
        let mut got = out.clone();
        let error =
            scatter_reduce(&mut got, shape, &index, &source, Reduce::Sum, false).unwrap_err();
        let op = "scatter_reduce";
        assert_eq!(error, Error::IndexOutOfRange { op, position: last, index: row, size: dim });
        assert!(bits(&got) == bits(&out), "{shape:?}: something was written");
    }
}

#[test]
fn an_index_out_of_range_is_named_and_nothing_is_written() {
    for (dim, n) in [(5, 10), (70_000, 100_000), (4, 200_000)] {
        for bad in [-1, dim as i64, i64::MIN, i64::MAX] {
            let mut index = vec![1i64; n];
            index[n - 3] = bad;
            let before = vec![0.5f32; dim];
            let mut out = before.clone();
            let expected =
                |op| Error::IndexOutOfRange { op, position: n - 3, index: bad, size: dim };
            let source = vec![1.0f32; n];
            let shape = [1, dim, 1];
            let error = scatter_add(&mut out, shape, &index, &source).unwrap_err();
            assert_eq!(error, expected("scatter_add"));
            let error = index_add(&mut out, shape, &index, &source, 1.0).unwrap_err();
            assert_eq!(error, expected("index_add"));
            let error =
                scatter_reduce(&mut out, shape, &index, &source, Reduce::Prod, false).unwrap_err();
            assert_eq!(error, expected("scatter_reduce"));
            let error = scatter_add_fast(&mut out, shape, &index, &source).unwrap_err();
            assert_eq!(error, expected("scatter_add"));
            let error = index_add_fast(&mut out, shape, &index, &source, 1.0).unwrap_err();
            assert_eq!(error, expected("index_add"));
            assert_eq!(out, before);
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let mut out = [0.0f32; 6];
    let error = index_add(&mut out, [1, 2, 2], &[0], &[1.0, 2.0], 1.0).unwrap_err();
    assert_eq!(error.to_string(), "index_add: out must have 4 elements, got 6");
    let error = index_add(&mut out, [1, 3, 2], &[0], &[1.0], 1.0).unwrap_err();
    assert_eq!(error.to_string(), "index_add: source must have 2 elements, got 1");
    let error = scatter_add(&mut out, [1, 3, 2], &[0; 3], &[0.0; 3]).unwrap_err();
    assert_eq!(error.to_string(), "scatter_add: index must have 2 elements, got 3");
}

#[test]
fn nothing_to_do() {
    let mut out = [1.0f32, 2.0];
    index_add(&mut out, [1, 2, 1], &[], &[], 1.0).unwrap();
    assert_eq!(out, [1.0, 2.0]);
    index_add::<f32>(&mut [], [0, 2, 1], &[0, 1], &[], 1.0).unwrap();
    index_add::<f32>(&mut [], [1, 2, 0], &[0, 1], &[], 1.0).unwrap();
    scatter_add::<f32>(&mut [], [1, 0, 1], &[], &[]).unwrap();
    assert!(scatter_add(&mut [], [1, 0, 1], &[0], &[1.0f32]).is_err());
    index_reduce::<f64>(&mut [], [1, 0, 1], &[], &[], Reduce::Mean, false).unwrap();
}
