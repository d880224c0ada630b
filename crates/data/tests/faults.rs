//! Misbehaving samples, workers and consumers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use samebits_data::{
    DataLoader, Dataset, Determinism, Error, Keep, Result, SampleContext, SeedHook, SeedScope,
};
use samebits_rng::Generator;

/// The behaviour of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Load,
    Panic,
    Fail,
    Hang,
}

struct Trouble {
    deeds: Vec<Deed>,
    live: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
}

/// A sample that counts the live samples.
struct Counted {
    live: Arc<AtomicUsize>,
}

impl Counted {
    fn new(live: &Arc<AtomicUsize>, peak: &AtomicUsize) -> Self {
        let now = live.fetch_add(1, Ordering::SeqCst) + 1;
        peak.fetch_max(now, Ordering::SeqCst);
        Counted { live: Arc::clone(live) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Trouble {
    fn new(len: usize, deeds: &[(usize, Deed)]) -> Arc<Self> {
        let mut all = vec![Deed::Load; len];
        for &(index, deed) in deeds {
            all[index] = deed;
        }
        Arc::new(Trouble { deeds: all, live: Arc::default(), peak: Arc::default() })
    }
}

impl Dataset for Trouble {
    type Item = Counted;

    fn len(&self) -> usize {
        self.deeds.len()
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Counted> {
        match self.deeds[index] {
            Deed::Load => Ok(Counted::new(&self.live, &self.peak)),
            Deed::Panic => panic!("sample {index} is cursed"),
            Deed::Fail => Err(Error::other(format!("sample {index} is missing"))),
            Deed::Hang => {
                // Cancellation lets the thread end; a dataset that never checks would keep it.
                while !cx.cancelled() {
                    thread::sleep(Duration::from_micros(200));
                }
                Err(Error::other("cancelled"))
            }
        }
    }
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen in time");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Silences panics in worker threads, which are expected here.
fn hush() {
    use std::sync::Once;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !thread::current().name().is_some_and(|name| name.starts_with("data-worker")) {
                usual(info);
            }
        }));
    });
}

#[test]
fn errors_and_panics_name_worker_batch_sample_and_cause() {
    hush();
    let data = Trouble::new(12, &[(5, Deed::Fail), (7, Deed::Panic)]);
    let loader =
        DataLoader::builder_with(data.clone(), Keep).batch_size(2).workers(2).build().unwrap();
    let results: Vec<_> = loader.epoch(0).collect();
    assert_eq!(results.len(), 6);
    let texts: Vec<String> =
        results.iter().filter_map(|r| r.as_ref().err().map(Error::to_string)).collect();
    assert_eq!(
        texts,
        [
            "loader: worker 0, batch 2, sample 5: sample 5 is missing",
            "loader: worker 1, batch 3, sample 7: panicked: sample 7 is cursed",
        ]
    );
    drop(results);
    assert_eq!(data.live.load(Ordering::SeqCst), 0);
    wait_for("the end of the workers", || loader.live_workers() == 0);
}

#[test]
fn the_same_errors_come_without_workers() {
    let data = Trouble::new(4, &[(1, Deed::Fail)]);
    let loader = DataLoader::builder_with(data, Keep).build().unwrap();
    let texts: Vec<_> = loader.epoch(0).map(|r| r.map_err(|e| e.to_string())).collect();
    assert_eq!(texts.len(), 4);
    let error = texts[1].as_ref().err().unwrap();
    assert_eq!(error, "loader: worker 0, batch 1, sample 1: sample 1 is missing");
}

#[test]
fn a_hang_times_out_and_names_the_sample() {
    let data = Trouble::new(8, &[(3, Deed::Hang)]);
    let loader = DataLoader::builder_with(data.clone(), Keep)
        .batch_size(2)
        .workers(2)
        .timeout(Duration::from_millis(700))
        .build()
        .unwrap();
    let start = Instant::now();
    let results: Vec<_> = loader.epoch(0).collect();
    assert!(start.elapsed() >= Duration::from_millis(700));
    // The epoch ends with the error.
    assert_eq!(results.len(), 2);
    let Some(Err(error)) = results.get(1) else { panic!("no error") };
    assert!(
        matches!(error, Error::Timeout { worker: 1, batch: 1, sample: Some(3), .. }),
        "{error}"
    );
    drop(results);
    wait_for("the end of the workers", || loader.live_workers() == 0);
    assert_eq!(data.live.load(Ordering::SeqCst), 0);
    assert!(DataLoader::builder_with(data, Keep).timeout(Duration::ZERO).build().is_err());
}

