//! The host's convolution algorithms as candidates of a tuner, and the tuner of this process.
//!
//! Convolutions of f32 tensors with enough work run the algorithm that the tuner chooses. By
//! default it races at [`Portable`](samebits_tensor_core::Determinism::Portable), where every
//! candidate has the same bits, and at
//! [`NotGuaranteed`](samebits_tensor_core::Determinism::NotGuaranteed); at
//! [`RunToRun`](samebits_tensor_core::Determinism::RunToRun) a written heuristic decides until
//! [`configure`] names a file for the choices.

use std::sync::Arc;

use parking_lot::RwLock;
use samebits_conv_autotune::{
    BoxError, Candidate, Config, ConvCall, ConvKey, ConvPass, Error, Fingerprint, Tuner,
};
use samebits_tensor_core::ops::ConvParams;
use samebits_tensor_core::{DType, Device, Tensor};

use crate::conv::Params;
use crate::conv_algorithms::{Algorithm, Pass, Plan};

/// What a tuner of this crate's algorithms may do, unless told otherwise: the fingerprint names
/// this machine's processor and this version.
pub fn default_config() -> Config {
    Config::new(Fingerprint::host(concat!("samebits-cpu-kernels ", env!("CARGO_PKG_VERSION"))))
}

/// Sets what the tuner of this process may do, and forgets what it has chosen.
///
/// # Errors
///
/// What is wrong with the file that the configuration names: it cannot be read or written, is
/// damaged, was recorded on another device, or names an algorithm that does not exist.
///
/// # Examples
///
/// ```no_run
/// use samebits_conv_autotune::{Config, Mode};
/// use samebits_cpu_kernels::autotune;
///
/// // Choices that a first run recorded.
/// let mode = Mode::Pinned("choices.toml".into());
/// autotune::configure(Config { mode, ..autotune::default_config() })?;
/// # Ok::<(), samebits_conv_autotune::Error>(())
/// ```
pub fn configure(config: Config) -> Result<(), Error> {
    *TUNER.write() = Some(Arc::new(tuner_with(config)?));
    Ok(())
}

/// The tuner of this process.
pub fn tuner() -> Arc<Tuner<ConvCall>> {
    if let Some(tuner) = &*TUNER.read() {
        return tuner.clone();
    }
    let make =
        || Arc::new(tuner_with(default_config()).expect("the default configuration names no file"));
    TUNER.write().get_or_insert_with(make).clone()
}

/// A tuner of this crate's algorithms.
///
/// # Errors
///
/// As [`configure`].
pub fn tuner_with(config: Config) -> Result<Tuner<ConvCall>, Error> {
    Tuner::new(|key| ConvCall::probe(key, Device::Cpu), candidates(), config)
}

/// One candidate for each algorithm; the one whose weight gradient differs in its promise from
/// its other passes is two.
pub fn candidates() -> Vec<Candidate<ConvCall>> {
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

static TUNER: RwLock<Option<Arc<Tuner<ConvCall>>>> = RwLock::new(None);

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
    let run = move |call: &ConvCall| run(algorithm, call);
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

fn run(algorithm: Algorithm, call: &ConvCall) -> Result<Tensor, BoxError> {
    Ok(match call {
        ConvCall::Forward(op) => {
            let plan = Plan::new(op.input.shape(), op.weight.shape(), &params(&op.params))?;
            let bias = op.bias.as_ref().map(Tensor::as_slice::<f32>).transpose()?;
            let mut out = Tensor::scratch(&plan.output_shape(), DType::F32);
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
            let mut out = Tensor::scratch(&op.input_shape, DType::F32);
            let (grad, weight) = (op.grad.as_slice()?, op.weight.as_slice()?);
            plan.input_gradient(algorithm, grad, weight, out.as_mut_slice()?)?;
            out
        }
        ConvCall::WeightGradient(op) => {
            let plan = Plan::new(op.input.shape(), &op.weight_shape, &params(&op.params))?;
            let mut out = Tensor::scratch(&op.weight_shape, DType::F32);
            let (input, grad) = (op.input.as_slice()?, op.grad.as_slice()?);
            plan.weight_gradient(algorithm, input, grad, out.as_mut_slice()?)?;
            out
        }
    })
}
