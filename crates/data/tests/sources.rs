//! JSON lines and tar files: the same samples by index and in sequence, hostile bytes rejected, and
//! every source resumed anywhere.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use samebits_data::{
    ByteOrder, DataLoader, Dataset, DatasetExt, Element, Error, JsonLines, JsonShards, Keep, Lines,
    Result, Rows, SampleContext, ShardedDataset, ShardedDatasetExt, StreamLoader, Tar, TarSample,
    TarShards, WorkerContext,
};

type Pair = (u64, String);

fn get<D: Dataset>(data: &D, index: usize) -> Result<D::Item> {
    let mut worker = WorkerContext::detached();
    data.get(index, &mut SampleContext::detached(&mut worker, 0, 0, index))
}

fn all<D: Dataset>(data: &D) -> Vec<D::Item> {
    (0..data.len()).map(|index| get(data, index).unwrap()).collect()
}

/// Returns the stream's samples from record `skip` of shard `shard` on.
fn stream<D: ShardedDataset>(data: &D, shard: usize, skip: u64) -> Result<Vec<D::Item>> {
    let mut worker = WorkerContext::detached();
    data.open(shard, skip)?
        .map(|raw| data.sample(raw?, &mut SampleContext::detached(&mut worker, 0, 0, 0)))
        .collect()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns lines of pairs from `first` on.
fn json(first: u64, count: u64) -> Vec<u8> {
    let line = |i: u64| format!("[{i}, \"{}\"]\n", "x".repeat(i as usize % 5)).into_bytes();
    (first..first + count).flat_map(line).collect()
}

/// Returns a tar file of members with these names, each holding its name.
fn tar(names: &[&str]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.set_size(name.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, name.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

fn names(count: usize) -> Vec<String> {
    (0..count).flat_map(|i| [format!("s/{i:03}.TXT"), format!("s/{i:03}.cls")]).collect()
}

fn samples(count: usize) -> Vec<u8> {
    tar(&names(count).iter().map(String::as_str).collect::<Vec<_>>())
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn json_lines_by_index_and_from_front_to_back() {
    let dir = tempfile::tempdir().unwrap();
    // No newline at the end, `\r\n` on another line, and more than one piece of the index.
    let mut text = json(0, 9000);
    text.pop();
    let carriage = text.iter().position(|&byte| byte == b'\n').unwrap();
    text.insert(carriage, b'\r');
    for (name, bytes) in [("a.jsonl", text.clone()), ("a.jsonl.gz", packed(&text))] {
        let path = write(dir.path(), name, &bytes);
        let lines = JsonLines::<Pair>::open(&path).unwrap();
        assert_eq!(lines.len(), 9000);
        assert_eq!(get(&lines, 8999).unwrap(), (8999, "xxxx".to_owned()));
        let shards = JsonShards::<Pair>::new(vec![path]);
        assert_eq!(stream(&shards, 0, 0).unwrap(), all(&lines));
        assert_eq!(stream(&shards, 0, 8990).unwrap(), all(&lines)[8990..]);
        assert_eq!(stream(&shards, 0, u64::MAX).unwrap(), []);
        let error = get(&lines, 9000).unwrap_err();
        assert_eq!(error.to_string(), "json lines: index 9000 is out of range for length 9000");
    }
    assert_eq!(JsonLines::<Pair>::parse("x", Vec::new()).unwrap().len(), 0);
}

/// Numbers in every place that a type may have.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Nested {
    plain: f32,
    rows: Vec<Option<(f32, f64)>>,
    named: BTreeMap<String, Kind>,
    #[serde(default)]
    double: f64,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
enum Kind {
    Unit,
    New(f32),
    Pair(i64, f32),
    Named { x: f32 },
}

#[test]
fn numbers_beyond_the_range_of_f32_are_refused() {
    let line = |number: &str, place: usize| {
        let at = |i| if i == place { number } else { "0.5" };
        format!(
            r#"{{"plain": {}, "rows": [null, [{}, 1e300]], "named": {{"a": "Unit", "b": {{"New": {}}}, "c": {{"Pair": [-3, {}]}}, "d": {{"Named": {{"x": {}}}}}}}, "double": 1e39}}"#,
            at(0),
            at(1),
            at(2),
            at(3),
            at(4)
        )
    };
    let read = |text: String| {
        get(&JsonLines::<Nested>::parse("a.jsonl", format!("\n{text}\n").into_bytes())?, 0)
    };
    let good = read(line("0.5", 0)).unwrap();
    let named = [
        ("a", Kind::Unit),
        ("b", Kind::New(0.5)),
        ("c", Kind::Pair(-3, 0.5)),
        ("d", Kind::Named { x: 0.5 }),
    ];
    let expected = Nested {
        plain: 0.5,
        rows: vec![None, Some((0.5, 1e300))],
        named: named.map(|(name, kind)| (name.to_owned(), kind)).into(),
        double: 1e39,
    };
    assert_eq!(good, expected);
    for place in 0..5 {
        for bad in ["1e39", "-1e39", "3.402824e38"] {
            let text = line(bad, place);
            let column = text.find(bad).unwrap() + bad.len();
            let error = read(text).unwrap_err().to_string();
            let bad: f64 = bad.parse().unwrap();
            let start = "json lines: a.jsonl, line 2, column ";
            assert!(error.starts_with(start) && error.contains("expected JSON of a "), "{error}");
            // The parser's own words, where it knows that the type is f32.
            let ends =
                [&format!("found {bad:e} is beyond the range of f32"), "found number out of range"];
            assert!(ends.iter().any(|end| error.ends_with(*end)), "{error}");
            let found: usize = error[start.len()..].split(':').next().unwrap().parse().unwrap();
            assert!(found.abs_diff(column) <= 1, "{error}, expected column {column}");
        }
        for (good, value) in
            [("3.4028234e38", f32::MAX), ("-3e38", -3e38), ("1e-60", 0.0), ("7", 7.0)]
        {
            let found = read(line(good, place)).unwrap();
            assert!(place > 0 || found.plain == value, "{found:?}");
        }
    }
    let text = b"[1, 0.5]\n[2, 1e39]\n".to_vec();
    let dir = tempfile::tempdir().unwrap();
    let shards = JsonShards::<(i64, f32)>::new(vec![write(dir.path(), "b.jsonl", &text)]);
    let error = stream(&shards, 0, 0).unwrap_err().to_string();
    let told = error.contains("out of range") || error.contains("1e39 is beyond the range of f32");
    assert!(error.contains("line 2") && told, "{error}");
    assert!(read("[]".to_owned()).is_err() && read("{} {}".to_owned()).is_err());
}

/// A byte order mark and blank lines, by index and in sequence, at every resume position.
#[test]
fn marks_and_blank_lines_are_no_samples() {
    let dir = tempfile::tempdir().unwrap();
    let long = [b" \t".repeat(1 << 16), b"\n".to_vec()].concat();
    let all_but_last = [&b"\xef\xbb\xbf\n \t\r\n[1, \"a\"]\r\n"[..], &long, b"\n"].concat();
    for (tail, count) in [
        (&b"[2, \"b\"]"[..], 2),
        (b"[2, \"b\"]\n", 2),
        (b" [2, \"b\"] \n\r\n ", 2),
        (b"\n", 1),
        (b" ", 1),
        (b"", 1),
    ] {
        let text = [&all_but_last, tail].concat();
        for (name, bytes) in [("a.jsonl", text.clone()), ("a.jsonl.gz", packed(&text))] {
            let path = write(dir.path(), name, &bytes);
            let lines = JsonLines::<Pair>::open(&path).unwrap();
            let samples = [(1, "a".to_owned()), (2, "b".to_owned())];
            assert_eq!(all(&lines), samples[..count]);
            assert!(get(&lines, count).is_err());
            for skip in 0..3 {
                let found = stream(&JsonShards::<Pair>::new(vec![path.clone()]), 0, skip);
                assert_eq!(found.unwrap(), samples[..count][count.min(skip as usize)..]);
            }
        }
    }
    // Without any line, and with an invalid line whose number the error names.
    for text in [&b"\xef\xbb\xbf"[..], b"\xef\xbb\xbf\n", b"\n \n", b" "] {
        assert_eq!(JsonLines::<Pair>::parse("x", text.to_vec()).unwrap().len(), 0);
    }
    let path = write(dir.path(), "b.jsonl", b"\n[1, \"a\"]\n\nx\n");
    let error = get(&JsonLines::<Pair>::open(&path).unwrap(), 1).unwrap_err().to_string();
    assert!(error.contains("b.jsonl, line 4, column 1: "), "{error}");
    let shards = JsonShards::<Pair>::new(vec![path]);
    assert_eq!(stream(&shards, 0, 1).unwrap_err().to_string(), error);
    // A mark counts only at the beginning, and garbage after a value is an error.
    for text in [&b"\n\xef\xbb\xbf[1, \"a\"]"[..], b"[1, \"a\"] x", b"[1, \"a\"]]", b"\xef\xbb"] {
        let lines = JsonLines::<Pair>::parse("x", text.to_vec()).unwrap();
        assert!(matches!(get(&lines, 0), Err(Error::Malformed { .. })), "{text:?}");
    }
    // In a text file, empty lines are samples.
    let path = write(dir.path(), "c.txt", b"\xef\xbb\xbfa\n\nb");
    assert_eq!(stream(&Lines::new(vec![path.clone()]), 0, 0).unwrap(), ["a", "", "b"]);
    assert_eq!(stream(&Lines::new(vec![path]), 0, 1).unwrap(), ["", "b"]);
}

#[test]
fn json_lines_that_are_not_what_they_should_be() {
    let dir = tempfile::tempdir().unwrap();
    let text = b"[1, \"a\"]\n[2, 3]\n\n[4, \"b\"";
    let path = write(dir.path(), "f.jsonl", text);
    let lines = JsonLines::<Pair>::open(&path).unwrap();
    let shards = JsonShards::<Pair>::new(vec![path.clone()]);
    let place = |text: &str| format!("json lines: {}, line {text}", path.display());
    let ty = std::any::type_name::<Pair>();
    for (index, expected) in [
        (
            1,
            place(&format!(
                "2, column 5: expected JSON of a {ty}, found invalid type: integer `3`, expected a string"
            )),
        ),
        (
            2,
            place(&format!("4, column 7: expected JSON of a {ty}, found EOF while parsing a list")),
        ),
    ] {
        assert_eq!(get(&lines, index).unwrap_err().to_string(), expected);
        assert_eq!(stream(&shards, 0, index as u64).unwrap_err().to_string(), expected);
    }
    let expected = place(
        "1: expected a line of at most 7 bytes, found more: raise the limit, or check whether \
         the file is damaged",
    );
    assert_eq!(get(&lines.clone().most_bytes(7), 0).unwrap_err().to_string(), expected);
    assert_eq!(stream(&shards.most_bytes(7), 0, 0).unwrap_err().to_string(), expected);
    assert_eq!(get(&lines.clone().most_bytes(8), 0).unwrap(), (1, "a".to_owned()));
    // If a file shrinks, the missing lines are errors.
    fs::write(&path, &text[..9]).unwrap();
    assert_eq!(get(&lines, 0).unwrap().0, 1);
    assert!(matches!(get(&lines, 1), Err(Error::Malformed { .. })));
    // A line that is too long is rejected before it is read.
    assert!(matches!(get(&lines.most_bytes(3), 1), Err(Error::TooLarge { .. })));
}

#[test]
fn samples_of_tar_files_by_index_and_from_front_to_back() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("{}/{}.json", "d".repeat(150), "n".repeat(150));
    let members = ["a/1.txt", "a/1.SEG.txt", "readme", "__m.x__", "2.txt", &long, "b/1.txt"];
    for (name, bytes) in [("a.tar", tar(&members)), ("a.tar.gz", packed(&tar(&members)))] {
        let path = write(dir.path(), name, &bytes);
        let samples = Tar::open(&path).unwrap();
        let found = all(&samples);
        let keys: Vec<_> = found.iter().map(TarSample::key).collect();
        assert_eq!(keys, ["a/1", "2", long.strip_suffix(".json").unwrap(), "b/1"]);
        assert_eq!(found[0].field("seg.txt").unwrap(), b"a/1.SEG.txt");
        assert_eq!(found[2].field("json").unwrap(), long.as_bytes());
        assert_eq!(
            found[0].field("png").unwrap_err().to_string(),
            "tar: sample \"a/1\": expected a field \"png\", found seg.txt, txt"
        );
        let shards = TarShards::new(vec![path]);
        for skip in 0..6 {
            assert_eq!(stream(&shards, 0, skip).unwrap(), found[4.min(skip as usize)..]);
        }
    }
    assert_eq!(Tar::parse("empty.tar", Vec::new()).unwrap().len(), 0);
    assert_eq!(Tar::parse("zeros.tar", vec![0; 1024]).unwrap().len(), 0);
}

#[test]
fn extensions_of_pax_name_and_size_a_member() {
    let mut tar = tar::Builder::new(Vec::new());
    let name = "n".repeat(300) + ".txt";
    tar.append_pax_extensions([("path", name.as_bytes()), ("size", b"3")]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_path("short").unwrap();
    header.set_size(3);
    header.set_cksum();
    tar.append(&header, &b"abc"[..]).unwrap();
    let samples = Tar::parse("pax.tar", tar.into_inner().unwrap()).unwrap();
    assert_eq!(get(&samples, 0).unwrap().field("txt").unwrap(), b"abc");

    let damaged = |key: &str, value: &[u8]| {
        let mut tar = tar::Builder::new(Vec::new());
        tar.append_pax_extensions([(key, value)]).unwrap();
        tar.append(&header, &b"abc"[..]).unwrap();
        tar.into_inner().unwrap()
    };
    let error = Tar::parse("pax.tar", damaged("size", b"-1")).unwrap_err().to_string();
    assert!(
        error.contains("offset 0: expected an extended header of PAX, found a size of \"-1\""),
        "{error}"
    );
    let error = Tar::parse("pax.tar", damaged("size", b"18446744073709551615")).unwrap_err();
    assert!(error.to_string().contains("expected a size that can be addressed"), "{error}");
    let error = Tar::parse("pax.tar", damaged("comment", &[b'c'; 1 << 16])).unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: "an extended header", .. }), "{error}");

    header.set_path("short.txt").unwrap();
    header.set_cksum();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_pax_extensions([("GNU.sparse.major", &b"1"[..]), ("comment", b"c")]).unwrap();
    tar.append(&header, &b"abc"[..]).unwrap();
    let sparse = Tar::parse("pax.tar", tar.into_inner().unwrap()).unwrap();
    let error = get(&sparse, 0).unwrap_err().to_string();
    assert!(error.ends_with("found a sparse file"), "{error}");
}

#[test]
fn a_long_name_cut_off_is_an_error() {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    tar.append_data(&mut header, "n".repeat(300) + ".txt", &b"abc"[..]).unwrap();
    let bytes = tar.into_inner().unwrap();
    let error = Tar::parse("long.tar", bytes[..700].to_vec()).unwrap_err().to_string();
    assert!(error.contains("bytes from offset 512"), "{error}");
}

/// Returns a file of three samples, the second of which is invalid.
fn spoiled(kind: tar::EntryType) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, kind) in
        [("1.a", tar::EntryType::Regular), ("2.a", kind), ("3.a", tar::EntryType::Regular)]
    {
        let mut header = tar::Header::new_gnu();
        header.set_path(name).unwrap();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &b""[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn members_that_are_no_files_spoil_their_sample_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, found) in [
        (tar::EntryType::Symlink, "a symbolic link"),
        (tar::EntryType::Link, "a hard link"),
        (tar::EntryType::GNUSparse, "a sparse file"),
        (tar::EntryType::Fifo, "a pipe"),
        (tar::EntryType::Char, "a device"),
        (tar::EntryType::new(b'?'), "a member of an unknown type"),
    ] {
        let path = write(dir.path(), "f.tar", &spoiled(kind));
        let samples = Tar::open(&path).unwrap();
        let shards = TarShards::new(vec![path.clone()]);
        let expected = format!(
            "tar: {}, offset 512: expected a regular file with a name in UTF-8, found {found}",
            path.display()
        );
        assert_eq!(get(&samples, 1).unwrap_err().to_string(), expected);
        assert_eq!(stream(&shards, 0, 1).unwrap_err().to_string(), expected);
        assert_eq!(get(&samples, 2).unwrap().key(), "3");
        assert_eq!(stream(&shards, 0, 2).unwrap()[0].key(), "3");
    }
    let twice = Tar::parse("f.tar", tar(&["1.a", "1.A"])).unwrap();
    let error = get(&twice, 0).unwrap_err().to_string();
    assert!(
        error.ends_with("expected each field once, found \"1\" with two fields \"a\""),
        "{error}"
    );
}

