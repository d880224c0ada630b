//! Sorting, selection, distinct elements and positions of nonzero elements.

use std::cmp::Ordering;

use crate::data::Source;
use crate::device::{on_device, under_schedules};
use samebits_cuda_kernels::sort::{self, Countable, Sortable};
use samebits_cuda_kernels::{Device, Float};
use samebits_numerics::extrema;
use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::UniqueDim;

/// (outer, n, inner): lines that share a tile, that fill one exactly, that one block sorts by digits
/// or selects from, and that several do.
const SHAPES: [[usize; 3]; 9] = [
    [3, 0, 2],
    [0, 5, 1],
    [4, 1, 3],
    [7, 3, 20],
    [2, 60, 11],
    [1, 1024, 1],
    [1, 1025, 1],
    [1, 1500, 2],
    [1, 4097, 2],
];

/// The order by definition: NaN above all numbers and all NaNs equal, zeros of both signs equal.
trait Ordered: Sortable + Copy {
    fn order(self, other: Self) -> Ordering;
    fn wide(self) -> u64;
    fn draw(source: &mut Source, n: usize) -> Vec<Self>;
}

impl Ordered for f32 {
    fn order(self, other: f32) -> Ordering {
        self.partial_cmp(&other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
    }
    fn wide(self) -> u64 {
        self.to_bits().into()
    }
    fn draw(source: &mut Source, n: usize) -> Vec<f32> {
        // Many repeats, so that the positions of equal elements show.
        let few = source.broken(n / 8 + 1);
        (0..n).map(|_| few[source.below(few.len())]).collect()
    }
}

impl Ordered for f64 {
    fn order(self, other: f64) -> Ordering {
        self.partial_cmp(&other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
    }
    fn wide(self) -> u64 {
        self.to_bits()
    }
    fn draw(source: &mut Source, n: usize) -> Vec<f64> {
        let wide = |x: f32| {
            let x = f64::from(x) * 1.1;
            // Numbers that differ only in the lower half of their bits, and subnormal ones.
            if x.to_bits() % 5 == 0 { f64::from_bits(x.to_bits() >> 20) } else { x }
        };
        f32::draw(source, n).into_iter().map(wide).collect()
    }
}

impl Ordered for i64 {
    fn order(self, other: i64) -> Ordering {
        self.cmp(&other)
    }
    fn wide(self) -> u64 {
        self as u64
    }
    fn draw(source: &mut Source, n: usize) -> Vec<i64> {
        let ends = [i64::MIN, i64::MAX, -1, 0, 1 << 32];
        (0..n)
            .map(|_| match source.below(10) {
                k @ 0..5 => ends[k],
                _ => source.below(40) as i64 - 20,
            })
            .collect()
    }
}

/// Returns the indices of a line in sorted order.
fn order<T: Ordered>(line: &[T], descending: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..line.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = if descending { (b, a) } else { (a, b) };
        line[a].order(line[b])
    });
    order
}

/// Returns bits and indices of the elements that `pick` takes from each line, given its sorted
/// order.
fn expected<T: Ordered>(
    x: &[T],
    [outer, n, inner]: [usize; 3],
    k: usize,
    descending: bool,
    pick: impl Fn(&[T], &[usize]) -> Vec<usize>,
) -> Vec<(u64, i64)> {
    let mut out = vec![(0, 0); outer * k * inner];
    for line in 0..outer * inner {
        let (o, j) = (line / inner, line % inner);
        let values: Vec<T> = (0..n).map(|i| x[(o * n + i) * inner + j]).collect();
        let picked = pick(&values, &order(&values, descending));
        assert_eq!(picked.len(), k);
        for (place, index) in picked.into_iter().enumerate() {
            out[(o * k + place) * inner + j] = (values[index].wide(), index as i64);
        }
    }
    out
}

fn got<T: Ordered>(device: &Device, found: sort::Found<T>, n: usize) -> Vec<(u64, i64)> {
    let values = device.download(&found.0).unwrap();
    let indices = device.download(&found.1).unwrap();
    values.into_iter().map(Ordered::wide).zip(indices).take(n).collect()
}

