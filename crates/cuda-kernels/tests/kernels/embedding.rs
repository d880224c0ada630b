//! Embedding and embedding bags.

use crate::data::{Real, Source, bits, numbers, order_sensitive, same_as};
use crate::device::{on_device, under_schedules, varies};
use samebits_cuda_kernels::Device;
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::embedding::{
    BagMode, Bags, embedding_bag, embedding_bag_grad, embedding_bag_max, embedding_bag_max_grad,
    embedding_bag_weight_grad, embedding_grad,
};
use samebits_numerics::extrema::replaces_max;
use samebits_numerics::nan::canonical;
use samebits_numerics::reduce::sum_by;
use samebits_tensor_core::geometry::BagBounds;

fn wide<T: Real>(x: T) -> f64 {
    x.into()
}

fn count<T: Real>(n: usize) -> T {
    T::from_f64(n as f64)
}

#[test]
fn table_gradients_are_exact_or_in_order() {
    under_schedules(|device| {
        let mut all = table_gradients::<f32>(device);
        all.extend(table_gradients::<f64>(device));
        all
    });
}

fn table_gradients<T: Real>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    for [rows, width, n] in [[30, 3, 40], [3, 5, 60]] {
        let mut source = Source::new(n as u64);
        let grad = T::broken(&mut source, n * width);
        let index = source.indices(n, rows);
        for (padding, scale) in [(None, false), (Some(1), false), (None, true), (Some(2), true)] {
            let expected: Vec<T> = (0..rows * width)
                .map(|p| {
                    let (row, column) = (p / width, p % width);
                    let places: Vec<usize> = (0..n)
                        .filter(|&i| index[i] == row as i64 && padding != Some(row))
                        .collect();
                    let sum = T::sum(places.iter().map(|&i| grad[i * width + column]));
                    let divide = scale && places.len() > 1;
                    if divide { canonical(sum / count::<T>(places.len())) } else { sum }
                })
                .collect();
            let g = device.upload(&grad).unwrap();
            let idx = device.upload(&index).unwrap();
            let shape = [rows, width];
            let got =
                embedding_grad(device, &g, &idx, shape, padding, scale, Deterministic).unwrap();
            let got = device.download(&got).unwrap();
            same_as(&format!("{rows} {padding:?} {scale}"), &got, &expected);
            all.extend(numbers(&got));
        }
    }
    all
}

#[test]
fn bags_of_rows() {
    under_schedules(|device| {
        bags::<f32>(device, [12, 35, 50]);
        bags::<f64>(device, [12, 35, 50]);
        // One row has so many places that its segment is cut.
        bags::<f32>(device, [100, 5, 700]);
    });
}

