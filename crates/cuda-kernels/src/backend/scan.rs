use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::{Cumprod, Cumsum};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{Op, Tensor};

use super::{FLOATS, Real, Tensors, on, portable, with_float};
use crate::scan::{Scan, scan};

const TILES: &str = "each line runs in f64 over tiles of 1024 elements, carried in order";

pub(super) fn register_all() {
    register(portable("tiles", FLOATS, TILES, |op: &Cumsum| {
        let kind = if op.reverse { Scan::SumFromEnd } else { Scan::Sum };
        with_float!(op.x.dtype(), T => run::<T, _>(op, &op.x, op.dim, kind))
    }));
    register(portable(
        "tiles",
        FLOATS,
        TILES,
        |op: &Cumprod| with_float!(op.x.dtype(), T => run::<T, _>(op, &op.x, op.dim, Scan::Product)),
    ));
}

fn run<T: Real, O: Op>(op: &O, x: &Tensor, dim: usize, kind: Scan) -> Tensors<Tensor> {
    on(op, |gpu| {
        let shape = outer_dim_inner(O::NAME, x.shape(), dim)?.into();
        let out = scan(gpu.device, &*gpu.input::<T>(x)?, shape, kind)?;
        gpu.tensor(out, x.shape())
    })
}