fn sorts<T: Ordered>(device: &Device) -> Vec<(u64, i64)> {
    let mut all = Vec::new();
    for shape in SHAPES {
        let [outer, n, inner] = shape;
        let x = T::draw(&mut Source::new(n as u64), outer * n * inner);
        let buffer = device.upload(&x).unwrap();
        for descending in [false, true] {
            let what = format!("{shape:?} descending {descending}");
            let found = sort::sort(device, &buffer, shape, descending).unwrap();
            let result = got(device, found, x.len());
            let all_of = expected(&x, shape, n, descending, |_, order| order.to_vec());
            assert!(result == all_of, "sort {what}");
            all.extend(result);
            for k in [0, 17, 512, 513].into_iter().filter(|&k| k <= n) {
                let found = sort::topk(device, &buffer, shape, k, descending).unwrap();
                let first = expected(&x, shape, k, descending, |_, order| order[..k].to_vec());
                let result = got(device, found, outer * k * inner);
                assert!(result == first, "topk {k} {what}");
                all.extend(result);
            }
        }
        for k in [20, n].into_iter().filter(|k| (1..=n).contains(k)) {
            let found = sort::kthvalue(device, &buffer, shape, k).unwrap();
            let one = expected(&x, shape, 1, false, |_, order| vec![order[k - 1]]);
            assert!(got(device, found, outer * inner) == one, "kthvalue {k} {shape:?}");
        }
    }
    all
}

#[test]
fn lines_are_sorted_stably() {
    under_schedules(|device| {
        let mut all = sorts::<f32>(device);
        all.extend(sorts::<f64>(device));
        all.extend(sorts::<i64>(device));
        all
    });
}

/// Keys of which few bits differ, or none, so that passes find nothing to do; and all of them.
fn sorts_by_few_digits<T: Ordered>(device: &Device, x: impl Fn(u64, u64) -> T) {
    for n in [2000, 4096, 8200] {
        let masks = [1, 0xff, 0x1fe, 0x8000_0001, 0x0101_0101, !0].map(|mask| (mask, false));
        for (mask, lone) in [(0, false), (0, true)].into_iter().chain(masks) {
            let other = x(1 << 20, !0);
            let mut source = Source::new(mask ^ n as u64);
            let mut x: Vec<T> = (0..n).map(|_| x(source.below(1 << 32) as u64, mask)).collect();
            if lone {
                x[n / 3] = other;
            }
            let buffer = device.upload(&x).unwrap();
            for descending in [false, true] {
                let found = sort::sort(device, &buffer, [1, n, 1], descending).unwrap();
                let all = expected(&x, [1, n, 1], n, descending, |_, order| order.to_vec());
                assert!(got(device, found, n) == all, "{n} by {mask:#x} descending {descending}");
            }
        }
    }
}

#[test]
fn digits_that_do_not_differ_are_skipped() {
    on_device(|device| {
        sorts_by_few_digits(device, |bits, mask| {
            f32::from_bits((bits & mask) as u32 ^ 0x3fc0_0000)
        });
        sorts_by_few_digits(device, |bits, mask| {
            (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask) as i64
        });
    });
}

#[test]
fn lines_of_many_tiles_are_sorted() {
    on_device(|device| {
        // Blocks take two tiles of a line; more parts than a warp sums at once.
        for shape in [[513, 4100, 1], [1, 540_000, 1]] {
            let n = shape[0] * shape[1];
            let mut source = Source::new(n as u64);
            let x: Vec<i64> = (0..n).map(|_| source.below(200) as i64 + 100).collect();
            let buffer = device.upload(&x).unwrap();
            let found = sort::sort(device, &buffer, shape, false).unwrap();
            let all = expected(&x, shape, shape[1], false, |_, order| order.to_vec());
            assert!(got(device, found, n) == all, "{shape:?}");
        }
    });
}

