use samebits::functional as f;

use super::{Handler, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[Handler {
    op: "log_softmax",
    run: |a| Ok(vec![("y", f::log_softmax(a.var("input")?, a.param("dim")?)?)]),
    tolerance: |_, _| Tolerance::Largest(8.0),
}];
