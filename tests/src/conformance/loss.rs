use samebits::Tensor;
use samebits::functional::{self as f, ClassLoss, Reduction};
use samebits::{DType, Result, dispatch, ops::Cast};

use super::{Arguments, Handler, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "cross_entropy",
        run: |a| {
            let options = class_loss(a)?;
            let (input, target) = (a.tensor("input")?, a.tensor("target")?);
            let y = if target.dtype() == DType::I64 {
                f::cross_entropy_with(input, target, &options)?
            } else {
                f::cross_entropy_probabilities(input, target, &options)?
            };
            Ok(vec![("y", y)])
        },
        tolerance: |a, quantity| match quantity {
            Quantity::Output(_) => beside_input(a),
            Quantity::Grad(_) => Tolerance::Largest(16.0),
        },
    },
    Handler {
        op: "ctc_loss",
        run: |a| {
            let lengths = |name| -> Result<Vec<usize>> {
                let lengths: Vec<i64> = a.tensor(name)?.to_vec()?;
                Ok(lengths.into_iter().map(|length| length as usize).collect())
            };
            let blank: Option<usize> = a.param("blank")?;
            let zero_infinity: Option<bool> = a.param("zero_infinity")?;
            let options = f::CtcOptions {
                blank: blank.unwrap_or(0),
                reduction: reduction(a)?,
                zero_infinity: zero_infinity.unwrap_or(false),
            };
            let y = f::ctc_loss(
                a.tensor("log_probs")?,
                a.tensor("targets")?,
                &lengths("input_lengths")?,
                &lengths("target_lengths")?,
                options,
            )?;
            Ok(vec![("y", y)])
        },
        // Computed in f64, but a gradient is a difference.
        tolerance: |_, quantity| match quantity {
            Quantity::Output(_) => Tolerance::Rounded(1.0),
            Quantity::Grad(_) => Tolerance::Largest(1.0),
        },
    },
    Handler {
        op: "log_softmax",
        run: |a| Ok(vec![("y", f::log_softmax(a.tensor("input")?, dim(a)?)?)]),
        tolerance: |a, quantity| match quantity {
            Quantity::Output(_) => beside_input(a),
            Quantity::Grad(_) => Tolerance::Largest(16.0),
        },
    },
    Handler {
        op: "nll_loss",
        run: |a| {
            let y = f::nll_loss_with(a.tensor("input")?, a.tensor("target")?, &class_loss(a)?)?;
            Ok(vec![("y", y)])
        },
        tolerance: |_, _| Tolerance::Rounded(1.0),
    },
    Handler {
        op: "softmax",
        run: |a| Ok(vec![("y", f::softmax(a.tensor("input")?, dim(a)?)?)]),
        tolerance: |_, _| Tolerance::Largest(32.0),
    },
];

fn class_loss<'a>(a: &'a Arguments<'_>) -> Result<ClassLoss<'a>> {
    let ignore_index: Option<i64> = a.param("ignore_index")?;
    let label_smoothing: Option<f64> = a.param("label_smoothing")?;
    Ok(ClassLoss {
        weight: a.optional("weight"),
        ignore_index: ignore_index.unwrap_or(-100),
        label_smoothing: label_smoothing.unwrap_or(0.0),
        reduction: reduction(a)?,
    })
}

fn reduction(a: &Arguments<'_>) -> Result<Reduction> {
    let name: Option<String> = a.param("reduction")?;
    Ok(match name.as_deref() {
        Some("none") => Reduction::None,
        Some("sum") => Reduction::Sum,
        _ => Reduction::Mean,
    })
}

/// Returns the parameter `dim`, which counts from the end if negative.
fn dim(a: &Arguments<'_>) -> Result<usize> {
    let dim: i64 = a.param("dim")?;
    let rank = a.tensor("input")?.rank() as i64;
    Ok((if dim < 0 { dim + rank } else { dim }) as usize)
}

/// Bounds a logarithm of a sum, which is exact to some units of its largest input, not of itself.
fn beside_input(a: &Arguments<'_>) -> Tolerance {
    let largest = |x: &Tensor| -> Result<f64> {
        let values: Vec<f64> = dispatch(&Cast { x: x.into(), to: DType::F64 })?.to_vec()?;
        Ok(values.iter().fold(1.0, |max: f64, x| max.max(x.abs())))
    };
    let mut magnitude = a.tensor("input").and_then(largest).unwrap_or(1.0);
    if let (Ok(Reduction::Sum), Some(target)) = (reduction(a), a.optional("target")) {
        magnitude *= target.numel() as f64;
    }
    Tolerance::Beside { magnitude, units: 8.0 }
}
