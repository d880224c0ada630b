//! Sums and writes at computed positions.

use crate::data::{Real, Source, bits, exact, order_sensitive, same, same_as, same64};
use crate::device::{on_device, under_schedules, varies};
use samebits_cuda_kernels::Device;
use samebits_cuda_kernels::Variant::{self, Atomic, Deterministic};
use samebits_cuda_kernels::scatter::{self, Rows, ScatterReduceKind, Summed};
use samebits_numerics::nan::canonical;

/// (outer, size, n, inner): the last ones use accumulators in memory.
const SHAPES: [[usize; 4]; 5] =
    [[1, 7, 0, 3], [1, 40, 90, 3], [2, 33, 17, 5], [3, 2, 50, 4], [1, 1, 300, 1]];

fn rows([outer, size, n, inner]: [usize; 4]) -> Rows {
    Rows { outer, size, n, inner }
}

/// Returns the source positions that go to position `at` of the target, ascending.
fn sources(s: [usize; 4], index: impl Fn(usize) -> i64, at: usize) -> Vec<usize> {
    let [_, size, n, inner] = s;
    let (slab, row, column) = (at / inner / size, at / inner % size, at % inner);
    (0..n).map(|i| (slab * n + i) * inner + column).filter(|&i| index(i) == row as i64).collect()
}

#[test]
fn index_add_is_the_exact_sum() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for (number, shape) in SHAPES.into_iter().enumerate() {
            let [outer, size, n, inner] = shape;
            let mut source = Source::new(number as u64);
            for kind in 0..3 {
                let make = |source: &mut Source, n| match kind {
                    0 => source.plain(n),
                    1 => source.wild(n),
                    _ => source.broken(n),
                };
                let old = make(&mut source, outer * size * inner);
                let x = make(&mut source, outer * n * inner);
                let index = source.indices(n, size);
                let alpha = [1.0, 0.3, -2.5][kind];
                let expected: Vec<f32> = (0..old.len())
                    .map(|at| {
                        let from = sources(shape, |i| index[i / inner % n], at);
                        exact([old[at]].into_iter().chain(from.iter().map(|&i| alpha * x[i])))
                    })
                    .collect();
                let mut out = device.upload(&old).unwrap();
                let index = device.upload(&index).unwrap();
                let x = device.upload(&x).unwrap();
                scatter::index_add(device, &mut out, &index, &x, rows(shape), alpha, Deterministic)
                    .unwrap();
                let got = device.download(&out).unwrap();
                same(&format!("{shape:?} kind {kind}"), &got, &expected);
                all.extend(bits(&got));
            }
        }
        all
    });
}

/// Most sources go to two rows, so that their segments are cut, and the long sums take values of every
/// kind.
#[test]
fn long_segments_are_cut() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for (number, shape) in
            [[1, 150, 1100, 2], [2, 140, 700, 3], [1, 90, 257, 1]].into_iter().enumerate()
        {
            let [outer, size, n, inner] = shape;
            let mut source = Source::new(20 + number as u64);
            for kind in 0..3 {
                let make = |source: &mut Source, n| match kind {
                    0 => source.plain(n),
                    1 => source.wild(n),
                    _ => source.broken(n),
                };
                let old = make(&mut source, outer * size * inner);
                let x = make(&mut source, outer * n * inner);
                let mut index = source.indices(n, size);
                for (i, to) in index.iter_mut().enumerate() {
                    match i % 10 {
                        _ if n == 257 => *to = 5,
                        0..6 => *to = 3,
                        6..9 => *to = 71,
                        _ => {}
                    }
                }
                let expected: Vec<f32> = (0..old.len())
                    .map(|at| {
                        let from = sources(shape, |i| index[i / inner % n], at);
                        exact([old[at]].into_iter().chain(from.iter().map(|&i| 0.3 * x[i])))
                    })
                    .collect();
                let mut out = device.upload(&old).unwrap();
                let index = device.upload(&index).unwrap();
                let x = device.upload(&x).unwrap();
                scatter::index_add(device, &mut out, &index, &x, rows(shape), 0.3, Deterministic)
                    .unwrap();
                let got = device.download(&out).unwrap();
                same(&format!("{shape:?} kind {kind}"), &got, &expected);
                all.extend(bits(&got));
            }
        }
        all
    });
}

