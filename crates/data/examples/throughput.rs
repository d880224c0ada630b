//! Times the loader on files and shows that the workers do not change the loaded data.
//!
//! ```text
//! cargo run --release -p samebits-data --example throughput -- FOLDER
//! python crates/data/benches/peers/pytorch.py FOLDER
//! ```
//!
//! The first command writes the files `rows.csv`, `rows.bin` and `images.tar` into the folder, if
//! they are missing. The second times PyTorch's loader on the same files.
//!
//! Each line holds the set, the number of workers, samples per second, microseconds of processor
//! time per sample, and a digest of an epoch's batches in order of arrival. Processor time is
//! comparable even on a machine with other load. The last number is the share of the last epoch in
//! which the workers were loading rather than waiting, if known.
//!
//! The last line describes the plan of an epoch of 10^9 samples for one of 256 ranks, by
//! `Bijective`: seconds until the first batch, and the growth of the program's peak memory in
//! bytes.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samebits_data::{
    Bijective, ByteOrder, CsvOptions, DataLoader, Dataset, DatasetExt, Element, Error, Image,
    Memory, Normalize, RandomCrop, RandomHorizontalFlip, Result, Rows, SampleContext, Sampler,
    Shard, ShardedDatasetExt, Stacked, StreamLoader, Tail, Tar, TarSample, TarShards,
};
use samebits_rng::Generator;

type Failure = Box<dyn std::error::Error>;
type Sample = (Vec<f32>, i64);
type Samples = (Stacked<f32>, Vec<i64>);

const SIDE: usize = 32;
const IMAGES: usize = 10_000;
const ROWS: usize = 50_000;
const COLUMNS: usize = 64;
const BATCH: usize = 64;

fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).ok_or("usage: throughput FOLDER")?;
    let folder = Path::new(&folder);
    write_files(folder)?;
    let table = Arc::new(CsvOptions::new().read(folder.join("rows.csv"))?);
    let element = (Element::F32, ByteOrder::Little);
    let rows = Rows::open_raw(folder.join("rows.bin"), 0, element.0, element.1, &[COLUMNS + 1])?;
    let rows = Arc::new(rows.map(|mut row, _| {
        let class = row.pop().ok_or_else(|| Error::other("an empty row"))?;
        Ok((row, class as i64))
    }));
    let tar = folder.join("images.tar");
    let images = Arc::new(Tar::open(&tar)?.map(decoder()?));
    let shards = Arc::new(TarShards::new(vec![tar]).map(decoder()?));
    for workers in [0, 1, 2] {
        indexed("csv", &table, workers)?;
        indexed("rows", &rows, workers)?;
        indexed("images", &images, workers)?;
        let stream = StreamLoader::builder(Arc::clone(&shards)).batch_size(BATCH).window(1000);
        let stream = stream.lanes(1).workers(workers).build()?;
        measure("stream", workers, |epoch| stream.epoch(epoch).map(|batch| Ok(batch?.data)))?;
    }
    plan("plan", Bijective)
}

/// Returns a function that shifts an image by up to four pixels, mirrors it, and scales it.
fn decoder()
-> Result<impl Fn(TarSample, &mut SampleContext<'_>) -> Result<Sample> + Send + Sync + 'static> {
    let crop = RandomCrop::new(SIDE, SIDE).padding(4);
    let flip = RandomHorizontalFlip::default();
    let normalize = Normalize::new(vec![0.5; 3], vec![0.25; 3])?;
    Ok(move |sample: TarSample, cx: &mut SampleContext<'_>| {
        let mut fields = sample.into_fields();
        let mut field =
            |name| fields.remove(name).ok_or_else(|| Error::other("a field is missing"));
        let image = Image { width: SIDE, height: SIDE, channels: 3, pixels: field("rgb")? };
        let class = field("cls")?.first().copied().unwrap_or_default();
        let image = flip.apply(crop.apply(&image, cx.rng())?, cx.rng())?;
        Ok((normalize.apply(&image)?, i64::from(class)))
    })
}

