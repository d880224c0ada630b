//! Files of tensors: bits, bytes, and invalid files.

use std::path::PathBuf;

use samebits::io::{
    Checkpoint, Error, SafetensorsFile, Tensors, load_npy, load_npz, load_safetensors, save_npy,
    save_npz, save_safetensors, write_whole,
};
use samebits::{DType, Tensor, bf16, f16};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn with(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Returns a tensor of each type, of several ranks, with values that differ only in their bits.
fn tensors() -> Tensors {
    let nan = f32::from_bits(0x7fc0_1234);
    let f32s = Tensor::from_slice(&[0.0f32, -0.0, nan, 1e-42, f32::INFINITY, 0.1], &[2, 3]);
    let wide = Tensor::from_slice(&[f64::MIN_POSITIVE, -1.0, 5e-324], &[3, 1]);
    [
        ("f32", f32s.unwrap()),
        ("f64", wide.unwrap()),
        ("i64", Tensor::from_slice(&[i64::MIN, -1, 7, i64::MAX], &[4]).unwrap()),
        ("u8", Tensor::from_slice(&[0u8, 255], &[1, 2, 1]).unwrap()),
        ("i32", Tensor::from_slice(&[i32::MIN, -1, i32::MAX], &[3]).unwrap()),
        ("u32", Tensor::from_slice(&[0, 7, u32::MAX], &[3, 1]).unwrap()),
        ("f16", Tensor::from_slice(&[0x0001, 0x8000, 0x7e12].map(f16::from_bits), &[3]).unwrap()),
        ("bool", Tensor::from_bools(&[true, false, true], &[3]).unwrap()),
        ("scalar", Tensor::scalar(2.5f32)),
        ("empty", Tensor::zeros(&[0, 4], DType::F32).unwrap()),
    ]
    .map(|(name, tensor)| (name.to_owned(), tensor))
    .into()
}

fn same(a: &Tensors, b: &Tensors) {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, x) in a {
        let y = &b[name];
        assert_eq!((x.dtype(), x.shape()), (y.dtype(), y.shape()), "{name}");
        assert_eq!(x.to_bytes().unwrap(), y.to_bytes().unwrap(), "{name}");
    }
}

#[test]
fn every_format_keeps_every_bit_and_its_bytes_depend_on_the_tensors_alone() {
    let folder = Folder::new();
    let tensors = tensors();
    let reversed = || tensors.iter().rev();
    save_safetensors(folder.path("a.safetensors"), &tensors).unwrap();
    save_safetensors(folder.path("b.safetensors"), reversed()).unwrap();
    save_npz(folder.path("a.npz"), &tensors).unwrap();
    save_npz(folder.path("b.npz"), reversed()).unwrap();
    same(&load_safetensors(folder.path("a.safetensors")).unwrap(), &tensors);
    same(&load_npz(folder.path("a.npz")).unwrap(), &tensors);
    for kind in ["safetensors", "npz"] {
        let [a, b] = ["a", "b"].map(|name| folder.path(&format!("{name}.{kind}")));
        assert_eq!(std::fs::read(a).unwrap(), std::fs::read(b).unwrap(), "{kind}");
    }
    for tensor in tensors.values() {
        save_npy(folder.path("x.npy"), tensor).unwrap();
        let found = load_npy(folder.path("x.npy")).unwrap();
        same(&[("x".to_owned(), found)].into(), &[("x".to_owned(), tensor.clone())].into());
    }
    let checkpoint = Checkpoint { state: ("state", 0.1f64 + 0.2), tensors };
    checkpoint.save(folder.path("run")).unwrap();
    let found = Checkpoint::<(String, f64)>::load(folder.path("run")).unwrap();
    assert_eq!(found.state.1.to_bits(), checkpoint.state.1.to_bits());
    same(&found.tensors, &checkpoint.tensors);
    let files = ["a.npz", "a.safetensors", "b.npz", "b.safetensors", "run", "x.npy"];
    assert_eq!(folder.files(), files, "temporary files are gone");
}

/// Tensors are written one after the other, but the file equals the one that the format's own crate
/// writes from all of them.
#[test]
fn a_safetensors_file_is_byte_for_byte_that_of_the_format() {
    use safetensors::{Dtype, tensor::TensorView};

    let folder = Folder::new();
    let half = Tensor::from_slice(&[bf16::from_bits(0x7fc1)], &[1]).unwrap();
    let tensors: Tensors = tensors().into_iter().chain([("a bf16".to_owned(), half)]).collect();
    save_safetensors(folder.path("x"), &tensors).unwrap();
    let dtype = |dtype| match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::I64 => Dtype::I64,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        other => panic!("{other}"),
    };
    let bytes: Vec<Vec<u8>> = tensors.values().map(|x| x.to_bytes().unwrap()).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, x), bytes)| {
        (name, TensorView::new(dtype(x.dtype()), x.shape().to_vec(), bytes).unwrap())
    });
    let expected = safetensors::serialize(views, None).unwrap();
    assert_eq!(std::fs::read(folder.path("x")).unwrap(), expected);
}

