use samebits_tensor_core::ops::{ArgReduce, ArgReduceKind, Reduce, ReduceKind};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::reduce::{self, Extreme};

pub(super) fn register_all() {
    register(Kernel::portable(
        "tree",
        FLOATS,
        "sums run in f64 over a tree that depends on the length alone; extrema take the first",
        |op: &Reduce| with_float!(op.x.dtype(), T => reduce_dims::<T>(op)),
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
            reduce::sum_rows(x, n, &mut totals);
            filled(&out_shape, |out: &mut [T]| {
                for (out, total) in out.iter_mut().zip(totals) {
                    *out = round(total);
                }
                Ok(())
            })
        }
    }
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
