use samebits_tensor_core::geometry::BagBounds;
use samebits_tensor_core::ops::{
    BagMode, BagParams, EmbeddingBag, EmbeddingBagGrad, EmbeddingBagWeightsGrad, EmbeddingGrad,
};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{Op, Tensor};

use super::index::EXACT;
use super::memory::Input;
use super::{
    ARRIVAL, F32, F64, FLOATS, Failure, Gpu, Real, Tensors, atomic, on, portable, with_float,
};
use crate::Variant;
use crate::embedding::{self, Bags};
use crate::error::CudaError;

/// The reason why f64 sums of places are portable.
const PLACES: &str = "added in ascending order of places";

pub(super) fn register_all() {
    register(atomic(F32, ARRIVAL, |op, &shape| table_grad::<f32>(op, shape, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &EmbeddingGrad, &shape| {
        table_grad::<f32>(op, shape, Variant::Deterministic)
    }));
    register(portable("ascending", F64, PLACES, |op: &EmbeddingGrad, &shape| {
        table_grad::<f64>(op, shape, Variant::Deterministic)
    }));
    register(portable(
        "places",
        FLOATS,
        "the rows of a bag are added in f64 in ascending order of places and rounded once",
        |op: &EmbeddingBag, &shape| with_float!(op.weight.dtype(), T => bag::<T>(op, shape)),
    ));
    register(atomic(F32, ARRIVAL, |op, &shape| bag_grad::<f32>(op, shape, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &EmbeddingBagGrad, &shape| {
        bag_grad::<f32>(op, shape, Variant::Deterministic)
    }));
    register(portable("ascending", F64, PLACES, |op: &EmbeddingBagGrad, &shape| {
        bag_grad::<f64>(op, shape, Variant::Deterministic)
    }));
    register(portable(
        "tree",
        FLOATS,
        "each weight is a scalar product over a tree that depends on the row's width alone",
        |op: &EmbeddingBagWeightsGrad, &shape| with_float!(op.weight.dtype(), T => weights_grad::<T>(op, shape)),
    ));
}

fn weights_grad<T: Real>(
    op: &EmbeddingBagWeightsGrad,
    [rows, width]: [usize; 2],
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let bags =
            bags(&gpu, EmbeddingBagWeightsGrad::NAME, rows, &op.index, &op.bags, &op.params)?;
        let (grad, weight) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.weight)?);
        let total = op.index.numel();
        let out =
            embedding::embedding_bag_weight_grad(gpu.device, &grad, &weight, width, &bags, total)?;
        gpu.tensor(out, op.index.shape())
    })
}

fn table_grad<T: Real>(op: &EmbeddingGrad, shape: [usize; 2], variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, index) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.index)?);
        let out = embedding::embedding_grad(
            gpu.device,
            &grad,
            &index,
            shape,
            op.padding_idx,
            op.scale_grad_by_freq,
            variant,
        )?;
        gpu.tensor(out, &shape)
    })
}

fn bag<T: Real>(op: &EmbeddingBag, [rows, width]: [usize; 2]) -> Tensors<(Tensor, Option<Tensor>)> {
    on(op, |gpu| {
        let bags = bags(&gpu, EmbeddingBag::NAME, rows, &op.index, &op.bags, &op.params)?;
        let shape = [bags.count(), width];
        let table = gpu.input::<T>(&op.weight)?;
        if op.params.mode == BagMode::Max {
            let (out, max_rows) = embedding::embedding_bag_max(gpu.device, &table, width, &bags)?;
            return Ok((gpu.tensor(out, &shape)?, Some(gpu.tensor(max_rows, &shape)?)));
        }
        let (mode, weights) =
            (op.params.mode, weights(&gpu, op.per_sample_weights.as_ref(), &bags)?);
        let out =
            embedding::embedding_bag(gpu.device, &table, width, &bags, mode, weights.as_deref())?;
        Ok((gpu.tensor(out, &shape)?, None))
    })
}

fn bag_grad<T: Real>(
    op: &EmbeddingBagGrad,
    shape: [usize; 2],
    variant: Variant,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let grad = gpu.input::<T>(&op.grad)?;
        let bags = bags(&gpu, EmbeddingBag::NAME, shape[0], &op.index, &op.bags, &op.params)?;
        let scale = op.scale_grad_by_freq;
        let out = match (op.params.mode, &op.max_rows) {
            (mode @ (BagMode::Sum | BagMode::Mean), _) => {
                let weights = weights(&gpu, op.per_sample_weights.as_ref(), &bags)?;
                let weights = weights.as_deref();
                embedding::embedding_bag_grad(
                    gpu.device, &grad, shape[1], &bags, mode, weights, scale, variant,
                )?
            }
            (BagMode::Max, Some(max_rows)) => {
                let max_rows = gpu.input(max_rows)?;
                embedding::embedding_bag_max_grad(gpu.device, &grad, &max_rows, shape, variant)?
            }
            (BagMode::Max, None) => {
                let message = "the gradient of maxima needs the rows that they came from";
                return Err(CudaError::invalid("embedding_bag", message).into());
            }
        };
        gpu.tensor(out, &shape)
    })
}

/// Returns the weights of the places that belong to bags.
fn weights<T: Real>(
    gpu: &Gpu<'_>,
    weights: Option<&Tensor>,
    bags: &Bags,
) -> Result<Option<Input<T>>, Failure> {
    weights.map(|x| gpu.input(&x.narrow(0, 0, bags.places())?)).transpose()
}

fn bags(
    gpu: &Gpu<'_>,
    op: &'static str,
    rows: usize,
    index: &Tensor,
    bounds: &BagBounds,
    params: &BagParams,
) -> Result<Bags, Failure> {
    let index = gpu.input(&index.narrow(0, 0, bounds.total())?)?;
    Ok(Bags::new(gpu.device, op, rows, &index, bounds, params.padding_idx)?)
}
