//! Every file format: the data read, and the errors of damaged files.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use samebits_data::{
    BatchSampler, ByteOrder, CsvOptions, DataLoader, Dataset, DatasetExt, Element, Error, Keep,
    Label, Lines, LoaderState, Memory, Place, Result, Retry, Rows, SampleContext, StreamLoader,
    StreamState, WorkerContext,
};
use samebits_rng::Generator;

fn get<D: Dataset>(data: &D, index: usize) -> Result<D::Item> {
    let mut worker = WorkerContext::detached();
    data.get(index, &mut SampleContext::detached(&mut worker, 0, 0, index))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a safetensors file with the given header and data.
fn tensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

const HEADER: &str = r#"{"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"y":{"dtype":"I64","shape":[2],"data_offsets":[16,32]}}"#;

fn two_tensors() -> Vec<u8> {
    let x = [1.0_f32, 2.0, 3.0, f32::MIN_POSITIVE].map(f32::to_le_bytes).concat();
    let y = [7_i64, -1].map(i64::to_le_bytes).concat();
    tensors(HEADER, &[x, y].concat())
}

#[test]
fn csv_reads_numbers_headers_labels_and_gzip() {
    let text = b"a;b;c\r\n 1 ;2.5;-3\n\"4\";1e-3;5\n";
    let options = CsvOptions::new().header(true).delimiter(b';').label(Label::Column(2));
    for (name, bytes) in [("t.csv", text.to_vec()), ("t.csv.gz", gzip(text))] {
        let table = options.parse(name, &bytes).unwrap();
        assert_eq!(table.values(), [1.0, 2.5, 4.0, 1e-3]);
        assert_eq!(table.labels(), [-3, 5]);
        assert_eq!((table.columns(), table.len()), (2, 2));
    }
    let table = CsvOptions::new().label(Label::None).parse("t", b"1,2\n").unwrap();
    assert_eq!((table.columns(), table.labels()), (2, &[0][..]));
    let empty = CsvOptions::new().parse("t", b"").unwrap();
    assert!(empty.is_empty());
}

/// Integers that f32 does not represent, and text around the numbers.
#[test]
fn csv_rounds_and_cuts_nothing_in_silence() {
    let values = |options: CsvOptions, text: &[u8]| {
        options.label(Label::None).parse("t.csv", text).map(|table| table.values().to_vec())
    };
    let exact = [
        ("16777216", 16777216.0),
        ("-16777218", -16777218.0),
        ("+33554432", 33554432.0),
        ("9007199254740992", 9007199254740992.0),
        ("340282346638528859811704183484516925440", f32::MAX),
        ("0.1", 0.1),
        ("12345679000", 12345679000.0),
        ("16777217.0", 16777216.0),
        ("1.6777217e7", 16777216.0),
        ("1e38", 1e38),
        ("0000000000000000000000000000000000000000000000000000001", 1.0),
    ];
    for (text, number) in exact {
        assert_eq!(values(CsvOptions::new(), text.as_bytes()).unwrap(), [number], "{text}");
    }
    for text in [
        "16777217",
        "-33554433",
        "12345679001",
        "9007199254740993",
        "340282346638528859811704183484516925441",
    ] {
        let table = format!("1,2\n3, {text}\n");
        let error = values(CsvOptions::new(), table.as_bytes()).unwrap_err();
        let place = Place::Field { line: 2, column: 2 };
        assert!(matches!(error, Error::Inexact { place: found, .. } if found == place), "{error}");
        let expected = format!(
            "csv: t.csv, line 2, column 2: {text} has no exact f32: read another type, or permit \
             rounding with `rounded`"
        );
        assert_eq!(error.to_string(), expected);
        let rounded = values(CsvOptions::new().rounded(true), table.as_bytes()).unwrap();
        assert_eq!(rounded, [1.0, 2.0, 3.0, text.parse().unwrap()]);
    }
    // Labels represent every i64, and nothing else.
    let labels = |text: &[u8]| CsvOptions::new().parse("t.csv", text).map(|t| t.labels().to_vec());
    assert_eq!(labels(b"0,9223372036854775807").unwrap(), [i64::MAX]);
    assert!(labels(b"0,9223372036854775808").is_err() && labels(b"0,1.0").is_err());
    // A byte order mark and empty lines are ignored, garbage is an error.
    let marked = values(CsvOptions::new(), b"\xef\xbb\xbf\n1,2\r\n\r\n\n3,4\n\n").unwrap();
    assert_eq!(marked, [1.0, 2.0, 3.0, 4.0]);
    let named = CsvOptions::new().header(true);
    assert_eq!(values(named, b"\xef\xbb\xbfa,b\n1,2").unwrap(), [1.0, 2.0]);
    for text in [&b"1,2x"[..], b"1,2\0", b"1,0x10", b"1,1_000", b"1,inf", b"1,\xef\xbb\xbf2"] {
        assert!(values(CsvOptions::new(), text).is_err(), "{text:?}");
    }
}

#[test]
fn a_truth_value_is_0_or_1() {
    let header = r#"{"x":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}"#;
    let rows = Rows::parse_safetensors("t", tensors(header, &[0, 1, 2]), "x").unwrap();
    assert_eq!(
        (get(&rows, 1).unwrap(), rows.clone().typed::<u8>().row(0).unwrap()),
        (vec![1.0], vec![0])
    );
    for error in [get(&rows, 2).unwrap_err(), rows.typed::<i64>().row(2).unwrap_err()] {
        let place = Place::Offset(8 + header.len() as u64 + 2);
        assert!(matches!(error, Error::Malformed { place: at, .. } if at == place), "{error}");
    }
}

#[test]
fn csv_mistakes_are_named_with_line_and_column() {
    let check = |options: CsvOptions, text: &[u8], expected: &str| {
        let error = options.parse("d.csv", text).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }));
        assert_eq!(error.to_string(), format!("csv: d.csv, {expected}"));
    };
    let new = CsvOptions::new;
    check(new(), b"1,2\n\n3\n", "line 3: expected 2 fields, as in the first row, found 1");
    check(new().columns(3), b"1,2\n", "line 1: expected 3 fields, found 2");
    check(new(), b"1,2\nx,2\n", "line 2, column 1: expected a finite number, found \"x\"");
    check(
        new(),
        b"\n1,2\r\n\r\nx,2\r\n",
        "line 4, column 1: expected a finite number, found \"x\"",
    );
    check(new(), b"nan,2\n", "line 1, column 1: expected a finite number, found \"nan\"");
    check(new(), b"1e99,2\n", "line 1, column 1: expected a finite number, found \"1e99\"");
    check(new(), b",2\n", "line 1, column 1: expected a finite number, found \"\"");
    check(new(), b"1,2.5\n", "line 1, column 2: expected an integer label, found \"2.5\"");
    check(new(), b"1,\xff\n", "line 1, column 2: expected an integer label, found \"\u{fffd}\"");
    check(
        new().labels(0, 9),
        b"1,9\n1,10\n",
        "line 2, column 2: expected a label from 0 to 9, found 10",
    );
    check(
        new().label(Label::Column(5)),
        b"1,2\n",
        "line 1: expected a label in column 6, found 2 fields",
    );
    // A quoted field may span lines; the row is the one where it begins.
    check(
        new(),
        b"1,2\n\"a\nb\",3\n4\n",
        "line 2, column 1: expected a finite number, found \"a\\nb\"",
    );
    let missing = CsvOptions::new().read("no/such/file.csv").unwrap_err();
    assert!(missing.to_string().starts_with("csv: no/such/file.csv: "), "{missing}");
}