/// Members of a sample with others in between, by index and in sequence.
#[test]
fn a_key_that_comes_back_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (names, first, offset, field) in [
        (&["a.img", "b.img", "a.txt", "b.txt"][..], 2, 2048, "txt"),
        (&["x/a.img", "x/b.img", "x/b.txt", "x/a.img"], 2, 3072, "img"),
        (&["a.img", "readme", "a.txt", "b.img", "__x__", "a.cls"], 2, 5120, "cls"),
    ] {
        let key = names[0].split('.').next().unwrap();
        for (name, bytes) in [("a.tar", tar(names)), ("a.tar.gz", packed(&tar(names)))] {
            let path = write(dir.path(), name, &bytes);
            let expected = format!(
                "tar: {}, offset {offset}: expected the members of sample \"{key}\" side by side, \
                 found its field \"{field}\" after another sample",
                path.display()
            );
            assert_eq!(Tar::open(&path).unwrap_err().to_string(), expected);
            let shards = TarShards::new(vec![path]);
            let records = || shards.open(0, 0).unwrap();
            assert_eq!(records().take_while(Result::is_ok).count(), first);
            assert_eq!(records().nth(first).unwrap().unwrap_err().to_string(), expected);
            // Samples that a resume skips count, too.
            let mut rest = shards.open(0, first as u64).unwrap();
            assert_eq!(rest.next().unwrap().unwrap_err().to_string(), expected);
        }
    }
    // A key in two folders is two samples.
    assert_eq!(Tar::parse("f.tar", tar(&["x/a.img", "y/a.img"])).unwrap().len(), 2);
}

