//! Times the loaders of samebits and burn on the files of the example `throughput`, in one process
//! and in turns.
//!
//! ```text
//! cargo run --release -p samebits-data --example throughput -- FOLDER
//! cargo run --release --manifest-path crates/data/benches/peers/burn/Cargo.toml -- FOLDER [TURNS]
//! ```
//!
//! In each turn both load epochs for half a second, one after the other, and alternate who begins.
//! A line shows the set, the number of workers, samples per second and microseconds of processor
//! time per sample of both (medians of the turns), and samebits' speedup: the median, minimum and
//! maximum over the turns.

use std::error::Error;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn_core::data::dataloader::{DataLoaderBuilder, batcher::Batcher};
use burn_core::data::dataset::{Dataset as BurnDataset, DatasetError, InMemDataset};
use burn_core::tensor::Device;
use samebits_data::{
    ByteOrder, CsvOptions, DataLoader, Dataset, DatasetExt, Element, Image, Normalize, RandomCrop,
    RandomHorizontalFlip, Rows, Tar, TarSample,
};
use samebits_rng::Generator;

type Failure = Box<dyn Error>;
type Sample = (Vec<f32>, i64);

const SIDE: usize = 32;
const COLUMNS: usize = 64;
const BATCH: usize = 64;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: burn-loader FOLDER [TURNS]")?;
    let turns = arguments.next().map_or(Ok(7), |turns| turns.parse())?;
    let folder = Path::new(&folder);

    let table = Arc::new(CsvOptions::new().read(folder.join("rows.csv"))?);
    let samples = (0..table.len()).map(|i| (table.row(i).unwrap().to_vec(), table.labels()[i]));
    let memory = Arc::new(InMemDataset::new(samples.collect::<Vec<Sample>>()));

    let path = folder.join("rows.bin");
    let width = COLUMNS + 1;
    let rows = Rows::open_raw(&path, 0, Element::F32, ByteOrder::Little, &[width])?;
    let rows = Arc::new(rows.map(|row, _| Ok(split(row))));
    let len = rows.len();
    let placed = Arc::new(Placed { file: File::open(path)?, len });

    let tar = folder.join("images.tar");
    let decode = decoder()?;
    let images = Arc::new(Tar::open(&tar)?.map(move |sample: TarSample, cx| {
        let mut fields = sample.into_fields();
        let mut field = |name| fields.remove(name).unwrap_or_default();
        decode(field("rgb"), &field("cls"), cx.rng())
    }));
    let members =
        Arc::new(Members { samples: members(&tar)?, file: File::open(tar)?, decode: decoder()? });

    for workers in [0, 1, 2] {
        compare("csv", &table, &memory, workers, turns)?;
        compare("rows", &rows, &placed, workers, turns)?;
        compare("images", &images, &members, workers, turns)?;
    }
    Ok(())
}

/// Splits a row of numbers whose last is the class.
fn split(mut row: Vec<f32>) -> Sample {
    let class = row.pop().unwrap_or_default();
    (row, class as i64)
}

/// Returns a function that shifts an image by up to four pixels, mirrors it, and scales it.
fn decoder()
-> Result<impl Fn(Vec<u8>, &[u8], &mut Generator) -> samebits_data::Result<Sample>, Failure> {
    let crop = RandomCrop::new(SIDE, SIDE).padding(4);
    let flip = RandomHorizontalFlip::default();
    let normalize = Normalize::new(vec![0.5; 3], vec![0.25; 3])?;
    Ok(move |pixels, class: &[u8], generator: &mut Generator| {
        let image = Image { width: SIDE, height: SIDE, channels: 3, pixels };
        let image = flip.apply(crop.apply(&image, generator)?, generator)?;
        Ok((normalize.apply(&image)?, class.first().copied().unwrap_or_default().into()))
    })
}

/// Rows of a file, read in place.
struct Placed {
    file: File,
    len: usize,
}

