//! Hostile sizes, parameters and indices give a typed error that names the operation, or the right
//! result; never a panic, a hang or an unwritten output.

mod windows;

use std::fmt::Display;

use samebits_cpu_kernels::bincount::{bincount, bincount_len, bincount_weighted, histc};
use samebits_cpu_kernels::ctc::{Batch as Sequences, ctc_loss, ctc_loss_backward};
use samebits_cpu_kernels::elementwise::{Operand, affine, binary, compare, select, unary};
use samebits_cpu_kernels::embedding::{
    BagBounds, BagMode, Bags, embedding, embedding_backward, embedding_backward_fast,
    embedding_bag, embedding_bag_backward, embedding_bag_weights_backward,
};
use samebits_cpu_kernels::index::{
    gather, gather_backward, index_copy, index_select, index_select_backward, linear_index, put,
    repeat_interleave_index, scatter, take, take_backward,
};
use samebits_cpu_kernels::loss::{
    Targets, log_softmax, log_softmax_backward, nll_loss, nll_loss_backward, nll_loss_sums,
    softmax, weights,
};
use samebits_cpu_kernels::norm::{
    Batch, Groups, Scaled, batch_norm_backward, batch_normalize, batch_statistics, group_norm,
    group_norm_backward, layer_norm, layer_norm_backward, rms_norm, rms_norm_backward,
};
use samebits_cpu_kernels::optim::{adam_step, sgd_step};
use samebits_cpu_kernels::reduce::{
    Extreme, arg_extreme_rows, extreme_rows, integer_rows, logsumexp_rows, mean_rows, norm_rows,
    product_rows, sum_columns, sum_rows, variance_rows,
};
use samebits_cpu_kernels::scan::{
    cumextreme, cumprod, cumprod_backward, cumprod_backward_backward, cumsum, cumsum_backward,
    logcumsumexp, logcumsumexp_backward,
};
use samebits_cpu_kernels::scatter::{
    Reduce, index_add, index_add_fast, index_reduce, put_add, put_add_fast, scatter_add,
    scatter_add_fast, scatter_reduce, scatter_reduce_fast,
};
use samebits_cpu_kernels::sort::{kthvalue, median, nanmedian, sort, topk, unique_rows};
use samebits_cpu_kernels::sparse::{Elements, mm, mm_fast, sampled_product};
use samebits_cpu_kernels::{Error, Result};
use samebits_tensor_core::ops::{
    AdamParams, BinaryKind, CompareKind, ReduceKind, SgdParams, UnaryKind,
};

const MAX: usize = usize::MAX;
/// A number whose square is 2^64, so that a product that wraps around becomes 0.
const HALF: usize = 1 << 32;

/// Asserts that each call returns an error whose message begins with the operation's name.
#[track_caller]
fn refused<R, E: Display>(op: &str, calls: impl IntoIterator<Item = Result<R, E>>) {
    for (i, call) in calls.into_iter().enumerate() {
        match call {
            Ok(_) => panic!("{op}: call {i} was not refused"),
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with(&format!("{op}: ")), "call {i}: {message}");
            }
        }
    }
}

#[test]
fn elementwise() {
    let x = [1.0f32, 2.0];
    for out in [&mut [7.0f32; 3][..], &mut [7.0; 1], &mut []] {
        let kept = out.to_vec();
        refused("unary", [unary(UnaryKind::Neg, &x, out), unary(UnaryKind::Exp, &x, out)]);
        refused("affine", [affine(&x, 1.0, 0.0, out)]);
        let mut full = vec![0.0; out.len()];
        full.copy_from_slice(out);
        let (each, other) = (Operand::Each(&x[..]), Operand::Each(&full[..]));
        for kind in [BinaryKind::Add, BinaryKind::Pow] {
            refused("binary", [binary(kind, each, other, out), binary(kind, other, each, out)]);
            refused("binary", [binary(kind, each, Operand::Splat(1.0), out)]);
        }
        let mut bytes = vec![9u8; out.len()];
        let shorter = [compare(CompareKind::Lt, each, other, &mut bytes)];
        refused("compare", shorter);
        refused("compare", [compare(CompareKind::Lt, other, each, &mut bytes)]);
        assert_eq!(bytes, vec![9; out.len()]);
        refused("where", [select(Operand::Each(&[1, 0]), other, other, out)]);
        refused("where", [select(Operand::Each(&bytes), each, other, out)]);
        refused("where", [select(Operand::Splat(1), other, each, out)]);
        assert_eq!(out, kept);
    }
}

