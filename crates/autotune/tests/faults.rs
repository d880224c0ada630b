//! Faults of a file during recording: kills, other recorders, no space, no access.

#![expect(clippy::print_stdout, reason = "a child process answers on its output")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::*;
use samebits_autotune::Determinism::*;
use samebits_autotune::{ChoiceFile, Config, Error, Mode, Tuner};

/// Runs in a child of another test: records keys `FROM..TO` under its own noise, and prints each
/// recorded one.
#[test]
fn recorder() {
    let Ok(path) = std::env::var("RECORD_FILE") else { return };
    let number = |name| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let (tuner, _) = noisy_tuner(Mode::Record(path.into()), number("SEED") as u64);
    for n in number("FROM")..number("TO") {
        let name = tuner.choose(&key(RunToRun, n)).map(|d| d.candidate.name());
        match name {
            Ok(name) => println!("recorded {n} {name}"),
            Err(error) => println!("error {error}"),
        }
    }
}

/// Runs in a child of another test: takes the lock and keeps it.
#[test]
fn lock_holder() {
    let Ok(path) = std::env::var("HOLD_FILE") else { return };
    let lock = std::fs::File::create(path + ".lock").unwrap();
    lock.lock().unwrap();
    println!("holding");
    std::thread::sleep(Duration::from_secs(600));
}

/// A process that is killed when dropped, even if the test fails.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn recorder_of(path: &Path, seed: usize, from: usize, to: usize) -> std::process::Command {
    let (seed, from, to) = (seed.to_string(), from.to_string(), to.to_string());
    let file = path.to_str().unwrap();
    child("recorder", &[("RECORD_FILE", file), ("SEED", &seed), ("FROM", &from), ("TO", &to)])
}

/// Returns the lines `recorded n name` of a recorder's output.
fn acknowledged(output: impl std::io::Read) -> BTreeMap<usize, String> {
    BufReader::new(output)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| {
            let (_, rest) = line.split_once("recorded ")?;
            let (n, name) = rest.split_once(' ')?;
            Some((n.parse().ok()?, name.to_owned()))
        })
        .collect()
}

fn on_disk(path: &Path) -> BTreeMap<usize, String> {
    let file = ChoiceFile::<ToyKey>::read(path).unwrap();
    file.choices().map(|(key, choice)| (key.n, choice.algorithm.clone())).collect()
}

#[test]
fn a_recorder_killed_at_any_moment_loses_nothing_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    let mut all: BTreeMap<usize, String> = BTreeMap::new();
    for round in 0..12 {
        let from = 1 + round * 1000;
        let mut child = recorder_of(&path, 1 + round, from, from + 1000)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || acknowledged(stdout));
        std::thread::sleep(Duration::from_millis(60 + 7 * round as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        all.extend(reader.join().unwrap());
        if all.is_empty() {
            continue;
        }
        let on_disk = on_disk(&path);
        for (n, name) in &all {
            assert_eq!(on_disk.get(n), Some(name), "round {round}");
        }
        // At most one more: the choice in progress when the process died.
        assert!(on_disk.len() <= all.len() + round + 1);
    }
    assert!(all.len() > 20, "the recorders hardly got to work: {}", all.len());
}

#[test]
fn two_recorders_at_once_lose_nothing_and_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    let start =
        |seed, from, to| recorder_of(&path, seed, from, to).stdout(Stdio::piped()).spawn().unwrap();
    // Both children need keys 20 to 39, under different noise.
    let children = [start(1, 1, 40), start(2, 20, 60)];
    let said: Vec<_> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            acknowledged(&output.stdout[..])
        })
        .collect();
    let on_disk = on_disk(&path);
    assert_eq!(on_disk.len(), 59);
    for said in &said {
        for (n, name) in said {
            assert_eq!(on_disk.get(n), Some(name));
        }
    }
    assert_eq!((said[0].len(), said[1].len()), (39, 40));
}

#[test]
fn two_tuners_of_one_process_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    std::thread::scope(|scope| {
        for seed in 1..=4u64 {
            let path = path.clone();
            scope.spawn(move || {
                let (tuner, _) = noisy_tuner(Mode::Record(path), seed);
                for n in 1..=10 {
                    tuner.choose(&key(RunToRun, 10 * seed as usize + n)).unwrap();
                }
            });
        }
    });
    assert_eq!(on_disk(&path).len(), 40);
}

