//! What a tuner may do, and on what machine it does it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use samebits_numerics::simd;
use sha2::{Digest as _, Sha256};

use crate::compare::hex;
use crate::{Clock, SystemClock};

/// What happens with choices that a race has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They last as long as the process. At [`RunToRun`](crate::Determinism::RunToRun)
    /// there is no race then, since the next run might choose another algorithm: the written
    /// heuristic decides.
    #[default]
    Off,
    /// They are kept in a file of this folder, one for each device and library, and later processes take
    /// them from it without a race. Only where the choice decides no promised bit: at
    /// [`RunToRun`](crate::Determinism::RunToRun) the written heuristic decides, as in mode `Off`.
    ///
    /// A cache is never in the way. A file that is damaged, foreign, locked or cannot be written is
    /// left out of account with one warning; a choice that no longer fits is raced again.
    Cache(PathBuf),
    /// They are added to this file, and what the file already holds is not raced again.
    Record(PathBuf),
    /// This file decides and is only read.
    Pinned {
        /// The file.
        path: PathBuf,
        /// What runs a call that it does not hold.
        missing: Missing,
    },
}

impl Mode {
    /// A file that decides every call: one that it does not hold is an error.
    #[must_use]
    pub fn pinned(path: impl Into<PathBuf>) -> Mode {
        Mode::Pinned { path: path.into(), missing: Missing::Error }
    }
}

/// What runs a call that the pinned file does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Nothing: the call is an [`Error::NotPinned`](crate::Error::NotPinned).
    #[default]
    Error,
    /// What the written heuristic says. That is a function of the key alone, so the next run
    /// repeats it.
    Heuristic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Off => f.write_str("kept for this process only"),
            Mode::Cache(folder) => write!(f, "cached in {}", folder.display()),
            Mode::Record(path) => write!(f, "recorded in {}", path.display()),
            Mode::Pinned { path, missing: Missing::Error } => {
                write!(f, "pinned by {}", path.display())
            }
            Mode::Pinned { path, missing: Missing::Heuristic } => {
                write!(f, "pinned by {}, else by the heuristic", path.display())
            }
        }
    }
}

/// What a tuner may do.
///
/// # Examples
///
/// ```
/// use samebits_autotune::{Config, Fingerprint, Mode};
///
/// let config = Config {
///     mode: Mode::Record("choices.toml".into()),
///     workspace_limit: 64 << 20,
///     ..Config::new(Fingerprint::host("my-kernels 1.2.0"))
/// };
/// assert!(config.benchmark);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// What happens with choices.
    pub mode: Mode,
    /// Whether candidates race in mode [`Off`](Mode::Off). Without, the written heuristic decides,
    /// from the key alone.
    pub benchmark: bool,
    /// The most candidates in a race, those with the lowest estimates; 0 is no limit.
    pub benchmark_limit: usize,
    /// The most bytes that a chosen algorithm may need beside inputs and output. It is a fixed
    /// number and not what happens to be free, so that memory in use cannot change a choice.
    pub workspace_limit: usize,
    /// How candidates are timed.
    pub measuring: Measuring,
    /// How long races may take.
    pub budget: Budget,
    /// Names of candidates that are never chosen.
    pub exclude: BTreeSet<String>,
    /// The name of a candidate that runs every call that it may run, without a race. It cannot go
    /// with a file, which decides otherwise.
    pub force: Option<String>,
    /// The most keys whose decisions are remembered, the latest ones; at least one is.
    pub remember: usize,
    /// Where choices are valid.
    pub fingerprint: Fingerprint,
    /// How long to wait for another process that holds the file's lock.
    pub lock_timeout: Duration,
    /// What times are read from.
    pub clock: Arc<dyn Clock>,
}

impl Config {
    /// Races on, nothing recorded, no limit on candidates and time, 1 GiB of workspace, 65 536
    /// keys remembered.
    #[must_use]
    pub fn new(fingerprint: Fingerprint) -> Config {
        Config {
            mode: Mode::Off,
            benchmark: true,
            benchmark_limit: 0,
            workspace_limit: 1 << 30,
            measuring: Measuring::default(),
            budget: Budget::default(),
            exclude: BTreeSet::new(),
            force: None,
            remember: 1 << 16,
            fingerprint,
            lock_timeout: Duration::from_secs(30),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// How long races may take, by the tuner's clock.
///
/// A race that has used up its time starts no further candidate and no further round: the fastest of
/// those that were timed wins, if it has beaten the heuristic's choice. Once all races together have
/// used up theirs, the heuristic decides; what is being recorded holds its choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The race for one key.
    pub key: Duration,
    /// All races of a tuner.
    pub total: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { key: Duration::MAX, total: Duration::MAX }
    }
}

/// How candidates are timed.
///
/// Each candidate first runs twice untimed, which warms it up and shows whether it is right. Then
/// come the rounds: in each, every candidate is timed once, so that a disturbance hits all of them
/// alike. Its time is the median over the rounds. A winner that is not the heuristic's choice has
/// to beat that choice once more, in rounds of the two alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Measuring {
    /// Number of rounds; at least one is run.
    pub rounds: usize,
    /// A sample repeats the call until it lasts about this long.
    pub sample: Duration,
    /// Candidates whose median is within this share of the best one are tied, and the lowest
    /// id wins.
    pub band: f64,
    /// A candidate that takes this many times as long as the fastest, in the check and again in the
    /// first round, is out of the race.
    pub give_up: f64,
}

impl Default for Measuring {
    fn default() -> Measuring {
        Measuring { rounds: 5, sample: Duration::from_micros(500), band: 0.05, give_up: 3.0 }
    }
}

/// Where a choice is valid: a device and the library that runs on it.
///
/// One tuner, and so one file, serves one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The device: for a GPU its name, compute capability and driver.
    pub device: String,
    /// The library of the candidates, with its version.
    pub library: String,
}

impl Fingerprint {
    /// A fingerprint of any device.
    pub fn new(device: impl Into<String>, library: impl Into<String>) -> Fingerprint {
        Fingerprint { device: device.into(), library: library.into() }
    }

    /// The fingerprint of this machine's processor: architecture, system, instruction set and,
    /// where the system tells, model name.
    pub fn host(library: impl Into<String>) -> Fingerprint {
        let mut device = format!(
            "{} {} {}",
            std::env::consts::ARCH,
            std::env::consts::OS,
            simd::supported().name()
        );
        if let Some(model) = processor_model() {
            device.push_str(", ");
            device.push_str(&model);
        }
        Fingerprint::new(device, library)
    }
}

/// A digest of a library's code, short enough for a [`Fingerprint`]: of kernels that are loaded at
/// run time, say, so that choices recorded with others are told apart.
///
/// # Examples
///
/// ```
/// assert_eq!(samebits_autotune::code_digest(["a", "b"]), "sha256:fb8e20fc2e4c3f24");
/// ```
pub fn code_digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    parts.into_iter().for_each(|part| hash.update(part));
    format!("sha256:{}", hex(&hash.finalize()[..8]))
}

fn processor_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    let name = line.split_once(':')?.1.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
