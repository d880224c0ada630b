use samebits::functional as f;
use samebits::{Result, Tensor};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler { op: "batch_norm", run: batch_norm, tolerance },
    Handler {
        op: "group_norm",
        run: |a| {
            let (weight, bias) = parameters(a);
            let groups = a.param("num_groups")?;
            Ok(vec![("y", f::group_norm(a.tensor("input")?, groups, weight, bias, eps(a)?)?)])
        },
        tolerance,
    },
    Handler {
        op: "instance_norm",
        run: |a| {
            let (weight, bias) = parameters(a);
            Ok(vec![("y", f::instance_norm(a.tensor("input")?, weight, bias, eps(a)?)?.0)])
        },
        tolerance,
    },
    Handler {
        op: "layer_norm",
        run: |a| {
            let (weight, bias) = parameters(a);
            let shape: Vec<usize> = a.param("normalized_shape")?;
            Ok(vec![("y", f::layer_norm(a.tensor("input")?, &shape, weight, bias, eps(a)?)?)])
        },
        tolerance,
    },
    Handler {
        op: "rms_norm",
        run: |a| {
            let shape: Vec<usize> = a.param("normalized_shape")?;
            let (input, weight) = (a.tensor("input")?, a.optional("weight"));
            Ok(vec![("y", f::rms_norm(input, &shape, weight, a.param("eps")?)?)])
        },
        tolerance,
    },
];

fn batch_norm(a: &Arguments<'_>) -> Result<Outputs> {
    let (input, (weight, bias)) = (a.tensor("input")?, parameters(a));
    let y = if a.param::<Option<bool>>("training")?.unwrap_or(false) {
        f::batch_norm(input, weight, bias, eps(a)?)?.0
    } else {
        let (mean, var) = (a.tensor("running_mean")?, a.tensor("running_var")?);
        f::batch_norm_inference(input, weight, bias, mean, var, eps(a)?)?
    };
    Ok(vec![("y", y)])
}

fn parameters<'a>(a: &'a Arguments<'_>) -> (Option<&'a Tensor>, Option<&'a Tensor>) {
    (a.optional("weight"), a.optional("bias"))
}

fn eps(a: &Arguments<'_>) -> Result<f64> {
    Ok(a.param::<Option<f64>>("eps")?.unwrap_or(1e-5))
}

/// Means are exact except for the last rounding; differences from the mean are as large as the
/// largest element.
fn tolerance(_: &Arguments<'_>, _: Quantity<'_>) -> Tolerance {
    Tolerance::Largest(16.0)
}
