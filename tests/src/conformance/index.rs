use samebits::functional as f;

use super::{Handler, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "index_add",
        run: |a| {
            let index = a.tensor("index")?;
            let (dim, alpha) = (a.param("dim")?, a.param("alpha")?);
            let y = f::index_add(a.var("input")?, dim, index, a.var("source")?, alpha)?;
            Ok(vec![("y", y)])
        },
        // Each addend is rounded before the exact sum.
        tolerance: |_, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Contraction(2.0),
            Quantity::Grad("input") => Tolerance::Copied,
            Quantity::Grad(_) => Tolerance::Rounded(1.0),
        },
    },
    Handler {
        op: "index_select",
        run: |a| {
            let y = f::index_select(a.var("input")?, a.param("dim")?, a.tensor("index")?)?;
            Ok(vec![("y", y)])
        },
        tolerance: |_, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Copied,
            Quantity::Grad(_) => Tolerance::Rounded(1.0),
        },
    },
];
