//! Convolution algorithms behind the tuner on every device: forced, raced under a false clock,
//! recorded, pinned, and planted.
//!
//! Runs on the CPU, and on a CUDA device if the driver offers one, real or emulated.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests talk to their reader")]

use samebits::Tensor;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use samebits::Determinism::{NotGuaranteed, Portable, RunToRun};
use samebits::autotune::{
    self, Candidate, Clock, Config, ConvCall, ConvKey, ConvPass, Finding, Measuring, Mode,
    Numerics, Outcome, Problem, Source, Tuner, candidates, tuner_with,
};
use samebits::ops::ConvParams;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Determinism, Device, cuda};

const CUDA: Device = Device::Cuda(0);

/// Returns the CPU, and the CUDA device if there is one.
fn devices() -> Vec<Device> {
    samebits::install();
    match cuda::install() {
        Ok(0) => println!("the CPU alone: the driver sees no device"),
        Err(error) => println!("the CPU alone: {error}"),
        Ok(_) => return vec![Device::Cpu, CUDA],
    }
    vec![Device::Cpu]
}

fn keys(level: Determinism) -> Vec<ConvKey> {
    let plain = |dims, padding| ConvParams::padded(dims, padding);
    let shapes: [(&[usize], &[usize], ConvParams); 7] = [
        (&[2, 30, 5, 5], &[30, 30, 3, 3], plain(2, 1)),
        (&[3, 300, 5, 5], &[4, 300, 1, 1], plain(2, 0)),
        (&[2, 8, 10, 10], &[8, 1, 3, 3], ConvParams { groups: 8, ..plain(2, 1) }),
        (
            &[1, 4, 15, 14],
            &[6, 2, 3, 2],
            ConvParams {
                stride: vec![2, 1],
                dilation: vec![1, 3],
                groups: 2,
                ..ConvParams::padded(2, 1)
            },
        ),
        (&[2, 4, 600], &[5, 4, 7], plain(1, 3)),
        (&[1, 3, 5, 6, 4], &[4, 3, 3, 2, 3], plain(3, 1)),
        (&[0, 2, 5, 5], &[2, 2, 3, 3], plain(2, 1)),
    ];
    let key = |pass, (input, weight, params): &(&[usize], &[usize], ConvParams)| {
        ConvKey::new(pass, DType::F32, input, weight, params, level)
    };
    ConvPass::ALL.into_iter().flat_map(|p| shapes.iter().map(move |s| key(p, s))).collect()
}

/// A clock on which a random time passes between two looks, whatever was done meanwhile.
#[derive(Debug)]
struct Noise {
    state: AtomicU64,
    total: AtomicU64,
}

impl Noise {
    fn seeded(seed: u64) -> Arc<Noise> {
        Arc::new(Noise { state: AtomicU64::new(seed), total: AtomicU64::new(0) })
    }
}

impl Clock for Noise {
    /// Adds 1 to 8 microseconds, from a linear congruential generator.
    fn now(&self) -> Duration {
        let next = |state: u64| {
            Some(state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407))
        };
        let state = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).unwrap();
        let passed = 1000 * (1 + (state >> 61));
        Duration::from_nanos(self.total.fetch_add(passed, Ordering::SeqCst) + passed)
    }
}

/// Returns a configuration of one round under the noise of `seed`; 0 means no noise.
fn config(device: Device, mode: Mode, seed: u64) -> Config {
    let config = Config { benchmark: true, ..autotune::default_config(device).unwrap() };
    let measuring =
        Measuring { rounds: 1, sample: Duration::ZERO, give_up: 100.0, ..Measuring::default() };
    let clock = match seed {
        0 => config.clock.clone(),
        seed => Noise::seeded(seed),
    };
    Config { mode, measuring, clock, ..config }
}

fn tuner(device: Device, mode: Mode, seed: u64) -> Tuner<ConvCall> {
    tuner_with(device, config(device, mode, seed)).unwrap()
}

