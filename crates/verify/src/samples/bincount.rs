use samebits::ops::*;

use super::sample::Samples;
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for (count, bound) in [(700_001, 1000), (1000, 50_000), (0, 1)] {
        let x = make.indices(count, bound, 250);
        cases.add(
            format!("bincount {count} {bound}"),
            Bincount { x: x.clone(), bins: Bins::AtLeast(5) },
        );
        for dtype in FLOATS {
            for (kind, weights) in [
                ("normal", make.normal(&[count], dtype, 251)),
                ("wild", make.wild(&[count], dtype, 252)),
            ] {
                let x = x.clone();
                cases.add(
                    format!("bincount {count} {bound} {dtype} {kind}"),
                    BincountWeighted { x, weights, bins: Bins::AtLeast(5) },
                );
            }
        }
    }
    for dtype in FLOATS {
        let x = make.normal(&[500_001], dtype, 253);
        for (min, max) in [(-1.0, 2.5), (0.0, 0.0)] {
            let op = Histc { x: x.clone(), bins: 37, min, max };
            cases.add(format!("histc {dtype} {min} {max}"), op);
        }
        let x = make.wild(&[5000], dtype, 254);
        cases.add(format!("histc {dtype} wild"), Histc { x, bins: 9, min: -3.0, max: 3.0 });
    }
}

pub(super) fn samples(samples: &mut Samples) {
    for op in ["bincount", "bincount_weighted", "histc"] {
        samples.no_batch(op, "one histogram of all");
    }
}
