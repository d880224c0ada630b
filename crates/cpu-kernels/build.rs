//! Gives the crate a digest of its own sources.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

fn main() {
    println!("cargo::rerun-if-changed=src");
    let mut files = Vec::new();
    list(Path::new("src"), &mut files);
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("sources can be read");
        // Lines may end otherwise in a checkout on Windows.
        hash.update(text.replace("\r\n", "\n"));
    }
    let digest = hash.finalize();
    let hex = digest[..8].iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    println!("cargo::rustc-env=SAMEBITS_CODE=sha256:{hex}");
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder of sources can be read") {
        let path = entry.expect("the folder of sources can be read").path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}
