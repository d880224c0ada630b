//! Functions that are built from several operations, or that reinterpret one.

use samebits::Tensor;
use samebits::functional::{self as f, Reduction};

use super::{Calls, graded};

pub(super) fn add(calls: &mut Calls) {
    activations(calls);
    losses(calls);
    distances(calls);
    rearranged(calls);
    answers(calls);
    mixed(calls);
    drawn(calls);
}

const REDUCTIONS: [Reduction; 3] = [Reduction::None, Reduction::Mean, Reduction::Sum];

fn activations(calls: &mut Calls) {
    calls.function("activations", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.float(), d.below(16));
        let dtype = if d.hostile() { d.any_type() } else { dtype };
        let (a, b, dim) = (d.real(0.5), d.real(1.0), d.dim(shape.len()));
        let slopes = shape.get(1).copied().unwrap_or(1);
        let slopes = d.counts(&[slopes]);
        let slopes = if super::small(&slopes) { slopes } else { vec![0] };
        let arguments = vec![d.tensor(&shape, dtype), d.tensor(&slopes, dtype)];
        graded(d, arguments, |x| match which {
            0 => f::celu(&x[0], a),
            1 => f::clamp_max(&x[0], a),
            2 => f::clamp_min(&x[0], a),
            3 => f::glu(&x[0], dim),
            4 => f::hardshrink(&x[0], a),
            5 => f::hardsigmoid(&x[0]),
            6 => f::hardswish(&x[0]),
            7 => f::mish(&x[0]),
            8 => f::prelu(&x[0], &x[1]),
            9 => f::selu(&x[0]),
            10 => f::softmin(&x[0], dim),
            11 => f::softshrink(&x[0], a),
            12 => f::softsign(&x[0]),
            13 => f::tanhshrink(&x[0]),
            14 => f::threshold(&x[0], a, b),
            _ => f::normalize(&x[0], b, dim, a),
        })
    });
}

fn losses(calls: &mut Calls) {
    calls.function("losses", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.float(), d.below(10));
        let (a, b, c) = (d.real(0.5), d.real(1.0), d.real(1e-6));
        let (one, other, reduction) = (d.flag(), d.flag(), d.pick(&REDUCTIONS));
        let second = d.broadcastable(&shape);
        let arguments = [&shape, &second, &shape].map(|shape| d.tensor(shape, dtype)).to_vec();
        graded(d, arguments, |x| match which {
            0 => f::cosine_embedding_loss(&x[0], &x[1], &x[2], a, reduction),
            1 => f::gaussian_nll_loss(&x[0], &x[1], &x[2], one, c, reduction),
            2 => f::hinge_embedding_loss(&x[0], &x[1], a, reduction),
            3 => f::margin_ranking_loss(&x[0], &x[1], &x[2], a, reduction),
            4 => f::multilabel_soft_margin_loss(&x[0], &x[1], one.then_some(&x[2]), reduction),
            5 => f::poisson_nll_loss(&x[0], &x[1], one, other, c, reduction),
            6 => f::soft_margin_loss(&x[0], &x[1], reduction),
            7 => f::triplet_margin_loss(&x[0], &x[1], &x[2], a, b, c, one, reduction),
            _ => {
                let distance = |x: &Tensor, y: &Tensor| match other {
                    true => f::pairwise_distance(x, y, b, c, false),
                    false => f::mul(x, y),
                };
                f::triplet_margin_with_distance_loss(
                    &x[0], &x[1], &x[2], distance, a, one, reduction,
                )
            }
        })
    });
    calls.function("margins_of_classes", |d| {
        let (rank, dtype, which) = (d.below(4), d.float(), d.below(4));
        let shape = d.shape(rank);
        let classes = shape.last().copied().unwrap_or(1);
        let whole = d.flag();
        let places = if whole { &shape[..] } else { &shape[..rank.saturating_sub(1)] };
        let target = Tensor::from(d.indices(places, classes));
        let (p, margin, weighed) = (d.count(2) as u32, d.real(1.0), d.flag());
        let reduction = d.pick(&REDUCTIONS);
        let arguments = vec![d.tensor(&shape, dtype), d.tensor(&[classes], dtype)];
        graded(d, arguments, |x| match which {
            0 => {
                f::multi_margin_loss(&x[0], &target, p, margin, weighed.then_some(&x[1]), reduction)
            }
            1 => f::multilabel_margin_loss(&x[0], &target, reduction),
            2 => f::cross_entropy(&x[0], &target),
            _ => f::nll_loss(&x[0], &target),
        })
    });
}

