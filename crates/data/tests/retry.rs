//! Retries, skipping with a report, and panics of the caller's functions.

mod common;

use common::hush;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use samebits_data::{
    BatchSampler, DataLoader, Dataset, DatasetExt, Determinism, Error, Keep, Memory, Records,
    Result, Retry, SampleContext, ShardedDataset, Skipped, StreamLoader, StreamState,
};
use samebits_rng::Generator;

/// Numbers of which some fail at the first `failures` attempts, by an error or a panic.
struct Flaky {
    bad: Vec<u64>,
    failures: u32,
    panics: bool,
    tries: Vec<AtomicU32>,
    /// The position in shard 1 after which it cannot be opened.
    closed_from: u64,
}

const SHARD: u64 = 8;

impl Flaky {
    fn new(bad: &[u64], failures: u32, panics: bool) -> Arc<Self> {
        let tries = (0..2 * SHARD).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Flaky { bad: bad.to_vec(), failures, panics, tries, closed_from: SHARD })
    }

    fn load(&self, number: u64, cx: &mut SampleContext<'_>) -> Result<(u64, u32, u32)> {
        // Draws of a failed attempt must not show.
        let worker = cx.worker().generator()?.next_block()[0];
        let drawn = cx.rng().next_block()[0];
        let tried = self.tries[number as usize].fetch_add(1, Ordering::SeqCst);
        if self.bad.contains(&number) && tried < self.failures {
            assert!(!self.panics, "a planted panic");
            return Err(Error::other("a planted error"));
        }
        Ok((number, drawn, worker))
    }
}

impl Dataset for Flaky {
    type Item = (u64, u32, u32);

    fn len(&self) -> usize {
        2 * SHARD as usize
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Self::Item> {
        self.load(index as u64, cx)
    }
}

impl ShardedDataset for Flaky {
    type Raw = u64;
    type Item = (u64, u32, u32);