/// Shapes whose product wraps around to the given number of elements.
const WRAPPED: [[usize; 3]; 4] =
    [[HALF, HALF, 1], [HALF, 1, HALF], [1, HALF, HALF], [1 << 22, 1 << 21, 1 << 21]];

#[test]
fn reductions() {
    let mut out = [0.0f32; 2];
    let x = [1.0f32; 4];
    for n in [0, 1, 3, MAX, 1 << 63, (1 << 63) + 2] {
        refused("sum_rows", [sum_rows(&x, n, &mut out)]);
        refused("mean_rows", [mean_rows(&x, n, &mut out)]);
        refused("product_rows", [product_rows(&x, n, &mut out)]);
        refused("variance_rows", [variance_rows(&x, n, 1.0, &mut [[0.0; 2]; 2])]);
        refused("norm_rows", [2.0, 3.0, f64::NEG_INFINITY].map(|p| norm_rows(&x, n, p, &mut out)));
        refused("logsumexp_rows", [logsumexp_rows(&x, n, &mut out)]);
        refused("extreme_rows", [extreme_rows(Extreme::Max, &x, n, &mut out)]);
        refused("arg_extreme_rows", [arg_extreme_rows(Extreme::Min, &x, n, &mut [0; 2])]);
        refused("integer_rows", [integer_rows(ReduceKind::Sum, &[1; 4], n, &mut [0; 2])]);
    }
    refused("extreme_rows", [extreme_rows::<f32>(Extreme::Max, &[], 0, &mut out)]);
    refused("arg_extreme_rows", [arg_extreme_rows::<f32>(Extreme::Max, &[], 0, &mut [0])]);
    refused("norm_rows", [norm_rows::<f32>(&[], 0, f64::INFINITY, &mut out)]);
    refused("integer_rows", [integer_rows(ReduceKind::Amax, &[], 0, &mut [0])]);
    refused("integer_rows", [integer_rows(ReduceKind::Mean, &[1], 1, &mut [0])]);
    logsumexp_rows::<f32>(&[], 0, &mut out).unwrap();
    assert_eq!(out, [f32::NEG_INFINITY; 2]);
    sum_rows::<f32>(&[], MAX, &mut []).unwrap();
    let mut wide = [0.0f64; 2];
    let calls =
        [(2, 0), (MAX, 2), (HALF, HALF), (1, 3), (3, 2)].map(|(n, inner)| (n, inner, &x[..]));
    for (n, inner, x) in calls {
        refused("sum_columns", [sum_columns(x, n, inner, &mut wide[..])]);
    }
    sum_columns(&[0.0f32; 0], 0, 2, &mut wide).unwrap();
    sum_columns(&[0.0f32; 0], MAX, MAX, &mut []).unwrap();
}