#[test]
fn sizes_and_checksums_of_tar_files_are_checked() {
    let bytes = samples(3);
    let dir = tempfile::tempdir().unwrap();
    for cut in 0..bytes.len() {
        // Any prefix is read or rejected, packed or not, with no more samples than there are.
        let read = Tar::parse("f.tar", bytes[..cut].to_vec());
        if cut % 512 != 0 {
            assert!(matches!(read, Err(Error::Malformed { .. })) || cut > 3 * 2048, "{cut}");
        }
        if cut % 100 == 0 {
            let path = write(dir.path(), "f.tar.gz", &packed(&bytes[..cut]));
            let streamed = stream(&TarShards::new(vec![path]), 0, 0);
            assert_eq!(read.is_err(), streamed.is_err(), "{cut}");
        }
    }
    let mut damaged = bytes.clone();
    damaged[0] ^= 1;
    let error = Tar::parse("f.tar", damaged).unwrap_err().to_string();
    assert!(error.contains("offset 0: expected a header with checksum"), "{error}");
    // A header that claims more than the file holds.
    let mut header = tar::Header::new_gnu();
    header.set_path("1.a").unwrap();
    header.set_size(1 << 40);
    header.set_cksum();
    let claim = header.as_bytes().to_vec();
    let path = write(dir.path(), "f.tar", &[claim, vec![0; 1024]].concat());
    let error = Tar::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("expected 1099511627776 bytes from offset 512, found the end"),
        "{error}"
    );
    let shards = TarShards::new(vec![path]);
    assert!(matches!(stream(&shards, 0, 0), Err(Error::TooLarge { what: "a sample", .. })));
    let small = Tar::parse("f.tar", bytes).unwrap().most_bytes(17);
    assert!(matches!(get(&small, 0), Err(Error::TooLarge { most: 17, .. })));
    assert!(get(&small.most_bytes(18), 0).is_ok());
}

