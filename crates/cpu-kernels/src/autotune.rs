//! The convolution algorithms of the host as candidates of a tuner.

use samebits_conv_autotune::{
    BoxError, Candidate, Config, ConvCall, ConvLibrary, ConvOp, Fingerprint, install,
};
use samebits_tensor_core::device::DeviceKind;
use samebits_tensor_core::{DType, Tensor};

use crate::conv_algorithms::{Algorithm, ConvPass};

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
        let passes = |weight: bool| move |pass: ConvPass| (pass == ConvPass::WeightGrad) == weight;
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
    takes: impl Fn(ConvPass) -> bool + Copy + Send + Sync + 'static,
) -> Candidate<ConvCall> {
    let promised = ConvPass::ALL.into_iter().find(|&pass| takes(pass)).unwrap();
    let run = move |call: &ConvCall| run(algorithm, call).map_err(BoxError::from);
    let candidate = if algorithm.is_canonical(promised) {
        Candidate::canonical(id, name, run)
    } else {
        let level = algorithm.level(promised);
        Candidate::bounded(id, name, level, algorithm.tolerance(promised), run)
    };
    candidate
        .applies_to(move |key| {
            key.dtype == DType::F32
                && takes(key.pass)
                && key.geometry().is_ok_and(|conv| algorithm.applies(&conv, key.pass))
        })
        .with_workspace(move |key| {
            key.geometry().map_or(usize::MAX, |conv| algorithm.workspace(&conv, key.pass))
        })
        .with_estimate(move |key| {
            key.geometry().map_or(f64::INFINITY, |conv| algorithm.estimate(&conv, key.pass))
        })
}

fn run(algorithm: Algorithm, call: &ConvCall) -> samebits_tensor_core::Result<Tensor> {
    let conv = call.geometry();
    Ok(match call.op() {
        ConvOp::Forward(op) => {
            let bias = op.bias.as_ref().map(Tensor::as_slice::<f32>).transpose()?;
            let mut out = Tensor::scratch(&conv.output_shape(), DType::F32)?;
            let (input, weight) = (op.input.as_slice()?, op.weight.as_slice()?);
            algorithm.forward(conv, input, weight, bias, out.as_mut_slice()?)?;
            out
        }
        ConvOp::InputGrad(op) => {
            let mut out = Tensor::scratch(&op.input_shape, DType::F32)?;
            let (grad, weight) = (op.grad.as_slice()?, op.weight.as_slice()?);
            algorithm.input_grad(conv, grad, weight, out.as_mut_slice()?)?;
            out
        }
        ConvOp::WeightGrad(op) => {
            let mut out = Tensor::scratch(&op.weight_shape, DType::F32)?;
            let (input, grad) = (op.input.as_slice()?, op.grad.as_slice()?);
            algorithm.weight_grad(conv, input, grad, out.as_mut_slice()?)?;
            out
        }
    })
}