/// Lines that several blocks search, of elements with many repeats and with few.
fn finds<T: Ordered>(device: &Device) -> Vec<(u64, i64)> {
    let shape = [2, 8500, 1];
    let [lines, n, _] = shape;
    let mut all = Vec::new();
    for seed in [1, 2] {
        let mut source = Source::new(seed);
        let x = match seed {
            1 => T::draw(&mut source, lines * n),
            _ => (0..lines * n / 8).flat_map(|_| T::draw(&mut source, 8)).collect(),
        };
        let buffer = device.upload(&x).unwrap();
        for (k, descending) in [(1, true), (4200, false)] {
            let found = sort::topk(device, &buffer, shape, k, descending).unwrap();
            let first = expected(&x, shape, k, descending, |_, order| order[..k].to_vec());
            let result = got(device, found, lines * k);
            assert!(result == first, "topk {k} descending {descending}");
            all.extend(result);
        }
        for k in [1, 8193, n] {
            let found = sort::kthvalue(device, &buffer, shape, k).unwrap();
            let one = expected(&x, shape, 1, false, |_, order| vec![order[k - 1]]);
            let result = got(device, found, lines);
            assert!(result == one, "kthvalue {k}");
            all.extend(result);
        }
    }
    all
}

#[test]
fn a_few_of_long_lines_are_found_without_sorting() {
    under_schedules(|device| {
        let mut all = finds::<f32>(device);
        all.extend(finds::<f64>(device));
        all.extend(finds::<i64>(device));
        all
    });
}

fn medians<T: Ordered + Float + extrema::Ordered>(device: &Device, nan: T) -> Vec<(u64, i64)> {
    let mut all = Vec::new();
    let long = [[2, 8400, 1]];
    for shape in SHAPES.into_iter().chain(long).filter(|shape| shape[1] > 0) {
        let [outer, n, inner] = shape;
        let mut source = Source::new(7 + n as u64);
        let mut x = T::draw(&mut source, outer * n * inner);
        // The first line has no NaN, the last one nothing else.
        let is_nan = |x: T| extrema::Ordered::is_nan(x);
        for (at, x) in x.iter_mut().enumerate() {
            let (o, j) = (at / inner / n, at % inner);
            if o + j == 0 && is_nan(*x) {
                *x = T::from_f64(-0.0);
            } else if o + 1 == outer && j + 1 == inner && o + j > 0 {
                *x = nan;
            }
        }
        let buffer = device.upload(&x).unwrap();
        for ignore in [false, true] {
            let found = sort::median(device, &buffer, shape, ignore).unwrap();
            let result = got(device, found, outer * inner);
            let mut middle = expected(&x, shape, 1, false, |line, order| {
                let numbers = line.iter().filter(|&&x| !is_nan(x)).count();
                let place = match numbers {
                    0 => 0,
                    numbers if ignore || numbers == n => (numbers - 1) / 2,
                    numbers => numbers,
                };
                vec![order[place]]
            });
            for (at, (bits, index)) in middle.iter_mut().enumerate() {
                let (o, j) = (at / inner, at % inner);
                if is_nan(x[(o * n + *index as usize) * inner + j]) {
                    *bits = nan.wide();
                }
            }
            assert!(result == middle, "{shape:?} {ignore}: {result:?}, expected {middle:?}");
            all.extend(result);
        }
    }
    all
}

#[test]
fn medians_are_the_lower_ones() {
    under_schedules(|device| {
        let mut all = medians(device, f32::from_bits(0x7fc0_0000));
        all.extend(medians(device, f64::from_bits(0x7ff8_0000_0000_0000)));
        all
    });
}

