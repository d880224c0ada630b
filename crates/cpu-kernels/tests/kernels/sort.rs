//! Sorting and selection against a stable sort of the standard library.

use crate::invariance::{Random, bits, everywhere};
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::sort::{
    Sortable, kthvalue, median, nanmedian, sort, topk, unique, unique_consecutive,
};
use std::cmp::Ordering;

/// Compares with NaN last, all NaNs equal, and both zeros equal.
fn compare<T: Float>(a: &T, b: &T) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.partial_cmp(b).expect("numbers compare"),
    }
}

fn ties<T: Float>(random: &mut Random, n: usize) -> Vec<T> {
    (0..n)
        .map(|_| match random.below(14) {
            0 => T::from_f64(-f64::NAN),
            1 => T::from_f64(-0.0),
            2 => T::ZERO,
            3 => T::LOWEST,
            4 => T::HIGHEST,
            _ => T::from_f64(random.below(40) as f64 - 20.0),
        })
        .collect()
}

/// Sorts a third of the lines, and another third from the largest element on.
fn put_in_order<T: Float>(x: &mut [T], [outer, dim, inner]: [usize; 3]) {
    for (o, j) in (0..outer).flat_map(|o| (0..inner).map(move |j| (o, j))) {
        let at = |i: usize| (o * dim + i) * inner + j;
        let mut line: Vec<T> = (0..dim).map(|i| x[at(i)]).collect();
        match (o + j) % 3 {
            0 => continue,
            1 => line.sort_by(compare),
            _ => line.sort_by(|a, b| compare(b, a)),
        }
        line.into_iter().enumerate().for_each(|(i, element)| x[at(i)] = element);
    }
}

fn check<T: Float + Sortable>(seed: u64) {
    let mut random = Random(seed);
    let short = (1..=17).flat_map(|dim| [[23, dim, 1], [3, dim, 7], [601, dim, 3], [1, dim, 530]]);
    let long = [[1, 1, 1], [2, 40, 5], [1, 100_000, 1], [5, 300, 2]];
    for shape in short.chain(long) {
        let [outer, dim, inner] = shape;
        let mut x: Vec<T> = ties(&mut random, outer * dim * inner);
        put_in_order(&mut x, shape);
        let k = 1 + random.below(dim);
        for descending in [false, true] {
            let mut order = vec![0i64; x.len()];
            for o in 0..outer {
                for j in 0..inner {
                    let at = |i: usize| (o * dim + i) * inner + j;
                    let mut line: Vec<usize> = (0..dim).collect();
                    line.sort_by(|&a, &b| {
                        let order = compare(&x[at(a)], &x[at(b)]);
                        if descending { order.reverse() } else { order }
                    });
                    for (place, &i) in line.iter().enumerate() {
                        order[at(place)] = i as i64;
                    }
                }
            }
            let pick = |k: usize, from: usize| -> (Vec<u64>, Vec<i64>) {
                let (mut values, mut indices) = (Vec::new(), Vec::new());
                for o in 0..outer {
                    for place in from..from + k {
                        for j in 0..inner {
                            let i = order[(o * dim + place) * inner + j];
                            values.push(x[(o * dim + i as usize) * inner + j]);
                            indices.push(i);
                        }
                    }
                }
                (bits(&values), indices)
            };
            let got = everywhere(|| {
                let (mut values, mut indices) = (x.clone(), vec![0; x.len()]);
                sort(&x, shape, descending, &mut values, &mut indices).unwrap();
                (bits(&values), indices)
            });
            assert!(got == pick(dim, 0), "{shape:?} descending {descending}");
            let n = outer * k * inner;
            let (mut values, mut indices) = (vec![T::ONE; n], vec![0; n]);
            topk(&x, shape, k, descending, &mut values, &mut indices).unwrap();
            assert!((bits(&values), indices) == pick(k, 0), "{shape:?} k {k}");
            if !descending {
                let n = outer * inner;
                let (mut values, mut indices) = (vec![T::ONE; n], vec![0; n]);
                kthvalue(&x, shape, k, &mut values, &mut indices).unwrap();
                assert!((bits(&values), indices) == pick(1, k - 1), "{shape:?} kth {k}");
                let (mut values, mut indices) = (vec![T::ONE; n], vec![0; n]);
                nanmedian(&x, shape, &mut values, &mut indices).unwrap();
                let mut medians = vec![0; n];
                for (line, median) in medians.iter_mut().enumerate() {
                    let (o, j) = (line / inner, line % inner);
                    let at = |i: usize| (o * dim + i) * inner + j;
                    let numbers = (0..dim).filter(|&i| !x[at(i)].is_nan()).count();
                    *median = order[at(numbers.saturating_sub(1) / 2)];
                }
                assert_eq!(indices, medians, "{shape:?}");
            }
        }
    }
}

