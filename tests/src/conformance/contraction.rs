use samebits::functional as f;

use super::{Handler, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[Handler {
    op: "matmul",
    run: |a| Ok(vec![("y", f::matmul(a.var("input")?, a.var("other")?)?)]),
    // No sum here has more terms than the larger operand has rows and columns.
    tolerance: |a, _| {
        let longest =
            |name| a.tensor(name).map_or(0, |x| x.shape().iter().copied().max().unwrap_or(0));
        Tolerance::Contraction(longest("input").max(longest("other")) as f64)
    },
}];