fn distinct<T: Ordered + PartialEq>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    for n in [0, 1, 2, 300, 2100] {
        let mut x = T::draw(&mut Source::new(n as u64), n);
        // Some runs for the consecutive form.
        for i in 1..n {
            if i % 3 == 0 {
                x[i] = x[i - 1];
            }
        }
        let buffer = device.upload(&x).unwrap();
        for consecutive in [false, true] {
            let order = if consecutive { (0..n).collect() } else { order(&x, false) };
            let (mut values, mut counts) = (Vec::<T>::new(), Vec::<i64>::new());
            let mut inverse = vec![0i64; n];
            for &i in &order {
                if values.last().is_some_and(|&last| last == x[i]) {
                    *counts.last_mut().unwrap() += 1;
                } else {
                    values.push(x[i]);
                    counts.push(1);
                }
                inverse[i] = values.len() as i64 - 1;
            }
            let found = sort::unique(device, &buffer, n, consecutive).unwrap();
            let what = format!("{n} consecutive {consecutive}");
            assert_eq!(found.count, values.len(), "{what}");
            let bits: Vec<u64> = values.into_iter().map(Ordered::wide).collect();
            let got = device.download(&found.values).unwrap();
            let got: Vec<u64> = got.into_iter().map(Ordered::wide).take(found.count).collect();
            assert!(got == bits, "{what}: values");
            assert!(device.download(&found.inverse).unwrap()[..n] == inverse, "{what}: inverse");
            assert!(
                device.download(&found.counts).unwrap()[..found.count] == counts,
                "{what}: counts"
            );
            all.extend(got);
        }
    }
    all
}

#[test]
fn distinct_elements_are_counted() {
    under_schedules(|device| {
        let mut all = distinct::<f32>(device);
        all.extend(distinct::<f64>(device));
        all.extend(distinct::<i64>(device));
        all
    });
}

fn distinct_rows<T: Ordered + PartialEq>(device: &Device) -> Vec<i64> {
    let mut all = Vec::new();
    for [rows, width] in [[0, 3], [1, 2], [2, 40], [5, 1], [300, 2], [70, 9]] {
        let mut source = Source::new((rows + width) as u64);
        // Rows of few distinct elements, so that many are equal or differ late.
        let few = T::draw(&mut source, 3);
        let x: Vec<T> = (0..rows * width).map(|_| few[source.below(few.len())]).collect();
        let row = |i: usize| &x[i * width..][..width];
        for consecutive in [false, true] {
            let mut order: Vec<usize> = (0..rows).collect();
            if !consecutive {
                order.sort_by(|&a, &b| {
                    let pairs = row(a).iter().zip(row(b));
                    pairs.fold(Ordering::Equal, |order, (x, y)| order.then(x.order(*y)))
                });
            }
            let (mut firsts, mut inverse) = (Vec::<i64>::new(), vec![0; rows]);
            let mut counts = Vec::<i64>::new();
            for &i in &order {
                if firsts.last().is_some_and(|&last| row(last as usize) == row(i)) {
                    *counts.last_mut().unwrap() += 1;
                } else {
                    firsts.push(i as i64);
                    counts.push(1);
                }
                inverse[i] = firsts.len() as i64 - 1;
            }
            let buffer = device.upload(&x).unwrap();
            let found = sort::unique_rows(device, &buffer, [rows, width], consecutive).unwrap();
            let what = format!("{rows} rows of {width}, consecutive {consecutive}");
            assert_eq!(found.count, firsts.len(), "{what}");
            let prefix = |list: &samebits_cuda_kernels::Buffer<i64>, n: usize| {
                device.download(list).unwrap()[..n].to_vec()
            };
            assert!(prefix(&found.firsts, found.count) == firsts, "{what}: firsts");
            assert!(prefix(&found.inverse, rows) == inverse, "{what}: inverse");
            assert!(prefix(&found.counts, found.count) == counts, "{what}: counts");
            all.extend(firsts.into_iter().chain(inverse));
        }
    }
    all
}

#[test]
fn distinct_rows_are_counted() {
    under_schedules(|device| {
        let mut all = distinct_rows::<f32>(device);
        all.extend(distinct_rows::<f64>(device));
        all.extend(distinct_rows::<i64>(device));
        all
    });
}

