//! The convolution algorithms of the host as candidates of a tuner.

use samebits_conv_autotune::{
    BoxError, Candidate, Config, ConvCall, ConvKey, ConvLibrary, ConvPass, Fingerprint, install,
};
use samebits_tensor_core::device::DeviceKind;
use samebits_tensor_core::ops::ConvParams;
use samebits_tensor_core::{DType, Tensor};

use crate::conv::Params;
use crate::conv_algorithms::{Algorithm, Pass, Plan};

/// Registers a tuner for the convolutions of the host. The fingerprint of its choices names this
/// machine's processor and this code.
pub(crate) fn register_all() {
    install(ConvLibrary {
        kind: DeviceKind::Cpu,
        candidates,
        config: |_| Ok(Config::new(Fingerprint::host(LIBRARY))),
    });
}

/// The version and a digest of all sources of this crate, since the build does not know which of
/// them the convolutions use. Two builds of a version under development may have different kernels,
/// with different times and bits, under the names in a file. The compiler and its flags are left
/// out: they change times but no bits, and a file recorded by a release must serve its tests.
const LIBRARY: &str =
    concat!("samebits-cpu-kernels ", env!("CARGO_PKG_VERSION"), ", code ", env!("SAMEBITS_CODE"));

/// Returns one candidate per algorithm, or two if the level of its weight gradient differs from
/// that of its other passes.
fn candidates() -> Vec<Candidate<ConvCall>> {
    let mut all = Vec::new();
    for (id, algorithm) in (0..).zip(Algorithm::ALL) {
        let passes = |weight: bool| move |pass: Pass| (pass == Pass::WeightGradient) == weight;
        if algorithm == Algorithm::Im2col {
            all.push(candidate(id, "im2col", algorithm, passes(false)));
            all.push(candidate(100 + id, "im2col-weights", algorithm, passes(true)));
        } else {
            all.push(candidate(id, algorithm.name(), algorithm, |_| true));
        }
    }
    all
}

fn candidate(
    id: u32,
    name: &'static str,
    algorithm: Algorithm,
    takes: impl Fn(Pass) -> bool + Copy + Send + Sync + 'static,
) -> Candidate<ConvCall> {
    let promised = [Pass::Forward, Pass::InputGradient, Pass::WeightGradient]
        .into_iter()
        .find(|&pass| takes(pass))
        .unwrap();
    let run = move |call: &ConvCall| run(algorithm, call).map_err(known);
    let candidate = if algorithm.is_canonical(promised) {
        Candidate::canonical(id, name, run)
    } else {
        let level = algorithm.level(promised);
        Candidate::bounded(id, name, level, algorithm.tolerance(promised), run)
    };
    candidate
        .applies_to(move |key| {
            let pass = pass(key);
            key.dtype == DType::F32
                && takes(pass)
                && plan(key).is_ok_and(|plan| plan.applies(algorithm, pass))
        })
        .with_workspace(move |key| {
            plan(key).map_or(usize::MAX, |plan| plan.workspace(algorithm, pass(key)))
        })
        .with_estimate(move |key| {
            plan(key).map_or(f64::INFINITY, |plan| plan.estimate(algorithm, pass(key)))
        })
}

fn pass(key: &ConvKey) -> Pass {
    match key.pass {
        ConvPass::Forward => Pass::Forward,
        ConvPass::DataGradient => Pass::InputGradient,
        ConvPass::WeightGradient => Pass::WeightGradient,
    }
}

fn plan(key: &ConvKey) -> Result<Plan, BoxError> {
    Ok(Plan::new(&key.input, &key.weight, &params(&key.params()))?)
}

fn params(params: &ConvParams) -> Params {
    Params {
        stride: params.stride.clone(),
        padding: params.padding.clone(),
        dilation: params.dilation.clone(),
        groups: params.groups,
    }
}

/// Converts a lack of memory to the tuner's error for it, so that it does not decide a race.
fn known(error: BoxError) -> BoxError {
    match error.downcast_ref() {
        Some(&crate::conv::Error::OutOfMemory { op, bytes }) => {
            samebits_tensor_core::Error::from(crate::Error::OutOfMemory { op, bytes }).into()
        }
        _ => error,
    }
}

fn run(algorithm: Algorithm, call: &ConvCall) -> Result<Tensor, BoxError> {
    Ok(match call {
        ConvCall::Forward(op) => {
            let plan = Plan::new(op.input.shape(), op.weight.shape(), &params(&op.params))?;
            let bias = op.bias.as_ref().map(Tensor::as_slice::<f32>).transpose()?;
            let mut out = Tensor::scratch(&plan.output_shape(), DType::F32)?;
            plan.forward(
                algorithm,
                op.input.as_slice()?,
                op.weight.as_slice()?,
                bias,
                out.as_mut_slice()?,
            )?;
            out
        }
        ConvCall::DataGradient(op) => {
            let plan = Plan::new(&op.input_shape, op.weight.shape(), &params(&op.params))?;
            let mut out = Tensor::scratch(&op.input_shape, DType::F32)?;
            let (grad, weight) = (op.grad.as_slice()?, op.weight.as_slice()?);
            plan.input_gradient(algorithm, grad, weight, out.as_mut_slice()?)?;
            out
        }
        ConvCall::WeightGradient(op) => {
            let plan = Plan::new(op.input.shape(), &op.weight_shape, &params(&op.params))?;
            let mut out = Tensor::scratch(&op.weight_shape, DType::F32)?;
            let (input, grad) = (op.input.as_slice()?, op.grad.as_slice()?);
            plan.weight_gradient(algorithm, input, grad, out.as_mut_slice()?)?;
            out
        }
    })
}
