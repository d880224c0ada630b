//! Products, convolutions, decompositions and sparse matrices.

use samebits::Tensor;
use samebits::functional as f;
use samebits::ops::*;
use samebits::sparse::{SparseCoo, SparseCsr, sparse_bmm, sparse_mm};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Generator, nn};

use super::{Calls, graded, small};
use crate::fuzz::Draw;

/// Draws two factors of a matrix product, sometimes with leading dimensions.
fn factors(d: &mut Draw, dtype: DType) -> [Value; 2] {
    let ranks = d.below(3);
    let batch = d.shape(ranks);
    let [m, k, n] = [(); 3].map(|()| d.size().min(20));
    let left = [d.broadcastable(&batch), vec![m, k]].concat();
    let right = [d.broadcastable(&batch), vec![k, n]].concat();
    // A vector on either side.
    let [left, right] = match d.below(8) {
        0 => [vec![k], right],
        1 => [left, vec![k]],
        _ => [left, right],
    };
    [d.tensor(&left, dtype), d.tensor(&right, dtype)]
}

/// The shapes and parameters of a convolution, valid unless something hostile was drawn.
struct Convolution {
    input: Vec<usize>,
    weight: Vec<usize>,
    params: ConvParams,
}

fn convolution(d: &mut Draw) -> Convolution {
    let rank = d.between(1, 3);
    let groups = d.between(1, 3);
    let (per_group, out) = (d.between(1, 4), d.between(1, 4));
    let mut input = vec![d.between(0, 3), groups * per_group];
    let mut weight = vec![groups * out, per_group];
    let mut params = ConvParams::padded(rank, 0);
    for dim in 0..rank {
        let (taps, dilation) = (d.between(1, 4), d.between(1, 3));
        let padding = d.between(0, 3);
        let reach = (taps - 1) * dilation + 1;
        let least = reach.saturating_sub(2 * padding).max(1);
        input.push(d.between(least, least + 24 / rank.pow(2)));
        weight.push(taps);
        params.padding[dim] = padding;
        params.dilation[dim] = dilation;
        params.stride[dim] = d.between(1, 3);
    }
    params.stride = d.counts(&params.stride);
    params.padding = d.counts(&params.padding);
    params.dilation = d.counts(&params.dilation);
    params.groups = d.count(groups);
    Convolution { input, weight, params }
}

pub(super) fn add(calls: &mut Calls) {
    products(calls);
    convolutions(calls);
    decompositions(calls);
    sparse(calls);
}

fn attention(d: &mut Draw) -> samebits::Result<Vec<Value>> {
    let dtype = d.float();
    let [n, groups, each] = [(); 3].map(|()| d.between(1, 2));
    let [queries, keys, width, features] = [(); 4].map(|()| d.between(0, 5));
    let other = if d.hostile() { d.between(0, 5) } else { keys };
    let shapes = [
        vec![n, groups * each, queries, width],
        vec![n, groups, keys, width],
        vec![n, groups, other, features],
        vec![d.pick(&[1, groups * each, 3]), queries, d.pick(&[1, keys])],
    ];
    let inputs = shapes.iter().map(|shape| d.tensor(shape, dtype)).collect::<Vec<_>>();
    let (masked, truth, grouped, causal) = (d.flag(), d.flag(), d.flag(), d.flag());
    let offset = d.between(0, 4);
    let offset = if d.hostile() { usize::MAX } else { offset };
    let (dropout_p, scale, seed) = (d.pick(&[0.0, 0.5, 1.0]), d.real(1.0), d.word());
    graded(d, inputs, |x| {
        let shown = x[3].gt(0.0)?;
        let options = f::AttentionOptions {
            attn_mask: masked.then_some(if truth { &shown } else { &x[3] }),
            dropout_p,
            causal_offset: causal.then_some(offset),
            scale: Some(scale),
            enable_gqa: grouped,
        };
        nn::draw_from(&mut Generator::new(seed), || {
            f::scaled_dot_product_attention_with(&x[0], &x[1], &x[2], &options)
        })
    })
}

