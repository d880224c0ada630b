use samebits_tensor_core::geometry::{IndexedElements, Split};
use samebits_tensor_core::ops::{IndexReduce, ScatterAdd, ScatterReduce, ScatterReduceKind};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Tensor};

use super::index::{ASCENDING, EXACT, elements, flat_places, rows};
use super::{
    ARRIVAL, F32, F64, FLOATS, Gpu, INTEGERS, Stored, Tensors, WRAPS, atomic, on, portable,
    with_float,
};
use crate::scatter::{self, Rows, Summed};
use crate::{Buffer, Variant};

const REDUCED: &str = "sums as in scatter_add; products in ascending source order; \
    extrema do not depend on the order";

pub(super) fn register_all() {
    register(atomic(F32, ARRIVAL, |op, plan| scatter_add::<f32>(op, plan, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &ScatterAdd, plan| {
        scatter_add::<f32>(op, plan, Variant::Deterministic)
    }));
    register(portable("integers", INTEGERS, WRAPS, |op: &ScatterAdd, plan| {
        scatter_add::<i64>(op, plan, Variant::Deterministic)
    }));
    register(portable("ascending", F64, ASCENDING, |op: &ScatterAdd, plan| {
        on(op, |gpu| {
            let places = flat_places(&gpu, ScatterAdd::NAME, plan, &op.index)?;
            let mut out = gpu.copy::<f64>(&op.input)?;
            let source = gpu.input(&op.source.leading(op.index.shape())?)?;
            let flat = rows(plan.flat(), op.index.numel());
            let variant = Variant::Deterministic;
            scatter::index_add(gpu.device, &mut out, &places, &source, flat, 1.0, variant)?;
            gpu.tensor(out, op.input.shape())
        })
    }));
    register(Kernel {
        applies: |op: &ScatterReduce, _| {
            let sums = matches!(op.kind, ScatterReduceKind::Sum | ScatterReduceKind::Prod);
            sums && op.include_self
        },
        ..atomic(F32, ARRIVAL, |op, plan| scatter_reduce::<f32>(op, plan, Variant::Atomic))
    });
    register(portable(
        "ascending",
        FLOATS,
        REDUCED,
        |op: &ScatterReduce, plan| with_float!(op.input.dtype(), T => scatter_reduce::<T>(op, plan, Variant::Deterministic)),
    ));
    register(portable(
        "ascending",
        FLOATS,
        REDUCED,
        |op: &IndexReduce, &split| with_float!(op.input.dtype(), T => index_reduce::<T>(op, split)),
    ));
    register(portable("integers", INTEGERS, WRAPS, |op: &ScatterReduce, plan| {
        scatter_reduce::<i64>(op, plan, Variant::Deterministic)
    }));
    register(portable("integers", INTEGERS, WRAPS, |op: &IndexReduce, &split| {
        index_reduce::<i64>(op, split)
    }));
}

fn index_reduce<T: Stored + Summed>(op: &IndexReduce, split: Split) -> Tensors<Tensor> {
    on(op, |gpu| {
        // Expands the index of slices to an index of elements.
        let mut line = vec![1; op.input.rank()];
        line[op.dim] = op.index.numel();
        let index = gpu.input(&op.index.reshape(&line)?.expand(op.source.shape())?)?;
        let rows = rows(split, op.index.numel());
        let arguments = (&op.input, &op.source, op.kind, op.include_self);
        reduce::<T>(&gpu, rows, &index, arguments, Variant::Deterministic)
    })
}

fn scatter_add<T: Stored + Summed>(
    op: &ScatterAdd,
    plan: &IndexedElements,
    variant: Variant,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (rows, index) = elements(&gpu, ScatterAdd::NAME, plan, &op.index)?;
        let mut out = gpu.copy::<T>(&op.input)?;
        let source = gpu.input(&op.source.leading(op.index.shape())?)?;
        scatter::scatter_add(gpu.device, &mut out, &index, &source, rows, variant)?;
        gpu.tensor(out, op.input.shape())
    })
}

fn scatter_reduce<T: Stored + Summed>(
    op: &ScatterReduce,
    plan: &IndexedElements,
    variant: Variant,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (rows, places) = elements(&gpu, ScatterReduce::NAME, plan, &op.index)?;
        let source = op.source.leading(op.index.shape())?;
        let arguments = (&op.input, &source, op.kind, op.include_self);
        reduce::<T>(&gpu, rows, &places, arguments, variant)
    })
}

/// The input, source, kind, and true if the input counts.
type Arguments<'a> = (&'a Tensor, &'a Tensor, ScatterReduceKind, bool);

fn reduce<T: Stored + Summed>(
    gpu: &Gpu<'_>,
    rows: Rows,
    places: &Buffer<i64>,
    (input, source, kind, include_self): Arguments<'_>,
    variant: Variant,
) -> Result<Tensor, super::Failure> {
    let mut out = gpu.copy::<T>(input)?;
    let source = gpu.input(source)?;
    scatter::scatter_reduce(
        gpu.device,
        &mut out,
        places,
        &source,
        rows,
        kind,
        include_self,
        variant,
    )?;
    gpu.tensor(out, input.shape())
}