#[test]
fn index_add_survives_cancellation_and_overflow() {
    under_schedules(|device| {
        let values = [
            f32::MAX,
            f32::MAX,
            -f32::MAX,
            1.0,
            1e-45,
            -f32::MAX,
            1e30,
            -1e30,
            1e-40,
            3.0e38,
            0.5,
            -1.0,
        ];
        for size in [1, 100] {
            let shape = [1, size, values.len(), 1];
            let mut out = device.zeros::<f32>(size).unwrap();
            let index = device.upload(&vec![0i64; values.len()]).unwrap();
            let x = device.upload(&values).unwrap();
            scatter::index_add(device, &mut out, &index, &x, rows(shape), 1.0, Deterministic)
                .unwrap();
            same("sum", &device.download(&out).unwrap()[..1], &[exact(values)]);
        }
    });
}

#[test]
fn index_add_f64_adds_in_source_order() {
    under_schedules(|device| {
        // The last shape has more sources than one block sorts.
        for shape in SHAPES.into_iter().chain([[1, 9, 1500, 2]]) {
            let [outer, size, n, inner] = shape;
            let mut source = Source::new(9);
            let wide = |values: Vec<f32>| -> Vec<f64> {
                values.into_iter().map(|x| f64::from(x) * 1.1).collect()
            };
            let old = wide(source.plain(outer * size * inner));
            let x = wide(source.wild(outer * n * inner));
            let index = source.indices(n, size);
            let expected: Vec<f64> = (0..old.len())
                .map(|at| {
                    let from = sources(shape, |i| index[i / inner % n], at);
                    from.iter().fold(old[at], |sum, &i| sum + 0.7 * x[i])
                })
                .collect();
            let mut out = device.upload(&old).unwrap();
            let index = device.upload(&index).unwrap();
            let x = device.upload(&x).unwrap();
            scatter::index_add(device, &mut out, &index, &x, rows(shape), 0.7, Deterministic)
                .unwrap();
            same64(&format!("{shape:?}"), &device.download(&out).unwrap(), &expected);
        }
    });
}

#[test]
fn scatter_reduce_equals_a_sequential_loop() {
    under_schedules(|device| {
        scatter_reductions::<f32>(device);
        scatter_reductions::<f64>(device);
    });
}

fn scatter_reductions<T: Real>(device: &Device) {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let [outer, size, n, inner] = shape;
        let mut source = Source::new(100 + number as u64);
        let old = T::broken(&mut source, outer * size * inner);
        let x = T::broken(&mut source, outer * n * inner);
        let index = source.indices(outer * n * inner, size);
        for reduce in [
            ScatterReduceKind::Sum,
            ScatterReduceKind::Mean,
            ScatterReduceKind::Prod,
            ScatterReduceKind::Amax,
            ScatterReduceKind::Amin,
        ] {
            for include_self in [true, false] {
                let expected: Vec<T> = (0..old.len())
                    .map(|at| {
                        let from = sources(shape, |i| index[i], at);
                        combine(reduce, include_self, old[at], &from, &x)
                    })
                    .collect();
                let mut out = device.upload(&old).unwrap();
                let index = device.upload(&index).unwrap();
                let x = device.upload(&x).unwrap();
                let rows = rows(shape);
                scatter::scatter_reduce(
                    device,
                    &mut out,
                    &index,
                    &x,
                    rows,
                    reduce,
                    include_self,
                    Deterministic,
                )
                .unwrap();
                let got = device.download(&out).unwrap();
                same_as(&format!("{shape:?} {reduce:?} {include_self}"), &got, &expected);
            }
        }
    }
}

