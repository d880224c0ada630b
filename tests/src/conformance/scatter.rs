use samebits::functional as f;
use samebits::ops::ScatterReduceKind;
use samebits::{Error, Result};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "scatter_add",
        run: |a| {
            let (dim, index) = (a.param::<usize>("dim")?, a.tensor("index")?);
            Ok(vec![("y", f::scatter_add(a.tensor("input")?, dim, index, a.tensor("src")?)?)])
        },
        tolerance: |_, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Rounded(1.0),
            Quantity::Grad(_) => Tolerance::Copied,
        },
    },
    Handler { op: "scatter_reduce", run: scatter_reduce, tolerance },
];

fn scatter_reduce(a: &Arguments<'_>) -> Result<Outputs> {
    let name: String = a.param("reduce")?;
    let kind = match name.as_str() {
        "sum" => ScatterReduceKind::Sum,
        "mean" => ScatterReduceKind::Mean,
        "prod" => ScatterReduceKind::Prod,
        "amax" => ScatterReduceKind::Amax,
        "amin" => ScatterReduceKind::Amin,
        _ => return Err(Error::invalid("scatter_reduce", format!("no reduction {name}"))),
    };
    let (dim, include_self) = (a.param::<usize>("dim")?, a.param("include_self")?);
    let (x, source) = (a.tensor("input")?, a.tensor("src")?);
    let y = f::scatter_reduce(x, dim, a.tensor("index")?, source, kind, include_self)?;
    Ok(vec![("y", y)])
}

fn tolerance(a: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    let kind: String = a.param("reduce").unwrap_or_default();
    match (kind.as_str(), quantity) {
        ("sum", Quantity::Output(_)) => Tolerance::Rounded(1.0),
        ("sum", Quantity::Grad(_)) => Tolerance::Copied,
        // The sum is rounded, then the quotient.
        ("mean", Quantity::Output(_)) => Tolerance::Rounded(3.0),
        ("amax" | "amin", Quantity::Output(_)) => Tolerance::Copied,
        ("mean" | "amax" | "amin", Quantity::Grad(_)) => Tolerance::Rounded(2.0),
        // One rounding for each factor, of which there are at most as many as values.
        (_, quantity) => {
            let values = a.tensor("src").map_or(0, |src| src.numel()) as f64;
            let gradient = matches!(quantity, Quantity::Grad(_));
            Tolerance::Rounded(values + if gradient { 4.0 } else { 0.0 })
        }
    }
}
