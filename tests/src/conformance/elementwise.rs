use samebits::functional as f;
use samebits::{Result, Var};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler { op: "exp", run: |a| unary(a, f::exp), tolerance: rounded },
    Handler { op: "log", run: |a| unary(a, f::log), tolerance: rounded },
    Handler { op: "relu", run: |a| unary(a, f::relu), tolerance: |_, _| Tolerance::Copied },
];

fn unary(a: &Arguments<'_>, function: fn(&Var) -> Result<Var>) -> Result<Outputs> {
    Ok(vec![("y", function(a.var("input")?)?)])
}

/// A correctly rounded function whose derivative takes two roundings more.
fn rounded(_: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Rounded(1.0),
        Quantity::Grad(_) => Tolerance::Rounded(3.0),
    }
}
