use samebits::ops::*;
use samebits::{DType, dispatch};

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
    }
}

fn of_type(cases: &mut Cases, make: Make, dtype: DType) {
    let tensor = |seed| make.normal(&[30_011], dtype, seed);
    let params =
        SgdParams { lr: 0.1, momentum: 0.9, dampening: 0.1, weight_decay: 0.01, nesterov: true };
    for velocity in [None, Some(tensor(31))] {
        let name = format!("sgd_step {dtype} {}", velocity.is_some());
        cases.add(name, SgdStep { param: tensor(29), grad: tensor(30), velocity, params });
    }
    for decoupled in [false, true] {
        let params = AdamParams {
            lr: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.01,
            decoupled,
        };
        let square = dispatch(&Unary { kind: UnaryKind::Square, x: tensor(33) }).expect("floats");
        let square = make.here(square);
        cases.add(
            format!("adam_step {dtype} {decoupled}"),
            AdamStep {
                param: tensor(29),
                grad: tensor(30),
                mean: tensor(32),
                square,
                step: 5,
                params,
            },
        );
    }
}
