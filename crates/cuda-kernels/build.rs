//! Packs the machine code that the feature `cubins` embeds, from the folder to which `cargo xtask
//! build-kernels --cubins` wrote it: for each architecture the families by name, compressed by zstd.

#![allow(clippy::print_stdout, reason = "build scripts talk to Cargo")]

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The architectures, as in `src/launch/cubins.rs`.
const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUBINS").is_none() {
        return Ok(());
    }
    println!("cargo::rerun-if-changed=ptx");
    println!("cargo::rerun-if-env-changed=SAMEBITS_CUBINS");
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let folder =
        env::var_os("SAMEBITS_CUBINS").map_or_else(|| here.join("../../target/cubins"), From::from);
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut missing = 0;
    for architecture in ARCHITECTURES {
        let (packed, without) = pack(&here.join("ptx"), &folder.join(architecture))?;
        fs::write(out.join(format!("{architecture}.pack")), packed)?;
        missing += without;
    }
    if missing > 0 {
        println!(
            "cargo::warning=the driver compiles {missing} families of kernels at first use: `cargo xtask \
             build-kernels --cubins` makes their machine code"
        );
    }
    Ok(())
}

/// Returns the families of an architecture, and the number of those that are missing or of other PTX.
#[cfg(feature = "cubins")]
fn pack(ptx: &Path, folder: &Path) -> io::Result<(Vec<u8>, usize)> {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    let (mut packed, mut missing) = (Vec::new(), 0);
    let mut sources: Vec<PathBuf> = fs::read_dir(ptx)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .collect();
    sources.sort();
    for source in sources {
        let name = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        // Machine code of other PTX has another name.
        let file = folder.join(format!("{name}-{:016x}.cubin", hash(&fs::read(&source)?)));
        let Ok(cubin) = fs::read(file) else {
            missing += 1;
            continue;
        };
        let cubin = compress_to_vec(&cubin[..], CompressionLevel::Fastest);
        packed.extend((name.len() as u32).to_le_bytes());
        packed.extend(name.bytes());
        packed.extend((cubin.len() as u32).to_le_bytes());
        packed.extend(cubin);
    }
    Ok((packed, missing))
}

#[cfg(not(feature = "cubins"))]
fn pack(_: &Path, _: &Path) -> io::Result<(Vec<u8>, usize)> {
    Ok((Vec::new(), 0))
}

/// Returns the FNV-1a hash of a text.
#[cfg(feature = "cubins")]
fn hash(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