/// Runs an epoch with one error if `fails`: returns the batches before it, the state then, and the
/// batches from there, interrupted once more.
fn resumed<B: Debug + PartialEq, S>(
    start: impl Fn(Option<&S>) -> Box<dyn Epoch<B, S>>,
    fails: &AtomicBool,
) {
    let rest = |mut epoch: Box<dyn Epoch<B, S>>| {
        std::iter::from_fn(|| epoch.batch()).map(|batch| batch.unwrap()).collect::<Vec<_>>()
    };
    let whole = rest(start(None));
    assert!(whole.len() > 3);
    for first in 0..=whole.len() {
        for second in [0, 1, 2] {
            let mut got = Vec::new();
            let mut epoch = start(None);
            got.extend((0..first).map(|_| epoch.batch().unwrap().unwrap()));
            let mut epoch = start(Some(&epoch.state()));
            got.extend((0..second).map_while(|_| epoch.batch()).map(Result::unwrap));
            let state = epoch.state();
            drop(epoch);
            // An error in the next batch.
            fails.store(true, Ordering::SeqCst);
            let mut epoch = start(Some(&state));
            if got.len() < whole.len() {
                epoch.batch().unwrap().unwrap_err();
            }
            let state = epoch.state();
            fails.store(false, Ordering::SeqCst);
            got.extend(rest(start(Some(&state))));
            assert_eq!(got, whole, "stopped after {first} and {second} batches");
        }
    }
}