#[test]
fn truncated_and_damaged_gzip_is_an_error() {
    let whole = gzip("1,2\n".repeat(500).as_bytes());
    assert_eq!(CsvOptions::new().parse("d.csv.gz", &whole).unwrap().len(), 500);
    for cut in 2..whole.len() {
        let error = CsvOptions::new().parse("d.csv.gz", &whole[..cut]).unwrap_err();
        let Error::Malformed { op: "gzip", place: Place::Offset(at), .. } = error else {
            panic!("{error}")
        };
        assert!(at <= cut as u64);
    }
    let mut damaged = whole.clone();
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 1;
    assert!(CsvOptions::new().parse("d.csv.gz", &damaged).is_err());
}

#[test]
fn files_larger_than_their_limit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = "1,2\n".repeat(1 << 18);
    for (name, bytes) in [("d.csv", text.as_bytes().to_vec()), ("d.csv.gz", gzip(text.as_bytes()))]
    {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let table = CsvOptions::new().most_bytes(text.len()).read(&path).unwrap();
        assert_eq!(table.len(), 1 << 18);
        let error = CsvOptions::new().most_bytes(text.len() - 1).read(&path).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }
    // A thousand times its size when unpacked.
    let bomb = gzip(&vec![b'1'; 64 << 20]);
    let error = CsvOptions::new().most_bytes(1 << 20).parse("bomb.gz", &bomb).unwrap_err();
    assert!(error.to_string().starts_with(
        "gzip: bomb.gz, offset 1048576: expected a file of at most 1048576 bytes, found more"
    ));
    let path = dir.path().join("endless.txt");
    fs::write(&path, [&[b'1'; 100][..], b"\n", &[b'2'; 101], b"\n3\n"].concat()).unwrap();
    let loader =
        StreamLoader::builder(Lines::new(vec![path]).most_bytes(100)).lanes(1).build().unwrap();
    let lines: Vec<_> = loader.epoch(0).collect();
    assert_eq!(lines[0].as_ref().unwrap().data[0].len(), 100);
    let error = lines[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("endless.txt, line 2: expected a line of at most 100 bytes"), "{error}");
}

