//! Embedding and embedding bags.

use crate::data::{Source, bits, clean, exact, order_sensitive, same};
use crate::device::{on_device, under_schedules, varies};
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::embedding::{
    BagMode, Bags, embedding_bag, embedding_bag_grad, embedding_bag_max, embedding_bag_max_grad,
    embedding_bag_weight_grad, embedding_grad,
};
use samebits_numerics::extrema::replaces_max;
use samebits_numerics::reduce::sum_by;

#[test]
fn table_gradients_are_exact() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for [rows, width, n] in [[30, 3, 40], [3, 5, 60]] {
            let mut source = Source::new(n as u64);
            let grad = source.broken(n * width);
            let index = source.indices(n, rows);
            for (padding, scale) in [(None, false), (Some(1), false), (None, true), (Some(2), true)]
            {
                let expected: Vec<f32> = (0..rows * width)
                    .map(|p| {
                        let (row, column) = (p / width, p % width);
                        let places: Vec<usize> = (0..n)
                            .filter(|&i| index[i] == row as i64 && padding != Some(row))
                            .collect();
                        let sum = exact(places.iter().map(|&i| grad[i * width + column]));
                        let divide = scale && places.len() > 1;
                        if divide { clean(sum / places.len() as f32) } else { sum }
                    })
                    .collect();
                let g = device.upload(&grad).unwrap();
                let idx = device.upload(&index).unwrap();
                let shape = [rows, width];
                let got =
                    embedding_grad(device, &g, &idx, shape, padding, scale, Deterministic).unwrap();
                let got = device.download(&got).unwrap();
                same(&format!("{rows} {padding:?} {scale}"), &got, &expected);
                all.extend(bits(&got));
            }
        }
        all
    });
}

#[test]
fn bags() {
    under_schedules(|device| {
        let (rows, width, n) = (12, 35, 50);
        let mut source = Source::new(3);
        let table = source.broken(rows * width);
        let index = source.indices(n, rows);
        let weights = source.plain(n);
        let offsets = [0i64, 3, 3, 20, 21, 49];
        let padding = Some(4);
        let bag_of = |b: usize| -> Vec<(usize, usize)> {
            let end = offsets.get(b + 1).map_or(n, |&o| o as usize);
            (offsets[b] as usize..end)
                .map(|place| (place, index[place] as usize))
                .filter(|&(_, row)| Some(row) != padding)
                .collect()
        };
        let grad = source.wild(offsets.len() * width);
        let idx = device.upload(&index).unwrap();
        let bags = Bags::new(device, rows, &idx, n, &offsets, padding).unwrap();
        let t = device.upload(&table).unwrap();
        let g = device.upload(&grad).unwrap();
        let w = device.upload(&weights).unwrap();

        for (mode, weighted) in
            [(BagMode::Sum, false), (BagMode::Sum, true), (BagMode::Mean, false)]
        {
            let expected: Vec<f32> = (0..offsets.len() * width)
                .map(|o| {
                    let places = bag_of(o / width);
                    let sum = places.iter().fold(0.0f64, |sum, &(place, row)| {
                        let x = f64::from(table[row * width + o % width]);
                        sum + if weighted { f64::from(weights[place]) * x } else { x }
                    });
                    let mean = mode == BagMode::Mean && !places.is_empty();
                    clean((sum / if mean { places.len() as f64 } else { 1.0 }) as f32)
                })
                .collect();
            let w = weighted.then_some(&w);
            let got = embedding_bag(device, &t, width, &bags, mode, w).unwrap();
            same(&format!("{mode:?} {weighted}"), &device.download(&got).unwrap(), &expected);

            for scale in [false, true] {
                let mut addends = vec![Vec::new(); rows];
                for b in 0..offsets.len() {
                    let places = bag_of(b);
                    for &(place, row) in &places {
                        addends[row].push((b, place, places.len()));
                    }
                }
                let expected: Vec<f32> = (0..rows * width)
                    .map(|p| {
                        let list = &addends[p / width];
                        let sum = exact(list.iter().map(|&(b, place, size)| {
                            let g = grad[b * width + p % width];
                            match (weighted, mode) {
                                (true, _) => g * weights[place],
                                (_, BagMode::Mean) => g / size as f32,
                                _ => g,
                            }
                        }));
                        let divide = scale && list.len() > 1;
                        if divide { clean(sum / list.len() as f32) } else { sum }
                    })
                    .collect();
                let got =
                    embedding_bag_grad(device, &g, width, &bags, mode, w, scale, Deterministic);
                let got = device.download(&got.unwrap()).unwrap();
                same(&format!("{mode:?} {weighted} gradient {scale}"), &got, &expected);
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
        let expected: Vec<f32> = winners
            .iter()
            .enumerate()
            .map(|(o, &r)| if r < 0 { 0.0 } else { clean(table[r as usize * width + o % width]) })
            .collect();
        same("maximum", &device.download(&y).unwrap(), &expected);
        let expected: Vec<f32> = (0..rows * width)
            .map(|p| {
                let here = |o: &usize| winners[*o] == (p / width) as i64 && o % width == p % width;
                exact((0..winners.len()).filter(here).map(|o| grad[o]))
            })
            .collect();
        let got =
            embedding_bag_max_grad(device, &g, &max_rows, [rows, width], Deterministic).unwrap();
        same("maximum gradient", &device.download(&got).unwrap(), &expected);

        let mut expected = vec![0.0f32; n];
        for b in 0..offsets.len() {
            for (place, row) in bag_of(b) {
                let dot = sum_by(width, |i| {
                    f64::from(grad[b * width + i]) * f64::from(table[row * width + i])
                });
                expected[place] = clean(dot as f32);
            }
        }
        let got = embedding_bag_weight_grad(device, &g, &t, width, &bags, n).unwrap();
        same("weights", &device.download(&got).unwrap(), &expected);
    });
}

#[test]
fn bad_offsets_are_refused() {
    on_device(|device| {
        let idx = device.upload(&[0i64; 4]).unwrap();
        assert!(Bags::new(device, 3, &idx, 4, &[1, 2], None).is_err());
        assert!(Bags::new(device, 3, &idx, 4, &[0, 3, 2], None).is_err());
        assert!(Bags::new(device, 3, &idx, 4, &[0, 5], None).is_err());
    });
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
        let bags = Bags::new(device, 2, &idx, n, &offsets, None).unwrap();
        let mode = BagMode::Sum;
        let got = embedding_bag_grad(device, &g, 1, &bags, mode, None, false, Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
    varies(|device| {
        let g = device.upload(&grad).unwrap();
        let rows = device.upload(&vec![1i64; n]).unwrap();
        // One column, so that all maxima share a place.
        let got = embedding_bag_max_grad(device, &g, &rows, [2, 1], Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
}
