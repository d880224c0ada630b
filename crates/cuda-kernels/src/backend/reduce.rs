use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::{ArgReduce, ArgReduceKind, Reduce, ReduceKind};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Tensor};

use super::memory::Input;
use super::{
    ARRIVAL, F32, FLOATS, Failure, Gpu, Stored, Tensors, atomic, on, portable, with_float,
};
use crate::reduce::{self, Sum};

pub(super) fn register_all() {
    register(Kernel {
        applies: |op: &Reduce| op.kind == ReduceKind::Sum,
        ..atomic(F32, ARRIVAL, |op| {
            on(op, |gpu| {
                let (x, shape) = rows::<f32>(&gpu, op)?;
                gpu.tensor(reduce::sum_atomic(gpu.device, &x, shape)?, &kept(op))
            })
        })
    });
    register(Kernel {
        applies: |op: &Reduce| kind(op.kind).is_some(),
        ..portable(
            "tree",
            FLOATS,
            "sums run in f64 over a tree that depends on the length alone; extrema take the first",
            |op: &Reduce| with_float!(op.x.dtype(), T => reduce_dims::<T>(op)),
        )
    });
    register(portable(
        "first",
        FLOATS,
        "of equal elements the first is taken",
        |op: &ArgReduce| {
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

/// How a reduction is computed.
enum Kind {
    Sum(Sum),
    Extreme { minimum: bool },
}

fn kind(kind: ReduceKind) -> Option<Kind> {
    Some(match kind {
        ReduceKind::Sum => Kind::Sum(Sum::Sum),
        ReduceKind::Mean => Kind::Sum(Sum::Mean),
        ReduceKind::Amax => Kind::Extreme { minimum: false },
        ReduceKind::Amin => Kind::Extreme { minimum: true },
        _ => return None,
    })
}

fn reduce_dims<T: Stored + crate::Float>(op: &Reduce) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (x, shape) = rows::<T>(&gpu, op)?;
        let out = match kind(op.kind).expect("the kernel applies") {
            Kind::Sum(kind) => reduce::sum(gpu.device, &x, shape, kind)?,
            Kind::Extreme { minimum } => reduce::extreme(gpu.device, &x, shape, minimum)?.0,
        };
        gpu.tensor(out, &kept(op))
    })
}

/// The input as `[outer, n, inner]`, to be reduced over n. Dimensions that are not neighbours
/// are first moved to the end.
fn rows<T: Stored>(gpu: &Gpu<'_>, op: &Reduce) -> Result<(Input<T>, [usize; 3]), Failure> {
    let shape = op.x.shape();
    let size = |dims: &[usize]| dims.iter().product::<usize>();
    if op.dims.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
        let first = op.dims.first().copied().unwrap_or(shape.len());
        let last = first + op.dims.len();
        let sizes = [size(&shape[..first]), size(&shape[first..last]), size(&shape[last..])];
        return Ok((gpu.input(&op.x)?, sizes));
    }
    let others: Vec<usize> = (0..shape.len()).filter(|dim| !op.dims.contains(dim)).collect();
    let order: Vec<usize> = others.iter().chain(&op.dims).copied().collect();
    let sizes = |dims: &[usize]| dims.iter().map(|&dim| shape[dim]).product();
    Ok((gpu.input(&op.x.permute(&order)?)?, [sizes(&others), sizes(&op.dims), 1]))
}

/// The shape of the result.
fn kept(op: &Reduce) -> Vec<usize> {
    let mut shape = op.x.shape().to_vec();
    for &dim in &op.dims {
        shape[dim] = 1;
    }
    shape
}
