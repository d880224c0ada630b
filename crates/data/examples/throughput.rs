//! Times the loader on three sets and shows that the workers do not change what is loaded.
//!
//! ```text
//! cargo run --release -p samebits-data --example throughput -- digits.csv.gz
//! ```
//!
//! Each line holds the set, the number of workers, samples per second, microseconds of processor
//! time per sample, and a digest of all batches in the order in which they arrived. Processor
//! time is what can be compared on a machine that has other work to do. The last number is the
//! share of the last epoch in which the workers were loading rather than waiting.

use std::io::Write;
use std::time::{Duration, Instant};

use samebits_data::{
    Collate, CsvOptions, DataLoader, Dataset, Result, SampleContext, Stack, Stacked,
};
use samebits_rng::Generator;

const SIDE: usize = 32;
const PADDING: usize = 4;

/// Images of 3×32×32 bytes, shifted by up to four pixels, mirrored, and scaled to [0, 1].
struct Synthetic {
    pixels: Vec<u8>,
}

impl Synthetic {
    const PIXELS: usize = 3 * SIDE * SIDE;

    fn new(images: usize) -> Self {
        let mut words = vec![0; images * Self::PIXELS / 4];
        Generator::new(1).fill_u32(&mut words);
        Synthetic { pixels: words.iter().flat_map(|word| word.to_le_bytes()).collect() }
    }
}

impl Dataset for Synthetic {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        self.pixels.len() / Self::PIXELS
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Self::Item> {
        let image = &self.pixels[index * Self::PIXELS..][..Self::PIXELS];
        let [down, right, mirror, _] = cx.rng().next_block();
        let shift = |word: u32| (word >> 16) as usize % (2 * PADDING + 1);
        let (down, right) = (shift(down), shift(right));
        let mut out = vec![0.0; Self::PIXELS];
        for (row, out) in out.chunks_exact_mut(SIDE).enumerate() {
            let (channel, y) = (row / SIDE, row % SIDE);
            // The place in the padded image, then without its border.
            let Some(y) = (y + down).checked_sub(PADDING).filter(|&y| y < SIDE) else { continue };
            let line = &image[(channel * SIDE + y) * SIDE..][..SIDE];
            for (x, out) in out.iter_mut().enumerate() {
                let x = if mirror >> 31 == 1 { SIDE - 1 - x } else { x };
                let x = (x + right).checked_sub(PADDING);
                if let Some(&pixel) = x.and_then(|x| line.get(x)) {
                    *out = f32::from(pixel) / 255.0;
                }
            }
        }
        Ok((out, index as i64 % 10))
    }
}

/// Samples that cost about 50 microseconds of arithmetic, as decoding a small picture does.
struct Decoding;

impl Dataset for Decoding {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        8000
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<Self::Item> {
        let mut word = index as u32 + 1;
        for _ in 0..25_000 {
            word ^= word << 13;
            word ^= word >> 17;
            word ^= word << 5;
        }
        Ok((vec![(word >> 8) as f32], index as i64))
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: throughput digits.csv.gz")?;
    let digits = CsvOptions::new().columns(65).labels(0, 9).read(path)?;
    let digits = std::sync::Arc::new(digits);
    let images = std::sync::Arc::new(Synthetic::new(10_000));
    for workers in [0, 1, 2] {
        measure("digits", &digits, workers)?;
        measure("images", &images, workers)?;
        measure("decode", &std::sync::Arc::new(Decoding), workers)?;
    }
    Ok(())
}

fn measure<D>(name: &str, data: &std::sync::Arc<D>, workers: usize) -> Result<()>
where
    D: Dataset<Item = (Vec<f32>, i64)>,
    Stack: Collate<(Vec<f32>, i64), Batch = (Stacked<f32>, Vec<i64>)>,
{
    let loader = DataLoader::builder(std::sync::Arc::clone(data))
        .batch_size(64)
        .shuffle(true)
        .seed(0)
        .workers(workers)
        .persistent_workers(true)
        .build()?;
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for batch in loader.epoch(0) {
        let (values, labels) = batch?.data;
        let bits = values.values.iter().map(|value| u64::from(value.to_bits()));
        for word in bits.chain(labels.iter().map(|&label| label as u64)) {
            digest = (digest ^ word).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let (begin, cpu, mut samples, mut epoch) = (Instant::now(), cpu_seconds(), 0, 0);
    let mut report = loader.epoch(0).report();
    while begin.elapsed() < Duration::from_secs(2) {
        epoch += 1;
        let mut batches = loader.epoch(epoch);
        for batch in &mut batches {
            samples += batch?.data.1.len();
        }
        report = batches.report();
    }
    let rate = samples as f64 / begin.elapsed().as_secs_f64();
    let cost = (cpu_seconds() - cpu) * 1e6 / samples as f64;
    let busy = report.busy.iter().sum::<Duration>().as_secs_f64()
        / (report.elapsed.as_secs_f64() * report.busy.len() as f64);
    writeln!(std::io::stdout(), "{name},{workers},{rate:.0},{cost:.3},{digest:016x},{busy:.3}")
        .map_err(samebits_data::Error::other)
}

/// Processor time of this process and all its threads so far; not a number where the system does
/// not tell it in this way.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, a name in brackets, may hold spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let times: Vec<f64> = fields.skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
    if times.len() == 2 { (times[0] + times[1]) / TICKS_PER_SECOND } else { f64::NAN }
}
