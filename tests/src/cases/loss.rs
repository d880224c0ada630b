use samebits::dispatch;
use samebits::ops::*;

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        let x = make.normal(&[300, 67], dtype, 39);
        for dim in [0, 1] {
            let y = dispatch(&LogSoftmax { x: x.clone(), dim }).expect("a valid case");
            cases.add(format!("log_softmax {dtype} {dim}"), LogSoftmax { x: x.clone(), dim });
            let grad = make.normal(&[300, 67], dtype, 40);
            cases.add(format!("log_softmax grad {dtype} {dim}"), LogSoftmaxGrad { grad, y, dim });
        }
        let x = make.wild(&[30, 40], dtype, 41);
        cases.add(format!("log_softmax {dtype} wild"), LogSoftmax { x, dim: 1 });
    }
    for dtype in FLOATS {
        let target = make.indices(300, 67, 42);
        let log_probs = make.normal(&[300, 67], dtype, 43);
        cases.add(format!("nll_loss {dtype}"), NllLoss { log_probs, target: target.clone() });
        let grad = make.normal(&[], dtype, 44);
        cases.add(format!("nll_loss grad {dtype}"), NllLossGrad { grad, target, classes: 67 });
    }
}