#[test]
fn numpy_has_no_bf16() {
    let folder = Folder::new();
    let x = Tensor::from_slice(&[0x0001, 0x8000, 0x7fc1].map(bf16::from_bits), &[3]).unwrap();
    let tensors: Tensors = [("x".to_owned(), x.clone())].into();
    save_safetensors(folder.path("x.safetensors"), &tensors).unwrap();
    same(&load_safetensors(folder.path("x.safetensors")).unwrap(), &tensors);
    let error = save_npy(folder.path("x.npy"), &x).unwrap_err();
    assert!(matches!(error, Error::Content { .. }), "{error}");
    assert!(error.to_string().contains("elements of type bf16 are not saved"), "{error}");
}

#[test]
fn a_transposed_tensor_is_saved_as_it_reads() {
    let folder = Folder::new();
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
    let turned = x.transpose(0, 1).unwrap();
    save_npy(folder.path("x.npy"), &turned).unwrap();
    save_safetensors(folder.path("x.safetensors"), [("x", &turned)]).unwrap();
    let expected = [1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0];
    assert_eq!(load_npy(folder.path("x.npy")).unwrap().to_vec::<f32>().unwrap(), expected);
    let found = load_safetensors(folder.path("x.safetensors")).unwrap();
    assert_eq!(found["x"].to_vec::<f32>().unwrap(), expected);
}

/// Returns an `.npy` file with this header text and these elements.
fn npy(version: u8, text: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    let len = (text.len() as u32).to_le_bytes();
    bytes.extend(if version == 1 { &len[..2] } else { &len[..] });
    bytes.extend(text.as_bytes());
    bytes.extend(elements);
    bytes
}