fn bits(tensor: &Value) -> Vec<u32> {
    tensor.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// Returns the result of the definition, for each key.
fn golden(keys: &[ConvKey]) -> Vec<Vec<u32>> {
    let tuner = tuner(Device::Cpu, Mode::Off, 0);
    let one = |key| {
        let call = ConvCall::probe(key, Device::Cpu).unwrap();
        bits(&tuner.run_named("implicit-gemm", &call).unwrap())
    };
    keys.iter().map(one).collect()
}

#[test]
fn whatever_each_slot_forces_the_portable_bits_are_the_same_on_every_device() {
    let devices = devices();
    let keys = keys(Portable);
    let golden = golden(&keys);
    for device in devices {
        let tuner = tuner(device, Mode::Off, 0);
        let mut forced = BTreeMap::new();
        for (key, golden) in keys.iter().zip(&golden) {
            let call = ConvCall::probe(key, device).unwrap();
            for candidate in tuner.eligible(key) {
                assert_eq!(candidate.numerics(), Numerics::Canonical);
                let got = tuner.run_named(candidate.name(), &call).unwrap();
                assert!(bits(&got) == *golden, "{} on {device}: {key}", candidate.name());
                *forced.entry((key.pass, candidate.name())).or_insert(0) += 1;
            }
        }
        let slots = forced.len();
        // Forward, input gradient and weight gradient of each, except those that a pass lacks.
        assert_eq!(slots, if device == CUDA { 24 } else { 8 }, "{device}: {forced:?}");
    }
}

#[test]
fn no_noise_of_the_clock_shows_in_a_portable_bit() {
    let devices = devices();
    let keys: Vec<_> = keys(Portable).into_iter().step_by(3).collect();
    let golden = golden(&keys);
    for device in devices {
        let mut chosen = BTreeSet::new();
        for seed in 1..=3 {
            let tuner = tuner(device, Mode::Off, seed);
            let mut names = Vec::new();
            for (key, golden) in keys.iter().zip(&golden) {
                let decision = tuner.choose(key).unwrap();
                names.push(decision.candidate.name());
                let call = ConvCall::probe(key, device).unwrap();
                assert!(bits(&tuner.run(&call, Portable).unwrap()) == *golden, "{device}: {key}");
            }
            chosen.insert(names);
        }
        // The noise is strong enough to change the choices.
        assert!(chosen.len() > 1, "{device}: {chosen:?}");
    }
}

#[test]
fn every_candidate_keeps_its_promise_in_a_race() {
    for device in devices() {
        let tuner = tuner(device, Mode::Off, 0);
        let mut raced = BTreeSet::new();
        for key in keys(NotGuaranteed) {
            let decision = tuner.choose(&key).unwrap();
            assert_eq!(decision.source, Source::Raced, "{key}");
            for measured in &decision.measured {
                assert!(matches!(measured.outcome, Outcome::Time(_)), "{key}: {measured:?}");
                raced.insert(measured.name.clone());
            }
        }
        // A candidate that applies to none of the keys would not be raced.
        assert_eq!(raced.len(), tuner.candidates().len(), "{device}: {raced:?}");
    }
}

/// Returns the choices for the keys at `RunToRun`, and the bits of all results.
fn choices(device: Device, mode: Mode, seed: u64) -> (String, Source) {
    let tuner = tuner(device, mode, seed);
    let mut text = String::new();
    let mut source = Source::Heuristic;
    for key in keys(RunToRun).iter().step_by(3) {
        let decision = tuner.choose(key).unwrap();
        source = decision.source;
        let call = ConvCall::probe(key, device).unwrap();
        let out = tuner.run(&call, RunToRun).unwrap();
        let digest = samebits::digest([("", &Tensor::from(out))]).unwrap();
        text.push_str(&format!("{} {digest}\n", decision.candidate.name()));
    }
    (text, source)
}

/// Runs in a second process that the other test starts.
#[test]
fn replay_pinned_in_this_process() {
    let (Ok(path), Ok(seed)) = (std::env::var("TUNE_FILE"), std::env::var("TUNE_SEED")) else {
        return;
    };
    let (_, on) = path.rsplit_once('-').unwrap();
    let device = devices().into_iter().find(|device| device.to_string() == on).unwrap();
    let (text, source) = choices(device, Mode::pinned(path), seed.parse().unwrap());
    assert_eq!(source, Source::Pinned);
    println!("<<<{text}>>>");
}

fn replayed(path: &Path, seed: u64) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["replay_pinned_in_this_process", "--exact", "--nocapture", "--test-threads=1"])
        .env("TUNE_FILE", path)
        .env("TUNE_SEED", seed.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, text) = text.split_once("<<<").unwrap();
    text.split_once(">>>").unwrap().0.to_owned()
}

