//! Arrays of every type, as NumPy writes them; `numpy_types.py` wrote the file.

use std::path::{Path, PathBuf};

use samebits::io::{Entry, NpzFile, load_npz, save_npy};
use samebits::{DType, Tensor, f16};

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/numpy_types.npz")
}

/// Returns values of an integer type: its two smallest, some small ones, and its largest up to
/// `i64::MAX`.
fn integers(least: i64, most: i64) -> Tensor {
    Tensor::from_slice(&[least, least + 1, 0, 1, 100, most], &[2, 3]).unwrap()
}

fn expected(code: &str) -> Tensor {
    let floats = [-0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY];
    let with = |tiny: f64, most: f64| [&floats[..], &[tiny, most]].concat();
    match code {
        "b1" => Tensor::from_bools(&[true, false, false, true, true, false], &[2, 3]).unwrap(),
        "i1" => integers(i8::MIN.into(), i8::MAX.into()),
        "i2" => integers(i16::MIN.into(), i16::MAX.into()),
        "i4" => integers(i32::MIN.into(), i32::MAX.into()).to_dtype(DType::I32).unwrap(),
        "i8" => integers(i64::MIN, i64::MAX),
        "u1" => integers(0, u8::MAX.into()).to_dtype(DType::U8).unwrap(),
        "u2" => integers(0, u16::MAX.into()),
        "u4" => integers(0, u32::MAX.into()).to_dtype(DType::U32).unwrap(),
        "u8" => integers(0, i64::MAX),
        "f2" => {
            let values = with(5.960464477539063e-8, 65504.0).into_iter().map(f16::from_f64);
            Tensor::from_slice(&values.collect::<Vec<_>>(), &[2, 3]).unwrap()
        }
        "f4" => {
            let values = with(f32::from_bits(1).into(), f32::MAX.into());
            let values: Vec<f32> = values.into_iter().map(|x| x as f32).collect();
            Tensor::from_slice(&values, &[2, 3]).unwrap()
        }
        "f8" => Tensor::from_slice(&with(5e-324, f64::MAX), &[2, 3]).unwrap(),
        other => panic!("{other}"),
    }
}

#[test]
fn every_type_in_every_order_is_read_exactly() {
    let mut file = NpzFile::open(file()).unwrap();
    let mut read = 0;
    for code in ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"] {
        let expected = expected(code);
        for order in ["le", "be"] {
            for memory in ["C", "F"] {
                let found = file.tensor(&format!("{code}{order}{memory}")).unwrap();
                assert_eq!((found.dtype(), found.shape()), (expected.dtype(), &[2, 3][..]));
                let (found, expected) = (found.to_bytes().unwrap(), expected.to_bytes().unwrap());
                assert_eq!(found, expected, "{code}{order}{memory}");
                read += 1;
            }
            let found = file.tensor(&format!("{code}{order}0")).unwrap();
            let bytes = expected.to_bytes().unwrap();
            let size = expected.dtype().size();
            assert_eq!((found.rank(), found.dtype()), (0, expected.dtype()));
            assert_eq!(found.to_bytes().unwrap(), bytes[3 * size..4 * size], "{code}{order}0");
        }
    }
    assert_eq!(read, 48);
}

#[test]
fn other_types_are_named_and_keep_nobody_from_reading_the_rest() {
    let mut file = NpzFile::open(file()).unwrap();
    let entries = file.entries().unwrap();
    assert_eq!(entries.len(), 78);
    let entry = |name: &str| entries.iter().find(|entry| entry.name == name).unwrap();
    for (name, dtype, shape) in [
        ("i2beF", ">i2", &[2, 3][..]),
        ("b1le0", "|b1", &[]),
        ("complex", "<c8", &[1]),
        ("record", "[('a [(', '<i2'), ('b', '<f4', (1,))]", &[1]),
    ] {
        let Entry { dtype: found, shape: sizes, .. } = entry(name);
        assert_eq!((found.as_str(), &sizes[..]), (dtype, shape));
    }
    for (name, message) in [
        (
            "large",
            "array large, elements: element 1: expected at most 9223372036854775807, got 9223372036854775808",
        ),
        ("complex", "are \"<c8\": save the real and the imaginary parts of complex numbers"),
        ("wide", "are \"<f16\""),
        ("text", "are \"<U1\""),
        ("time", "are \"<M8[s]\""),
        ("record", "('b', '<f4', (1,))]\""),
        ("none", "array none: not in the file, which has b1leC, b1leF, "),
    ] {
        let error = file.tensor(name).unwrap_err().to_string();
        assert!(error.starts_with("NpzFile: ") && error.contains(message), "{error}");
    }
    let error = load_npz(self::file()).unwrap_err().to_string();
    assert!(error.ends_with("; `NpzFile` reads the other arrays by name"), "{error}");
    // A member that is not an array.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    archive.start_file("readme.txt", options).unwrap();
    archive.start_file("x.npy", options).unwrap();
    let x = Tensor::scalar(7i64);
    save_npy(folder.path().join("x.npy"), &x).unwrap();
    let bytes = std::fs::read(folder.path().join("x.npy")).unwrap();
    std::io::Write::write_all(&mut archive, &bytes).unwrap();
    archive.finish().unwrap();
    let mut file = NpzFile::open(&path).unwrap();
    let entries = file.entries().unwrap();
    assert_eq!((entries[0].name.as_str(), entries[0].dtype.as_str()), ("readme.txt", ""));
    assert_eq!(file.tensor("x").unwrap().item::<i64>().unwrap(), 7);
    assert!(load_npz(&path).unwrap_err().to_string().contains("\"readme.txt\""));
}