#[test]
fn what_numpy_writes_is_read() {
    let folder = Folder::new();
    // np.save of np.array([[1, 2, 3], [4, 5, 6]], 'f4'), byte for byte.
    save_npy(
        folder.path("x.npy"),
        &Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap(),
    )
    .unwrap();
    let mut header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".to_owned();
    header.push_str(&" ".repeat(128 - 10 - 1 - header.len()));
    header.push('\n');
    let elements: Vec<u8> = (1..=6).flat_map(|x| (x as f32).to_le_bytes()).collect();
    assert_eq!(std::fs::read(folder.path("x.npy")).unwrap(), npy(1, &header, &elements));
    // Fortran's order, big-endian, other versions, blanks and quotes.
    let values = |bytes: &[u8]| {
        let x = load_npy(folder.with("y.npy", bytes)).unwrap();
        (x.shape().to_vec(), x.to_vec::<f32>().unwrap())
    };
    let text = "{\"shape\":( 2,3 ),'fortran_order': True,'descr':'<f4'}\n";
    let turned = (vec![2, 3], vec![1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    for version in [1, 2, 3] {
        assert_eq!(values(&npy(version, text, &elements)), turned);
    }
    // The output of Python 2.
    let text = "{u'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }";
    assert_eq!(values(&npy(1, text, &elements)).0, [2, 3]);
    let text = "{'descr': '>f4', 'fortran_order': False, 'shape': (), }";
    assert_eq!(values(&npy(1, text, &1.5f32.to_be_bytes())), (vec![], vec![1.5]));
}

#[test]
fn hostile_npy_files_are_refused_with_their_place() {
    let folder = Folder::new();
    let text = |descr: &str, shape: &str| {
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}")
    };
    let good = npy(1, &text("<f4", "2,"), &[0; 8]);
    load_npy(folder.with("good.npy", &good)).unwrap();
    // Every way to truncate it.
    for len in 0..good.len() {
        let error = load_npy(folder.with("cut.npy", &good[..len])).unwrap_err();
        assert!(matches!(error, Error::Content { op: "load_npy", .. }), "{len}: {error}");
        assert!(error.to_string().contains("cut.npy, "), "{error}");
    }
    let huge = usize::MAX.to_string();
    for (bytes, message) in [
        (b"\x93NUMPX\x01\0".to_vec(), "not an npy file"),
        (npy(4, "{}", &[]), "version 4"),
        (npy(2, &" ".repeat(1 << 17), &[]), "131072 bytes long, expected at most 65536"),
        (npy(1, &text("<f4", "2,"), &[0; 9]), "more bytes than shape [2] has"),
        (npy(1, &text("<c8", "2,"), &[0; 16]), "are \"<c8\""),
        (npy(1, &text("|i2", "2,"), &[0; 4]), "are \"|i2\""),
        (npy(1, &text("<i2", "2,"), &[0; 3]), "ends before its elements of shape [2]"),
        (npy(1, &text("<u2", "2,"), &[0; 5]), "more bytes than shape [2] has"),
        (npy(1, &text("<u8", "2,"), &[255; 16]), "element 0: expected at most 9223372036854775807"),
        (npy(1, &text("|O", "2,"), &[0; 4]), "are \"|O\""),
        (npy(1, &text("|f4", "2,"), &[0; 8]), "are \"|f4\""),
        (npy(1, &text("", "2,"), &[0; 8]), "are \"\""),
        (npy(1, &text("é", "2,"), &[0; 8]), "are \"é\""),
        (npy(1, &text("|b1", "2,"), &[1, 2]), "element 1: a truth value should be 0 or 1, is 2"),
        (npy(1, &text("<f4", "-1,"), &[]), "expected a size at character"),
        (npy(1, &text("<f4", &format!("{huge}0,")), &[]), "expected a size at character"),
        (npy(1, &text("<f4", &format!("{huge},{huge}")), &[]), "too many elements"),
        (npy(1, &text("<f8", &format!("{huge},")), &[]), "too many elements"),
        (npy(1, &text("<f8", "1125899906842624,"), &[]), ""),
        (npy(1, "[]", &[]), "expected { at character 0"),
        (npy(1, "{'descr': '<f4'}", &[]), "descr, fortran_order and shape, each once"),
        (npy(1, "{'descr': '<f4', 'descr': '<f4'}", &[]), "each once at character 17"),
        (npy(1, "{'more': 1}", &[]), "each once"),
        (npy(1, "{'descr': [('a', '<f4')]}", &[]), "descr, fortran_order and shape, each once"),
        (npy(1, "{'descr': [('a', '<f4'", &[]), "expected ] at character"),
        (npy(1, "{'descr': [(')", &[]), "expected a string at character"),
        (npy(1, "{'descr': ]}", &[]), "expected a string at character"),
        (npy(1, "{'fortran_order': 1}", &[]), "expected True or False"),
        (npy(1, &(text("<f4", "2,") + "x"), &[0; 8]), "expected the end"),
        (npy(1, "{'descr", &[]), "expected a string"),
    ] {
        let error = load_npy(folder.with("bad.npy", &bytes)).unwrap_err().to_string();
        assert!(error.starts_with("load_npy: ") && error.contains("bad.npy, "), "{error}");
        assert!(error.contains(message), "{error}: {message}");
    }
    // Not UTF-8.
    let mut bytes = good.clone();
    bytes[12] = 0xff;
    load_npy(folder.with("bad.npy", &bytes)).unwrap_err();
}

#[test]
fn damaged_archives_and_safetensors_are_refused() {
    let folder = Folder::new();
    let tensors = tensors();
    save_npz(folder.path("good.npz"), &tensors).unwrap();
    save_safetensors(folder.path("good.safetensors"), &tensors).unwrap();
    let archive = std::fs::read(folder.path("good.npz")).unwrap();
    for len in (0..archive.len()).step_by(7) {
        let error = load_npz(folder.with("cut.npz", &archive[..len])).unwrap_err();
        assert!(error.to_string().starts_with("load_npz: "), "{error}");
    }
    let file = std::fs::read(folder.path("good.safetensors")).unwrap();
    for len in (0..file.len()).step_by(5) {
        let error = load_safetensors(folder.with("cut.safetensors", &file[..len])).unwrap_err();
        assert!(error.to_string().contains("not a whole safetensors file"), "{error}");
    }
    // A flipped byte never causes a panic; in an archive the checksum detects it.
    for at in 0..archive.len() {
        let mut bytes = archive.clone();
        bytes[at] ^= 1;
        let _ = load_npz(folder.with("flip.npz", &bytes));
    }
    let wrong = |name: &str, bytes: &[u8]| load_safetensors(folder.with(name, bytes)).unwrap_err();
    let foreign = |header: &str| {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat()
    };
    let complex = foreign(r#"{"x":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}"#);
    let error = wrong("small.safetensors", &complex).to_string();
    assert!(
        error.ends_with(
            "tensor x: elements should be one of f32, f64, i64, u8, bool, i32, u32, f16, bf16, i8, \
             i16, u16, u64, are F8_E4M3; `SafetensorsFile` reads the other tensors by name"
        ),
        "{error}"
    );
    let huge = u64::MAX.to_le_bytes();
    let error = wrong("huge.safetensors", &huge).to_string();
    assert!(error.contains("not a whole safetensors file"), "{error}");
    let x = Tensor::scalar(1.0f32);
    for error in [
        save_npz(folder.path("twice"), [("x", &x), ("x", &x)]).unwrap_err(),
        save_safetensors(folder.path("twice"), [("x", &x), ("x", &x)]).unwrap_err(),
        save_safetensors(folder.path("twice"), [("x", &x), ("x", &Tensor::scalar(1i64))])
            .unwrap_err(),
    ] {
        assert!(error.to_string().ends_with("two tensors have this name"), "{error}");
    }
    assert!(!folder.path("twice").exists());
}

/// Integers of other types, and single tensors of a file that contains 8-bit floats.
#[test]
fn single_tensors_of_a_safetensors_file() {
    let folder = Folder::new();
    let header = r#"{"a":{"dtype":"U64","shape":[2],"data_offsets":[0,16]},
        "b":{"dtype":"I16","shape":[2,1],"data_offsets":[16,20]},
        "c":{"dtype":"U16","shape":[],"data_offsets":[20,22]},
        "d":{"dtype":"I8","shape":[2],"data_offsets":[22,24]},
        "e":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[24,27]},
        "f":{"dtype":"F16","shape":[1],"data_offsets":[27,29]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([i64::MAX as u64, 7].map(u64::to_le_bytes).concat());
    bytes.extend([i16::MIN, -2].map(i16::to_le_bytes).concat());
    bytes.extend(u16::MAX.to_le_bytes());
    bytes.extend([0x80, 0x7f, 1, 2, 3, 0x00, 0x3c]);
    let path = folder.with("x.safetensors", &bytes);
    let mut file = SafetensorsFile::open(&path).unwrap();
    for (name, shape, values) in [
        ("d", &[2][..], &[-128, 127][..]),
        ("a", &[2], &[i64::MAX, 7]),
        ("b", &[2, 1], &[-32768, -2]),
        ("c", &[], &[65535]),
    ] {
        let found = file.tensor(name).unwrap();
        assert_eq!((found.dtype(), found.shape()), (DType::I64, shape));
        assert_eq!(found.to_vec::<i64>().unwrap(), values, "{name}");
    }
    assert_eq!(file.tensor("f").unwrap().to_vec::<f16>().unwrap(), [f16::ONE]);
    let types: Vec<String> = file.entries().into_iter().map(|entry| entry.dtype).collect();
    assert_eq!(types, ["U64", "I16", "U16", "I8", "F8_E4M3", "F16"]);
    let error = file.tensor("e").unwrap_err().to_string();
    assert!(error.ends_with("u64, are F8_E4M3"), "{error}");
    let error = file.tensor("g").unwrap_err().to_string();
    assert!(error.ends_with("tensor g: not in the file, which has a, b, c, d, e, f"), "{error}");
    // A number beyond i64, and a file that has become shorter.
    let start = bytes.len() - 29;
    bytes[start + 7] = 0x80;
    let mut file = SafetensorsFile::open(folder.with("x.safetensors", &bytes)).unwrap();
    let error = file.tensor("a").unwrap_err().to_string();
    assert!(error.contains("tensor a: element 0: expected at most 9223372036854775807"), "{error}");
    std::fs::write(&path, &bytes[..start + 10]).unwrap();
    let error = file.tensor("d").unwrap_err().to_string();
    assert!(error.ends_with("tensor d: ends before its elements of shape [2]"), "{error}");
    assert!(SafetensorsFile::open(&path).is_err());
}

#[test]
fn a_checkpoint_that_is_not_the_one_that_was_saved_is_refused() {
    let checkpoint = Checkpoint { state: 7u32, tensors: tensors() };
    let bytes = checkpoint.to_bytes().unwrap();
    Checkpoint::<u32>::from_bytes(&bytes).unwrap();
    // Any flipped bit of the tensors, another type of state, and files that are not checkpoints.
    let elements = checkpoint.tensors.values().map(|x| x.to_bytes().unwrap().len()).sum::<usize>();
    for at in bytes.len() - elements..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        let error = Checkpoint::<u32>::from_bytes(&bytes).unwrap_err().to_string();
        assert!(error.contains("damaged") || error.contains("truth value"), "{at}: {error}");
    }
    let error = Checkpoint::<String>::from_bytes(&bytes).unwrap_err().to_string();
    assert!(error.contains("metadata: damaged: invalid type"), "{error}");
    let folder = Folder::new();
    save_safetensors(folder.path("x"), &tensors()).unwrap();
    let error = Checkpoint::<u32>::load(folder.path("x")).unwrap_err().to_string();
    assert!(error.contains("not a checkpoint of samebits"), "{error}");
    let error = Checkpoint::<u32>::load(folder.path("missing")).unwrap_err();
    assert!(error.to_string().starts_with("load_checkpoint: cannot read "), "{error}");
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_old_one() {
    let folder = Folder::new();
    let path = folder.with("x", b"old");
    write_whole(&path, b"new").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    let error = write_whole(folder.path("no/such/folder/x"), b"new").unwrap_err();
    assert!(error.to_string().starts_with("write_whole: cannot write "), "{error}");
    // A folder has the name of the file.
    std::fs::create_dir(folder.path("folder")).unwrap();
    let error = write_whole(folder.path("folder"), b"new").unwrap_err();
    assert!(error.to_string().ends_with("it is there and no file"), "{error}");
    assert_eq!(folder.files(), ["folder", "x"]);
}

#[cfg(unix)]
#[test]
fn links_modes_and_pipes_stay_what_they_are() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    use std::process::Command;

    let folder = Folder::new();
    let path = folder.with("x", b"old");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o664)).unwrap();
    symlink("x", folder.path("latest")).unwrap();
    write_whole(folder.path("latest"), b"new").unwrap();
    assert!(folder.path("latest").is_symlink());
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o664);
    // A link to a missing target is an error: nothing says which file to write.
    symlink("nowhere", folder.path("broken")).unwrap();
    write_whole(folder.path("broken"), b"new").unwrap_err();
    assert!(folder.path("broken").is_symlink());
    // A pipe stands in for a device, which tests should not risk.
    let pipe = folder.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = write_whole(&pipe, b"new").unwrap_err();
    assert!(error.to_string().ends_with("it is there and no file"), "{error}");
    assert!(pipe.metadata().unwrap().file_type().is_fifo());
    assert_eq!(folder.files(), ["broken", "latest", "pipe", "x"]);
}

