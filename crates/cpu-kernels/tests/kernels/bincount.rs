//! Histograms.

use crate::exact::BigSum;
use crate::invariance::{Random, bits, everywhere};
use samebits_cpu_kernels::Error;
use samebits_cpu_kernels::bincount::{bincount, bincount_len, bincount_weighted, histc};

#[test]
fn counts_and_exact_weights() {
    for (n, bins, seed) in [(0, 3, 1), (500, 7, 2), (600_000, 100, 3), (300_000, 90_000, 4)] {
        let mut random = Random(seed);
        let values = random.indices(n, bins);
        let weights: Vec<f32> = random.wide(n);
        let mut counts = vec![0i64; bins];
        let mut sums = vec![BigSum::new(); bins];
        for (&value, &weight) in values.iter().zip(&weights) {
            counts[value as usize] += 1;
            sums[value as usize].add(weight);
        }
        let expected: Vec<f32> = sums.iter().map(BigSum::to_f32).collect();
        let got = everywhere(|| {
            let mut out = vec![7; bins];
            bincount(&mut out, &values).unwrap();
            let mut weighted = vec![7.0; bins];
            bincount_weighted(&mut weighted, &values, &weights).unwrap();
            (out, bits(&weighted))
        });
        assert!(got == (counts, bits(&expected)), "{n} values, {bins} bins");
        assert_eq!(
            bincount_len(&values, 0).unwrap(),
            values.iter().max().map_or(0, |&m| m as usize + 1)
        );
        assert_eq!(bincount_len(&values, 200_000).unwrap(), 200_000);
    }
}

#[test]
fn the_edges_of_histc() {
    let mut out = [9.0f32; 4];
    let values = [0.0, 4.0, 3.999, 1.0, -0.1, 4.1, f32::NAN, 2.5];
    histc(&mut out, &values, 0.0, 4.0).unwrap();
    assert_eq!(out, [1.0, 1.0, 1.0, 2.0]);
    // Without a range, that of the data.
    histc(&mut out, &[1.0, 2.0, 5.0], 0.0, 0.0).unwrap();
    assert_eq!(out, [1.0, 1.0, 0.0, 1.0]);
    histc(&mut out, &[3.0, 3.0], 0.0, 0.0).unwrap();
    assert_eq!(out, [0.0, 0.0, 2.0, 0.0]);
    histc(&mut out, &[], 0.0, 0.0).unwrap();
    assert_eq!(out, [0.0; 4]);
    assert!(histc::<f32>(&mut [], &[1.0], 0.0, 1.0).is_err());
    assert!(histc(&mut out, &[1.0], 2.0, 1.0).is_err());
    assert!(histc(&mut out, &[1.0], 0.0, f32::INFINITY).is_err());
    assert!(histc(&mut out, &[1.0, f32::NAN], 0.0, 0.0).is_err());
}

#[test]
fn histc_is_the_same_everywhere() {
    let mut random = Random(9);
    let values: Vec<f64> = random.units(700_000);
    let got = everywhere(|| {
        let mut out = vec![0.0; 33];
        histc(&mut out, &values, -0.5, 0.75).unwrap();
        bits(&out)
    });
    let mut plain = vec![0.0f64; 33];
    for &x in values.iter().filter(|&&x| (-0.5..=0.75).contains(&x)) {
        plain[(((x + 0.5) / 1.25 * 33.0) as usize).min(32)] += 1.0;
    }
    assert_eq!(got, bits(&plain));
}

#[test]
fn bad_values_are_refused() {
    let mut out = [7i64; 3];
    let error = bincount(&mut out, &[0, 3]).unwrap_err();
    assert_eq!(error, Error::IndexOutOfRange { op: "bincount", position: 1, index: 3, size: 3 });
    assert_eq!(out, [7; 3]);
    assert_eq!(
        bincount_len(&[2, -5, 1], 0).unwrap_err().to_string(),
        "bincount: values must not be negative, got -5"
    );
    assert!(bincount_len(&[i64::MAX], 0).is_ok());
    let mut weighted = [7.0f32; 3];
    assert!(bincount_weighted(&mut weighted, &[0, 1], &[1.0]).is_err());
    assert!(bincount_weighted(&mut weighted, &[0, -1], &[1.0, 1.0]).is_err());
    assert_eq!(weighted, [7.0; 3]);
}