fn combine<T: Real>(
    reduce: ScatterReduceKind,
    include: bool,
    old: T,
    from: &[usize],
    x: &[T],
) -> T {
    let first = if include || from.is_empty() { Some(old) } else { None };
    let values = first.into_iter().chain(from.iter().map(|&i| x[i]));
    // In f64 a sum starts from its first element, and from +0 if that is a source.
    let sum = |values: std::iter::Chain<_, _>| match first {
        Some(old) if T::WIDE => canonical(from.iter().fold(old, |sum, &i| sum + x[i])),
        _ => T::sum(values),
    };
    match reduce {
        ScatterReduceKind::Sum => sum(values),
        ScatterReduceKind::Mean => {
            let count = from.len() + usize::from(include);
            canonical(sum(values) / T::from_f64(count.max(1) as f64))
        }
        _ if from.is_empty() => old,
        ScatterReduceKind::Prod => {
            let start = if include { old } else { T::from_f64(1.0) };
            canonical(from.iter().fold(start, |product, &i| product * x[i]))
        }
        ScatterReduceKind::Amax => {
            canonical(values.reduce(samebits_numerics::extrema::max2).unwrap())
        }
        ScatterReduceKind::Amin => {
            canonical(values.reduce(samebits_numerics::extrema::min2).unwrap())
        }
    }
}

#[test]
fn integers_wrap_around() {
    /// Returns the reduction of an element and its sources.
    fn combined(reduce: ScatterReduceKind, all: &[i64]) -> i64 {
        let all = all.iter().copied();
        match reduce {
            ScatterReduceKind::Sum => all.fold(0, i64::wrapping_add),
            ScatterReduceKind::Prod => all.fold(1, i64::wrapping_mul),
            ScatterReduceKind::Amax => all.max().unwrap(),
            ScatterReduceKind::Amin => all.min().unwrap(),
            ScatterReduceKind::Mean => {
                let n = all.len() as i64;
                let sum = combined(ScatterReduceKind::Sum, &all.collect::<Vec<_>>());
                sum.div_euclid(n)
            }
        }
    }
    under_schedules(|device| {
        for (number, shape) in SHAPES.into_iter().enumerate() {
            let [outer, size, n, inner] = shape;
            let mut source = Source::new(300 + number as u64);
            let mut wild = |n: usize| -> Vec<i64> {
                let mut digits = || u64::from(source.next());
                (0..n).map(|_| (digits() << 32 | digits()) as i64 >> (digits() % 63)).collect()
            };
            let (old, x) = (wild(outer * size * inner), wild(outer * n * inner));
            let (rows_index, each) =
                (source.indices(n, size), source.indices(outer * n * inner, size));
            let x_dev = device.upload(&x).unwrap();
            let expected = |index: &dyn Fn(usize) -> i64, of: &dyn Fn(i64, Vec<i64>) -> i64| {
                let at = |at: usize| {
                    of(old[at], sources(shape, index, at).into_iter().map(|i| x[i]).collect())
                };
                (0..old.len()).map(at).collect::<Vec<i64>>()
            };

            let mut out = device.upload(&old).unwrap();
            let index = device.upload(&rows_index).unwrap();
            scatter::index_add(device, &mut out, &index, &x_dev, rows(shape), -3, Deterministic)
                .unwrap();
            let sum = |old, from: Vec<i64>| {
                from.iter().fold(old, |sum: i64, x| sum.wrapping_add(x.wrapping_mul(-3)))
            };
            let expected_sums = expected(&|i| rows_index[i / inner % n], &sum);
            assert_eq!(device.download(&out).unwrap(), expected_sums, "index_add {shape:?}");

            let index = device.upload(&each).unwrap();
            for (reduce, include) in [
                (ScatterReduceKind::Sum, true),
                (ScatterReduceKind::Sum, false),
                (ScatterReduceKind::Mean, true),
                (ScatterReduceKind::Mean, false),
                (ScatterReduceKind::Prod, true),
                (ScatterReduceKind::Prod, false),
                (ScatterReduceKind::Amax, true),
                (ScatterReduceKind::Amax, false),
                (ScatterReduceKind::Amin, true),
                (ScatterReduceKind::Amin, false),
            ] {
                let mut out = device.upload(&old).unwrap();
                scatter::scatter_reduce(
                    device,
                    &mut out,
                    &index,
                    &x_dev,
                    rows(shape),
                    reduce,
                    include,
                    Deterministic,
                )
                .unwrap();
                let of = |old, mut from: Vec<i64>| {
                    if include || from.is_empty() {
                        from.push(old);
                    }
                    combined(reduce, &from)
                };
                let what = format!("{shape:?} {reduce:?} {include}");
                assert_eq!(device.download(&out).unwrap(), expected(&|i| each[i], &of), "{what}");
            }
        }
    });
}

