//! A cache saves races, changes no result, and never causes an error.

#![expect(clippy::print_stdout, reason = "a child process answers on its output")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use samebits_autotune::Determinism::*;
use samebits_autotune::{ChoiceFile, Config, Fingerprint, Mode, Source, Tuner};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

fn cache(folder: &Path) -> Mode {
    Mode::Cache(folder.to_owned())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files
}

/// Returns the algorithm for a call of `n` at `Portable`, its source, and the number of runs.
fn chosen(
    (tuner, runs): &(Tuner<Toy>, Arc<AtomicUsize>),
    n: usize,
) -> (&'static str, Source, usize) {
    let before = runs.load(Ordering::SeqCst);
    let decision = tuner.choose(&key(Portable, n)).unwrap();
    (decision.candidate.name(), decision.source, runs.load(Ordering::SeqCst) - before)
}

/// A subscriber that collects the warnings of its thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{value:?}"));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Returns the result of `f` and the warnings of this thread meanwhile.
fn warnings<R>(f: impl FnOnce() -> R) -> (R, Vec<String>) {
    let warnings = Warnings::default();
    let result = tracing::subscriber::with_default(warnings.clone(), f);
    let texts = warnings.0.lock().unwrap().clone();
    (result, texts)
}

#[test]
fn the_second_process_needs_no_race() {
    let folder = tempfile::tempdir().unwrap();
    // A missing folder is created.
    let folder = folder.path().join("a/b");
    let (name, source, runs) = chosen(&tuner(cache(&folder)), 16);
    assert!((name, source) == ("tiled", Source::Raced) && runs > 0);
    assert_eq!(chosen(&tuner(cache(&folder)), 16), ("tiled", Source::Cached, 0));
    // It is a choice file like any other.
    let file = ChoiceFile::<ToyKey>::read(&files(&folder)[0]).unwrap();
    assert_eq!(file.get(&key(Portable, 16)).unwrap().algorithm, "tiled");
    assert!(tuner(cache(&folder)).0.verify().unwrap().len() == 1);
}

#[test]
fn a_choice_that_shows_is_never_cached_nor_taken_from_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let (cached, runs) = tuner(cache(folder.path()));
    let (off, _) = tuner(Mode::Off);
    let level = |tuner: &Tuner<Toy>| tuner.choose(&key(RunToRun, 16)).unwrap();
    assert_eq!(level(&cached).candidate.name(), level(&off).candidate.name());
    assert_eq!((level(&cached).source, runs.load(Ordering::SeqCst)), (Source::Heuristic, 0));
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
    // Another process stores another choice.
    chosen(&(tuner(cache(folder.path()))), 16);
    let path = &files(folder.path())[0];
    let text = std::fs::read_to_string(path).unwrap().replace("\"Portable\"", "\"RunToRun\"");
    std::fs::write(path, text.replace("algorithm = \"tiled\"", "algorithm = \"plain\"")).unwrap();
    let (cached, _) = tuner(cache(folder.path()));
    assert_eq!(
        (level(&cached).candidate.name(), level(&cached).source),
        ("tiled", Source::Heuristic)
    );
}

#[test]
fn each_device_and_library_has_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for (device, library) in [("a", "1"), ("b", "1"), ("a", "2")] {
        let fingerprint = Fingerprint::new(device, library);
        let first = chosen(&tuner_of(fingerprint.clone(), cache(folder.path()), 0), 16);
        assert_eq!(first.1, Source::Raced, "{fingerprint:?}");
        let second = chosen(&tuner_of(fingerprint, cache(folder.path()), 0), 16);
        assert_eq!(second, ("tiled", Source::Cached, 0));
    }
    assert_eq!(files(folder.path()).len(), 3);
}

#[test]
fn a_broken_or_foreign_file_is_ignored_with_one_warning_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    chosen(&tuner(cache(folder.path())), 16);
    let path = &files(folder.path())[0];
    let whole = std::fs::read_to_string(path).unwrap();
    let broken = [
        whole[..whole.len() / 2].to_owned(),
        "no choices".to_owned(),
        String::new(),
        whole.replace("toy device", "another device"),
        whole.replace("format = 1", "format = 2"),
        whole.replace("numerics = 2", "numerics = 9"),
    ];
    for text in broken {
        std::fs::write(path, &text).unwrap();
        let (opened, said) = warnings(|| tuner(cache(folder.path())));
        assert_eq!(said.len(), 1, "{text}: {said:?}");
        assert!(said[0].starts_with("the cache of choices is ignored: "), "{said:?}");
        let ((), said) = warnings(|| {
            assert_eq!(chosen(&opened, 16).1, Source::Raced);
            assert_eq!(chosen(&opened, 17).1, Source::Raced);
        });
        assert_eq!(said, [""; 0]);
        assert_eq!(chosen(&tuner(cache(folder.path())), 16), ("tiled", Source::Cached, 0));
        assert_eq!(chosen(&tuner(cache(folder.path())), 17), ("tiled", Source::Cached, 0));
    }
}

