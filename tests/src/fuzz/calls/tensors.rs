//! Tensors themselves, their views, and random ones.

use samebits::functional as f;
use samebits::ops::*;
use samebits::rng::Generator;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Device, Result, Tensor};

use super::{Calls, graded};
use crate::fuzz::Draw;

pub(super) fn add(calls: &mut Calls) {
    random(calls);
    views(calls);
    shapes(calls);
    arrangements(calls);
}

fn random(calls: &mut Calls) {
    calls.op("uniform", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        Ok(Uniform {
            shape: d.counts(&shape),
            dtype: if d.hostile() { d.any_type() } else { dtype },
            device: Device::Cpu,
            low: d.real(-1.0),
            high: d.real(1.0),
            generator: generator(d),
        })
    });
    calls.op("normal", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        Ok(Normal {
            shape: d.counts(&shape),
            dtype: if d.hostile() { d.any_type() } else { dtype },
            device: Device::Cpu,
            mean: d.real(0.0),
            std: d.real(1.0),
            generator: generator(d),
        })
    });
    calls.op("dropout", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        Ok(Dropout { x: d.tensor(&shape, dtype), p: d.real(0.3), generator: generator(d) })
    });
    calls.function("random", |d| {
        let (shape, seed) = (d.any_shape(), d.word());
        let (shape, n) = (d.counts(&shape), d.count(9));
        samebits::manual_seed(seed);
        Ok(vec![match d.below(3) {
            0 => samebits::rand(&shape)?.into(),
            1 => samebits::randn(&shape)?.into(),
            _ => samebits::randperm(n)?.into(),
        }])
    });
    calls.function("random_of_tensors", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.float(), d.below(5));
        let dtype = if d.hostile() { d.any_type() } else { dtype };
        let (x, mut generator) = (Tensor::from(d.tensor(&shape, dtype)), generator(d));
        let (n, replacement, generator) = (d.count(3), d.flag(), &mut generator);
        let (low, high) = (d.int(-3), d.int(9));
        let drawn = match which {
            0 => f::bernoulli_with(&x, generator)?,
            1 => f::multinomial_with(&x, n, replacement, generator)?,
            2 => f::normal_with(&x, &x, generator)?,
            3 => f::rand_like_with(&x, generator)?,
            _ => f::randint_like_with(&x, low, high, generator)?,
        };
        Ok(vec![drawn.into()])
    });
    calls.function("dropouts", |d| {
        let (shape, dtype, p, which) = (d.any_shape(), d.float(), d.real(0.3), d.below(6));
        let (x, mut generator) = (d.tensor(&shape, dtype), generator(d));
        graded(d, vec![x], |x| match which {
            0 => f::dropout_with(&x[0], p, &mut generator),
            1 => f::dropout1d_with(&x[0], p, &mut generator),
            2 => f::dropout2d_with(&x[0], p, &mut generator),
            3 => f::dropout3d_with(&x[0], p, &mut generator),
            4 => f::alpha_dropout_with(&x[0], p, &mut generator),
            _ => f::feature_alpha_dropout_with(&x[0], p, &mut generator),
        })
    });
}

/// Draws a generator, sometimes at the end of its words.
pub(super) fn generator(d: &mut Draw) -> Generator {
    let offset = d.count(0) as u64;
    Generator::new(d.word()).with_offset(offset)
}

