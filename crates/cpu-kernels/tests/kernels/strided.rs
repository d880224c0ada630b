//! Functions of strided tensors, whose elements are copied part by part.

use samebits_tensor_core::ops::{
    Affine, Cat, Gather, Gelu, GeluForm, Ramp, RampKind, Silu, Unary, UnaryKind,
};
use samebits_tensor_core::{DType, Op, Tensor, dispatch};

/// Returns the results for `x` and for its dense copy, as bits, with their type.
fn both<O: Op<Output = Tensor>>(x: &Tensor, op: impl Fn(Tensor) -> O) -> [(DType, Vec<u64>); 2] {
    [x.clone(), x.contiguous().unwrap()].map(|x| {
        let y = dispatch(&op(x)).unwrap();
        let bits = match y.dtype() {
            DType::F32 => y.to_vec::<f32>().unwrap().iter().map(|y| y.to_bits().into()).collect(),
            DType::F64 => y.to_vec::<f64>().unwrap().iter().map(|y| y.to_bits()).collect(),
            _ => y.to_vec::<i64>().unwrap().iter().map(|&y| y as u64).collect(),
        };
        (y.dtype(), bits)
    })
}

fn expect_alike<O: Op<Output = Tensor>>(what: &str, x: &Tensor, op: impl Fn(Tensor) -> O) {
    let [strided, dense] = both(x, op);
    assert!(strided == dense, "{what} of {:?}", x.layout());
}

#[test]
fn functions_of_strided_tensors_are_those_of_their_copies() {
    samebits_cpu_kernels::install();
    let values: Vec<f64> = (0..9 * 283 * 107).map(|i| (i % 2003) as f64 / 250.0 - 4.0).collect();
    let wide = Tensor::from_slice(&values, &[9, 283, 107]).unwrap();
    let narrow: Vec<f32> = values.iter().map(|&x| x as f32).collect();
    let narrow = Tensor::from_slice(&narrow, &[9, 283, 107]).unwrap();
    let whole: Vec<i64> = values.iter().map(|&x| x as i64).collect();
    let whole = Tensor::from_slice(&whole, &[9, 283, 107]).unwrap();
    for order in [[2, 1, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2]] {
        for x in [&wide, &narrow] {
            let x = &x.permute(&order).unwrap();
            let repeated = &x.narrow(0, 1, 1).unwrap().expand(&[70, x.shape()[1], x.shape()[2]]);
            for x in [x, repeated.as_ref().unwrap()] {
                expect_alike("cos", x, |x| Unary { kind: UnaryKind::Cos, x });
                expect_alike("affine", x, |x| Affine { x, scale: 3.0, shift: 0.1 });
                expect_alike("gelu", x, |x| Gelu { form: GeluForm::Erf, x });
                expect_alike("silu", x, |x| Silu { x });
                expect_alike("ramp", x, |x| Ramp { kind: RampKind::LogSigmoid, x });
            }
        }
        let x = &whole.permute(&order).unwrap();
        expect_alike("abs", x, |x| Unary { kind: UnaryKind::Abs, x });
    }
}

#[test]
fn elements_of_strided_tensors_are_looked_up_in_their_order() {
    samebits_cpu_kernels::install();
    let values: Vec<f64> = (0..9 * 283 * 107).map(f64::from).collect();
    let x = Tensor::from_slice(&values, &[9, 283, 107]).unwrap();
    for order in [[2, 1, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2]] {
        let x = x.permute(&order).unwrap().narrow(0, 1, 7).unwrap();
        for dim in 0..3 {
            // The index is smaller than the tensor in all dimensions.
            let mut shape = x.shape().iter().map(|&n| n.min(5)).collect::<Vec<_>>();
            shape[dim] = 11;
            let size = x.shape()[dim] as i64;
            let count: usize = shape.iter().product();
            let places: Vec<i64> = (0..count as i64).map(|i| i * 31 % size).collect();
            let index = Tensor::from_slice(&places, &shape).unwrap();
            expect_alike("gather", &x, |x| Gather { x, dim, index: index.clone() });
            let mut wrong = places.clone();
            wrong[count / 2] = size;
            let index = Tensor::from_slice(&wrong, &shape).unwrap();
            let errors = [x.clone(), x.contiguous().unwrap()]
                .map(|x| dispatch(&Gather { x, dim, index: index.clone() }).unwrap_err());
            assert_eq!(errors[0].to_string(), errors[1].to_string());
        }
    }
}

#[test]
fn strided_tensors_are_put_together_in_their_order() {
    samebits_cpu_kernels::install();
    let values: Vec<i64> = (0..3 * 290 * 130).collect();
    let x = Tensor::from_slice(&values, &[3, 290, 130]).unwrap();
    for order in [[2, 1, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2]] {
        let x = x.permute(&order).unwrap();
        let repeated = x.narrow(0, 1, 1).unwrap().expand(x.shape()).unwrap();
        for dim in 0..3 {
            let none = x.narrow(dim, 2, 0).unwrap();
            let inputs = [&x, &none, &repeated, &x.narrow(dim, 1, 2).unwrap()];
            let joined = |inputs: Vec<Tensor>| {
                dispatch(&Cat { inputs, dim }).unwrap().to_vec::<i64>().unwrap()
            };
            let dense = inputs.map(|x| x.contiguous().unwrap());
            let strided = joined(inputs.map(Clone::clone).to_vec());
            assert!(strided == joined(dense.to_vec()), "{order:?} {dim}");
        }
    }
}
