use samebits::functional as f;

use super::{Handler, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "pad_sequence",
        run: |a| {
            let sequences = ["x0", "x1", "x2"].map(|name| a.tensor(name).cloned());
            let sequences = sequences.into_iter().collect::<samebits::Result<Vec<_>>>()?;
            let side = match a.param::<Option<String>>("padding_side")?.as_deref() {
                Some("left") => f::PaddingSide::Left,
                _ => f::PaddingSide::Right,
            };
            let first = a.param::<Option<bool>>("batch_first")?.unwrap_or(false);
            let value = a.param::<Option<f64>>("padding_value")?.unwrap_or(0.0);
            Ok(vec![("y", f::pad_sequence(&sequences, first, value, side)?)])
        },
        tolerance: |_, _| Tolerance::Copied,
    },
    Handler {
        op: "rotary_embedding",
        run: |a| {
            let [x, cos, sin] = [a.tensor("x")?, a.tensor("cos")?, a.tensor("sin")?];
            Ok(vec![("y", f::rotary_embedding(x, cos, sin, a.param("interleaved")?)?)])
        },
        tolerance: |_, _| Tolerance::Largest(16.0),
    },
    Handler {
        op: "unpad_sequence",
        run: |a| {
            let (input, lengths) = (a.tensor("input")?, a.tensor("lengths")?);
            let found = f::unpad_sequence(input, lengths, a.param("batch_first")?)?;
            Ok(["y0", "y1"].into_iter().zip(found).collect())
        },
        tolerance: |_, _| Tolerance::Copied,
    },
];
