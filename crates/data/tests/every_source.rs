//! Every source resumes anywhere: after any batch, twice in an epoch, and after an error, with any
//! number of workers. A source missing from the table fails the test.

#[cfg(feature = "parquet")]
#[path = "common/parquet.rs"]
mod files;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use samebits_data::{
    ByteOrder, Collate, CsvOptions, DataLoader, Dataset, DatasetExt, Element, Error, JsonLines,
    JsonShards, Lines, LoaderState, Memory, Result, Rows, SampleContext, ShardedDataset,
    ShardedDatasetExt, StreamLoader, StreamState, Tar, TarShards,
};
use samebits_rng::Generator;

/// Types that only delegate to another source.
const WRAPPERS: [&str; 2] = ["Arc", "Box"];

/// Runs the proof for each source of this build, and returns the names of all.
fn prove_all(folder: &Path) -> BTreeSet<&'static str> {
    let mut proven = BTreeSet::new();
    let mut prove = |name, resumes: &dyn Fn()| {
        resumes();
        proven.insert(name);
    };
    let bytes: Vec<u8> = (0..=255).collect();
    let rows = || {
        let path = write(folder, "rows.bin", &bytes[..176]);
        Rows::open_raw(path, 0, Element::U16, ByteOrder::Big, &[4]).unwrap()
    };
    let tokens = || {
        let path = write(folder, "tokens.bin", &bytes[..90]);
        Rows::open_raw(path, 0, Element::U16, ByteOrder::Little, &[]).unwrap()
    };
    let csv = (0..22).map(|i| format!("{i},{},{}\n", i * i, i % 3)).collect::<String>();
    let json = (0..22).map(|i| format!("[{i}, {}]\n", i * i)).collect::<String>();
    let memory = || Memory::new((0..22_i64).collect());
    let names = |i: usize| [format!("{i:02}.a"), format!("{i:02}.b")];
    let tar = tar((0..22).flat_map(names));

    prove("Memory", &|| indexed(memory()));
    prove("Table", &|| indexed(CsvOptions::new().parse("t.csv", csv.as_bytes()).unwrap()));
    prove("Rows", &|| indexed(rows().typed::<u16>()));
    prove("Labels", &|| indexed(tokens().into_labels().unwrap()));
    prove("Windows", &|| indexed(tokens().into_windows(3, 2).unwrap().typed::<u16>()));
    prove("JsonLines", &|| {
        indexed(JsonLines::<(i64, i64)>::open(write(folder, "a.jsonl", json.as_bytes())).unwrap());
    });
    prove("Tar", &|| indexed(Tar::open(write(folder, "a.tar", &tar)).unwrap()));
    prove("Map", &|| indexed(rows().map(|row, cx| Ok((row, cx.rng().next_block())))));
    prove("Subset", &|| indexed(rows().subset((3..21).rev().collect()).unwrap()));
    prove("Concat", &|| indexed(rows().concat(rows()).unwrap()));
    prove("Zip", &|| indexed(rows().zip(memory()).unwrap()));

    let two = |name: &str, content: &[u8]| {
        let paths = [format!("1{name}"), format!("2{name}"), format!("3{name}")];
        paths.map(|path| write(folder, &path, content)).to_vec()
    };
    prove("Lines", &|| streamed(Lines::new(two(".csv", csv.as_bytes()))));
    prove("JsonShards", &|| {
        streamed(JsonShards::<(i64, i64)>::new(two(".jsonl", json.as_bytes())));
    });
    prove("TarShards", &|| streamed(TarShards::new(two(".tar", &tar))));

    #[cfg(feature = "images")]
    prove("ImageFolder", &|| {
        for i in 0..22_u8 {
            let class = folder.join("images").join(["cat", "dog"][usize::from(i) % 2]);
            fs::create_dir_all(&class).unwrap();
            write(&class, &format!("{i}.pgm"), &[b"P5 2 1 255\n", &[i, i + 1][..]].concat());
        }
        indexed(samebits_data::ImageFolder::open(folder.join("images")).unwrap());
    });
    #[cfg(feature = "parquet")]
    {
        let paths = two(".parquet", &files::file(&[9, 0, 13], true));
        prove("Parquet", &|| indexed(samebits_data::Parquet::open(&paths[0]).unwrap()));
        prove("ParquetShards", &|| {
            streamed(samebits_data::ParquetShards::new(paths.clone()).unwrap());
        });
    }
    // Sources that this build lacks are proven by the build that has them.
    if cfg!(not(feature = "images")) {
        proven.insert("ImageFolder");
    }
    if cfg!(not(feature = "parquet")) {
        proven.extend(["Parquet", "ParquetShards"]);
    }
    proven
}

#[test]
fn every_source_resumes_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = BTreeSet::new();
    implementors(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut expected);
    for wrapper in WRAPPERS {
        assert!(expected.remove(wrapper), "{wrapper} is no source any more");
    }
    let proven: BTreeSet<String> = prove_all(dir.path()).into_iter().map(str::to_owned).collect();
    assert_eq!(proven, expected, "in the table (left) and in the crate (right)");
}

