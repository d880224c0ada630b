//! Embeddings and bags of embeddings against loops written from the definition.

use crate::exact::BigSum;
use crate::invariance::{Random, bits, everywhere};
use samebits_cpu_kernels::Error;
use samebits_cpu_kernels::embedding::{
    BagBounds, BagMode, Bags, embedding, embedding_backward, embedding_bag, embedding_bag_backward,
    embedding_bag_weights_backward,
};

#[test]
fn the_gradient_of_a_table_is_exact_and_padding_gets_none() {
    for (rows, width, n, seed) in [(5, 3, 40, 1), (1000, 33, 4000, 2), (10_000, 8, 9000, 3)] {
        let mut random = Random(seed);
        let index = random.indices(n, rows);
        let grad: Vec<f32> = random.wide(n * width);
        for (padding, scale) in [(None, false), (Some(2), false), (Some(0), true), (None, true)] {
            let mut sums = vec![BigSum::new(); rows * width];
            let mut counts = vec![0; rows];
            for (k, &row) in index.iter().enumerate().filter(|(_, r)| Some(**r as usize) != padding)
            {
                counts[row as usize] += 1;
                for j in 0..width {
                    sums[row as usize * width + j].add(grad[k * width + j]);
                }
            }
            let expected: Vec<f32> = sums
                .iter()
                .enumerate()
                .map(|(at, sum)| {
                    let count = counts[at / width];
                    if scale && count > 0 { sum.to_f32() / count as f32 } else { sum.to_f32() }
                })
                .collect();
            let got = everywhere(|| {
                let mut back = vec![9.0; rows * width];
                embedding_backward(&mut back, [rows, width], &index, &grad, padding, scale)
                    .unwrap();
                bits(&back)
            });
            assert!(got == bits(&expected), "{rows} x {width}, {padding:?}, {scale}");
        }
    }
}

#[test]
fn embedding_names_a_bad_index() {
    let mut out = [0.0f32; 4];
    let error = embedding(&mut out, &[1.0; 6], [3, 2], &[0, -1]).unwrap_err();
    assert_eq!(error, Error::IndexOutOfRange { op: "embedding", position: 1, index: -1, size: 3 });
    let mut back = [0.0f32; 6];
    let error = embedding_backward(&mut back, [3, 2], &[0, 3], &[0.0; 4], None, false).unwrap_err();
    assert_eq!(error, Error::IndexOutOfRange { op: "embedding", position: 1, index: 3, size: 3 });
}

/// Returns the positions of each bag, without padding.
fn members(index: &[i64], offsets: &[i64], last: bool, padding: Option<usize>) -> Vec<Vec<usize>> {
    let mut ends: Vec<usize> = offsets.iter().map(|&o| o as usize).collect();
    if !last {
        ends.push(index.len());
    }
    ends.windows(2)
        .map(|pair| (pair[0]..pair[1]).filter(|&k| Some(index[k] as usize) != padding).collect())
        .collect()
}