/// Draws the operands of the kernels, sometimes with several blocks of queries or keys, and masks.
fn operands(d: &mut Draw, dtype: DType) -> Attention {
    // A pass over the scores takes as long as queries times keys.
    d.expand_less();
    let ranks = d.below(3);
    let batch: Vec<usize> = (0..ranks).map(|_| d.between(0, 3)).collect();
    let [queries, keys] = [(); 2].map(|()| if d.chance(12) { 260 } else { d.size() });
    let [width, features] = [(); 2].map(|()| d.size().min(20));
    let mut tensor = |rows: usize, columns: usize, dtype| {
        d.tensor(&[&batch[..], &[rows, columns]].concat(), dtype)
    };
    let query = tensor(queries, width, dtype);
    let key = tensor(keys, width, dtype);
    let value = tensor(keys, features, dtype);
    let (added, hidden) = (tensor(queries, keys, dtype), tensor(queries, keys, DType::Bool));
    let causal = d.flag().then(|| d.count(keys / 2));
    let masks = AttentionMasks {
        added: d.flag().then_some(added),
        hidden: d.flag().then_some(hidden),
        causal,
    };
    let p = d.real(0.5);
    let dropout = d.flag().then(|| AttentionDropout { p, generator: Generator::new(d.word()) });
    Attention { query, key, value, masks, dropout }
}

fn attention_kernels(calls: &mut Calls) {
    calls.op("scaled_dot_product_attention", |d| {
        let dtype = d.float();
        Ok(operands(d, dtype))
    });
    calls.op("scaled_dot_product_attention_grad", |d| {
        let dtype = d.float();
        let Attention { query, key, value, masks, dropout } = operands(d, dtype);
        let rows = &query.shape()[..query.rank().saturating_sub(1)];
        // Operands that do not fit are refused, whatever the gradient's shape.
        let rows = if small(rows) { rows.to_vec() } else { Vec::new() };
        let features = value.shape().last().copied().filter(|&n| n <= 20);
        let grad = d.tensor(&[&rows[..], &[features.unwrap_or(1)]].concat(), dtype);
        let [shared, largest] = [(); 2].map(|()| d.tensor(&rows, dtype));
        Ok(AttentionGrad { grad, shared, largest, query, key, value, masks, dropout })
    });
}

fn products(calls: &mut Calls) {
    calls.function("attention", attention);
    attention_kernels(calls);
    calls.op("matmul", |d| {
        let dtype = d.float();
        let [a, b] = factors(d, dtype);
        Ok(Matmul { a, b })
    });
    calls.op("matmul_half", |d| {
        let dtype = d.pick(&[DType::BF16, DType::F16]);
        let [a, b] = factors(d, dtype);
        let columns = b.shape().last().map_or(1, |&n| n.min(20));
        let columns = if d.hostile() { d.between(0, 20) } else { columns };
        let bias = d.flag().then(|| d.tensor(&[columns], dtype));
        Ok(HalfMatmul { a, b, bias })
    });
    calls.function("products", |d| {
        let dtype = d.float();
        let (which, alpha, beta) = (d.below(9), d.real(1.0), d.real(0.5));
        let (causal, dims) = (d.flag(), [d.dim(2), d.dim(2)]);
        let factors = factors(d, dtype);
        graded(d, factors.to_vec(), |x| {
            let [a, b] = [&x[0], &x[1]];
            match which {
                0 => f::matmul(a, b),
                1 => f::bmm(a, b),
                2 => f::addmm(&f::matmul(a, b)?, a, b, beta, alpha),
                3 => f::mm(a, b),
                4 => f::tensordot(a, b, dims[0], dims[1]),
                5 => f::dot(&f::flatten(a, 0, -1)?, &f::flatten(b, 0, -1)?),
                6 => f::cdist(a, &f::transpose(b, -1, -2)?, beta),
                7 => {
                    let keys = f::transpose(b, -1, -2)?;
                    f::scaled_dot_product_attention(a, &keys, &keys, None, 0.0, causal, None)
                }
                _ => f::baddbmm(&f::matmul(a, b)?, a, b, beta, alpha),
            }
        })
    });
    calls.function("einsum", |d| {
        let dtype = d.float();
        let equation =
            d.pick(&["ij,jk->ik", "...ij,...jk", "ii,i->", "ij,ij,jk->k", "i...,...->..."]);
        let equation =
            if d.hostile() { d.pick(&["", "i", "ij->kk", "i.,j", "->", ",,"]) } else { equation };
        let sizes = [(); 3].map(|()| d.between(0, 4));
        let operands: Vec<Value> = equation
            .split("->")
            .next()
            .unwrap_or_default()
            .replace("...", "")
            .split(',')
            .map(|term| {
                let size = |letter: u8| sizes[usize::from(letter) % 3];
                let mut shape: Vec<usize> = term.bytes().map(size).collect();
                if d.hostile() {
                    shape.push(d.size().min(5));
                }
                d.tensor(&shape, dtype)
            })
            .collect();
        graded(d, operands, |x| f::einsum(equation, &x.iter().collect::<Vec<_>>()))
    });
    calls.function("linear", |d| {
        let (dtype, rank) = (d.float(), d.between(0, 3));
        let (mut shape, [k, n]) = (d.shape(rank), [d.size(), d.size()]);
        shape.push(k.min(20));
        let arguments = vec![
            d.tensor(&shape, dtype),
            d.tensor(&[n.min(20), k.min(20)], dtype),
            d.tensor(&[n.min(20)], dtype),
        ];
        let bias = d.flag();
        graded(d, arguments, |x| f::linear(&x[0], &x[1], Some(&x[2]).filter(|_| bias)))
    });
}