#[test]
fn recorded_here_and_pinned_in_another_process_the_choices_and_bits_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for device in devices() {
        let path = folder.path().join(format!("choices-{device}"));
        let (recorded, source) = choices(device, Mode::Record(path.clone()), 1);
        assert_eq!(source, Source::Raced);
        for seed in [2, 3] {
            assert_eq!(replayed(&path, seed), recorded, "{device}, noise {seed}");
        }
        for verdict in tuner(device, Mode::pinned(path.clone()), 4).verify().unwrap() {
            assert!(matches!(verdict.finding, Finding::Good), "{device}: {verdict:?}");
        }
        // The negative control: recorded anew, other noise makes other choices.
        let anew = folder.path().join(format!("anew-{device}"));
        assert_ne!(choices(device, Mode::Record(anew), 5).0, recorded, "{device}");
        // A file is for one device.
        for other in devices().into_iter().filter(|&other| other != device) {
            let error = tuner_with(other, config(other, Mode::pinned(path.clone()), 0));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(":5: recorded for device"), "{error}");
        }
    }
}

#[test]
fn a_wrong_candidate_is_disqualified_however_fast() {
    for device in devices() {
        // The reference's own result with one bit of the last element flipped, in no time at all.
        let mut all = candidates(device).unwrap();
        let reference = candidates(device).unwrap().remove(0);
        let wrong = move |call: &ConvCall| {
            let out = reference.run(call)?;
            let mut values = out.to_vec::<f32>()?;
            if let Some(last) = values.last_mut() {
                *last = f32::from_bits(last.to_bits() ^ 1);
            }
            Ok(Value::from_slice(&values, out.shape())?.to(device)?)
        };
        all.push(Candidate::canonical(1000, "planted", wrong));
        let key = &keys(Portable)[0];
        let probe = move |key: &ConvKey| ConvCall::probe(key, device);
        let tuner = Tuner::new(probe, all, config(device, Mode::Off, 0)).unwrap();
        let decision = tuner.choose(key).unwrap();
        let planted = decision.measured.iter().find(|m| m.name == "planted").unwrap();
        let Outcome::Disqualified(why) = &planted.outcome else { panic!("{device}: {planted:?}") };
        assert!(why.starts_with("element "), "{why}");
        assert_ne!(decision.candidate.name(), "planted");
        // Only this check would have found it.
        let call = ConvCall::probe(key, device).unwrap();
        assert_eq!(call.key(Portable), *key);
        assert!(
            bits(&tuner.run_named("planted", &call).unwrap())
                != golden(std::slice::from_ref(key))[0]
        );
    }
}

#[test]
fn without_benchmarks_the_shape_alone_decides() {
    for device in devices() {
        let tuner = || tuner_with(device, autotune::default_config(device).unwrap()).unwrap();
        let (a, b) = (tuner(), tuner());
        for level in [NotGuaranteed, RunToRun, Portable] {
            for key in keys(level) {
                let (a, b) = (a.choose(&key).unwrap(), b.choose(&key).unwrap());
                assert_eq!(a.source, Source::Heuristic);
                assert_eq!(a.candidate.name(), b.candidate.name());
            }
        }
    }
}

#[test]
fn the_clock_of_a_device_shows_its_work() {
    for device in devices() {
        let clock = autotune::default_config(device).unwrap().clock;
        let tuner = tuner(device, Mode::Off, 0);
        let time = |images: usize| {
            let params = ConvParams::padded(2, 1);
            let (input, weight) = ([images, 8, 12, 12], [8, 8, 3, 3]);
            let key =
                ConvKey::new(ConvPass::Forward, DType::F32, &input, &weight, &params, Portable);
            let call = ConvCall::probe(&key, device).unwrap();
            let name = tuner.candidates().next().unwrap().name();
            tuner.run_named(name, &call).unwrap();
            // The least of several: another process may run in between for longer than all calls take.
            let each = (0..5).map(|_| {
                let start = clock.now();
                for _ in 0..3 {
                    tuner.run_named(name, &call).unwrap();
                }
                clock.now() - start
            });
            each.min().expect("there are five")
        };
        let (little, much) = (time(1), time(64));
        assert!(little > Duration::ZERO && much > little, "{device}: {little:?}, {much:?}");
    }
}
