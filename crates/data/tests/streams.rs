//! Sharded datasets: one order for any number of workers, resumed anywhere.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use samebits_data::{
    Determinism, Error, Keep, Lines, Records, Result, Retry, SampleContext, ShardedDataset,
    StreamBatch, StreamLoader, StreamState,
};
use samebits_rng::{Draw, Generator};

/// Shards of numbers: shard *s* holds `lengths[s]` records.
struct Numbers {
    lengths: Vec<u64>,
    sleeps: bool,
    /// A record that cannot be read, one that cannot be decoded, and one that panics.
    unreadable: Option<(usize, u64)>,
    undecodable: Option<u64>,
    cursed: Option<u64>,
}

impl Numbers {
    fn new(lengths: &[u64]) -> Self {
        Numbers {
            lengths: lengths.to_vec(),
            sleeps: false,
            unreadable: None,
            undecodable: None,
            cursed: None,
        }
    }
}

impl ShardedDataset for Numbers {
    type Raw = u64;
    type Item = (u64, u32);

    fn shards(&self) -> usize {
        self.lengths.len()
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<u64>> {
        let unreadable = self.unreadable;
        let records = (skip.min(self.lengths[shard])..self.lengths[shard]).map(move |place| {
            if unreadable == Some((shard, place)) {
                return Err(Error::other("bad sector"));
            }
            Ok(shard as u64 * 1000 + place)
        });
        Ok(Box::new(records))
    }

    fn sample(&self, raw: u64, cx: &mut SampleContext<'_>) -> Result<(u64, u32)> {
        if self.sleeps {
            thread::sleep(Duration::from_micros(raw * 7919 % 150));
        }
        if self.undecodable == Some(raw) {
            return Err(Error::other("bad checksum"));
        }
        assert_ne!(self.cursed, Some(raw), "cursed");
        Ok((raw, cx.rng().next_block()[0]))
    }
}

type Loader = StreamLoader<Arc<Numbers>>;

fn loader(data: &Arc<Numbers>, lanes: usize, workers: usize) -> Loader {
    StreamLoader::builder(data.clone())
        .batch_size(3)
        .shuffle(true)
        .lanes(lanes)
        .seed(4)
        .workers(workers)
        .prefetch(1)
        .build()
        .unwrap()
}

type Batch = StreamBatch<(Vec<u64>, Vec<u32>)>;

fn collect(epoch: impl Iterator<Item = Result<Batch>>) -> Vec<Batch> {
    epoch.collect::<Result<_>>().unwrap()
}

const LENGTHS: [u64; 11] = [5, 0, 13, 1, 3, 8, 0, 0, 2, 21, 6];

/// Fails if `test` does not end, so that a deadlock does not block the other tests.
fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        test();
        drop(done);
    });
    let outcome = ended.recv_timeout(Duration::from_secs(60));
    assert_ne!(outcome, Err(std::sync::mpsc::RecvTimeoutError::Timeout), "a deadlock");
    thread.join().unwrap();
}

#[test]
fn workers_change_nothing_and_every_record_comes_once() {
    within_a_minute(check_workers);
}

fn check_workers() {
    let data = Arc::new(Numbers { sleeps: true, ..Numbers::new(&LENGTHS) });
    for lanes in [1, 3, 5, 20] {
        let expected: Vec<_> = (0..2).map(|e| collect(loader(&data, lanes, 0).epoch(e))).collect();
        assert_ne!(expected[0], expected[1]);
        for workers in [1, 2, 4, 7] {
            let loader = loader(&data, lanes, workers);
            for epoch in 0..2 {
                assert_eq!(collect(loader.epoch(epoch)), expected[epoch as usize], "{workers}");
            }
        }
        let mut seen: Vec<_> = expected[0].iter().flat_map(|batch| batch.origins.clone()).collect();
        seen.sort_unstable();
        let all = LENGTHS.iter().enumerate();
        let all: Vec<_> = all.flat_map(|(s, &len)| (0..len).map(move |i| (s, i))).collect();
        assert_eq!(seen, all);
        // A record's randomness does not depend on the lanes.
        let mut samples: Vec<(u64, u32)> = expected[0]
            .iter()
            .flat_map(|batch| batch.data.0.iter().copied().zip(batch.data.1.iter().copied()))
            .collect();
        samples.sort_unstable();
        let digest = samples.iter().fold(0_u64, |d, s| d.wrapping_mul(31) + u64::from(s.1));
        let one_lane = collect(loader(&data, 1, 0).epoch(0));
        let mut others: Vec<(u64, u32)> = one_lane
            .iter()
            .flat_map(|batch| batch.data.0.iter().copied().zip(batch.data.1.iter().copied()))
            .collect();
        others.sort_unstable();
        assert_eq!(others.iter().fold(0_u64, |d, s| d.wrapping_mul(31) + u64::from(s.1)), digest);
    }
}

