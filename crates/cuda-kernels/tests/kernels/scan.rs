//! Running sums and products.

use crate::data::{Source, bits, clean, same, same64};
use crate::device::under_schedules;
use samebits_cuda_kernels::scan::{Scan, scan};

/// By the letter: tiles of 1024, runs of 32, carries in order.
fn line(x: &[f64], product: bool) -> Vec<f64> {
    let start = if product { 1.0 } else { 0.0 };
    let apply = |a: f64, b: f64| if product { a * b } else { a + b };
    let mut out = Vec::new();
    let mut carry = start;
    for tile in x.chunks(1024) {
        let mut before = start;
        for run in tile.chunks(32) {
            let mut local = start;
            for &x in run {
                local = apply(local, x);
                out.push(apply(carry, apply(before, local)));
            }
            before = apply(before, local);
        }
        carry = apply(carry, before);
    }
    out
}

fn expected(x: &[f64], [outer, n, inner]: [usize; 3], kind: Scan) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    for o in 0..outer * inner {
        let mut places: Vec<usize> =
            (0..n).map(|i| (o / inner * n + i) * inner + o % inner).collect();
        if kind == Scan::SumFromEnd {
            places.reverse();
        }
        let values: Vec<f64> = places.iter().map(|&p| x[p]).collect();
        for (p, y) in places.into_iter().zip(line(&values, kind == Scan::Product)) {
            out[p] = y;
        }
    }
    out
}

#[test]
fn scans_follow_the_tiles() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for shape in [[2, 0, 3], [3, 1, 2], [2, 100, 3], [1, 1024, 1], [2, 2500, 1], [1, 1030, 3]] {
            let n = shape.iter().product();
            for kind in [Scan::Sum, Scan::SumFromEnd, Scan::Product] {
                let mut source = Source::new(n as u64);
                let x = if kind == Scan::Product {
                    source.plain(n).iter().map(|x| 1.0 + x / 16.0).collect()
                } else {
                    source.broken(n)
                };
                let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                let result = expected(&wide, shape, kind);
                let result: Vec<f32> = result.iter().map(|&y| clean(y as f32)).collect();
                let buffer = device.upload(&x).unwrap();
                let got = device.download(&scan(device, &buffer, shape, kind).unwrap()).unwrap();
                let got = &got[..n];
                same(&format!("{shape:?} {kind:?}"), got, &result);
                all.extend(bits(got));
                if kind == Scan::Sum {
                    let wide: Vec<f64> =
                        Source::new(1).plain(n).iter().map(|&x| f64::from(x) * 1.1).collect();
                    let buffer = device.upload(&wide).unwrap();
                    let got =
                        device.download(&scan(device, &buffer, shape, kind).unwrap()).unwrap();
                    same64("f64", &got[..n], &expected(&wide, shape, kind));
                }
            }
        }
        all
    });
}
