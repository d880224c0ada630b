//! The same bits, whatever runs them: golden digests, thread counts, SIMD levels, repeats.
//!
//! A single test function, because the SIMD level applies to the process.

use std::io::Write as _;

use rayon::ThreadPoolBuilder;
use samebits::numerics::simd::{self, Level};
use samebits::ops::{Compare, CompareKind, Conv, ConvInputGrad, ConvParams, ConvWeightGrad};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Determinism, Device, DeviceKind, dispatch, dispatch_at, rerun};
use workspace_tests::{
    Case, families, normal_of, short_digest, strided_families, tiny_families, unreached,
};

#[test]
fn bits_are_golden_and_nothing_changes_them() {
    let families = families(Device::Cpu);
    for family in &families {
        // Every operation runs twice and is compared.
        let golden = rerun::scope(2, || digests(&family.cases));
        // A changed line means changed values: it needs a new `NUMERICS_VERSION` and an entry in
        // the changelog.
        let listing: Vec<String> =
            golden.iter().map(|(name, digest)| format!("{digest}  {name}")).collect();
        let _golden = golden_files();
        insta::assert_snapshot!(family.name, listing.join("\n"));
        for threads in [1, 3, 16] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let found = pool.install(|| digests(&family.cases));
            assert_same(&golden, &found, &format!("{threads} threads"));
        }
        let in_force = simd::level();
        test_support::at_every_level(|level| {
            if level != in_force {
                assert_same(&golden, &digests(&family.cases), level.name());
            }
        });
    }
    convolutions_repeat_at_run_to_run();
    let missing = unreached(DeviceKind::Cpu, Determinism::RunToRun);
    assert!(missing.is_empty(), "kernels that no case reaches: {missing:#?}");
    say_what_was_compared();
}

/// Prints the levels of this machine, and those that it lacks and cannot compare. It writes past
/// the test harness, which captures the output of tests.
#[expect(clippy::explicit_write, reason = "the harness would keep the words of a macro")]
fn say_what_was_compared() {
    let names = |compared: bool| {
        let levels = Level::ALL.into_iter().filter(|&l| (l <= simd::supported()) == compared);
        levels.map(Level::name).collect::<Vec<_>>().join(", ")
    };
    let (compared, missing) = (names(true), names(false));
    let mut line = format!("golden digests: compared at {compared}");
    if !missing.is_empty() {
        line += &format!("; NOT COMPARED at {missing}, which this machine does not have");
    }
    writeln!(std::io::stderr(), "{line}").unwrap();
}

/// Bits at this level may differ between machines, so there are no golden digests of them.
fn convolutions_repeat_at_run_to_run() {
    let (input, weight) = (normal_of(&[2, 16, 40, 40], DType::F32, 1), [32, 16, 3, 3]);
    let params = ConvParams::padded(2, 1);
    let grad = normal_of(&[2, 32, 40, 40], DType::F32, 2);
    let forward = Conv {
        input: input.clone(),
        weight: normal_of(&weight, DType::F32, 3),
        bias: None,
        params: params.clone(),
    };
    let input_grad = ConvInputGrad {
        grad: grad.clone(),
        weight: forward.weight.clone(),
        input_shape: input.shape().to_vec(),
        params: params.clone(),
    };
    let weight_grad = ConvWeightGrad { grad, input, weight_shape: weight.to_vec(), params };
    let all = || {
        let level = Determinism::RunToRun;
        let results = [
            dispatch_at(&forward, level).unwrap(),
            dispatch_at(&input_grad, level).unwrap(),
            dispatch_at(&weight_grad, level).unwrap(),
        ];
        short_digest(&results).unwrap()
    };
    let once = all();
    for threads in [1, 3] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(all), once, "{threads} threads");
    }
}

#[test]
fn the_layout_of_inputs_does_not_show() {
    for (dense, strided) in families(Device::Cpu).iter().zip(strided_families(Device::Cpu)) {
        let golden = digests(&dense.cases);
        assert_eq!(golden.len(), strided.cases.len(), "{}", dense.name);
        let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_same(&golden, &pool.install(|| digests(&strided.cases)), "strided inputs");
    }
}

/// Other libraries share the threads and may leave them flushing subnormals to zero.
#[test]
fn the_floating_point_mode_of_a_thread_does_not_show() {
    let spoil = |threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads);
        pool.start_handler(|_| test_support::flush_to_zero()).build().unwrap()
    };
    // Enough work that every thread takes some.
    let zeros = Value::zeros(&[4_000_000], DType::F32).unwrap();
    let a = Value::full(zeros.shape(), 1e-40, DType::F32).unwrap();
    let larger = Compare { kind: CompareKind::Gt, a, b: zeros };
    let found = spoil(3).install(|| dispatch(&larger)).unwrap();
    assert_eq!(found.to_bools().unwrap().iter().position(|larger| !larger), None);
    for family in tiny_families(Device::Cpu) {
        let expected = digests(&family.cases);
        for threads in [1, 3] {
            let found = spoil(threads).install(|| digests(&family.cases));
            assert_same(&expected, &found, &format!("{threads} threads that flush to zero"));
        }
    }
}

/// The snapshots of this test are the files that `samebits verify` ships.
fn golden_files() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../crates/verify/golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind_to_scope()
}

/// Returns a short digest of each case's results.
fn digests(cases: &[Case]) -> Vec<(String, String)> {
    cases
        .iter()
        .map(|case| {
            let digest = (case.run)().and_then(|tensors| short_digest(&tensors));
            (case.name.clone(), digest.unwrap_or_else(|error| panic!("{}: {error}", case.name)))
        })
        .collect()
}

#[track_caller]
fn assert_same(golden: &[(String, String)], found: &[(String, String)], what: &str) {
    let different: Vec<_> =
        golden.iter().zip(found).filter(|(a, b)| a != b).map(|(a, _)| &a.0).collect();
    assert!(different.is_empty(), "other bits with {what}: {different:#?}");
}