#[test]
fn resuming_anywhere_with_other_workers_gives_the_same_rest() {
    within_a_minute(check_resuming);
}

fn check_resuming() {
    let data = Arc::new(Numbers::new(&LENGTHS));
    let whole = collect(loader(&data, 4, 0).epoch(1));
    for stop in 0..=whole.len() {
        let writer = loader(&data, 4, 3);
        let mut epoch = writer.epoch(1);
        epoch.by_ref().take(stop).for_each(|batch| drop(batch.unwrap()));
        let text = serde_json::to_string(epoch.state()).unwrap();
        drop(epoch);
        let state: StreamState = serde_json::from_str(&text).unwrap();
        for workers in [0, 2] {
            let rest = collect(loader(&data, 4, workers).resume(&state).unwrap());
            assert_eq!(rest, whole[stop..], "batch {stop}");
        }
    }
    let state = loader(&data, 4, 0).epoch(0).state().clone();
    let error = loader(&data, 5, 0).resume(&state).unwrap_err();
    assert!(matches!(error, Error::StateMismatch { field: "number of lanes", .. }), "{error}");
}

#[test]
fn a_bad_sample_or_record_spoils_its_batch_alone() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains("cursed") {
            usual(info);
        }
    }));
    let errors = |data: Numbers| -> Vec<(usize, Option<String>)> {
        let data = Arc::new(data);
        let run = |workers| -> Vec<(usize, Option<String>)> {
            let loader = StreamLoader::builder(data.clone())
                .batch_size(2)
                .lanes(2)
                .workers(workers)
                .build()
                .unwrap();
            let count = |batch: Result<Batch>| match batch {
                Ok(batch) => (batch.origins.len(), None),
                Err(error) => (0, Some(error.to_string().replacen("worker 1", "worker 0", 1))),
            };
            loader.epoch(0).map(count).collect()
        };
        let inline = run(0);
        assert_eq!(run(1), inline);
        assert_eq!(run(2), inline);
        inline
    };
    let text = |s: &str| Some(format!("loader: worker 0, batch {s}"));
    let new = || Numbers::new(&[4, 4, 3]);
    assert_eq!(
        errors(Numbers { undecodable: Some(1001), ..new() }),
        [
            (2, None),
            (0, text("1, shard 1, sample 1: bad checksum")),
            (2, None),
            (2, None),
            (2, None),
            (1, None)
        ]
    );
    assert_eq!(
        errors(Numbers { unreadable: Some((0, 2)), ..new() }),
        [
            (2, None),
            (2, None),
            (0, text("2, shard 0, sample 2: bad sector")),
            (2, None),
            (2, None),
            (1, None)
        ]
    );
    let cursed = errors(Numbers { cursed: Some(3), ..new() });
    assert_eq!(cursed.iter().map(|batch| batch.0).collect::<Vec<_>>(), [2, 2, 0, 2, 2, 1]);
    let error = cursed[2].1.as_deref().unwrap();
    assert!(
        error.starts_with("loader: worker 0, batch 2, shard 0, sample 3: panicked: "),
        "{error}"
    );
}

#[test]
fn options_are_checked() {
    let builder = || StreamLoader::builder_with(Numbers::new(&[1]), Keep);
    for bad in [
        builder().batch_size(0).build(),
        builder().lanes(0).build(),
        builder().prefetch(0).build(),
        builder().workers(2).prefetch(usize::MAX).build(),
        builder().timeout(Duration::from_secs(1)).build(),
    ] {
        assert!(matches!(bad, Err(Error::InvalidOption { .. })));
    }
    let loader = builder().level(Determinism::RunToRun).workers(2).build().unwrap();
    assert_eq!(loader.epoch(0).count(), 1);
    assert_eq!(StreamLoader::builder(Numbers::new(&[])).build().unwrap().epoch(0).count(), 0);
    let dropped = builder().batch_size(2).drop_last(true).build().unwrap();
    assert_eq!(dropped.epoch(0).count(), 0);
}

#[test]
fn lines_of_plain_and_packed_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("a"), "one\r\ntwo\n\nfour").unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"five\n").unwrap();
    fs::write(path("b.gz"), packed.finish().unwrap()).unwrap();
    let lines = |names: &[&str]| {
        let lines = Lines::new(names.iter().map(|name| path(name)).collect());
        StreamLoader::builder(lines).lanes(1).build().unwrap()
    };
    let loader = lines(&["a", "b.gz"]);
    let text: Vec<String> = loader.epoch(0).flat_map(|batch| batch.unwrap().data).collect();
    assert_eq!(text, ["one", "two", "", "four", "five"]);

    fs::write(path("c"), b"fine\n\xff\xfe\n").unwrap();
    let error = lines(&["c"]).epoch(0).nth(1).unwrap().unwrap_err().to_string();
    assert!(error.contains("c, line 2: expected UTF-8, found invalid utf-8"), "{error}");
    let error = lines(&["missing"]).epoch(0).next().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("loader: worker 0, batch 0, shard 0, sample 0: lines: "), "{error}");
    let mut cut = fs::read(path("b.gz")).unwrap();
    cut.truncate(cut.len() - 3);
    fs::write(path("d.gz"), cut).unwrap();
    assert!(lines(&["d.gz"]).epoch(0).any(|batch| batch.is_err()));
}

