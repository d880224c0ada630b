//! The tuner: one decision per key, for any number of threads.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::candidate::{Candidate, Candidates, Numerics, Problem, guarded};
use crate::file::{self, Choice, ChoiceFile, Measured};
use crate::measure::Race;
use crate::{BoxError, Config, Determinism, Error, Key, Missing, Mode, Result, compare};

/// Chooser among candidates, once per key.
///
/// A tuner serves one device. Threads share it: the first that needs a key runs its race and the
/// others wait, so within a process one key always runs one algorithm.
///
/// # Determinism
///
/// At [`Determinism::Portable`] only candidates with the bits of the definition are chosen, so the
/// choice cannot change the result. At [`Determinism::RunToRun`] the choice comes from a file or
/// from the key alone. At [`Determinism::NotGuaranteed`] the fastest is taken.
///
/// # Examples
///
/// See the [crate's documentation](crate).
pub struct Tuner<P: Problem> {
    candidates: Candidates<P>,
    probe: Box<Probe<P>>,
    config: Config,
    file: Mutex<Option<ChoiceFile<P::Key>>>,
    slots: Mutex<Slots<P>>,
    settled: Condvar,
    /// The time that races have taken.
    spent: Mutex<Duration>,
}

type Probe<P> = dyn Fn(&<P as Problem>::Key) -> Result<P, BoxError> + Send + Sync;

enum Slot<P: Problem> {
    /// A thread is deciding; the others wait.
    Open,
    Settled(Arc<Decision<P>>),
}

/// Keys that are decided, or being decided.
struct Slots<P: Problem> {
    of: BTreeMap<P::Key, Slot<P>>,
    /// The settled keys, the latest last.
    order: VecDeque<P::Key>,
}

impl<P: Problem> Slots<P> {
    /// Stores a decision, and forgets the oldest if there are more than `most`.
    fn settle(&mut self, key: &P::Key, decision: Arc<Decision<P>>, most: usize) {
        self.of.insert(key.clone(), Slot::Settled(decision));
        self.order.push_back(key.clone());
        if self.order.len() > most.max(1)
            && let Some(oldest) = self.order.pop_front()
        {
            self.of.remove(&oldest);
        }
    }
}

/// Algorithm that runs a key, and the origin of the choice.
#[derive(Debug)]
pub struct Decision<P: Problem> {
    /// The algorithm.
    pub candidate: Arc<Candidate<P>>,
    /// The origin of the choice.
    pub source: Source,
    /// The measurements of the candidates that raced.
    pub measured: Vec<Measured>,
}

/// Origin of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The written heuristic, from the key alone.
    Heuristic,
    /// The settings.
    Forced,
    /// A race in this process.
    Raced,
    /// The file being recorded.
    Recorded,
    /// A cache.
    Cached,
    /// The pinned file.
    Pinned,
}

/// Result of checking one recorded choice.
#[derive(Debug)]
pub struct Verdict<K: Key> {
    /// The call.
    pub key: K,
    /// The algorithm chosen for it.
    pub algorithm: String,
    /// The line of the algorithm's name.
    pub line: usize,
    /// The finding.
    pub finding: Finding,
}

/// Comparison of a recorded choice with its algorithm's present output.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// The digest is the same, and the promise to the reference is kept.
    Good,
    /// The promise is kept; no digest was recorded because the output may vary.
    GoodWithoutDigest,
    /// The output has another digest than the one recorded.
    OtherDigest {
        /// The digest in the file.
        recorded: String,
        /// The digest now.
        now: String,
    },
    /// The output breaks the algorithm's promise.
    Wrong(String),
    /// The algorithm or the reference failed.
    Failed(BoxError),
}

