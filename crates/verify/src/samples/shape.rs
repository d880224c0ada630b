use samebits::functional::{self as f, Windows};
use samebits::ops::ScatterReduceKind::{Mean, Prod};
use samebits::tensor_core::Tensor as Value;
use samebits::{Error, Result, Tensor};

use super::sample::{Samples, each, given, normal};

pub(super) fn samples(samples: &mut Samples) {
    let add = |samples: &mut Samples,
               name,
               function: fn(&[Tensor]) -> Result<Tensor>,
               shapes: &[&[usize]]| {
        let inputs: Vec<_> = shapes.iter().map(|shape| normal(shape).squared()).collect();
        samples.add(name, function).twice(inputs);
    };
    add(samples, "permute", |x| f::permute(&x[0], [2, 0, 1]), &[&[2, 3, 4]]);
    add(samples, "diagonal", |x| f::diagonal(&x[0], 1, 2, 0), &[&[3, 2, 4]]);
    add(samples, "flatten", |x| f::flatten(&x[0], 0, -2), &[&[2, 3, 4]]);
    add(samples, "unflatten", |x| f::unflatten(&x[0], 1, [3, -1]), &[&[2, 6]]);
    add(samples, "reshape", |x| f::reshape(&x[0], [3, 4]), &[&[2, 6]]);
    add(samples, "expand", |x| f::expand(&x[0], &[2, 3, 4]), &[&[3, 1]]);
    add(samples, "cat", |x| f::cat(x, 1), &[&[2, 3], &[2, 0], &[2, 4]]);
    add(samples, "stack", |x| f::stack(x, 2), &[&[2, 3], &[2, 3]]);
    add(samples, "narrow", |x| f::narrow(&x[0], 1, 2, 3), &[&[2, 6]]);
    add(samples, "split", |x| Ok(f::split(&x[0], &[1, 3, 1], 0)?.remove(1)), &[&[5, 2]]);
    add(samples, "movedim", |x| f::movedim(&x[0], [0, 1], [-1, 0]), &[&[2, 3, 4]]);
    add(samples, "rot90", |x| f::rot90(&x[0], -1, 0, 2), &[&[2, 3, 4]]);
    add(samples, "diag_embed", |x| f::diag_embed(&x[0], -1, 0, 2), &[&[2, 3]]);
    add(samples, "trace", |x| f::trace(&x[0]), &[&[3, 4]]);
    add(samples, "tile", |x| f::tile(&x[0], &[2, 3]), &[&[2, 3]]);
    add(samples, "hstack", f::hstack, &[&[2, 3], &[2, 1]]);
    add(samples, "dstack", f::dstack, &[&[2, 3], &[2, 3]]);
    add(samples, "block_diag", f::block_diag, &[&[2, 3], &[4]]);
    let pad_left = |x: &[Tensor]| f::pad_sequence(x, true, 0.5, f::PaddingSide::Left);
    add(samples, "pad_sequence", pad_left, &[&[2, 3], &[4, 3]]);
    add(
        samples,
        "unpad_sequence",
        |x| f::cat(&f::unpad_sequence(&x[0], &[3, 1], false)?, 0),
        &[&[4, 2, 3]],
    );
    add(
        samples,
        "pack_sequence",
        |x| f::cat(&f::unpack_sequence(&f::pack_sequence(x, false)?)?, 0),
        &[&[2, 3], &[4, 3]],
    );
    add(samples, "diff", |x| f::diff(&x[0], 2, 0), &[&[5, 2]]);
    add(samples, "channel_shuffle", |x| f::channel_shuffle(&x[0], 2), &[&[2, 6, 2]]);
    add(samples, "windows", |x| f::windows(&x[0], 1, 3, 2), &[&[2, 7]]);
    let windows =
        Windows { padding: [1, 0], stride: [2, 1], dilation: [1, 2], ..Windows::new([2, 2]) };
    samples
        .add("unfold", move |x| f::unfold(&x[0], windows))
        .batch([each(&[5, 3, 8, 9])])
        .twice([normal(&[1, 2, 3, 4]).squared()]);
    samples
        .add("fold", move |x| f::fold(&x[0], [8, 9], windows))
        .batch([each(&[5, 12, 35])])
        .twice([normal(&[1, 4, 35]).squared()]);
    samples
        .add("flip", |x| f::flip(&x[0], [-1, 1]))
        .batch([each(&[5, 7, 9])])
        .twice([normal(&[2, 3, 4]).squared()]);
    samples
        .add("roll", |x| f::roll(&x[0], &[2, -1], [1, 2]))
        .batch([each(&[5, 7, 9])])
        .twice([normal(&[2, 3, 4]).squared()]);
    without_dimensions(samples);
}