/// The lengths of shards, most of which are not multiples of a window.
const WINDOWED: [u64; 8] = [7, 0, 12, 5, 1, 30, 4, 9];

fn windowed(window: usize, lanes: usize, workers: usize) -> StreamLoader<Numbers, Keep> {
    let data = Numbers::new(&WINDOWED);
    let loader = StreamLoader::builder_with(data, Keep).batch_size(4).shuffle(true).seed(3);
    loader.window(window).lanes(lanes).workers(workers).build().unwrap()
}

#[test]
fn windows_are_their_definition() {
    for (lanes, window) in [(1, 5), (3, 5), (2, 2), (2, 1000), (2, 1)] {
        let mut shards = std::collections::BTreeMap::<usize, Vec<u64>>::new();
        for batch in windowed(window, lanes, 0).epoch(6) {
            for (shard, place) in batch.unwrap().origins {
                shards.entry(shard).or_default().push(place);
            }
        }
        for (shard, &count) in WINDOWED.iter().enumerate() {
            let found = shards.remove(&shard).unwrap_or_default();
            let count = count as usize;
            let expected = (0..count).step_by(window).flat_map(|first| {
                let generator = Generator::new(3).derive("record").derive("window").fold_in(6);
                let generator = generator.fold_in(shard as u64).fold_in((first / window) as u64);
                let mut order = vec![0_i64; window.min(count - first)];
                let draw = Draw::new(generator.seed(), generator.stream(), generator.offset());
                draw.permutation_into(&mut order).unwrap();
                order.into_iter().map(move |step| first as u64 + step as u64)
            });
            let expected: Vec<u64> = match window {
                1 => (0..count as u64).collect(),
                _ => expected.collect(),
            };
            assert_eq!(found, expected, "shard {shard}, window {window}, {lanes} lanes");
        }
    }
}

#[test]
fn workers_change_no_window() {
    let all = |workers| windowed(5, 3, workers).epoch(1).map(Result::unwrap).collect::<Vec<_>>();
    let whole = all(0);
    for workers in [1, 2, 3, 5] {
        assert_eq!(all(workers), whole);
    }
    let other: Vec<_> = windowed(5, 3, 0).epoch(2).map(Result::unwrap).collect();
    assert_ne!(other, whole);
    for window in [0, 1 << 25] {
        let loader = StreamLoader::builder_with(Numbers::new(&[1]), Keep).window(window);
        let error = loader.build().unwrap_err().to_string();
        assert!(error.contains("must be from 1 to 16777216"), "{error}");
    }
    let mut state = windowed(5, 3, 0).epoch(0).state().clone();
    state.window = 6;
    let error = windowed(5, 3, 0).resume(&state).unwrap_err().to_string();
    assert!(error.starts_with("resume: window is 6 in the saved state, but 5"), "{error}");
    // A state saved before windows existed has none.
    let state = serde_json::to_string(windowed(1, 3, 0).epoch(0).state()).unwrap();
    let state: StreamState = serde_json::from_str(&state.replace("\"window\":1,", "")).unwrap();
    assert!(windowed(1, 3, 0).resume(&state).is_ok());
}

/// Numbers that cannot be read the first time.
struct Shy(Mutex<BTreeSet<u64>>);

impl ShardedDataset for Shy {
    type Raw = u64;
    type Item = u64;

    fn shards(&self) -> usize {
        1
    }

    fn open(&self, _: usize, skip: u64) -> Result<Records<u64>> {
        let read: Vec<bool> =
            (0..20).map(|place| !self.0.lock().unwrap().contains(&place)).collect();
        self.0.lock().unwrap().insert(skip);
        Ok(Box::new((skip..20).map(move |place| match read[place as usize] {
            true => Err(Error::other("a planted bad sector")),
            false => Ok(place),
        })))
    }

    fn sample(&self, raw: u64, cx: &mut SampleContext<'_>) -> Result<u64> {
        Ok(raw + (u64::from(cx.rng().next_block()[0]) << 32))
    }
}

#[test]
fn a_record_of_a_window_is_tried_again() {
    let loader = |shy: bool| {
        let read = if shy { BTreeSet::new() } else { (0..20).collect() };
        let loader = StreamLoader::builder(Shy(Mutex::new(read))).batch_size(3).window(6);
        loader.retry(Retry::times(1)).build().unwrap()
    };
    let batches = |shy| loader(shy).epoch(0).map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(batches(true), batches(false));
}