#[test]
fn scans() {
    let (x, mut out, mut indices) = ([1.0f32], [0.0f32], [0i64]);
    for shape in WRAPPED.into_iter().chain([[MAX, MAX, 2], [1, 2, 1], [0, 1, 1]]) {
        refused("cumsum", [cumsum(&x, shape, &mut out), cumsum_backward(&x, shape, &mut out)]);
        refused("cumsum", [cumsum(&[], shape, &mut out), cumsum(&x, shape, &mut [])]);
        refused("cumprod", [cumprod(&x, shape, &mut out)]);
        refused("cumprod", [cumprod_backward(&x, &x, shape, &mut out)]);
        let mut other = [0.0f32];
        let both = cumprod_backward_backward(&x, &x, &x, shape, &mut out, &mut other);
        refused("cumprod_grad", [both]);
        refused("logcumsumexp", [logcumsumexp(&x, shape, &mut out)]);
        refused("logcumsumexp", [logcumsumexp_backward(&x, &x, &x, shape, &mut out)]);
        refused("cummax", [cumextreme(&x, shape, true, &mut out, &mut indices)]);
        refused("cummin", [cumextreme(&x, shape, false, &mut out, &mut indices)]);
    }
    for shape in [[0, MAX, MAX], [MAX, MAX, 0], [MAX, 0, MAX]] {
        cumsum::<f32>(&[], shape, &mut []).unwrap();
        cumprod_backward::<f32>(&[], &[], shape, &mut []).unwrap();
        cumextreme::<f32>(&[], shape, true, &mut [], &mut []).unwrap();
    }
}

#[test]
fn sorts() {
    let (x, mut values, mut indices) = ([1.0f32], [0.0f32], [0i64]);
    for shape in WRAPPED.into_iter().chain([[MAX, MAX, 2], [1, 2, 1], [0, 1, 1]]) {
        refused("sort", [sort(&x, shape, true, &mut values, &mut indices)]);
        for k in [shape[1], 1, 0] {
            let expected = k <= shape[1];
            let call = topk(&x, shape, k, true, &mut values, &mut indices);
            assert!(call.is_err(), "{shape:?} {k} {expected}");
        }
        refused("kthvalue", [1, MAX].map(|k| kthvalue(&x, shape, k, &mut values, &mut indices)));
        refused("median", [median(&x, shape, &mut values, &mut indices)]);
        refused("nanmedian", [nanmedian(&x, shape, &mut values, &mut indices)]);
    }
    refused("topk", [topk(&x, [1, 1, 1], MAX, true, &mut values, &mut indices)]);
    refused("median", [median::<f32>(&[], [HALF, 0, HALF], &mut [], &mut [])]);
    sort::<f32>(&[], [MAX, 0, MAX], true, &mut [], &mut []).unwrap();
    topk::<f32>(&x, [1, 1, 1], 0, true, &mut [], &mut []).unwrap();
    refused("unique_dim", [[HALF, HALF], [MAX, 2], [2, 1]].map(|s| unique_rows(&x, s, false)));
    // More rows than can be listed, without elements.
    refused("unique_dim", [false, true].map(|c| unique_rows::<i64>(&[], [1 << 60, 0], c)));
    assert_eq!(unique_rows::<i64>(&[], [3, 0], false).unwrap().counts, [3]);
}

