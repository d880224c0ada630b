//! Choice files with arbitrary numbers in their keys, for the host's algorithms.
//!
//! A program of its own, because it limits the memory of the process.

use proptest::prelude::*;
use proptest::sample::select;
use samebits_conv_autotune::{
    Config, ConvCall, ConvKey, ConvPass, Error, Fingerprint, Mode, candidates, tuner_with,
};
use samebits_numerics::memory;
use samebits_tensor_core::geometry::ConvParams;
use samebits_tensor_core::{DType, Determinism, Device};

/// Returns small sizes, which are compatible now and then, and sizes whose products overflow.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => 0usize..4,
        1 => select(vec![255, 1 << 16, 1 << 31, (1 << 32) + 1, 1 << 62, i64::MAX as usize]),
    ]
}

fn sizes(len: usize) -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        8 => prop::collection::vec(size(), len),
        1 => prop::collection::vec(size(), 0..7),
    ]
}

fn key() -> impl Strategy<Value = ConvKey> {
    (1usize..4).prop_flat_map(|rank| {
        let shapes = (sizes(rank + 2), sizes(rank + 2));
        let moves = (sizes(rank), sizes(rank), sizes(rank), size());
        let kind = (
            select(ConvPass::ALL.to_vec()),
            select(vec![DType::F32, DType::F64, DType::I64]),
            select(vec![Determinism::NotGuaranteed, Determinism::RunToRun, Determinism::Portable]),
        );
        (shapes, moves, kind, any::<bool>()).prop_map(
            |((mut input, weight), (stride, padding, dilation, groups), kind, fits)| {
                let (pass, dtype, level) = kind;
                if fits && input.len() > 1 && weight.len() > 1 {
                    input[1] = weight[1].wrapping_mul(groups) & i64::MAX as usize;
                }
                let params = ConvParams { stride, padding, dilation, groups };
                ConvKey { pass, dtype, level, input, weight, params }
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_shapes_are_read_or_refused(key in key(), name in 0usize..100) {
        samebits_cpu_kernels::install();
        memory::set_limit(Some(1 << 22));
        let candidates = candidates(Device::Cpu).unwrap();
        let name = candidates[name % candidates.len()].name();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("choices.toml");
        let keyed = toml::to_string(&key).unwrap();
        let text = format!(
            "format = 1\nnumerics = 2\ndevice = \"d\"\nlibrary = \"l\"\n\
             [[choice]]\nalgorithm = {name:?}\n[choice.key]\n{keyed}\n\
             [choice.candidates]\n{name:?} = {{ time_ns = 1, workspace = 0 }}\n\
             [end]\nchoices = 1\n"
        );
        std::fs::write(&path, text).unwrap();
        let mode = Mode::pinned(path);
        let config = Config { mode, ..Config::new(Fingerprint::new("d", "l")) };
        let tuner = tuner_with(Device::Cpu, config).unwrap();
        drop(tuner.eligible(&key));
        for (_, error) in tuner.stale() {
            let known = matches!(
                error,
                Error::NotApplicable { .. }
                    | Error::LevelTooLow { .. }
                    | Error::WorkspaceTooLarge { .. }
            );
            prop_assert!(known, "{error}");
        }
        // Inputs are limited in size: they are made, or memory runs out.
        let _ = ConvCall::probe(&key, Device::Cpu);
    }
}
