use samebits::DType;
use samebits::ops::*;

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
    }
}

fn of_type(cases: &mut Cases, make: Make, dtype: DType) {
    let (dim, index) = (1, make.indices(5000, 30, 36));
    let x = make.wild(&[3, 30, 7], dtype, 37);
    cases.add(
        format!("index_select {dtype}"),
        IndexSelect { x: x.clone(), dim, index: index.clone() },
    );
    let source = make.wild(&[3, 5000, 7], dtype, 38);
    for alpha in [1.0, 0.7] {
        let (input, index, source) = (x.clone(), index.clone(), source.clone());
        cases.add(
            format!("index_add {dtype} {alpha}"),
            IndexAdd { input, dim, index, source, alpha },
        );
    }
}
