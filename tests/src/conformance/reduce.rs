use samebits::functional as f;
use samebits::ops::Cast;
use samebits::{DType, Result, Tensor, dispatch};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler { op: "sum", run: |a| reduced(a, |x, dims| f::sum(x, dims, true)), tolerance: summed },
    Handler {
        op: "mean",
        run: |a| reduced(a, |x, dims| f::mean(x, dims, true)),
        tolerance: summed,
    },
    Handler {
        op: "sum_all",
        run: |a| Ok(vec![("y", a.tensor("input")?.sum_all()?)]),
        tolerance: summed,
    },
    Handler {
        op: "var",
        run: |a| {
            let (dims, correction): (Dims, f64) = (a.param("dim")?, a.param("correction")?);
            let (x, dims) = (a.tensor("input")?, dims.list());
            let y = f::var(x, &dims, correction, a.param("keepdim")?)?;
            let y = if a.absolute() { both_terms(x, &dims, correction, &y)? } else { y };
            Ok(vec![("y", y)])
        },
        // The variance is computed in f64 and rounded once. Its gradient is a multiple of x - mean,
        // both rounded.
        tolerance: |_, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Rounded(1.0),
            Quantity::Grad(_) => Tolerance::Contraction(8.0),
        },
    },
    Handler {
        op: "logsumexp",
        run: |a| {
            let dims: Dims = a.param("dim")?;
            let y = f::logsumexp(a.tensor("input")?, dims.list(), a.param("keepdim")?)?;
            Ok(vec![("y", y)])
        },
        // The gradient is the exponential of a rounded difference: the error of the difference,
        // times the exponential.
        tolerance: |a, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Rounded(1.0),
            Quantity::Grad(_) => Tolerance::Rounded(4.0 + 2.0 * largest(a)),
        },
    },
];

/// One dimension, or several.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Dims {
    One(usize),
    Several(Vec<usize>),
}

impl Dims {
    fn list(self) -> Vec<usize> {
        match self {
            Dims::One(dim) => vec![dim],
            Dims::Several(dims) => dims,
        }
    }
}

/// Returns (Σx² + (Σx)² / n) / (n - correction) in the shape of `y`: the variance with a sum
/// instead of its difference, so that its gradient is a multiple of x + mean.
fn both_terms(x: &Tensor, dims: &[usize], correction: f64, y: &Tensor) -> Result<Tensor> {
    let n = dims.iter().map(|&dim| x.shape()[dim]).product::<usize>() as f64;
    let squares = f::sum(&f::square(x)?, dims, true)?;
    let square = f::affine(&f::square(&f::sum(x, dims, true)?)?, 1.0 / n, 0.0)?;
    let magnitude = f::affine(&f::add(&squares, &square)?, 1.0 / (n - correction).abs(), 0.0)?;
    f::reshape(&magnitude, y.shape())
}

/// Returns the largest magnitude in the input.
fn largest(a: &Arguments<'_>) -> f64 {
    let x =
        a.tensor("input").and_then(|x| dispatch(&Cast { x: x.value().clone(), to: DType::F64 }));
    let values = x.and_then(|x| x.to_vec::<f64>()).unwrap_or_default();
    values.into_iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

fn reduced(a: &Arguments<'_>, reduce: fn(&Tensor, &[usize]) -> Result<Tensor>) -> Result<Outputs> {
    let (x, dim): (_, usize) = (a.tensor("input")?, a.param::<usize>("dim")?);
    let kept = reduce(x, &[dim])?;
    if a.param("keepdim")? {
        return Ok(vec![("y", kept)]);
    }
    let mut shape = x.shape().to_vec();
    shape.remove(dim);
    Ok(vec![("y", f::reshape(&kept, &shape)?)])
}

/// Sums of f32 are computed in f64 and rounded once.
fn summed(_: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Contraction(1.0),
        Quantity::Grad(_) => Tolerance::Rounded(2.0),
    }
}
