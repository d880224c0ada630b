use samebits_numerics::reduce::{BLOCK, norm_leaves_range};
use samebits_tensor_core::ops::{
    ArgReduce, ArgReduceKind, Logsumexp, Norm, Reduce, ReduceKind, Variance,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Result, Tensor};

use super::reduced::{Reduced, Width};
use super::{Element, FLOATS, INTEGERS, WRAPS, filled, with_float};
use crate::float::Float;
use crate::memory;
use crate::reduce::{self, Extreme, Rows};

const TREE: &str = "sums run in f64 over a tree that depends on the length alone";

pub(super) fn register_all() {
    register(Kernel::portable(
        "tree",
        FLOATS,
        "sums run in f64 over a tree that depends on the length alone; \
         ties of extrema go to the lowest index",
        |op: &Reduce, ()| with_float!(op.x.dtype(), T => reduce_dims::<T>(op)),
    ));
    register(Kernel::portable("integers", INTEGERS, WRAPS, reduce_integers));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &Variance, ()| with_float!(op.x.dtype(), T => variance::<T>(op)),
    ));
    register(Kernel::portable("tree", FLOATS, TREE, |op: &Norm, ()| {
        with_float!(op.x.dtype(), T => {
            // A norm that needs the magnitudes first is computed along rows.
            let along = op.p.is_infinite() || norm_leaves_range(op.p, T::EXPONENT);
            let width = if along { Width::None } else { Width::Any };
            rows(&op.x, &op.dims, width, Some(T::abs), |x, out: &mut [T]| {
                reduce::norm(Norm::NAME, x, op.p, out)
            })
        })
    }));
    register(Kernel::portable("tree", FLOATS, TREE, |op: &Logsumexp, ()| {
        with_float!(op.x.dtype(), T => {
            rows(&op.x, &op.dims, Width::Wide, None, |x, out: &mut [T]| {
                reduce::logsumexp(Logsumexp::NAME, x, out)
            })
        })
    }));
    register(Kernel::portable(
        "first",
        FLOATS,
        "of equal elements the first is taken",
        |op: &ArgReduce, ()| with_float!(op.x.dtype(), T => arg_reduce::<T>(op)),
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
        let outer: usize = shape[..first].iter().product();
        let n: usize = shape[first..=last].iter().product();
        if inner >= 256
            && n >= 512
            && outer <= 64
            && op.x.is_contiguous()
            && let Some(found) = columns::<T>(op, inner)?
        {
            return Ok(found);
        }
    }
    let n: usize = op.dims.iter().map(|&dim| op.x.shape()[dim]).product();
    let width = match op.kind {
        ReduceKind::Sum | ReduceKind::Mean => Width::Any,
        ReduceKind::Prod if n > BLOCK => Width::None,
        _ => Width::Wide,
    };
    rows(&op.x, &op.dims, width, None, |x: Rows<'_, T>, out: &mut [T]| match op.kind {
        ReduceKind::Sum => reduce::sum(Reduce::NAME, x, out),
        ReduceKind::Mean => reduce::mean(Reduce::NAME, x, out),
        ReduceKind::Prod => reduce::product(Reduce::NAME, x, out),
        ReduceKind::Amax => reduce::extreme(Reduce::NAME, x, Extreme::Max, out),
        ReduceKind::Amin => reduce::extreme(Reduce::NAME, x, Extreme::Min, out),
        kind => unreachable!("every kind has its function: {kind:?}"),
    })
}

/// Returns the sum or the mean over adjacent dimensions that are followed by `inner` elements;
/// `None` for means of which a sum leaves the range of f64.
fn columns<T: Element>(op: &Reduce, inner: usize) -> Result<Option<Tensor>> {
    let mut shape = op.x.shape().to_vec();
    let n: usize = op.dims.iter().map(|&dim| std::mem::replace(&mut shape[dim], 1)).product();
    let x = op.x.contiguous()?;
    let mut totals = memory::zeroed(Reduce::NAME, shape.iter().product())?;
    reduce::sum_columns(x.as_slice::<T>()?, n, inner, &mut totals)?;
    let means = op.kind == ReduceKind::Mean;
    if means && T::WIDE && totals.iter().any(|sum| !sum.is_finite()) {
        return Ok(None);
    }
    let divisor = if means { n as f64 } else { 1.0 };
    let found = filled(&shape, |out: &mut [T]| {
        for (out, sum) in out.iter_mut().zip(totals) {
            *out = T::from_f64(sum / divisor).canonical();
        }
        Ok(())
    });
    found.map(Some)
}

fn reduce_integers(op: &Reduce, (): &()) -> Result<Tensor> {
    rows(&op.x, &op.dims, Width::Wide, None, |x, out| {
        reduce::integer(Reduce::NAME, x, op.kind, out)
    })
}

fn variance<T: Element>(op: &Variance) -> Result<(Tensor, Tensor)> {
    let x = Reduced::new(&op.x, &op.dims, Width::Wide)?;
    let mut moments = memory::filled(Variance::NAME, x.made.iter().product(), [T::ZERO; 2])?;
    let out = &mut moments[..];
    x.rows(None, |x, out| reduce::variance(Variance::NAME, x, op.correction, out), out)?;
    let which = |which: usize| {
        x.finished(filled(&x.made, |out: &mut [T]| {
            for (out, moments) in out.iter_mut().zip(&moments) {
                *out = moments[which];
            }
            Ok(())
        })?)
    };
    Ok((which(0)?, which(1)?))
}

fn arg_reduce<T: Element>(op: &ArgReduce) -> Result<Tensor> {
    let which = match op.kind {
        ArgReduceKind::Argmax => Extreme::Max,
        ArgReduceKind::Argmin => Extreme::Min,
    };
    rows(&op.x, &[op.dim], Width::Wide, None, |x: Rows<'_, T>, out| {
        reduce::arg_extreme(ArgReduce::NAME, x, which, out)
    })
}

/// Runs `f(rows, out)` on the reduced dimensions as rows. If rows are walked in place, each element
/// passes through `map`, which `f` may apply again.
fn rows<T: samebits_tensor_core::Element, R: samebits_tensor_core::Element>(
    x: &Tensor,
    dims: &[usize],
    width: Width,
    map: Option<fn(T) -> T>,
    f: impl FnOnce(Rows<'_, T>, &mut [R]) -> crate::Result<()>,
) -> Result<Tensor> {
    let x = Reduced::new(x, dims, width)?;
    x.finished(filled(&x.made, |out| x.rows(map, f, out))?)
}
