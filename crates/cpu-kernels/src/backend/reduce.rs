use samebits_tensor_core::ops::{
    ArgReduce, ArgReduceKind, Logsumexp, Norm, Reduce, ReduceKind, Variance,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Layout, Op, Result, Tensor};

use super::{Element, FLOATS, INTEGERS, WRAPS, filled, with_float};
use crate::memory;
use crate::reduce::{self, Extreme, Rows, Walk};

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
            rows(&op.x, &op.dims, T::abs, |x, out: &mut [T]| reduce::norm(Norm::NAME, x, op.p, out))
        })
    }));
    register(Kernel::portable("tree", FLOATS, TREE, |op: &Logsumexp, ()| {
        with_float!(op.x.dtype(), T => {
            rows(&op.x, &op.dims, same, |x, out: &mut [T]| reduce::logsumexp(Logsumexp::NAME, x, out))
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
        if inner > 1
            && outer <= 64
            && !is_walked(&op.x)
            && let Some(found) = columns::<T>(op, inner)?
        {
            return Ok(found);
        }
    }
    rows(&op.x, &op.dims, same, |x: Rows<'_, T>, out: &mut [T]| match op.kind {
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
    rows(&op.x, &op.dims, same, |x, out| reduce::integer(Reduce::NAME, x, op.kind, out))
}

fn variance<T: Element>(op: &Variance) -> Result<(Tensor, Tensor)> {
    let x = ReducedLast::new(&op.x, &op.dims)?;
    let mut moments = memory::filled(Variance::NAME, x.shape.iter().product(), [T::ZERO; 2])?;
    let out = &mut moments[..];
    x.rows(same, |x, out| reduce::variance(Variance::NAME, x, op.correction, out), out)?;
    let which = |which: usize| {
        filled(&x.shape, |out: &mut [T]| {
            for (out, moments) in out.iter_mut().zip(&moments) {
                *out = moments[which];
            }
            Ok(())
        })
    };
    Ok((which(0)?, which(1)?))
}

fn arg_reduce<T: Element>(op: &ArgReduce) -> Result<Tensor> {
    let which = match op.kind {
        ArgReduceKind::Argmax => Extreme::Max,
        ArgReduceKind::Argmin => Extreme::Min,
    };
    rows(&op.x, &[op.dim], same, |x: Rows<'_, T>, out| {
        reduce::arg_extreme(ArgReduce::NAME, x, which, out)
    })
}

/// Runs `f(rows, out)` on the reduced dimensions as rows. If rows are walked in place, each element
/// passes through `map`, which `f` may apply again.
fn rows<T: samebits_tensor_core::Element, R: samebits_tensor_core::Element>(
    x: &Tensor,
    dims: &[usize],
    map: fn(T) -> T,
    f: impl FnOnce(Rows<'_, T>, &mut [R]) -> crate::Result<()>,
) -> Result<Tensor> {
    let x = ReducedLast::new(x, dims)?;
    filled(&x.shape, |out| x.rows(map, f, out))
}

fn same<T>(x: T) -> T {
    x
}

/// The number of elements from which a tensor with repeated elements is walked in place instead of
/// copied.
const WALKED: usize = 1 << 20;

/// Returns true for a tensor with many more logical elements than stored ones.
fn is_walked(x: &Tensor) -> bool {
    x.numel() > WALKED && x.numel() > x.layout().extent()
}

/// A tensor with the reduced dimensions moved to the end.
struct ReducedLast {
    x: Tensor,
    /// The number of dimensions that are not reduced.
    kept: usize,
    /// The shape of the result.
    shape: Vec<usize>,
}

impl ReducedLast {
    fn new(x: &Tensor, dims: &[usize]) -> Result<ReducedLast> {
        let mut shape = x.shape().to_vec();
        let kept = (0..shape.len()).filter(|dim| !dims.contains(dim));
        let order: Vec<usize> = kept.chain(dims.iter().copied()).collect();
        let kept = order.len() - dims.len();
        dims.iter().for_each(|&dim| shape[dim] = 1);
        let x = x.permute(&order)?;
        let x = if is_walked(&x) { x } else { x.contiguous()? };
        Ok(ReducedLast { x, kept, shape })
    }

    /// Runs `f(rows, out)`; see [`rows`].
    fn rows<T: samebits_tensor_core::Element, R>(
        &self,
        map: fn(T) -> T,
        f: impl FnOnce(Rows<'_, T>, &mut [R]) -> crate::Result<()>,
        out: &mut [R],
    ) -> Result<()> {
        let (kept, reduced) = self.x.shape().split_at(self.kept);
        if !is_walked(&self.x) {
            let n = reduced.iter().product();
            return Ok(f(Rows::Dense { x: self.x.as_slice()?, n }, out)?);
        }
        let (layout, strides) = (self.x.layout(), self.x.layout().strides());
        let walk = Walk {
            data: self.x.storage_slice()?,
            starts: Layout::strided(kept, &strides[..self.kept], layout.offset())?,
            row: Layout::strided(reduced, &strides[self.kept..], 0)?,
            map,
        };
        Ok(f(Rows::Walked { walk: &walk, first: 0 }, out)?)
    }
}
