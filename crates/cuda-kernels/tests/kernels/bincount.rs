//! Histograms.

use crate::data::{Real, Source, bits, exact, order_sensitive, same, same_as};
use crate::device::{on_device, under_schedules, varies};
use samebits_cuda_kernels::Device;
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::bincount::{bincount, bincount_len, bincount_weighted, histc};

#[test]
fn counts_and_weighted_sums() {
    under_schedules(|device| {
        let mut all = Vec::new();
        // The first fits shared memory with its weights; the second has many values per bin, the
        // third few. Then more values than a block counts, and more bins.
        for [n, bins] in [[9000, 5], [4000, 300], [500, 400], [20_000, 3], [100, 4097]] {
            let mut source = Source::new(n as u64);
            let values = source.indices(n, bins);
            let weights = source.broken(n);
            let v = device.upload(&values).unwrap();
            let w = device.upload(&weights).unwrap();
            let expected: Vec<i64> = (0..bins as i64)
                .map(|bin| values.iter().filter(|&&v| v == bin).count() as i64)
                .collect();
            let counts = device.download(&bincount(device, &v, bins).unwrap()).unwrap();
            assert_eq!(counts, expected);
            let expected: Vec<f32> = (0..bins as i64)
                .map(|bin| {
                    let here = values.iter().zip(&weights).filter(|&(&v, _)| v == bin);
                    exact(here.map(|(_, &w)| w))
                })
                .collect();
            let got = bincount_weighted(device, &v, &w, bins, Deterministic).unwrap();
            let got = device.download(&got).unwrap();
            same(&format!("{n} values in {bins} bins"), &got, &expected);
            all.extend(bits(&got));
        }
        all
    });
}

#[test]
fn lengths_are_found() {
    on_device(|device| {
        let v = device.upload(&[3i64, 9, 0]).unwrap();
        assert_eq!(bincount_len(device, &v, 0), Ok(10));
        assert_eq!(bincount_len(device, &v, 20), Ok(20));
        let v = device.upload(&[3i64, -9, 0]).unwrap();
        assert!(bincount_len(device, &v, 0).is_err());
        let v = device.upload(&[0i64, 7, 2]).unwrap();
        bincount(device, &v, 5).unwrap();
        let error = device.synchronize().unwrap_err().to_string();
        assert_eq!(error, "bincount: index 7 at position 1 is out of range for size 5");
    });
}

#[test]
fn histograms_of_equal_bins() {
    under_schedules(|device| {
        let mut x = Source::new(4).plain(2000);
        x.extend([f32::NAN, 1.0, -1.0, 0.999_999_9, 5.0, f32::INFINITY]);
        for (low, high, bins) in [(-1.0f32, 1.0, 7), (-0.5, 0.25, 100)] {
            let mut expected = vec![0.0f32; bins];
            for &x in x.iter().filter(|&&x| x >= low && x <= high) {
                // Only the quotient is rounded.
                let [x, low, high] = [x, low, high].map(f64::from);
                let bin = ((x - low) * bins as f64 / (high - low)) as usize;
                expected[bin.min(bins - 1)] += 1.0;
            }
            let buffer = device.upload(&x).unwrap();
            let got = histc(device, &buffer, bins, low, high).unwrap();
            same("histc", &device.download(&got).unwrap(), &expected);
        }
        let buffer = device.upload(&[1.0f32, 2.0, 5.0, 5.0]).unwrap();
        let got = histc(device, &buffer, 4, 0.0, 0.0).unwrap();
        same("own range", &device.download(&got).unwrap(), &[1.0, 1.0, 0.0, 2.0]);
        let buffer = device.upload(&[3.0f32; 3]).unwrap();
        let got = histc(device, &buffer, 2, 0.0, 0.0).unwrap();
        same("no range", &device.download(&got).unwrap(), &[0.0, 3.0]);
        assert!(histc(device, &buffer, 0, 0.0, 1.0).is_err());
        assert!(histc(device, &buffer, 2, 1.0, 0.0).is_err());
    });
}

#[test]
fn numbers_on_edges_are_in_the_bin_above() {
    on_device(|device| {
        on_edges::<f32>(device);
        on_edges::<f64>(device);
    });
}

fn on_edges<T: Real>(device: &Device) {
    // The shared counters, and more bins than they hold.
    for bins in [1usize, 3, 49, 98, 103, 107, 161, 5000] {
        let largest = if T::WIDE { f64::MAX } else { f32::MAX.into() };
        let cases = [(0.0, bins as f64, 1.0), (-2.0, bins as f64 / 4.0 - 2.0, 0.25)];
        for (low, high, width) in cases {
            let x: Vec<T> = (0..=bins).map(|k| T::from_f64(low + k as f64 * width)).collect();
            let x = device.upload(&x).unwrap();
            let got = histc(device, &x, bins, T::from_f64(low), T::from_f64(high)).unwrap();
            let mut expected = vec![T::from_f64(1.0); bins];
            expected[bins - 1] = T::from_f64(2.0);
            same_as(&format!("{bins} bins"), &device.download(&got).unwrap(), &expected);
        }
        // The width of the range overflows the type.
        let x = [-largest, 0.0, largest].map(T::from_f64);
        let x = device.upload(&x).unwrap();
        let got = histc(device, &x, bins, T::from_f64(-largest), T::from_f64(largest)).unwrap();
        let mut expected = vec![0.0; bins];
        for bin in [0, bins / 2, bins - 1] {
            expected[bin] += 1.0;
        }
        let expected: Vec<T> = expected.into_iter().map(T::from_f64).collect();
        same_as("the whole type", &device.download(&got).unwrap(), &expected);
    }
}

#[test]
fn atomic_sums_vary() {
    let weights = order_sensitive(300);
    varies(|device| {
        let v = device.upload(&vec![1i64; 300]).unwrap();
        let w = device.upload(&weights).unwrap();
        bits(&device.download(&bincount_weighted(device, &v, &w, 2, Atomic).unwrap()).unwrap())
    });
}