fn views(calls: &mut Calls) {
    calls.function("views", |d| {
        let (shape, dtype) = (d.any_shape(), d.any_type());
        let mut x = d.tensor(&shape, dtype);
        for _ in 0..d.between(1, 4) {
            x = view(d, &x)?;
        }
        // A tensor that cannot be read whole returns an error.
        let x = x.contiguous()?;
        x.to_bytes()?;
        Ok(vec![x])
    });
    calls.function("reading", |d| {
        let (shape, dtype) = (d.any_shape(), d.any_type());
        let mut x = d.tensor(&shape, dtype);
        match d.below(7) {
            0 => drop(x.to_vec::<f32>()?),
            1 => drop(x.to_vec::<i64>()?),
            2 => drop(x.item::<f64>()?),
            3 => drop(x.to_bools()?),
            4 => x.as_mut_slice::<f32>()?.fill(1.0),
            5 => {
                let shape = d.any_shape();
                x.resize_(&d.counts(&shape))?;
            }
            _ => drop(format!("{x:?}")),
        }
        Ok(vec![x])
    });
    calls.function("making", |d| {
        let shape = d.any_shape();
        let values = vec![1.5f32; shape.iter().product()];
        let bools = vec![true; values.len()];
        let shape = d.counts(&shape);
        Ok(vec![match d.below(2) {
            0 => Value::from_slice(&values, &shape)?,
            _ => Value::from_bools(&bools, &shape)?,
        }])
    });
}

/// Draws a view of a tensor, or a copy in another shape.
fn view(d: &mut Draw, x: &Value) -> Result<Value> {
    let rank = x.rank();
    let dim = d.dim(rank);
    let size = x.shape().get(dim).copied().unwrap_or(1);
    let start = d.below(size.clamp(1, 1000));
    match d.below(10) {
        0 => x.narrow(dim, d.count(start), d.count(size - start.min(size))),
        1 => x.stepped(dim, d.count(start), d.count(2)),
        2 => x.select(dim, d.count(start)),
        3 => x.unsqueeze(d.count(rank)),
        4 => x.squeeze(dim),
        5 => x.transpose(dim, d.dim(rank)),
        6 => {
            let order: Vec<usize> = (0..rank).rev().collect();
            x.permute(&d.counts(&order))
        }
        7 => {
            let wider = [&[2], x.shape()].concat();
            x.expand(&d.counts(&wider))
        }
        8 => x.flatten_from(dim),
        _ => {
            let turned: Vec<usize> = x.shape().iter().rev().copied().collect();
            x.reshape(&d.counts(&turned))
        }
    }
}

fn shapes(calls: &mut Calls) {
    calls.function("shapes", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.float(), d.below(9));
        let rank = shape.len();
        let (x, a, b) = (d.tensor(&shape, dtype), d.dim(rank), d.dim(rank));
        let turned: Vec<usize> = shape.iter().rev().copied().collect();
        let order: Vec<usize> = (0..rank).rev().collect();
        let (turned, order) = (d.counts(&turned), d.counts(&order));
        let wider = d.counts(&[&[2], &shape[..]].concat());
        let (start, length) = (d.count(0), d.count(1));
        let sizes = d.counts(&[1, 1]);
        graded(d, vec![x], |x| match which {
            0 => f::reshape(&x[0], &turned),
            1 => f::flatten(&x[0], a, b),
            2 => f::permute(&x[0], &order),
            3 => f::transpose(&x[0], a, b),
            4 => f::expand(&x[0], &wider),
            5 => f::narrow(&x[0], a, start, length),
            6 => f::stack(&[x[0].clone(), x[0].clone()], a),
            7 => f::cat(&[x[0].clone(), x[0].clone()], a),
            _ => {
                let parts: Vec<Tensor> = f::split(&x[0], &sizes, a)?;
                f::cat(&parts, a)
            }
        })
    });
    calls.function("digest", |d| {
        let (shape, dtype) = (d.any_shape(), d.any_type());
        let x = d.tensor(&shape, dtype);
        let text = samebits::digest([("x", &Tensor::from(&x))])?;
        Ok(vec![Value::from_slice(text.as_bytes(), &[text.len()])?])
    });
    calls.function("item", |d| {
        let dtype = d.pick(&[DType::F32, DType::F64]);
        let x = d.tensor(&[], dtype);
        graded(d, vec![x], |x| {
            x[0].backward()?;
            Ok(x[0].clone())
        })
    });
}

