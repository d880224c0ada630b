//! The content of a choice file, and the errors for invalid ones.

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use common::*;
use proptest::prelude::*;
use samebits_autotune::Determinism::*;
use samebits_autotune::{
    ChoiceFile, Config, Error, Finding, Fingerprint, Merged, Missing, Mode, Source, Tuner, merge,
    prune,
};

/// Returns a file with one choice per level, with its folder and its text.
fn recorded() -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    let (tuner, _) = tuner(Mode::Record(path.clone()));
    for level in [NotGuaranteed, RunToRun, Portable] {
        assert_eq!(tuner.choose(&key(level, 16)).unwrap().source, Source::Raced);
    }
    let text = std::fs::read_to_string(&path).unwrap();
    (folder, path, text)
}

/// Returns the tuner's error for the file or for a choice in it, pinned and recording; the file
/// must not change.
fn refusal(path: &Path, text: &str) -> Error {
    std::fs::write(path, text).unwrap();
    let open = |mode| {
        let clock = ManualClock::noisy(0);
        match Tuner::new(Toy::probe, usual(&clock, &Default::default()), config(mode, &clock)) {
            Err(error) => error,
            Ok(tuner) => {
                let (key, stale) = tuner.stale().pop().expect(text);
                let error = tuner.choose(&key).unwrap_err();
                assert_eq!(error.to_string(), stale.to_string());
                error
            }
        }
    };
    let pinned = open(Mode::pinned(path));
    let recording = open(Mode::Record(path.into()));
    assert_eq!(pinned.to_string(), recording.to_string());
    assert_eq!(std::fs::read_to_string(path).unwrap(), text, "the file was changed");
    pinned
}

fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).unwrap() + 1
}

const WHOLE: &str = r#"# Which algorithm runs which call. Recorded by a race; made to be read, reviewed and
# pinned. To choose another algorithm, put the name of another candidate.
format = 1
numerics = 2
device = "toy device"
library = "toy library 1.0"

[[choice]]
algorithm = "atomic"

[choice.key]
level = "NotGuaranteed"
n = 16

[choice.candidates]
"atomic" = { time_ns = 500, workspace = 0 }
"skewed" = { time_ns = 600, workspace = 64 }
"tiled" = { time_ns = 800, workspace = 0 }
"plain" = { time_ns = 1000, workspace = 0 }

[[choice]]
algorithm = "skewed"
digest = "sha256:2fd62a0f708d9a27aea00ac5b0b512b3f0cf38d70d09c251a0f51dde4cb73eda"

[choice.key]
level = "RunToRun"
n = 16

[choice.candidates]
"skewed" = { time_ns = 600, workspace = 64 }
"tiled" = { time_ns = 800, workspace = 0 }
"plain" = { time_ns = 1000, workspace = 0 }

[[choice]]
algorithm = "tiled"
digest = "sha256:a1f26459f6d46780791d15922a792f366dede32521f1633256b4d484f87d60bf"

[choice.key]
level = "Portable"
n = 16

[choice.candidates]
"tiled" = { time_ns = 800, workspace = 0 }
"plain" = { time_ns = 1000, workspace = 0 }

[end]
choices = 3
"#;

#[test]
fn the_text_is_made_to_be_read() {
    let (_folder, _, text) = recorded();
    assert_eq!(text, WHOLE);
}

