//! Real convolution algorithms behind the tuner: every candidate forced, every level raced.

use samebits_conv_autotune::{
    Config, ConvCall, ConvKey, ConvPass, Finding, Fingerprint, Measuring, Mode, Numerics, Outcome,
    Problem, Source, Tuner, tuner_with,
};
use samebits_tensor_core::Determinism::*;
use samebits_tensor_core::ops::ConvParams;
use samebits_tensor_core::{DType, Determinism, Device, Tensor};

fn keys(level: Determinism) -> Vec<ConvKey> {
    let shapes: [(&[usize], &[usize], ConvParams); 4] = [
        (&[2, 8, 12, 12], &[8, 8, 3, 3], ConvParams::padded(2, 1)),
        (&[2, 16, 9, 9], &[4, 16, 1, 1], ConvParams::padded(2, 0)),
        (&[2, 8, 10, 10], &[8, 1, 3, 3], ConvParams { groups: 8, ..ConvParams::padded(2, 1) }),
        (
            &[1, 3, 15, 15],
            &[4, 3, 3, 3],
            ConvParams { stride: vec![2, 2], ..ConvParams::padded(2, 1) },
        ),
    ];
    let key = |pass, (input, weight, params): &(&[usize], &[usize], ConvParams)| {
        ConvKey::new(pass, DType::F32, input, weight, params, level)
    };
    ConvPass::ALL.into_iter().flat_map(|p| shapes.iter().map(move |s| key(p, s))).collect()
}

fn quick(mode: Mode) -> Config {
    Config {
        mode,
        measuring: Measuring { rounds: 1, sample: Default::default(), ..Measuring::default() },
        ..Config::new(Fingerprint::host("samebits-cpu-kernels"))
    }
}

fn tuner(mode: Mode) -> Tuner<ConvCall> {
    samebits_cpu_kernels::install();
    tuner_with(Device::Cpu, quick(mode)).unwrap()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[test]
fn whatever_candidate_is_forced_the_portable_bits_are_the_same() {
    let tuner = tuner(Mode::Off);
    let mut forced = 0;
    for key in keys(Portable) {
        let call = ConvCall::probe(&key, Device::Cpu).unwrap();
        assert_eq!(call.key(Portable), key);
        let eligible = tuner.eligible(&key);
        let want = bits(&tuner.run_named("implicit-gemm", &call).unwrap());
        for candidate in &eligible {
            assert_eq!(candidate.numerics(), Numerics::Canonical);
            let got = tuner.run_named(candidate.name(), &call).unwrap();
            assert!(bits(&got) == want, "{} on {key}", candidate.name());
            forced += 1;
        }
        // And by the race itself, whose winner nobody can foresee.
        assert!(bits(&tuner.run(&call, Portable).unwrap()) == want);
    }
    assert!(forced >= 25, "{forced}");
}

#[test]
fn every_candidate_keeps_its_promise_in_a_race() {
    let tuner = tuner(Mode::Off);
    let mut raced = std::collections::BTreeSet::new();
    for key in keys(NotGuaranteed) {
        let decision = tuner.choose(&key).unwrap();
        assert_eq!(decision.source, Source::Raced);
        for measured in &decision.measured {
            assert!(matches!(measured.outcome, Outcome::Time(_)), "{key}: {measured:?}");
            raced.insert(measured.name.clone());
        }
    }
    assert_eq!(raced.len(), tuner.candidates().len(), "{raced:?}");
}

#[test]
fn what_is_recorded_at_run_to_run_is_replayed_pinned_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("convolutions.toml");
    let recording = tuner(Mode::Record(path.clone()));
    let first: Vec<_> = keys(RunToRun)
        .iter()
        .map(|key| {
            let call = ConvCall::probe(key, Device::Cpu).unwrap();
            let out = recording.run(&call, RunToRun).unwrap();
            (recording.choose(key).unwrap().candidate.name(), bits(&out))
        })
        .collect();
    let pinned = tuner(Mode::pinned(path));
    for (key, first) in keys(RunToRun).iter().zip(&first) {
        let decision = pinned.choose(key).unwrap();
        assert_eq!((decision.candidate.name(), decision.source), (first.0, Source::Pinned));
        let call = ConvCall::probe(key, Device::Cpu).unwrap();
        assert!(bits(&pinned.run(&call, RunToRun).unwrap()) == first.1);
    }
    for verdict in pinned.verify().unwrap() {
        assert!(matches!(verdict.finding, Finding::Good), "{verdict:?}");
    }
}

#[test]
fn a_type_that_no_algorithm_takes_is_an_error() {
    let tuner = tuner(Mode::Off);
    let mut key = keys(Portable).remove(0);
    key.dtype = DType::I64;
    let error = tuner.choose(&key).unwrap_err().to_string();
    assert!(error.contains("no candidate can run forward i64"), "{error}");
}
