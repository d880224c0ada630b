//! A planted shortage of memory gives an error that names the operation, and the next operation
//! works. Reductions and products of tensors that repeat elements need memory only for their
//! results.

use samebits_numerics::memory::set_limit;
use samebits_tensor_core::ops::{
    ArgReduce, ArgReduceKind, Binary, BinaryKind, Logsumexp, Matmul, Norm, Reduce, ReduceKind,
    Unary, UnaryKind, Variance,
};
use samebits_tensor_core::{DType, Error, Op, Result, Tensor, dispatch};

/// Runs `f` while no buffer may be larger than `bytes`. Only one test at a time.
fn limited<R>(bytes: usize, f: impl FnOnce() -> R) -> R {
    set_limit(Some(bytes));
    let result = f();
    set_limit(None);
    result
}

fn sum(x: &Tensor, dims: &[usize]) -> Result<Tensor> {
    dispatch(&Reduce { kind: ReduceKind::Sum, x: x.clone(), dims: dims.to_vec() })
}

/// Returns every reduction of `x` over `dims`, as bits.
fn reductions(x: &Tensor, dims: &[usize]) -> Vec<Vec<u64>> {
    let bits = |x: Tensor| -> Vec<u64> {
        match x.dtype() {
            DType::F32 => x.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits().into()).collect(),
            _ => x.to_vec::<i64>().unwrap().iter().map(|&x| x as u64).collect(),
        }
    };
    let (x, dims) = (|| x.clone(), || dims.to_vec());
    let mut all = Vec::new();
    use ReduceKind::{Amax, Amin, Mean, Prod, Sum};
    for kind in [Sum, Mean, Prod, Amax, Amin] {
        all.push(bits(dispatch(&Reduce { kind, x: x(), dims: dims() }).unwrap()));
    }
    for p in [0.0, 1.0, 2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
        all.push(bits(dispatch(&Norm { x: x(), dims: dims(), p }).unwrap()));
    }
    all.push(bits(dispatch(&Logsumexp { x: x(), dims: dims() }).unwrap()));
    let (variance, mean) = dispatch(&Variance { x: x(), dims: dims(), correction: 1.0 }).unwrap();
    all.extend([bits(variance), bits(mean)]);
    if let &[dim] = &dims()[..] {
        for kind in [ArgReduceKind::Argmax, ArgReduceKind::Argmin] {
            all.push(bits(dispatch(&ArgReduce { kind, x: x(), dim }).unwrap()));
        }
    }
    all
}

#[test]
fn reductions_and_products_of_expanded_tensors_need_no_copy() {
    samebits_cpu_kernels::install();
    let values: Vec<f32> = (0..1031).map(|i| 1.0 + (i % 97) as f32 / 97.0).collect();
    let x = Tensor::from_slice(&values, &[1031, 1]).unwrap();
    let columns = Tensor::from_slice(&values, &[1, 1031]).unwrap();
    // More than 2^20 elements, so that they are walked.
    let wide = x.expand(&[1031, 1033]).unwrap();
    let tall = columns.expand(&[1033, 1031]).unwrap();
    for (x, dims) in
        [(&wide, &[1][..]), (&wide, &[0]), (&wide, &[0, 1]), (&tall, &[0]), (&tall, &[1])]
    {
        let walked = limited(1 << 18, || reductions(x, dims));
        let copied = reductions(&x.contiguous().unwrap(), dims);
        assert_eq!(walked, copied, "{:?} over {dims:?}", x.shape());
    }
    let integers = Tensor::from_slice(&[1i64 << 40, -3], &[2, 1]).unwrap();
    let many = integers.expand(&[2, 1 << 21]).unwrap();
    let total = limited(1 << 20, || sum(&many, &[0, 1])).unwrap();
    assert_eq!(total.to_vec::<i64>().unwrap(), [((1i64 << 40) - 3).wrapping_mul(1 << 21)]);

    // Factors of a product are read in place.
    let factor = |shape: &[usize]| Tensor::scalar(1.0f32).expand(shape).unwrap();
    let product = |m, k, n| dispatch(&Matmul { a: factor(&[m, k]), b: factor(&[k, n]) });
    let ones = limited(1 << 17, || product(3, 1 << 20, 5)).unwrap();
    assert_eq!(ones.to_vec::<f32>().unwrap(), [(1 << 20) as f32; 15]);
    let error = product(1 << 22, 1 << 22, 1 << 22).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { op: "matmul", .. }), "{error}");

    // A result that memory cannot hold, and one beyond the limit.
    let huge = x.narrow(0, 0, 1).unwrap().expand(&[1 << 20, 1 << 24]).unwrap();
    let add = |a: &Tensor, b: &Tensor| {
        dispatch(&Binary { kind: BinaryKind::Add, a: a.clone(), b: b.clone() })
    };
    let negated = || dispatch(&Unary { kind: UnaryKind::Neg, x: huge.clone() });
    for result in [add(&huge, &huge), negated()] {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    }
    let small = x.narrow(0, 0, 2).unwrap();
    let error = limited(1 << 10, || add(&wide, &wide)).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{}: {error}", Binary::NAME);
    assert_eq!(add(&small, &small).unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0 + 2.0 / 97.0]);
}