/// The only operation here that rearranges its tensor before and after.
#[test]
fn slices_are_distinct_along_any_dimension() {
    let Ok(1..) = samebits_cuda_kernels::install() else {
        return;
    };
    let gpu = samebits_tensor_core::Device::Cuda(0);
    let x = Tensor::from_slice(&[1i64, 2, 1, 3, 4, 3, 1, 2, 1, 3, 4, 3], &[2, 2, 3]).unwrap();
    let x = x.to(gpu).unwrap();
    let run = |dim| {
        let op = UniqueDim { x: x.clone(), dim, consecutive: false };
        let (values, inverse, counts) = samebits_tensor_core::dispatch(&op).unwrap();
        let list = |x: &Tensor| x.to_vec::<i64>().unwrap();
        (values.shape().to_vec(), list(&values), list(&inverse), list(&counts))
    };
    assert_eq!(run(0), (vec![1, 2, 3], vec![1, 2, 1, 3, 4, 3], vec![0, 0], vec![2]));
    let all = vec![1, 2, 1, 3, 4, 3, 1, 2, 1, 3, 4, 3];
    assert_eq!(run(1), (vec![2, 2, 3], all, vec![0, 1], vec![1, 1]));
    let two = vec![1, 2, 3, 4, 1, 2, 3, 4];
    assert_eq!(run(2), (vec![2, 2, 2], two, vec![0, 1, 0], vec![2, 1]));
}

fn positions<T: Countable>(device: &Device, zeros: &[T], others: &[T]) -> Vec<i64> {
    let mut all = Vec::new();
    for shape in
        [&[] as &[usize], &[0], &[3, 0, 2], &[5], &[3, 7, 5], &[2, 1, 2, 1, 2, 1, 3, 1, 2], &[4000]]
    {
        let n = shape.iter().product();
        let mut source = Source::new(n as u64);
        let x: Vec<T> = (0..n)
            .map(|_| {
                let list = if source.below(3) == 0 { others } else { zeros };
                list[source.below(list.len())]
            })
            .collect();
        let mut result = Vec::new();
        let mut count = 0;
        for (at, value) in x.iter().enumerate() {
            let is_zero =
                zeros.iter().any(|zero| bytemuck::bytes_of(zero) == bytemuck::bytes_of(value));
            if is_zero {
                continue;
            }
            count += 1;
            let mut inner = n;
            for &size in shape {
                inner /= size;
                result.push((at / inner % size) as i64);
            }
        }
        let buffer = device.upload(&x).unwrap();
        let (found, found_count) = sort::nonzero(device, &buffer, shape).unwrap();
        assert_eq!(found_count, count, "{shape:?}");
        assert_eq!(device.download(&found).unwrap()[..result.len()], result, "{shape:?}");
        all.extend(result);
    }
    all
}

#[test]
fn positions_of_what_is_not_zero() {
    under_schedules(|device| {
        let mut all = positions(device, &[0.0, -0.0], &[1.0, f32::NAN, 1e-45, f32::NEG_INFINITY]);
        all.extend(positions(device, &[0.0, -0.0], &[1.0, f64::NAN, 5e-324, f64::INFINITY]));
        all.extend(positions(device, &[0i64], &[1, -1, 1 << 32, i64::MIN]));
        all.extend(positions(device, &[0u8], &[1, 2, 255]));
        all
    });
}

#[test]
fn bad_arguments_are_refused() {
    on_device(|device| {
        let x = device.upload(&[1.0f32, 2.0]).unwrap();
        let text = |found: samebits_cuda_kernels::Result<sort::Found<f32>>| {
            found.map(|_| ()).unwrap_err().to_string()
        };
        assert_eq!(
            text(sort::sort(device, &x, [1, 3, 1], false)),
            "sort: expected the input with 3 elements, got 2"
        );
        assert_eq!(
            text(sort::topk(device, &x, [1, 2, 1], 3, true)),
            "topk: k must not exceed the dimension's size of 2, got 3"
        );
        assert_eq!(
            text(sort::kthvalue(device, &x, [1, 2, 1], 0)),
            "kthvalue: k must be from 1 to the dimension's size of 2, got 0"
        );
        let empty = device.upload::<f32>(&[]).unwrap();
        assert_eq!(
            text(sort::median(device, &empty, [1, 0, 1], false)),
            "median: no elements have no median"
        );
    });
}
