use samebits::functional as f;
use samebits::{Result, Tensor};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler { op: "cos", run: |a| unary(a, f::cos), tolerance: rounded },
    Handler { op: "erf", run: |a| unary(a, f::erf), tolerance: bell },
    Handler { op: "exp", run: |a| unary(a, f::exp), tolerance: rounded },
    Handler { op: "expm1", run: |a| unary(a, f::expm1), tolerance: rounded },
    Handler { op: "gelu", run: gelu, tolerance: |_, _| Tolerance::Largest(8.0) },
    Handler { op: "log", run: |a| unary(a, f::log), tolerance: rounded },
    Handler { op: "log1p", run: |a| unary(a, f::log1p), tolerance: rounded },
    Handler { op: "reciprocal", run: |a| unary(a, f::reciprocal), tolerance: power },
    Handler { op: "relu", run: |a| unary(a, f::relu), tolerance: |_, _| Tolerance::Copied },
    Handler { op: "rsqrt", run: |a| unary(a, f::rsqrt), tolerance: power },
    Handler { op: "sigmoid", run: |a| unary(a, f::sigmoid), tolerance: bell },
    Handler { op: "silu", run: |a| unary(a, f::silu), tolerance: |_, _| Tolerance::Largest(8.0) },
    Handler { op: "sin", run: |a| unary(a, f::sin), tolerance: rounded },
    Handler { op: "softplus", run: softplus, tolerance: |_, _| Tolerance::Rounded(6.0) },
    Handler { op: "sqrt", run: |a| unary(a, f::sqrt), tolerance: rounded },
    Handler { op: "tanh", run: |a| unary(a, f::tanh), tolerance: bell },
];

fn unary(a: &Arguments<'_>, function: fn(&Tensor) -> Result<Tensor>) -> Result<Outputs> {
    Ok(vec![("y", function(a.tensor("input")?)?)])
}

fn gelu(a: &Arguments<'_>) -> Result<Outputs> {
    let approximate: Option<String> = a.param("approximate")?;
    unary(a, if approximate.as_deref() == Some("tanh") { f::gelu_tanh } else { f::gelu })
}

fn softplus(a: &Arguments<'_>) -> Result<Outputs> {
    let beta: Option<f64> = a.param("beta")?;
    let threshold: Option<f64> = a.param("threshold")?;
    let y = f::softplus(a.tensor("input")?, beta.unwrap_or(1.0), threshold.unwrap_or(20.0))?;
    Ok(vec![("y", y)])
}

/// Bounds a correctly rounded function whose derivative takes two more roundings.
fn rounded(_: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Rounded(1.0),
        Quantity::Grad(_) => Tolerance::Rounded(3.0),
    }
}

/// Bounds a correctly rounded function whose derivative is a product of its powers.
fn power(_: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Rounded(1.0),
        Quantity::Grad(_) => Tolerance::Rounded(7.0),
    }
}

/// Bounds a correctly rounded function whose derivative falls to zero on both sides, such as
/// `1 − y²`: its errors are those of the 1.
fn bell(_: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Rounded(1.0),
        Quantity::Grad(_) => Tolerance::Largest(4.0),
    }
}
