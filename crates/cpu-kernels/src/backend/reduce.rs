use samebits_tensor_core::ops::{
    ArgReduce, ArgReduceKind, Logsumexp, Norm, Reduce, ReduceKind, Variance,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::reduce::{self, Extreme};

const TREE: &str = "sums run in f64 over a tree that depends on the length alone";

pub(super) fn register_all() {
    register(Kernel::portable(
        "tree",
        FLOATS,
        "sums run in f64 over a tree that depends on the length alone; extrema take the first",
        |op: &Reduce| with_float!(op.x.dtype(), T => reduce_dims::<T>(op)),
    ));
    register(Kernel::portable("integers", &[DType::I64], "integers", reduce_integers));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &Variance| with_float!(op.x.dtype(), T => variance::<T>(op)),
    ));
    register(Kernel::portable("tree", FLOATS, TREE, |op: &Norm| {
        with_float!(op.x.dtype(), T => rows::<T>(&op.x, &op.dims, |x, n, out| {
            reduce::norm_rows(x, n, op.p, out);
        }))
    }));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &Logsumexp| with_float!(op.x.dtype(), T => rows::<T>(&op.x, &op.dims, reduce::logsumexp_rows)),
    ));
    register(Kernel::portable(
        "first",
        FLOATS,
        "of equal elements the first is taken",
        |op: &ArgReduce| with_float!(op.x.dtype(), T => arg_reduce::<T>(op)),
    ));
}

fn reduce_dims<T: Element>(op: &Reduce) -> Result<Tensor> {
    let shape = op.x.shape();
    let kept: Vec<usize> = (0..shape.len()).filter(|dim| !op.dims.contains(dim)).collect();
    let mut out_shape = shape.to_vec();
    for &dim in &op.dims {
        out_shape[dim] = 1;
    }
    let n: usize = op.dims.iter().map(|&dim| shape[dim]).product();
    let outputs: usize = kept.iter().map(|&dim| shape[dim]).product();
    let round = |sum: f64| {
        let value = if op.kind == ReduceKind::Mean { sum / n as f64 } else { sum };
        T::from_f64(value).canonical()
    };
    let sums = matches!(op.kind, ReduceKind::Sum | ReduceKind::Mean);
    let adjacent = op.dims.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    if let (true, true, Some(&first), Some(&last)) =
        (sums, adjacent, op.dims.first(), op.dims.last())
    {
        let inner: usize = shape[last + 1..].iter().product();
        if inner > 1 && shape[..first].iter().product::<usize>() <= 64 {
            let x = op.x.contiguous()?;
            let mut totals = vec![0.0; outputs];
            reduce::sum_columns(x.as_slice::<T>()?, n, inner, &mut totals);
            let values: Vec<T> = totals.into_iter().map(round).collect();
            return Tensor::from_slice(&values, &out_shape);
        }
    }
    let order: Vec<usize> = kept.iter().chain(&op.dims).copied().collect();
    let x = op.x.permute(&order)?.contiguous()?;
    let x = x.as_slice::<T>()?;
    match op.kind {
        ReduceKind::Amax | ReduceKind::Amin => {
            let which = if op.kind == ReduceKind::Amax { Extreme::Max } else { Extreme::Min };
            let values: Vec<T> =
                reduce::extreme_rows(which, x, n).into_iter().map(|(_, value)| value).collect();
            Tensor::from_slice(&values, &out_shape)
        }
        _ => {
            let mut totals = vec![0.0; outputs];
            if op.kind == ReduceKind::Prod {
                reduce::product_rows(x, n, &mut totals);
            } else {
                reduce::sum_rows(x, n, &mut totals);
            }
            filled(&out_shape, |out: &mut [T]| {
                for (out, total) in out.iter_mut().zip(totals) {
                    *out = round(total);
                }
                Ok(())
            })
        }
    }
}

fn reduce_integers(op: &Reduce) -> Result<Tensor> {
    let (x, n, shape) = reduced_last(&op.x, &op.dims)?;
    let values = reduce::integer_rows(op.kind, x.as_slice()?, n, shape.iter().product());
    Tensor::from_slice(&values, &shape)
}

fn variance<T: Element>(op: &Variance) -> Result<(Tensor, Tensor)> {
    let (x, n, shape) = reduced_last(&op.x, &op.dims)?;
    let mut moments = vec![[0.0; 2]; shape.iter().product()];
    reduce::variance_rows(x.as_slice::<T>()?, n, op.correction, &mut moments);
    let rounded = |which: usize| -> Result<Tensor> {
        let values: Vec<T> =
            moments.iter().map(|moments| T::from_f64(moments[which]).canonical()).collect();
        Tensor::from_slice(&values, &shape)
    };
    Ok((rounded(1)?, rounded(0)?))
}

/// Runs `f(rows, n, out)` on the reduced dimensions as rows, and rounds what it gives.
fn rows<T: Element>(
    x: &Tensor,
    dims: &[usize],
    f: impl FnOnce(&[T], usize, &mut [f64]),
) -> Result<Tensor> {
    let (x, n, shape) = reduced_last(x, dims)?;
    let mut totals = vec![0.0; shape.iter().product()];
    f(x.as_slice()?, n, &mut totals);
    let values: Vec<T> = totals.into_iter().map(|total| T::from_f64(total).canonical()).collect();
    Tensor::from_slice(&values, &shape)
}

/// The tensor with the dimensions `dims` moved to the end, the number of elements in them, and
/// the shape with them reduced.
fn reduced_last(x: &Tensor, dims: &[usize]) -> Result<(Tensor, usize, Vec<usize>)> {
    let mut shape = x.shape().to_vec();
    let kept = (0..shape.len()).filter(|dim| !dims.contains(dim));
    let order: Vec<usize> = kept.chain(dims.iter().copied()).collect();
    let n = dims.iter().map(|&dim| std::mem::replace(&mut shape[dim], 1)).product();
    Ok((x.permute(&order)?.contiguous()?, n, shape))
}

fn arg_reduce<T: Element>(op: &ArgReduce) -> Result<Tensor> {
    let mut out_shape = op.x.shape().to_vec();
    let n = out_shape[op.dim];
    out_shape[op.dim] = 1;
    let order: Vec<usize> = (0..op.x.rank()).filter(|&dim| dim != op.dim).chain([op.dim]).collect();
    let x = op.x.permute(&order)?.contiguous()?;
    let which = match op.kind {
        ArgReduceKind::Argmax => Extreme::Max,
        ArgReduceKind::Argmin => Extreme::Min,
    };
    let indices: Vec<i64> = reduce::extreme_rows(which, x.as_slice::<T>()?, n)
        .into_iter()
        .map(|(index, _)| index as i64)
        .collect();
    Tensor::from_slice(&indices, &out_shape)
}
