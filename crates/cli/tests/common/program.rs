//! The program, run in a folder of its own.

#![allow(clippy::print_stderr, reason = "a test says what it could not do")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::process::{Command, Output};

/// The variable that sets the schedule of an emulated device.
pub const SCHEDULE: &str = "SAMEBITS_EMULATOR_SCHEDULE";

/// A folder to run a task of the program in.
pub struct Run {
    task: &'static str,
    folder: tempfile::TempDir,
}

impl Run {
    pub fn new(task: &'static str) -> Run {
        Run { task, folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub fn output(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
        self.output_of(self.task, environment, arguments)
    }

    pub fn output_of(
        &self,
        task: &str,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Output {
        Command::new(env!("CARGO_BIN_EXE_samebits"))
            .current_dir(self.folder.path())
            .env_remove("SAMEBITS_SIMD")
            .env_remove("RAYON_NUM_THREADS")
            .envs(environment.iter().copied())
            .arg(task)
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Returns the digest that a run prints.
    #[track_caller]
    pub fn digest(&self, environment: &[(&str, &str)], arguments: &[&str]) -> String {
        let output = self.output(environment, arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        let problem = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{text}{problem}");
        let row =
            |line: &&str| line.starts_with("1   ") || line.starts_with("digest of the weights");
        let row = text.lines().find(row).expect(&text);
        row.split_whitespace().last().unwrap().to_owned()
    }

    /// Returns the exit status and the message of a run that must fail.
    #[track_caller]
    pub fn refusal(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.output(&[], arguments);
        assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    pub fn files(&self) -> Vec<String> {
        let mut files: Vec<String> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        files
    }
}

/// Returns true if a run has ended because there is no GPU, not even an emulated one, and says so.
#[track_caller]
pub fn has_no_gpu(output: &Output) -> bool {
    let problem = String::from_utf8_lossy(&output.stderr);
    if problem.contains("no driver library") || problem.contains("the driver sees 0 devices") {
        eprintln!("returning early: {problem}");
        return true;
    }
    assert!(output.status.success(), "{problem}");
    false
}
