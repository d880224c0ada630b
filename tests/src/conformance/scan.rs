use samebits::functional as f;

use super::{Handler, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[Handler {
    op: "cumsum",
    run: |a| Ok(vec![("y", f::cumsum(a.tensor("input")?, a.param::<usize>("dim")?)?)]),
    // Computed in f64 and rounded once.
    tolerance: |_, _| Tolerance::Contraction(1.0),
}];