/// The variable that names the target, in the process that may write only a few kilobytes per file.
#[cfg(unix)]
const FULL: &str = "SAMEBITS_TEST_FULL_DISK";

/// A full disk: the first part of a file is written, and the rest is an error.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_old_files_alone() {
    let Some(path) = std::env::var_os(FULL) else {
        let folder = Folder::new();
        // The signal that comes with the error would end the process.
        let mut child = std::process::Command::new("sh");
        child.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]);
        child.arg(std::env::current_exe().unwrap());
        child.args(["--exact", "a_full_disk_leaves_the_old_files_alone", "--nocapture"]);
        let ended = child.env(FULL, folder.0.path()).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        assert!(folder.path("written").exists(), "the child ran something else");
        return;
    };
    let path = |name: &str| std::path::Path::new(&path).join(name);
    let x = Tensor::zeros(&[1 << 16], DType::F32).unwrap();
    // No archive makes it smaller.
    samebits::manual_seed(1);
    let noise = samebits::randn(&[1 << 14]).unwrap();
    type Write<'a> = &'a dyn Fn(PathBuf) -> Result<(), Error>;
    let write: [(&str, Write<'_>); 5] = [
        ("save_npy", &|path| save_npy(path, &x)),
        ("save_npz", &|path| save_npz(path, [("x", &noise)])),
        ("save_safetensors", &|path| save_safetensors(path, [("x", &x)])),
        ("save_checkpoint", &|path| {
            Checkpoint { state: 7, tensors: [("x".to_owned(), x.clone())].into() }.save(path)
        }),
        ("write_whole", &|path| write_whole(path, &[7; 1 << 16])),
    ];
    for (op, write) in write {
        for old in [false, true] {
            let path = path(op);
            if old {
                std::fs::write(&path, b"old").unwrap();
            }
            let error = write(path.clone()).expect_err(op);
            assert!(matches!(error, Error::Write { .. }), "{op}: {error:?}");
            assert!(error.to_string().starts_with(&format!("{op}: cannot write ")), "{error}");
            let found = std::fs::read(&path).ok();
            assert_eq!(found.as_deref(), old.then_some(&b"old"[..]), "{op}");
        }
        std::fs::remove_file(path(op)).unwrap();
        let others: Vec<_> = std::fs::read_dir(path("")).unwrap().collect();
        assert!(others.is_empty(), "{op}: {others:?}");
    }
    std::fs::write(path("written"), b"").unwrap();
}