#[test]
fn sums_at_indices() {
    let (x, index, mut out) = ([1.0f32], [0i64], [0.0f32]);
    let sum = Reduce::Sum;
    for shape in WRAPPED.into_iter().chain([[MAX, MAX, 2], [1, 2, 1], [0, 1, 1]]) {
        refused("index_add", [index_add(&mut out, shape, &index, &x, 1.0)]);
        refused("index_add", [index_add_fast(&mut out, shape, &index, &x, 1.0)]);
        refused("scatter_add", [scatter_add(&mut out, shape, &index, &x)]);
        refused("scatter_add", [scatter_add_fast(&mut out, shape, &index, &x)]);
        refused("scatter_reduce", [scatter_reduce(&mut out, shape, &index, &x, sum, true)]);
        refused("scatter_reduce", [scatter_reduce_fast(&mut out, shape, &index, &x, sum, true)]);
        refused("index_reduce", [index_reduce(&mut out, shape, &index, &x, sum, true)]);
        let rows = [shape[0], shape[1]];
        if rows[0] != 1 || rows[1] != 1 {
            refused("index_put", [put_add(&mut out, rows, &index, &x)]);
            refused("index_put", [put_add_fast(&mut out, rows, &index, &x)]);
        }
    }
    for shape in [[0, MAX, MAX], [MAX, MAX, 0], [MAX, 0, MAX]] {
        let any: &[i64] = if shape[1] == 0 { &[] } else { &[0] };
        index_add::<f32>(&mut [], shape, any, &[], 2.0).unwrap();
        index_add_fast(&mut [], shape, any, &[], 2.0).unwrap();
        index_reduce::<f32>(&mut [], shape, any, &[], sum, true).unwrap();
        scatter_add::<f32>(&mut [], shape, &[], &[]).unwrap();
        scatter_reduce::<f32>(&mut [], shape, &[], &[], sum, true).unwrap();
        assert!(scatter_add(&mut [], shape, &index, &x).is_err());
    }
    for bad in [-2, 1, i64::MIN, i64::MAX] {
        refused("index_put", [put_add(&mut out, [1, 1], &[bad], &x)]);
        refused("scatter_add", [scatter_add(&mut out, [1, 1, 1], &[bad], &x)]);
    }
    // Rows without elements.
    put_add::<f32>(&mut [], [MAX, 0], &[-1, 0, i64::MAX], &[]).unwrap();
    assert_eq!(out, [0.0]);
}

#[test]
fn reads_and_assignments_at_indices() {
    let (x, index, mut out) = ([1.0f32], [0i64], [0.0f32]);
    for shape in WRAPPED.into_iter().chain([[MAX, MAX, 2], [1, 2, 1], [0, 1, 1]]) {
        refused("index_select", [index_select("index_select", &mut out, &x, shape, &index)]);
        refused(
            "index_select",
            [index_select_backward(&mut out, shape, &index, &x)].map(|call| {
                call.map_err(|error| match error {
                    // The sum comes from another operation.
                    Error::Length { what, expected, got, .. } => {
                        Error::Length { op: "index_select", what, expected, got }
                    }
                    other => other,
                })
            }),
        );
        refused("gather", [gather(&mut out, &x, shape, &index)]);
        refused("gather", [gather_backward(&mut out, shape, &index, &x)]);
        refused("scatter", [scatter(&mut out, shape, &index, &x)]);
        refused("index_copy", [index_copy(&mut out, shape, &index, &x)]);
    }
    for rows in [[HALF, HALF], [MAX, 2], [2, 1], [1, 2]] {
        refused("index_put", [put(&mut out, rows, &index, &x)]);
        refused("take", [take(&mut out, &x, rows, &index)]);
        refused("index_put", [take_backward(&mut out, rows, &index, &x)]);
    }
    for shape in [[0, MAX, MAX], [MAX, MAX, 0], [MAX, 0, MAX]] {
        index_copy::<f32>(&mut [], shape, &[], &[]).unwrap();
        index_select::<f32>("x", &mut [], &[], shape, &[]).unwrap();
        gather::<f32>(&mut [], &[], shape, &[]).unwrap();
    }
    put::<f32>(&mut [], [MAX, 0], &[-1, i64::MAX], &[]).unwrap();
    refused(
        "put",
        [
            linear_index("put", &[&[0], &[0]], &[HALF, HALF]),
            linear_index("put", &[&[0], &[0]], &[MAX, 1]),
            linear_index("put", &[&[1], &[0], &[0]], &[1 << 31, 1 << 33, 0]),
            linear_index("put", &[&[i64::MIN]], &[3]),
            linear_index("put", &[&[0], &[0, 1]], &[3, 3]),
        ],
    );
    refused(
        "repeat_interleave",
        [
            repeat_interleave_index(&[(1 << 48) - 1]),
            repeat_interleave_index(&[1 << 47, (1 << 47) - 1]),
            repeat_interleave_index(&[i64::MAX, 1]),
            repeat_interleave_index(&[i64::MIN]),
        ],
    );
}