#[test]
fn a_failing_or_panicking_init_ends_the_epoch() {
    hush();
    for panics in [false, true] {
        for persistent in [false, true] {
            let data = Trouble::new(12, &[]);
            let loader = DataLoader::builder_with(data.clone(), Keep)
                .batch_size(2)
                .workers(3)
                .persistent_workers(persistent)
                .worker_init(move |worker| {
                    if worker.info().id == 1 && worker.info().epoch == 1 {
                        if panics {
                            panic!("no licence");
                        }
                        return Err("no licence".into());
                    }
                    Ok(())
                })
                .build()
                .unwrap();
            assert_eq!(loader.epoch(0).filter(Result::is_ok).count(), 6);
            let results: Vec<_> = loader.epoch(1).collect();
            assert_eq!(results.len(), 2);
            let Some(Err(error)) = results.get(1) else { panic!("no error") };
            let prefix = if panics { "panicked: " } else { "" };
            assert_eq!(
                error.to_string(),
                format!("loader: worker 1: initialisation failed: {prefix}no licence")
            );
            // The next epoch is not affected.
            assert_eq!(loader.epoch(2).filter(Result::is_ok).count(), 6);
            let live = if persistent { 3 } else { 0 };
            wait_for("the end of the workers", || loader.live_workers() == live);
            drop(results);
            assert_eq!(data.live.load(Ordering::SeqCst), 0);
        }
    }
}

struct Broken(&'static str);

impl SeedHook for Broken {
    fn name(&self) -> &str {
        self.0
    }

    fn seed(&self, seed: u64) -> std::result::Result<(), samebits_data::BoxError> {
        Err(format!("cannot take seed {seed}").into())
    }
}

#[test]
fn hooks_are_checked_and_their_errors_named() {
    let build = |level, scope, names: &[&'static str]| {
        let mut builder = DataLoader::builder_with(Trouble::new(2, &[]), Keep).level(level);
        for &name in names {
            builder = builder.seed_hook(scope, Broken(name));
        }
        builder.build()
    };
    let error = build(Determinism::Portable, SeedScope::Worker, &["numpy"]).unwrap_err();
    assert!(matches!(error, Error::LevelUnavailable { .. }), "{error}");
    let error = build(Determinism::Portable, SeedScope::Sample, &["a", "a"]).unwrap_err();
    assert!(matches!(error, Error::InvalidOption { option: "seed hook", .. }), "{error}");
    let loader = build(Determinism::RunToRun, SeedScope::Worker, &["numpy"]).unwrap();
    let error = loader.epoch(0).next().unwrap().err().unwrap().to_string();
    assert!(error.starts_with("loader: worker 0: seeding \"numpy\" failed: cannot take seed "));
    let loader = build(Determinism::Portable, SeedScope::Sample, &["numpy"]).unwrap();
    let error = loader.epoch(0).next().unwrap().err().unwrap().to_string();
    assert!(error.starts_with("loader: worker 0, batch 0, sample 0: cannot take seed "));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let builder = || DataLoader::builder_with(Trouble::new(2, &[]), Keep);
    for error in [
        builder().batch_size(0).build().unwrap_err(),
        builder().prefetch(0).build().unwrap_err(),
        builder().workers(2).prefetch(usize::MAX).build().unwrap_err(),
    ] {
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    }
    for level in [Determinism::RunToRun, Determinism::Portable] {
        let error = builder().ordered(false).level(level).build().unwrap_err();
        assert!(matches!(error, Error::LevelUnavailable { .. }), "{error}");
    }
}

#[test]
fn unordered_delivery_loses_nothing_and_has_no_position() {
    let data = Trouble::new(101, &[]);
    let loader = DataLoader::builder_with(data, Keep)
        .batch_size(4)
        .shuffle(true)
        .workers(3)
        .level(Determinism::NotGuaranteed)
        .ordered(false)
        .build()
        .unwrap();
    for epoch in 0..20 {
        let mut seen: Vec<usize> =
            loader.epoch(epoch).flat_map(|batch| batch.unwrap().indices).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..101).collect::<Vec<_>>());
    }
    assert!(matches!(loader.epoch(0).state(), Err(Error::LevelUnavailable { .. })));
}

