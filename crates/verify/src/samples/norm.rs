use samebits::functional as f;
use samebits::ops::*;
use samebits::{DType, dispatch};

use super::sample::{Samples, each, normal};
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
        BatchNormGrad {
            grad,
            input: input.clone(),
            weight: channel(23),
            mean: mean.clone(),
            rstd,
            eps: 1e-5,
        },
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
        LayerNormGrad { grad, input, weight: row(26), mean, rstd, eps: 1e-5 },
    );
    let input = make.normal(&[40, 5, 91], dtype, 29);
    let (weight, normalized_shape) = (Some(row(30)), vec![5, 91]);
    let forward = RmsNorm { input: input.clone(), weight, normalized_shape, eps: 1e-5 };
    let (_, factor, rstd) = dispatch(&forward).expect("a valid case");
    let [factor, rstd] = [factor, rstd].map(|x| make.here(x));
    cases.add(format!("rms_norm {dtype}"), forward);
    let grad = make.normal(&[40, 5, 91], dtype, 31);
    let (weight, normalized_shape) = (Some(row(30)), vec![5, 91]);
    cases.add(
        format!("rms_norm grad {dtype}"),
        RmsNormGrad { grad, input, weight, normalized_shape, factor, rstd },
    );
    cases.functions(dtype, samples);
}

pub(super) fn samples(samples: &mut Samples) {
    samples.no_batch("batch_norm", "the statistics are the batch's");
    let golden = || {
        let (x, weight, bias) = (normal(&[3, 12, 20, 13]), normal(&[12]), normal(&[12]));
        [x.seed(65), weight.seed(66), bias.seed(67)]
    };
    let batch = || [each(&[5, 12, 20, 13]), normal(&[12]), normal(&[12])];
    samples
        .add("group_norm", |x| f::group_norm(&x[0], 4, Some(&x[1]), Some(&x[2]), 1e-5))
        .digest(golden())
        .batch(batch())
        .twice([normal(&[2, 8, 3]), normal(&[8]), normal(&[8])]);
    samples
        .add("instance_norm", |x| Ok(f::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-5)?.0))
        .digest(golden())
        .batch(batch())
        .twice([normal(&[2, 2, 2, 3]), normal(&[2]), normal(&[2])]);
    samples
        .add("layer_norm", |x| {
            let shape = x[1].shape().to_vec();
            f::layer_norm(&x[0], &shape, Some(&x[1]), Some(&x[2]), 1e-5)
        })
        .batch([each(&[40, 5, 91]), normal(&[5, 91]), normal(&[5, 91])])
        .twice([normal(&[3, 2, 4]), normal(&[2, 4]), normal(&[2, 4])]);
    samples
        .add("layer_norm alone", |x| f::layer_norm(&x[0], &[4], None, None, 1e-3))
        .twice([normal(&[3, 4])]);
    samples
        .add("rms_norm", |x| {
            let shape = x[1].shape().to_vec();
            f::rms_norm(&x[0], &shape, Some(&x[1]), Some(1e-5))
        })
        .batch([each(&[40, 5, 91]), normal(&[5, 91])])
        .twice([normal(&[3, 2, 4]), normal(&[2, 4])]);
    samples
        .add("rms_norm alone", |x| f::rms_norm(&x[0], &[4], None, Some(1e-3)))
        .digest([normal(&[70, 4]).seed(68)])
        .twice([normal(&[3, 4])]);
    samples
        .add("rms_norm of wide rows", |x| f::rms_norm(&x[0], &[1100], Some(&x[1]), None))
        .digest([normal(&[3, 1100]).seed(69), normal(&[1100]).seed(70)]);
    samples
        .add("rms_norm of many rows", |x| f::rms_norm(&x[0], &[2], Some(&x[1]), None))
        .digest([normal(&[4100, 2]).seed(71), normal(&[2]).seed(72)]);
    samples
        .add("batch_norm", |x| Ok(f::batch_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-3)?.0))
        .twice([normal(&[3, 2, 4]), normal(&[2]), normal(&[2])]);
    samples
        .add("batch_norm alone", |x| Ok(f::batch_norm(&x[0], None, None, 1e-3)?.0))
        .twice([normal(&[4, 3])]);
    let (mean, var) = (normal(&[12]).constant(), normal(&[12]).constant().squared());
    let small_var = normal(&[2]).by(|x| x.square()?.affine(1.0, 0.5));
    let [x, weight, bias] = batch();
    samples
        .add("batch_norm_inference", |x| {
            f::batch_norm_inference(&x[0], Some(&x[1]), Some(&x[2]), &x[3], &x[4], 1e-3)
        })
        .batch([x, weight, bias, mean, var])
        .twice([normal(&[3, 2, 4]), normal(&[2]), normal(&[2]), normal(&[2]), small_var]);
}