#[test]
fn the_highest_source_index_wins() {
    under_schedules(|device| {
        for shape in SHAPES {
            let [outer, size, n, inner] = shape;
            let mut source = Source::new(5);
            let old = source.broken(outer * size * inner);
            let x = source.broken(outer * n * inner);
            let index = source.indices(n, size);
            let each = source.indices(outer * n * inner, size);
            let last = |from: Vec<usize>, at: usize| from.last().map_or(old[at], |&i| x[i]);
            let x_dev = device.upload(&x).unwrap();
            let expected: Vec<f32> = (0..old.len())
                .map(|at| last(sources(shape, |i| index[i / inner % n], at), at))
                .collect();
            let mut out = device.upload(&old).unwrap();
            let idx = device.upload(&index).unwrap();
            scatter::index_copy(device, &mut out, &idx, &x_dev, rows(shape)).unwrap();
            same("index_copy", &device.download(&out).unwrap(), &expected);

            let expected: Vec<f32> =
                (0..old.len()).map(|at| last(sources(shape, |i| each[i], at), at)).collect();
            let mut out = device.upload(&old).unwrap();
            let idx = device.upload(&each).unwrap();
            scatter::scatter(device, &mut out, &idx, &x_dev, rows(shape)).unwrap();
            same("scatter", &device.download(&out).unwrap(), &expected);
        }
    });
}

#[test]
fn put_wraps_negative_indices() {
    under_schedules(|device| {
        let index = device.upload(&[-1i64, 0, 2, -3, 2]).unwrap();
        let values: Vec<f32> = (1..=10).map(|x| x as f32).collect();
        let x = device.upload(&values).unwrap();
        let mut out = device.upload(&[100.0f32; 6]).unwrap();
        scatter::put(device, &mut out, &index, &x, [3, 2], false, Deterministic).unwrap();
        same("put", &device.download(&out).unwrap(), &[7.0, 8.0, 100.0, 100.0, 9.0, 10.0]);
        let mut out = device.upload(&[100.0f32; 6]).unwrap();
        scatter::put(device, &mut out, &index, &x, [3, 2], true, Deterministic).unwrap();
        same("put", &device.download(&out).unwrap(), &[110.0, 112.0, 100.0, 100.0, 115.0, 118.0]);
    });
}

#[test]
fn reads_keep_their_bits() {
    under_schedules(|device| {
        for shape in SHAPES {
            let [outer, size, n, inner] = shape;
            let mut source = Source::new(6);
            let x = source.broken(outer * size * inner);
            let index = source.indices(n, size);
            let each = source.indices(outer * n * inner, size);
            let at =
                |i: usize, row: i64| x[(i / inner / n * size + row as usize) * inner + i % inner];
            let x_dev = device.upload(&x).unwrap();
            let idx = device.upload(&index).unwrap();
            let got = scatter::index_select(device, &x_dev, &idx, rows(shape)).unwrap();
            let expected: Vec<f32> =
                (0..outer * n * inner).map(|i| at(i, index[i / inner % n])).collect();
            same("index_select", &device.download(&got).unwrap()[..expected.len()], &expected);
            let idx = device.upload(&each).unwrap();
            let got = scatter::gather(device, &x_dev, &idx, rows(shape)).unwrap();
            let expected: Vec<f32> = (0..outer * n * inner).map(|i| at(i, each[i])).collect();
            same("gather", &device.download(&got).unwrap()[..expected.len()], &expected);
        }
        let bytes = device.upload(&[3u8, 1, 4, 1, 5]).unwrap();
        let wide = device.upload(&[3i64, 1, 4, 1, 5]).unwrap();
        let idx = device.upload(&[4i64, 0]).unwrap();
        let rows = Rows { outer: 1, size: 5, n: 2, inner: 1 };
        let got = scatter::index_select(device, &bytes, &idx, rows).unwrap();
        assert_eq!(device.download(&got).unwrap(), [5, 3]);
        let got = scatter::index_select(device, &wide, &idx, rows).unwrap();
        assert_eq!(device.download(&got).unwrap(), [5, 3]);
    });
}

