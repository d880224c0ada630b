//! A pinned choice withstands any noise of the clock; an unpinned one does not.

#![expect(clippy::print_stdout, reason = "a child process answers on its output")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::*;
use samebits_autotune::Determinism::*;
use samebits_autotune::{Mode, Source};

/// Returns the choices for thirty keys and a digest of all results, under the clock noise of
/// `seed`.
fn choices(mode: Mode, seed: u64) -> (String, Source) {
    let (tuner, _) = noisy_tuner(mode, seed);
    let mut text = String::new();
    let mut source = Source::Heuristic;
    for n in 1..=30 {
        let decision = tuner.choose(&key(RunToRun, n)).unwrap();
        source = decision.source;
        let toy = Toy { input: vec![0.1; n] };
        let bits = tuner.run(&toy, RunToRun).unwrap()[0].to_bits();
        text.push_str(&format!("{n} {} {bits:08x}\n", decision.candidate.name()));
    }
    (text, source)
}

/// Runs in a child of another test: replays the choices of its file.
#[test]
fn replay_pinned_in_this_process() {
    let (Ok(path), Ok(seed)) = (std::env::var("TUNE_FILE"), std::env::var("TUNE_SEED")) else {
        return;
    };
    let (text, source) = choices(Mode::pinned(path), seed.parse().unwrap());
    assert_eq!(source, Source::Pinned);
    println!("<<<{text}>>>");
}

fn replayed(path: &Path, seed: u64) -> String {
    let seed = seed.to_string();
    let role = [("TUNE_FILE", path.to_str().unwrap()), ("TUNE_SEED", seed.as_str())];
    let output = child("replay_pinned_in_this_process", &role).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, text) = text.split_once("<<<").unwrap();
    text.split_once(">>>").unwrap().0.to_owned()
}

#[test]
fn recorded_here_and_pinned_in_another_process_the_choices_and_bits_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    let (recorded, source) = choices(Mode::Record(path.clone()), 1);
    assert_eq!(source, Source::Raced);
    for seed in [2, 3, 4] {
        assert_eq!(replayed(&path, seed), recorded, "noise {seed}");
    }
    // Recording continues from the recorded choices, whatever the noise is now.
    let (again, source) = choices(Mode::Record(path), 5);
    assert_eq!((again, source), (recorded, Source::Recorded));
}

/// The negative control: the noise is strong enough to change choices and bits.
#[test]
fn recorded_anew_under_other_noise_the_choices_and_bits_differ() {
    let folder = tempfile::tempdir().unwrap();
    let all: BTreeSet<String> = (1..=4)
        .map(|seed| {
            let path = folder.path().join(format!("{seed}.toml"));
            choices(Mode::Record(path), seed).0
        })
        .collect();
    assert_eq!(all.len(), 4);
}
