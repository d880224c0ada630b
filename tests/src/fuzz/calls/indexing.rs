//! Gathering, scattering and tables of rows.

use std::sync::Arc;

use samebits::Tensor;
use samebits::functional::{self as f, BagOptions};
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::tensor_core::geometry::BagBounds;
use samebits::{DType, Result};

use super::{Calls, graded};
use crate::fuzz::Draw;

const SCATTER: [ScatterReduceKind; 5] = [
    ScatterReduceKind::Sum,
    ScatterReduceKind::Mean,
    ScatterReduceKind::Prod,
    ScatterReduceKind::Amax,
    ScatterReduceKind::Amin,
];

const BAGS: [BagMode; 3] = [BagMode::Sum, BagMode::Mean, BagMode::Max];

/// A tensor, a dimension of it, indices along it, and their source.
struct Along {
    input: Value,
    dim: usize,
    index: Value,
    source: Value,
}

/// Draws one index for each slice.
fn slices(d: &mut Draw, dtype: DType) -> Along {
    let rank = d.between(1, 4);
    let (shape, dim) = (d.shape(rank), d.below(rank));
    let mut part = shape.clone();
    part[dim] = d.size();
    Along {
        input: d.tensor(&shape, dtype),
        index: d.indices(&part[dim..=dim], shape[dim]),
        source: d.tensor(&part, dtype),
        dim: d.count(dim),
    }
}

/// Draws one index for each element.
fn elements(d: &mut Draw, dtype: DType) -> Along {
    let rank = d.between(1, 4);
    let (shape, dim) = (d.shape(rank), d.below(rank));
    let mut part: Vec<usize> = shape.iter().map(|&size| size - d.below(2).min(size)).collect();
    part[dim] = d.size();
    Along {
        input: d.tensor(&shape, dtype),
        index: d.indices(&part, shape[dim]),
        source: d.tensor(&part, dtype),
        dim: d.count(dim),
    }
}

/// Draws a tensor, indices of its first dimensions, and as many values.
fn places(d: &mut Draw, dtype: DType) -> (Value, Vec<Value>, Value) {
    let rank = d.between(1, 4);
    let (shape, indexed) = (d.shape(rank), d.between(1, rank));
    let parts = d.between(0, 2);
    let part = d.shape(parts);
    let indices = shape[..indexed].iter().map(|&size| d.indices(&part, size)).collect();
    let values = d.broadcastable(&[&part, &shape[indexed..]].concat());
    (d.tensor(&shape, dtype), indices, d.tensor(&values, dtype))
}

pub(super) fn add(calls: &mut Calls) {
    ops(calls);
    functions(calls);
    tables(calls);
}

fn ops(calls: &mut Calls) {
    calls.op("index_select", |d| {
        let dtype = d.any_type();
        let Along { input: x, dim, index, .. } = slices(d, dtype);
        Ok(IndexSelect { x, dim, index })
    });
    calls.op("index_add", |d| {
        let dtype = d.number();
        let Along { input, dim, index, source } = slices(d, dtype);
        Ok(IndexAdd { input, dim, index, source, alpha: d.real(1.0) })
    });
    calls.op("index_copy", |d| {
        let dtype = d.any_type();
        let Along { input, dim, index, source } = slices(d, dtype);
        Ok(IndexCopy { input, dim, index, source })
    });
    calls.op("index_reduce", |d| {
        let dtype = d.number();
        let Along { input, dim, index, source } = slices(d, dtype);
        let (kind, include_self) = (d.pick(&SCATTER), d.flag());
        Ok(IndexReduce { input, dim, index, source, kind, include_self })
    });
    calls.op("gather", |d| {
        let dtype = d.any_type();
        let Along { input: x, dim, index, .. } = elements(d, dtype);
        Ok(Gather { x, dim, index })
    });
    calls.op("scatter", |d| {
        let dtype = d.any_type();
        let Along { input, dim, index, source } = elements(d, dtype);
        Ok(Scatter { input, dim, index, source })
    });
    calls.op("scatter_add", |d| {
        let dtype = d.number();
        let Along { input, dim, index, source } = elements(d, dtype);
        Ok(ScatterAdd { input, dim, index, source })
    });
    calls.op("scatter_reduce", |d| {
        let dtype = d.number();
        let Along { input, dim, index, source } = elements(d, dtype);
        let (kind, include_self) = (d.pick(&SCATTER), d.flag());
        Ok(ScatterReduce { input, dim, index, source, kind, include_self })
    });
    calls.op("index", |d| {
        let dtype = d.any_type();
        let (x, indices, _) = places(d, dtype);
        Ok(Index { x, indices })
    });
    calls.op("index_put", |d| {
        let dtype = d.any_type();
        let (input, indices, values) = places(d, dtype);
        Ok(IndexPut { input, indices, values })
    });
    calls.op("index_put_add", |d| {
        let dtype = d.number();
        let (input, indices, values) = places(d, dtype);
        Ok(IndexPutAdd { input, indices, values })
    });
    calls.op("nonzero", |d| {
        let (shape, dtype) = (d.any_shape(), d.any_type());
        Ok(Nonzero { x: d.tensor(&shape, dtype) })
    });
}

