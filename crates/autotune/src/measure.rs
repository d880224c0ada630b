//! The race: correctness first, then speed.

use std::ops::Range;
use std::time::Duration;

use crate::candidate::{Candidate, Problem, guarded};
use crate::file::{Measured, Outcome};
use crate::{BoxError, Clock, Determinism, Error, Measuring, Result, compare};

/// Inputs of a race.
pub(crate) struct Race<'a, P: Problem> {
    pub(crate) key: &'a P::Key,
    pub(crate) problem: &'a P,
    pub(crate) reference: &'a Candidate<P>,
    /// The heuristic's choice.
    pub(crate) likely: &'a Candidate<P>,
    pub(crate) measuring: &'a Measuring,
    pub(crate) clock: &'a dyn Clock,
    /// The time after which no further candidate and no further round begins.
    pub(crate) until: Duration,
}

/// One candidate's progress.
struct Runner<'a, P: Problem> {
    candidate: &'a Candidate<P>,
    /// The number of calls per sample.
    calls: u32,
    samples: Vec<Duration>,
    disqualified: Option<String>,
    gave_up: bool,
}

impl<P: Problem> Race<'_, P> {
    /// Checks and times the candidates, which must be in ascending id. Returns each candidate's
    /// measurements and the index of the winner.
    ///
    /// Running out of memory is an error: otherwise free memory would decide the race.
    pub(crate) fn run(&self, candidates: &[&Candidate<P>]) -> Result<(Vec<Measured>, usize)> {
        let mut runners = self.check(candidates)?;
        self.time(&mut runners)?;
        let winner = match self.winner(&runners) {
            Some(winner) => Some(self.last_heat(&mut runners, winner)?),
            None => None,
        };
        let winner = winner.ok_or_else(|| {
            let reasons: Vec<String> = runners
                .iter()
                .filter_map(|r| {
                    Some(format!("{}: {}", r.candidate.name(), r.disqualified.as_ref()?))
                })
                .collect();
            Error::AllDisqualified { key: self.key.to_string(), reasons: reasons.join("; ") }
        })?;
        let measured = runners
            .iter()
            .filter(|runner| runner.disqualified.is_some() || !runner.samples.is_empty())
            .map(|runner| Measured {
                name: runner.candidate.name().to_owned(),
                workspace: runner.candidate.workspace(self.key),
                outcome: match &runner.disqualified {
                    Some(reason) => Outcome::Disqualified(reason.clone()),
                    None => Outcome::Time(median(&runner.samples)),
                },
            })
            .collect();
        Ok((measured, winner))
    }

    /// Runs each candidate twice. This warms it up, checks its result and the repetition of its
    /// bits, and gives a first estimate of its time.
    fn check<'a>(&self, candidates: &[&'a Candidate<P>]) -> Result<Vec<Runner<'a, P>>> {
        let reference_failed = |source| Error::Reference {
            name: self.reference.name().to_owned(),
            key: self.key.to_string(),
            source,
        };
        let reference = guarded(|| self.reference.run(self.problem)).map_err(reference_failed)?;
        let reference = P::values(&reference).map_err(reference_failed)?;
        let magnitude = self.problem.magnitude();
        // Always check the heuristic's choice, and first, however little time there is.
        let is_likely = |candidate: &Candidate<P>| candidate.id() == self.likely.id();
        let mut order = candidates.to_vec();
        order.sort_by_key(|candidate| !is_likely(candidate));
        let runners = order.into_iter().map(|candidate| {
            if self.is_over() && !is_likely(candidate) {
                return Ok(Runner {
                    candidate,
                    calls: 1,
                    samples: Vec::new(),
                    disqualified: None,
                    gave_up: true,
                });
            }
            let mut took = Duration::ZERO;
            let verdict = guarded(|| {
                let first = candidate.run(self.problem)?;
                let start = self.clock.now();
                let second = candidate.run(self.problem)?;
                took = self.clock.now().saturating_sub(start);
                let (first, second) = (P::values(&first)?, P::values(&second)?);
                let numerics = candidate.numerics();
                let breach = compare::breach(&reference, &first, numerics, magnitude)
                    .or_else(|| compare::breach(&reference, &second, numerics, magnitude));
                let repeats = candidate.level() < Determinism::RunToRun
                    || compare::same_bits(&first, &second);
                Ok(breach.or_else(|| (!repeats).then(|| "two runs gave different bits".to_owned())))
            });
            let calls = self.measuring.sample.as_nanos() / took.as_nanos().max(1);
            let mut runner = Runner {
                candidate,
                calls: calls.clamp(1, 1000) as u32,
                samples: vec![took],
                disqualified: None,
                gave_up: false,
            };
            match verdict {
                Ok(None) => {}
                Ok(Some(breach)) => self.disqualify(&mut runner, breach),
                Err(error) => self.fail(&mut runner, error)?,
            }
            Ok(runner)
        });
        let mut runners: Vec<Runner<'_, P>> = runners.collect::<Result<_>>()?;
        runners.sort_by_key(|runner| runner.candidate.id());
        Ok(runners)
    }

    /// Returns true if the time is used up.
    fn is_over(&self) -> bool {
        self.clock.now() >= self.until
    }

    /// Disqualifies a candidate that failed, unless memory was short, which says nothing about it.
    fn fail(&self, runner: &mut Runner<'_, P>, source: BoxError) -> Result<()> {
        if P::missing_memory(&*source).is_some() {
            let name = runner.candidate.name().to_owned();
            return Err(Error::OutOfMemory { name, key: self.key.to_string(), source });
        }
        self.disqualify(runner, format!("failed: {source}"));
        Ok(())
    }

    fn disqualify(&self, runner: &mut Runner<'_, P>, reason: String) {
        let (candidate, key) = (runner.candidate.name(), self.key);
        tracing::warn!(candidate, %key, "disqualified: {reason}");
        runner.disqualified = Some(reason);
    }

    /// Times the remaining candidates, round by round.
    fn time(&self, runners: &mut [Runner<'_, P>]) -> Result<()> {
        let all: Vec<usize> = (0..runners.len()).collect();
        self.rounds(runners, &all, 0..1)?;
        self.give_up(runners);
        self.rounds(runners, &all, 1..self.measuring.rounds)
    }

    /// Drops candidates that were far too slow in the check and again in the first round, each time
    /// relative to the fastest: a single sample, even the fastest one's, may be disturbed.
    fn give_up(&self, runners: &mut [Runner<'_, P>]) {
        let timed =
            |runner: &&Runner<'_, P>| runner.disqualified.is_none() && runner.samples.len() > 1;
        let [check, first] = [0, 1].map(|at| {
            let fastest = runners.iter().filter(timed).map(|r| r.samples[at]).min();
            fastest.unwrap_or_default().as_secs_f64() * self.measuring.give_up
        });
        for runner in runners.iter_mut().filter(|runner| timed(&&**runner)) {
            let slow = |at: usize, limit: f64| runner.samples[at].as_secs_f64() > limit;
            runner.gave_up = slow(0, check) && slow(1, first);
            if !runner.gave_up {
                // The check was a single call.
                runner.samples.remove(0);
            }
        }
    }

    /// Times the given candidates, round by round.
    fn rounds(
        &self,
        runners: &mut [Runner<'_, P>],
        which: &[usize],
        rounds: Range<usize>,
    ) -> Result<()> {
        for round in rounds {
            for at in 0..which.len() {
                // Every second round runs backwards, so that no candidate always follows the same
                // one.
                let at = if round % 2 == 0 { at } else { which.len() - 1 - at };
                if self.is_over() {
                    return Ok(());
                }
                let runner = &mut runners[which[at]];
                if runner.disqualified.is_some() || runner.gave_up {
                    continue;
                }
                let start = self.clock.now();
                let done = guarded(|| {
                    (0..runner.calls).try_for_each(|_| runner.candidate.run(self.problem).map(drop))
                });
                let took = self.clock.now().saturating_sub(start);
                match done {
                    Ok(()) => runner.samples.push(took / runner.calls),
                    Err(error) => self.fail(runner, error)?,
                }
            }
        }
        Ok(())
    }

    /// Times the winner against the heuristic's choice once more, even if the latter dropped out. A
    /// disturbance can easily put a wrong candidate first among many, but hardly first of two in a
    /// second timing.
    fn last_heat(&self, runners: &mut [Runner<'_, P>], winner: usize) -> Result<usize> {
        let id = self.likely.id();
        let likely = runners.iter().position(|runner| runner.candidate.id() == id);
        let Some(likely) = likely.filter(|&likely| likely != winner) else { return Ok(winner) };
        runners[likely].gave_up = false;
        let before = [winner, likely].map(|at| runners[at].samples.len());
        self.rounds(runners, &[winner, likely], 0..self.measuring.rounds.max(1))?;
        let [new, old] = [(winner, before[0]), (likely, before[1])].map(|(at, before)| {
            let runner = &runners[at];
            let fit = runner.disqualified.is_none();
            fit.then(|| median(&runner.samples[before..]).as_secs_f64())
        });
        Ok(match (new, old) {
            (Some(new), Some(old)) if new * (1.0 + self.measuring.band.max(0.0)) > old => likely,
            (None, Some(_)) => likely,
            _ => winner,
        })
    }

    /// Returns the lowest id among the candidates within the tie band of the fastest.
    fn winner(&self, runners: &[Runner<'_, P>]) -> Option<usize> {
        let times: Vec<Option<Duration>> = runners
            .iter()
            .map(|r| (r.disqualified.is_none() && !r.gave_up).then(|| median(&r.samples)))
            .collect();
        let best = times.iter().flatten().min()?.as_secs_f64();
        let limit = best * (1.0 + self.measuring.band.max(0.0));
        times.iter().position(|time| time.is_some_and(|time| time.as_secs_f64() <= limit))
    }
}

/// Returns the median sample, the lower of two; the longest duration if there is none.
fn median(samples: &[Duration]) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_sample() {
        let ns =
            |values: &[u64]| values.iter().map(|&v| Duration::from_nanos(v)).collect::<Vec<_>>();
        assert_eq!(median(&ns(&[5])), Duration::from_nanos(5));
        assert_eq!(median(&ns(&[9, 1, 5])), Duration::from_nanos(5));
        assert_eq!(median(&ns(&[9, 1, 5, 3])), Duration::from_nanos(3));
    }
}