#[test]
fn histograms() {
    refused("bincount", [bincount_len(&[i64::MIN], 0)]);
    assert_eq!(bincount_len(&[], MAX).unwrap(), MAX);
    refused("bincount", [bincount(&mut [], &[0]), bincount(&mut [0], &[i64::MAX])]);
    refused("bincount", [bincount_weighted(&mut [0.0f32], &[0, 0], &[1.0])]);
    let mut out = [0.0f32; 2];
    let limits = [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NEG_INFINITY, 0.0), (3.0, 2.0)];
    refused("histc", limits.map(|(low, high)| histc(&mut out, &[1.0], low, high)));
    refused("histc", [histc(&mut [], &[1.0f32], 0.0, 1.0)]);
    refused("histc", [histc(&mut out, &[f32::INFINITY], 0.0, 0.0)]);
}

#[test]
fn tables_and_bags() {
    let (x, index, mut out) = ([1.0f32], [0i64], [0.0f32]);
    for shape in [[HALF, HALF], [MAX, 2], [2, 1], [1, 2]] {
        refused("embedding", [embedding(&mut out, &x, shape, &index)]);
        refused("embedding", [embedding_backward(&mut out, shape, &index, &x, None, true)]);
        refused("embedding", [embedding_backward_fast(&mut out, shape, &index, &x, None, true)]);
    }
    // Rows without elements, more than can be counted one by one.
    embedding_backward::<f32>(&mut [], [MAX, 0], &[0, i64::MAX], &[], None, true).unwrap();
    let many = [i64::MIN, -1, 1, i64::MAX];
    let bag = BagBounds::new("embedding_bag", 1, &[0], false).unwrap();
    refused("embedding_bag", many.map(|i| Bags::new(1, &[i], &bag, None).map(|_| ())));
    refused("embedding_bag", [Bags::new(1, &[], &bag, None)]);
    let offsets: [&[i64]; 5] = [&[1], &[-1], &[0, i64::MAX], &[0, 1, 0], &[i64::MIN]];
    refused("embedding_bag", offsets.map(|o| BagBounds::new("embedding_bag", 1, o, false)));
    refused("embedding_bag", [BagBounds::new("embedding_bag", 1, &[], true)]);
    let bags = Bags::new(HALF, &[0], &bag, None).unwrap();
    let mode = BagMode::Sum;
    for width in [HALF, MAX, 2, 0] {
        refused("embedding_bag", [embedding_bag(&mut out, None, &x, width, &bags, mode, None)]);
        let backward = embedding_bag_backward(&mut out, width, &x, &bags, mode, None, None, false);
        refused("embedding_bag", [backward]);
        refused("embedding_bag", [embedding_bag_weights_backward(&mut out, width, &x, &x, &bags)]);
    }
    embedding_bag_backward::<f32>(&mut [], 0, &[], &bags, BagMode::Mean, None, None, true).unwrap();
    let bags = Bags::new(1, &[0], &bag, None).unwrap();
    let max = BagMode::Max;
    for rows in [-2, 1, i64::MIN, i64::MAX] {
        let call = embedding_bag_backward(&mut out, 1, &x, &bags, max, Some(&[rows]), None, false);
        refused("embedding_bag", [call]);
    }
    let none = embedding_bag_backward(&mut out, 1, &x, &bags, max, None, None, false);
    let weighted = embedding_bag(&mut out, None, &x, 1, &bags, BagMode::Mean, Some(&x));
    refused("embedding_bag", [none, weighted]);
}