#[test]
fn a_stale_line_is_raced_again_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    for n in [16, 17] {
        chosen(&tuner(cache(folder.path())), n);
    }
    let path = &files(folder.path())[0];
    let text = std::fs::read_to_string(path).unwrap();
    // The first line alone: the algorithm no longer exists.
    std::fs::write(path, text.replacen("tiled\"", "gone\"", 2)).unwrap();
    let opened = tuner(cache(folder.path()));
    assert_eq!(opened.0.stale().len(), 1);
    assert_eq!(chosen(&opened, 16).1, Source::Raced);
    assert_eq!(chosen(&opened, 17), ("tiled", Source::Cached, 0));
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

#[test]
fn a_folder_that_cannot_be_used_costs_a_warning_and_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a file");
    std::fs::write(&file, "").unwrap();
    // A folder cannot be at the path of a file.
    let (opened, said) = warnings(|| tuner(cache(&file)));
    assert_eq!(said.len(), 1, "{said:?}");
    for n in [16, 17] {
        let (choice, said) = warnings(|| chosen(&opened, n));
        assert_eq!((choice.0, choice.1, said.len()), ("tiled", Source::Raced, 0), "{said:?}");
    }

    // A folder that disappears while the tuner works.
    let gone = folder.path().join("gone");
    let opened = tuner(cache(&gone));
    std::fs::remove_dir_all(&gone).unwrap();
    let (_, said) = warnings(|| [16, 17].map(|n| assert_eq!(chosen(&opened, n).1, Source::Raced)));
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_locked_cache_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    chosen(&tuner(cache(folder.path())), 16);
    let mut lock = files(folder.path())[0].clone().into_os_string();
    lock.push(".lock");
    let lock = std::fs::File::create(lock).unwrap();
    lock.lock().unwrap();
    let start = std::time::Instant::now();
    let (opened, said) = warnings(|| tuner(cache(folder.path())));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(chosen(&opened, 16).1, Source::Raced);
}

#[test]
fn without_memory_nothing_is_cached() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::noisy(0);
    let runs = Arc::default();
    let hungry = samebits_autotune::Candidate::canonical(1, "hungry", |_: &Toy| {
        Err(ToyShort { bytes: 7 }.into())
    });
    let candidates = vec![candidate(&clock, &runs, 0, "plain", Portable, Twist::None, 9), hungry];
    let config: Config = config(cache(folder.path()), &clock);
    let tuner = (Tuner::new(Toy::probe, candidates, config).unwrap(), runs);
    let (name, source, _) = chosen(&tuner, 16);
    assert_eq!((name, source), ("plain", Source::Heuristic));
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

/// Runs in a child of another test: tunes keys `FROM..TO` with a cache, and prints the source of
/// each choice.
#[test]
fn user() {
    let Some(folder) = std::env::var_os("CACHE").map(PathBuf::from) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let tuner = noisy_tuner(cache(&folder), number("SEED") as u64);
    for n in number("FROM")..number("TO") {
        let (name, source, _) = chosen(&tuner, n);
        println!("chose {n} {name} {source:?}");
    }
}

#[test]
fn two_processes_at_once_share_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let start = |seed: &str, from: &str, to: &str| {
        let path = folder.path().to_str().unwrap();
        let role = [("CACHE", path), ("SEED", seed), ("FROM", from), ("TO", to)];
        child("user", &role).stdout(Stdio::piped()).spawn().unwrap()
    };
    // Both children need keys 20 to 39.
    for child in [start("1", "1", "40"), start("2", "20", "60")] {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        assert!(text.lines().filter(|line| line.contains("chose ")).count() >= 39, "{text}");
    }
    let file = ChoiceFile::<ToyKey>::read(&files(folder.path())[0]).unwrap();
    assert_eq!(file.choices().len(), 59);
    let later = tuner(cache(folder.path()));
    assert!((1..60).all(|n| chosen(&later, n).1 == Source::Cached));
}
