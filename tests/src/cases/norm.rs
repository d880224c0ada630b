use samebits::functional as f;
use samebits::ops::*;
use samebits::{DType, dispatch};

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
    }
}

fn of_type(cases: &mut Cases, make: Make, dtype: DType) {
    let input = make.normal(&[6, 10, 31, 17], dtype, 21);
    let grad = make.normal(&[6, 10, 31, 17], dtype, 22);
    let channel = |seed| make.normal(&[10], dtype, seed);
    let forward =
        BatchNorm { input: input.clone(), weight: channel(23), bias: channel(24), eps: 1e-5 };
    let (_, mean, var, rstd) = dispatch(&forward).expect("a valid case");
    let [mean, var, rstd] = [mean, var, rstd].map(|x| make.here(x));
    cases.add(format!("batch_norm {dtype}"), forward);
    cases.add(
        format!("batch_norm grad {dtype}"),
        BatchNormGrad { grad, input: input.clone(), weight: channel(23), mean: mean.clone(), rstd },
    );
    cases.add(
        format!("batch_norm_inference {dtype}"),
        BatchNormInference { input, weight: channel(23), bias: channel(24), mean, var, eps: 1e-5 },
    );
    let input = make.normal(&[40, 5, 91], dtype, 25);
    let row = |seed| make.normal(&[5, 91], dtype, seed);
    let forward = LayerNorm { input: input.clone(), weight: row(26), bias: row(27), eps: 1e-5 };
    let (_, mean, rstd) = dispatch(&forward).expect("a valid case");
    let [mean, rstd] = [mean, rstd].map(|x| make.here(x));
    cases.add(format!("layer_norm {dtype}"), forward);
    let grad = make.normal(&[40, 5, 91], dtype, 28);
    cases.add(
        format!("layer_norm grad {dtype}"),
        LayerNormGrad { grad, input, weight: row(26), mean, rstd },
    );
    let x = make.normal(&[3, 12, 20, 13], dtype, 65);
    let inputs = vec![x, make.normal(&[12], dtype, 66), make.normal(&[12], dtype, 67)];
    cases.graded(format!("group_norm {dtype}"), inputs.clone(), |x| {
        f::group_norm(&x[0], 4, Some(&x[1]), Some(&x[2]), 1e-5)
    });
    cases.graded(format!("instance_norm {dtype}"), inputs, |x| {
        Ok(f::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-5)?.0)
    });
}