#[test]
fn losses() {
    let (x, mut out) = ([1.0f32; 2], [0.0f32; 2]);
    for width in [0, 3, MAX] {
        refused("log_softmax", [log_softmax(&x, width, &mut out)]);
        refused("log_softmax", [softmax(&x, width, &mut out)]);
        refused("log_softmax", [log_softmax_backward(&x, &x, width, &mut out)]);
    }
    refused("log_softmax", [log_softmax(&x[..1], 1, &mut out)]);
    refused("log_softmax", [log_softmax_backward(&x, &x[..1], 1, &mut out)]);
    log_softmax::<f32>(&[], 0, &mut []).unwrap();
    let targets = |classes, count, inner, weight| Targets::<f32> {
        classes,
        count,
        inner,
        weight,
        ignore_index: -100,
    };
    let two = Some(&x[..]);
    for bad in [
        targets(&[0], 2, 0, None),
        targets(&[0], 2, 2, None),
        targets(&[0], 3, 1, two),
        targets(&[0], MAX, 1, None),
        targets(&[0, 0], HALF, HALF, None),
        targets(&[0, 0], 1 << 63, 1, None),
        targets(&[2], 2, 1, two),
        targets(&[i64::MIN], 2, 1, None),
    ] {
        let one = |_: usize| 1.0f32;
        refused(
            "nll_loss",
            [
                nll_loss(&x, bad, &mut out[..1]),
                nll_loss_sums(&x, bad).map(|_| ()),
                nll_loss_backward(one, 1.0, bad, &mut out),
            ],
        );
    }
    refused("nll_loss", [bad_weights(), nll_loss(&x, targets(&[0], 2, 1, None), &mut out)]);
    fn bad_weights() -> Result<()> {
        let classes = &[5];
        weights(Targets::<f32> { classes, count: 2, inner: 1, weight: None, ignore_index: 0 })
            .map(|_| ())
    }
}

#[test]
fn sequences() {
    let good = Sequences {
        log_probs: &[-0.5f32; 4],
        n: 1,
        classes: 2,
        labels: &[1],
        starts: &[0],
        target_lengths: &[1],
        input_lengths: &[2],
        blank: 0,
    };
    assert_eq!(ctc_loss(good).unwrap().len(), 1);
    for bad in [
        Sequences { n: 2, ..good },
        Sequences { n: HALF, classes: HALF, ..good },
        Sequences { n: 0, classes: MAX, ..good },
        Sequences { classes: 3, ..good },
        Sequences { classes: 0, ..good },
        Sequences { log_probs: &[-0.5; 3], ..good },
        Sequences { log_probs: &[], ..good },
        Sequences { labels: &[], ..good },
        Sequences { labels: &[2], ..good },
        Sequences { labels: &[i64::MIN], ..good },
        Sequences { starts: &[MAX], ..good },
        Sequences { starts: &[], ..good },
        Sequences { target_lengths: &[MAX], ..good },
        Sequences { target_lengths: &[1, 1], ..good },
        Sequences { input_lengths: &[3], ..good },
        Sequences { input_lengths: &[], ..good },
        Sequences { blank: 2, ..good },
    ] {
        refused("ctc_loss", [ctc_loss(bad)]);
        refused("ctc_loss", [ctc_loss_backward(bad, &[1.0], false, &mut [0.0; 4])]);
    }
    refused(
        "ctc_loss",
        [
            ctc_loss_backward(good, &[], false, &mut [0.0; 4]),
            ctc_loss_backward(good, &[1.0], false, &mut [0.0; 3]),
        ],
    );
}

