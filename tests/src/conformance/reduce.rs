use samebits::functional as f;
use samebits::{Result, Var};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler { op: "sum", run: |a| reduced(a, f::sum), tolerance: summed },
    Handler { op: "mean", run: |a| reduced(a, f::mean), tolerance: summed },
    Handler {
        op: "sum_all",
        run: |a| Ok(vec![("y", a.var("input")?.sum_all()?)]),
        tolerance: summed,
    },
];

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
