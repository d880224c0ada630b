use samebits::functional as f;

use super::{Arguments, Handler, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "index_add",
        run: |a| {
            let index = a.tensor("index")?;
            let (dim, alpha) = (a.param::<usize>("dim")?, a.factor("alpha")?);
            let y = f::index_add(a.tensor("input")?, dim, index, a.tensor("source")?, alpha)?;
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
            let y =
                f::index_select(a.tensor("input")?, a.param::<usize>("dim")?, a.tensor("index")?)?;
            Ok(vec![("y", y)])
        },
        tolerance: read,
    },
    Handler {
        op: "index_copy",
        run: |a| {
            let (dim, index) = (a.param::<usize>("dim")?, a.tensor("index")?);
            Ok(vec![("y", f::index_copy(a.tensor("input")?, dim, index, a.tensor("source")?)?)])
        },
        tolerance: |_, _| Tolerance::Copied,
    },
    Handler {
        op: "gather",
        run: |a| {
            let y = f::gather(a.tensor("input")?, a.param::<usize>("dim")?, a.tensor("index")?)?;
            Ok(vec![("y", y)])
        },
        tolerance: read,
    },
    Handler {
        op: "index_put",
        run: |a| {
            let indices = [a.tensor("index0")?.clone(), a.tensor("index1")?.clone()];
            let (x, values) = (a.tensor("input")?, a.tensor("values")?);
            Ok(vec![("y", f::index_put(x, &indices, values, a.param("accumulate")?)?)])
        },
        tolerance: |_, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Rounded(1.0),
            Quantity::Grad(_) => Tolerance::Copied,
        },
    },
    Handler {
        op: "repeat_interleave",
        run: |a| {
            let dim = Some(a.param::<usize>("dim")?);
            let y = match a.optional("repeats") {
                Some(repeats) => f::repeat_interleave(a.tensor("input")?, repeats, dim)?,
                None => f::repeat_interleave_n(a.tensor("input")?, a.param("repeats")?, dim)?,
            };
            Ok(vec![("y", y)])
        },
        tolerance: read,
    },
];

/// Elements are copied; a gradient is an exact sum, rounded once.
fn read(_: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Copied,
        Quantity::Grad(_) => Tolerance::Rounded(1.0),
    }
}
