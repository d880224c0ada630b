use samebits::functional as f;
use samebits::ops::*;
use samebits::{DType, Result, Tensor, dispatch};

use super::sample::{Samples, each, normal};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        for (shape, dim) in [(vec![100_003], 0), (vec![50, 300], 1), (vec![60, 5, 7], 0)] {
            let x = make.wild(&shape, dtype, 240);
            let name = format!("{dtype} {shape:?} {dim}");
            for descending in [false, true] {
                let op = Sort { x: x.clone(), dim, descending };
                cases.add(format!("sort {name} {descending}"), op);
                let op = Topk { x: x.clone(), k: 17, dim, largest: descending };
                cases.add(format!("topk {name} {descending}"), op);
                let op = Median { x: x.clone(), dim, ignore_nan: descending };
                cases.add(format!("median {name} {descending}"), op);
            }
            cases.add(format!("kthvalue {name}"), Kthvalue { x: x.clone(), k: 20, dim });
            for consecutive in [false, true] {
                let op = Unique { x: x.clone(), consecutive };
                cases.add(format!("unique {name} {consecutive}"), op);
            }
        }
    }
    let x = make.indices(70_001, 300, 241);
    cases.add("sort i64", Sort { x: x.clone(), dim: 0, descending: false });
    for largest in [false, true] {
        cases.add(format!("topk i64 {largest}"), Topk { x: x.clone(), k: 600, dim: 0, largest });
    }
    cases.add("kthvalue i64", Kthvalue { x: x.clone(), k: 50_000, dim: 0 });
    cases.add("unique consecutive i64", Unique { x: x.clone(), consecutive: true });
    cases.add("unique i64", Unique { x, consecutive: false });
    // Few distinct values, so that slices repeat.
    let x = make.indices_of(&[70, 300, 2], 2, 242);
    for dtype in [DType::F32, DType::F64, DType::I64] {
        let x = make.here(dispatch(&Cast { x: x.clone(), to: dtype }).expect("a valid case"));
        for dim in 0..3 {
            for consecutive in [false, true] {
                let op = UniqueDim { x: x.clone(), dim, consecutive };
                cases.add(format!("unique_dim {dtype} {dim} {consecutive}"), op);
            }
        }
    }
    for dtype in FLOATS {
        let x = make.wild(&[900, 3], dtype, 243);
        cases.add(format!("unique_dim {dtype} wild"), UniqueDim { x, dim: 0, consecutive: false });
    }
}

/// A selection along a dimension; the flag means the direction, or that the dimension is kept.
type Selection = fn(&Tensor, usize, bool) -> Result<(Tensor, Tensor)>;

pub(super) fn samples(samples: &mut Samples) {
    for op in ["unique", "unique_dim"] {
        samples.no_batch(op, "one list of all");
    }
    let selections: [(_, Selection); _] = [
        ("sort", f::sort),
        ("topk", |x, dim, largest| f::topk(x, 3, dim, largest)),
        ("kthvalue", |x, dim, keep| f::kthvalue(x, 2, dim, keep)),
        ("median_dim", f::median_dim),
        ("nanmedian_dim", f::nanmedian_dim),
    ];
    for (name, selection) in selections {
        for dim in [0, 1] {
            for flag in [false, true] {
                samples
                    .add(format!("{name} {dim} {flag}"), move |x| selection(&x[0], dim, flag))
                    .twice([normal(&[5, 6]).squared()]);
            }
        }
    }
    samples.add("median", |x| f::median(&x[0])).twice([normal(&[5, 6]).squared()]);
    samples.add("nanmedian", |x| f::nanmedian(&x[0])).twice([normal(&[5, 6]).squared()]);
    let shapes: [&[usize]; _] = [&[3, 70_003], &[50, 300], &[9, 60, 7]];
    for downwards in [false, true] {
        let sample = samples.add(format!("sort, topk {downwards}"), move |x| {
            let (sorted, order) = f::sort(&x[0], 1, downwards)?;
            let (top, places) = f::topk(&x[0], 17, 1, downwards)?;
            let order_again = f::argsort(&x[0], 1, downwards)?;
            Ok(vec![sorted, order, top, places, order_again])
        });
        for shape in shapes {
            sample.batch([each(shape)]);
        }
    }
    let sample = samples.add("kthvalue, median, nanmedian", |x| {
        let (kth, place) = f::kthvalue(&x[0], 20, 1, true)?;
        let (median, middle) = f::median_dim(&x[0], 1, true)?;
        let (other, _) = f::nanmedian_dim(&x[0], 1, true)?;
        Ok(vec![kth, place, median, middle, other])
    });
    for shape in shapes {
        sample.batch([each(shape)]);
    }
}
