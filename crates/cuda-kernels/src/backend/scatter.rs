use samebits_tensor_core::ops::{IndexReduce, ScatterAdd, ScatterReduce, ScatterReduceKind};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Tensor};

use super::index::{ASCENDING, EXACT, elements, part};
use super::{
    ARRIVAL, F32, F64, FLOATS, Gpu, INTEGERS, Stored, Tensors, WRAPS, atomic, on, portable,
    with_float,
};
use crate::Variant;
use crate::places;
use crate::scatter::{self, Rows, Summed};

const REDUCED: &str = "sums as in scatter_add; products in ascending source order; \
    extrema do not depend on the order";

pub(super) fn register_all() {
    register(atomic(F32, ARRIVAL, |op, _| scatter_add::<f32>(op, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &ScatterAdd, ()| {
        scatter_add::<f32>(op, Variant::Deterministic)
    }));
    register(portable("integers", INTEGERS, WRAPS, |op: &ScatterAdd, ()| {
        scatter_add::<i64>(op, Variant::Deterministic)
    }));
    register(portable("ascending", F64, ASCENDING, |op: &ScatterAdd, ()| {
        on(op, |gpu| {
            let (shape, dim) = (op.input.shape(), op.dim);
            let index = gpu.input(&op.index)?;
            let strides = samebits_tensor_core::Layout::contiguous(ScatterAdd::NAME, shape)?;
            let (part_shape, strides) = (op.index.shape(), strides.strides());
            let places = places::part_places(
                gpu.device,
                ScatterAdd::NAME,
                &index,
                part_shape,
                strides,
                dim,
                shape[dim],
            )?;
            let mut out = gpu.copy::<f64>(&op.input)?;
            let source = gpu.input(&part(&op.source, &op.index)?)?;
            let flat = Rows { outer: 1, size: op.input.numel(), n: op.index.numel(), inner: 1 };
            let variant = Variant::Deterministic;
            scatter::index_add(gpu.device, &mut out, &places, &source, flat, 1.0, variant)?;
            gpu.tensor(out, shape)
        })
    }));
    register(Kernel {
        applies: |op: &ScatterReduce, ()| {
            let sums = matches!(op.kind, ScatterReduceKind::Sum | ScatterReduceKind::Prod);
            sums && op.include_self
        },
        ..atomic(F32, ARRIVAL, |op, _| scatter_reduce::<f32>(op, Variant::Atomic))
    });
    register(portable(
        "ascending",
        FLOATS,
        REDUCED,
        |op: &ScatterReduce, ()| with_float!(op.input.dtype(), T => scatter_reduce::<T>(op, Variant::Deterministic)),
    ));
    register(portable(
        "ascending",
        FLOATS,
        REDUCED,
        |op: &IndexReduce, ()| with_float!(op.input.dtype(), T => index_reduce::<T>(op)),
    ));
    register(portable("integers", INTEGERS, WRAPS, |op: &ScatterReduce, ()| {
        scatter_reduce::<i64>(op, Variant::Deterministic)
    }));
    register(portable("integers", INTEGERS, WRAPS, |op: &IndexReduce, ()| index_reduce::<i64>(op)));
}

fn index_reduce<T: Stored + Summed>(op: &IndexReduce) -> Tensors<Tensor> {
    on(op, |gpu| {
        // Expands the index of slices to an index of elements.
        let mut line = vec![1; op.input.rank()];
        line[op.dim] = op.index.numel();
        let index = op.index.reshape(&line)?.expand(op.source.shape())?;
        let IndexReduce { input, dim, source, kind, include_self, .. } = op;
        let arguments = (input, *dim, &index, source, *kind, *include_self);
        reduce::<T>(&gpu, IndexReduce::NAME, arguments, Variant::Deterministic)
    })
}

fn scatter_add<T: Stored + Summed>(op: &ScatterAdd, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let shape = op.input.shape();
        let (rows, index) = elements(&gpu, ScatterAdd::NAME, shape, op.dim, &op.index)?;
        let mut out = gpu.copy::<T>(&op.input)?;
        let source = gpu.input(&part(&op.source, &op.index)?)?;
        scatter::scatter_add(gpu.device, &mut out, &index, &source, rows, variant)?;
        gpu.tensor(out, shape)
    })
}

fn scatter_reduce<T: Stored + Summed>(op: &ScatterReduce, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let ScatterReduce { input, dim, index, source, kind, include_self } = op;
        let arguments = (input, *dim, index, source, *kind, *include_self);
        reduce::<T>(&gpu, ScatterReduce::NAME, arguments, variant)
    })
}

/// The input, dimension, index, source, kind, and true if the input counts.
type Arguments<'a> = (&'a Tensor, usize, &'a Tensor, &'a Tensor, ScatterReduceKind, bool);

fn reduce<T: Stored + Summed>(
    gpu: &Gpu<'_>,
    op: &'static str,
    (input, dim, index, source, kind, include_self): Arguments<'_>,
    variant: Variant,
) -> Result<Tensor, super::Failure> {
    let (rows, places) = elements(gpu, op, input.shape(), dim, index)?;
    let mut out = gpu.copy::<T>(input)?;
    let source = gpu.input(&part(source, index)?)?;
    let kind = match kind {
        ScatterReduceKind::Sum => scatter::ScatterReduce::Sum,
        ScatterReduceKind::Mean => scatter::ScatterReduce::Mean,
        ScatterReduceKind::Prod => scatter::ScatterReduce::Prod,
        ScatterReduceKind::Amax => scatter::ScatterReduce::Amax,
        ScatterReduceKind::Amin => scatter::ScatterReduce::Amin,
    };
    scatter::scatter_reduce(
        gpu.device,
        &mut out,
        &places,
        &source,
        rows,
        kind,
        include_self,
        variant,
    )?;
    gpu.tensor(out, input.shape())
}