/// A running epoch of either loader.
trait Epoch<B, S> {
    fn batch(&mut self) -> Option<Result<B>>;
    fn state(&self) -> S;
}

impl<D: Dataset> Epoch<Vec<D::Item>, samebits_data::LoaderState> for samebits_data::Epoch<D, Keep> {
    fn batch(&mut self) -> Option<Result<Vec<D::Item>>> {
        self.next().map(|batch| batch.map(|batch| batch.data))
    }

    fn state(&self) -> samebits_data::LoaderState {
        samebits_data::Epoch::state(self).unwrap()
    }
}

impl<D: ShardedDataset> Epoch<Vec<D::Item>, samebits_data::StreamState>
    for samebits_data::StreamEpoch<D, Keep>
{
    fn batch(&mut self) -> Option<Result<Vec<D::Item>>> {
        self.next().map(|batch| batch.map(|batch| batch.data))
    }

    fn state(&self) -> samebits_data::StreamState {
        samebits_data::StreamEpoch::state(self).clone()
    }
}

/// Returns a sample with its random number, or fails while `fails` is set.
fn drawn<T>(
    fails: &Arc<AtomicBool>,
) -> impl Fn(T, &mut SampleContext<'_>) -> Result<(T, u32)> + Send + Sync + use<T> {
    let fails = Arc::clone(fails);
    move |item, cx| match fails.load(Ordering::SeqCst) {
        true => Err(Error::other("a planted error")),
        false => Ok((item, cx.rng().next_block()[0])),
    }
}