/// Adds the operations that PyTorch accepts for tensors without dimensions: they have dimension 0,
/// as if it had size 1.
fn without_dimensions(samples: &mut Samples) {
    /// A function of one variable.
    type Function = fn(&Tensor) -> Result<Tensor>;
    let functions: [(_, Function); _] = [
        ("sum", |x| f::sum(x, [0], true)),
        ("mean", |x| f::mean(x, [0], true)),
        ("prod", |x| f::prod(x, [0], false)),
        ("norm", |x| f::norm(x, 2.0, [0], true)),
        ("logsumexp", |x| f::logsumexp(x, [0], false)),
        ("amax", |x| f::amax(x, [0], true)),
        ("amin", |x| f::amin(x, [0], false)),
        ("var", |x| f::var(x, [0], 0.0, false)),
        ("max", |x| Ok(f::max(x, 0, true)?.0)),
        ("cumsum", |x| f::cumsum(x, 0)),
        ("cumprod", |x| f::cumprod(x, 0)),
        ("logcumsumexp", |x| f::logcumsumexp(x, 0)),
        ("cummax", |x| Ok(f::cummax(x, 0)?.0)),
        ("sort", |x| Ok(f::sort(x, 0, true)?.0)),
        ("topk", |x| Ok(f::topk(x, 1, 0, true)?.0)),
        ("kthvalue", |x| Ok(f::kthvalue(x, 1, 0, true)?.0)),
        ("median", |x| Ok(f::median_dim(x, 0, false)?.0)),
        ("nanmedian", |x| Ok(f::nanmedian_dim(x, 0, true)?.0)),
        ("softmax", |x| f::softmax(x, 0)),
        ("log_softmax", |x| f::log_softmax(x, 0)),
    ];
    for (name, function) in functions {
        samples
            .add(format!("{name} without dimensions"), move |x| scalar(function(&x[0])?))
            .twice([normal(&[])]);
    }
    /// A function of an input, an index and a source.
    type Placed = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;
    // The name, the shape of the source and the function.
    let placed: [(_, &[usize], Placed); _] = [
        ("index_select", &[], |x, index, _| f::index_select(x, 0, index)),
        ("index_add", &[], |x, index, s| f::index_add(x, 0, index, s, 0.5)),
        ("index_copy", &[1], |x, index, s| f::index_copy(x, 0, index, s)),
        ("index_fill", &[], |x, index, _| f::index_fill(x, 0, index, 2.0)),
        ("scatter", &[], |x, index, s| f::scatter(x, 0, index, s)),
        ("scatter_add", &[1], |x, index, s| f::scatter_add(x, 0, index, s)),
        ("scatter_reduce Mean", &[], |x, i, s| f::scatter_reduce(x, 0, i, s, Mean, true)),
        ("scatter_reduce Prod", &[], |x, i, s| f::scatter_reduce(x, 0, i, s, Prod, true)),
        ("index_reduce Mean", &[], |x, i, s| f::index_reduce(x, 0, i, s, Mean, true)),
        ("index_reduce Prod", &[], |x, i, s| f::index_reduce(x, 0, i, s, Prod, true)),
    ];
    let indices: [&[usize]; 2] = [&[], &[1]];
    for shape in indices {
        let index = || given(Value::from_slice(&[0i64], shape));
        for (name, source, function) in placed {
            samples
                .add(format!("{name} without dimensions, index {shape:?}"), move |x| {
                    scalar(function(&x[0], &x[1], &x[2])?)
                })
                .twice([normal(&[]), index(), normal(source)]);
        }
        samples
            .add(format!("gather without dimensions, index {shape:?}"), |x| {
                let y = f::gather(&x[0], 0, &x[1])?;
                shaped(y, x[1].shape())
            })
            .twice([normal(&[]), index()]);
        samples
            .add(format!("index_select of a line, index {shape:?}"), |x| {
                f::index_select(&x[0], 0, &x[1])
            })
            .twice([normal(&[3]), index()]);
    }
}

fn scalar(y: Tensor) -> Result<Tensor> {
    shaped(y, &[])
}

/// Returns a result after a check of its shape.
fn shaped(y: Tensor, shape: &[usize]) -> Result<Tensor> {
    if y.shape() == shape {
        return Ok(y);
    }
    Err(Error::invalid("shape", format!("expected {shape:?}, found {:?}", y.shape())))
}
