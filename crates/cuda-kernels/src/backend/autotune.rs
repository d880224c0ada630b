//! The convolution algorithms of a CUDA device as candidates of a tuner, and its clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::CudaEvent;
use parking_lot::Mutex;
use samebits_conv_autotune::{
    BoxError, Candidate, Clock, Config, ConvCall, ConvLibrary, ConvOp, Fingerprint, code_digest,
    install,
};
use samebits_tensor_core::device::DeviceKind;
use samebits_tensor_core::{DType, Determinism, Error, Tensor};

use super::HOMES;
use super::conv::{forward_by, input_grad_by, weight_grad_by};
use super::memory::Home;
use crate::conv_algorithms::Algorithm;
use crate::device::Device;
use crate::launch::kernels::{conv, conv_tiles, matmul};

/// Registers a tuner for the convolutions of every device.
pub(super) fn register_all() {
    install(ConvLibrary { kind: DeviceKind::Cuda, candidates, config });
}

/// Returns the configuration of a device's tuner. Its fingerprint names the device, the driver, and
/// the kernels of convolutions, so that a change of another kernel of this crate does not
/// invalidate a file of choices.
fn config(device: samebits_tensor_core::Device) -> Result<Config, BoxError> {
    let samebits_tensor_core::Device::Cuda(ordinal) = device else {
        return Err(Error::NoBackend { device }.into());
    };
    let home = HOMES.read().get(&ordinal).cloned().ok_or(Error::NoBackend { device })?;
    let code =
        code_digest([conv::FAMILY, conv_tiles::FAMILY, matmul::FAMILY].map(|family| family.ptx));
    let library = format!("samebits-cuda-kernels {}, kernels {code}", env!("CARGO_PKG_VERSION"));
    let fingerprint = Fingerprint::new(home.device()?.description()?, library);
    Ok(Config { clock: Arc::new(EventClock::new(ordinal)), ..Config::new(fingerprint) })
}

fn candidates() -> Vec<Candidate<ConvCall>> {
    (0..).zip(Algorithm::ALL).map(|(id, algorithm)| candidate(id, algorithm)).collect()
}

fn candidate(id: u32, algorithm: Algorithm) -> Candidate<ConvCall> {
    let name = algorithm.name();
    let run = move |call: &ConvCall| run(algorithm, call);
    let candidate = if algorithm.is_canonical() {
        Candidate::canonical(id, name, run)
    } else {
        Candidate::bounded(id, name, Determinism::NotGuaranteed, algorithm.tolerance(), run)
    };
    candidate
        .applies_to(move |key| {
            key.dtype == DType::F32
                && key.geometry().is_ok_and(|conv| algorithm.applies(&conv, key.pass))
        })
        .with_workspace(move |key| {
            key.geometry().map_or(usize::MAX, |conv| algorithm.workspace(&conv, key.pass))
        })
        .with_estimate(move |key| {
            key.geometry().map_or(f64::INFINITY, |conv| algorithm.estimate(&conv, key.pass))
        })
}

fn run(algorithm: Algorithm, call: &ConvCall) -> Result<Tensor, BoxError> {
    let plan = call.geometry();
    Ok(match call.op() {
        ConvOp::Forward(op) => forward_by(op, plan, algorithm),
        ConvOp::InputGrad(op) => input_grad_by(op, plan, algorithm),
        ConvOp::WeightGrad(op) => weight_grad_by(op, plan, algorithm),
    }?)
}

/// A clock that reads device time: events in the device's stream, each after all work submitted
/// before.
///
/// If no event can be created, the clock waits for the device and reads the host's clock.
#[derive(Debug)]
struct EventClock {
    ordinal: u32,
    state: Mutex<State>,
}

/// The last reading. The driver returns the time between two events as f32, so each reading is
/// measured from the last one and not from one origin.
#[derive(Debug)]
struct State {
    total: Duration,
    event: Option<(Arc<Home>, CudaEvent)>,
    host: Instant,
}

impl EventClock {
    fn new(ordinal: u32) -> EventClock {
        let state = State { total: Duration::ZERO, event: None, host: Instant::now() };
        EventClock { ordinal, state: Mutex::new(state) }
    }
}

impl Clock for EventClock {
    fn now(&self) -> Duration {
        let home = HOMES.read().get(&self.ordinal).cloned();
        let event = home.and_then(|home| Some((home.clone(), reached(home.device().ok()?)?)));
        let mut state = self.state.lock();
        let by_events = match (&state.event, &event) {
            (Some((old, last)), Some((new, event))) if Arc::ptr_eq(old, new) => {
                last.elapsed_ms(event).ok()
            }
            _ => None,
        };
        let now = Instant::now();
        let step = match by_events {
            Some(ms) => Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3),
            None => now - state.host,
        };
        state.total += step;
        state.host = now;
        state.event = event;
        state.total
    }
}

/// Waits until the device is done. Without an event, device errors surface at the next read.
fn reached(device: &Device) -> Option<CudaEvent> {
    let event = device.timed_event().ok().filter(|event| event.synchronize().is_ok());
    if event.is_none() {
        crate::launch::wait(device.stream()).ok();
    }
    event
}