fn bags<T: Real>(device: &Device, [rows, width, n]: [usize; 3]) {
    let mut source = Source::new(3);
    let table = T::broken(&mut source, rows * width);
    let mut index = source.indices(n, rows);
    if n > 256 {
        index[..n - 100].fill(7);
    }
    let weights = T::wild(&mut source, n);
    let offsets = [0i64, 3, 3, 20, 21, 49];
    let padding = Some(4);
    let bag_of = |b: usize| -> Vec<(usize, usize)> {
        let end = offsets.get(b + 1).map_or(n, |&o| o as usize);
        (offsets[b] as usize..end)
            .map(|place| (place, index[place] as usize))
            .filter(|&(_, row)| Some(row) != padding)
            .collect()
    };
    let grad = T::wild(&mut source, offsets.len() * width);
    let idx = device.upload(&index).unwrap();
    let bounds = BagBounds::new("embedding_bag", n, &offsets, false).unwrap();
    let bags = Bags::new(device, "embedding_bag", rows, &idx, &bounds, padding).unwrap();
    let t = device.upload(&table).unwrap();
    let g = device.upload(&grad).unwrap();
    let w = device.upload(&weights).unwrap();

    for (mode, weighted) in [(BagMode::Sum, false), (BagMode::Sum, true), (BagMode::Mean, false)] {
        let expected: Vec<T> = (0..offsets.len() * width)
            .map(|o| {
                let places = bag_of(o / width);
                let sum = places.iter().fold(0.0, |sum, &(place, row)| {
                    let x = wide(table[row * width + o % width]);
                    sum + if weighted { wide(weights[place]) * x } else { x }
                });
                let mean = mode == BagMode::Mean && !places.is_empty();
                canonical(T::from_f64(sum / if mean { places.len() as f64 } else { 1.0 }))
            })
            .collect();
        let w = weighted.then_some(&w);
        let got = embedding_bag(device, &t, width, &bags, mode, w).unwrap();
        same_as(&format!("{mode:?} {weighted}"), &device.download(&got).unwrap(), &expected);

        for scale in [false, true] {
            let mut addends = vec![Vec::new(); rows];
            for b in 0..offsets.len() {
                let places = bag_of(b);
                for &(place, row) in &places {
                    addends[row].push((b, place, places.len()));
                }
            }
            let expected: Vec<T> = (0..rows * width)
                .map(|p| {
                    let list = &addends[p / width];
                    let sum = T::sum(list.iter().map(|&(b, place, size)| {
                        let g = grad[b * width + p % width];
                        match (weighted, mode) {
                            (true, _) => g * weights[place],
                            (_, BagMode::Mean) => g / count(size),
                            _ => g,
                        }
                    }));
                    let divide = scale && list.len() > 1;
                    if divide { canonical(sum / count::<T>(list.len())) } else { sum }
                })
                .collect();
            let got = embedding_bag_grad(device, &g, width, &bags, mode, w, scale, Deterministic);
            let got = device.download(&got.unwrap()).unwrap();
            same_as(&format!("{mode:?} {weighted} gradient {scale}"), &got, &expected);
        }
    }

    let winners: Vec<i64> = (0..offsets.len() * width)
        .map(|o| {
            bag_of(o / width).iter().fold(-1i64, |best, &(_, row)| {
                let at = |row: usize| table[row * width + o % width];
                let wins = best < 0 || replaces_max(at(best as usize), at(row));
                if wins { row as i64 } else { best }
            })
        })
        .collect();
    let (y, max_rows) = embedding_bag_max(device, &t, width, &bags).unwrap();
    assert_eq!(device.download(&max_rows).unwrap(), winners);
    let expected: Vec<T> =
        winners
            .iter()
            .enumerate()
            .map(|(o, &r)| {
                if r < 0 { T::default() } else { canonical(table[r as usize * width + o % width]) }
            })
            .collect();
    same_as("maximum", &device.download(&y).unwrap(), &expected);
    let expected: Vec<T> = (0..rows * width)
        .map(|p| {
            let here = |o: &usize| winners[*o] == (p / width) as i64 && o % width == p % width;
            T::sum((0..winners.len()).filter(here).map(|o| grad[o]))
        })
        .collect();
    let got = embedding_bag_max_grad(device, &g, &max_rows, [rows, width], Deterministic).unwrap();
    same_as("maximum gradient", &device.download(&got).unwrap(), &expected);

    let mut expected = vec![T::default(); n];
    for b in 0..offsets.len() {
        for (place, row) in bag_of(b) {
            let dot = sum_by(width, |i| wide(grad[b * width + i]) * wide(table[row * width + i]));
            expected[place] = canonical(T::from_f64(dot));
        }
    }
    let got = embedding_bag_weight_grad(device, &g, &t, width, &bags, n).unwrap();
    same_as("weights", &device.download(&got).unwrap(), &expected);
}

#[test]
fn bags_of_another_index_are_refused() {
    on_device(|device| {
        let idx = device.upload(&[0i64; 4]).unwrap();
        let bounds = BagBounds::new("embedding_bag", 5, &[0, 2], false).unwrap();
        assert!(Bags::new(device, "embedding_bag", 3, &idx, &bounds, None).is_err());
    });
}

#[test]
fn a_bad_index_is_reported_under_the_name_of_the_operation() {
    for op in ["embedding_bag", "embedding_bag_weights"] {
        on_device(|device| {
            let idx = device.upload(&[0i64, 3]).unwrap();
            let bounds = BagBounds::new(op, 2, &[0], false).unwrap();
            let _bags = Bags::new(device, op, 3, &idx, &bounds, None).unwrap();
            let error = device.synchronize().unwrap_err().to_string();
            assert_eq!(error, format!("{op}: index 3 at position 1 is out of range for size 3"));
        });
    }
}

#[test]
fn atomic_gradients_vary() {
    let n = 300;
    let grad = order_sensitive(n);
    varies(|device| {
        let g = device.upload(&grad).unwrap();
        let idx = device.upload(&vec![1i64; n]).unwrap();
        let got = embedding_grad(device, &g, &idx, [2, 1], None, false, Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
    varies(|device| {
        let g = device.upload(&grad).unwrap();
        let idx = device.upload(&vec![1i64; n]).unwrap();
        let offsets: Vec<i64> = (0..n as i64).collect();
        let bounds = BagBounds::new("embedding_bag", n, &offsets, false).unwrap();
        let bags = Bags::new(device, "embedding_bag", 2, &idx, &bounds, None).unwrap();
        let mode = BagMode::Sum;
        let got = embedding_bag_grad(device, &g, 1, &bags, mode, None, false, Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
    varies(|device| {
        let g = device.upload(&grad).unwrap();
        let rows = device.upload(&vec![1i64; n]).unwrap();
        // One column, so that all maxima share a position.
        let got = embedding_bag_max_grad(device, &g, &rows, [2, 1], Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
}
