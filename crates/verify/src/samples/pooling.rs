use samebits::functional as f;
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Generator, Tensor, dispatch};

use super::sample::{Input, Samples, each, given, normal, wild};
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
    cases.functions(dtype, samples);
    // Several elements with one index: the last one is kept.
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

pub(super) fn samples(samples: &mut Samples) {
    let shapes: [(&[usize], &[usize], u64); _] = [
        (&[3, 5, 301], &[5, 3, 301], 41),
        (&[2, 9, 33, 41], &[5, 4, 33, 41], 42),
        (&[2, 3, 11, 12, 13], &[3, 3, 11, 12, 13], 43),
    ];
    for (golden, batch, seed) in shapes {
        of_dims(samples, golden.len() - 2, || [wild(golden).seed(seed)], || [each(batch)]);
    }
    let params = || PoolParams {
        kernel: vec![3, 2],
        stride: vec![2, 1],
        padding: vec![1, 0],
        dilation: vec![1, 1],
        ceil_mode: true,
    };
    samples
        .add("max_pool2d", move |x| f::max_pool2d(&x[0], &params()))
        .twice([normal(&[2, 2, 6, 5])]);
    samples
        .add("max_pool without a batch", move |x| f::max_pool(&x[0], &params()))
        .twice([normal(&[2, 6, 5])]);
    for include in [true, false] {
        samples
            .add(format!("avg_pool {include}"), move |x| {
                f::avg_pool(&x[0], &params(), include, None)
            })
            .twice([normal(&[2, 2, 6, 5])]);
    }
    let sizes: [(&[usize], &'static [usize]); _] =
        [(&[1, 2, 7], &[3]), (&[2, 5, 4], &[2, 7]), (&[1, 1, 3, 4, 2], &[2, 3, 1])];
    for (shape, size) in sizes {
        samples
            .add(format!("adaptive_avg_pool to {size:?}"), |x| f::adaptive_avg_pool(&x[0], size))
            .twice([normal(shape)]);
        samples
            .add(format!("adaptive_max_pool to {size:?}"), |x| f::adaptive_max_pool(&x[0], size))
            .twice([normal(shape)]);
    }
    for (shape, dims) in [(&[2, 2, 6, 7][..], 2), (&[1, 5, 6, 7], 3)] {
        samples
            .add(format!("fractional_max_pool of {shape:?}"), move |x| {
                let (kernel, size) = (vec![2; dims], vec![3; dims]);
                let places = f::fractional_samples_with(&x[0], dims, &mut Generator::new(2))?;
                f::fractional_max_pool(&x[0], &kernel, &size, Some(&places))
            })
            .twice([normal(shape)]);
    }
    samples
        .add("max_unpool at places", |x| {
            f::max_unpool(&x[0], &x[1], &PoolParams::square(2, 2), None)
        })
        .twice([normal(&[1, 1, 2, 2]), given(Value::from_slice(&[5i64, 0, 3, 14], &[1, 1, 2, 2]))]);
    for norm in [2.0, 3.0] {
        samples
            .add(format!("lp_pool1d {norm}"), move |x| {
                let params = PoolParams { ceil_mode: true, ..PoolParams::square(1, 2) };
                f::lp_pool1d(&x[0], norm, &params)
            })
            .twice([normal(&[1, 2, 5]).by(|x| x.square()?.affine(1.0, 0.1))]);
    }
}

/// Adds poolings of `dims` dimensions, with digests, in the order of the snapshot, and batches.
fn of_dims(
    samples: &mut Samples,
    dims: usize,
    golden: impl Fn() -> [Input; 1],
    batch: impl Fn() -> [Input; 1],
) {
    let name = |op: &str| format!("{op} {dims}d");
    let square = PoolParams::square(dims, 2);
    let dilated = PoolParams {
        kernel: vec![3; dims],
        padding: vec![1; dims],
        dilation: vec![2; dims],
        ..square.clone()
    };
    let size = &[7, 50, 5][..dims];
    samples
        .add(name("max_pool dilated"), move |x| f::max_pool(&x[0], &dilated))
        .digest(golden())
        .batch(batch());
    samples
        .add(name("adaptive_avg_pool"), move |x| f::adaptive_avg_pool(&x[0], size))
        .digest(golden())
        .batch(batch());
    samples
        .add(name("adaptive_max_pool"), move |x| f::adaptive_max_pool(&x[0], size))
        .digest(golden())
        .batch(batch());
    let (unpool, lp, avg) = (square.clone(), square.clone(), square);
    samples
        .add(name("max_unpool"), move |x| {
            let (y, indices) = f::max_pool(&x[0], &unpool)?;
            f::max_unpool(&y, &indices, &unpool, Some(&x[0].shape()[2..]))
        })
        .digest(golden())
        .batch(batch());
    samples
        .add(name("lp_pool"), move |x| f::lp_pool(&x[0], 2.0, &lp))
        .digest(golden())
        .batch(batch());
    samples.add(name("avg_pool"), move |x| f::avg_pool(&x[0], &avg, true, None)).batch(batch());
    if dims > 1 {
        let fractional = move |x: &Tensor, places: &Tensor| {
            f::fractional_max_pool(x, &vec![2; dims], &vec![5; dims], Some(places))
        };
        samples
            .add(name("fractional_max_pool"), move |x| {
                let places = f::fractional_samples_with(&x[0], dims, &mut Generator::new(44))?;
                fractional(&x[0], &places)
            })
            .digest(golden());
        let [x] = batch();
        let places = [x.shape()[0], x.shape()[1], dims];
        samples
            .add(name("fractional_max_pool at places"), move |x| fractional(&x[0], &x[1]))
            .batch([x, each(&places).probability()]);
    }
}
