//! Generators of other libraries, and the events that the loader emits.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use samebits_data::{
    BoxError, DataLoader, DatasetExt, Determinism, Memory, Result, SeedHook, SeedScope,
};

thread_local! {
    /// The generator of a library that knows nothing of this one.
    static FOREIGN: Cell<u64> = const { Cell::new(1) };
}

fn foreign_draw() -> i64 {
    FOREIGN.with(|state| {
        state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        (state.get() >> 33) as i64
    })
}

struct Hook {
    saves: bool,
}

impl SeedHook for Hook {
    fn name(&self) -> &str {
        "foreign"
    }

    fn seed(&self, seed: u64) -> std::result::Result<(), BoxError> {
        FOREIGN.set(seed);
        Ok(())
    }

    fn save(&self) -> Option<Vec<u8>> {
        self.saves.then(|| FOREIGN.get().to_le_bytes().to_vec())
    }

    fn restore(&self, state: &[u8]) -> std::result::Result<(), BoxError> {
        FOREIGN.set(u64::from_le_bytes(state.try_into()?));
        Ok(())
    }
}

type Loader = DataLoader<Arc<dyn samebits_data::Dataset<Item = i64>>>;

fn loader(workers: usize, scope: Option<SeedScope>, saves: bool) -> Loader {
    let data = Memory::new(vec![(); 24]).map(|(), _| Ok(foreign_draw()));
    let data: Arc<dyn samebits_data::Dataset<Item = i64>> = Arc::new(data);
    let level = match scope {
        Some(SeedScope::Sample) => Determinism::Portable,
        _ => Determinism::RunToRun,
    };
    let builder = DataLoader::builder(data).batch_size(3).workers(workers).level(level).seed(3);
    match scope {
        Some(scope) => builder.seed_hook(scope, Hook { saves }).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

fn epoch(loader: &Loader, epoch: u64) -> Vec<Vec<i64>> {
    loader.epoch(epoch).map(|batch| batch.map(|batch| batch.data)).collect::<Result<_>>().unwrap()
}

#[test]
fn without_a_hook_all_workers_draw_the_same() {
    // The trap: each thread starts with the library's own seed.
    let batches = epoch(&loader(2, None, false), 0);
    assert_eq!(batches[0], batches[1]);
}

#[test]
fn seeded_per_worker_the_workers_differ_and_runs_repeat() {
    for workers in [1, 2, 3] {
        let first = epoch(&loader(workers, Some(SeedScope::Worker), false), 1);
        assert_eq!(epoch(&loader(workers, Some(SeedScope::Worker), false), 1), first);
        let mut all = first.concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 24, "nothing is drawn twice");
    }
    let of = |workers| epoch(&loader(workers, Some(SeedScope::Worker), false), 1);
    assert_ne!(of(1), of(2));
}

#[test]
fn seeded_per_sample_the_workers_do_not_matter() {
    let of = |workers| epoch(&loader(workers, Some(SeedScope::Sample), false), 1);
    let expected = of(0);
    for workers in [1, 2, 4, 7] {
        assert_eq!(of(workers), expected);
    }
    let one = loader(0, Some(SeedScope::Sample), false);
    assert_eq!(one.sample(1, 5).unwrap(), expected.concat()[5]);
}

#[test]
fn a_saved_foreign_generator_goes_on() {
    for workers in [0, 2, 3] {
        let whole = epoch(&loader(workers, Some(SeedScope::Worker), true), 0);
        for stop in 0..8 {
            let writer = loader(workers, Some(SeedScope::Worker), true);
            let mut running = writer.epoch(0);
            running.by_ref().take(stop).for_each(|batch| drop(batch.unwrap()));
            let state = running.state().unwrap();
            drop(running);
            let resumed = loader(workers, Some(SeedScope::Worker), true);
            let rest = resumed.resume(&state).unwrap().map(|batch| batch.unwrap().data);
            assert_eq!(rest.collect::<Vec<_>>(), whole[stop..], "{workers} workers, batch {stop}");
        }
    }
    // A library that cannot report its state starts over: the loader cannot hide that.
    let whole = epoch(&loader(2, Some(SeedScope::Worker), false), 0);
    let writer = loader(2, Some(SeedScope::Worker), false);
    let mut running = writer.epoch(0);
    running.by_ref().take(4).for_each(|batch| drop(batch.unwrap()));
    let state = running.state().unwrap();
    let rest = writer.resume(&state).unwrap().map(|batch| batch.unwrap().data);
    assert_ne!(rest.collect::<Vec<_>>(), whole[4..]);
}

/// A library that can only be seeded.
struct Sealed;

impl SeedHook for Sealed {
    fn name(&self) -> &str {
        "sealed"
    }

    fn seed(&self, _: u64) -> std::result::Result<(), BoxError> {
        Ok(())
    }
}

#[test]
fn a_hook_saves_nothing_and_refuses_to_restore_unless_it_says_how() {
    assert_eq!(Sealed.save(), None);
    let error = Sealed.restore(&[]).unwrap_err();
    assert_eq!(error.to_string(), "the hook \"sealed\" cannot restore a state");
}

/// A subscriber that counts spans by name.
#[derive(Default)]
struct Spans {
    workers: AtomicUsize,
    batches: AtomicUsize,
}

struct Counting(Arc<Spans>);

impl tracing::Subscriber for Counting {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        match span.metadata().name() {
            "worker" => self.0.workers.fetch_add(1, Ordering::SeqCst),
            "batch" => self.0.batches.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn each_worker_has_a_span_and_the_report_adds_up() {
    let spans = Arc::new(Spans::default());
    // Workers are separate threads, so the subscriber must be global. The other tests of this
    // program run beside this one; their spans only raise the counts.
    tracing::subscriber::set_global_default(Counting(Arc::clone(&spans))).unwrap();
    let loader = loader(3, Some(SeedScope::Sample), false);
    let mut running = loader.epoch(0);
    running.by_ref().for_each(|batch| drop(batch.unwrap()));
    let report = running.report();
    drop(running);
    assert!(spans.workers.load(Ordering::SeqCst) >= 3);
    assert!(spans.batches.load(Ordering::SeqCst) >= 8);
    assert_eq!((report.batches, report.samples, report.busy.len()), (8, 24, 3));
    assert!(report.waited <= report.elapsed);
    assert!(report.waiting_share() <= 1.0);
    assert!(report.to_string().starts_with("24 samples in 8 batches, "));
}
