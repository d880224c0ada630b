//! The candidates that may race, the winner, and those that are disqualified.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use common::*;
use samebits_autotune::Determinism::*;
use samebits_autotune::{
    BoxError, Budget, Candidate, ChoiceFile, Config, Determinism, Error, Measuring, Mode, Outcome,
    Problem, Source, Tuner, Values,
};
use samebits_numerics::memory::OutOfMemory;

fn names(tuner: &Tuner<Toy>, key: &ToyKey) -> Vec<&'static str> {
    tuner.eligible(key).iter().map(|c| c.name()).collect()
}

fn with(candidates: impl FnOnce(&Arc<ManualClock>) -> Vec<Candidate<Toy>>) -> Tuner<Toy> {
    let clock = ManualClock::noisy(0);
    let candidates = candidates(&clock);
    Tuner::new(Toy::probe, candidates, config(Mode::Off, &clock)).unwrap()
}

fn runs() -> Arc<AtomicUsize> {
    Arc::default()
}

#[test]
fn each_level_races_what_keeps_its_promise() {
    let (tuner, _) = tuner(Mode::Off);
    assert_eq!(names(&tuner, &key(NotGuaranteed, 8)), ["plain", "tiled", "skewed", "atomic"]);
    assert_eq!(names(&tuner, &key(RunToRun, 8)), ["plain", "tiled", "skewed"]);
    assert_eq!(names(&tuner, &key(Portable, 8)), ["plain", "tiled"]);

    let fast = tuner.choose(&key(NotGuaranteed, 8)).unwrap();
    assert_eq!((fast.candidate.name(), fast.source), ("atomic", Source::Raced));
    let portable = tuner.choose(&key(Portable, 8)).unwrap();
    assert_eq!((portable.candidate.name(), portable.source), ("tiled", Source::Raced));
}

#[test]
fn a_bounded_candidate_is_not_portable_whatever_its_own_bits_are() {
    let clock = ManualClock::noisy(0);
    let own = Candidate::bounded(1, "own", Portable, 1e-6, |toy: &Toy| Ok(toy.doubled()));
    assert_eq!(own.usable_at(), RunToRun);
    let plain = candidate(&clock, &runs(), 0, "plain", Portable, Twist::None, 9);
    let tuner = Tuner::new(Toy::probe, vec![plain, own], config(Mode::Off, &clock)).unwrap();
    assert_eq!(names(&tuner, &key(Portable, 8)), ["plain"]);
    assert_eq!(names(&tuner, &key(RunToRun, 8)), ["plain", "own"]);
}

