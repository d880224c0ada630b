//! The tuner: one answer per key, however many threads ask.

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

/// Chooses among candidates, once per key.
///
/// A tuner serves one device. Threads share it; the first to ask for a key has it raced and the
/// others wait, so that within a process one key always runs one algorithm.
///
/// # Determinism
///
/// At [`Determinism::Portable`] only candidates with the bits of the definition are chosen, so
/// that the choice cannot show. At [`Determinism::RunToRun`] the choice comes from a file or
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
    /// How long races have taken.
    spent: Mutex<Duration>,
}

type Probe<P> = dyn Fn(&<P as Problem>::Key) -> Result<P, BoxError> + Send + Sync;

enum Slot<P: Problem> {
    /// A thread is finding out; the others wait.
    Open,
    Settled(Arc<Decision<P>>),
}

/// What is known of keys.
struct Slots<P: Problem> {
    of: BTreeMap<P::Key, Slot<P>>,
    /// The keys that are settled, the latest last.
    order: VecDeque<P::Key>,
}

impl<P: Problem> Slots<P> {
    /// Notes a decision, and forgets the oldest if there are more than `most`.
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

/// Which algorithm runs a key, and how that came about.
#[derive(Debug)]
pub struct Decision<P: Problem> {
    /// The algorithm.
    pub candidate: Arc<Candidate<P>>,
    /// How it was chosen.
    pub source: Source,
    /// What is known of the candidates that raced.
    pub measured: Vec<Measured>,
}

/// How an algorithm was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By the written heuristic, from the key alone.
    Heuristic,
    /// By the settings.
    Forced,
    /// By a race in this process.
    Raced,
    /// By the file that is being recorded.
    Recorded,
    /// By a cache.
    Cached,
    /// By the pinned file.
    Pinned,
}

/// What a check of one recorded choice found.
#[derive(Debug)]
pub struct Verdict<K: Key> {
    /// The call.
    pub key: K,
    /// The algorithm chosen for it.
    pub algorithm: String,
    /// The line of its name.
    pub line: usize,
    /// The finding.
    pub finding: Finding,
}

/// Whether a recorded choice still gives what was recorded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// The same digest, and the promise to the reference is kept.
    Good,
    /// The promise is kept; no digest was recorded because the output may vary.
    GoodWithoutDigest,
    /// The output has another digest than the one recorded.
    OtherDigest {
        /// In the file.
        recorded: String,
        /// Now.
        now: String,
    },
    /// The output is not what the algorithm promises.
    Wrong(String),
    /// The algorithm or the reference failed.
    Failed(BoxError),
}

impl<P: Problem> Tuner<P> {
    /// A tuner over `candidates`. `probe` makes the inputs that stand for a key, as a function of
    /// the key alone.
    ///
    /// The reference for a key is the canonical candidate with the lowest id that applies to it.
    /// Candidates run on threads of their own while they race, and must not ask this tuner for
    /// the key that they are being raced for.
    ///
    /// # Errors
    ///
    /// [`Error::Candidates`] if two share a name or an id, or none is canonical; [`Error::Config`];
    /// what is wrong with the file as a whole. A choice of it that cannot be followed is an error of
    /// its own key; [`stale`](Tuner::stale) finds them all.
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

    /// The choices of the file that cannot be followed here, each with the error that a call of its
    /// key gets: its algorithm is unknown, excluded, does not apply, or needs too much.
    pub fn stale(&self) -> Vec<(P::Key, Error)> {
        let file = self.file.lock().clone();
        let choices = file.iter().flat_map(|file| file.choices().map(move |choice| (file, choice)));
        choices
            .filter_map(|(file, (key, choice))| {
                Some((key.clone(), self.usable(file.path(), key, choice).err()?))
            })
            .collect()
    }

    /// What the tuner may do.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The candidates in ascending id.
    pub fn candidates(&self) -> impl ExactSizeIterator<Item = &Candidate<P>> {
        self.candidates.iter().map(|candidate| &**candidate)
    }

    /// The candidates that may be chosen for `key`, in ascending id: those that meet its level,
    /// apply to it, need no more than the workspace limit and are not excluded.
    pub fn eligible(&self, key: &P::Key) -> Vec<&Candidate<P>> {
        self.eligible_arcs(key).into_iter().map(|candidate| &**candidate).collect()
    }