    fn shards(&self) -> usize {
        2
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<u64>> {
        if shard == 1 && skip >= self.closed_from {
            return Err(Error::other("a planted lock"));
        }
        let closed = if shard == 1 { self.closed_from } else { SHARD };
        Ok(Box::new((skip.min(SHARD)..SHARD).map(move |place| match place + 1 < closed {
            false if closed < SHARD => Err(Error::other("a planted bad sector")),
            _ => Ok(shard as u64 * SHARD + place),
        })))
    }

    fn sample(&self, raw: u64, cx: &mut SampleContext<'_>) -> Result<Self::Item> {
        self.load(raw, cx)
    }
}

fn map(data: &Arc<Flaky>, workers: usize, retry: Retry) -> DataLoader<Arc<Flaky>, Keep> {
    DataLoader::builder_with(data.clone(), Keep)
        .batch_size(4)
        .shuffle(true)
        .workers(workers)
        .level(Determinism::RunToRun)
        .retry(retry)
        .build()
        .unwrap()
}

fn stream(data: &Arc<Flaky>, workers: usize, retry: Retry) -> StreamLoader<Arc<Flaky>, Keep> {
    StreamLoader::builder_with(data.clone(), Keep)
        .batch_size(3)
        .lanes(2)
        .workers(workers)
        .level(Determinism::RunToRun)
        .retry(retry)
        .build()
        .unwrap()
}

#[test]
fn a_further_try_draws_what_the_first_drew() {
    hush();
    for workers in [0, 1, 2, 5] {
        for panics in [false, true] {
            let good = Flaky::new(&[], 0, false);
            let flaky = || Flaky::new(&[1, 2, 11], 2, panics);
            let expected: Vec<_> =
                map(&good, workers, Retry::default()).epoch(0).map(Result::unwrap).collect();
            let found = map(&flaky(), workers, Retry::times(2)).epoch(0).map(Result::unwrap);
            assert_eq!(found.collect::<Vec<_>>(), expected);
            let expected: Vec<_> =
                stream(&good, workers, Retry::default()).epoch(0).map(Result::unwrap).collect();
            let found = stream(&flaky(), workers, Retry::times(2)).epoch(0).map(Result::unwrap);
            assert_eq!(found.collect::<Vec<_>>(), expected);
            // One attempt too few.
            let errors = map(&flaky(), workers, Retry::times(1)).epoch(0);
            assert!(errors.filter(Result::is_err).count() > 0);
        }
    }
}

#[test]
fn what_is_left_out_is_listed_also_after_resuming() {
    hush();
    for workers in [0, 1, 2, 5] {
        for panics in [false, true] {
            let data = Flaky::new(&[1, 2, 11], u32::MAX, panics);
            let retry = Retry::times(1).skip(3);
            let loader = map(&data, workers, retry);
            let mut epoch = loader.epoch(0);
            let mut seen: Vec<u64> =
                epoch.by_ref().take(2).flat_map(|b| b.unwrap().data).map(|x| x.0).collect();
            let state = epoch.state().unwrap();
            drop(epoch);
            let mut rest = loader.resume(&state).unwrap();
            seen.extend(rest.by_ref().flat_map(|b| b.unwrap().data).map(|x| x.0));
            seen.sort_unstable();
            let all: Vec<u64> = (0..16).filter(|i| ![1, 2, 11].contains(i)).collect();
            assert_eq!(seen, all);
            let mut left_out: Vec<usize> = rest
                .skipped()
                .iter()
                .map(|skip| match skip {
                    Skipped::Sample { index, reason } if reason.contains("a planted") => *index,
                    other => panic!("{other:?}"),
                })
                .collect();
            left_out.sort_unstable();
            assert_eq!(left_out, [1, 2, 11]);

            let loader = stream(&data, workers, retry);
            let mut epoch = loader.epoch(0);
            let mut seen: Vec<u64> =
                epoch.by_ref().take(2).flat_map(|b| b.unwrap().data).map(|x| x.0).collect();
            let text = serde_json::to_string(epoch.state()).unwrap();
            let state: StreamState = serde_json::from_str(&text).unwrap();
            drop(epoch);
            let mut rest = loader.resume(&state).unwrap();
            seen.extend(rest.by_ref().flat_map(|b| b.unwrap().data).map(|x| x.0));
            seen.sort_unstable();
            assert_eq!(seen, all);
            assert_eq!(rest.skipped().len(), 3);
            assert!(rest.skipped()[0].to_string().starts_with("shard 0, sample 1: loader: "));

            // One more than permitted ends the epoch, and nothing is lost.
            let fewer = Retry::default().skip(2);
            let mut epoch = map(&data, workers, fewer).epoch(0);
            let last = epoch.by_ref().last().unwrap();
            assert!(matches!(last, Err(Error::TooManySkipped { most: 2, .. })));
            let state = epoch.state().unwrap();
            assert!(state.skipped.len() <= 2);
            let rest = map(&data, 0, retry).resume(&state).unwrap();
            assert!(rest.map(Result::unwrap).count() > 0);
            let mut epoch = stream(&data, workers, fewer).epoch(0);
            let last = epoch.by_ref().last().unwrap();
            assert!(matches!(last, Err(Error::TooManySkipped { most: 2, .. })));
        }
    }
}

#[test]
fn the_unreadable_rest_of_a_shard_ends_the_epoch_or_is_listed() {
    for workers in [0, 1, 2, 5] {
        let data = Arc::new(Flaky {
            closed_from: 5,
            ..Arc::into_inner(Flaky::new(&[], 0, false)).unwrap()
        });
        // Position 4 cannot be read, and after it nothing can be opened.
        let mut epoch = stream(&data, workers, Retry::default()).epoch(0);
        let found: Vec<_> = epoch.by_ref().collect();
        let error = found.last().unwrap().as_ref().unwrap_err().to_string();
        assert!(error.contains("shard 1, sample 4: a planted bad sector"), "{error}");
        assert_eq!(epoch.state().batch as usize, found.len() - 1);
        let mut epoch = stream(&data, workers, Retry::default().skip(9)).epoch(0);
        let seen: usize = epoch.by_ref().map(|batch| batch.unwrap().data.len()).sum();
        assert_eq!(seen, 8 + 4);
        let skipped: Vec<String> = epoch.skipped().iter().map(ToString::to_string).collect();
        assert!(skipped[0].starts_with("shard 1, sample 4: "), "{skipped:?}");
        assert!(skipped[1].starts_with("shard 1 from sample 5 on: "), "{skipped:?}");
        assert_eq!(skipped.len(), 2);
    }
}

/// A dataset and batch sampler that panics in unexpected places.
#[derive(Debug)]
struct Rude(&'static str);

impl Dataset for Rude {
    type Item = i64;

    fn len(&self) -> usize {
        assert_ne!(self.0, "len", "a planted panic");
        4
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<i64> {
        if self.0 == "payload" {
            struct Bomb;
            impl Drop for Bomb {
                fn drop(&mut self) {
                    panic!("a planted panic");
                }
            }
            std::panic::panic_any(Bomb);
        }
        Ok(index as i64)
    }

    fn describe(&self) -> String {
        assert_ne!(self.0, "describe", "a planted panic");
        String::new()
    }
}

impl BatchSampler for Rude {
    fn describe(&self) -> String {
        String::new()
    }

    fn batches(&self, _: usize, epoch: u64, _: &Generator) -> Result<Vec<Vec<usize>>> {
        assert!(self.0 != "sampler" || epoch > 0, "a planted panic");
        Ok(vec![vec![0, 1], vec![2, 3]])
    }
}

/// A sample that panics once when it is dropped.
struct Grudge(Arc<AtomicU32>);

impl Drop for Grudge {
    fn drop(&mut self) {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) != 2, "a planted panic");
    }
}

#[test]
fn no_callback_can_end_the_program() {
    hush();
    for workers in [0, 1, 2] {
        for what in ["len", "sampler", "payload", "describe", "none"] {
            let loader = DataLoader::builder(Rude(what))
                .batch_sampler(Rude(what))
                .workers(workers)
                .persistent_workers(true)
                .build()
                .unwrap();
            let mut epoch = loader.epoch(0);
            let first = epoch.next().unwrap();
            assert_eq!(first.is_err(), !["describe", "none"].contains(&what), "{what}");
            if what == "describe" {
                assert!(matches!(epoch.state(), Err(Error::Callback { .. })));
            }
            if let Err(error) = first {
                assert!(error.to_string().contains("panicked: "), "{error}");
            }
            drop(epoch);
            let next = loader.epoch(1).filter(Result::is_ok).count();
            assert_eq!(next, if ["len", "payload"].contains(&what) { 0 } else { 2 }, "{what}");
        }
        let collate = |samples: Vec<i64>| -> Result<i64> {
            assert!(!samples.contains(&3), "a planted panic");
            Ok(samples[0])
        };
        let loader = DataLoader::builder_with(Memory::new((0..6).collect::<Vec<i64>>()), collate)
            .batch_size(2)
            .workers(workers)
            .build()
            .unwrap();
        let found: Vec<_> = loader.epoch(0).collect();
        assert!(matches!(found[1], Err(Error::Panic { batch: 1, sample: None, .. })));
        assert_eq!((found[0].is_ok(), found[2].is_ok()), (true, true));
    }
}

#[test]
fn values_that_panic_when_dropped_leave_the_workers_whole() {
    hush();
    let drops = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&drops);
    let data = Memory::new(vec![(); 12]).map(move |(), _| Ok(Grudge(Arc::clone(&count))));
    let loader = DataLoader::builder_with(data, Keep)
        .workers(2)
        .prefetch(4)
        .persistent_workers(true)
        .build()
        .unwrap();
    // The loader drops batches that nobody takes.
    drop(loader.epoch(0));
    while drops.load(Ordering::SeqCst) < 3 {
        drop(loader.epoch(1));
    }
    assert_eq!(loader.epoch(2).filter(Result::is_ok).count(), 12);
}
