//! Trains on files of several kinds and checks that neither workers nor a resume changes a bit.
//!
//! ```text
//! cargo run -p samebits-data --features images,parquet --example sources
//! ```
//!
//! Writes a tar file, JSON lines, tokens, images and a Parquet file to a temporary folder; the last
//! two need features. Each source trains a linear model by gradient descent in four ways: without
//! workers, with three, resumed after its third batch, and as the first again. Each line holds the
//! source and the digest of the weights. The example fails if the four differ.

use std::fs;
use std::path::Path;

use samebits_data::{
    ByteOrder, DataLoader, Dataset, DatasetExt, Element, Error, Image, JsonLines, Normalize,
    RandomCrop, RandomHorizontalFlip, Result, Rows, SampleContext, ShardedDataset,
    ShardedDatasetExt, Stacked, StreamLoader, Tar, TarSample, TarShards,
};

type Failure = Box<dyn std::error::Error>;
/// A sample: the inputs, and the expected output.
type Sample = (Vec<f32>, f32);
type Samples = (Stacked<f32>, Vec<f32>);

const SIDE: usize = 6;
const COUNT: usize = 40;

/// One line of the JSON file.
#[derive(serde::Deserialize, serde::Serialize)]
struct Point {
    x: Vec<f32>,
    y: f32,
}

pub(crate) fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let tar = write_tar(&folder.path().join("images.tar"))?;
    let json = write_json(&folder.path().join("points.jsonl"))?;
    let tokens = write_tokens(&folder.path().join("tokens.bin"))?;

    show("tar by index", &indexed(Tar::open(&tar)?.map(decoder()?))?)?;
    show("tar as a stream", &streamed(TarShards::new(vec![tar.clone(), tar]).map(decoder()?))?)?;
    show("JSON lines", &indexed(JsonLines::<Point>::open(json)?.map(|p, _| Ok((p.x, p.y))))?)?;
    let windows = Rows::open_raw(tokens, 0, Element::U16, ByteOrder::Little, &[])?;
    let windows = windows.into_windows(9, 8)?.map(|window, _| {
        // Predict the last token from the earlier ones.
        let mut scaled: Vec<f32> = window.into_iter().map(|token| token as f32 / 100.0).collect();
        let last = scaled.pop().ok_or_else(|| Error::other("an empty window"))?;
        Ok((scaled, last))
    });
    show("tokens", &indexed(windows)?)?;
    #[cfg(feature = "images")]
    show("images", &indexed(images(&folder.path().join("images"))?)?)?;
    #[cfg(feature = "parquet")]
    {
        let path = folder.path().join("points.parquet");
        write_parquet(&path)?;
        show("Parquet by index", &indexed(samebits_data::Parquet::open(&path)?.map(point))?)?;
        let groups = samebits_data::ParquetShards::new(vec![path])?;
        show("Parquet stream", &streamed(groups.map(point))?)?;
    }
    Ok(())
}

/// Returns a function that decodes and augments an image of a tar file, which consists of raw
/// pixels, and its class.
fn decoder()
-> Result<impl Fn(TarSample, &mut SampleContext<'_>) -> Result<Sample> + Send + Sync + 'static> {
    let crop = RandomCrop::new(SIDE, SIDE).padding(1);
    let flip = RandomHorizontalFlip::default();
    let normalize = Normalize::new(vec![0.5], vec![0.25])?;
    Ok(move |sample: TarSample, cx: &mut SampleContext<'_>| {
        let pixels = sample.field("pixels")?.to_vec();
        let image = Image { width: SIDE, height: SIDE, channels: 1, pixels };
        let image = flip.apply(crop.apply(&image, cx.rng())?, cx.rng())?;
        let class = std::str::from_utf8(sample.field("cls")?).map_err(Error::other)?;
        Ok((normalize.apply(&image)?, class.parse().map_err(Error::other)?))
    })
}

/// Returns the weights after an epoch, for each way of loading it.
fn indexed<D: Dataset<Item = Sample>>(data: D) -> Result<Vec<Vec<f32>>> {
    let data = std::sync::Arc::new(data);
    let loader = |workers| {
        let builder = DataLoader::builder(data.clone()).batch_size(4).shuffle(true);
        builder.seed(1).workers(workers).build()
    };
    let whole = |workers| train(loader(workers)?.epoch(0).map(|batch| batch.map(|b| b.data)));
    let plain = loader(0)?;
    let mut epoch = plain.epoch(0);
    let mut batches: Vec<_> = epoch.by_ref().take(3).collect();
    batches.extend(loader(2)?.resume(&epoch.state()?)?);
    let resumed = train(batches.into_iter().map(|batch| batch.map(|b| b.data)));
    Ok(vec![whole(0)?, whole(3)?, resumed?, whole(0)?])
}

/// Returns the same for a stream.
fn streamed<D: ShardedDataset<Item = Sample>>(data: D) -> Result<Vec<Vec<f32>>> {
    let data = std::sync::Arc::new(data);
    let loader = |workers| {
        let builder = StreamLoader::builder(data.clone()).batch_size(4).shuffle(true);
        builder.window(8).lanes(2).seed(1).workers(workers).build()
    };
    let whole = |workers| train(loader(workers)?.epoch(0).map(|batch| batch.map(|b| b.data)));
    let plain = loader(0)?;
    let mut epoch = plain.epoch(0);
    let mut batches: Vec<_> = epoch.by_ref().take(3).collect();
    batches.extend(loader(2)?.resume(epoch.state())?);
    let resumed = train(batches.into_iter().map(|batch| batch.map(|b| b.data)));
    Ok(vec![whole(0)?, whole(3)?, resumed?, whole(0)?])
}

