//! The example on the first screen of the README does what the README says.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use samebits::io::Checkpoint;

#[allow(clippy::print_stdout, reason = "a program that reports to its user")]
mod example {
    include!("example.rs");

    pub(super) fn run() {
        main().unwrap();
    }
}

/// The variable set in the process that runs the example.
const RUN: &str = "SAMEBITS_TEST_RUNS_EXAMPLE";

/// Runs in a child process that the other tests start, in the folder of the table.
#[test]
fn child() {
    if std::env::var_os(RUN).is_some() {
        example::run();
    }
}

fn start(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(RUN, "1").current_dir(folder);
    command
}

/// Writes a table of three kinds of flowers that differ in all four columns.
fn folder_with_table() -> tempfile::TempDir {
    let mut text = "a,b,c,d,kind\n".to_owned();
    for row in 0..150u32 {
        let kind = row % 3;
        let value =
            |column: u32| (kind * (column + 1)) as f32 + (row * 7 % (11 + column)) as f32 / 20.0;
        let [a, b, c, d] = [0, 1, 2, 3].map(value);
        text.push_str(&format!("{a},{b},{c},{d},{kind}\n"));
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flowers.csv"), text).unwrap();
    folder
}

/// Returns the line that the example prints.
fn finished(folder: &Path) -> String {
    let output = start(folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text.lines().find_map(|line| line.find("accuracy").map(|at| line[at..].to_owned())).unwrap()
}

/// Returns the number of epochs in the checkpoint.
fn epochs(folder: &Path) -> usize {
    let path = folder.join("run.safetensors");
    let found = Checkpoint::<serde_json::Value>::load(path).unwrap();
    found.state["metrics"].as_array().unwrap().len()
}

/// Returns a folder in which the example was killed between its first and its last epoch.
fn killed() -> tempfile::TempDir {
    // The process may end before the signal arrives.
    for _ in 0..100 {
        let folder = folder_with_table();
        let mut child = start(folder.path()).stdout(Stdio::null()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() && !folder.path().join("run.safetensors").exists()
        {
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if epochs(folder.path()) < 20 {
            return folder;
        }
    }
    panic!("the example was never interrupted");
}

#[test]
fn the_example_is_this_one_and_short() {
    let example = include_str!("example.rs");
    let readme = include_str!("../../../../README.md");
    assert!(readme.contains(&format!("\n```rust,no_run\n{example}```\n")));
    assert!(example.lines().count() <= 30);
}

#[test]
fn a_killed_run_ends_in_the_digest_of_a_whole_one() {
    let folder = folder_with_table();
    let line = finished(folder.path());
    assert_eq!(epochs(folder.path()), 20);
    let (accuracy, digest) = line.split_once(", weights ").unwrap();
    let accuracy: f32 = accuracy.strip_prefix("accuracy ").unwrap().parse().unwrap();
    assert!(accuracy > 0.9, "{line}");
    assert_eq!(digest.len(), 64);
    assert_eq!(finished(killed().path()), line, "resumed");
    // The digest covers the data, too.
    let other = folder_with_table();
    let path = other.path().join("flowers.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("0.3", "0.4")).unwrap();
    assert_ne!(finished(other.path()), line);
}
