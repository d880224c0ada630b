use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::{
    ArgReduce, ArgReduceKind, Logsumexp, Norm, Reduce, ReduceKind, Variance,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Op, Tensor};

use super::memory::Input;
use super::{
    ARRIVAL, F32, FLOATS, Failure, Gpu, Real, Stored, Tensors, atomic, on, portable, with_float,
};
use crate::reduce::{self, Integers, Sum};

const TREE: &str = "sums run in f64 over a tree that depends on the length alone";

pub(super) fn register_all() {
    register(Kernel {
        applies: |op: &Reduce, ()| op.kind == ReduceKind::Sum,
        ..atomic(F32, ARRIVAL, |op, _| {
            on(op, |gpu| {
                let (x, shape) = rows::<f32>(&gpu, &op.x, &op.dims)?;
                let out = reduce::sum_atomic(gpu.device, &x, shape)?;
                gpu.tensor(out, &kept(&op.x, &op.dims))
            })
        })
    });
    register(Kernel {
        applies: |op: &Reduce, ()| kind(op.kind).is_some(),
        ..portable(
            "tree",
            FLOATS,
            "sums run in f64 over a tree that depends on the length alone; \
             ties of extrema go to the lowest index",
            |op: &Reduce, ()| with_float!(op.x.dtype(), T => reduce_dims::<T>(op)),
        )
    });
    register(Kernel {
        applies: |op: &Reduce, ()| integers(op.kind).is_some(),
        ..portable("integers", &[DType::I64], "integers", |op: &Reduce, ()| {
            on(op, |gpu| {
                let (x, shape) = rows::<i64>(&gpu, &op.x, &op.dims)?;
                let kind = integers(op.kind).expect("the kernel applies");
                let out = reduce::integers(gpu.device, &x, shape, kind)?;
                gpu.tensor(out, &kept(&op.x, &op.dims))
            })
        })
    });
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &Variance, ()| with_float!(op.x.dtype(), T => variance::<T>(op)),
    ));
    register(portable("tree", FLOATS, TREE, |op: &Norm, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (x, shape) = rows::<T>(&gpu, &op.x, &op.dims)?;
                let out = reduce::norm(gpu.device, &x, shape, op.p)?;
                gpu.tensor(out, &kept(&op.x, &op.dims))
            })
        })
    }));
    register(portable("tree", FLOATS, TREE, |op: &Logsumexp, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (x, shape) = rows::<T>(&gpu, &op.x, &op.dims)?;
                let out = reduce::logsumexp(gpu.device, &x, shape)?;
                gpu.tensor(out, &kept(&op.x, &op.dims))
            })
        })
    }));
    register(portable(
        "first",
        FLOATS,
        "of equal elements the first is taken",
        |op: &ArgReduce, ()| {
            on(op, |gpu| {
                with_float!(op.x.dtype(), T => {
                    let shape = outer_dim_inner(ArgReduce::NAME, op.x.shape(), op.dim)?.into();
                    let minimum = op.kind == ArgReduceKind::Argmin;
                    let x = gpu.input::<T>(&op.x)?;
                    let (_, indices) = reduce::extreme(gpu.device, &x, shape, minimum)?;
                    let mut shape = op.x.shape().to_vec();
                    shape[op.dim] = 1;
                    gpu.tensor(indices, &shape)
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

fn reduce_dims<T: Real>(op: &Reduce) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (x, shape) = rows::<T>(&gpu, &op.x, &op.dims)?;
        let out = match kind(op.kind).expect("the kernel applies") {
            Kind::Sum(kind) => reduce::sum(gpu.device, &x, shape, kind)?,
            Kind::Product => reduce::prod(gpu.device, &x, shape)?,
            Kind::Extreme { minimum } => reduce::extreme(gpu.device, &x, shape, minimum)?.0,
        };
        gpu.tensor(out, &kept(&op.x, &op.dims))
    })
}

fn variance<T: Real>(op: &Variance) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let (x, shape) = rows::<T>(&gpu, &op.x, &op.dims)?;
        let (variance, mean) = reduce::variance(gpu.device, &x, shape, op.correction)?;
        let shape = kept(&op.x, &op.dims);
        Ok((gpu.tensor(variance, &shape)?, gpu.tensor(mean, &shape)?))
    })
}

/// Returns the input as `[outer, n, inner]`, to be reduced over n. Reduced dimensions that are not
/// neighbours are first moved to the end.
fn rows<T: Stored>(
    gpu: &Gpu<'_>,
    x: &Tensor,
    dims: &[usize],
) -> Result<(Input<T>, [usize; 3]), Failure> {
    let shape = x.shape();
    let size = |dims: &[usize]| dims.iter().product::<usize>();
    if dims.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
        let first = dims.first().copied().unwrap_or(shape.len());
        let last = first + dims.len();
        let sizes = [size(&shape[..first]), size(&shape[first..last]), size(&shape[last..])];
        return Ok((gpu.input(x)?, sizes));
    }
    let others: Vec<usize> = (0..shape.len()).filter(|dim| !dims.contains(dim)).collect();
    let order: Vec<usize> = others.iter().chain(dims).copied().collect();
    let sizes = |dims: &[usize]| dims.iter().map(|&dim| shape[dim]).product();
    Ok((gpu.input(&x.permute(&order)?)?, [sizes(&others), sizes(dims), 1]))
}

/// Returns the shape of the result.
fn kept(x: &Tensor, dims: &[usize]) -> Vec<usize> {
    let mut shape = x.shape().to_vec();
    for &dim in dims {
        shape[dim] = 1;
    }
    shape
}
