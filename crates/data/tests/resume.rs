//! If anything interrupts or spoils a batch, nothing is lost: resuming after the error gives the
//! batches of an undisturbed epoch.

mod common;

use common::hush;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use samebits_data::{
    DataLoader, Dataset, Error, Records, Result, SampleContext, ShardedDataset, StreamLoader,
};

/// A fault that occurs once, at one sample or at the start of a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The record cannot be read; for a map-style dataset, the same as `Fails`.
    Unreadable,
    ReaderPanics,
    Fails,
    Panics,
    Hangs,
    Init,
    InitPanics,
}

use Fault::{Fails, Hangs, Init, InitPanics, Panics, ReaderPanics, Unreadable};

const FAULTS: [Fault; 7] = [Unreadable, ReaderPanics, Fails, Panics, Hangs, Init, InitPanics];

/// Shards of numbers with one planted fault, which disappears when it is `mended`.
struct Faulty {
    fault: Fault,
    at: (usize, u64),
    mended: Arc<AtomicBool>,
}

const LENGTHS: [u64; 5] = [7, 3, 9, 0, 5];

impl Faulty {
    fn new(fault: Fault, at: (usize, u64)) -> Arc<Self> {
        Arc::new(Faulty { fault, at, mended: Arc::default() })
    }

    fn strikes(&self, fault: Fault, at: (usize, u64)) -> bool {
        self.fault == fault && self.at == at && !self.mended.load(Ordering::SeqCst)
    }

