//! Comparison with reference figures computed by another implementation in f64.
//!
//! A reference is a safetensors file whose metadata lists cases: an operator under PyTorch's name,
//! its parameters, its inputs, the expected results, the incoming gradients and the expected
//! gradients of the inputs. Each case runs in f32 and in f64, or in one type of half precision, and
//! each result is compared within a [`Tolerance`] that follows from the operator's contract.
//!
//! Each family of operators has a file with its handlers: see [`Handler`].

mod arguments;
mod bincount;
mod compare;
mod contraction;
mod elementwise;
mod embedding;
mod file;
mod index;
mod loss;
mod norm;
mod pooling;
mod recurrent;
mod reduce;
mod resample;
mod scan;
mod scatter;
mod sequence;

pub use arguments::{Arguments, Outputs};
pub use compare::{Quantity, Tolerance};
pub use file::{Record, Reference};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Case;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Device, Error, Result, Tensor, backward};

/// The handler of one operator.
#[derive(Debug)]
pub struct Handler {
    /// PyTorch's name of the operator.
    pub op: &'static str,
    /// Runs the operator and returns its results under the names of the reference.
    pub run: fn(&Arguments<'_>) -> Result<Outputs>,
    /// The tolerance of each result and each gradient.
    pub tolerance: fn(&Arguments<'_>, Quantity<'_>) -> Tolerance,
}

/// The outcome of one case.
#[derive(Debug)]
pub struct Outcome {
    /// The case's name.
    pub name: String,
    /// The operator.
    pub op: String,
    /// The largest error in units of the tolerance, or the reason of the failure.
    pub worst: Result<f64, String>,
}

impl Outcome {
    /// Returns whether every result was within its tolerance.
    pub fn passed(&self) -> bool {
        matches!(self.worst, Ok(worst) if worst <= 1.0)
    }
}

/// Returns the path of the project's own reference file.
pub fn own_reference() -> PathBuf {
    reference_file("torch.safetensors")
}

/// Returns the path of the same cases in half precision.
pub fn half_reference() -> PathBuf {
    reference_file("half.safetensors")
}

/// Returns the path of a file in the folder `reference`, below the package's folder if Cargo runs
/// the program, else below the working folder.
pub fn reference_file(name: &str) -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    Path::new(&package).join("reference").join(name)
}

/// Returns the largest error of a result in units of its tolerance, which must not be a
/// [`Tolerance::Contraction`].
///
/// # Errors
///
/// The first element outside the tolerance, or another difference.
pub fn error(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Result<f64, String> {
    let magnitude = || Err("the bound of a contraction needs its operator".to_owned());
    compare::error(found.value(), expected.value(), tolerance, found.dtype(), magnitude)
}

/// Runs every case of a reference with its inputs on `device`. An operator without a handler is a
/// failure.
pub fn run(reference: &Reference, device: Device) -> Vec<Outcome> {
    let handlers: BTreeMap<&str, &Handler> =
        handlers().map(|handler| (handler.op, handler)).collect();
    let outcome = |record: &Record| Outcome {
        name: record.name.clone(),
        op: record.op.clone(),
        worst: match handlers.get(record.op.as_str()) {
            Some(handler) => worst(handler, record, reference, device),
            None => Err("unknown operator".to_owned()),
        },
    };
    reference.records().iter().map(outcome).collect()
}

/// Returns the cases of a reference in their types, each with every output and gradient, to
/// compare devices bit by bit.
pub fn cases(reference: &Arc<Reference>, device: Device) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, record) in reference.records().iter().enumerate() {
        for dtype in record.dtypes().expect("a known type") {
            let reference = Arc::clone(reference);
            let run = move || {
                let record = &reference.records()[index];
                let handler = handlers().find(|handler| handler.op == record.op);
                let unknown = || Error::invalid("conformance", format!("unknown: {}", record.op));
                let handler = handler.ok_or_else(unknown)?;
                let found = results(handler, record, &reference, dtype, device, false)?;
                Ok(found.into_values().collect())
            };
            let name = match record.dtype {
                Some(_) => format!("conformance {}", record.name),
                None => format!("conformance {} {dtype}", record.name),
            };
            cases.push(Case { name, run: Box::new(run) });
        }
    }
    cases
}

fn handlers() -> impl Iterator<Item = &'static Handler> {
    [
        bincount::HANDLERS,
        contraction::HANDLERS,
        elementwise::HANDLERS,
        embedding::HANDLERS,
        index::HANDLERS,
        loss::HANDLERS,
        norm::HANDLERS,
        pooling::HANDLERS,
        recurrent::HANDLERS,
        reduce::HANDLERS,
        resample::HANDLERS,
        scan::HANDLERS,
        scatter::HANDLERS,
        sequence::HANDLERS,
    ]
    .into_iter()
    .flatten()
}

/// Returns the case's largest error in units of the tolerance, over its types.
fn worst(
    handler: &Handler,
    record: &Record,
    reference: &Reference,
    device: Device,
) -> Result<f64, String> {
    let mut worst: f64 = 0.0;
    for dtype in record.dtypes().map_err(|error| error.to_string())? {
        worst = worst.max(worst_in(dtype, handler, record, reference, device)?);
    }
    Ok(worst)
}