#[test]
fn bags_equal_the_definition() {
    let mut random = Random(4);
    for round in 0..60 {
        let (rows, width) = (1 + random.below(9), 1 + random.below(20));
        let n = random.below(40);
        let index = random.indices(n, rows);
        let mut offsets: Vec<i64> =
            (0..random.below(8)).map(|_| random.below(n + 1) as i64).collect();
        offsets.push(0);
        offsets.sort_unstable();
        let last = random.below(2) == 1;
        let padding = (random.below(2) == 1).then(|| random.below(rows));
        let freq = random.below(2) == 1;
        let weight: Vec<f32> = random.wide(rows * width);
        let bounds = BagBounds::new("embedding_bag", n, &offsets, last).unwrap();
        let bags = Bags::new(rows, &index, &bounds, padding).unwrap();
        let members = members(&index, &offsets, last, padding);
        assert_eq!(bags.len(), members.len());
        let grad: Vec<f32> = random.wide(members.len() * width);
        let samples: Vec<f32> = random.wide(n);
        let row_of = |k: usize| index[k] as usize;
        let cases = [
            (BagMode::Sum, None),
            (BagMode::Sum, Some(&samples[..])),
            (BagMode::Mean, None),
            (BagMode::Max, None),
        ];
        for (mode, samples) in cases {
            let (mut values, mut winners) = (Vec::new(), Vec::new());
            let mut sums = vec![BigSum::new(); rows * width];
            let mut counts = vec![0; rows];
            for (b, places) in members.iter().enumerate() {
                places.iter().for_each(|&k| counts[row_of(k)] += 1);
                for j in 0..width {
                    let g = grad[b * width + j];
                    let x = |k: usize| weight[row_of(k) * width + j];
                    let sum = places.iter().fold(0.0f64, |sum, &k| {
                        sum + samples.map_or(1.0, |s| f64::from(s[k])) * f64::from(x(k))
                    });
                    let mut best: Option<usize> = None;
                    for &k in places {
                        if best.is_none_or(|old| x(k) > x(old)) {
                            best = Some(k);
                        }
                    }
                    let size = places.len() as f32;
                    values.push(match mode {
                        BagMode::Sum => sum as f32,
                        BagMode::Mean => (sum / f64::from(size.max(1.0))) as f32,
                        BagMode::Max => best.map_or(0.0, x),
                    });
                    winners.push(best.map_or(-1, |k| index[k]));
                    for &k in places {
                        let addend = match mode {
                            BagMode::Sum => g * samples.map_or(1.0, |s| s[k]),
                            BagMode::Mean => g / size,
                            BagMode::Max if Some(k) == best => g,
                            BagMode::Max => continue,
                        };
                        sums[row_of(k) * width + j].add(addend);
                    }
                }
            }
            let scaled: Vec<f32> = sums
                .iter()
                .enumerate()
                .map(|(at, sum)| {
                    let count = counts[at / width];
                    if freq && mode != BagMode::Max && count > 0 {
                        sum.to_f32() / count as f32
                    } else {
                        sum.to_f32()
                    }
                })
                .collect();
            let run = || {
                let mut out = vec![9.0; values.len()];
                let mut found = vec![9; values.len()];
                embedding_bag(
                    &mut out,
                    (mode == BagMode::Max).then_some(&mut found[..]),
                    &weight,
                    width,
                    &bags,
                    mode,
                    samples,
                )
                .unwrap();
                let mut back = vec![9.0; rows * width];
                let max_rows = (mode == BagMode::Max).then_some(&found[..]);
                embedding_bag_backward(
                    &mut back, width, &grad, &bags, mode, max_rows, samples, freq,
                )
                .unwrap();
                (bits(&out), found, bits(&back))
            };
            let got = if round < 4 { everywhere(run) } else { run() };
            assert_eq!(got.0, bits(&values), "{mode:?}");
            if mode == BagMode::Max {
                assert_eq!(got.1, winners);
            }
            assert_eq!(got.2, bits(&scaled), "{mode:?} freq {freq}");
        }
        let mut by_sample = vec![9.0f32; n];
        embedding_bag_weights_backward(&mut by_sample, width, &grad, &weight, &bags).unwrap();
        let mut expected = vec![0.0f32; n];
        for (b, places) in members.iter().enumerate() {
            for &k in places {
                let sum = samebits_numerics::reduce::sum_by(width, |j| {
                    f64::from(grad[b * width + j]) * f64::from(weight[row_of(k) * width + j])
                });
                expected[k] = sum as f32;
            }
        }
        assert_eq!(bits(&by_sample), bits(&expected));
    }
}

#[test]
fn bags_that_make_no_sense_are_refused() {
    let message = |offsets: &[i64], last| {
        BagBounds::new("embedding_bag", 3, offsets, last).unwrap_err().to_string()
    };
    assert!(message(&[1], false).starts_with("embedding_bag: offset 1 at position 0"));
    assert!(message(&[0, 2, 1], false).starts_with("embedding_bag: offset 1 at position 2"));
    assert!(message(&[0, 4], false).starts_with("embedding_bag: offset 4 at position 1"));
    assert!(message(&[], true).starts_with("embedding_bag: include_last_offset"));
    let bounds = BagBounds::new("embedding_bag", 2, &[0], false).unwrap();
    assert!(Bags::new(3, &[0, 3], &bounds, None).is_err());
    assert!(Bags::new(3, &[0], &bounds, None).is_err());
    // Positions after the last bag are not read.
    let first = BagBounds::new("embedding_bag", 2, &[0, 1], true).unwrap();
    assert_eq!(Bags::new(3, &[0, 3], &first, None).unwrap().len(), 1);
    let bags = Bags::new(3, &[0, 1], &bounds, None).unwrap();
    let mut out = [0.0f32; 1];
    let weights = Some(&[1.0f32, 2.0][..]);
    assert!(embedding_bag(&mut out, None, &[0.0; 3], 1, &bags, BagMode::Mean, weights).is_err());
    let mut back = [0.0f32; 3];
    let error =
        embedding_bag_backward(&mut back, 1, &[1.0], &bags, BagMode::Max, None, None, false);
    assert!(error.is_err());
    let error =
        embedding_bag_backward(&mut back, 1, &[1.0], &bags, BagMode::Max, Some(&[3]), None, false);
    assert_eq!(
        error.unwrap_err(),
        Error::IndexOutOfRange { op: "embedding_bag", position: 0, index: 3, size: 3 }
    );
}