#[test]
fn normalisations() {
    let (x, mut out) = ([1.0f32; 4], [0.0f32; 4]);
    let batch = |n, channels, spatial| Batch { n, channels, spatial };
    let given = [Scaled { mean: 0.0f32, rstd: 1.0, scale: 1.0 }; 4];
    for shape in [batch(HALF, HALF, 1), batch(1, 3, 1), batch(MAX, 2, 2), batch(0, 4, 1)] {
        refused("batch_norm", [batch_statistics(&x, shape, 1e-5)]);
        refused("batch_norm", [batch_normalize(&x, shape, &given, &x, &x, &mut out)]);
        refused("batch_norm", [batch_norm_backward(&x, &x, shape, [&x, &x], &x, 1e-5, &mut out)]);
    }
    let shape = batch(2, 2, 1);
    refused("batch_norm", [batch_normalize(&x, shape, &given, &x, &x, &mut out)]);
    refused("batch_norm", [batch_norm_backward(&x, &x, shape, [&x[..2]; 2], &x, 1e-5, &mut out)]);
    refused("batch_norm", [batch_statistics::<f32>(&[], batch(0, MAX, 1), 1e-5)]);
    assert_eq!(batch_statistics::<f32>(&[], batch(MAX, 0, MAX), 1e-5).unwrap(), []);
    batch_norm_backward::<f32>(&[], &[], batch(MAX, 0, MAX), [&[], &[]], &[], 0.0, &mut [])
        .unwrap();
    let (mut mean, mut rstd) = ([0.0f32; 2], [0.0f32; 2]);
    let grouped = |n, groups, channels, spatial| Groups { n, groups, channels, spatial };
    for (shape, parameter) in [
        (grouped(HALF, HALF, 1, 1), 0),
        (grouped(1, 3, 1, 1), 3),
        (grouped(MAX, 2, 2, 1), 0),
        (grouped(2, 1, 2, 1), 1),
        (grouped(4, 1, 1, 1), 1),
    ] {
        let (weight, known) = (Some(&x[..parameter]), [&mean[..], &rstd]);
        let [mut means, mut rstds] = [mean, rstd];
        let moments = [&mut means[..], &mut rstds];
        refused("group_norm", [group_norm(&x, shape, weight, None, 1e-5, &mut out, moments)]);
        let found = group_norm_backward([&x, &x], shape, weight, known, 1e-5, &mut out, None);
        refused("group_norm", [found]);
    }
    let shape = grouped(2, 1, 2, 1);
    let products = Some(&mut mean[..]);
    let found = group_norm_backward([&x, &x], shape, None, [&x[..2]; 2], 1e-5, &mut out, products);
    refused("group_norm", [found]);
    let none = grouped(MAX, MAX, 0, 1);
    refused(
        "group_norm",
        [group_norm::<f32>(&[], none, None, None, 0.0, &mut [], [&mut [], &mut []])],
    );
    refused(
        "layer_norm",
        [
            layer_norm(&x, &x[..3], &x[..3], 1e-5, &mut out, &mut mean, &mut rstd),
            layer_norm(&x, &x[..2], &x[..1], 1e-5, &mut out, &mut mean, &mut rstd),
            layer_norm(&x, &x[..2], &x[..2], 1e-5, &mut out, &mut mean, &mut rstd[..1]),
            layer_norm(&x, &[], &[], 1e-5, &mut out, &mut mean, &mut rstd),
        ],
    );
    refused(
        "layer_norm",
        [
            layer_norm_backward(&x, &x, &x[..3], [&mean, &rstd], 1e-5, &mut out),
            layer_norm_backward(&x[..3], &x, &x[..2], [&mean, &rstd], 1e-5, &mut out),
            layer_norm_backward(&x, &x, &[], [&mean, &rstd], 1e-5, &mut out),
        ],
    );
    refused(
        "rms_norm",
        [
            rms_norm(&x, 3, None, 1e-5, &mut out, [&mut mean, &mut rstd]),
            rms_norm(&x, 2, Some(&x[..1]), 1e-5, &mut out, [&mut mean, &mut rstd]),
            rms_norm(&x, 2, None, 1e-5, &mut out[..3], [&mut mean, &mut rstd]),
            rms_norm(&x, 2, None, 1e-5, &mut out, [&mut mean, &mut rstd[..1]]),
        ],
    );
    refused(
        "rms_norm",
        [
            rms_norm_backward(&x, &x, 3, None, [&mean, &rstd], false, &mut out),
            rms_norm_backward(&x, &x, 2, Some(&x[..1]), [&mean, &rstd], false, &mut out),
            rms_norm_backward(&x[..3], &x, 2, None, [&mean, &rstd], false, &mut out),
            rms_norm_backward(&x, &x, 2, None, [&mean, &rstd[..1]], false, &mut out),
        ],
    );
    let statistics = [&mean[..], &rstd];
    let empty = rms_norm_backward::<f32>(&[], &[], 2, Some(&x[..2]), [&[], &[]], false, &mut []);
    assert_eq!(empty.unwrap(), Some(vec![0.0, 0.0]));
    let empty = layer_norm_backward::<f32>(&[], &[], &[], statistics, 1e-5, &mut []).unwrap();
    assert_eq!(empty, (vec![], vec![]));
}

