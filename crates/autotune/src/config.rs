//! Settings of a tuner, and the machine it runs on.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use samebits_numerics::simd;
use sha2::{Digest as _, Sha256};

use crate::compare::hex;
use crate::{Clock, SystemClock};

/// Storage of the choices made by races.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Choices last as long as the process. At [`RunToRun`](crate::Determinism::RunToRun) the
    /// written heuristic decides without a race, since the next run might choose another algorithm.
    #[default]
    Off,
    /// Choices are kept in a file in this folder, one for each device and library, and later
    /// processes read them without a race. The cache serves only choices that decide no promised
    /// bit: at [`RunToRun`](crate::Determinism::RunToRun) the written heuristic decides, as in mode
    /// `Off`.
    ///
    /// A cache never stops a run. A file that is damaged, foreign, locked or not writable is
    /// ignored with one warning; a choice that no longer fits is raced again.
    Cache(PathBuf),
    /// Choices are added to this file; the choices it already holds are not raced again.
    Record(PathBuf),
    /// This file decides and is only read.
    Pinned {
        /// The file.
        path: PathBuf,
        /// The response to a call without a choice in the file.
        missing: Missing,
    },
}

impl Mode {
    /// Creates the mode in which a file decides every call; a call without a choice in the file is
    /// an error.
    #[must_use]
    pub fn pinned(path: impl Into<PathBuf>) -> Mode {
        Mode::Pinned { path: path.into(), missing: Missing::Error }
    }
}

/// Response to a call without a choice in the pinned file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The call returns [`Error::NotPinned`](crate::Error::NotPinned).
    #[default]
    Error,
    /// The written heuristic decides. It is a function of the key alone, so the next run repeats
    /// it.
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

/// Settings of a tuner.
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
    /// Storage of choices.
    pub mode: Mode,
    /// True if candidates race in mode [`Off`](Mode::Off). If false, the written heuristic decides,
    /// from the key alone.
    pub benchmark: bool,
    /// The largest number of candidates in a race, lowest estimates first; 0 is no limit.
    pub benchmark_limit: usize,
    /// The limit on the bytes that a chosen algorithm may need besides inputs and output. It is a
    /// fixed number, not the memory currently free, so memory in use cannot change a choice.
    pub workspace_limit: usize,
    /// Timing of candidates.
    pub measuring: Measuring,
    /// Time limits of races.
    pub budget: Budget,
    /// Names of candidates that are never chosen.
    pub exclude: BTreeSet<String>,
    /// Name of a candidate that runs every call it supports, without a race. It cannot be combined
    /// with a choice file.
    pub force: Option<String>,
    /// The number of keys whose decisions are kept in memory, the latest ones; at least one is.
    pub remember: usize,
    /// The device and library for which choices are valid.
    pub fingerprint: Fingerprint,
    /// The longest wait for another process that holds the file's lock.
    pub lock_timeout: Duration,
    /// The clock that times the races.
    pub clock: Arc<dyn Clock>,
}

impl Config {
    /// Creates the default settings: races on, nothing recorded, no limit on candidates and time, 1
    /// GiB of workspace, 65 536 keys kept.
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

/// Time limits of races, by the tuner's clock.
///
/// A race that has used up its time starts no further candidate and no further round: the fastest
/// timed candidate wins, if it has beaten the heuristic's choice. Once all races together have used
/// up the total, the heuristic decides, and its choice is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Limit on the race for one key.
    pub key: Duration,
    /// Limit on all races of a tuner.
    pub total: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { key: Duration::MAX, total: Duration::MAX }
    }
}

/// Parameters of the timing of candidates.
///
/// Each candidate first runs twice untimed, which warms it up and checks its result. Then each
/// round times every candidate once, so a disturbance affects all alike. A candidate's time is the
/// median over the rounds. A winner other than the heuristic's choice must beat that choice once
/// more, in rounds of the two alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Measuring {
    /// The number of rounds; at least one is run.
    pub rounds: usize,
    /// The duration of a sample; the call is repeated until about this time.
    pub sample: Duration,
    /// The tie band: candidates whose median is within this share of the best are tied, and the
    /// lowest id wins.
    pub band: f64,
    /// The drop-out factor: a candidate that takes this many times as long as the fastest, in the
    /// check and again in the first round, leaves the race.
    pub give_up: f64,
}

impl Default for Measuring {
    fn default() -> Measuring {
        Measuring { rounds: 5, sample: Duration::from_micros(500), band: 0.05, give_up: 3.0 }
    }
}

/// Scope of a choice: a device and the library that runs on it.
///
/// One tuner, and therefore one file, serves one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The device: for a GPU its name, compute capability and driver.
    pub device: String,
    /// The library of the candidates, with its version.
    pub library: String,
}

impl Fingerprint {
    /// Creates a fingerprint of any device.
    pub fn new(device: impl Into<String>, library: impl Into<String>) -> Fingerprint {
        Fingerprint { device: device.into(), library: library.into() }
    }

    /// Creates the fingerprint of this machine's processor: architecture, system, instruction set
    /// and, if the system provides it, model name.
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

/// Digests a library's code for a [`Fingerprint`], for example kernels loaded at run time, so that
/// choices recorded with other kernels are recognised.
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
