use samebits::functional as f;

use super::{Handler, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "bincount",
        run: |a| {
            let y = f::bincount(a.tensor("input")?, None, a.param("minlength")?)?;
            Ok(vec![("y", y)])
        },
        tolerance: |_, _| Tolerance::Copied,
    },
    Handler {
        op: "bincount_weighted",
        run: |a| {
            let weights = Some(a.tensor("weights")?);
            let y = f::bincount(a.tensor("input")?, weights, a.param("minlength")?)?;
            Ok(vec![("y", y)])
        },
        tolerance: |_, _| Tolerance::Rounded(1.0),
    },
    Handler {
        op: "histc",
        run: |a| {
            let (min, max) = (a.param("min")?, a.param("max")?);
            let y = f::histc(a.tensor("input")?, a.param("bins")?, min, max)?;
            Ok(vec![("y", y)])
        },
        tolerance: |_, _| Tolerance::Copied,
    },
];
