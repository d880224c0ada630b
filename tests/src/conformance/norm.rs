use samebits::functional as f;

use super::{Handler, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[Handler {
    op: "layer_norm",
    run: |a| {
        let (weight, bias) = (a.var("weight")?, a.var("bias")?);
        Ok(vec![("y", f::layer_norm(a.var("input")?, weight, bias, a.param("eps")?)?)])
    },
    // Means are exact but for the last rounding; differences from the mean are as large as the
    // largest element.
    tolerance: |_, _| Tolerance::Largest(16.0),
}];