/// Adds the names of the types in a folder that implement `Dataset` or `ShardedDataset`.
fn implementors(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            implementors(&path, found);
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for line in code.lines().filter(|line| line.starts_with("impl")) {
            if let Some((_, name)) = line.split_once("Dataset for ") {
                let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
                found.insert(name[..end].to_owned());
            }
        }
    }
}

/// A collate function that keeps the samples and draws a number for the batch.
struct Drawn;

impl<S: Send + 'static> Collate<S> for Drawn {
    type Batch = (Vec<S>, [u32; 4]);

    fn collate(&self, samples: Vec<S>, rng: &mut Generator) -> Result<Self::Batch> {
        Ok((samples, rng.next_block()))
    }
}

/// Describes a sample, and draws a number. It fails while it is `armed`.
fn sample<T: Debug>(
    item: &T,
    cx: &mut SampleContext<'_>,
    armed: &AtomicBool,
) -> Result<(String, [u32; 4])> {
    if armed.load(Ordering::SeqCst) && cx.index() % 7 == 4 {
        return Err(Error::other("a planted error"));
    }
    Ok((format!("{item:?}"), cx.rng().next_block()))
}

fn indexed<D: Dataset<Item: Debug>>(data: D) {
    let armed = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&armed);
    let data = DatasetExt::map(data, move |item, cx| sample(&item, cx, &fails));
    let data = Arc::new(data);
    let loader = |workers| {
        let builder = DataLoader::builder_with(Arc::clone(&data), Drawn).batch_size(3).seed(9);
        builder.shuffle(true).workers(workers).build().unwrap()
    };
    let samples = loader(0).epoch(2).map(|batch| batch.unwrap().data.0.len());
    assert_eq!(samples.sum::<usize>(), data.len());
    let start = loader(0).epoch(2).state().unwrap();
    resumes(&armed, start, |workers, state: &LoaderState, most| {
        let mut epoch = loader(workers).resume(state).unwrap();
        let batches = epoch.by_ref().take(most).map_while(Result::ok).collect();
        (batches, epoch.state().unwrap())
    });
}

fn streamed<D: ShardedDataset<Item: Debug>>(data: D) {
    let armed = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&armed);
    let data = ShardedDatasetExt::map(data, move |item, cx| sample(&item, cx, &fails));
    let data = Arc::new(data);
    let records = (0..data.shards()).map(|shard| data.open(shard, 0).unwrap().count());
    let records: usize = records.sum();
    for window in [1, 4, 1000] {
        let loader = |workers| {
            let builder = StreamLoader::builder_with(Arc::clone(&data), Drawn).batch_size(3);
            let builder = builder.seed(9).shuffle(true).window(window).lanes(2);
            builder.workers(workers).build().unwrap()
        };
        let samples = loader(0).epoch(2).map(|batch| batch.unwrap().data.0.len());
        assert_eq!(samples.sum::<usize>(), records);
        let start = loader(0).epoch(2).state().clone();
        resumes(&armed, start, |workers, state: &StreamState, most| {
            let mut epoch = loader(workers).resume(state).unwrap();
            let batches = epoch.by_ref().take(most).map_while(Result::ok).collect();
            (batches, epoch.state().clone())
        });
    }
}

/// Tests resuming. `load` returns a limited number of batches from a state on, up to the first
/// error, and the state after them.
fn resumes<B, S>(armed: &AtomicBool, start: S, load: impl Fn(usize, &S, usize) -> (Vec<B>, S))
where
    B: PartialEq + Debug,
    S: Clone + serde::Serialize + serde::de::DeserializeOwned,
{
    let saved =
        |state: &S| -> S { serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap() };
    let (whole, _) = load(0, &start, usize::MAX);
    assert!(whole.len() > 5, "only {} batches", whole.len());
    for first in 0..=whole.len() {
        let workers = first % 3;
        let (mut found, state) = load(workers, &start, first);
        assert_eq!(found.len(), first);
        // Interrupted again two batches later, and once before any batch.
        let (more, state) = load(2 - workers, &saved(&state), 2);
        found.extend(more);
        let (none, state) = load(workers, &saved(&state), 0);
        assert_eq!(none, []);
        found.extend(load(1, &saved(&state), usize::MAX).0);
        assert_eq!(found, whole, "interrupted after {first} batches");
    }
    for workers in [0, 2] {
        armed.store(true, Ordering::SeqCst);
        let (mut found, state) = load(workers, &start, usize::MAX);
        armed.store(false, Ordering::SeqCst);
        assert!(found.len() < whole.len(), "the planted error did not strike");
        found.extend(load(2 - workers, &saved(&state), usize::MAX).0);
        assert_eq!(found, whole, "after an error with {workers} workers");
    }
}

fn tar(names: impl Iterator<Item = String>) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.set_size(name.len() as u64);
        tar.append_data(&mut header, &name, name.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}
