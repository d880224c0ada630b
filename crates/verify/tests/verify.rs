//! A perturbed item is named: a golden digest, a case without one, a digest without a case, a
//! kernel of the CPU and one of a CUDA device.

use std::process::Command;

use samebits::ops::Cumsum;
use samebits::registry::{Kernel, dispatch_variant, register};
use samebits::tensor_core::Tensor as Value;
use samebits::tensor_core::geometry::Split;
use samebits::{DType, Determinism, Device, DeviceKind, Result};
use samebits_verify::{Error, Finding, Golden, Options, Setting, families, verify};

/// The variable set in children, whose kernels are perturbed.
const PERTURBED: &str = "SAMEBITS_TEST_PERTURBED";

fn only(family: &str) -> Options {
    Options { families: vec![family.to_owned()], ..Options::quick() }
}

#[test]
fn the_shipped_digests_cover_the_corpus() {
    let golden = Golden::shipped().unwrap();
    for family in families(Device::Cpu) {
        let cases: Vec<_> = family.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(golden.cases(family.name).count(), cases.len(), "{}", family.name);
        for case in cases {
            assert!(golden.of(family.name, case).is_some(), "{} {case}", family.name);
        }
    }
}

#[test]
fn a_perturbed_golden_digest_is_named_in_every_setting() {
    let mut golden = Golden::shipped().unwrap();
    let norm = families(Device::Cpu).into_iter().find(|family| family.name == "norm").unwrap();
    let names: Vec<_> = norm.cases.iter().map(|case| case.name.clone()).collect();
    let line = |name: &str, digest: &str| format!("{digest}  {name}\n");
    let right = |name: &str| golden.of("norm", name).unwrap();
    let mut text: String = names[2..].iter().map(|name| line(name, right(name))).collect();
    text += &line(&names[1], "0123456789abcdef");
    text += &line("no such case", "0123456789abcdef");
    let right = right(&names[1]).to_owned();
    golden.add("norm", &text).unwrap();

    let mut last = 0;
    let report = verify(&only("norm"), &golden, |at| {
        assert!(at.done < at.total && at.family == "norm");
        last = at.done;
    })
    .unwrap();
    assert!(!report.holds());
    assert_eq!(last + 1, report.outcomes.iter().map(|outcome| outcome.cases).sum::<usize>());
    for outcome in &report.outcomes {
        let found: Vec<_> = outcome.findings.iter().map(|finding| finding.case.as_str()).collect();
        assert_eq!(found, [names[0].as_str(), names[1].as_str(), "no such case"]);
        assert_eq!(outcome.findings[0].expected, None);
        assert_eq!(outcome.findings[1].found.as_ref(), Some(&right));
        assert_eq!(outcome.findings[2].found, None);
    }
    let text = report.to_string();
    let said = format!("norm / {}: expected 0123456789abcdef, got {right}", names[1]);
    assert_eq!(text.matches(&said).count(), 1, "{text}");
    assert!(text.contains("3 DIFFER"), "{text}");
    assert!(serde_json::to_string(&report).unwrap().contains("0123456789abcdef"));
}

#[test]
fn what_cannot_be_verified_is_a_typed_error() {
    let golden = Golden::shipped().unwrap();
    let unknown = verify(&only("nrom"), &golden, |_| {}).unwrap_err();
    assert_eq!(unknown.to_string().split(';').next(), Some("verify: no family is called \"nrom\""));
    assert!(matches!(unknown, Error::UnknownFamily { known, .. } if known.contains("norm")));
    let nowhere = Setting::of(Device::Cuda(97));
    let missing = Options { settings: vec![nowhere], ..only("norm") };
    assert!(matches!(verify(&missing, &golden, |_| {}), Err(Error::Device(_))));
    let broken =
        ["0123456789abcde  short", "0123456789abcdeF  capital", "0123456789abcdef one space"];
    for line in broken {
        let error = Golden::shipped().unwrap().add("norm", &format!("\n{line}\n")).unwrap_err();
        assert!(matches!(&error, Error::Golden { line: 2, found, .. } if found == line), "{error}");
    }
}

/// Runs in a child process, because the kernel must be registered before those of the library.
#[test]
fn a_perturbed_kernel_is_named() {
    if std::env::var_os(PERTURBED).is_some() {
        return find_the_perturbed_kernels();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_perturbed_kernel_is_named", "--nocapture"])
        .env(PERTURBED, "1")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

fn find_the_perturbed_kernels() {
    for device in [DeviceKind::Cpu, DeviceKind::Cuda] {
        register(Kernel {
            variant: "perturbed",
            device,
            dtypes: &[DType::F32],
            level: Determinism::Portable,
            why: "it does not hold",
            applies: |op: &Cumsum, _| !op.reverse,
            run: perturbed,
        });
    }
    let report = verify(&only("scan"), &Golden::shipped().unwrap(), |_| {}).unwrap();
    for outcome in &report.outcomes {
        let named =
            |finding: &Finding| finding.case.starts_with("cumsum") && finding.case.contains("f32");
        assert!(!outcome.findings.is_empty(), "{}", outcome.setting);
        assert!(outcome.findings.iter().all(named), "{report}");
    }
}

/// Flips one bit of the last element.
fn perturbed(op: &Cumsum, _: &Split) -> Result<Value> {
    let right = dispatch_variant(op, "tiles")?;
    let mut values: Vec<f32> = right.to_vec()?;
    if let Some(last) = values.last_mut() {
        *last = f32::from_bits(last.to_bits() ^ 1);
    }
    Value::from_slice(&values, right.shape())?.to(right.device())
}

#[test]
fn a_setting_shows_in_no_bit() {
    let options = Options { settings: Setting::host(), families: vec!["scatter".to_owned()] };
    let report = verify(&options, &Golden::shipped().unwrap(), |_| {}).unwrap();
    assert!(report.holds(), "{report}");
    let settings: Vec<String> =
        report.outcomes.iter().map(|outcome| outcome.setting.to_string()).collect();
    for word in ["cpu, all threads", "3 threads", "portable", "contention"] {
        assert!(settings.iter().any(|setting| setting.contains(word)), "{word}: {settings:?}");
    }
}
