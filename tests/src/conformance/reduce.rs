use samebits::functional as f;
use samebits::ops::Cast;
use samebits::{DType, Result, Var, dispatch};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler { op: "sum", run: |a| reduced(a, f::sum), tolerance: summed },
    Handler { op: "mean", run: |a| reduced(a, f::mean), tolerance: summed },
    Handler {
        op: "sum_all",
        run: |a| Ok(vec![("y", a.var("input")?.sum_all()?)]),
        tolerance: summed,
    },
    Handler {
        op: "var",
        run: |a| {
            let (dims, correction): (Dims, f64) = (a.param("dim")?, a.param("correction")?);
            let y = f::var(a.var("input")?, &dims.list(), correction, a.param("keepdim")?)?;
            Ok(vec![("y", y)])
        },
        // The variance is kept in f64 and rounded once. Deviations from the rounded mean, and
        // with them the gradient, are differences of numbers as large as the largest element.
        tolerance: |_, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Rounded(1.0),
            Quantity::Grad(_) => Tolerance::Contraction(8.0),
        },
    },
    Handler {
        op: "logsumexp",
        run: |a| {
            let dims: Dims = a.param("dim")?;
            let y = f::logsumexp(a.var("input")?, &dims.list(), a.param("keepdim")?)?;
            Ok(vec![("y", y)])
        },
        // The gradient is the exponential of a rounded difference: what that was off by, times
        // the exponential.
        tolerance: |a, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Rounded(1.0),
            Quantity::Grad(_) => Tolerance::Rounded(4.0 + 2.0 * largest(a)),
        },
    },
];

/// One dimension or several.
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

/// The largest magnitude in the input.
fn largest(a: &Arguments<'_>) -> f64 {
    let x = a.tensor("input").and_then(|x| dispatch(&Cast { x: x.clone(), to: DType::F64 }));
    let values = x.and_then(|x| x.to_vec::<f64>()).unwrap_or_default();
    values.into_iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

fn reduced(a: &Arguments<'_>, reduce: fn(&Var, &[usize]) -> Result<Var>) -> Result<Outputs> {
    let (x, dim): (_, usize) = (a.var("input")?, a.param("dim")?);
    let kept = reduce(x, &[dim])?;
    if a.param("keepdim")? {
        return Ok(vec![("y", kept)]);
    }
    let mut shape = x.shape().to_vec();
    shape.remove(dim);
    Ok(vec![("y", f::reshape(&kept, &shape)?)])
}

/// Sums of f32 are kept in f64 and rounded once.
fn summed(_: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Contraction(1.0),
        Quantity::Grad(_) => Tolerance::Rounded(2.0),
    }
}