/// Trains a linear model by gradient descent on the squared error, batch after batch.
fn train(batches: impl Iterator<Item = Result<Samples>>) -> Result<Vec<f32>> {
    let mut weights = Vec::new();
    for batch in batches {
        let (inputs, targets) = batch?;
        weights.resize(inputs.columns, 0.0);
        for (row, target) in inputs.values.chunks_exact(inputs.columns).zip(targets) {
            let output = row.iter().zip(&weights).fold(0.0, |sum, (x, w)| sum + x * w);
            for (weight, x) in weights.iter_mut().zip(row) {
                *weight -= 0.001 * (output - target) * x;
            }
        }
    }
    Ok(weights)
}

#[allow(clippy::print_stdout, reason = "printing is what it is for")]
fn show(source: &str, ways: &[Vec<f32>]) -> Result<(), Failure> {
    let digest = |weights: &Vec<f32>| {
        weights.iter().fold(0_u64, |digest, weight| {
            (digest ^ u64::from(weight.to_bits()))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        })
    };
    let digests: Vec<u64> = ways.iter().map(digest).collect();
    if digests.iter().any(|digest| *digest != digests[0]) {
        return Err(format!("{source}: the ways differ: {digests:016x?}").into());
    }
    println!("{source:16} {:016x}", digests[0]);
    Ok(())
}

/// Creates a dataset of grey images in one folder per class, as numbers and the class.
#[cfg(feature = "images")]
fn images(folder: &Path) -> Result<impl Dataset<Item = Sample>, Failure> {
    for i in 0..COUNT {
        let class = folder.join((i % 3).to_string());
        fs::create_dir_all(&class)?;
        let pixels = (0..SIDE * SIDE).map(|p| (29 * p + 13 * i) as u8);
        let file = format!("P5 {SIDE} {SIDE} 255\n").into_bytes().into_iter().chain(pixels);
        fs::write(class.join(format!("{i}.pgm")), file.collect::<Vec<u8>>())?;
    }
    let affine = samebits_data::RandomAffine::new(10.0)?.scale(0.9, 1.1)?;
    let normalize = Normalize::new(vec![0.5], vec![0.25])?;
    let images = samebits_data::ImageFolder::open(folder)?.channels(samebits_data::Channels::Grey);
    Ok(images.map(move |(image, class), cx| {
        Ok((normalize.apply(&affine.apply(&image, cx.rng())?)?, class as f32))
    }))
}

#[cfg(feature = "parquet")]
fn point(row: samebits_data::ParquetRow, _: &mut SampleContext<'_>) -> Result<Sample> {
    Ok((vec![row.number("a")?, row.number("b")?], row.number("y")?))
}

/// Writes two row groups of the columns `a`, `b` and `y`.
#[cfg(feature = "parquet")]
fn write_parquet(path: &Path) -> Result<(), Failure> {
    use parquet::file::writer::SerializedFileWriter;

    let schema = "message points { required float a; required float b; required float y; }";
    let schema = std::sync::Arc::new(parquet::schema::parser::parse_message_type(schema)?);
    let mut writer =
        SerializedFileWriter::new(fs::File::create(path)?, schema, Default::default())?;
    for first in [0, COUNT / 2] {
        let mut group = writer.next_row_group()?;
        let mut column = 0;
        while let Some(mut next) = group.next_column()? {
            column += 1;
            let rows = first..first + COUNT / 2;
            let values: Vec<f32> = rows.map(|i| (i * column % 7) as f32 / 4.0).collect();
            next.typed::<parquet::data_type::FloatType>().write_batch(&values, None, None)?;
            next.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn write_tar(path: &Path) -> Result<std::path::PathBuf, Failure> {
    let mut tar = tar::Builder::new(fs::File::create(path)?);
    for i in 0..COUNT {
        let pixels: Vec<u8> = (0..SIDE * SIDE).map(|p| (31 * p + 17 * i) as u8).collect();
        let class = (i % 3).to_string();
        for (ending, content) in [("pixels", &pixels[..]), ("cls", class.as_bytes())] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, format!("train/{i:04}.{ending}"), content)?;
        }
    }
    tar.into_inner()?;
    Ok(path.to_owned())
}

fn write_json(path: &Path) -> Result<std::path::PathBuf, Failure> {
    let mut text = String::new();
    for i in 0..COUNT {
        let x: Vec<f32> = (0..4).map(|j| ((i * 7 + j * 3) % 11) as f32 / 8.0).collect();
        let y = x[0] - 2.0 * x[3];
        text += &serde_json::to_string(&Point { x, y })?;
        text.push('\n');
    }
    fs::write(path, text)?;
    Ok(path.to_owned())
}

fn write_tokens(path: &Path) -> Result<std::path::PathBuf, Failure> {
    let tokens = (0..8 * COUNT + 1).map(|i| (i * i % 97) as u16);
    fs::write(path, tokens.flat_map(u16::to_le_bytes).collect::<Vec<_>>())?;
    Ok(path.to_owned())
}
