//! Files of samples: JSON lines and tar.

use samebits_data::{
    Dataset, JsonLines, JsonShards, SampleContext, ShardedDataset, Tar, TarShards, WorkerContext,
};

use super::Draw;
use super::bytes::{damaged, damaged_text};
use super::parsers::{Parsed, Samples, file, said, sometimes_zipped, zipped};

pub(super) fn json_samples() -> Samples {
    let plain = b"[1, [0.5, -2e3], \"a\\u00e4\"]\n[2, [], \"\"]\r\n[-3, [1e-4], \"x\"]".to_vec();
    vec![zipped(&plain), plain]
}

pub(super) fn json_lines(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    type Value = (i64, Vec<f32>, String);
    let bytes = damaged_text(draw, samples).into_bytes();
    let bytes = sometimes_zipped(draw, bytes);
    let most = if draw.hostile() { draw.count(20) } else { 1 << 10 };
    if draw.flag() {
        let lines = said(JsonLines::<Value>::parse("x.jsonl", bytes))?.most_bytes(most);
        return indexed(draw, lines);
    }
    let (_folder, path) = file("x.jsonl", &bytes);
    streamed(draw, JsonShards::<Value>::new(vec![path]).most_bytes(most))
}

pub(super) fn tar_samples() -> Samples {
    let mut tar = tar::Builder::new(Vec::new());
    let long = "n".repeat(200) + ".a";
    for name in ["a/1.txt", "a/1.cls", "2.txt", &long, "b.json"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(name.len() as u64);
        tar.append_data(&mut header, name, name.as_bytes()).expect("memory does not fail");
    }
    tar.append_pax_extensions([("path", &b"c.txt"[..]), ("size", b"0")]).expect("memory");
    let mut header = tar::Header::new_ustar();
    header.set_path("c").expect("a short name");
    header.set_cksum();
    tar.append(&header, &b""[..]).expect("memory does not fail");
    let plain = tar.into_inner().expect("memory does not fail");
    vec![zipped(&plain), plain]
}

pub(super) fn tar(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let mut bytes = damaged(draw, samples);
    if draw.flag() {
        // Correct the checksums, so that damage passes them.
        for header in bytes.as_chunks_mut::<512>().0 {
            let mut fitting = tar::Header::new_old();
            fitting.as_mut_bytes().copy_from_slice(header);
            if header[0] != 0 {
                fitting.set_cksum();
                header.copy_from_slice(fitting.as_bytes());
            }
        }
    }
    let bytes = sometimes_zipped(draw, bytes);
    let most = if draw.hostile() { draw.count(20) } else { 1 << 16 };
    if draw.flag() {
        return indexed(draw, said(Tar::parse("x.tar", bytes))?.most_bytes(most));
    }
    let (_folder, path) = file("x.tar", &bytes);
    streamed(draw, TarShards::new(vec![path]).most_bytes(most))
}

/// Reads some samples, including those at the limits.
fn indexed(draw: &mut Draw, data: impl Dataset) -> Parsed {
    let index = draw.count(data.len().saturating_sub(1));
    let last = data.len().wrapping_sub(1);
    let mut worker = WorkerContext::detached();
    for index in [0, last, index] {
        said(data.get(index, &mut SampleContext::detached(&mut worker, 0, 0, index)))?;
    }
    Ok(())
}

/// Reads some records.
fn streamed(draw: &mut Draw, data: impl ShardedDataset) -> Parsed {
    let mut worker = WorkerContext::detached();
    let records = said(data.open(0, draw.count(1) as u64))?;
    for record in records.take(100) {
        let mut cx = SampleContext::detached(&mut worker, 0, 0, 0);
        said(data.sample(said(record)?, &mut cx))?;
    }
    Ok(())
}