/// Returns the case's largest error in one type.
fn worst_in(
    dtype: DType,
    handler: &Handler,
    record: &Record,
    reference: &Reference,
    device: Device,
) -> Result<f64, String> {
    let found = results(handler, record, reference, dtype, device, false)
        .map_err(|error| format!("{dtype}: {error}"))?;
    let magnitudes = results(handler, record, reference, DType::F64, device, true);
    let arguments = Arguments::new(record, reference, dtype, device, false)
        .map_err(|error| error.to_string())?;
    let expected = record
        .outputs
        .iter()
        .map(|(name, key)| (Quantity::Output(name), key))
        .chain(record.grads.iter().map(|(name, key)| (Quantity::Grad(name), key)));
    let mut worst: f64 = 0.0;
    for (quantity, key) in expected {
        let expected = reference.tensor(key).map_err(|error| error.to_string())?;
        let found = found.get(&quantity.to_string()).ok_or(format!("{quantity} is missing"))?;
        let magnitude = || match &magnitudes {
            Ok(all) => all.get(&quantity.to_string()).cloned().ok_or(String::new()),
            Err(error) => Err(format!("on absolute values: {error}")),
        };
        let tolerance = (handler.tolerance)(&arguments, quantity);
        let error = compare::error(found, &expected, tolerance, dtype, magnitude)
            .map_err(|error| format!("{quantity} in {dtype}: {error}"))?;
        worst = worst.max(error);
    }
    Ok(worst)
}

/// Returns every output and gradient by name, on the host. With `absolute`, all inputs and incoming
/// gradients are replaced by their absolute values, see [`Tolerance::Contraction`]: a bound on
/// rounding errors is a multiple of these results.
fn results(
    handler: &Handler,
    record: &Record,
    reference: &Reference,
    dtype: DType,
    device: Device,
    absolute: bool,
) -> Result<BTreeMap<String, Value>> {
    let arguments = Arguments::new(record, reference, dtype, device, absolute)?;
    let outputs = (handler.run)(&arguments)?;
    let mut found = BTreeMap::new();
    let mut walked = Vec::new();
    for (name, var) in &outputs {
        found.insert(Quantity::Output(name).to_string(), var.value().to(Device::Cpu)?);
        if let Some(key) = record.grad_outputs.get(*name) {
            let grad = arguments.cast(reference.tensor(key)?)?;
            walked.push((var, Tensor::from(grad)));
        }
    }
    if record.grads.is_empty() {
        return Ok(found);
    }
    let gradients = backward(&walked, false)?;
    for name in record.grads.keys() {
        let var = arguments.tensor(name)?;
        let grad = match gradients.of(var) {
            Some(grad) => grad.value().to(Device::Cpu)?,
            None => return Err(Error::invalid("backward", format!("no gradient of {name}"))),
        };
        found.insert(Quantity::Grad(name).to_string(), grad);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;
    use safetensors::tensor::TensorView;

    use super::*;

    /// Half a unit in the last place of an f32 in [1, 2).
    const HALF_ULP: f64 = 1.0 / 16777216.0;

    /// Returns whether a case with these vectors passes in f32.
    fn passes(case: &str, tensors: &[(&str, &[f64])]) -> bool {
        let bytes = tensors.iter().map(|&(name, values)| match name {
            "index" => {
                (Dtype::I64, values.iter().flat_map(|&x| (x as i64).to_le_bytes()).collect())
            }
            _ => (Dtype::F64, values.iter().flat_map(|x| x.to_le_bytes()).collect()),
        });
        let bytes: Vec<(Dtype, Vec<u8>)> = bytes.collect();
        let views = tensors.iter().zip(&bytes).map(|((name, values), (dtype, bytes))| {
            (*name, TensorView::new(*dtype, vec![values.len()], bytes).unwrap())
        });
        let metadata = [("cases".to_owned(), format!("[{case}]"))].into();
        let file = safetensors::serialize(views, Some(metadata)).unwrap();
        let reference = Reference::parse(&file).unwrap();
        let record = &reference.records()[0];
        let handler = handlers().find(|handler| handler.op == record.op).unwrap();
        worst_in(DType::F32, handler, record, &reference, Device::Cpu).is_ok()
    }

    /// 1 - 0.9 * 1.1: the product is rounded, and two half units of 1 + 0.99 are allowed, however
    /// small the difference.
    #[test]
    fn the_bound_of_a_sum_counts_its_terms_whatever_their_signs() {
        let (x, source, alpha) = (1.0, f64::from(1.1f32), f64::from(-0.9f32));
        let passes = |y: f64| {
            let case = format!(
                r#"{{"name": "planted", "op": "index_add", "params": {{"dim": 0, "alpha": {alpha}}},
                    "inputs": {{"input": "input", "index": "index", "source": "source"}},
                    "outputs": {{"y": "y"}}, "grad_outputs": {{}}, "grads": {{}}}}"#
            );
            let inputs = [("input", &[x][..]), ("index", &[0.0]), ("source", &[source])];
            passes(&case, &[&inputs[..], &[("y", &[y])]].concat())
        };
        let exact = x + alpha * source;
        assert!(passes(exact));
        // Two units in the last place above the allowed error.
        assert!(!passes(exact + 6.0 * HALF_ULP) && !passes(exact - 6.0 * HALF_ULP));
    }

    /// Deviations from a mean of about 1000: eight half units of their sum are allowed.
    #[test]
    fn the_bound_of_a_difference_counts_both_terms() {
        let x = [1000.1f32, 1000.2, 1000.4].map(f64::from);
        let mean = x.iter().sum::<f64>() / 3.0;
        let passes = |error: f64| {
            let case = r#"{"name": "planted", "op": "var",
                "params": {"dim": 0, "correction": 1, "keepdim": true},
                "inputs": {"input": "x"}, "outputs": {}, "grad_outputs": {"y": "one"},
                "grads": {"input": "grad"}}"#;
            let grad = [x[0] - mean + error, x[1] - mean, x[2] - mean];
            passes(case, &[("x", &x), ("one", &[1.0]), ("grad", &grad)])
        };
        assert!(passes(0.0));
        let half_ulp = 1024.0 * HALF_ULP;
        assert!(!passes(12.0 * half_ulp) && !passes(-12.0 * half_ulp));
    }
}