#[test]
fn numbers_are_exact_unless_rounding_is_permitted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.bin");
    fs::write(&path, [0.5_f64, 0.1, f64::NAN].map(f64::to_le_bytes).concat()).unwrap();
    let rows = Rows::open_raw(&path, 0, Element::F64, ByteOrder::Little, &[1]).unwrap();
    assert_eq!(get(&rows, 0).unwrap(), [0.5]);
    assert_eq!(
        get(&rows, 1).unwrap_err().to_string(),
        format!(
            "raw rows: {}, offset 8: 0.1 has no exact f32: read another type, or permit \
             rounding with `rounded`",
            path.display()
        )
    );
    assert!(get(&rows, 2).unwrap()[0].is_nan());
    assert_eq!(rows.clone().typed::<f64>().row(1).unwrap(), [0.1]);
    assert!(rows.clone().typed::<i64>().row(0).is_err());
    assert_eq!(get(&rows.rounded(), 1).unwrap(), [0.1_f32]);
    let ends = [f64::from(f32::MAX), -1e39, f64::NEG_INFINITY];
    fs::write(&path, ends.map(f64::to_le_bytes).concat()).unwrap();
    let rows = Rows::open_raw(&path, 0, Element::F64, ByteOrder::Little, &[1]).unwrap().rounded();
    assert_eq!(
        (get(&rows, 0).unwrap()[0], get(&rows, 2).unwrap()[0]),
        (f32::MAX, f32::NEG_INFINITY)
    );
    assert_eq!(
        get(&rows, 1).unwrap_err().to_string(),
        format!(
            "raw rows: {}, offset 8: expected a number within the range of f32, found -1e39",
            path.display()
        )
    );
    let ids = [i64::MAX, (1 << 53) + 1, -3];
    fs::write(&path, ids.map(i64::to_le_bytes).concat()).unwrap();
    let rows = Rows::open_raw(&path, 0, Element::I64, ByteOrder::Little, &[3]).unwrap();
    assert_eq!(rows.clone().typed::<i64>().row(0).unwrap(), ids);
    assert!(rows.clone().typed::<f64>().row(0).is_err());
    let rows = Rows::open_raw(&path, 0, Element::U64, ByteOrder::Little, &[3]).unwrap();
    assert!(rows.typed::<i64>().row(0).is_err());
}

