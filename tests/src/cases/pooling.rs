use samebits::functional as f;
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Generator, dispatch};

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
        others_of_type(cases, make, dtype);
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
    let indices = make.here(indices);
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

fn others_of_type(cases: &mut Cases, make: Make, dtype: DType) {
    let inputs = [
        make.wild(&[3, 5, 301], dtype, 41),
        make.wild(&[2, 9, 33, 41], dtype, 42),
        make.wild(&[2, 3, 11, 12, 13], dtype, 43),
    ];
    for x in inputs {
        let dims = x.rank() - 2;
        let name = |op: &str| format!("{op} {dims}d {dtype}");
        let params = PoolParams {
            kernel: vec![3; dims],
            padding: vec![1; dims],
            dilation: vec![2; dims],
            ..PoolParams::square(dims, 2)
        };
        cases.graded(name("max_pool dilated"), vec![x.clone()], move |x| {
            Ok(f::max_pool(&x[0], &params)?.0)
        });
        let size = [7, 50, 5][..dims].to_vec();
        let (avg, max) = (size.clone(), size);
        cases.graded(name("adaptive_avg_pool"), vec![x.clone()], move |x| {
            f::adaptive_avg_pool(&x[0], &avg)
        });
        cases.graded(name("adaptive_max_pool"), vec![x.clone()], move |x| {
            Ok(f::adaptive_max_pool(&x[0], &max)?.0)
        });
        let (square, halves) = (PoolParams::square(dims, 2), PoolParams::square(dims, 2));
        cases.graded(name("max_unpool"), vec![x.clone()], move |x| {
            let (y, indices) = f::max_pool(&x[0], &square)?;
            f::max_unpool(&y, &indices, &square, Some(&x[0].shape()[2..]))
        });
        cases.graded(name("lp_pool"), vec![x.clone()], move |x| f::lp_pool(&x[0], 2.0, &halves));
        if dims > 1 {
            cases.graded(name("fractional_max_pool"), vec![x], move |x| {
                let mut generator = Generator::new(44);
                let samples = f::fractional_samples(&x[0], dims, &mut generator)?;
                Ok(f::fractional_max_pool(&x[0], &vec![2; dims], &vec![5; dims], &samples)?.0)
            });
        }
    }
    // Several elements with one index: the last one wins.
    let input = make.wild(&[2, 3, 40], dtype, 45);
    let indices = make.indices_of(&[2, 3, 40], 30, 46);
    cases.add(
        format!("max_unpool duplicates {dtype}"),
        MaxUnpool { input, indices: indices.clone(), output_size: vec![30] },
    );
    let none = Value::from_slice(&[-1i64, 3], &[1, 1, 2]).expect("as many");
    let grad = make.wild(&[1, 1, 4], dtype, 47);
    cases.add(format!("max_unpool grad {dtype}"), MaxUnpoolGrad { grad, indices: make.here(none) });
}