fn functions(calls: &mut Calls) {
    calls.function("index_along", |d| {
        let (which, dtype, alpha) = (d.below(6), d.float(), d.real(1.0));
        let Along { input, dim, index, source } = slices(d, dtype);
        let (index, kind, include) = (Tensor::from(index), d.pick(&SCATTER), d.flag());
        graded(d, vec![input, source], |x| match which {
            0 => f::index_select(&x[0], dim, &index),
            1 => f::index_add(&x[0], dim, &index, &x[1], alpha),
            2 => f::index_copy(&x[0], dim, &index, &x[1]),
            3 => f::index_fill(&x[0], dim, &index, alpha),
            4 => f::index_reduce(&x[0], dim, &index, &x[1], kind, include),
            _ => f::repeat_interleave(&x[0], &index, Some(dim)),
        })
    });
    calls.function("scatter_along", |d| {
        let (which, dtype, value) = (d.below(5), d.float(), d.real(1.0));
        let Along { input, dim, index, source } = elements(d, dtype);
        let (index, kind, include) = (Tensor::from(index), d.pick(&SCATTER), d.flag());
        graded(d, vec![input, source], |x| match which {
            0 => f::gather(&x[0], dim, &index),
            1 => f::scatter(&x[0], dim, &index, &x[1]),
            2 => f::scatter_value(&x[0], dim, &index, value),
            3 => f::scatter_add(&x[0], dim, &index, &x[1]),
            _ => f::scatter_reduce(&x[0], dim, &index, &x[1], kind, include),
        })
    });
    calls.function("index_places", |d| {
        let (which, dtype, accumulate) = (d.below(2), d.float(), d.flag());
        let (input, indices, values) = places(d, dtype);
        let whole = d.flag().then(|| d.count(indices.len()));
        let mut indices: Vec<Option<Tensor>> =
            indices.iter().map(|index| Some(Tensor::from(index))).collect();
        if let Some(dim) = whole.filter(|&dim| dim <= indices.len()) {
            indices.insert(dim, None);
        }
        graded(d, vec![input, values], |x| match which {
            0 => f::index(&x[0], &indices),
            _ => f::index_put(&x[0], &indices, &x[1], accumulate),
        })
    });
    calls.function("flat_places", |d| {
        let (shape, part, dtype) = (d.any_shape(), d.any_shape(), d.float());
        let index = Tensor::from(d.indices(&part, shape.iter().product()));
        let arguments = vec![d.tensor(&shape, dtype), d.tensor(&part, dtype)];
        let (which, accumulate) = (d.below(2), d.flag());
        graded(d, arguments, |x| match which {
            0 => f::take(&x[0], &index),
            _ => f::put(&x[0], &index, &x[1], accumulate),
        })
    });
    calls.function("masked", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let part = d.broadcastable(&shape);
        let mask = Tensor::from(d.tensor(&part, DType::Bool));
        let arguments = vec![d.tensor(&shape, dtype), d.tensor(&shape, dtype)];
        let (which, value) = (d.below(3), d.real(1.0));
        graded(d, arguments, |x| match which {
            0 => f::masked_fill(&x[0], &mask, value),
            1 => f::masked_select(&x[0], &mask),
            _ => f::masked_scatter(&x[0], &mask, &x[1]),
        })
    });
    calls.function("repeat_interleave_to", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let x = d.tensor(&shape, dtype);
        let (repeats, size) = (Tensor::from(d.indices(&[2], 3)), d.count(4));
        let dim = d.dim(shape.len());
        graded(d, vec![x], |x| f::repeat_interleave_to(&x[0], &repeats, dim, size))
    });
    calls.function("repeat_interleave_n", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let x = d.tensor(&shape, dtype);
        let (repeats, dim) = (d.count(2), d.flag().then(|| d.dim(shape.len())));
        graded(d, vec![x], |x| f::repeat_interleave_n(&x[0], repeats, dim))
    });
}

/// Bags of rows of a table.
struct Bags {
    weight: Value,
    index: Value,
    offsets: Vec<i64>,
    include_last_offset: bool,
    per_sample_weights: Option<Value>,
    params: BagParams,
}