impl<P: Problem> Tuner<P> {
    /// Creates a tuner over `candidates`. `probe` makes inputs that represent a key, as a function
    /// of the key alone.
    ///
    /// The reference for a key is the canonical candidate with the lowest id that applies to it.
    /// Candidates race on separate threads, and must not ask this tuner for the key of their own
    /// race.
    ///
    /// # Errors
    ///
    /// [`Error::Candidates`] if two share a name or an id, or none is canonical; [`Error::Config`];
    /// the errors of the file as a whole. A choice that cannot be followed is an error for its own
    /// key only; [`stale`](Tuner::stale) lists all of them.
    pub fn new(
        probe: impl Fn(&P::Key) -> Result<P, BoxError> + Send + Sync + 'static,
        mut candidates: Vec<Candidate<P>>,
        config: Config,
    ) -> Result<Tuner<P>> {
        candidates.sort_by_key(Candidate::id);
        for pair in candidates.windows(2) {
            if pair[0].id() == pair[1].id() {
                let message = format!(
                    "{:?} and {:?} have the same id {}; ids break ties and must differ",
                    pair[0].name(),
                    pair[1].name(),
                    pair[0].id()
                );
                return Err(Error::Candidates { message });
            }
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = candidates.iter().find(|c| !names.insert(c.name())) {
            let message = format!(
                "two candidates are named {:?}; a choice file could not tell them apart",
                twice.name()
            );
            return Err(Error::Candidates { message });
        }
        if !candidates.iter().any(|c| c.numerics() == Numerics::Canonical) {
            let message =
                "no candidate is canonical, so there is nothing to compare the others with";
            return Err(Error::Candidates { message: message.to_owned() });
        }
        for name in config.exclude.iter().chain(&config.force) {
            if !candidates.iter().any(|c| c.name() == name) {
                let known = names_of(&candidates);
                let message = format!(
                    "`exclude` or `force` names {name:?}, which is none of the candidates {known}"
                );
                return Err(Error::Config { message });
            }
        }
        if let Some(name) = &config.force
            && (config.mode != Mode::Off || config.exclude.contains(name))
        {
            let message = format!(
                "`force` names {name:?}, which a file or `exclude` may contradict. Use mode `Off` \
                 and do not exclude it"
            );
            return Err(Error::Config { message });
        }
        let file = match &config.mode {
            Mode::Off => None,
            Mode::Cache(folder) => {
                match file::open_cached(folder, &config.fingerprint, cache_wait(&config)) {
                    Ok((file, broken)) => {
                        broken.iter().for_each(ignored);
                        Some(file)
                    }
                    Err(error) => {
                        ignored(&error);
                        None
                    }
                }
            }
            Mode::Record(path) => Some(file::open(path, &config.fingerprint, config.lock_timeout)?),
            Mode::Pinned { path, .. } => {
                let file = ChoiceFile::read(path)?;
                file.check_fingerprint(&config.fingerprint)?;
                Some(file)
            }
        };
        Ok(Tuner {
            candidates: candidates.into_iter().map(Arc::new).collect(),
            probe: Box::new(probe),
            config,
            file: Mutex::new(file),
            slots: Mutex::new(Slots { of: BTreeMap::new(), order: VecDeque::new() }),
            settled: Condvar::new(),
            spent: Mutex::new(Duration::ZERO),
        })
    }

    /// Returns the file's choices that cannot be followed here, each with the error that a call of
    /// its key gets: its algorithm is unknown, excluded, does not apply, or needs too much
    /// workspace.
    pub fn stale(&self) -> Vec<(P::Key, Error)> {
        let file = self.file.lock().clone();
        let choices = file.iter().flat_map(|file| file.choices().map(move |choice| (file, choice)));
        choices
            .filter_map(|(file, (key, choice))| {
                Some((key.clone(), self.usable(file.path(), key, choice).err()?))
            })
            .collect()
    }

    /// Returns the settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the candidates in ascending id.
    pub fn candidates(&self) -> impl ExactSizeIterator<Item = &Candidate<P>> {
        self.candidates.iter().map(|candidate| &**candidate)
    }

    /// Returns the candidates that may be chosen for `key`, in ascending id: they meet its level,
    /// apply to it, need no more than the workspace limit and are not excluded.
    pub fn eligible(&self, key: &P::Key) -> Vec<&Candidate<P>> {
        self.eligible_arcs(key).into_iter().map(|candidate| &**candidate).collect()
    }

    /// Returns the algorithm for `key`. The first call for a key may race the candidates; calls
    /// from other threads wait for it, later calls return at once. A process runs one race at a
    /// time.
    ///
    /// If a race runs out of memory, nothing is recorded. At [`Determinism::RunToRun`] this is an
    /// error; at other levels the heuristic decides for the rest of the process.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`] and the errors of the file; [`Error::NoCandidate`];
    /// [`Error::Reference`], [`Error::Probe`], [`Error::AllDisqualified`], [`Error::OutOfMemory`],
    /// [`Error::Threads`] from a race; [`Error::Write`] and [`Error::Locked`] if the choice cannot
    /// be recorded. After an error nothing is settled, and the next call tries again.
    pub fn choose(&self, key: &P::Key) -> Result<Arc<Decision<P>>> {
        let mut slots = self.slots.lock();
        loop {
            match slots.of.get(key) {
                Some(Slot::Settled(decision)) => return Ok(decision.clone()),
                Some(Slot::Open) => self.settled.wait(&mut slots),
                None => break,
            }
        }
        slots.of.insert(key.clone(), Slot::Open);
        drop(slots);
        // Waiting threads must be released even after a panic.
        let opened = Opened { tuner: self, key };
        let decision = Arc::new(self.decide(key)?);
        self.slots.lock().settle(key, decision.clone(), self.config.remember);
        drop(opened);
        Ok(decision)
    }

    /// Runs `problem` with the algorithm chosen for it at `level`.
    ///
    /// # Errors
    ///
    /// As for [`choose`](Tuner::choose); [`Error::Run`].
    pub fn run(&self, problem: &P, level: Determinism) -> Result<P::Output> {
        let key = problem.key(level);
        let decision = self.choose(&key)?;
        run_candidate(&decision.candidate, problem, &key)
    }

    /// Runs `problem` with the named algorithm, whatever its level, for tests and benchmarks.
    ///
    /// # Errors
    ///
    /// [`Error::Candidates`] if no candidate has that name or it does not apply; [`Error::Run`].
    pub fn run_named(&self, name: &str, problem: &P) -> Result<P::Output> {
        let key = problem.key(Determinism::NotGuaranteed);
        let candidate = self.candidates.iter().find(|c| c.name() == name && c.applies(&key));
        let Some(candidate) = candidate else {
            let message = format!("no candidate named {name:?} applies to {key}");
            return Err(Error::Candidates { message });
        };
        run_candidate(candidate, problem, &key)
    }

    /// Runs every choice of the file again on its probe inputs, and compares the output with the
    /// reference and with the recorded digest. A [`stale`](Tuner::stale) choice counts as failed.
    ///
    /// # Errors
    ///
    /// [`Error::Probe`]. Faults of a candidate are in its verdict.
    pub fn verify(&self) -> Result<Vec<Verdict<P::Key>>> {
        let file = self.file.lock().clone();
        let mut verdicts = Vec::new();
        for (key, choice) in file.iter().flat_map(ChoiceFile::choices) {
            let finding = match self.usable(file_path(&file), key, choice) {
                Err(stale) => Finding::Failed(stale.into()),
                Ok(candidate) => {
                    let problem = self.probe(key)?;
                    guarded(|| self.finding(&candidate, key, choice, &problem))
                        .unwrap_or_else(Finding::Failed)
                }
            };
            verdicts.push(Verdict {
                key: key.clone(),
                algorithm: choice.algorithm.clone(),
                line: choice.line,
                finding,
            });
        }
        Ok(verdicts)
    }

    fn decide(&self, key: &P::Key) -> Result<Decision<P>> {
        if let Some(decision) = self.recorded(key)? {
            return Ok(decision);
        }
        if let Mode::Pinned { path, missing: Missing::Error } = &self.config.mode {
            return Err(Error::NotPinned { path: path.clone(), key: key.to_string() });
        }
        let mut eligible = self.eligible_arcs(key);
        let by_estimate = |a: &&Arc<Candidate<P>>, b: &&Arc<Candidate<P>>| {
            a.estimate(key).total_cmp(&b.estimate(key)).then(a.id().cmp(&b.id()))
        };
        eligible.sort_by(by_estimate);
        let canonical = eligible.iter().position(|c| c.numerics() == Numerics::Canonical);
        if let Some(place) = canonical
            && CLEARLY_BELOW * eligible[place].estimate(key) <= eligible[0].estimate(key)
        {
            eligible[..=place].rotate_right(1);
        }
        let Some(&likely) = eligible.first() else {
            return Err(Error::NoCandidate {
                key: key.to_string(),
                workspace_limit: self.config.workspace_limit,
            });
        };
        let unmeasured = |candidate: &Arc<Candidate<P>>, source| {
            Ok(Decision { candidate: candidate.clone(), source, measured: Vec::new() })
        };
        if let Some(name) = &self.config.force
            && let Some(forced) = eligible.iter().find(|c| c.name() == name)
        {
            return unmeasured(forced, Source::Forced);
        }
        let recording = matches!(self.config.mode, Mode::Record(_));
        let shows = key.level() == Determinism::RunToRun;
        let left = self.config.budget.total.saturating_sub(*self.spent.lock());
        let caching = matches!(self.config.mode, Mode::Cache(_));
        let benchmark = self.config.mode == Mode::Off && self.config.benchmark;
        let may_race = (benchmark || caching) && !shows;
        if !recording && (!may_race || left.is_zero() || eligible.len() == 1) {
            return unmeasured(likely, Source::Heuristic);
        }
        if left.is_zero() {
            // A recorded choice must have been run.
            eligible.truncate(1);
        }
        if self.config.benchmark_limit > 0 {
            eligible.truncate(self.config.benchmark_limit);
        }
        eligible.sort_by_key(|candidate| candidate.id());
        let budget = self.config.budget.key.min(left);
        let choice = match apart(|| self.race(key, &eligible, likely, budget))? {
            // Without a record the next run may choose otherwise. This is an error only if the
            // choice shows.
            Err(error) if !shows && P::missing_memory(&error).is_some() => {
                tracing::warn!(%key, "no race: {error}");
                return unmeasured(likely, Source::Heuristic);
            }
            choice => choice?,
        };
        tracing::debug!(%key, algorithm = choice.algorithm, "tuned");
        if !recording {
            let candidate = self.named(&choice.algorithm).expect("the winner is a candidate");
            let measured = choice.measured.clone();
            if caching {
                self.cache(key, choice);
            }
            return Ok(Decision { candidate, source: Source::Raced, measured });
        }
        let ours = choice.algorithm.clone();
        let mut file = self.file.lock();
        let recorded = file.as_mut().expect("a file was opened to record in");
        file::record(recorded, self.config.lock_timeout, key, choice)?;
        drop(file);
        // Another process may have recorded first; its choice then holds.
        let mut decision = self.recorded(key)?.expect("the key was just recorded");
        if decision.candidate.name() == ours {
            decision.source = Source::Raced;
        }
        Ok(decision)
    }

    /// Stores a choice for later processes. A cache that cannot be written is given up.
    fn cache(&self, key: &P::Key, choice: Choice) {
        let mut cache = self.file.lock();
        let Some(file) = cache.as_mut() else { return };
        if let Err(error) = file::cache(file, cache_wait(&self.config), key, choice) {
            ignored(&error);
            *cache = None;
        }
    }

    /// Returns the decision in the file, if there is a file and it holds one.
    fn recorded(&self, key: &P::Key) -> Result<Option<Decision<P>>> {
        let file = self.file.lock();
        let Some(file) = &*file else { return Ok(None) };
        let Some(choice) = file.get(key) else { return Ok(None) };
        let usable = self.usable(file.path(), key, choice);
        let (candidate, source) = match self.config.mode {
            Mode::Pinned { .. } => (usable?, Source::Pinned),
            // A cache must not decide a choice that changes results.
            Mode::Cache(_) if key.level() == Determinism::RunToRun => return Ok(None),
            Mode::Cache(_) => match usable {
                Ok(candidate) => (candidate, Source::Cached),
                Err(stale) => {
                    tracing::debug!(%key, "raced again: {stale}");
                    return Ok(None);
                }
            },
            _ => (usable?, Source::Recorded),
        };
        Ok(Some(Decision { candidate, source, measured: choice.measured.clone() }))
    }

    /// Returns the candidate named by a file's choice, if it may run that key.
    fn usable(&self, path: &Path, key: &P::Key, choice: &Choice) -> Result<Arc<Candidate<P>>> {
        let (path, line, name) = (path.to_owned(), choice.line, choice.algorithm.clone());
        let Some(candidate) = self.named(&name) else {
            let known = names_of(self.candidates());
            return Err(Error::UnknownAlgorithm { path, line, name, known });
        };
        if self.config.exclude.contains(&name) {
            return Err(Error::Excluded { path, line, name });
        }
        let (has, required) = (candidate.usable_at(), key.level());
        if has < required {
            return Err(Error::LevelTooLow { path, line, name, has, required });
        }
        if !candidate.applies(key) {
            return Err(Error::NotApplicable { path, line, name, key: key.to_string() });
        }
        let (needs, limit) = (candidate.workspace(key), self.config.workspace_limit);
        if needs > limit {
            return Err(Error::WorkspaceTooLarge { path, line, name, needs, limit });
        }
        Ok(candidate)
    }

    fn race(
        &self,
        key: &P::Key,
        eligible: &[&Arc<Candidate<P>>],
        likely: &Candidate<P>,
        budget: Duration,
    ) -> Result<Choice> {
        let problem = self.probe(key)?;
        let candidates: Vec<&Candidate<P>> = eligible.iter().map(|c| &***c).collect();
        let start = self.config.clock.now();
        let race = Race {
            until: start.saturating_add(budget),
            key,
            problem: &problem,
            reference: self.reference(key)?,
            likely,
            measuring: &self.config.measuring,
            clock: &*self.config.clock,
        };
        let raced = race.run(&candidates);
        *self.spent.lock() += self.config.clock.now().saturating_sub(start);
        let (measured, winner) = raced?;
        let winner = candidates[winner];
        let digest = if winner.level() >= Determinism::RunToRun {
            let failed = |source| Error::Run {
                name: winner.name().to_owned(),
                key: key.to_string(),
                source,
            };
            let output = guarded(|| winner.run(&problem)).map_err(failed)?;
            Some(compare::digest(&P::values(&output).map_err(failed)?))
        } else {
            None
        };
        Ok(Choice { algorithm: winner.name().to_owned(), digest, measured, line: 0 })
    }

    fn finding(
        &self,
        candidate: &Candidate<P>,
        key: &P::Key,
        choice: &Choice,
        problem: &P,
    ) -> Result<Finding, BoxError> {
        let reference = self.reference(key)?.run(problem)?;
        let output = candidate.run(problem)?;
        let values = P::values(&output)?;
        let (numerics, magnitude) = (candidate.numerics(), problem.magnitude());
        if let Some(breach) = compare::breach(&P::values(&reference)?, &values, numerics, magnitude)
        {
            return Ok(Finding::Wrong(breach));
        }
        Ok(match &choice.digest {
            None => Finding::GoodWithoutDigest,
            Some(recorded) => {
                let now = compare::digest(&values);
                if *recorded == now {
                    Finding::Good
                } else {
                    Finding::OtherDigest { recorded: recorded.clone(), now }
                }
            }
        })
    }

    fn probe(&self, key: &P::Key) -> Result<P> {
        guarded(|| (self.probe)(key))
            .map_err(|source| Error::Probe { key: key.to_string(), source })
    }

    fn reference(&self, key: &P::Key) -> Result<&Candidate<P>> {
        self.candidates()
            .find(|c| c.numerics() == Numerics::Canonical && c.applies(key))
            .ok_or_else(|| Error::Candidates {
                message: format!(
                    "no canonical candidate applies to {key}; add a reference that does"
                ),
            })
    }

    fn named(&self, name: &str) -> Option<Arc<Candidate<P>>> {
        self.candidates.iter().find(|c| c.name() == name).cloned()
    }

    fn eligible_arcs(&self, key: &P::Key) -> Vec<&Arc<Candidate<P>>> {
        self.candidates
            .iter()
            .filter(|c| !self.config.exclude.contains(c.name()))
            .filter(|c| c.usable_at() >= key.level() && c.applies(key))
            .filter(|c| c.workspace(key) <= self.config.workspace_limit)
            .collect()
    }
}

impl<P: Problem> fmt::Debug for Tuner<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tuner")
            .field("candidates", &self.candidates)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Guard that wakes the threads waiting for a key, and reopens the key unless it was settled.
struct Opened<'a, P: Problem> {
    tuner: &'a Tuner<P>,
    key: &'a P::Key,
}

