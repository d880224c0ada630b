use samebits_tensor_core::Op;
use samebits_tensor_core::ops::{IndexReduce, ScatterAdd, ScatterReduce, ScatterReduceKind};
use samebits_tensor_core::registry::{Kernel, register};

use super::index::{is_zero, to_elements, to_slices};
use super::{F32, FLOATS, INTEGERS, WRAPS, with_float};
use crate::scatter::{self, integer};

const EXACT: &str = "f32: the sum is exact and rounded once; f64: added in ascending source order";
const ASCENDING: &str = "sums as in scatter_add; products in ascending source order; \
    extrema do not depend on the order";
const ATOMIC: &str = "float atomics add in the order in which threads arrive";

pub(super) fn register_all() {
    // Registered before the atomic variants, because it is the faster of the two: see
    // docs/book/benchmarks.md.
    register(Kernel::portable("exact", FLOATS, EXACT, |op: &ScatterAdd, plan| {
        let ScatterAdd { input, index, source, .. } = op;
        let fresh = is_zero(input)?;
        with_float!(input.dtype(), T => to_elements(
            ScatterAdd::NAME,
            plan,
            input,
            index,
            source,
            fresh,
            |out: &mut [T], shape, index, source| {
                scatter::scatter_add_to(out, fresh, shape, index, source)
            },
        ))
    }));
    register(Kernel::fast("atomic", F32, ATOMIC, |op: &ScatterAdd, plan| {
        let ScatterAdd { input, index, source, .. } = op;
        to_elements(ScatterAdd::NAME, plan, input, index, source, false, scatter::scatter_add_fast)
    }));
    register(Kernel::portable("ascending", FLOATS, ASCENDING, |op: &ScatterReduce, plan| {
        let ScatterReduce { input, index, source, kind, include_self, .. } = op;
        with_float!(input.dtype(), T => to_elements(
            ScatterReduce::NAME,
            plan,
            input,
            index,
            source,
            false,
            |out: &mut [T], shape, index, source| {
                scatter::scatter_reduce(out, shape, index, source, *kind, *include_self)
            },
        ))
    }));
    let mut atomic = Kernel::fast("atomic", F32, ATOMIC, |op: &ScatterReduce, plan| {
        let ScatterReduce { input, index, source, kind, include_self, .. } = op;
        to_elements(
            ScatterReduce::NAME,
            plan,
            input,
            index,
            source,
            false,
            |out, shape, index, source| {
                scatter::scatter_reduce_fast(out, shape, index, source, *kind, *include_self)
            },
        )
    });
    atomic.applies = |op, _| matches!(op.kind, ScatterReduceKind::Sum | ScatterReduceKind::Mean);
    register(atomic);
    register(Kernel::portable("ascending", FLOATS, ASCENDING, |op: &IndexReduce, &split| {
        let IndexReduce { input, index, source, kind, include_self, .. } = op;
        with_float!(input.dtype(), T => {
            to_slices(input, split, index, source, false, |out: &mut [T], shape, index, source| {
                scatter::index_reduce(out, shape, index, source, *kind, *include_self)
            })
        })
    }));
    register_integers();
}

fn register_integers() {
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &ScatterAdd, plan| {
        let ScatterAdd { input, index, source, .. } = op;
        to_elements(ScatterAdd::NAME, plan, input, index, source, false, integer::scatter_add)
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &ScatterReduce, plan| {
        let ScatterReduce { input, index, source, kind, include_self, .. } = op;
        to_elements(
            ScatterReduce::NAME,
            plan,
            input,
            index,
            source,
            false,
            |out, shape, index, source| {
                integer::scatter_reduce(out, shape, index, source, *kind, *include_self)
            },
        )
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &IndexReduce, &split| {
        let IndexReduce { input, index, source, kind, include_self, .. } = op;
        to_slices(input, split, index, source, false, |out, shape, index, source| {
            integer::index_reduce(out, shape, index, source, *kind, *include_self)
        })
    }));
}
