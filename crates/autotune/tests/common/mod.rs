//! A toy computation to tune, and a clock that the test controls.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use samebits_autotune::Determinism;
use samebits_autotune::{
    BoxError, Candidate, Clock, Config, Fingerprint, Key, Measuring, Mode, Problem, Tuner, Values,
};
use serde::{Deserialize, Deserializer, Serialize};

/// A computation that doubles `n` numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToyKey {
    #[serde(deserialize_with = "counted")]
    pub(crate) level: Determinism,
    pub(crate) n: usize,
}

thread_local! {
    /// The keys that this thread has read from files.
    pub(crate) static READ: Cell<usize> = const { Cell::new(0) };
}

fn counted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Determinism, D::Error> {
    READ.set(READ.get() + 1);
    Determinism::deserialize(deserializer)
}

impl Key for ToyKey {
    fn level(&self) -> Determinism {
        self.level
    }
}

impl fmt::Display for ToyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "doubling of {} at {}", self.n, self.level)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Toy {
    pub(crate) input: Vec<f32>,
}

impl Toy {
    pub(crate) fn probe(key: &ToyKey) -> Result<Toy, BoxError> {
        Ok(Toy { input: (0..key.n).map(|i| i as f32 + 0.25).collect() })
    }

    pub(crate) fn doubled(&self) -> Vec<f32> {
        self.input.iter().map(|x| 2.0 * x).collect()
    }
}

impl Problem for Toy {
    type Key = ToyKey;
    type Output = Vec<f32>;

    fn key(&self, level: Determinism) -> ToyKey {
        ToyKey { level, n: self.input.len() }
    }

    fn magnitude(&self) -> f64 {
        2.0 * self.input.len() as f64
    }

    fn values(output: &Vec<f32>) -> Result<Values<'_>, BoxError> {
        Ok(Values::of(output))
    }

    fn missing_memory(error: &(dyn std::error::Error + 'static)) -> Option<usize> {
        let own = std::iter::successors(Some(error), |error| error.source())
            .find_map(|error| error.downcast_ref::<ToyShort>());
        own.map(|short| short.bytes).or_else(|| samebits_autotune::missing_memory(error))
    }
}

/// The toy library's error for a shortage of memory.
#[derive(Debug, thiserror::Error)]
#[error("toy: {bytes} bytes are missing")]
pub(crate) struct ToyShort {
    pub(crate) bytes: usize,
}

pub(crate) fn key(level: Determinism, n: usize) -> ToyKey {
    ToyKey { level, n }
}

/// A clock that moves only when a candidate runs.
#[derive(Debug, Default)]
pub(crate) struct ManualClock {
    now: AtomicU64,
    noise: AtomicU64,
    /// The number of calls before the disturbed one, and the factor by which that one seems longer.
    disturbance: Mutex<Option<(usize, u64)>>,
}

impl ManualClock {
    pub(crate) fn noisy(seed: u64) -> Arc<ManualClock> {
        Arc::new(ManualClock { noise: AtomicU64::new(seed), ..ManualClock::default() })
    }

    /// Returns a clock without noise, except that call number `at` takes `factor` times as long.
    pub(crate) fn disturbed(at: usize, factor: u64) -> Arc<ManualClock> {
        let disturbance = Mutex::new(Some((at, factor)));
        Arc::new(ManualClock { disturbance, ..ManualClock::default() })
    }

    /// Lets `ns` pass; with noise, up to four times as many.
    pub(crate) fn pass(&self, ns: u64) {
        let noise = self.noise.load(Ordering::Relaxed);
        let factor = if noise == 0 {
            4
        } else {
            // One step of a multiplicative generator; the high bits are the good ones.
            let next = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            self.noise.store(next, Ordering::Relaxed);
            4 + (next >> 60)
        };
        let mut disturbance = self.disturbance.lock();
        let times = disturbance.map_or(1, |(left, times)| if left == 0 { times } else { 1 });
        *disturbance = disturbance.and_then(|(left, times)| Some((left.checked_sub(1)?, times)));
        self.now.fetch_add(times * ns * factor / 4, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now.load(Ordering::Relaxed))
    }
}

