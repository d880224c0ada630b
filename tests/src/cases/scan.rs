use samebits::ops::*;
use samebits::{DType, dispatch};

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
    // Near one, so that products neither vanish nor overflow.
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
