use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::{SampledProduct, SparseMm};
use samebits_tensor_core::registry::register;

use super::{FLOATS, Real, Tensors, on, portable, with_float};
use crate::Variant;
use crate::sparse::{self, Elements};

pub(super) fn register_all() {
    register(portable(
        "rows",
        FLOATS,
        "each element is a chain of fma in ascending columns within blocks of a fixed length",
        |op: &SparseMm, ()| with_float!(op.values.dtype(), T => product::<T>(op, Variant::Deterministic)),
    ));
    register(portable(
        "tree",
        FLOATS,
        "each dot product runs in f64 over a tree that depends on the length alone",
        |op: &SampledProduct, ()| with_float!(op.left.dtype(), T => sampled::<T>(op)),
    ));
}

fn product<T: Real>(op: &SparseMm, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (rows, columns) = (gpu.input(&op.rows)?, gpu.input(&op.columns)?);
        let (values, dense) = (gpu.input::<T>(&op.values)?, gpu.input(&op.dense)?);
        let [height, width] = [op.dense.shape()[0], op.dense.shape()[1]];
        let size = [op.size, height];
        let elements = Elements { rows: &rows, columns: &columns, count: op.rows.numel(), size };
        let out =
            sparse::sparse_mm(gpu.device, elements, &values, &dense, width, op.period, variant)?;
        gpu.tensor(out, &[op.size, width])
    })
}

fn sampled<T: Real>(op: &SampledProduct) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (rows, columns) = (gpu.input(&op.rows)?, gpu.input(&op.columns)?);
        let (left, right) = (gpu.input::<T>(&op.left)?, gpu.input(&op.right)?);
        let size = [op.left.shape()[0], op.right.shape()[0]];
        let elements = Elements { rows: &rows, columns: &columns, count: op.rows.numel(), size };
        let width = op.left.shape()[1];
        let out = sparse::sampled_product(gpu.device, elements, &left, &right, width)?;
        gpu.tensor(out, op.rows.shape())
    })
}
