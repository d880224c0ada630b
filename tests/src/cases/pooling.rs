use samebits::ops::*;
use samebits::{DType, dispatch};

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
    }
}

fn of_type(cases: &mut Cases, make: Make, dtype: DType) {
    let params = PoolParams {
        kernel: vec![3, 2],
        stride: vec![2, 2],
        padding: vec![1, 1],
        dilation: vec![1, 1],
        ceil_mode: true,
    };
    let input = make.wild(&[4, 9, 17, 20], dtype, 19);
    let output = params.output_shape("case", input.shape()).expect("a valid case");
    let grad = make.normal(&output, dtype, 20);
    let indices = dispatch(&MaxPool { input: input.clone(), params: params.clone() })
        .expect("a valid case")
        .1;
    let input_shape = input.shape().to_vec();
    cases
        .add(format!("max_pool {dtype}"), MaxPool { input: input.clone(), params: params.clone() });
    cases.add(
        format!("max_pool grad {dtype}"),
        MaxPoolGrad {
            grad: grad.clone(),
            indices,
            input_shape: input_shape.clone(),
            params: params.clone(),
        },
    );
    for (count_include_pad, divisor_override) in [(true, None), (false, None), (true, Some(5))] {
        cases.add(
            format!("avg_pool {dtype} {count_include_pad} {divisor_override:?}"),
            AvgPool {
                input: input.clone(),
                params: params.clone(),
                count_include_pad,
                divisor_override,
            },
        );
        cases.add(
            format!("avg_pool grad {dtype} {count_include_pad} {divisor_override:?}"),
            AvgPoolGrad {
                grad: grad.clone(),
                input_shape: input_shape.clone(),
                params: params.clone(),
                count_include_pad,
                divisor_override,
            },
        );
    }
}