#[test]
fn safetensors_rows_and_labels() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.safetensors");
    fs::write(&path, two_tensors()).unwrap();
    let x = Rows::open_safetensors(&path, "x").unwrap();
    let y = Rows::open_safetensors(&path, "y").unwrap().into_labels().unwrap();
    assert_eq!(x.shape(), [2]);
    let data = x.zip(y).unwrap();
    assert_eq!(get(&data, 1).unwrap(), (vec![3.0, f32::MIN_POSITIVE], -1));
    assert!(matches!(get(&data, 2), Err(Error::IndexOutOfRange { len: 2, .. })));

    let text = |bytes: Vec<u8>, tensor| {
        Rows::parse_safetensors("d", bytes, tensor).unwrap_err().to_string()
    };
    assert_eq!(
        text(two_tensors(), "z"),
        "safetensors: d, offset 8: expected a tensor \"z\", found \"x, y\""
    );
    let mut short = two_tensors();
    short.pop();
    assert_eq!(
        text(short, "x"),
        format!(
            "safetensors: d, offset {}: expected 32 bytes of data, as the header says, found 31 bytes",
            8 + HEADER.len()
        )
    );
    assert!(text(tensors("{", &[]), "x").contains("expected a header that lists tensors"));
    assert!(text(vec![255; 20], "x").contains("expected a header of at most 12 bytes"));
    let scalar = r#"{"x":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}"#;
    assert!(text(tensors(scalar, &[1]), "x").contains("at least one dimension"));
    let fp8 = r#"{"x":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[0,1]}}"#;
    assert!(text(tensors(fp8, &[1]), "x").contains("found F8_E5M2"));
}

#[test]
fn raw_rows_are_read_where_they_lie() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.bin");
    fs::write(&path, [9, 9, 9, 1, 0, 2, 0, 3, 0, 4, 0]).unwrap();
    let open = |header, shape: &[usize]| {
        Rows::open_raw(&path, header, Element::U16, ByteOrder::Little, shape)
    };
    let rows = open(3, &[2]).unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(get(&rows, 1).unwrap(), [3.0, 4.0]);
    assert!(matches!(open(2, &[2]), Err(Error::Malformed { place: Place::Offset(2), .. })));
    assert!(matches!(open(12, &[2]), Err(Error::Malformed { .. })));
    assert!(matches!(open(3, &[0]), Err(Error::InvalidOption { .. })));
    assert!(matches!(open(3, &[usize::MAX, 2]), Err(Error::InvalidOption { .. })));
    assert!(matches!(open(3, &[usize::MAX]), Err(Error::InvalidOption { .. })));
}

#[test]
fn a_file_that_is_shortened_while_open_is_an_error_of_its_sample() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.bin");
    fs::write(&path, vec![1; 4000]).unwrap();
    let rows = Rows::open_raw(&path, 0, Element::U8, ByteOrder::Little, &[100]).unwrap();
    let loader = DataLoader::builder(rows).batch_size(4).workers(2).prefetch(1).build().unwrap();
    let mut epoch = loader.epoch(0);
    epoch.next().unwrap().unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1450).unwrap();
    let results: Vec<_> = epoch.collect();
    assert_eq!(results.len(), 9);
    // Batches loaded earlier may be whole; the last cannot be.
    let error = results[8].as_ref().unwrap_err();
    let Error::Sample { sample: 36, batch: 9, source, .. } = error else { panic!("{error}") };
    assert_eq!(
        source.to_string(),
        format!(
            "raw rows: {}, offset 3600: expected 100 bytes from offset 3600, found the end of the \
             file, though the file had 4000 bytes when it was opened",
            path.display()
        )
    );
    // The row that lost its end names the offset at which the file now ends.
    let Err(Error::Sample { source, .. }) = loader.epoch(0).nth(3).unwrap() else { panic!() };
    assert!(matches!(*source, Error::Malformed { place: Place::Offset(1450), .. }), "{source}");
}

#[cfg(feature = "images")]
#[test]
fn image_folders_are_sorted_and_damaged_images_named() {
    use samebits_data::{Channels, ImageFolder};

    let dir = tempfile::tempdir().unwrap();
    for (class, name, pixels) in
        [("b", "2.PGM", [1, 2]), ("b", "10.pgm", [3, 4]), ("a", "x.pgm", [5, 6])]
    {
        fs::create_dir_all(dir.path().join(class)).unwrap();
        let file = [b"P5 2 1 255\n".as_slice(), &pixels].concat();
        fs::write(dir.path().join(class).join(name), file).unwrap();
    }
    fs::write(dir.path().join("a/notes.txt"), "not an image").unwrap();
    let images = ImageFolder::open(dir.path()).unwrap().channels(Channels::Grey);
    let all: Vec<_> = (0..images.len()).map(|i| get(&images, i).unwrap()).collect();
    let pixels: Vec<_> = all.iter().map(|(image, class)| (image.pixels.clone(), *class)).collect();
    assert_eq!(pixels, [(vec![5, 6], 0), (vec![3, 4], 1), (vec![1, 2], 1)]);
    assert_eq!(images.classes(), ["a", "b"]);
    assert_eq!(Box::new(images.clone()).len(), 3);
    let rgb = images.clone().channels(Channels::Rgb);
    assert_eq!(get(&rgb, 0).unwrap().0.pixels, [5, 5, 5, 6, 6, 6]);

    fs::write(dir.path().join("a/x.pgm"), b"P5 2 1 255\n").unwrap();
    let error = get(&images, 0).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    assert!(error.to_string().contains("x.pgm, offset 0: expected a JPEG, PNG, BMP or PNM image"));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(ImageFolder::open(empty.path()), Err(Error::InvalidOption { .. })));
}

