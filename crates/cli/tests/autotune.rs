//! Files of convolution choices and the report of the environment, tested through the program.

use std::path::Path;
use std::process::{Command, Output};

fn samebits(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_samebits"))
        .current_dir(folder)
        .env_remove("SAMEBITS_SIMD")
        .args(arguments)
        .output()
        .unwrap()
}

#[track_caller]
fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = samebits(folder, arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[track_caller]
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = samebits(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn digest(text: &str) -> &str {
    let row = text.lines().find(|line| line.starts_with("1 ")).expect(text);
    row.split_whitespace().last().unwrap()
}

const TRAIN: [&str; 5] = ["train", "--max-steps", "3", "--determinism", "run-to-run"];

#[test]
fn a_recorded_run_repeats_when_its_choices_are_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let recorded = good(folder, &[&TRAIN[..], &["--record-choices", "choices.toml"]].concat());
    for threads in ["1", "3"] {
        let pinned =
            [&TRAIN[..], &["--pin-choices", "choices.toml", "--threads", threads]].concat();
        assert_eq!(digest(&good(folder, &pinned)), digest(&recorded), "{threads} threads");
    }

    let shown = good(folder, &["autotune", "show", "choices.toml"]);
    assert!(shown.contains("implicit-gemm") && shown.contains(" ms "), "{shown}");
    let verified = good(folder, &["autotune", "verify", "choices.toml"]);
    assert!(verified.contains(" good, 0 wrong"), "{verified}");

    let before = std::fs::read(folder.join("choices.toml")).unwrap();
    let dry = ["autotune", "prune", "choices.toml", "--level", "portable", "--dry-run"];
    assert!(good(folder, &dry).contains("would be removed"));
    assert_eq!(std::fs::read(folder.join("choices.toml")).unwrap(), before);
    assert!(good(folder, &["autotune", "prune", "choices.toml"]).contains(" 0 choices removed"));
    good(folder, &["autotune", "prune", "choices.toml", "--level", "portable"]);
    let message = refused(folder, &[&TRAIN[..], &["--pin-choices", "choices.toml"]].concat());
    assert!(message.contains("choices.toml"), "{message}");
}

#[test]
fn a_damaged_file_is_reported_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    good(folder, &[&TRAIN[..], &["--record-choices", "choices.toml"]].concat());
    let path = folder.join("choices.toml");
    let whole = std::fs::read_to_string(&path).unwrap();
    let half = &whole[..whole.len() / 2];
    std::fs::write(&path, half).unwrap();
    for arguments in [
        vec!["autotune", "show", "choices.toml"],
        vec!["autotune", "verify", "choices.toml"],
        vec!["autotune", "prune", "choices.toml"],
        [&TRAIN[..], &["--pin-choices", "choices.toml"]].concat(),
        [&TRAIN[..], &["--record-choices", "choices.toml"]].concat(),
    ] {
        let message = refused(folder, &arguments);
        assert!(message.contains("choices.toml"), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), half, "{arguments:?}");
    }
}

#[test]
fn the_environment_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let report = good(folder.path(), &["env"]);
    for line in ["numerics version", "instruction set", "threads", "subnormals", "CUDA"] {
        assert!(report.contains(line), "{report}");
    }
}