/// The behaviour of a test's candidate beside doubling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Twist {
    /// The bits of the definition.
    None,
    /// One bit wrong in each element, always the same.
    OneBit,
    /// One bit wrong in every other run.
    Flicker,
    /// A wrong first element.
    Wrong,
    /// An error.
    Fail,
}

/// Returns a candidate that takes `cost` ns on `clock` and counts its runs.
pub(crate) fn candidate(
    clock: &Arc<ManualClock>,
    runs: &Arc<AtomicUsize>,
    id: u32,
    name: &'static str,
    level: Determinism,
    twist: Twist,
    cost: u64,
) -> Candidate<Toy> {
    let (clock, runs) = (clock.clone(), runs.clone());
    let own_runs = AtomicUsize::new(0);
    let run = move |toy: &Toy| {
        clock.pass(cost);
        runs.fetch_add(1, Ordering::SeqCst);
        let run = own_runs.fetch_add(1, Ordering::SeqCst);
        let mut out = toy.doubled();
        match twist {
            Twist::None => {}
            Twist::Flicker if run.is_multiple_of(2) => {}
            Twist::OneBit | Twist::Flicker => {
                out.iter_mut().for_each(|x| *x = f32::from_bits(x.to_bits() ^ 1));
            }
            Twist::Wrong => out[0] += 1.0,
            Twist::Fail => return Err("planted".into()),
        }
        Ok(out)
    };
    if level == Determinism::Portable {
        Candidate::canonical(id, name, run)
    } else {
        Candidate::bounded(id, name, level, 1e-6, run)
    }
}

/// Returns the usual four: a slow reference, a faster canonical one, an even faster deterministic
/// one, and the fastest, which is `NotGuaranteed`.
pub(crate) fn usual(clock: &Arc<ManualClock>, runs: &Arc<AtomicUsize>) -> Vec<Candidate<Toy>> {
    use Determinism::*;
    vec![
        candidate(clock, runs, 0, "plain", Portable, Twist::None, 1000),
        candidate(clock, runs, 1, "tiled", Portable, Twist::None, 800)
            .with_estimate(|key| key.n as f64),
        candidate(clock, runs, 2, "skewed", RunToRun, Twist::OneBit, 600)
            .with_workspace(|key| 4 * key.n)
            .with_estimate(|key| key.n as f64 + 50.0),
        candidate(clock, runs, 3, "atomic", NotGuaranteed, Twist::Flicker, 500),
    ]
}

pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::new("toy device", "toy library 1.0")
}

pub(crate) fn config(mode: Mode, clock: &Arc<ManualClock>) -> Config {
    Config {
        mode,
        clock: clock.clone(),
        measuring: Measuring { sample: Duration::ZERO, ..Measuring::default() },
        ..Config::new(fingerprint())
    }
}

/// Returns a tuner of the usual candidates, and the count of their runs.
pub(crate) fn tuner(mode: Mode) -> (Tuner<Toy>, Arc<AtomicUsize>) {
    noisy_tuner(mode, 0)
}

pub(crate) fn noisy_tuner(mode: Mode, seed: u64) -> (Tuner<Toy>, Arc<AtomicUsize>) {
    tuner_of(fingerprint(), mode, seed)
}

pub(crate) fn tuner_of(
    fingerprint: Fingerprint,
    mode: Mode,
    seed: u64,
) -> (Tuner<Toy>, Arc<AtomicUsize>) {
    let clock = ManualClock::noisy(seed);
    let runs = Arc::new(AtomicUsize::new(0));
    let config = Config { fingerprint, ..config(mode, &clock) };
    (Tuner::new(Toy::probe, usual(&clock, &runs), config).unwrap(), runs)
}

/// Returns a command that runs one test of this program in a child process, with `role` in its
/// environment. Without a role, such a test does nothing.
pub(crate) fn child(test: &str, role: &[(&str, &str)]) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.envs(role.iter().copied());
    command
}
