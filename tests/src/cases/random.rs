use samebits::ops::*;
use samebits::{DType, Generator};

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
}