fn arrangements(calls: &mut Calls) {
    calls.function("arrangements", |d| {
        let (shape, dtype, which) = (d.any_shape(), d.float(), d.below(26));
        let (x, a, b) = (d.tensor(&shape, dtype), d.dim(shape.len()), d.dim(shape.len()));
        let (number, size, step) = (d.int(1), d.count(2), d.count(1));
        let (sizes, real) = (d.counts(&[1, 2]), d.real(0.75));
        let side = if step == 1 { f::PaddingSide::Left } else { f::PaddingSide::Right };
        let counts = shape.last().copied().unwrap_or(1);
        let counts = Tensor::from(d.indices(&[counts], 5));
        graded(d, vec![x], |x| match which {
            0 => f::movedim(&x[0], a, b),
            1 => f::rot90(&x[0], number, a, b),
            2 => f::diag_embed(&x[0], number, a, b),
            3 => f::diag(&x[0], number),
            4 => f::trace(&x[0]),
            5 => f::tile(&x[0], &sizes),
            6 => f::stack(&f::unbind(&x[0], a)?, b),
            7 => f::cat(&f::tensor_split(&x[0], &sizes, a)?, a),
            8 => f::windows(&x[0], a, size, step),
            9 => f::diff(&x[0], step, a),
            10 => f::block_diag(&[x[0].clone(), x[0].clone()]),
            11 => f::hstack(&[x[0].clone(), x[0].clone()]),
            12 => f::vstack(&[x[0].clone(), x[0].clone()]),
            13 => f::dstack(&[x[0].clone(), x[0].clone()]),
            14 => f::channel_shuffle(&x[0], size),
            15 => f::nansum(&x[0], a, true),
            16 => f::nanmean(&x[0], a, false),
            17 => f::kron(&x[0], &Tensor::new([1.0f32, 2.0])?),
            19 => f::local_response_norm(&x[0], size, real, real, real),
            20 => f::corrcoef(&x[0]),
            21 => f::cov(&x[0], step, None, Some(&f::abs(&x[0])?)),
            22 => f::cov(&x[0], size, Some(&counts), None),
            23 => f::pad_sequence(&[x[0].clone(), f::diff(&x[0], step, 0)?], step == 1, real, side),
            24 => f::cat(&f::unpad_sequence(&x[0], &sizes, step == 1)?, 0),
            25 => f::cat(&f::unpack_sequence(&f::pack_sequence(x, step == 1)?)?, 0),
            18 => f::outer(&x[0], &Tensor::new([1.0f32, 2.0])?),
            _ => f::cartesian_prod(&[x[0].clone(), Tensor::new([1.0f32, 2.0])?]),
        })
    });
    calls.function("sliding_windows", |d| {
        let (dtype, folds) = (d.float(), d.flag());
        let kernel = [d.between(1, 3), d.between(1, 3)];
        let windows = f::Windows {
            kernel_size: [d.count(kernel[0]), d.count(kernel[1])],
            dilation: [d.count(1), d.count(2)],
            padding: [d.count(0), d.count(1)],
            stride: [d.count(1), d.count(2)],
        };
        let [rows, columns] = [d.between(3, 9), d.between(5, 9)];
        let size = [d.count(rows), d.count(columns)];
        let x = d.tensor(&[2, 3, rows, columns], dtype);
        graded(d, vec![x], |x| {
            let parts = f::unfold(&x[0], windows)?;
            if folds { f::fold(&parts, size, windows) } else { Ok(parts) }
        })
    });
    calls.function("searches", |d| {
        let (dtype, n, right) = (d.number(), d.size(), d.flag());
        let shape = d.any_shape();
        let (row, x) = (d.tensor(&[n], dtype), d.tensor(&shape, dtype));
        let (row, x) = (Tensor::from(row), Tensor::from(x));
        Ok(vec![match d.below(2) {
            0 => f::bucketize(&x, &row, right)?.into(),
            _ => f::isin(&x, &row)?.into(),
        }])
    });
}
