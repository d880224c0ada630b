use samebits::functional as f;
use samebits::ops::*;
use samebits::{DType, Generator, Result, Tensor};

use super::sample::{Samples, normal};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
    }
}

fn of_type(cases: &mut Cases, make: Make, dtype: DType) {
    let generator = Generator::new(34).with_stream(2).with_offset(9);
    let (shape, device) = (vec![3, 20_001], make.device);
    cases.add(
        format!("uniform {dtype}"),
        Uniform {
            shape: shape.clone(),
            dtype,
            device,
            low: -1.0,
            high: 3.0,
            generator: generator.clone(),
        },
    );
    cases.add(
        format!("normal {dtype}"),
        Normal { shape, dtype, device, mean: 1.0, std: 2.0, generator: generator.clone() },
    );
    let x = make.normal(&[50_005], dtype, 35);
    cases.add(format!("dropout {dtype}"), Dropout { x, p: 0.3, generator });
    cases.functions(dtype, samples);
}

/// A kind of dropout.
type Thinned = fn(&Tensor, f64, &mut Generator) -> Result<Tensor>;

pub(super) fn samples(samples: &mut Samples) {
    for op in ["dropout", "normal", "uniform"] {
        samples.no_batch(op, "an element's number is its place in the whole");
    }
    let functions: [(_, Thinned); _] = [
        ("dropout1d", f::dropout1d_with),
        ("dropout2d", f::dropout2d_with),
        ("dropout3d", f::dropout3d_with),
        ("alpha_dropout", f::alpha_dropout_with),
        ("feature_alpha_dropout", f::feature_alpha_dropout_with),
    ];
    for (number, (name, function)) in functions.into_iter().enumerate() {
        let rank = (number + 3).min(5);
        samples
            .add(name, move |x| function(&x[0], 0.4, &mut Generator::new(37)))
            .digest([normal(&[5, 7, 9, 11, 13][..rank]).seed(36)])
            .twice([normal(&[2, 3, 2, 1, 2][..rank]).squared()]);
    }
    samples
        .add("dropout", |x| f::dropout_with(&x[0], 0.4, &mut Generator::new(6)))
        .twice([normal(&[40]).squared()]);
}
