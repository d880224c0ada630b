//! Real convolution algorithms behind the tuner: every candidate forced, every level raced.

use std::any::Any;
use std::sync::Arc;

use samebits_conv_autotune::{
    Config, ConvCall, ConvKey, ConvPass, Finding, Fingerprint, Measuring, Mode, Numerics, Outcome,
    Problem, Source, Tuner, tuner_with,
};
use samebits_tensor_core::Determinism::*;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvParams, ConvWeightGrad};
use samebits_tensor_core::registry::dispatch_variant;
use samebits_tensor_core::{DType, Determinism, Device, DeviceBuffer, Tensor};

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
        // Also by the race itself, whose winner cannot be predicted.
        assert!(bits(&tuner.run(&call, Portable).unwrap()) == want);
    }
    assert!(forced >= 23, "{forced}");
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

/// Calls worth a race go to the tuner, and their operands may be views.
#[test]
fn large_calls_of_any_strides_are_tuned() {
    samebits_cpu_kernels::install();
    let params = ConvParams::padded(1, 1);
    // The same numbers, dense or across the storage.
    let pair = |shape: [usize; 3]| {
        let count = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..count).map(|i| (i % 17) as f32 - 8.0).collect();
        let view = Tensor::from_slice(&values, &[shape[0], shape[2], shape[1]]).unwrap();
        let view = view.transpose(1, 2).unwrap();
        [view.contiguous().unwrap(), view]
    };
    let (input, weight, grad) = (pair([2, 64, 256]), pair([64, 64, 3]), pair([2, 64, 256]));
    let results = [0, 1].map(|i| {
        let [input, weight, grad] = [&input, &weight, &grad].map(|pair| pair[i].clone());
        let data = ConvInputGrad {
            grad: grad.clone(),
            weight: weight.clone(),
            input_shape: input.shape().to_vec(),
            params: params.clone(),
        };
        let of_weight = ConvWeightGrad {
            grad,
            input: input.clone(),
            weight_shape: weight.shape().to_vec(),
            params: params.clone(),
        };
        let forward = Conv { input, weight, bias: None, params: params.clone() };
        let tuned = "tuned-canonical";
        [
            bits(&dispatch_variant(&forward, tuned).unwrap()),
            bits(&dispatch_variant(&data, tuned).unwrap()),
            bits(&dispatch_variant(&of_weight, tuned).unwrap()),
        ]
    });
    assert!(results[0] == results[1]);
}

#[test]
fn a_type_that_no_algorithm_takes_is_an_error() {
    let tuner = tuner(Mode::Off);
    let mut key = keys(Portable).remove(0);
    key.dtype = DType::I64;
    let error = tuner.choose(&key).unwrap_err().to_string();
    assert!(error.contains("no candidate can run forward i64"), "{error}");
}

#[test]
fn a_call_runs_where_its_operands_are() {
    #[derive(Debug)]
    struct Bytes;

    impl DeviceBuffer for Bytes {
        fn device(&self) -> Device {
            Device::Cuda(1)
        }

        fn len(&self) -> usize {
            4
        }

        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    let x = Tensor::from_device_buffer(Arc::new(Bytes), &[1, 1, 1], DType::F32).unwrap();
    let (params, shape) = (ConvParams::padded(1, 0), vec![1, 1, 1]);
    let (grad, input, weight) = (x.clone(), x.clone(), x);
    for call in [
        ConvCall::new(ConvWeightGrad {
            grad: grad.clone(),
            input: input.clone(),
            weight_shape: shape.clone(),
            params: params.clone(),
        })
        .unwrap(),
        ConvCall::new(ConvInputGrad {
            grad,
            weight: weight.clone(),
            input_shape: shape,
            params: params.clone(),
        })
        .unwrap(),
        ConvCall::new(Conv { input, weight, bias: None, params }).unwrap(),
    ] {
        assert_eq!(call.device(), Device::Cuda(1));
    }
}

#[test]
fn the_magnitude_is_the_greatest_product_times_their_number() {
    let params = ConvParams { groups: 2, ..ConvParams::padded(1, 1) };
    let tensor = |greatest: f32, shape: [usize; 3]| {
        let mut values = vec![0.0; shape.iter().product()];
        values[1] = greatest;
        Tensor::from_slice(&values, &shape).unwrap()
    };
    let input = tensor(-3.0, [2, 4, 5]);
    let weight = tensor(0.5, [6, 2, 3]);
    let grad = tensor(-0.25, [2, 6, 5]);
    let calls = [
        // Two channels of a group, three taps.
        (
            ConvCall::new(Conv {
                input: input.clone(),
                weight: weight.clone(),
                bias: None,
                params: params.clone(),
            })
            .unwrap(),
            6.0 * 3.0 * 0.5,
        ),
        // Three channels of a group, three taps.
        (
            ConvCall::new(ConvInputGrad {
                grad: grad.clone(),
                weight,
                input_shape: input.shape().to_vec(),
                params: params.clone(),
            })
            .unwrap(),
            9.0 * 0.25 * 0.5,
        ),
        // Two images of five places.
        (
            ConvCall::new(ConvWeightGrad { grad, input, weight_shape: vec![6, 2, 3], params })
                .unwrap(),
            10.0 * 0.25 * 3.0,
        ),
    ];
    for (call, expected) in calls {
        assert_eq!(call.magnitude(), expected, "{call:?}");
    }
}
