//! Reads shards of JSON lines as a stream: the batches depend on the seed, not on the workers.

use std::fs;

use samebits::data::{JsonShards, ShardedDatasetExt, StreamLoader};

/// One line of a file.
#[derive(serde::Deserialize)]
struct Point {
    x: Vec<f32>,
    y: i64,
}

pub(super) fn run() -> super::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut files = Vec::new();
    for shard in 0..4 {
        let line = |i| format!("{{\"x\": [{shard}, {i}.5], \"y\": {}}}\n", (shard + i) % 3);
        let path = folder.path().join(format!("shard-{shard}.jsonl"));
        fs::write(&path, (0..10).map(line).collect::<String>())?;
        files.push(path);
    }
    let epoch = |workers: usize| -> super::Result<Vec<(Vec<f32>, Vec<i64>)>> {
        let points = JsonShards::<Point>::new(files.clone()).map(|point, _| Ok((point.x, point.y)));
        let loader = StreamLoader::builder(points).batch_size(4).shuffle(true);
        let loader = loader.window(8).lanes(2).seed(1).workers(workers).build()?;
        let mut batches = Vec::new();
        for batch in loader.epoch(0) {
            let (x, y) = batch?.data;
            batches.push((x.values, y));
        }
        Ok(batches)
    };
    let batches = epoch(0)?;
    println!("{} batches, the first {:?}", batches.len(), batches[0]);
    assert_eq!(batches, epoch(3)?);
    assert_eq!(batches[0].1, [0, 2, 0, 0]);
    Ok(())
}