#[test]
fn idx_files_hold_numbers_of_six_types() {
    let numbers: [(u8, &[u8]); 6] = [
        (0x08, &[5]),
        (0x09, &[5]),
        (0x0b, &5_i16.to_be_bytes()),
        (0x0c, &5_i32.to_be_bytes()),
        (0x0d, &5_f32.to_be_bytes()),
        (0x0e, &5_f64.to_be_bytes()),
    ];
    for (kind, five) in numbers {
        let bytes = [&[0, 0, kind, 2], &1_u32.to_be_bytes(), &1_u32.to_be_bytes(), five].concat();
        let rows = Rows::parse_idx("f", bytes).unwrap();
        assert_eq!(get(&rows, 0).unwrap(), [5.0], "type {kind:02x}");
    }
}

/// Returns a valid file with a few bytes changed, and sometimes with its end cut off.
fn damaged(whole: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let len = whole.len();
    let changes = proptest::collection::vec((0..len, any::<u8>()), 0..4);
    (changes, 0..=len, any::<bool>()).prop_map(move |(changes, cut, cuts)| {
        let mut bytes = whole.clone();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if cuts {
            bytes.truncate(cut);
        }
        bytes
    })
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR";

/// Reads up to `most` bytes: more than any header takes.
#[test]
fn a_gzip_file_without_bytes_is_a_shard_that_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gz");
    fs::write(&path, b"").unwrap();
    let loader = StreamLoader::builder(Lines::new(vec![path])).build().unwrap();
    let errors: Vec<_> = loader.epoch(0).take(5).map(|batch| batch.unwrap_err()).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors.iter().all(|error| error.to_string().contains("unexpected end of file")));
}

fn any_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..most)
}

