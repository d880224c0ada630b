use samebits::functional as f;
use samebits::ops::*;
use samebits::{DType, Result, Tensor, dispatch};

use super::sample::{Samples, each, normal};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        for (shape, dim) in [
            (vec![300_007], 0),
            (vec![33, 5000], 1),
            (vec![2050, 37], 0),
            (vec![3, 1, 5], 1),
            (vec![4, 0], 1),
        ] {
            of_shape(cases, make, dtype, &shape, dim);
        }
        let x = make.wild(&[40, 1000], dtype, 220);
        for dim in [0, 1] {
            let name = format!("{dtype} wild {dim}");
            cases.add(format!("cumsum {name}"), Cumsum { x: x.clone(), dim, reverse: false });
            cases.add(format!("logcumsumexp {name}"), Logcumsumexp { x: x.clone(), dim });
            for largest in [false, true] {
                let op = Cumextreme { x: x.clone(), dim, largest };
                cases.add(format!("cumextreme {name} {largest}"), op);
            }
        }
    }
}

fn of_shape(cases: &mut Cases, make: Make, dtype: DType, shape: &[usize], dim: usize) {
    let (x, grad) = (make.normal(shape, dtype, 221), make.normal(shape, dtype, 222));
    let name = format!("{dtype} {shape:?} {dim}");
    for reverse in [false, true] {
        let op = Cumsum { x: x.clone(), dim, reverse };
        cases.add(format!("cumsum {name} {reverse}"), op);
    }
    // Numbers near one, so that products neither vanish nor overflow.
    let near = dispatch(&Affine { x: x.clone(), scale: 0.01, shift: 1.0 }).expect("a valid case");
    let near = make.here(near);
    cases.add(format!("cumprod {name}"), Cumprod { x: near.clone(), dim });
    let op = CumprodGrad { grad: grad.clone(), x: near.clone(), dim };
    cases.add(format!("cumprod grad {name}"), op);
    let op = CumprodGradGrad { outer: x.clone(), grad: grad.clone(), x: near, dim };
    cases.add(format!("cumprod grad grad {name}"), op);
    let y = dispatch(&Logcumsumexp { x: x.clone(), dim }).expect("a valid case");
    let y = make.here(y);
    cases.add(format!("logcumsumexp {name}"), Logcumsumexp { x: x.clone(), dim });
    let op = LogcumsumexpGrad { grad, x: x.clone(), y, dim };
    cases.add(format!("logcumsumexp grad {name}"), op);
    cases.add(format!("cumextreme {name}"), Cumextreme { x, dim, largest: true });
}

/// A scan along a dimension.
type Scan = fn(&Tensor, usize) -> Result<Tensor>;

pub(super) fn samples(samples: &mut Samples) {
    let shapes: [&[usize]; _] = [&[5, 40_007], &[33, 500], &[9, 2050, 7]];
    let scans: [(_, Scan); _] = [
        ("cumsum", f::cumsum),
        ("cumprod", f::cumprod),
        ("logcumsumexp", f::logcumsumexp),
        ("cummax", |x, dim| Ok(f::cummax(x, dim)?.0)),
        ("cummin", |x, dim| Ok(f::cummin(x, dim)?.0)),
    ];
    for (name, scan) in scans {
        for dim in [0, 1, 2] {
            let x = normal(&[3, 5, 2]);
            let sample = samples.add(format!("{name} {dim}"), move |x| scan(&x[0], dim));
            match name {
                "cumprod" => sample.twice([x]),
                "logcumsumexp" => sample.thrice([x.clone()]).twice([x.by(|x| x.affine(3.0, 1.0))]),
                _ => sample.twice([x.squared()]),
            };
            // Numbers near one, so that products neither vanish nor overflow.
            for shape in shapes.iter().filter(|_| dim == 1 && !name.starts_with("cumm")) {
                let x = each(shape);
                sample.batch([if name == "cumprod" { x.near_one() } else { x }]);
            }
        }
    }
    let both = samples.add("cummax, cummin", |x| {
        let ((largest, place), (least, other)) = (f::cummax(&x[0], 1)?, f::cummin(&x[0], 1)?);
        Ok(vec![largest, place, least, other])
    });
    for shape in shapes {
        both.batch([each(shape)]);
    }
    let twice = samples.add("cumprod, twice", |x| {
        let [outer, grad, x] = [0, 1, 2].map(|i| x[i].value().clone());
        let (of_grad, of_x) = dispatch(&CumprodGradGrad { outer, grad, x, dim: 1 })?;
        Ok(vec![Tensor::from(of_grad), Tensor::from(of_x)])
    });
    for shape in shapes {
        twice.batch([each(shape), each(shape), each(shape).near_one()]);
    }
    samples
        .add("logcumsumexp, long", |x| f::logcumsumexp(&x[0], 0))
        .once("many elements, each of which moves", [normal(&[1100])]);
    // Zeros make some products vanish, but not their derivatives.
    let zeros = samples.add("cumprod with zeros", |x| f::cumprod(&x[0], 0));
    for rows in [&[1][..], &[0], &[4], &[1, 3], &[0, 4], &[1, 2, 3]] {
        let places: Vec<usize> = rows.iter().flat_map(|row| [2 * row, 2 * row + 1]).collect();
        zeros.twice([normal(&[5, 2]).zeros_at(&places)]);
    }
}