#[test]
fn memory_stays_bounded_while_the_consumer_sleeps() {
    let data = Trouble::new(4000, &[]);
    let (workers, prefetch, batch) = (3, 2, 5);
    let loader = DataLoader::builder_with(data.clone(), Keep)
        .batch_size(batch)
        .workers(workers)
        .prefetch(prefetch)
        .build()
        .unwrap();
    let mut epoch = loader.epoch(0);
    let mut held = None;
    for step in 0..100 {
        held = epoch.next();
        if step % 25 == 0 {
            // The workers fill the window beside the batch held here, and then stop.
            let full = (workers * prefetch + 1) * batch;
            wait_for("a full window", || data.live.load(Ordering::SeqCst) == full);
        }
    }
    drop(held);
    let report = epoch.report();
    assert_eq!((report.batches, report.samples), (100, 500));
    // Beyond the window, the consumer holds one batch and one more is on its way.
    let most = (workers * prefetch + 2) * batch;
    let peak = data.peak.load(Ordering::SeqCst);
    assert!(peak <= most, "{peak} samples were alive, at most {most} may be");
    assert_eq!(report.peak_ready, workers * prefetch);
    drop(epoch);
    assert_eq!(data.live.load(Ordering::SeqCst), 0);
}

#[test]
fn a_thousand_random_runs_end() {
    hush();
    // A deadlock must fail the test, not block it.
    let (done, finished) = std::sync::mpsc::channel();
    let runs = thread::spawn(move || {
        random_runs();
        drop(done);
    });
    let timed_out = std::sync::mpsc::RecvTimeoutError::Timeout;
    let outcome: std::result::Result<(), _> = finished.recv_timeout(Duration::from_secs(50));
    assert_ne!(outcome, Err(timed_out), "a run does not end");
    runs.join().unwrap();
}

fn random_runs() {
    let mut rng = Generator::new(2024);
    for round in 0..1000 {
        let mut below = |n: usize| rng.next_block()[0] as usize % n;
        let len = below(40);
        let mut deeds = Vec::new();
        for _ in 0..below(3) {
            if len > 0 {
                deeds.push((below(len), [Deed::Panic, Deed::Fail, Deed::Hang][below(3)]));
            }
        }
        let hangs = deeds.iter().any(|&(_, deed)| deed == Deed::Hang);
        let workers = below(5) + usize::from(hangs);
        let ordered = below(4) > 0;
        let bad_init = (below(10) == 0).then(|| below(5));
        let stop = if below(2) == 0 { below(10) } else { usize::MAX };
        let data = Trouble::new(len, &deeds);
        let mut builder = DataLoader::builder_with(data.clone(), Keep)
            .batch_size(1 + below(6))
            .shuffle(below(2) == 0)
            .drop_last(below(2) == 0)
            .workers(workers)
            .prefetch(1 + below(3))
            .persistent_workers(below(2) == 0)
            .ordered(ordered)
            .level(if ordered { Determinism::Portable } else { Determinism::NotGuaranteed })
            .worker_init(move |worker| match Some(worker.info().id) == bad_init {
                true if worker.info().epoch == 0 => Err("bad luck".into()),
                true => panic!("bad luck"),
                false => Ok(()),
            });
        if hangs {
            builder = builder.timeout(Duration::from_millis(5));
        }
        let loader = builder.build().unwrap();
        if workers == 0 && bad_init.is_some() {
            continue;
        }
        for epoch in 0..2 {
            let taken = loader.epoch(epoch).take(stop).count();
            assert!(taken <= len, "round {round}");
        }
        let live = loader.live_workers();
        assert!(live == 0 || live <= workers || hangs, "round {round}: {live} threads");
        let count = LiveAfterDrop::new(&loader);
        drop(loader);
        wait_for("the end of all samples", || data.live.load(Ordering::SeqCst) == 0);
        count.check();
    }
}

/// A check that the dataset is released: the loader, its epochs and its workers share it.
struct LiveAfterDrop(std::sync::Weak<Trouble>);

impl LiveAfterDrop {
    fn new(loader: &DataLoader<Arc<Trouble>, Keep>) -> Self {
        LiveAfterDrop(Arc::downgrade(loader.dataset()))
    }

    fn check(self) {
        // The test's own handle is the last.
        wait_for("the end of all workers", || self.0.strong_count() == 1);
    }
}