    /// The algorithm for `key`. The first call for a key may race the candidates; calls from
    /// other threads wait for it, later ones return at once. A process runs one race at a time.
    ///
    /// If a race runs out of memory, nothing is recorded. At [`Determinism::RunToRun`] that is an
    /// error; at other levels the heuristic decides for the rest of the process.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`] and what is wrong with a file; [`Error::NoCandidate`];
    /// [`Error::Reference`], [`Error::Probe`], [`Error::AllDisqualified`], [`Error::OutOfMemory`],
    /// [`Error::Threads`] from a race; [`Error::Write`] and [`Error::Locked`] if the choice cannot be recorded. After an
    /// error nothing is settled, and the next call tries again.
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
        // Whatever happens next, a panic included, the others must not wait for ever.
        let opened = Opened { tuner: self, key };
        let decision = Arc::new(self.decide(key)?);
        self.slots.lock().settle(key, decision.clone(), self.config.remember);
        drop(opened);
        Ok(decision)
    }

    /// Runs `problem` with the algorithm for it at `level`.
    ///
    /// # Errors
    ///
    /// As [`choose`](Tuner::choose); [`Error::Run`].
    pub fn run(&self, problem: &P, level: Determinism) -> Result<P::Output> {
        let key = problem.key(level);
        let decision = self.choose(&key)?;
        run_candidate(&decision.candidate, problem, &key)
    }

    /// Runs `problem` with the named algorithm, whatever its level: for tests and benchmarks.
    ///
    /// # Errors
    ///
    /// [`Error::Candidates`] if there is none of that name or it does not apply; [`Error::Run`].
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
    /// reference and with the recorded digest. A choice that is [`stale`](Tuner::stale) has failed.
    ///
    /// # Errors
    ///
    /// [`Error::Probe`]. What a candidate does wrong is in the verdict.
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
            // What is recorded has been run.
            eligible.truncate(1);
        }
        if self.config.benchmark_limit > 0 {
            eligible.truncate(self.config.benchmark_limit);
        }
        eligible.sort_by_key(|candidate| candidate.id());
        let budget = self.config.budget.key.min(left);
        let choice = match apart(|| self.race(key, &eligible, likely, budget))? {
            // Without a record the next run may choose otherwise, which shows at this level only.
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
        // Another process may have been first; then its choice holds.
        let mut decision = self.recorded(key)?.expect("the key was just recorded");
        if decision.candidate.name() == ours {
            decision.source = Source::Raced;
        }
        Ok(decision)
    }

    /// Keeps a choice for later processes. A cache that cannot be written is given up.
    fn cache(&self, key: &P::Key, choice: Choice) {
        let mut cache = self.file.lock();
        let Some(file) = cache.as_mut() else { return };
        if let Err(error) = file::cache(file, cache_wait(&self.config), key, choice) {
            ignored(&error);
            *cache = None;
        }
    }

    /// The decision that the file holds, if there is a file and it holds one.
    fn recorded(&self, key: &P::Key) -> Result<Option<Decision<P>>> {
        let file = self.file.lock();
        let Some(file) = &*file else { return Ok(None) };
        let Some(choice) = file.get(key) else { return Ok(None) };
        let usable = self.usable(file.path(), key, choice);
        let (candidate, source) = match self.config.mode {
            Mode::Pinned { .. } => (usable?, Source::Pinned),
            // A choice that shows is not left to whatever a cache happens to hold.
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

    /// The candidate that a file's choice names, if it may run that key.
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

/// Wakes the threads that wait for a key, and takes back the mark that someone is at it unless it
/// was settled.
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

/// Held by the one race of this process: two at once would time each other.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether this thread belongs to a race. A candidate that is tuned itself has its race within
    /// that of its caller.
    static RACING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` in a thread pool of its own, as large as the caller's, while no other race runs.
///
/// The caller may be a worker of a pool whose other workers wait for this very race. If the race
/// ran in that pool, one of them might be in the middle of a part of the race, have taken up
/// another task meanwhile and wait in it: for ever, since the race needs that part.
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

/// How long to wait for the lock of a cache: no longer than a race may take.
fn cache_wait(config: &Config) -> Duration {
    config.lock_timeout.min(Duration::from_secs(1))
}

/// Says that a cache, or what it holds, is left out of account.
fn ignored(error: &Error) {
    tracing::warn!("the cache of choices is ignored: {error}");
}

fn names_of<'a, P: Problem>(candidates: impl IntoIterator<Item = &'a Candidate<P>>) -> String {
    candidates.into_iter().map(Candidate::name).collect::<Vec<_>>().join(", ")
}

/// An estimate is right to a factor or so: of candidates that are not canonical, one must be estimated
/// below this part of the likeliest canonical one's cost to be taken without a race.
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