#[test]
fn a_lock_left_behind_locks_nobody_out_and_a_held_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    let file = path.to_str().unwrap();
    let role = [("HOLD_FILE", file)];
    let mut holder = Ended(child("lock_holder", &role).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(holder.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("holding")));

    let open = |timeout| {
        let clock = ManualClock::noisy(0);
        let config = Config { lock_timeout: timeout, ..config(Mode::Record(path.clone()), &clock) };
        Tuner::new(Toy::probe, usual(&clock, &Default::default()), config).map(|_| ())
    };
    let error = open(Duration::from_millis(50)).unwrap_err();
    assert!(matches!(&error, Error::Locked { path, .. } if path.ends_with("choices.toml.lock")));
    assert!(error.to_string().contains("locked by another process"), "{error}");

    drop(holder);
    assert!(folder.path().join("choices.toml.lock").exists());
    let start = Instant::now();
    open(Duration::from_secs(30)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// Returns a folder that nobody can write to, not even root.
fn read_only_folder(folder: &Path) -> PathBuf {
    let locked = folder.join("locked");
    std::fs::create_dir(&locked).unwrap();
    let mut permissions = std::fs::metadata(&locked).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&locked, permissions).unwrap();
    if std::fs::File::create(locked.join("probe")).is_err() { locked } else { "/sys/kernel".into() }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = read_only_folder(folder.path()).join("choices.toml");
    let clock = ManualClock::noisy(0);
    let config = config(Mode::Record(path), &clock);
    let error = Tuner::new(Toy::probe, usual(&clock, &Default::default()), config).unwrap_err();
    assert!(matches!(&error, Error::Write { action: "take the lock", .. }), "{error}");
    assert!(error.to_string().contains("give write access"), "{error}");
}

#[test]
fn a_folder_that_becomes_unwritable_costs_the_new_choice_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    let (tuner, _) = tuner(Mode::Record(path.clone()));
    tuner.choose(&key(RunToRun, 1)).unwrap();
    let before = std::fs::read(&path).unwrap();
    // A folder has the name of the new file: root cannot write there, either.
    std::fs::create_dir(folder.path().join("choices.toml.tmp")).unwrap();
    let error = tuner.choose(&key(RunToRun, 2)).unwrap_err();
    assert!(matches!(&error, Error::Write { action: "create the new file", .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // The old choice stands, and the new one can be made once there is space.
    tuner.choose(&key(RunToRun, 1)).unwrap();
    std::fs::remove_dir(folder.path().join("choices.toml.tmp")).unwrap();
    tuner.choose(&key(RunToRun, 2)).unwrap();
    assert_eq!(on_disk(&path).len(), 2);
}

/// Links, unusual modes and other owners are intentional and are kept.
#[cfg(unix)]
#[test]
fn recording_keeps_links_mode_and_owner() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    let folder = tempfile::tempdir().unwrap();
    let [real, link, second, dangling] =
        ["real.toml", "link.toml", "second.toml", "dangling.toml"].map(|n| folder.path().join(n));
    let record = |path: &Path, n| {
        tuner(Mode::Record(path.into())).0.choose(&key(RunToRun, n)).unwrap();
    };
    record(&real, 1);
    std::fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).unwrap();
    // Processes that may give files away test with another owner; the others cannot.
    let _ = chown(&real, Some(12345), Some(54321));
    let before = std::fs::metadata(&real).unwrap();
    symlink("real.toml", &second).unwrap();
    symlink(&second, &link).unwrap();
    record(&link, 2);
    assert_eq!(on_disk(&real).len(), 2);
    let after = std::fs::metadata(&real).unwrap();
    assert_eq!(after.mode(), before.mode());
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert!(link.is_symlink() && second.is_symlink() && !real.is_symlink());

    // A link to a missing file is followed, too; a cycle is an error.
    symlink("target.toml", &dangling).unwrap();
    record(&dangling, 3);
    assert!(dangling.is_symlink());
    assert_eq!(on_disk(&folder.path().join("target.toml")).len(), 1);
    let circle = folder.path().join("circle.toml");
    symlink("circle.toml", &circle).unwrap();
    let clock = ManualClock::noisy(0);
    let config = config(Mode::Record(circle), &clock);
    let error = Tuner::new(Toy::probe, usual(&clock, &Default::default()), config).unwrap_err();
    assert!(matches!(&error, Error::Write { .. }), "{error}");

    // A link in place of the temporary file is not followed.
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "untouched").unwrap();
    symlink(&victim, folder.path().join("real.toml.tmp")).unwrap();
    record(&real, 4);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
}

