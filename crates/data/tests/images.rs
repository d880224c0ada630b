//! Images as decoded by Pillow, and folders as read by torchvision.

#![cfg(feature = "images")]

use std::fs;
use std::path::Path;

use samebits_data::{
    Channels, Dataset, Error, Image, ImageFolder, ImageFolderOptions, Result, SampleContext,
    WorkerContext,
};
use serde_json::Value;

/// Returns the cases, which `pillow_images.py` wrote.
fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("pillow_images.json")).unwrap()
}

fn bytes(case: &Value, key: &str) -> Vec<u8> {
    let text = case[key].as_str().unwrap();
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn name(case: &Value) -> &str {
    case["name"].as_str().unwrap()
}

const MODES: [(Channels, &str); 3] =
    [(Channels::Rgb, "RGB"), (Channels::Grey, "L"), (Channels::Rgba, "RGBA")];

#[test]
fn lossless_images_are_those_of_pillow() {
    let mut compared = 0;
    for case in cases() {
        let (name, file) = (name(&case), bytes(&case, "bytes"));
        if name.ends_with(".jpg") {
            continue;
        }
        for (channels, mode) in MODES {
            let found = Image::decode(name, &file, channels);
            if name.starts_with("16 bits") || name.starts_with("1023") {
                let error = found.unwrap_err().to_string();
                assert!(
                    error.contains("expected an image of 8 bits per channel, found "),
                    "{error}"
                );
                continue;
            }
            let (found, expected) = (found.unwrap(), bytes(&case, mode));
            if name == "565.bmp" || name == "555.bmp" {
                // Pillow rounds 5 and 6 bits down, this decoder to nearest.
                let near = found.pixels.iter().zip(&expected).all(|(a, b)| a.abs_diff(*b) <= 1);
                assert!(near, "{:?} as {mode}", found.pixels);
            } else {
                assert_eq!(found.pixels, expected, "{name} as {mode}");
            }
            assert_eq!(found.width as u64, case["width"].as_u64().unwrap());
            assert_eq!(found.pixels.len(), found.width * found.height * found.channels);
            compared += 1;
        }
    }
    assert_eq!(compared, 3 * 27);
}

/// Close to libjpeg's values, and the same bits on every machine.
#[test]
fn jpeg_images_are_near_those_of_pillow_and_fixed() {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for case in cases().iter().filter(|case| name(case).ends_with(".jpg")) {
        for (channels, mode) in MODES {
            let found = Image::decode(name(case), &bytes(case, "bytes"), channels);
            if name(case) == "cmyk.jpg" {
                let error = found.unwrap_err().to_string();
                assert!(error.contains("expected a JPEG image of grey or RGB"), "{error}");
                continue;
            }
            let (found, expected) = (found.unwrap().pixels, bytes(case, mode));
            assert_eq!(found.len(), expected.len());
            let away = found.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(away <= Some(3), "{}: {away:?}", name(case));
            for byte in found {
                digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    assert_eq!(digest, 0xad8c_4cf4_8d58_d751, "{digest:016x}");
}

/// However short the missing part is, and with a preview that ends like an image.
#[test]
fn an_image_that_ends_early_is_an_error() {
    for case in cases() {
        let mut file = bytes(&case, "bytes");
        // A bitmap's padding and an empty checksum may be missing.
        if !name(&case).ends_with(".jpg") {
            continue;
        }
        for preview in [false, true] {
            if preview {
                file.splice(2..2, [0xff, 0xe1, 0, 6, 0xff, 0xd8, 0xff, 0xd9]);
                let whole = Image::decode("x.jpg", &file, Channels::Rgb);
                assert_eq!(whole.is_ok(), name(&case) != "cmyk.jpg", "{whole:?}");
            }
            for len in 0..file.len() {
                let error = Image::decode("x.jpg", &file[..len], Channels::Rgb);
                assert!(matches!(error, Err(Error::Malformed { .. })), "{len} of {}", file.len());
            }
        }
    }
}

#[test]
fn a_short_file_cannot_claim_much_memory() {
    for case in cases().iter().filter(|case| name(case).ends_with(".jpg")) {
        let mut file = bytes(case, "bytes");
        let frame = file.windows(2).position(|pair| matches!(pair, [0xff, 0xc0 | 0xc2])).unwrap();
        file[frame + 5..frame + 9].fill(0xff);
        let error = Image::decode("x.jpg", &file, Channels::Rgb).unwrap_err();
        let cmyk = name(case) == "cmyk.jpg";
        assert_eq!(matches!(error, Error::TooLarge { .. }), !cmyk, "{error}");
    }
}

#[test]
fn damaged_images_never_panic() {
    let cases = cases();
    let mut generator = samebits_rng::Generator::new(1);
    for round in 0..3000 {
        let mut file = bytes(&cases[round % cases.len()], "bytes");
        for _ in 0..1 + round % 4 {
            let [place, byte, ..] = generator.next_block();
            let len = file.len();
            file[place as usize % len] = byte as u8;
        }
        if let Ok(image) = Image::decode("x", &file, Channels::Rgb) {
            assert_eq!(image.pixels.len(), image.width * image.height * 3);
        }
    }
}

fn get(images: &ImageFolder, index: usize) -> Result<(Image, i64)> {
    let mut worker = WorkerContext::detached();
    images.get(index, &mut SampleContext::detached(&mut worker, 0, 0, index))
}

/// Writes an image of one grey pixel at each of these paths.
fn tree(paths: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (grey, path) in paths.iter().enumerate() {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [b"P5 1 1 255\n", &[grey as u8][..]].concat()).unwrap();
    }
    root
}

/// Returns the paths under the root in their order, with their classes.
fn listed(root: &Path, images: &ImageFolder) -> Vec<(String, i64)> {
    let path = |path: &Path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    images.files().iter().map(|(file, class)| (path(file), *class)).collect()
}

#[test]
fn folders_are_walked_in_torchvisions_order() {
    let paths = [
        "cat/b.PNG",
        "cat/a.jpeg",
        "cat/sub/x.png",
        "cat/sub/a/y.Jpg",
        "cat/sub-2/z.bmp",
        "cat/.png",
        "cat/notes.txt",
        "cat/x.png.bak",
        "beside.png",
        "Dog/1.pgm",
        "Dog/10.pgm",
        "Dog/2.ppm",
    ];
    let root = tree(&paths);
    let images = ImageFolder::open(root.path()).unwrap();
    assert_eq!(images.classes(), ["Dog", "cat"]);
    let expected = [
        ("Dog/1.pgm", 0),
        ("Dog/10.pgm", 0),
        ("Dog/2.ppm", 0),
        ("cat/.png", 1),
        ("cat/a.jpeg", 1),
        ("cat/b.PNG", 1),
        ("cat/sub/x.png", 1),
        ("cat/sub-2/z.bmp", 1),
        ("cat/sub/a/y.Jpg", 1),
    ];
    assert_eq!(
        listed(root.path(), &images),
        expected.map(|(path, class)| (path.to_owned(), class))
    );
    for (index, (path, class)) in expected.into_iter().enumerate() {
        let grey = paths.iter().position(|&other| other == path).unwrap() as u8;
        let (image, found) = get(&images, index).unwrap();
        assert_eq!((image.pixels, found), (vec![grey; 3], class), "{path}");
    }
    // A moved folder is the same dataset; one with other paths is another.
    let moved = tree(&paths);
    assert_eq!(ImageFolder::open(moved.path()).unwrap().describe(), images.describe());
    fs::rename(moved.path().join("cat/sub"), moved.path().join("cat/sup")).unwrap();
    assert_ne!(ImageFolder::open(moved.path()).unwrap().describe(), images.describe());
}

#[test]
fn folders_that_would_shift_labels_are_refused() {
    let refused = |root: &Path, message: &str| {
        let error = ImageFolder::open(root).unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    };
    let options = ImageFolderOptions::new;
    // A class without images, although it has files.
    let root = tree(&["cat/1.png", "dog/readme.txt", "emu/1.png"]);
    refused(root.path(), "must hold an image in each class, but dog holds none");
    let images = options().allow_empty(true).open(root.path()).unwrap();
    assert_eq!(images.classes(), ["cat", "dog", "emu"]);
    assert_eq!(images.files().iter().map(|file| file.1).collect::<Vec<_>>(), [0, 2]);
    // Folders that notebooks leave behind, as a class and within one, with and without images.
    for path in [".ipynb_checkpoints/1.png", ".ipynb_checkpoints/x", "cat/.ipynb_checkpoints/1.png"]
    {
        let root = tree(&["cat/1.png", path]);
        refused(root.path(), ".ipynb_checkpoints: must not be hidden");
        let images = options().hidden_folders(true).allow_empty(true).open(root.path()).unwrap();
        assert_eq!(images.classes().len(), if path.starts_with('.') { 2 } else { 1 });
        assert_eq!(images.len(), if path.ends_with('x') { 1 } else { 2 });
    }
    // Formats that torchvision reads.
    for name in ["1.tif", "1.TIFF", "a/1.webp"] {
        let root = tree(&["cat/1.png", &format!("cat/{name}")]);
        let error = ImageFolder::open(root.path()).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let root = tree(&["1.png"]);
    refused(root.path(), "must hold a folder per class");
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_a_circle() {
    use std::os::unix::fs::symlink;

    let other = tree(&["images/2.png"]);
    let root = tree(&["cat/1.png"]);
    symlink(other.path().join("images"), root.path().join("cat/more")).unwrap();
    symlink("nowhere", root.path().join("cat/3.png")).unwrap();
    let images = ImageFolder::open(root.path()).unwrap();
    let expected = ["cat/1.png", "cat/3.png", "cat/more/2.png"].map(|path| (path.to_owned(), 0));
    assert_eq!(listed(root.path(), &images), expected);
    assert!(matches!(get(&images, 1), Err(Error::Io { .. })));
    for circle in ["cat/loop", "cat/up"] {
        let to =
            if circle == "cat/loop" { root.path().join("cat") } else { root.path().to_owned() };
        symlink(to, root.path().join(circle)).unwrap();
        let error = ImageFolder::open(root.path()).unwrap_err().to_string();
        assert!(error.contains("must not lead back to a folder that it is in"), "{error}");
        fs::remove_file(root.path().join(circle)).unwrap();
    }
}
