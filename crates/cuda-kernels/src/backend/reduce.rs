use samebits_tensor_core::geometry::Reduction;
use samebits_tensor_core::ops::{
    ArgReduce, ArgReduceKind, Logsumexp, Norm, Reduce, ReduceKind, Variance,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Tensor};

use super::memory::Input;
use super::{FLOATS, Failure, Gpu, Real, Stored, Tensors, on, portable, with_float};
use crate::reduce::{self, Integers, Sum};

const TREE: &str = "sums run in f64 over a tree that depends on the length alone";

pub(super) fn register_all() {
    register(Kernel {
        applies: |op: &Reduce, _| kind(op.kind).is_some(),
        ..portable(
            "tree",
            FLOATS,
            "sums run in f64 over a tree that depends on the length alone; \
             ties of extrema go to the lowest index",
            |op: &Reduce, over| with_float!(op.x.dtype(), T => reduce_dims::<T>(op, over)),
        )
    });
    register(Kernel {
        applies: |op: &Reduce, _| integers(op.kind).is_some(),
        ..portable("integers", &[DType::I64], "integers", |op: &Reduce, over| {
            on(op, |gpu| {
                let (x, shape) = rows::<i64>(&gpu, &op.x, &op.dims, over)?;
                let kind = integers(op.kind).expect("the kernel applies");
                let out = reduce::integers(gpu.device, &x, shape, kind)?;
                gpu.tensor(out, &over.result)
            })
        })
    });
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &Variance, over| with_float!(op.x.dtype(), T => variance::<T>(op, over)),
    ));
    register(portable("tree", FLOATS, TREE, |op: &Norm, over| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (x, shape) = rows::<T>(&gpu, &op.x, &op.dims, over)?;
                let out = reduce::norm(gpu.device, &x, shape, op.p)?;
                gpu.tensor(out, &over.result)
            })
        })
    }));
    register(portable("tree", FLOATS, TREE, |op: &Logsumexp, over| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (x, shape) = rows::<T>(&gpu, &op.x, &op.dims, over)?;
                let out = reduce::logsumexp(gpu.device, &x, shape)?;
                gpu.tensor(out, &over.result)
            })
        })
    }));
    register(portable(
        "first",
        FLOATS,
        "of equal elements the first is taken",
        |op: &ArgReduce, over| {
            on(op, |gpu| {
                with_float!(op.x.dtype(), T => {
                    let minimum = op.kind == ArgReduceKind::Argmin;
                    let (x, shape) = rows::<T>(&gpu, &op.x, &[op.dim], over)?;
                    let (_, indices) = reduce::extreme(gpu.device, &x, shape, minimum)?;
                    gpu.tensor(indices, &over.result)
                })
            })
        },
    ));
}

/// The computation of a reduction.
enum Kind {
    Sum(Sum),
    Product,
    Extreme { minimum: bool },
}

fn kind(kind: ReduceKind) -> Option<Kind> {
    Some(match kind {
        ReduceKind::Sum => Kind::Sum(Sum::Sum),
        ReduceKind::Mean => Kind::Sum(Sum::Mean),
        ReduceKind::Amax => Kind::Extreme { minimum: false },
        ReduceKind::Amin => Kind::Extreme { minimum: true },
        ReduceKind::Prod => Kind::Product,
        _ => return None,
    })
}

fn integers(kind: ReduceKind) -> Option<Integers> {
    Some(match kind {
        ReduceKind::Sum => Integers::Sum,
        ReduceKind::Prod => Integers::Product,
        ReduceKind::Amax => Integers::Largest,
        ReduceKind::Amin => Integers::Smallest,
        _ => return None,
    })
}

fn reduce_dims<T: Real>(op: &Reduce, over: &Reduction) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (x, shape) = rows::<T>(&gpu, &op.x, &op.dims, over)?;
        let out = match kind(op.kind).expect("the kernel applies") {
            Kind::Sum(kind) => reduce::sum(gpu.device, &x, shape, kind)?,
            Kind::Product => reduce::prod(gpu.device, &x, shape)?,
            Kind::Extreme { minimum } => reduce::extreme(gpu.device, &x, shape, minimum)?.0,
        };
        gpu.tensor(out, &over.result)
    })
}

fn variance<T: Real>(op: &Variance, over: &Reduction) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let (x, shape) = rows::<T>(&gpu, &op.x, &op.dims, over)?;
        let (variance, mean) = reduce::variance(gpu.device, &x, shape, op.correction)?;
        Ok((gpu.tensor(variance, &over.result)?, gpu.tensor(mean, &over.result)?))
    })
}

/// Returns the input as `[outer, n, inner]`, to be reduced over n. Reduced dimensions that are not
/// neighbours are first moved to the end.
fn rows<T: Stored>(
    gpu: &Gpu<'_>,
    x: &Tensor,
    dims: &[usize],
    over: &Reduction,
) -> Result<(Input<T>, [usize; 3]), Failure> {
    if let Some(split) = over.adjacent {
        return Ok((gpu.input(x)?, split.into()));
    }
    let others = (0..x.rank()).filter(|dim| !dims.contains(dim));
    let order: Vec<usize> = others.chain(dims.iter().copied()).collect();
    let results = over.result.iter().product();
    Ok((gpu.input(&x.permute(&order)?)?, [results, over.count, 1]))
}