#[test]
fn a_pinned_file_decides_without_a_run_and_is_only_read() {
    let (folder, path, text) = recorded();
    std::fs::remove_file(folder.path().join("choices.toml.lock")).unwrap();
    let (tuner, runs) = noisy_tuner(Mode::pinned(&path), 99);
    for (level, name) in [(NotGuaranteed, "atomic"), (RunToRun, "skewed"), (Portable, "tiled")] {
        let decision = tuner.choose(&key(level, 16)).unwrap();
        assert_eq!((decision.candidate.name(), decision.source), (name, Source::Pinned));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no lock was taken");
}

#[test]
fn a_call_that_is_not_pinned_is_an_error_and_never_raced() {
    let (_folder, path, text) = recorded();
    let (tuner, runs) = tuner(Mode::pinned(&path));
    for level in [NotGuaranteed, RunToRun, Portable] {
        for _ in 0..2 {
            let error = tuner.choose(&key(level, 17)).unwrap_err();
            assert!(matches!(&error, Error::NotPinned { .. }), "{error}");
            let message = error.to_string();
            assert!(
                message.contains(&format!("no choice is pinned for doubling of 17 at {level}"))
            );
            assert!(message.contains("record it by running once with mode `Record`"), "{message}");
        }
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn what_is_not_pinned_may_be_left_to_the_heuristic() {
    let (_folder, path, text) = recorded();
    let mode = Mode::Pinned { path: path.clone(), missing: Missing::Heuristic };
    let (tuner, runs) = noisy_tuner(mode, 7);
    for level in [NotGuaranteed, RunToRun, Portable] {
        let decision = tuner.choose(&key(level, 17)).unwrap();
        assert_eq!((decision.candidate.name(), decision.source), ("tiled", Source::Heuristic));
        assert_eq!(tuner.choose(&key(level, 16)).unwrap().source, Source::Pinned);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn merging_keeps_what_came_first() {
    let folder = tempfile::tempdir().unwrap();
    let rank = |name: &str, sizes: &[usize]| {
        let path = folder.path().join(name);
        let (tuner, _) = tuner(Mode::Record(path.clone()));
        sizes.iter().for_each(|&n| drop(tuner.choose(&key(RunToRun, n)).unwrap()));
        path
    };
    let (a, b) = (rank("0.toml", &[1, 2]), rank("1.toml", &[2, 3]));
    let other = std::fs::read_to_string(&b).unwrap().replacen(r#"= "skewed""#, r#"= "tiled""#, 1);
    std::fs::write(&b, other).unwrap();
    let into = folder.path().join("all.toml");
    let merged = |from: &[&PathBuf]| {
        let from: Vec<PathBuf> = from.iter().copied().cloned().collect();
        merge::<ToyKey>(&into, &from, std::time::Duration::ZERO)
    };
    assert_eq!(merged(&[]).unwrap(), Merged::default());
    assert!(!into.exists());
    assert_eq!(merged(&[&a, &b]).unwrap(), Merged { added: 3, contradicted: 1 });
    // A merge that adds nothing does not write.
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::options().write(true).open(&into).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(merged(&[&b, &a]).unwrap(), Merged { added: 0, contradicted: 1 });
    assert_eq!(std::fs::metadata(&into).unwrap().modified().unwrap(), long_ago);
    let text = std::fs::read_to_string(&into).unwrap();
    assert_eq!(text, std::fs::read_to_string(rank("2.toml", &[1, 2, 3])).unwrap());

    let foreign = text.replace("toy library 1.0", "toy library 2.0");
    std::fs::write(&b, foreign).unwrap();
    std::fs::remove_file(&into).unwrap();
    let error = merged(&[&a, &b]).unwrap_err();
    assert!(matches!(&error, Error::Fingerprint { what: "library", .. }), "{error}");
    assert!(!into.exists());
}

#[test]
fn modes_say_where_choices_are_kept() {
    for (mode, text) in [
        (Mode::Off, "kept for this process only"),
        (Mode::Record("a.toml".into()), "recorded in a.toml"),
        (Mode::pinned("a.toml"), "pinned by a.toml"),
        (
            Mode::Pinned { path: "a.toml".into(), missing: Missing::Heuristic },
            "pinned by a.toml, else by the heuristic",
        ),
    ] {
        assert_eq!(mode.to_string(), text);
    }
}

/// Machines that differ in one of these record different choices.
#[test]
fn the_fingerprint_of_a_host_names_its_processor() {
    let host = Fingerprint::host("toy library 1.0");
    assert_eq!(host.library, "toy library 1.0");
    let level = samebits_numerics::simd::supported().name();
    let kind = format!("{} {} {level}", std::env::consts::ARCH, std::env::consts::OS);
    let rest = host.device.strip_prefix(&kind).expect("the kind comes first");
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match info.lines().find(|line| line.starts_with("model name")) {
        Some(line) => assert!(line.ends_with(rest.strip_prefix(", ").unwrap()), "{rest}"),
        None => assert_eq!(rest, ""),
    }
}

#[test]
fn a_file_that_is_not_there_says_how_to_make_one() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::noisy(0);
    let mode = Mode::pinned(folder.path().join("none.toml"));
    let error = Tuner::new(Toy::probe, usual(&clock, &Default::default()), config(mode, &clock));
    let message = error.unwrap_err().to_string();
    assert!(message.contains("cannot read") && message.contains("mode `Record`"), "{message}");
}

#[test]
fn a_hand_edit_to_another_candidate_is_obeyed() {
    let (_folder, path, text) = recorded();
    let edited = text.replace("algorithm = \"skewed\"", "algorithm = \"plain\"");
    std::fs::write(&path, edited).unwrap();
    for mode in [Mode::pinned(&path), Mode::Record(path.clone())] {
        let (tuner, _) = tuner(mode);
        assert_eq!(tuner.choose(&key(RunToRun, 16)).unwrap().candidate.name(), "plain");
    }
}

#[test]
fn every_mistake_is_named_with_its_line() {
    let (_folder, path, text) = recorded();
    // Old text, new text, a part of the line that the error names, words of the error.
    let cases = [
        ("format = 1", "format = 2", "format = 2", "format version 2, this program has 1"),
        ("numerics = 2", "numerics = 7", "numerics = 7", "numerics version 7, this program has 2"),
        ("\"toy device\"", "\"other\"", "device =", "recorded for device \"other\""),
        ("library 1.0", "library 2.0", "library =", "recorded for library \"toy library 2.0\""),
        ("algorithm = \"tiled\"", "algorithm = \"tilde\"", "\"tilde\"", "not among the candidates"),
        (
            "\"tiled\"",
            "\"tilde\"",
            "algorithm = \"tilde\"",
            "unknown algorithm \"tilde\"; this program has plain, tiled, skewed, atomic",
        ),
        (
            "level = \"RunToRun\"\nn = 16",
            "level = \"Portable\"\nn = 17",
            "= \"skewed\"",
            "promises RunToRun, but this choice is for level Portable",
        ),
        ("level = \"RunToRun\"", "level = \"Sometimes\"", "\"Sometimes\"", "unknown variant"),
        (
            "level = \"RunToRun\"\nn = 16",
            "level = \"RunToRun\"\nn = -16",
            "n = -16",
            "invalid value",
        ),
        (
            "level = \"RunToRun\"\nn = 16",
            "level = \"RunToRun\"\nm = 16",
            "m = 16",
            "unknown field `m`",
        ),
        ("sha256:2fd", "sha256:2FD", "2FD", "is not `sha256:` and 64 digits"),
        (
            "time_ns = 600, workspace = 64",
            "workspace = 64",
            "\"skewed\" = { workspace",
            "needs one of",
        ),
        ("time_ns = 600", "time_ns = 600, speed = 1", "speed", "unknown field `speed`"),
        (
            "[choice.candidates]\n\"skewed\" = { time_ns = 600, workspace = 64 }",
            "[choice.candidates]\n\"skewed\" = { workspace = 64, disqualified = \"wrong\" }",
            "algorithm = \"skewed\"",
            "is chosen but was disqualified: wrong",
        ),
        ("choices = 3", "choices = 2", "choices = 2", "3 choices where this line says 2"),
        (
            "[end]\nchoices = 3\n",
            "",
            "\"plain\" = { time_ns = 1000, workspace = 0 }\n\u{0}",
            "missing field `end`",
        ),
        ("[choice.key]", "[choice.key", "[choice.key", ""),
        ("device = ", "device == ", "device ==", ""),
    ];
    for (from, to, at, words) in cases {
        assert!(text.contains(from), "{from}");
        // The levels' own tables come in the order of the file; the last one is meant for "tiled",
        // which occurs once as a choice.
        let edited =
            if from == "\"tiled\"" { text.replace(from, to) } else { text.replacen(from, to, 1) };
        let error = refusal(&path, &edited);
        let message = error.to_string();
        let line = if at.contains('\u{0}') { edited.lines().count() } else { line_of(&edited, at) };
        assert!(message.contains(&format!("choices.toml:{line}: ")), "{to}: {line}: {message}");
        assert!(message.contains(words), "{to}: {message}");
        let advice = ["Correct", "correct", "choose another", "record", "restore"];
        assert!(advice.iter().any(|advice| message.contains(advice)), "{message}");
    }
}

#[test]
fn two_choices_for_one_key_are_named_with_both_lines() {
    let (_folder, path, text) = recorded();
    let edited = text.replace("level = \"Portable\"", "level = \"RunToRun\"");
    let error = refusal(&path, &edited);
    let (first, second) = (line_of(&edited, "= \"skewed\""), line_of(&edited, "= \"tiled\""));
    let message = error.to_string();
    assert!(message.contains(&format!(":{second}: damaged: a second choice")), "{message}");
    assert!(message.contains(&format!("the first is on line {first}")), "{message}");
}

#[test]
fn a_choice_that_no_longer_fits_is_an_error_of_its_own_key() {
    let (_folder, path, _) = recorded();
    let open = |change: &dyn Fn(Config) -> Config, applies: bool| {
        let clock = ManualClock::noisy(0);
        let mut candidates = usual(&clock, &Default::default());
        let skewed = candidates.remove(2).applies_to(move |_| applies);
        candidates.push(skewed);
        let config = change(config(Mode::pinned(&path), &clock));
        Tuner::new(Toy::probe, candidates, config)
    };
    assert_eq!(open(&|config| config, true).unwrap().stale().len(), 0);
    let stale = |tuner: Tuner<Toy>| {
        for (level, name) in [(NotGuaranteed, "atomic"), (Portable, "tiled")] {
            assert_eq!(tuner.choose(&key(level, 16)).unwrap().candidate.name(), name);
        }
        let verdicts = tuner.verify().unwrap();
        let failed = |finding: &Finding| matches!(finding, Finding::Failed(_));
        assert!(verdicts.iter().map(|v| failed(&v.finding)).eq([false, true, false]));
        let keys: Vec<ToyKey> = tuner.stale().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [key(RunToRun, 16)]);
        tuner.choose(&key(RunToRun, 16)).unwrap_err()
    };
    let error = stale(open(&|config| config, false).unwrap());
    assert!(matches!(&error, Error::NotApplicable { line: 22, .. }), "{error}");
    let error = stale(open(&|config| Config { workspace_limit: 63, ..config }, true).unwrap());
    let wanted =
        matches!(&error, Error::WorkspaceTooLarge { needs: 64, limit: 63, line: 17.., .. });
    assert!(wanted, "{error}");
    let exclude = ["skewed".to_owned()];
    let error = stale(open(&|c| Config { exclude: exclude.clone().into(), ..c }, true).unwrap());
    assert!(matches!(&error, Error::Excluded { line: 22, .. }), "{error}");
    let foreign = Fingerprint::new("toy device", "toy library 1.1");
    let error = open(&|c| Config { fingerprint: foreign.clone(), ..c }, true).unwrap_err();
    assert!(matches!(&error, Error::Fingerprint { line: 6, what: "library", .. }), "{error}");
}

#[test]
fn a_file_cut_off_anywhere_is_told_from_a_whole_one() {
    let (_folder, path, text) = recorded();
    for cut in 0..text.len() - 1 {
        let error = refusal(&path, &text[..cut]);
        assert!(matches!(error, Error::Damaged { .. }), "cut at {cut}: {error}");
    }
}

#[test]
fn what_is_no_text_is_named_with_its_line() {
    let (_folder, path, text) = recorded();
    let mut bytes = text.into_bytes();
    let at = bytes.iter().position(|&b| b == b'd').unwrap();
    bytes[at] = 0xff;
    let line = bytes[..at].iter().filter(|&&b| b == b'\n').count() + 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = ChoiceFile::<ToyKey>::read(&path).unwrap_err();
    assert!(matches!(error, Error::Damaged { line: l, .. } if l == line), "{error}");
}

/// A file of any size takes no more memory than the limit of a choice file.
#[test]
fn a_file_that_is_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.toml");
    // A file without content: nothing is written.
    std::fs::File::create(&path).unwrap().set_len(1 << 25).unwrap();
    let error = ChoiceFile::<ToyKey>::read(&path).unwrap_err();
    assert!(matches!(&error, Error::Read { .. }), "{error}");
    assert!(error.to_string().contains("more than 16777216 bytes"), "{error}");
}

/// Recorded choices are not read again unless another process wrote to the file.
#[test]
fn recording_reads_no_choice_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    let (tuner, _) = tuner(Mode::Record(path.clone()));
    READ.set(0);
    for n in 1..=200 {
        tuner.choose(&key(RunToRun, n)).unwrap();
    }
    assert_eq!(READ.get(), 200, "each is read back once, when it is added");
    // The lines that the tuner knows are those of the file.
    let file = ChoiceFile::<ToyKey>::read(&path).unwrap();
    for (verdict, (key, choice)) in tuner.verify().unwrap().iter().zip(file.choices()) {
        assert_eq!((&verdict.key, verdict.line), (key, choice.line));
    }
    // The tuner sees and uses the choices that another recorder adds.
    noisy_tuner(Mode::Record(path.clone()), 3).0.choose(&key(RunToRun, 300)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("device", "# by hand\ndevice", 1)).unwrap();
    let theirs = ChoiceFile::<ToyKey>::read(&path).unwrap();
    let decision = tuner.choose(&key(RunToRun, 300)).unwrap();
    assert_eq!(decision.candidate.name(), theirs.get(&key(RunToRun, 300)).unwrap().algorithm);
    assert!(std::fs::read_to_string(&path).unwrap().contains("by hand"), "written for nothing");
    tuner.choose(&key(RunToRun, 301)).unwrap();
    assert_eq!(ChoiceFile::<ToyKey>::read(&path).unwrap().choices().len(), 202);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damage_never_panics(at in 0usize..WHOLE.len(), remove in 0usize..40, put in "[ -~\n]{0,12}") {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("choices.toml");
        let end = (at + remove).min(WHOLE.len());
        let text = format!("{}{put}{}", &WHOLE[..at], &WHOLE[end..]);
        std::fs::write(&path, &text).unwrap();
        if let Err(error) = ChoiceFile::<ToyKey>::read(&path) {
            let lines = text.lines().count();
            match error {
                Error::Damaged { line, .. } | Error::Version { line, .. } => {
                    prop_assert!((1..=lines.max(1)).contains(&line));
                }
                other => prop_assert!(false, "{other}"),
            }
        }
    }
}

#[test]
fn verify_finds_what_changed() {
    let (_folder, path, text) = recorded();
    let good = |f: &Finding| matches!(f, Finding::Good);
    let without = |f: &Finding| matches!(f, Finding::GoodWithoutDigest);
    let findings = |text: &str| -> Vec<Finding> {
        std::fs::write(&path, text).unwrap();
        let (tuner, _) = tuner(Mode::pinned(&path));
        tuner.verify().unwrap().into_iter().map(|verdict| verdict.finding).collect()
    };
    let now = findings(&text);
    assert!(without(&now[0]) && good(&now[1]) && good(&now[2]), "{now:?}");
    let edited = text.replacen("algorithm = \"skewed\"", "algorithm = \"plain\"", 1);
    let now = findings(&edited);
    assert!(matches!(&now[1], Finding::OtherDigest { .. }), "{now:?}");
    assert!(good(&now[2]), "{now:?}");
}

#[test]
fn verify_finds_an_algorithm_that_broke() {
    let (_folder, path, _) = recorded();
    let clock = ManualClock::noisy(0);
    for (twist, words) in [(Twist::OneBit, "Wrong"), (Twist::Fail, "Failed")] {
        let mut candidates = usual(&clock, &Default::default());
        candidates[1] = candidate(&clock, &Default::default(), 1, "tiled", Portable, twist, 800);
        let config = config(Mode::pinned(&path), &clock);
        let tuner = Tuner::new(Toy::probe, candidates, config).unwrap();
        let verdicts = tuner.verify().unwrap();
        assert_eq!(verdicts[2].algorithm, "tiled");
        let finding = format!("{:?}", verdicts[2].finding);
        assert!(finding.starts_with(words), "{finding}");
    }
}

#[test]
fn prune_takes_away_what_is_not_wanted_and_no_more() {
    let (_folder, path, text) = recorded();
    let timeout = std::time::Duration::from_secs(5);
    assert_eq!(prune(&path, timeout, |_: &ToyKey, _| true).unwrap(), 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let removed = prune(&path, timeout, |_: &ToyKey, choice| choice.algorithm != "atomic").unwrap();
    assert_eq!(removed, 1);
    let pruned = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once("[[choice]]\nalgorithm = \"atomic\"").unwrap();
    let (_, rest) = rest.split_once("\n[[choice]]").unwrap();
    let expected = format!("{head}[[choice]]{rest}").replace("choices = 3", "choices = 2");
    assert_eq!(pruned, expected);
}
