use samebits::dispatch;
use samebits::ops::{AdamParams, AdamStep, SgdParams, SgdStep};

use super::{Batches, Make, plain};

pub(super) fn add(batches: &mut Batches, make: Make) {
    let each = |seed| make.each(&[5, 3001], seed);
    batches.add(make.name("sgd_step"), [each(70), each(71), each(72)], |x| {
        let [param, grad, velocity] = [0, 1, 2].map(|i| x[i].value().clone());
        let params = SgdParams {
            lr: 0.1,
            momentum: 0.9,
            dampening: 0.1,
            weight_decay: 0.01,
            nesterov: true,
        };
        let (param, velocity) =
            dispatch(&SgdStep { param, grad, velocity: Some(velocity), params })?;
        Ok([Some(param), velocity].into_iter().flatten().map(plain).collect())
    });
    batches.add(make.name("adam_step"), [each(73), each(74), each(75), each(76)], |x| {
        let [param, grad, mean] = [0, 1, 2].map(|i| x[i].value().clone());
        let square = x[3].detach().square()?.value().clone();
        let params = AdamParams {
            lr: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.01,
            decoupled: true,
        };
        let (param, mean, square) =
            dispatch(&AdamStep { param, grad, mean, square, step: 5, params })?;
        Ok([param, mean, square].map(plain).to_vec())
    });
}
