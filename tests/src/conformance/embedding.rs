use samebits::functional::{self as f, BagOptions};
use samebits::ops::BagMode;
use samebits::{Error, Result};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "embedding",
        run: |a| {
            let (padding_idx, scale) = (a.param("padding_idx")?, a.param("scale_grad_by_freq")?);
            let (weight, index) = (a.tensor("weight")?, a.tensor("input")?);
            Ok(vec![("y", f::embedding_with(weight, index, padding_idx, scale)?)])
        },
        // A gradient is an exact sum, rounded, and sometimes divided by a count.
        tolerance: |_, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Copied,
            Quantity::Grad(_) => Tolerance::Rounded(3.0),
        },
    },
    Handler { op: "embedding_bag", run: embedding_bag, tolerance },
];

fn embedding_bag(a: &Arguments<'_>) -> Result<Outputs> {
    let name: String = a.param("mode")?;
    let mode = match name.as_str() {
        "sum" => BagMode::Sum,
        "mean" => BagMode::Mean,
        "max" => BagMode::Max,
        _ => return Err(Error::invalid("embedding_bag", format!("no mode {name}"))),
    };
    let options = BagOptions {
        mode,
        scale_grad_by_freq: a.param("scale_grad_by_freq")?,
        include_last_offset: a.param("include_last_offset")?,
        padding_idx: a.param("padding_idx")?,
    };
    let offsets = a.optional("offsets");
    let weights = a.optional("per_sample_weights");
    let y = f::embedding_bag(a.tensor("weight")?, a.tensor("input")?, offsets, weights, options)?;
    Ok(vec![("y", y)])
}

/// Sums are computed in f64 and rounded once. The addends of the table's gradient are products or
/// quotients, each rounded; their sum is exact, rounded, and sometimes divided by a count.
fn tolerance(a: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    let mode: String = a.param("mode").unwrap_or_default();
    match quantity {
        Quantity::Output(_) if mode == "max" => Tolerance::Copied,
        Quantity::Output(_) => Tolerance::Contraction(1.0),
        // Without signs, other rows are the largest.
        Quantity::Grad(_) if mode == "max" => Tolerance::Rounded(1.0),
        Quantity::Grad(_) => Tolerance::Contraction(4.0),
    }
}
