use samebits::ops::*;
use samebits::{DType, Tensor, dispatch};

use super::sample::{Samples, each};
use super::{Cases, FLOATS, Make};

const SGD: SgdParams =
    SgdParams { lr: 0.1, momentum: 0.9, dampening: 0.1, weight_decay: 0.01, nesterov: true };
const ADAM: AdamParams = AdamParams {
    lr: 1e-3,
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    weight_decay: 0.01,
    decoupled: true,
};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
    }
}

fn of_type(cases: &mut Cases, make: Make, dtype: DType) {
    let tensor = |seed| make.normal(&[30_011], dtype, seed);
    for velocity in [None, Some(tensor(31))] {
        let name = format!("sgd_step {dtype} {}", velocity.is_some());
        cases.add(name, SgdStep { param: tensor(29), grad: tensor(30), velocity, params: SGD });
    }
    for decoupled in [false, true] {
        let params = AdamParams { decoupled, ..ADAM };
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

pub(super) fn samples(samples: &mut Samples) {
    let each = || each(&[5, 3001]);
    samples
        .add("sgd_step", |x| {
            let [param, grad, velocity] = [0, 1, 2].map(|i| x[i].value().clone());
            let (param, velocity) =
                dispatch(&SgdStep { param, grad, velocity: Some(velocity), params: SGD })?;
            Ok([Some(param), velocity].into_iter().flatten().map(Tensor::from).collect::<Vec<_>>())
        })
        .batch([each(), each(), each()]);
    samples
        .add("adam_step", |x| {
            let [param, grad, mean, square] = [0, 1, 2, 3].map(|i| x[i].value().clone());
            let op = AdamStep { param, grad, mean, square, step: 5, params: ADAM };
            let (param, mean, square) = dispatch(&op)?;
            Ok([param, mean, square].map(Tensor::from).to_vec())
        })
        .batch([each(), each(), each(), each().squared()]);
}