impl<P: Problem> Drop for Opened<'_, P> {
    fn drop(&mut self) {
        let mut slots = self.tuner.slots.lock();
        if matches!(slots.of.get(self.key), Some(Slot::Open)) {
            slots.of.remove(self.key);
        }
        self.tuner.settled.notify_all();
    }
}

/// Lock for the one race of this process: two concurrent races would disturb each other's times.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// True if this thread belongs to a race. A candidate that is itself tuned races within its
    /// caller's race.
    static RACING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` in a separate thread pool of the size of the caller's, while no other race runs.
///
/// A separate pool prevents a deadlock. The caller may be a worker of a pool whose other workers
/// wait for this race. If the race ran in that pool, a worker in the middle of a part of it could
/// steal another task that waits for the race, and the race would wait for that part forever.
fn apart<R: Send>(f: impl FnOnce() -> R + Send) -> Result<R> {
    let _turn = (!RACING.get()).then(|| TURN.lock());
    let threads = |message: String| Error::Threads { message };
    #[expect(clippy::disallowed_methods, reason = "decides how long a race takes, and no bit")]
    let count = rayon::current_num_threads();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(|i| format!("autotune-{i}"))
        .start_handler(|_| RACING.set(true))
        .build()
        .map_err(|error| threads(error.to_string()))?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("autotune".to_owned())
            .spawn_scoped(scope, || pool.install(f))
            .map_err(|error| threads(error.to_string()))?;
        match thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns the longest wait for the lock of a cache: no longer than a race may take.
fn cache_wait(config: &Config) -> Duration {
    config.lock_timeout.min(Duration::from_secs(1))
}

/// Warns that a cache, or its content, is ignored.
fn ignored(error: &Error) {
    tracing::warn!("the cache of choices is ignored: {error}");
}

fn names_of<'a, P: Problem>(candidates: impl IntoIterator<Item = &'a Candidate<P>>) -> String {
    candidates.into_iter().map(Candidate::name).collect::<Vec<_>>().join(", ")
}

/// Threshold for choosing a non-canonical candidate without a race. Estimates are right to about a
/// factor of two, so its estimate must be below this share of the cheapest canonical one's.
const CLEARLY_BELOW: f64 = 0.75;

fn run_candidate<P: Problem>(
    candidate: &Candidate<P>,
    problem: &P,
    key: &P::Key,
) -> Result<P::Output> {
    candidate.run(problem).map_err(|source| Error::Run {
        name: candidate.name().to_owned(),
        key: key.to_string(),
        source,
    })
}

fn file_path<K: Key>(file: &Option<ChoiceFile<K>>) -> &Path {
    file.as_ref().map_or(Path::new(""), ChoiceFile::path)
}