#[test]
fn atomic_sums_vary() {
    let n = 300;
    let values = order_sensitive(n);
    let shape = Rows { outer: 1, size: 2, n, inner: 1 };
    let run = |device: &Device, which: usize| {
        let x = device.upload(&values).unwrap();
        let index = device.upload(&vec![1i64; n]).unwrap();
        let mut out = device.zeros::<f32>(2).unwrap();
        match which {
            0 => scatter::index_add(device, &mut out, &index, &x, shape, 1.0, Atomic),
            _ => scatter::scatter_add(device, &mut out, &index, &x, shape, Atomic),
        }
        .unwrap();
        bits(&device.download(&out).unwrap())
    };
    varies(|device| run(device, 0));
    varies(|device| run(device, 1));
    // Products round, too: 3 and 1/3 do not cancel exactly.
    let factors: Vec<f32> = (0..n).map(|i| [3.0, 1.0 / 3.0, 1.1, 0.9][i % 4]).collect();
    let reduce = |device: &Device, source: &[f32], kind: ScatterReduceKind, variant: Variant| {
        let x = device.upload(source).unwrap();
        let index = device.upload(&vec![1i64; n]).unwrap();
        let mut out = device.upload(&[1.0f32, 1.0]).unwrap();
        scatter::scatter_reduce(device, &mut out, &index, &x, shape, kind, true, variant).unwrap();
        bits(&device.download(&out).unwrap())
    };
    varies(|device| reduce(device, &values, ScatterReduceKind::Sum, Atomic));
    varies(|device| reduce(device, &factors, ScatterReduceKind::Prod, Atomic));
    // The deterministic forms, of which these are the negative controls.
    under_schedules(|device| {
        let sum = reduce(device, &values, ScatterReduceKind::Sum, Deterministic);
        (sum, reduce(device, &factors, ScatterReduceKind::Prod, Deterministic))
    });
}

#[test]
fn atomic_sums_are_valid() {
    on_device(|device| {
        let values: Vec<f32> = (0..500).map(|i| (i % 7) as f32).collect();
        let x = device.upload(&values).unwrap();
        let index: Vec<i64> = (0..500).map(|i| i % 3).collect();
        let idx = device.upload(&index).unwrap();
        let mut out = device.zeros::<f32>(3).unwrap();
        let shape = Rows { outer: 1, size: 3, n: 500, inner: 1 };
        scatter::index_add(device, &mut out, &idx, &x, shape, 1.0, Atomic).unwrap();
        let mut expected = [0.0f32; 3];
        for (&x, &i) in values.iter().zip(&index) {
            expected[i as usize] += x;
        }
        same("small integers add exactly", &device.download(&out).unwrap(), &expected);
    });
}

#[test]
fn only_f32_has_an_atomic_form() {
    fn refused<T: Summed>(device: &Device) {
        let x = device.zeros::<T>(1).unwrap();
        let index = device.upload(&[0i64]).unwrap();
        let mut out = device.zeros::<T>(1).unwrap();
        let shape = Rows { outer: 1, size: 1, n: 1, inner: 1 };
        let error = scatter::scatter_add(device, &mut out, &index, &x, shape, Atomic).unwrap_err();
        assert_eq!(error.to_string(), "scatter_add: the atomic form takes f32 only");
        let error =
            scatter::index_add(device, &mut out, &index, &x, shape, T::from_f64(1.0), Atomic)
                .unwrap_err();
        assert_eq!(error.to_string(), "index_add: the atomic form takes f32 only");
    }
    on_device(|device| {
        refused::<f64>(device);
        refused::<i64>(device);
    });
}