#[test]
fn run_to_run_without_a_file_never_looks_at_a_clock() {
    for seed in 0..20 {
        let (tuner, runs) = noisy_tuner(Mode::Off, seed);
        let decision = tuner.choose(&key(RunToRun, 8)).unwrap();
        assert_eq!((decision.candidate.name(), decision.source), ("tiled", Source::Heuristic));
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn without_benchmark_the_key_alone_decides_at_every_level() {
    let clock = ManualClock::noisy(7);
    let runs = runs();
    let config = Config { benchmark: false, ..config(Mode::Off, &clock) };
    let tuner = Tuner::new(Toy::probe, usual(&clock, &runs), config).unwrap();
    for level in [NotGuaranteed, RunToRun, Portable] {
        let decision = tuner.choose(&key(level, 8)).unwrap();
        assert_eq!((decision.candidate.name(), decision.source), ("tiled", Source::Heuristic));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[test]
fn without_a_race_a_bounded_candidate_must_promise_clearly_more() {
    let clock = ManualClock::noisy(0);
    let chosen = |bounded: f64| {
        let candidates = vec![
            candidate(&clock, &runs(), 0, "plain", Portable, Twist::None, 1000),
            candidate(&clock, &runs(), 1, "tiled", Portable, Twist::None, 800)
                .with_estimate(|_| 100.0),
            candidate(&clock, &runs(), 2, "skewed", RunToRun, Twist::OneBit, 600)
                .with_estimate(move |_| bounded),
        ];
        let config = Config { benchmark: false, ..config(Mode::Off, &clock) };
        let tuner = Tuner::new(Toy::probe, candidates, config).unwrap();
        [NotGuaranteed, RunToRun, Portable]
            .map(|level| tuner.choose(&key(level, 8)).unwrap().candidate.name())
    };
    assert_eq!(chosen(75.0), ["tiled"; 3]);
    assert_eq!(chosen(74.0), ["skewed", "skewed", "tiled"]);
    assert_eq!(chosen(f64::INFINITY), ["tiled"; 3]);
}

#[test]
fn the_benchmark_limit_keeps_the_likeliest() {
    let clock = ManualClock::noisy(0);
    let config = Config { benchmark_limit: 2, ..config(Mode::Off, &clock) };
    let tuner = Tuner::new(Toy::probe, usual(&clock, &runs()), config).unwrap();
    let decision = tuner.choose(&key(NotGuaranteed, 8)).unwrap();
    let raced: Vec<&str> = decision.measured.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(raced, ["tiled", "skewed"], "those with the two lowest estimates");
    assert_eq!(decision.candidate.name(), "skewed");
}

#[test]
fn the_workspace_limit_is_a_number_and_not_what_is_free() {
    let clock = ManualClock::noisy(0);
    let config = Config { workspace_limit: 100, ..config(Mode::Off, &clock) };
    let tuner = Tuner::new(Toy::probe, usual(&clock, &runs()), config).unwrap();
    assert!(names(&tuner, &key(RunToRun, 25)).contains(&"skewed"));
    assert!(!names(&tuner, &key(RunToRun, 26)).contains(&"skewed"));
}

#[test]
fn no_candidate_within_the_limit_is_an_error() {
    let clock = ManualClock::noisy(0);
    let big =
        candidate(&clock, &runs(), 0, "big", Portable, Twist::None, 9).with_workspace(|_| 1000);
    let config = Config { workspace_limit: 100, ..config(Mode::Off, &clock) };
    let tuner = Tuner::new(Toy::probe, vec![big], config).unwrap();
    let error = tuner.choose(&key(Portable, 8)).unwrap_err();
    assert!(matches!(error, Error::NoCandidate { workspace_limit: 100, .. }), "{error}");
}

#[test]
fn excluded_candidates_are_never_chosen() {
    let (clock, runs) = (ManualClock::noisy(0), runs());
    let with = |config| Tuner::new(Toy::probe, usual(&clock, &runs), config);
    let exclude = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let tuner =
        with(Config { exclude: exclude(&["atomic", "tiled"]), ..config(Mode::Off, &clock) })
            .unwrap();
    assert_eq!(names(&tuner, &key(NotGuaranteed, 8)), ["plain", "skewed"]);
    assert_eq!(tuner.choose(&key(NotGuaranteed, 8)).unwrap().candidate.name(), "skewed");
    let all = exclude(&["plain", "tiled"]);
    let tuner = with(Config { exclude: all, ..config(Mode::Off, &clock) }).unwrap();
    assert!(matches!(tuner.choose(&key(Portable, 8)), Err(Error::NoCandidate { .. })));
    let unknown = with(Config { exclude: exclude(&["tilde"]), ..config(Mode::Off, &clock) });
    let message = unknown.unwrap_err().to_string();
    assert!(message.contains("names \"tilde\", which is none of the candidates plain, tiled"));
}

#[test]
fn a_forced_candidate_runs_what_it_may() {
    let (clock, runs) = (ManualClock::noisy(0), runs());
    let force = |name: &str| Some(name.to_owned());
    let with = |config| Tuner::new(Toy::probe, usual(&clock, &runs), config);
    let tuner = with(Config { force: force("skewed"), ..config(Mode::Off, &clock) }).unwrap();
    for level in [NotGuaranteed, RunToRun] {
        let decision = tuner.choose(&key(level, 8)).unwrap();
        assert_eq!((decision.candidate.name(), decision.source), ("skewed", Source::Forced));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    // Its bits differ from those of the definition.
    assert_eq!(tuner.choose(&key(Portable, 8)).unwrap().candidate.name(), "tiled");

    let folder = tempfile::tempdir().unwrap();
    let record = Mode::Record(folder.path().join("choices.toml"));
    for config in [
        Config { force: force("none"), ..config(Mode::Off, &clock) },
        Config { force: force("skewed"), ..config(record, &clock) },
        Config {
            force: force("skewed"),
            exclude: ["skewed".to_owned()].into(),
            ..config(Mode::Off, &clock)
        },
    ] {
        assert!(matches!(with(config), Err(Error::Config { .. })));
    }
}

#[test]
fn a_race_ends_with_its_budget() {
    let (clock, runs) = (ManualClock::noisy(0), runs());
    let folder = tempfile::tempdir().unwrap();
    let record = || Mode::Record(folder.path().join("choices.toml"));
    let ns = Duration::from_nanos;
    let tuner = |mode, budget: Budget| {
        runs.store(0, Ordering::SeqCst);
        let config = Config { budget, ..config(mode, &clock) };
        Tuner::new(Toy::probe, usual(&clock, &runs), config).unwrap()
    };
    // The reference, two runs of the heuristic's choice, one for its digest, and no more.
    let nothing = Budget { key: Duration::ZERO, ..Budget::default() };
    let decision = tuner(Mode::Off, nothing).choose(&key(NotGuaranteed, 8)).unwrap();
    assert_eq!((decision.candidate.name(), decision.source), ("tiled", Source::Raced));
    assert_eq!((decision.measured.len(), runs.load(Ordering::SeqCst)), (1, 4));

    // All are checked; rounds begin, but nothing beats the heuristic's choice a second time.
    let some = Budget { key: ns(7000), ..Budget::default() };
    let decision = tuner(Mode::Off, some).choose(&key(NotGuaranteed, 8)).unwrap();
    assert_eq!((decision.candidate.name(), decision.measured.len()), ("tiled", 4));

    // The total budget: the first race is the last. A recorded choice has one more run.
    let total = Budget { total: ns(7000), ..Budget::default() };
    for (mode, source) in [(Mode::Off, Source::Heuristic), (record(), Source::Raced)] {
        let recording = mode != Mode::Off;
        let tuner = tuner(mode, total);
        assert_eq!(tuner.choose(&key(NotGuaranteed, 8)).unwrap().measured.len(), 4);
        let decision = tuner.choose(&key(NotGuaranteed, 9)).unwrap();
        assert_eq!((decision.candidate.name(), decision.source), ("tiled", source));
        assert_eq!(decision.measured.len(), usize::from(recording));
    }
}

#[test]
fn the_latest_keys_are_remembered() {
    let (clock, runs) = (ManualClock::noisy(0), runs());
    let config = Config { remember: 2, ..config(Mode::Off, &clock) };
    let tuner = Tuner::new(Toy::probe, usual(&clock, &runs), config).unwrap();
    let raced = |n| {
        let before = runs.load(Ordering::SeqCst);
        tuner.choose(&key(Portable, n)).unwrap();
        runs.load(Ordering::SeqCst) > before
    };
    assert!([1, 2].map(raced) == [true, true] && [1, 2].map(raced) == [false, false]);
    assert!(raced(3));
    assert!(!raced(2) && !raced(3) && raced(1));
}

#[test]
fn a_tie_goes_to_the_lowest_id_and_the_band_decides_what_a_tie_is() {
    for (cost, winner) in [(961, "first"), (940, "second")] {
        let tuner = with(|clock| {
            vec![
                candidate(clock, &runs(), 7, "second", Portable, Twist::None, cost),
                candidate(clock, &runs(), 3, "first", Portable, Twist::None, 1000),
            ]
        });
        let decision = tuner.choose(&key(Portable, 8)).unwrap();
        assert_eq!(decision.candidate.name(), winner, "{cost}");
    }
}

#[test]
fn a_wrong_candidate_is_reported_and_not_chosen() {
    let cases = [
        (Portable, Twist::OneBit, "element 0 is"),
        (Portable, Twist::Flicker, "element 0 is"),
        (RunToRun, Twist::Wrong, "element 0 is 1.5 where the reference has 0.5"),
        (RunToRun, Twist::Flicker, "two runs gave different bits"),
        (RunToRun, Twist::Fail, "failed: planted"),
        (NotGuaranteed, Twist::Wrong, "element 0 is"),
    ];
    for (level, twist, why) in cases {
        let tuner = with(|clock| {
            vec![
                candidate(clock, &runs(), 0, "plain", Portable, Twist::None, 1000),
                candidate(clock, &runs(), 1, "tiled", Portable, Twist::None, 900),
                candidate(clock, &runs(), 2, "bad", level, twist, 1),
            ]
        });
        let ask = if level == Portable { Portable } else { NotGuaranteed };
        let decision = tuner.choose(&key(ask, 8)).unwrap();
        assert_eq!(decision.candidate.name(), "tiled", "{level} {twist:?}");
        let Outcome::Disqualified(reason) = &decision.measured[2].outcome else {
            panic!("{level} {twist:?} was let through");
        };
        assert!(reason.contains(why), "{level} {twist:?}: {reason}");
    }
}

#[test]
fn what_varies_may_vary_where_nothing_is_promised() {
    let (tuner, _) = tuner(Mode::Off);
    let decision = tuner.choose(&key(NotGuaranteed, 8)).unwrap();
    assert!(matches!(decision.measured[3].outcome, Outcome::Time(_)));
}

#[test]
fn a_reference_that_fails_is_an_error_and_all_wrong_is_one_too() {
    let tuner = with(|clock| {
        vec![
            candidate(clock, &runs(), 0, "plain", Portable, Twist::Fail, 9),
            candidate(clock, &runs(), 1, "tiled", Portable, Twist::None, 9),
        ]
    });
    let error = tuner.choose(&key(Portable, 8)).unwrap_err();
    assert!(matches!(&error, Error::Reference { name, .. } if name == "plain"), "{error}");

    let tuner = with(|clock| {
        vec![
            candidate(clock, &runs(), 0, "plain", Portable, Twist::None, 9)
                .with_workspace(|_| 1 << 40),
            candidate(clock, &runs(), 1, "bad", Portable, Twist::OneBit, 9),
            candidate(clock, &runs(), 2, "worse", Portable, Twist::Wrong, 9),
        ]
    });
    let error = tuner.choose(&key(Portable, 8)).unwrap_err();
    let Error::AllDisqualified { reasons, .. } = &error else { panic!("{error}") };
    assert!(reasons.contains("bad: element 0") && reasons.contains("worse: "), "{reasons}");
}

#[test]
fn a_hopeless_candidate_is_timed_twice() {
    let clock = ManualClock::noisy(0);
    let slow_runs = runs();
    let candidates = vec![
        candidate(&clock, &runs(), 0, "plain", Portable, Twist::None, 100),
        candidate(&clock, &slow_runs, 1, "slow", Portable, Twist::None, 301),
    ];
    let tuner = Tuner::new(Toy::probe, candidates, config(Mode::Off, &clock)).unwrap();
    let decision = tuner.choose(&key(Portable, 8)).unwrap();
    assert_eq!(slow_runs.load(Ordering::SeqCst), 3, "the two runs that check it and one round");
    assert_eq!(decision.measured[1].outcome, Outcome::Time(Duration::from_nanos(301)));
}

/// A single sample that takes a thousand times as long, or no time at all, changes no choice.
#[test]
fn one_disturbed_sample_changes_no_choice() {
    let race = |clock: &Arc<ManualClock>| {
        let runs = runs();
        let candidates = vec![
            candidate(clock, &runs, 0, "slow", Portable, Twist::None, 150),
            candidate(clock, &runs, 1, "fast", Portable, Twist::None, 100).with_estimate(|_| 1.0),
            candidate(clock, &runs, 2, "slower", Portable, Twist::None, 200),
        ];
        let tuner = Tuner::new(Toy::probe, candidates, config(Mode::Off, clock)).unwrap();
        (tuner.choose(&key(Portable, 8)).unwrap(), runs.load(Ordering::SeqCst))
    };
    let (quiet, calls) = race(&ManualClock::noisy(0));
    assert_eq!(quiet.candidate.name(), "fast");
    assert!(calls > 20, "{calls}");
    for factor in [0, 4, 1000] {
        for at in 0..calls {
            let (decision, _) = race(&ManualClock::disturbed(at, factor));
            assert_eq!(decision.candidate.name(), "fast", "call {at} times {factor}");
        }
    }
}

#[test]
fn rounds_are_interleaved_and_short_calls_repeated() {
    let order = Arc::new(parking_lot::Mutex::new(String::new()));
    let clock = ManualClock::noisy(0);
    let letter = |id: u32, name: &'static str| {
        let (order, clock) = (order.clone(), clock.clone());
        Candidate::canonical(id, name, move |toy: &Toy| {
            order.lock().push_str(name);
            clock.pass(100);
            Ok(toy.doubled())
        })
    };
    let measuring =
        Measuring { rounds: 3, sample: Duration::from_nanos(200), ..Measuring::default() };
    let config = Config { measuring, ..config(Mode::Off, &clock) };
    let tuner = Tuner::new(Toy::probe, vec![letter(0, "a"), letter(1, "b")], config).unwrap();
    tuner.choose(&key(NotGuaranteed, 8)).unwrap();
    // The reference, two checks each, three rounds of two calls each, the digest.
    assert_eq!(*order.lock(), "a".to_owned() + "aabb" + "aabb" + "bbaa" + "aabb" + "a");
}

#[test]
fn one_key_is_raced_once_and_the_others_wait() {
    let (tuner, runs) = tuner(Mode::Off);
    let (tuner, runs) = (&tuner, &runs);
    tuner.choose(&key(Portable, 4)).unwrap();
    let of_one_race = runs.swap(0, Ordering::SeqCst);
    let barrier = Barrier::new(8);
    let decisions: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    tuner.choose(&key(Portable, 8)).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(runs.load(Ordering::SeqCst), of_one_race);
    assert!(decisions.iter().all(|d| Arc::ptr_eq(d, &decisions[0])));
    assert_eq!(decisions[0].candidate.name(), "tiled");
}

#[test]
fn exact_shapes_are_tuned_apart() {
    let (tuner, runs) = tuner(Mode::Off);
    tuner.choose(&key(Portable, 8)).unwrap();
    let of_one_race = runs.load(Ordering::SeqCst);
    tuner.choose(&key(Portable, 9)).unwrap();
    tuner.choose(&key(Portable, 8)).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2 * of_one_race);
}

/// Returns a candidate that panics if `when` holds for the number of its call.
fn bomb(id: u32, name: &'static str, when: fn(usize) -> bool) -> Candidate<Toy> {
    let calls = runs();
    Candidate::canonical(id, name, move |toy: &Toy| {
        assert!(!when(calls.fetch_add(1, Ordering::SeqCst)), "planted");
        Ok(toy.doubled())
    })
}

#[test]
fn a_candidate_that_panics_is_reported_and_not_chosen() {
    let first: fn(usize) -> bool = |call| call == 0;
    let checked: fn(usize) -> bool = |call| call >= 2;
    for when in [first, checked] {
        let tuner = with(|clock| {
            vec![
                candidate(clock, &runs(), 0, "plain", Portable, Twist::None, 9),
                bomb(1, "bomb", when),
            ]
        });
        let decision = tuner.choose(&key(Portable, 8)).unwrap();
        assert_eq!(decision.candidate.name(), "plain");
        let planted = Outcome::Disqualified("failed: panicked: planted".to_owned());
        assert_eq!(decision.measured[1].outcome, planted);
    }
}

#[test]
fn a_panic_that_leaves_no_choice_is_an_error_for_every_waiting_thread() {
    let tuner = with(|_| vec![bomb(0, "bomb", |_| true), bomb(1, "other", |_| false)]);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..3).map(|_| scope.spawn(|| tuner.choose(&key(Portable, 8)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert!(matches!(&error, Error::Reference { name, .. } if name == "bomb"), "{error}");
        assert!(error.to_string().ends_with("panicked: planted"), "{error}");
    }

    let clock = ManualClock::noisy(0);
    let probe = |_: &ToyKey| -> Result<Toy, BoxError> { panic!("planted") };
    let tuner = Tuner::new(probe, usual(&clock, &runs()), config(Mode::Off, &clock)).unwrap();
    let error = tuner.choose(&key(Portable, 8)).unwrap_err();
    assert!(matches!(&error, Error::Probe { .. }), "{error}");
}

/// Returns two candidates. While `short` is set, there is no memory for the second, faster one, and
/// it returns `error`.
fn hungry(
    short: &Arc<AtomicBool>,
    clock: &Arc<ManualClock>,
    error: fn() -> BoxError,
) -> Vec<Candidate<Toy>> {
    let (short, passing) = (short.clone(), clock.clone());
    let hungry = Candidate::bounded(1, "hungry", RunToRun, 1e-6, move |toy: &Toy| {
        passing.pass(100);
        if short.load(Ordering::SeqCst) { Err(error()) } else { Ok(toy.doubled()) }
    });
    vec![candidate(clock, &runs(), 0, "plain", Portable, Twist::None, 900), hungry]
}

#[test]
fn free_memory_decides_nothing() {
    #[derive(Debug, thiserror::Error)]
    #[error("a library's own words")]
    struct Inside(#[source] OutOfMemory);
    let errors: [fn() -> BoxError; 3] = [
        || OutOfMemory { bytes: 7 }.into(),
        || Inside(OutOfMemory { bytes: 7 }).into(),
        // An error that only the problem's own library knows.
        || ToyShort { bytes: 7 }.into(),
    ];
    for error in errors {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("choices.toml");
        let short = Arc::new(AtomicBool::new(true));
        let open = |mode| {
            let clock = ManualClock::noisy(0);
            let candidates = hungry(&short, &clock, error);
            Tuner::new(Toy::probe, candidates, config(mode, &clock)).unwrap()
        };
        // If the choice shows in the bits, none is made.
        let tuner = open(Mode::Record(path.clone()));
        for _ in 0..2 {
            let error = tuner.choose(&key(RunToRun, 8)).unwrap_err();
            assert!(matches!(&error, Error::OutOfMemory { .. }), "{error}");
            assert!(error.to_string().contains("\"hungry\" ran out of memory"), "{error}");
        }
        // If the choice need not be kept, the key alone decides.
        for mode in [Mode::Off, Mode::Record(path.clone())] {
            let decision = open(mode).choose(&key(NotGuaranteed, 8)).unwrap();
            assert_eq!((decision.candidate.name(), decision.source), ("plain", Source::Heuristic));
        }
        assert!(!path.exists(), "a choice was recorded");
        // With memory, the same tuner races.
        short.store(false, Ordering::SeqCst);
        let decision = tuner.choose(&key(RunToRun, 8)).unwrap();
        assert_eq!((decision.candidate.name(), decision.source), ("hungry", Source::Raced));
        assert_eq!(ChoiceFile::<ToyKey>::read(&path).unwrap().choices().len(), 1);
    }
}

#[test]
fn a_problem_knows_missing_memory_by_default() {
    struct Plain;
    impl Problem for Plain {
        type Key = ToyKey;
        type Output = [f32; 0];

        fn key(&self, level: Determinism) -> ToyKey {
            key(level, 0)
        }

        fn magnitude(&self) -> f64 {
            0.0
        }

        fn values(output: &[f32; 0]) -> Result<Values<'_>, BoxError> {
            Ok(Values::of(output))
        }
    }
    assert_eq!(Plain::missing_memory(&OutOfMemory { bytes: 7 }), Some(7));
    assert_eq!(Plain::missing_memory(&std::fmt::Error), None);
}

#[test]
fn races_do_not_disturb_each_other() {
    // One clock for all; a second race at the same time would move it.
    let clock = ManualClock::noisy(0);
    let slow = |id, name, cost| {
        let clock = clock.clone();
        Candidate::canonical(id, name, move |toy: &Toy| {
            clock.pass(cost);
            std::thread::sleep(Duration::from_millis(1));
            Ok(toy.doubled())
        })
    };
    let tuners: Vec<Tuner<Toy>> = (0..2)
        .map(|_| {
            let candidates = vec![slow(0, "plain", 100), slow(1, "tiled", 150)];
            Tuner::new(Toy::probe, candidates, config(Mode::Off, &clock)).unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for (tuner, n) in tuners.iter().flat_map(|tuner| (1..=3).map(move |n| (tuner, n))) {
            scope.spawn(move || {
                let decision = tuner.choose(&key(Portable, n)).unwrap();
                let times: Vec<_> = decision.measured.iter().map(|m| m.outcome.clone()).collect();
                let exact = [100, 150].map(|ns| Outcome::Time(Duration::from_nanos(ns)));
                assert_eq!(times, exact, "{n}");
            });
        }
    });
}

#[test]
fn a_candidate_that_is_tuned_itself_ends() {
    let (inner, _) = tuner(Mode::Off);
    let outer = Candidate::canonical(0, "outer", move |toy: &Toy| Ok(inner.run(toy, Portable)?));
    let other = Candidate::canonical(1, "other", |toy: &Toy| Ok(toy.doubled()));
    let tuner = with(|_| vec![outer, other]);
    assert_eq!(tuner.choose(&key(Portable, 8)).unwrap().source, Source::Raced);
}

#[test]
fn a_race_called_from_inside_a_pool_ends() {
    // Every worker of the pool asks for the key, and the candidates use a pool themselves.
    let candidate = |id, name| {
        Candidate::canonical(id, name, |toy: &Toy| {
            let mut out = toy.doubled();
            let (a, b) = out.split_at_mut(toy.input.len() / 2);
            rayon::join(
                || a.iter_mut().for_each(|x| *x += 0.0),
                || b.iter_mut().for_each(|x| *x += 0.0),
            );
            Ok(out)
        })
    };
    let tuner = with(|_| vec![candidate(0, "one"), candidate(1, "two")]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| {
        rayon::scope(|scope| {
            for i in 0..64 {
                let tuner = &tuner;
                scope.spawn(move |_| {
                    tuner.choose(&key(Portable, 1000 + i / 8)).unwrap();
                });
            }
        });
    });
}

#[test]
fn run_computes_with_the_choice_and_run_named_with_any() {
    let (tuner, _) = tuner(Mode::Off);
    let toy = Toy { input: vec![1.0, -3.5] };
    assert_eq!(tuner.run(&toy, Portable).unwrap(), [2.0, -7.0]);
    assert_ne!(tuner.run_named("skewed", &toy).unwrap()[0].to_bits(), 2.0f32.to_bits());
    let error = tuner.run_named("none", &toy).unwrap_err();
    assert!(error.to_string().contains("no candidate named \"none\""), "{error}");
}

#[test]
fn candidates_that_cannot_be_told_apart_are_refused() {
    let clock = ManualClock::noisy(0);
    let new = |list: &[(u32, &'static str, samebits_autotune::Determinism)]| {
        let candidates = list
            .iter()
            .map(|&(id, name, level)| candidate(&clock, &runs(), id, name, level, Twist::None, 1))
            .collect();
        Tuner::new(Toy::probe, candidates, config(Mode::Off, &clock)).map(|_| ())
    };
    let message = |result: Result<(), Error>| result.unwrap_err().to_string();
    let same_id = message(new(&[(1, "a", Portable), (1, "b", Portable)]));
    assert!(same_id.contains("\"a\" and \"b\" have the same id 1"), "{same_id}");
    let same_name = message(new(&[(1, "a", Portable), (2, "a", Portable)]));
    assert!(same_name.contains("two candidates are named \"a\""), "{same_name}");
    let none = message(new(&[(1, "a", RunToRun)]));
    assert!(none.contains("no candidate is canonical"), "{none}");
}

#[test]
fn a_probe_that_fails_is_named_with_its_key() {
    let clock = ManualClock::noisy(0);
    let probe = |_: &ToyKey| Err::<Toy, BoxError>("planted".into());
    let tuner = Tuner::new(probe, usual(&clock, &runs()), config(Mode::Off, &clock)).unwrap();
    let error = tuner.choose(&key(Portable, 8)).unwrap_err().to_string();
    assert_eq!(error, "autotune: cannot make the inputs for doubling of 8 at Portable: planted");
}