fn distances(calls: &mut Calls) {
    calls.function("distances", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.float(), d.below(3));
        let (dim, p, eps, keep) = (d.int(-1), d.real(2.0), d.real(1e-6), d.flag());
        let second = d.broadcastable(&shape);
        let arguments = vec![d.tensor(&shape, dtype), d.tensor(&second, dtype)];
        graded(d, arguments, |x| match which {
            0 => f::cosine_similarity(&x[0], &x[1], dim, eps),
            1 => f::pairwise_distance(&x[0], &x[1], p, eps, keep),
            _ => Ok(f::var_mean(&x[0], dim, p, keep)?.1),
        })
    });
}

fn rearranged(calls: &mut Calls) {
    calls.function("rearranged", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.any_type(), d.below(19));
        let rank = shape.len();
        let (a, b, number) = (d.dim(rank), d.dim(rank), d.int(0));
        let (dims, count) = (d.dims(rank), d.count(2));
        let repeats = d.counts(&vec![2; rank]);
        let split = d.counts(&[1, shape.get(a).copied().unwrap_or(1)]);
        let shifts: Vec<i64> = dims.iter().map(|_| d.int(1)).collect();
        let x = d.tensor(&shape, dtype);
        let (some, kind) = (d.any_shape(), d.any_type());
        let index = Tensor::from(d.tensor(&some, kind));
        graded(d, vec![x], |x| match which {
            0 => f::cat(&f::chunk(&x[0], count, a)?, a),
            1 => f::diagonal(&x[0], number, a, b),
            2 => f::flip(&x[0], &dims),
            3 => f::roll(&x[0], &shifts, &dims),
            4 => f::repeat(&x[0], &repeats),
            5 => f::unflatten(&x[0], a, &split[..]),
            6 => f::squeeze(&x[0], &dims),
            7 => f::unsqueeze(&x[0], number),
            8 => f::tril(&x[0], number),
            9 => f::triu(&x[0], number),
            10 => f::select(&x[0], a, number),
            11 => f::i(&x[0], (number, f::Ellipsis)),
            12 => f::i(&x[0], number..),
            13 => f::to_dtype(&x[0], dtype),
            14 => f::tril_indices(count, repeats.first().copied().unwrap_or(3), number),
            15 => f::triu_indices(repeats.first().copied().unwrap_or(3), count, number),
            16 => f::i(&x[0], (number, f::Ellipsis, &index)),
            17 => f::i(&x[0], (&index, .., &index)),
            _ => {
                let many = f::meshgrid(&[&x[0], &x[0]])?;
                f::stack(&many, number)
            }
        })
    });
}

/// Calls functions without a gradient.
fn answers(calls: &mut Calls) {
    calls.function("answers", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.any_type(), d.below(26));
        let second = d.broadcastable(&shape);
        let [x, y] = [&shape, &second].map(|shape| Tensor::from(d.tensor(shape, dtype)));
        let (dim, count, number) = (d.dim(shape.len()), d.count(3), d.real(1.0));
        let (low, high, integer) = (d.real(-1.0), d.real(1.0), d.int(2));
        let answer = match which {
            0 => f::eq(&x, &y)?,
            1 => f::ne(&x, integer)?,
            2 => f::lt(&x, number)?,
            3 => f::le(&x, &y)?,
            4 => f::gt(&x, &y)?,
            5 => f::ge(&x, integer)?,
            6 => f::logical_and(&x, &y)?,
            7 => f::logical_or(&x, &y)?,
            8 => f::logical_not(&x)?,
            9 => f::floor_divide(&x, &y)?,
            10 => f::floor_divide(&x, integer)?,
            11 => f::remainder(&x, &y)?,
            12 => f::remainder(&x, integer)?,
            13 => f::one_hot(&x, count)?,
            14 => f::full_like(&x, number)?,
            15 => f::ones_like(&x)?,
            16 => f::zeros_like(&x)?,
            17 => f::argsort(&x, dim, d.flag())?,
            18 => f::bincount(&x, None, count)?,
            19 => f::histc(&x, count, low, high)?,
            20 => f::nonzero(&x)?,
            21 => f::unique(&x)?.1,
            22 => f::unique_dim(&x, dim)?.0,
            23 => f::unique_consecutive(&x)?.2,
            24 => f::bincount_n(&x, None, count)?,
            _ => f::unique_consecutive_dim(&x, dim)?.0,
        };
        Ok(vec![answer.into()])
    });
    calls.function("least", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let (x, dim, keep) = (d.tensor(&shape, dtype), d.dim(shape.len()), d.flag());
        graded(d, vec![x], |x| Ok(f::min(&x[0], dim, keep)?.0))
    });
}