fn bags(d: &mut Draw, dtype: DType) -> Bags {
    let (rows, width, count) = (d.size(), d.size(), d.size());
    let mode = d.pick(&BAGS);
    let include_last_offset = d.flag();
    let params =
        BagParams { mode, padding_idx: d.chance(3).then(|| d.count(rows.saturating_sub(1))) };
    let mut offsets: Vec<i64> = (0..d.between(1, 6)).map(|_| d.below(count + 1) as i64).collect();
    offsets.sort_unstable();
    offsets[0] = 0;
    if include_last_offset && offsets.len() > 1 {
        *offsets.last_mut().expect("an offset") = count as i64;
    }
    let offsets: Vec<i64> = offsets.into_iter().map(|offset| d.int(offset)).collect();
    let weighted = (mode == BagMode::Sum && d.flag()) || d.hostile();
    Bags {
        weight: d.tensor(&[rows, width], dtype),
        index: d.indices(&[count], rows),
        offsets,
        include_last_offset,
        per_sample_weights: weighted.then(|| d.tensor(&[count], dtype)),
        params,
    }
}

impl Bags {
    fn bounds(&self) -> Result<Arc<BagBounds>> {
        let places = self.index.numel();
        BagBounds::new("embedding_bag", places, &self.offsets, self.include_last_offset)
            .map(Arc::new)
    }

    /// Draws a gradient of the result.
    fn grad(&self, d: &mut Draw, dtype: DType) -> Value {
        let count = self.offsets.len() - usize::from(self.include_last_offset);
        let width = self.weight.shape().last().copied().unwrap_or(0);
        d.tensor(&[count, width.min(100)], dtype)
    }
}

fn tables(calls: &mut Calls) {
    calls.op("embedding_grad", |d| {
        let (mut shape, rows, dtype) = (d.any_shape(), d.size(), d.float());
        shape.truncate(3);
        let index = d.indices(&shape, rows);
        shape.push(d.between(0, 9));
        Ok(EmbeddingGrad {
            grad: d.tensor(&shape, dtype),
            index,
            rows: d.count(rows),
            padding_idx: d.flag().then(|| d.count(rows.saturating_sub(1))),
            scale_grad_by_freq: d.flag(),
        })
    });
    calls.op("embedding_bag", |d| {
        let dtype = d.float();
        let drawn = bags(d, dtype);
        let bags = drawn.bounds()?;
        let Bags { weight, index, per_sample_weights, params, .. } = drawn;
        Ok(EmbeddingBag { weight, index, bags, per_sample_weights, params })
    });
    calls.op("embedding_bag_grad", |d| {
        let dtype = d.float();
        let bags = bags(d, dtype);
        let (grad, rows) = (bags.grad(d, dtype), bags.weight.shape().first().copied());
        let max_rows =
            (bags.params.mode == BagMode::Max).then(|| d.indices(grad.shape(), rows.unwrap_or(0)));
        Ok(EmbeddingBagGrad {
            grad,
            bags: bags.bounds()?,
            index: bags.index,
            per_sample_weights: bags.per_sample_weights,
            max_rows,
            params: bags.params,
            rows: d.count(rows.unwrap_or(0)),
            scale_grad_by_freq: d.flag(),
        })
    });
    calls.op("embedding_bag_weights_grad", |d| {
        let dtype = d.float();
        let drawn = bags(d, dtype);
        let (grad, bags) = (drawn.grad(d, dtype), drawn.bounds()?);
        let Bags { weight, index, params, .. } = drawn;
        Ok(EmbeddingBagWeightsGrad { grad, weight, index, bags, params })
    });
    calls.function("embedding", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let (rows, width) = (d.size(), d.between(0, 5));
        let index = Tensor::from(d.indices(&shape[..shape.len().min(3)], rows));
        let weight = d.tensor(&[rows, width], dtype);
        let padding = d.flag().then(|| d.count(rows.saturating_sub(1)));
        let scale = d.flag();
        graded(d, vec![weight], |x| f::embedding_with(&x[0], &index, padding, scale))
    });
    calls.function("embedding_renorm", |d| {
        let (rows, width, dtype) = (d.size(), d.size(), d.float());
        let weight = Tensor::from(d.tensor(&[rows, width], dtype));
        let index = Tensor::from(d.indices(&[5], rows));
        Ok(vec![f::embedding_renorm(&weight, &index, d.real(1.0), d.real(2.0))?.into()])
    });
    calls.function("embedding_bags", |d| -> Result<Vec<Value>> {
        let dtype = d.float();
        let Bags { weight, index, offsets, include_last_offset, per_sample_weights, params } =
            bags(d, dtype);
        let options = BagOptions {
            mode: params.mode,
            scale_grad_by_freq: d.flag(),
            include_last_offset,
            padding_idx: params.padding_idx,
        };
        let arguments = [weight].into_iter().chain(per_sample_weights).collect();
        let (index, offsets) =
            (Tensor::from(index), Tensor::from_slice(&offsets, &[offsets.len()])?);
        let offsets = Some(&offsets).filter(|_| !d.hostile());
        graded(d, arguments, |x| f::embedding_bag(&x[0], &index, offsets, x.get(1), options))
    });
}