fn convolutions(calls: &mut Calls) {
    calls.op("conv", |d| {
        let dtype = d.float();
        let Convolution { input, weight, params } = convolution(d);
        Ok(Conv {
            input: d.tensor(&input, dtype),
            bias: d.flag().then(|| d.tensor(&weight[..1], dtype)),
            weight: d.tensor(&weight, dtype),
            params,
        })
    });
    calls.op("conv_input", |d| {
        let dtype = d.float();
        let Convolution { input, weight, params } = convolution(d);
        let output = output(d, &params, &input, &weight);
        Ok(ConvInputGrad {
            grad: d.tensor(&output, dtype),
            weight: d.tensor(&weight, dtype),
            input_shape: d.counts(&input),
            params,
        })
    });
    calls.op("conv_weight", |d| {
        let dtype = d.float();
        let Convolution { input, weight, params } = convolution(d);
        let output = output(d, &params, &input, &weight);
        Ok(ConvWeightGrad {
            grad: d.tensor(&output, dtype),
            input: d.tensor(&input, dtype),
            weight_shape: d.counts(&weight),
            params,
        })
    });
    calls.function("convolutions", |d| {
        let (dtype, which) = (d.float(), d.below(3));
        let Convolution { input, weight, params } = convolution(d);
        let more: Vec<usize> = params.stride.iter().map(|_| d.count(0)).collect();
        // A transposed convolution exchanges the roles of the channels.
        let first = if which == 2 { weight[0] } else { input[1] };
        let arguments = vec![
            d.tensor(&[&[input[0], first], &input[2..]].concat(), dtype),
            d.tensor(&weight, dtype),
            d.tensor(&[if which == 2 { input[1] } else { weight[0] }], dtype),
        ];
        let bias = d.flag();
        graded(d, arguments, |x| {
            let bias = Some(&x[2]).filter(|_| bias);
            match which {
                0 => f::conv(&x[0], &x[1], bias, &params),
                1 => f::conv_same(&x[0], &x[1], bias, &params.dilation, params.groups),
                _ => f::conv_transpose(&x[0], &x[1], bias, &params, &more),
            }
        })
    });
}

/// Returns the shape of a convolution's result, if it can be computed.
fn output(d: &mut Draw, params: &ConvParams, input: &[usize], weight: &[usize]) -> Vec<usize> {
    let shape = params.output_shape("conv", input, weight);
    shape.ok().filter(|shape| small(shape)).unwrap_or_else(|| d.any_shape())
}

/// Draws a matrix, or a batch of them.
fn matrices(d: &mut Draw) -> Value {
    let (ranks, dtype) = (d.below(3), d.float());
    let mut shape: Vec<usize> = (0..ranks).map(|_| d.between(0, 3)).collect();
    shape.extend([d.size().min(12), d.size().min(12)]);
    d.tensor(&shape, dtype)
}