fn drawn(calls: &mut Calls) {
    calls.function("drawn", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.float(), d.below(8));
        let (sizes, n, dims) = (d.counts(&shape), d.count(9), d.count(2));
        let (low, high, mean, std) = (d.int(-3), d.int(9), d.real(0.0), d.real(1.0));
        let x = Tensor::from(d.tensor(&shape, dtype));
        let generator = &mut super::tensors::generator(d);
        let drawn = match which {
            0 => f::rand_with(&sizes, generator)?,
            1 => f::randn_with(&sizes, generator)?,
            2 => f::randint_with(low, high, &sizes, generator)?,
            3 => f::randperm_with(n, generator)?,
            4 => f::randn_like_with(&x, generator)?,
            5 => f::normal_scalar_with(mean, std, &sizes, generator)?,
            6 => f::fractional_samples_with(&x, dims, generator)?,
            _ => f::bernoulli_with(&x, generator)?,
        };
        Ok(vec![drawn.into()])
    });
}

fn mixed(calls: &mut Calls) {
    calls.function("mixed", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.float(), d.below(8));
        let (value, eps) = (d.real(0.5), d.real(1e-6));
        let rank = shape.len();
        let normalized = d.counts(&shape[rank.min(1)..]);
        let columns = shape.last().copied().unwrap_or(1);
        let (second, third) = (d.broadcastable(&shape), d.broadcastable(&shape));
        let arguments = vec![
            d.tensor(&shape, dtype),
            d.tensor(&second, dtype),
            d.tensor(&third, dtype),
            d.tensor(&[columns], dtype),
        ];
        graded(d, arguments, |x| match which {
            0 => f::addcdiv(&x[0], &x[1], &x[2], value),
            1 => f::addcmul(&x[0], &x[1], &x[2], value),
            2 => f::lerp(&x[0], &x[1], value),
            3 => f::lerp(&x[0], &x[1], &x[2]),
            4 => f::expand_as(&x[1], &x[0]),
            5 => f::mv(&x[0], &x[3]),
            6 => f::rms_norm(&x[0], &normalized, None, Some(eps)),
            _ => f::cat(&f::broadcast_tensors(&[x[0].clone(), x[1].clone()])?, 0),
        })
    });
    calls.function("placed", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.any_type(), d.below(7));
        let (dim, size) = (d.dim(shape.len()), d.below(9));
        let second = d.broadcastable(&shape);
        let [x, y] = [&shape, &second].map(|shape| Tensor::from(d.tensor(shape, dtype)));
        let index = Tensor::from(d.indices(&second, size));
        let (rtol, atol, flag) = (d.real(1e-5), d.real(1e-8), d.flag());
        let answer = match which {
            0 => Tensor::from_bools(&[f::allclose(&x, &y, rtol, atol, flag)?], &[1])?,
            1 => Tensor::from_bools(&[f::equal(&x, &y)?], &[1])?,
            2 => f::count_nonzero(&x, dim)?,
            3 => f::isnan(&x)?,
            4 => f::searchsorted(&x, &y, flag)?,
            5 => f::t(&x)?,
            _ => f::take_along_dim(&x, &index, dim)?,
        };
        Ok(vec![answer.into()])
    });
}