#[test]
fn optimisers() {
    let sgd =
        SgdParams { lr: 0.1, momentum: 0.9, dampening: 0.0, weight_decay: 0.0, nesterov: false };
    let (x, mut a, mut b, mut c) = ([1.0f32; 2], [0.0f32; 2], [0.0f32; 2], [0.0f32; 2]);
    refused(
        "sgd_step",
        [
            sgd_step(&sgd, &x, &x[..1], None, &mut a, &mut b),
            sgd_step(&sgd, &x, &x, Some(&x[..1]), &mut a, &mut b),
            sgd_step(&sgd, &x, &x, None, &mut a[..1], &mut b),
            sgd_step(&sgd, &x, &x, None, &mut a, &mut b[..1]),
        ],
    );
    let adam = AdamParams {
        lr: 0.1,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.0,
        decoupled: false,
    };
    for step in [0, 1, u64::MAX] {
        refused(
            "adam_step",
            [
                adam_step(&adam, step, &x, &x[..1], &x, &x, &mut a, &mut b, &mut c),
                adam_step(&adam, step, &x, &x, &x, &x, &mut a, &mut b, &mut c[..1]),
            ],
        );
        adam_step(&adam, step, &x, &x, &x, &x, &mut a, &mut b, &mut c).unwrap();
    }
}

#[test]
fn sparse_products() {
    let (dense, mut out) = ([1.0f32; 4], [9.0f32; 4]);
    let good = Elements {
        rows: &[0, 1],
        columns: &[1, 0],
        values: &[2.0f32, 3.0],
        size: [2, 2],
        period: 2,
    };
    mm(good, &dense, 2, &mut out).unwrap();
    assert_eq!(out, [2.0, 2.0, 3.0, 3.0]);
    for (elements, width) in [
        (Elements { period: 0, ..good }, 2),
        (Elements { rows: &[0], ..good }, 2),
        (Elements { columns: &[0], ..good }, 2),
        (Elements { values: &[0.0], ..good }, 2),
        (Elements { rows: &[0, 2], ..good }, 2),
        (Elements { columns: &[0, i64::MIN], ..good }, 2),
        (Elements { size: [HALF, 2], ..good }, HALF),
        (Elements { size: [MAX, MAX], ..good }, 2),
        (good, MAX),
        (good, 1),
    ] {
        refused("sparse_mm", [mm(elements, &dense, width, &mut out)]);
        refused("sparse_mm", [mm_fast(elements, &dense, width, &mut out)]);
    }
    // Rows without elements, and a matrix without columns.
    mm(Elements { size: [MAX, 2], ..good }, &[], 0, &mut []).unwrap();
    let none = Elements { rows: &[], columns: &[], values: &[], size: [2, 0], period: 0 };
    let mut out = [9.0f32; 80];
    mm(none, &[], 40, &mut out).unwrap();
    assert_eq!(out, [0.0; 80]);
    let product = |rows: &[i64], sizes, left: &[f32], width| {
        sampled_product([rows, &[0]], [left, &[1.0]], sizes, width, &mut [0.0])
    };
    refused(
        "sampled_product",
        [
            product(&[0], [1, 1], &[], 1),
            product(&[0], [1, 1], &[1.0], 2),
            product(&[0], [HALF, 1], &[1.0], HALF),
            product(&[0], [MAX, MAX], &[1.0], 1),
            product(&[1], [1, 1], &[1.0], 1),
            product(&[0, 0], [1, 1], &[1.0], 1),
        ],
    );
}