fn indexed_resumes<D>(data: D)
where
    D: Dataset,
    D::Item: Clone + Debug + PartialEq,
{
    let fails = Arc::new(AtomicBool::new(false));
    let data = Arc::new(data.map(drawn(&fails)));
    let start = |state: Option<&_>| -> Box<dyn Epoch<_, _>> {
        let loader = DataLoader::builder_with(data.clone(), Keep).batch_size(3).shuffle(true);
        let loader = loader.seed(3).workers(usize::from(state.is_some())).build().unwrap();
        Box::new(state.map_or_else(|| loader.epoch(1), |state| loader.resume(state).unwrap()))
    };
    resumed(start, &fails);
}

fn stream_resumes<D>(data: D)
where
    D: ShardedDataset,
    D::Item: Clone + Debug + PartialEq,
{
    let fails = Arc::new(AtomicBool::new(false));
    let data = Arc::new(data.map(drawn(&fails)));
    let start = |state: Option<&_>| -> Box<dyn Epoch<_, _>> {
        let loader = StreamLoader::builder_with(data.clone(), Keep).batch_size(3).shuffle(true);
        let loader = loader.lanes(2).seed(3).workers(usize::from(state.is_some()));
        let loader = loader.build().unwrap();
        Box::new(state.map_or_else(|| loader.epoch(1), |state| loader.resume(state).unwrap()))
    };
    resumed(start, &fails);
}

