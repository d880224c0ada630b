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
        with_float!(op.x.dtype(), T => rows(&op.x, &op.dims, |x: &[T], n, out: &mut [T]| {
            reduce::norm_rows(x, n, op.p, out);
        }))
    }));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &Logsumexp| with_float!(op.x.dtype(), T => rows(&op.x, &op.dims, reduce::logsumexp_rows::<T>)),
    ));
    register(Kernel::portable(
        "first",
        FLOATS,
        "of equal elements the first is taken",
        |op: &ArgReduce| with_float!(op.x.dtype(), T => arg_reduce::<T>(op)),
    ));
}

fn reduce_dims<T: Element>(op: &Reduce) -> Result<Tensor> {
    let sums = matches!(op.kind, ReduceKind::Sum | ReduceKind::Mean);
    let adjacent = op.dims.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    if let (true, true, Some(&first), Some(&last)) =
        (sums, adjacent, op.dims.first(), op.dims.last())
    {
        let shape = op.x.shape();
        let inner: usize = shape[last + 1..].iter().product();
        if inner > 1 && shape[..first].iter().product::<usize>() <= 64 {
            return columns::<T>(op, inner);
        }
    }
    rows(&op.x, &op.dims, |x: &[T], n, out: &mut [T]| match op.kind {
        ReduceKind::Sum => reduce::sum_rows(x, n, out),
        ReduceKind::Mean => reduce::mean_rows(x, n, out),
        ReduceKind::Prod => reduce::product_rows(x, n, out),
        ReduceKind::Amax => reduce::extreme_rows(Extreme::Max, x, n, out),
        ReduceKind::Amin => reduce::extreme_rows(Extreme::Min, x, n, out),
        kind => unreachable!("every kind has its function: {kind:?}"),
    })
}

/// The sum or the mean over adjacent dimensions that `inner` elements follow.
fn columns<T: Element>(op: &Reduce, inner: usize) -> Result<Tensor> {
    let mut shape = op.x.shape().to_vec();
    let n: usize = op.dims.iter().map(|&dim| std::mem::replace(&mut shape[dim], 1)).product();
    let x = op.x.contiguous()?;
    let mut totals = vec![0.0; shape.iter().product()];
    reduce::sum_columns(x.as_slice::<T>()?, n, inner, &mut totals);
    let divisor = if op.kind == ReduceKind::Mean { n as f64 } else { 1.0 };
    let values: Vec<T> =
        totals.into_iter().map(|sum| T::from_f64(sum / divisor).canonical()).collect();
    Tensor::from_slice(&values, &shape)
}

fn reduce_integers(op: &Reduce) -> Result<Tensor> {
    rows(&op.x, &op.dims, |x, n, out| reduce::integer_rows(op.kind, x, n, out))
}

fn variance<T: Element>(op: &Variance) -> Result<(Tensor, Tensor)> {
    let (x, n, shape) = reduced_last(&op.x, &op.dims)?;
    let mut moments = vec![[T::ZERO; 2]; shape.iter().product()];
    reduce::variance_rows(x.as_slice()?, n, op.correction, &mut moments);
    let which = |which: usize| -> Result<Tensor> {
        let values: Vec<T> = moments.iter().map(|moments| moments[which]).collect();
        Tensor::from_slice(&values, &shape)
    };
    Ok((which(0)?, which(1)?))
}

fn arg_reduce<T: Element>(op: &ArgReduce) -> Result<Tensor> {
    let which = match op.kind {
        ArgReduceKind::Argmax => Extreme::Max,
        ArgReduceKind::Argmin => Extreme::Min,
    };
    rows(&op.x, &[op.dim], |x: &[T], n, out| reduce::arg_extreme_rows(which, x, n, out))
}

/// Runs `f(rows, n, out)` on the reduced dimensions as rows.
fn rows<T: samebits_tensor_core::Element, R: samebits_tensor_core::Element>(
    x: &Tensor,
    dims: &[usize],
    f: impl FnOnce(&[T], usize, &mut [R]),
) -> Result<Tensor> {
    let (x, n, shape) = reduced_last(x, dims)?;
    filled(&shape, |out| {
        f(x.as_slice()?, n, out);
        Ok(())
    })
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