    fn make(&self, at: (usize, u64), cx: &mut SampleContext<'_>) -> Result<u64> {
        assert!(!self.strikes(Panics, at), "a planted panic");
        if self.strikes(Fails, at) {
            return Err(Error::other("a planted error"));
        }
        if self.strikes(Hangs, at) {
            while !cx.cancelled() {
                thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(at.0 as u64 * 1000 + at.1 + (u64::from(cx.rng().next_block()[0]) << 32))
    }
}

impl ShardedDataset for Faulty {
    type Raw = (usize, u64);
    type Item = u64;

    fn shards(&self) -> usize {
        LENGTHS.len()
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<(usize, u64)>> {
        let strikes = |fault, place| self.strikes(fault, (shard, place));
        let bad: BTreeSet<u64> = (0..LENGTHS[shard]).filter(|&p| strikes(Unreadable, p)).collect();
        let cursed: Vec<u64> = (0..LENGTHS[shard]).filter(|&p| strikes(ReaderPanics, p)).collect();
        Ok(Box::new((skip.min(LENGTHS[shard])..LENGTHS[shard]).map(move |place| {
            assert!(!cursed.contains(&place), "a planted panic");
            match bad.contains(&place) {
                true => Err(Error::other("a planted bad sector")),
                false => Ok((shard, place)),
            }
        })))
    }

    fn sample(&self, raw: (usize, u64), cx: &mut SampleContext<'_>) -> Result<u64> {
        self.make(raw, cx)
    }
}

impl Dataset for Faulty {
    type Item = u64;

    fn len(&self) -> usize {
        20
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<u64> {
        let at = (0, index as u64);
        match self.strikes(Unreadable, at) || self.strikes(ReaderPanics, at) {
            true => Err(Error::other("a planted bad sector")),
            false => self.make(at, cx),
        }
    }
}

fn stream(data: &Arc<Faulty>, workers: usize, window: usize) -> StreamLoader<Arc<Faulty>> {
    let (fault, mended) = (data.fault, Arc::clone(&data.mended));
    let builder = StreamLoader::builder(data.clone())
        .batch_size(2)
        .lanes(3)
        .window(window)
        .shuffle(true)
        .seed(5)
        .workers(workers)
        .worker_init(move |worker| init(fault, &mended, worker));
    let waits = fault == Hangs && workers > 0;
    if waits { builder.timeout(Duration::from_millis(300)) } else { builder }.build().unwrap()
}

fn map(data: &Arc<Faulty>, workers: usize) -> DataLoader<Arc<Faulty>> {
    let (fault, mended) = (data.fault, Arc::clone(&data.mended));
    let builder = DataLoader::builder(data.clone())
        .batch_size(3)
        .shuffle(true)
        .seed(5)
        .workers(workers)
        .worker_init(move |worker| init(fault, &mended, worker));
    let waits = fault == Hangs && workers > 0;
    if waits { builder.timeout(Duration::from_millis(300)) } else { builder }.build().unwrap()
}

fn init(
    fault: Fault,
    mended: &AtomicBool,
    worker: &samebits_data::WorkerContext,
) -> std::result::Result<(), samebits_data::BoxError> {
    let last = worker.info().id + 1 == worker.info().workers.max(1);
    if last && !mended.load(Ordering::SeqCst) {
        assert_ne!(fault, InitPanics, "a planted panic");
        if fault == Init {
            return Err("a planted error".into());
        }
    }
    Ok(())
}

#[test]
fn a_stream_resumed_after_any_error_has_lost_nothing() {
    hush();
    for window in [1, 4] {
        let whole = stream(&Faulty::new(Fault::None, (0, 0)), 0, window).epoch(1);
        let whole: Vec<_> = whole.collect::<Result<_>>().unwrap();
        for (fault, workers) in FAULTS.iter().flat_map(|&f| [0, 1, 3].map(|workers| (f, workers))) {
            if workers == 0 && fault == Hangs {
                continue;
            }
            for at in [(0, 0), (0, 6), (2, 4), (4, 4)] {
                let data = Faulty::new(fault, at);
                let loader = stream(&data, workers, window);
                let mut epoch = loader.epoch(1);
                let mut got: Vec<_> = epoch.by_ref().map_while(Result::ok).collect();
                let state = epoch.state().clone();
                assert!(got.len() < whole.len(), "{fault:?} at {at:?} did not strike");
                data.mended.store(true, Ordering::SeqCst);
                drop(epoch);
                let rest = stream(&data, 2, window).resume(&state).unwrap();
                got.extend(rest.map(Result::unwrap));
                assert_eq!(got, whole, "{fault:?} at {at:?}, {workers} workers, window {window}");
                // The loader itself continues, too.
                let next: Vec<_> = loader.epoch(1).map(Result::unwrap).collect();
                assert_eq!(next, whole);
            }
        }
    }
}

#[test]
fn an_epoch_resumed_after_any_error_has_lost_nothing() {
    hush();
    let whole = map(&Faulty::new(Fault::None, (0, 0)), 0).epoch(1);
    let whole: Vec<_> = whole.collect::<Result<_>>().unwrap();
    for fault in FAULTS {
        for workers in [0, 1, 3] {
            if workers == 0 && fault == Hangs {
                continue;
            }
            for at in [(0, 0), (0, 6), (0, 19)] {
                let data = Faulty::new(fault, at);
                let loader = map(&data, workers);
                let mut epoch = loader.epoch(1);
                let mut got: Vec<_> = epoch.by_ref().map_while(Result::ok).collect();
                let state = epoch.state().unwrap();
                assert!(got.len() < whole.len(), "{fault:?} at {at:?} did not strike");
                data.mended.store(true, Ordering::SeqCst);
                drop(epoch);
                let rest = map(&data, 2).resume(&state).unwrap();
                got.extend(rest.map(Result::unwrap));
                assert_eq!(got, whole, "{fault:?} at {at:?}, {workers} workers");
                let next: Vec<_> = loader.epoch(1).map(Result::unwrap).collect();
                assert_eq!(next, whole);
            }
        }
    }
}

#[test]
fn reading_on_past_an_error_misses_that_batch_alone() {
    hush();
    for window in [1, 4] {
        let whole = stream(&Faulty::new(Fault::None, (0, 0)), 0, window).epoch(1);
        let whole: Vec<_> = whole.map(|batch| batch.unwrap().data).collect();
        for fault in [Unreadable, ReaderPanics, Fails, Panics] {
            for workers in [0, 1, 3] {
                let data = Faulty::new(fault, (2, 4));
                let found: Vec<_> = stream(&data, workers, window).epoch(1).collect();
                assert_eq!(found.len(), whole.len(), "{fault:?}, {workers} workers");
                for (found, whole) in found.iter().zip(&whole) {
                    match found {
                        Ok(batch) => assert_eq!(&batch.data, whole),
                        Err(error) => {
                            assert!(whole.iter().any(|x| x & 0xffff_ffff == 2004), "{error}");
                            assert!(error.to_string().contains("shard 2, sample 4"), "{error}");
                        }
                    }
                }
                assert_eq!(found.iter().filter(|batch| batch.is_err()).count(), 1);
            }
        }
    }
}