fn indexed<D>(name: &str, data: &Arc<D>, workers: usize) -> Result<(), Failure>
where
    D: Dataset<Item = Sample>,
{
    let loader = DataLoader::builder(Arc::clone(data)).batch_size(BATCH).shuffle(true);
    let loader = loader.workers(workers).persistent_workers(true).build()?;
    measure(name, workers, |epoch| loader.epoch(epoch).map(|batch| Ok(batch?.data)))?;
    let mut epoch = loader.epoch(0);
    while epoch.next().transpose()?.is_some() {}
    let report = epoch.report();
    let busy = report.busy.iter().sum::<Duration>().as_secs_f64();
    let share = busy / (report.elapsed.as_secs_f64() * report.busy.len() as f64);
    Ok(writeln!(std::io::stdout(), ",{share:.3}")?)
}

/// Loads epochs for two seconds.
fn measure<I: Iterator<Item = Result<Samples>>>(
    name: &str,
    workers: usize,
    epoch: impl Fn(u64) -> I,
) -> Result<(), Failure> {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for batch in epoch(0) {
        let (values, classes) = batch?;
        let bits = values.values.iter().map(|value| u64::from(value.to_bits()));
        for word in bits.chain(classes.iter().map(|&class| class as u64)) {
            digest = (digest ^ word).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let (begin, cpu, mut samples, mut number) = (Instant::now(), cpu_seconds(), 0, 0);
    while begin.elapsed() < Duration::from_secs(2) {
        number += 1;
        for batch in epoch(number) {
            samples += batch?.1.len();
        }
    }
    let rate = samples as f64 / begin.elapsed().as_secs_f64();
    let cost = (cpu_seconds() - cpu) * 1e6 / samples as f64;
    let end = if name == "stream" { ",\n" } else { "" };
    Ok(write!(std::io::stdout(), "{name},{workers},{rate:.0},{cost:.3},{digest:016x}{end}")?)
}

/// Plans an epoch of 10^9 samples for one of 256 ranks and loads its first batch.
fn plan(name: &str, sampler: impl Sampler) -> Result<(), Failure> {
    let data = Memory::new(vec![(); 1_000_000_000]).map(|(), cx| Ok(cx.index()));
    let (begin, before) = (Instant::now(), most_memory());
    let loader = DataLoader::builder(data).batch_size(BATCH).sampler(sampler);
    let loader = loader.shard(Shard::new(255, 256, Tail::Pad)?).build()?;
    loader.epoch(0).next().transpose()?;
    let (seconds, bytes) = (begin.elapsed().as_secs_f64(), most_memory() - before);
    Ok(writeln!(std::io::stdout(), "{name},{seconds:.3},{bytes}")?)
}

fn write_files(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)?;
    let mut generator = Generator::new(1);
    let mut bytes = |count: usize| {
        let mut words = vec![0; count.div_ceil(4)];
        generator.fill_u32(&mut words);
        words.into_iter().flat_map(u32::to_le_bytes).take(count).collect::<Vec<u8>>()
    };
    if !folder.join("images.tar").exists() {
        let (mut csv, mut bin) = (String::new(), Vec::new());
        for (row, values) in bytes(ROWS * COLUMNS).chunks_exact(COLUMNS).enumerate() {
            for &value in values {
                csv += &format!("{},", value % 17);
                bin.extend(f32::from(value % 17).to_le_bytes());
            }
            csv += &format!("{}\n", row % 10);
            bin.extend((row as f32 % 10.0).to_le_bytes());
        }
        fs::write(folder.join("rows.csv"), csv)?;
        fs::write(folder.join("rows.bin"), bin)?;
        let mut tar = tar::Builder::new(Vec::new());
        for (i, pixels) in bytes(IMAGES * 3 * SIDE * SIDE).chunks_exact(3 * SIDE * SIDE).enumerate()
        {
            for (ending, content) in [("rgb", pixels), ("cls", &[i as u8 % 10][..])] {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                header.set_mode(0o644);
                tar.append_data(&mut header, format!("{i:05}.{ending}"), content)?;
            }
        }
        fs::write(folder.join("images.tar"), tar.into_inner()?)?;
    }
    Ok(())
}

/// Returns the processor time of this process and all its threads so far; NaN if the system does
/// not provide it.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, a name in parentheses, may hold spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let times: Vec<f64> = fields.skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
    if times.len() == 2 { (times[0] + times[1]) / TICKS_PER_SECOND } else { f64::NAN }
}

/// Returns the peak memory of this process in bytes; 0 if the system does not provide it.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .map_or(0, |kb: u64| kb << 10)
}