/// Reads all rows of a file that opened.
fn read_rows(rows: Result<Rows>) {
    let Ok(rows) = rows else { return };
    for index in (0..rows.len()).take(100) {
        match get(&rows, index) {
            Ok(row) => assert_eq!(row.len(), rows.shape().iter().product::<usize>()),
            Err(error) => {
                let truth = rows.element() == Element::Bool;
                let expected = matches!(error, Error::Malformed { .. }) && truth
                    || matches!(error, Error::Inexact { .. });
                assert!(expected, "{error}");
            }
        }
        let _ = (rows.clone().typed::<i64>().row(index), rows.clone().typed::<f64>().row(index));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn csv_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = CsvOptions::new().parse("f", &bytes);
    }

    #[test]
    fn csv_text_never_panics(text in "[0-9,;\"\r\n .eE+-]{0,80}", last in any::<bool>()) {
        let label = if last { Label::Last } else { Label::None };
        let _ = CsvOptions::new().label(label).parse("f", text.as_bytes());
    }

    #[test]
    fn csv_gives_back_what_was_written(
        rows in proptest::collection::vec(
            (proptest::array::uniform3(-1e30_f32..1e30), any::<i64>()), 0..20)
    ) {
        let mut text = String::new();
        for ([a, b, c], label) in &rows {
            text += &format!("{a},{b:e},{c:?},{label}\n");
        }
        let table = CsvOptions::new().parse("f", text.as_bytes()).unwrap();
        prop_assert_eq!(table.len(), rows.len());
        for (i, (values, label)) in rows.iter().enumerate() {
            let read: Vec<u32> = table.row(i).unwrap().iter().map(|x| x.to_bits()).collect();
            prop_assert_eq!(read, values.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
            prop_assert_eq!(table.labels()[i], *label);
        }
    }

    #[test]
    fn damaged_gzip_never_panics(bytes in damaged(gzip(b"1,2\n3,4\n5,6\n"))) {
        let _ = CsvOptions::new().parse("f.gz", &bytes);
        read_rows(Rows::parse_idx("f.gz", bytes));
    }

    #[test]
    fn damaged_idx_never_panics(
        bytes in damaged([&[0, 0, 11, 2, 0, 0, 0, 2, 0, 0, 0, 3][..], &[1; 12]].concat())
    ) {
        read_rows(Rows::parse_idx("f", bytes));
    }

    #[test]
    fn random_idx_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 4..60)) {
        bytes[..2].fill(0);
        bytes[3] %= 4;
        read_rows(Rows::parse_idx("f", bytes));
    }

    #[test]
    fn damaged_safetensors_never_panics(bytes in damaged(two_tensors())) {
        read_rows(Rows::parse_safetensors("f", bytes, "x"));
    }

    #[test]
    fn any_bytes_are_csv_or_an_error(
        bytes in any_bytes(4096),
        delimiter in any::<u8>(),
        (header, label) in (any::<bool>(), 0..4_usize),
    ) {
        let label = [Label::None, Label::Last, Label::Column(1), Label::Column(usize::MAX)][label];
        let options = CsvOptions::new().delimiter(delimiter).header(header).label(label);
        let _ = options.parse("f", &bytes);
        let _ = options.parse("f.gz", &bytes);
        let _ = options.parse("f.gz", &[&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0], &bytes[..]].concat());
    }

    #[test]
    fn any_bytes_are_numbers_or_an_error(
        bytes in any_bytes(4096),
        (kind, dimensions) in (8..15_u8, 1..5_u8),
        sizes in proptest::collection::vec(0..20_u32, 4),
    ) {
        let mut idx = vec![0, 0, kind, dimensions];
        idx.extend(sizes.iter().take(dimensions.into()).flat_map(|size| size.to_be_bytes()));
        let element = [1, 1, 1, 2, 4, 4, 8][usize::from(kind) - 8];
        let count: u32 = sizes.iter().take(dimensions.into()).product();
        idx.extend(bytes.iter().cycle().take(count as usize * element));
        read_rows(Rows::parse_idx("f", idx));
        read_rows(Rows::parse_idx("f", bytes.clone()));
        read_rows(Rows::parse_safetensors("f", bytes.clone(), "x"));
        read_rows(Rows::parse_safetensors("f", tensors(HEADER, &bytes), "x"));
        let header = String::from_utf8_lossy(&bytes);
        read_rows(Rows::parse_safetensors("f", tensors(&header, &bytes), "x"));
    }

    #[test]
    fn any_bytes_are_raw_rows_lines_images_and_states_or_an_error(
        bytes in any_bytes(4096),
        (width, kind) in (1..9_usize, 0..13_usize),
        magic in proptest::sample::select(vec![&b""[..], b"P5 ", b"P6 9 9 255\n", b"P7\n", b"BM", PNG, b"\xff\xd8"]),
    ) {
        use Element::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        let kinds = [Bool, U8, I8, U16, I16, U32, I32, U64, I64, F16, Bf16, F32, F64];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bin");
        fs::write(&path, &bytes).unwrap();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let header = (bytes.len() % (width * kinds[kind].size())) as u64;
            let rows = Rows::open_raw(&path, header, kinds[kind], order, &[width]);
            prop_assert!(rows.is_ok());
            read_rows(rows);
        }
        fs::copy(&path, folder.path().join("x.gz")).unwrap();
        for name in ["x.bin", "x.gz"] {
            let lines = Lines::new(vec![folder.path().join(name)]).most_bytes(100);
            let loader = StreamLoader::builder(lines).build().unwrap();
            // At most as many lines as bytes, then an unreadable record and a shard that cannot be
            // opened.
            prop_assert!(loader.epoch(0).count() <= bytes.len() + 2);
        }
        let _ = serde_json::from_slice::<LoaderState>(&bytes);
        let _ = serde_json::from_slice::<StreamState>(&bytes);
        #[cfg(feature = "images")]
        {
            fs::create_dir(folder.path().join("class")).unwrap();
            let image = folder.path().join("class/x.png");
            fs::write(&image, [magic, &bytes].concat()).unwrap();
            let images = samebits_data::ImageFolder::open(folder.path()).unwrap();
            let _ = get(&images, 0);
        }
        let _ = magic;
    }

    #[test]
    fn damaged_stream_states_never_panic(bytes in damaged({
        let loader = StreamLoader::builder(Lines::new(vec![])).build().unwrap();
        serde_json::to_vec(loader.epoch(3).state()).unwrap()
    })) {
        let loader = StreamLoader::builder(Lines::new(vec![])).build().unwrap();
        if let Ok(state) = serde_json::from_slice::<StreamState>(&bytes)
            && let Ok(epoch) = loader.resume(&state)
        {
            prop_assert_eq!(epoch.count(), 0);
        }
    }

    #[test]
    fn damaged_states_never_panic(bytes in damaged({
        let loader = DataLoader::builder(Memory::new(vec![1_i64; 5])).build().unwrap();
        serde_json::to_vec(&loader.epoch(3).state().unwrap()).unwrap()
    })) {
        let loader = DataLoader::builder(Memory::new(vec![1_i64; 5])).build().unwrap();
        if let Ok(state) = serde_json::from_slice::<LoaderState>(&bytes)
            && let Ok(epoch) = loader.resume(&state)
        {
            prop_assert!(epoch.count() <= 5);
        }
    }
}