#[test]
fn sorting_and_selection_equal_a_stable_sort() {
    check::<f32>(1);
    check::<f64>(2);
}

#[test]
fn medians() {
    let nan = -f32::NAN;
    let case = |x: &[f32]| {
        let (mut value, mut index) = ([0.0], [9]);
        median(x, [1, x.len(), 1], &mut value, &mut index).unwrap();
        let (mut other, mut place) = ([0.0], [9]);
        nanmedian(x, [1, x.len(), 1], &mut other, &mut place).unwrap();
        (value[0].to_bits(), index[0], other[0].to_bits(), place[0])
    };
    assert_eq!(case(&[3.0, 1.0, 2.0]), (0x4000_0000, 2, 0x4000_0000, 2));
    assert_eq!(case(&[2.0, 1.0, 2.0, 3.0]), (0x4000_0000, 0, 0x4000_0000, 0));
    assert_eq!(case(&[1.0, nan, nan, 0.0]), (0x7fc0_0000, 1, 0, 3));
    assert_eq!(case(&[nan, nan]), (0x7fc0_0000, 0, 0x7fc0_0000, 0));
    assert!(median::<f32>(&[], [1, 0, 1], &mut [0.0], &mut [0]).is_err());
    median::<f32>(&[], [0, 0, 1], &mut [], &mut []).unwrap();
}

#[test]
fn distinct_values() {
    let got = unique(&[2.0f32, -0.0, 0.0, f32::NAN, 2.0, f32::NAN]).unwrap();
    assert_eq!(bits(&got.values)[..2], [0x8000_0000, 0x4000_0000]);
    assert_eq!(got.values.len(), 4);
    assert_eq!(got.inverse, [1, 0, 0, 2, 1, 3]);
    assert_eq!(got.counts, [2, 2, 1, 1]);
    let got = unique(&[i64::MAX, -1, i64::MIN, -1]).unwrap();
    assert_eq!(got.values, [i64::MIN, -1, i64::MAX]);
    assert_eq!(got.inverse, [2, 1, 0, 1]);
    assert_eq!(unique_consecutive(&[1.0, 1.0, 2.0, 1.0]).unwrap().inverse, [0, 0, 1, 2]);
    assert!(unique::<f64>(&[]).unwrap().values.is_empty());
    let mut random = Random(3);
    let values = random.indices(300_000, 1000);
    let everywhere = everywhere(|| unique(&values).unwrap());
    assert_eq!(everywhere.values, (0..1000).collect::<Vec<i64>>());
    assert_eq!(everywhere.counts.iter().sum::<i64>(), 300_000);
    // Close integers are counted, others sorted; also at the limits of the type.
    let spread = [(-9, 39), (7, 1 << 20), (-5, 1 << 40)];
    for (first, step) in [(i64::MIN, 1), (-70, 3), (i64::MAX - 199, 1)].into_iter().chain(spread) {
        let input: Vec<i64> = random.indices(1000, 200).iter().map(|i| first + i * step).collect();
        let mut values = input.clone();
        values.sort_unstable();
        values.dedup();
        let found = unique(&input).unwrap();
        assert_eq!(found.values, values);
        for (place, value) in values.iter().enumerate() {
            let count = input.iter().filter(|&x| x == value).count();
            assert_eq!(found.counts[place], count as i64);
        }
        assert!(input.iter().zip(&found.inverse).all(|(x, &place)| values[place as usize] == *x));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (mut values, mut indices) = ([0.0f32; 2], [0i64; 2]);
    let message = topk(&[1.0, 2.0], [1, 2, 1], 3, true, &mut values, &mut indices).unwrap_err();
    assert_eq!(message.to_string(), "topk: k must not exceed the dimension's size of 2, got 3");
    let x = [1.0, 2.0];
    assert!(kthvalue(&x, [1, 2, 1], 0, &mut values[..1], &mut indices[..1]).is_err());
    assert!(kthvalue(&x, [1, 2, 1], 3, &mut values[..1], &mut indices[..1]).is_err());
    assert!(sort(&x, [1, 3, 1], true, &mut values, &mut indices).is_err());
    topk::<f32>(&x, [1, 2, 1], 0, true, &mut [], &mut []).unwrap();
    sort::<f32>(&[], [1, 0, 4], true, &mut [], &mut []).unwrap();
}