fn decompositions(calls: &mut Calls) {
    const MODES: [QrMode; 2] = [QrMode::Reduced, QrMode::Complete];
    calls.op("qr", |d| Ok(Qr { x: matrices(d), mode: d.pick(&MODES) }));
    calls.op("qr_grad", |d| {
        let dtype = d.float();
        let (batch, n) = (d.between(1, 3), d.between(0, 6));
        let m = n + d.below(4);
        let [grad_q, q] = [(); 2].map(|()| d.tensor(&[batch, m, n], dtype));
        let [grad_r, r] = [(); 2].map(|()| d.tensor(&[batch, n, n], dtype));
        Ok(QrGrad { grad_q, grad_r, q, r })
    });
    calls.op("svd", |d| Ok(Svd { x: matrices(d) }));
    calls.function("qr_both", |d| {
        let (x, mode) = (matrices(d), d.pick(&MODES));
        graded(d, vec![x], |x| {
            let (q, r) = f::qr(&x[0], mode)?;
            f::add(&q.sum_all()?, &r.sum_all()?)
        })
    });
    calls.function("lowrank", |d| {
        let x = matrices(d);
        let (q, iterations) = (d.count(2), d.between(0, 3));
        let mut generator = Generator::new(d.word());
        let (u, s, v) = if d.flag() {
            f::svd_lowrank_with(&Tensor::from(&x), q, iterations, None, &mut generator)?
        } else {
            let (q, center) = (d.flag().then_some(q), d.flag());
            f::pca_lowrank_with(&Tensor::from(&x), q, center, iterations, &mut generator)?
        };
        Ok(vec![u.into(), s.into(), v.into()])
    });
}

fn sparse(calls: &mut Calls) {
    calls.op("sparse_mm", |d| {
        let (count, dtype) = (d.size(), d.float());
        let [m, k, n] = [(); 3].map(|()| d.size().min(20));
        Ok(SparseMm {
            rows: d.indices(&[count], m),
            columns: d.indices(&[count], k),
            values: d.tensor(&[count], dtype),
            dense: d.tensor(&[k, n], dtype),
            size: d.count(m),
            period: d.count(k.max(1)),
        })
    });
    calls.op("sampled_product", |d| {
        let (count, dtype) = (d.size(), d.float());
        let [m, k, n] = [(); 3].map(|()| d.size().min(20));
        Ok(SampledProduct {
            rows: d.indices(&[count], m),
            columns: d.indices(&[count], k),
            left: d.tensor(&[m, n], dtype),
            right: d.tensor(&[k, n], dtype),
        })
    });
    calls.function("sparse_matrix", |d| {
        let (count, dtype, batched) = (d.size(), d.float(), d.chance(3));
        let sizes: Vec<usize> = (0..2 + usize::from(batched)).map(|_| d.size().min(12)).collect();
        let mut indices = Vec::new();
        for &size in &sizes {
            indices.extend((0..count).map(|_| d.below(size.max(1)) as i64));
        }
        let indices: Vec<i64> = indices.into_iter().map(|index| d.int(index)).collect();
        let indices = Value::from_slice(&indices, &[sizes.len(), count]).expect("as many");
        let (shape, width, which) = (d.counts(&sizes), d.size().min(9), d.below(6));
        let mut dense = sizes.clone();
        dense.remove(dense.len() - 2);
        dense.push(width);
        let arguments = vec![d.tensor(&[count], dtype), d.tensor(&dense, dtype)];
        let (a, b) = (d.dim(sizes.len()), d.dim(sizes.len()));
        graded(d, arguments, |x| {
            let sparse = SparseCoo::new(&Tensor::from(&indices), &x[0], &shape)?;
            match which {
                0 => sparse_mm(&sparse, &x[1]),
                1 => sparse_bmm(&sparse, &x[1]),
                2 => sparse.to_dense(),
                3 => sparse.coalesce()?.transpose(a, b)?.to_dense(),
                4 => sparse.to_csr()?.to_coo().to_dense(),
                _ => Ok(SparseCsr::from_dense(&sparse.to_dense()?)?.values().clone()),
            }
        })
    });
}
