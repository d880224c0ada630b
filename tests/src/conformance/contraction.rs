use samebits::functional as f;

use super::{Arguments, Handler, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "bmm",
        run: |a| Ok(vec![("y", f::bmm(a.var("input")?, a.var("other")?)?)]),
        tolerance: product,
    },
    Handler {
        op: "linear",
        run: |a| {
            let y = f::linear(a.var("input")?, a.var("weight")?, a.optional("bias"))?;
            Ok(vec![("y", y)])
        },
        tolerance: product,
    },
    Handler {
        op: "matmul",
        run: |a| Ok(vec![("y", f::matmul(a.var("input")?, a.var("other")?)?)]),
        tolerance: product,
    },
];

/// No sum has more terms than the operands have rows or columns; a bias adds one rounding.
fn product(a: &Arguments<'_>, _: Quantity<'_>) -> Tolerance {
    let longest = |name| {
        let shape = a.optional(name).map(|x| x.shape().to_vec()).unwrap_or_default();
        // Leading dimensions of the left operand are rows too.
        let rows: usize = shape.iter().rev().skip(1).product();
        shape.iter().copied().max().unwrap_or(0).max(rows)
    };
    let longest = ["input", "other", "weight"].map(longest).into_iter().max().unwrap_or(0);
    Tolerance::Contraction(longest as f64 + 1.0)
}