#[test]
fn batches_that_are_read_at_once_are_what_their_rows_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("n.bin");
    fs::write(&path, (0..400_u16).flat_map(u16::to_le_bytes).collect::<Vec<_>>()).unwrap();
    let rows = Rows::open_raw(&path, 0, Element::U16, ByteOrder::Little, &[2]).unwrap();
    let order = [5, 6, 7, 199, 0, 6, 3, 198, 4, 100, 5];
    let data = rows.clone().typed::<u16>().zip(rows.clone()).unwrap().map(|pair, cx| {
        // Both parts and this one see the sample's own context.
        Ok((pair, cx.index(), cx.rng().next_block()))
    });
    let data = data.subset((0..200).rev().collect()).unwrap();
    let loader = |data| {
        DataLoader::builder_with(data, Keep).batch_sampler(Fixed(order.to_vec())).build().unwrap()
    };
    let data = std::sync::Arc::new(data);
    let batch = loader(std::sync::Arc::clone(&data)).epoch(0).next().unwrap().unwrap();
    assert_eq!(batch.indices, order);
    let single = loader(data);
    for (place, &index) in order.iter().enumerate() {
        let row = 2 * (199 - index as u16);
        let ((bytes, floats), at, _) = &batch.data[place];
        assert_eq!(
            (&bytes[..], &floats[..]),
            (&[row, row + 1][..], &[row.into(), f32::from(row + 1)][..])
        );
        assert_eq!(*at, index);
        // A sample that occurs twice draws anew.
        if order[..place].contains(&index) {
            assert_ne!(batch.data[place].2, single.sample(0, index).unwrap().2);
        } else {
            assert_eq!(batch.data[place], single.sample(0, index).unwrap());
        }
    }
    // An unreadable row is an error of its own sample, whatever it was read with.
    let labels = Rows::open_raw(&path, 0, Element::U16, ByteOrder::Little, &[]).unwrap();
    let labels = labels.into_labels().unwrap();
    fs::write(&path, [0; 2 * 150]).unwrap();
    let loader = DataLoader::builder(labels).batch_size(200).retry(Retry::default().skip(1000));
    let mut epoch = loader.build().unwrap().epoch(0);
    let batch = epoch.next().unwrap().unwrap();
    assert_eq!((batch.indices.len(), epoch.skipped().len()), (150, 50));
    assert!(epoch.skipped()[0].to_string().starts_with("sample 150: "));
}

/// A sampler of one batch.
#[derive(Debug)]
struct Fixed(Vec<usize>);

impl BatchSampler for Fixed {
    fn describe(&self) -> String {
        "fixed".to_owned()
    }

    fn batches(&self, _: usize, _: u64, _: &Generator) -> Result<Vec<Vec<usize>>> {
        Ok(vec![self.0.clone()])
    }
}