#[test]
fn json_lines_resume_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let a = write(dir.path(), "a.jsonl", &json(0, 13));
    let b = write(dir.path(), "b.jsonl.gz", &packed(&json(13, 8)));
    indexed_resumes(JsonLines::<Pair>::open(&a).unwrap());
    stream_resumes(JsonShards::<Pair>::new(vec![a, b]));
}

#[test]
fn tar_files_resume_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let a = write(dir.path(), "a.tar", &samples(13));
    let b = write(dir.path(), "b.tar.gz", &packed(&samples(8)));
    indexed_resumes(Tar::open(&a).unwrap());
    stream_resumes(TarShards::new(vec![a, b]));
}

#[test]
fn windows_of_tokens_are_slices_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let tokens: Vec<u32> = (0..50).map(|i| u32::MAX - i * i).collect();
    let bytes: Vec<u8> =
        [9, 9].into_iter().chain(tokens.iter().flat_map(|token| token.to_be_bytes())).collect();
    let path = write(dir.path(), "tokens.bin", &bytes);
    let rows = || Rows::open_raw(&path, 2, Element::U32, ByteOrder::Big, &[]).unwrap();
    for length in [1, 2, 7, 50, 51, usize::MAX] {
        for stride in [1, 3, 50, usize::MAX] {
            let windows = rows().into_windows(length, stride).unwrap();
            let expected: Vec<Vec<i64>> = (0..50_usize)
                .step_by(stride)
                .filter_map(|start| tokens.get(start..start.checked_add(length)?))
                .map(|window| window.iter().map(|&token| i64::from(token)).collect())
                .collect();
            assert_eq!(all(&windows), expected, "{length} every {stride}");
            assert!(get(&windows, expected.len()).is_err());
        }
    }
    assert_ne!(
        rows().into_windows(5, 4).unwrap().describe(),
        rows().into_windows(5, 5).unwrap().describe()
    );
    assert!(!rows().describe().is_empty());
    assert_eq!(Dataset::describe(&Arc::new(rows())), rows().describe(), "behind a pointer");
    let error = rows().into_windows(0, 1).unwrap_err().to_string();
    assert_eq!(error, "raw rows: length of a window is 0: must be at least 1");
    assert!(rows().into_windows(1, 0).is_err());
    let pairs = Rows::open_raw(&path, 2, Element::U32, ByteOrder::Big, &[2]).unwrap();
    assert!(pairs.into_windows(1, 1).is_err());
    indexed_resumes(rows().into_windows(5, 4).unwrap());
}