/// A process that uses another name of the file waits for the same lock.
#[cfg(unix)]
#[test]
fn a_file_and_a_link_to_it_have_one_lock() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("choices.toml"), folder.path().join("link.toml"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let lock = std::fs::File::create(folder.path().join("choices.toml.lock")).unwrap();
    lock.lock().unwrap();
    for path in [path, link] {
        let clock = ManualClock::noisy(0);
        let lock_timeout = Duration::from_millis(20);
        let config = Config { lock_timeout, ..config(Mode::Record(path), &clock) };
        let error = Tuner::new(Toy::probe, usual(&clock, &Default::default()), config).unwrap_err();
        assert!(matches!(&error, Error::Locked { .. }), "{error}");
    }
}

/// A rename would replace a device by a file, and a pipe has no end.
#[cfg(unix)]
#[test]
fn a_device_a_pipe_and_a_folder_are_refused_and_stay() {
    use std::os::unix::fs::{MetadataExt, symlink};

    use samebits_autotune::{Choice, merge, prune};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let whole = path.join("choices.toml");
    tuner(Mode::Record(whole.clone())).0.choose(&key(RunToRun, 1)).unwrap();
    let made = |program: &str, name: &str, numbers: &[&str]| {
        let made = path.join(name);
        let ended = std::process::Command::new(program).arg(&made).args(numbers).status();
        ended.is_ok_and(|status| status.success()).then_some(made)
    };
    // Use devices of the test's own if it may create them; a process that may not cannot replace
    // the system's, either.
    let null = made("mknod", "null", &["c", "1", "3"]).unwrap_or("/dev/null".into());
    let full = made("mknod", "full", &["c", "1", "7"]).unwrap_or("/dev/full".into());
    let pipe = made("mkfifo", "pipe", &[]).unwrap();
    let [inner, link] = ["folder", "link"].map(|name| path.join(name));
    std::fs::create_dir(&inner).unwrap();
    symlink(&null, &link).unwrap();
    let names = || {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        entries.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    for place in [null, full, pipe, inner, link] {
        let found = || {
            let found = place.metadata().unwrap();
            (found.ino(), found.rdev(), found.mode(), found.uid(), found.gid())
        };
        let was = found();
        let open = |mode| {
            let clock = ManualClock::noisy(0);
            Tuner::new(Toy::probe, usual(&clock, &Default::default()), config(mode, &clock))
                .map(|_| ())
                .unwrap_err()
        };
        let wait = Duration::from_secs(1);
        let all = |_: &ToyKey, _: &Choice| true;
        for error in [
            open(Mode::Record(place.clone())),
            prune(&place, wait, all).unwrap_err(),
            merge::<ToyKey>(&place, std::slice::from_ref(&whole), wait).unwrap_err(),
        ] {
            assert!(matches!(&error, Error::Write { .. }), "{error}");
            let message = format!("{}: cannot take the lock: not a regular file", place.display());
            assert!(error.to_string().starts_with(&message), "{error}");
        }
        let error = open(Mode::pinned(&place));
        assert!(matches!(&error, Error::Read { .. }), "{error}");
        assert!(error.to_string().contains("not a regular file"), "{error}");
        assert_eq!(found(), was, "{}", place.display());
    }
    assert_eq!(names(), before);
}

/// The shell's limit on file sizes simulates a full disk: a write fails halfway, in the system
/// itself and not in a mock.
#[cfg(unix)]
#[test]
fn a_disk_that_fills_up_leaves_the_last_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    let recorder = recorder_of(&path, 1, 1, 30);
    let mut shell = std::process::Command::new("sh");
    // Two blocks of 512 or 1024 bytes, and an error instead of a signal.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$0\" \"$@\""]);
    shell.arg(recorder.get_program()).args(recorder.get_args());
    shell.envs(recorder.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.stdout(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("cannot write the new file"), "{text}");
    assert!(text.contains("nothing was recorded and the file is as it was"), "{text}");
    let said = acknowledged(&output.stdout[..]);
    assert!(!said.is_empty() && said.len() < 29, "{text}");
    assert_eq!(on_disk(&path), said);
}