impl BurnDataset<Sample> for Placed {
    fn get(&self, index: usize) -> Result<Sample, DatasetError> {
        let mut bytes = [0; 4 * (COLUMNS + 1)];
        let offset = (index * bytes.len()) as u64;
        self.file.read_exact_at(&mut bytes, offset).expect("a row");
        let row = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
        Ok(split(row.collect()))
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Images and classes of a tar file, read in place.
struct Members<F> {
    file: File,
    samples: Vec<[(u64, usize); 2]>,
    decode: F,
}

impl<F> BurnDataset<Sample> for Members<F>
where
    F: Fn(Vec<u8>, &[u8], &mut Generator) -> samebits_data::Result<Sample> + Send + Sync,
{
    fn get(&self, index: usize) -> Result<Sample, DatasetError> {
        let [pixels, class] = self.samples[index].map(|(offset, size)| {
            let mut bytes = vec![0; size];
            self.file.read_exact_at(&mut bytes, offset).expect("a member");
            bytes
        });
        // burn has no generator per sample: derive one from the index.
        let mut generator = Generator::new(1).fold_in(index as u64);
        Ok((self.decode)(pixels, &class, &mut generator).expect("an image"))
    }

    fn len(&self) -> usize {
        self.samples.len()
    }
}

/// Returns the offset and the size in bytes of each sample's image and class.
fn members(path: &Path) -> Result<Vec<[(u64, usize); 2]>, Failure> {
    let bytes = fs::read(path)?;
    let (mut at, mut all) = (0, Vec::new());
    while bytes.get(at).is_some_and(|&byte| byte != 0) {
        let size = std::str::from_utf8(&bytes[at + 124..at + 135])?;
        let size = usize::from_str_radix(size.trim(), 8)?;
        all.push((at as u64 + 512, size));
        at += 512 + size.next_multiple_of(512);
    }
    Ok(all.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect())
}

/// A batcher that puts rows and classes into one buffer each.
struct Stack;

impl Batcher<Sample, (Vec<f32>, Vec<i64>)> for Stack {
    fn batch(&self, items: Vec<Sample>, _: &Device) -> (Vec<f32>, Vec<i64>) {
        let width = items.first().map_or(0, |(row, _)| row.len());
        let mut values = Vec::with_capacity(items.len() * width);
        let mut classes = Vec::with_capacity(items.len());
        for (row, class) in items {
            values.extend(row);
            classes.push(class);
        }
        (values, classes)
    }
}

fn compare<D, B>(
    name: &str,
    ours: &Arc<D>,
    theirs: &Arc<B>,
    workers: usize,
    turns: usize,
) -> Result<(), Failure>
where
    D: Dataset<Item = Sample>,
    B: BurnDataset<Sample> + 'static,
{
    let samebits = DataLoader::builder(Arc::clone(ours)).batch_size(BATCH).shuffle(true);
    let samebits = samebits.workers(workers).persistent_workers(true).build()?;
    let burn = DataLoaderBuilder::new(Stack).batch_size(BATCH).shuffle(1).num_workers(workers);
    let burn = burn.build(Arc::clone(theirs));
    let mut number = 0;
    let mut own_epoch = || {
        number += 1;
        samebits.epoch(number).map(|batch| batch.unwrap().data.1.len()).sum::<usize>()
    };
    let mut other_epoch = || burn.iter().map(|batch| batch.unwrap().1.len()).sum::<usize>();
    assert_eq!((own_epoch(), other_epoch()), (ours.len(), ours.len()));
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        if turn % 2 == 0 {
            own.push(measure(&mut own_epoch));
            other.push(measure(&mut other_epoch));
        } else {
            other.push(measure(&mut other_epoch));
            own.push(measure(&mut own_epoch));
        }
    }
    let of = |all: &[[f64; 2]], which: usize| median(all.iter().map(|turn| turn[which]).collect());
    let mut ratios: Vec<f64> = own.iter().zip(&other).map(|(a, b)| a[0] / b[0]).collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{name},{workers},{:.0},{:.0},{:.2},{:.2},{:.2},{:.2},{:.2}",
        of(&own, 0),
        of(&other, 0),
        of(&own, 1),
        of(&other, 1),
        ratios[turns / 2],
        ratios[0],
        ratios[turns - 1]
    );
    Ok(())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Returns samples per second, and microseconds of processor time per sample.
fn measure(epoch: &mut impl FnMut() -> usize) -> [f64; 2] {
    let (begin, cpu, mut samples) = (Instant::now(), cpu_seconds(), 0);
    while begin.elapsed() < Duration::from_millis(500) {
        samples += epoch();
    }
    let samples = samples as f64;
    [samples / begin.elapsed().as_secs_f64(), (cpu_seconds() - cpu) * 1e6 / samples]
}

/// Returns the processor time of this process and all its threads so far.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
        / TICKS_PER_SECOND
}
