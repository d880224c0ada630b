//! The parsers: readers of files and saved states.

use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use flate2::{Compression, write::GzEncoder};
use samebits::Device;
use samebits::autotune::{ChoiceFile, ConvKey, Mode};
use samebits::rng::numpy::{self, SeedSequence};
use samebits::rng::torch::CpuGenerator;
use samebits::rng::{Generator, Pcg64, Pcg64Dxsm, Philox4x64, Words};
use samebits_data::{
    ByteOrder, Channels, CsvOptions, DataLoader, Dataset, Deal, Element, ImageFolder, Keep, Label,
    Lines, LoaderState, Memory, Records, Rows, ShardedDataset, Stack, StreamLoader, StreamState,
};
use samebits_ptx_emulator::{self as ptx, Approximate, Module};
use serde::{Serialize, de::DeserializeOwned};

use super::bytes::{damaged, damaged_text};
use super::{Draw, Outcome, Target, ledgers, saved, sources};

/// The result of a parser: success, or the reason of the failure.
pub(super) type Parsed = Result<(), String>;

/// The files that a target starts from.
pub(super) type Samples = Vec<Vec<u8>>;

pub(super) fn targets() -> Vec<Target> {
    let mut targets = Vec::new();
    let mut add =
        |name: &str, samples: fn() -> Samples, parse: fn(&mut Draw, &[Vec<u8>]) -> Parsed| {
            let samples = std::sync::LazyLock::new(samples);
            targets.push(Target {
                name: format!("bytes/{name}"),
                kernel: None,
                run: Box::new(move |draw| match parse(draw, &samples) {
                    Ok(()) => Outcome::Result,
                    Err(message) if message.trim().is_empty() => {
                        Outcome::Wrong("an error without a message".to_owned())
                    }
                    Err(_) => Outcome::Refused,
                }),
            });
        };
    add("checkpoints", checkpoint_samples, checkpoints);
    add("choices", choice_samples, choices);
    add("csv", csv_samples, csv);
    add("generators", generator_samples, generators);
    add("gpts", saved::gpt_samples, saved::gpts);
    add("idx", idx_samples, idx);
    add("images", image_samples, images);
    add("json_lines", sources::json_samples, sources::json_lines);
    add("ledgers", ledgers::samples, ledgers::ledgers);
    add("lines", csv_samples, lines);
    add("loader_state", loader_samples, loader_state);
    add("npy", saved::npy_samples, saved::npy);
    add("npz", saved::npy_samples, saved::npz);
    add("ptx", ptx_samples, ptx);
    add("runs", Samples::new, saved::runs);
    add("safetensors", safetensors_samples, safetensors);
    add("schedules", schedule_samples, schedules);
    add("seed_sequence", seed_samples, seed_sequence);
    add("random_states", || vec![vec![7; 4 * 624]], random_states);
    add("serde_generators", serde_samples, serde_generators);
    add("stream_state", stream_samples, stream_state);
    add("tar", sources::tar_samples, sources::tar);
    add("tokens", idx_samples, tokens);
    add("weights", saved::weight_samples, saved::weights);
    targets
}

pub(super) fn said<T>(result: Result<T, impl Display>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Writes a file with this name and these bytes, in a folder of its own.
pub(super) fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().expect("a name in a folder")).expect("a folder");
    std::fs::write(&path, bytes).expect("a temporary file");
    (folder, path)
}

/// Sometimes compresses the bytes with gzip, so that damage passes its checksum.
pub(super) fn sometimes_zipped(draw: &mut Draw, bytes: Vec<u8>) -> Vec<u8> {
    if draw.chance(4) { zipped(&bytes) } else { bytes }
}

pub(super) fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory does not fail")
}

fn csv_samples() -> Samples {
    let plain = b"x, y ,class\n0.5,-2e3,1\n1.25e-4,7, 3\r\n\"4\",.5,-2\n".to_vec();
    vec![b"1,2,0\n3,4,1\n5,6,2\n".to_vec(), zipped(&plain), plain]
}

fn csv(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let bytes = damaged(draw, samples);
    let bytes = sometimes_zipped(draw, bytes);
    let label = draw.pick(&[Label::None, Label::Last, Label::Column(0)]);
    let mut options = CsvOptions::new().header(draw.flag()).label(label);
    if draw.hostile() {
        options = options.label(Label::Column(draw.count(1)));
    }
    if draw.hostile() {
        options = options.columns(draw.count(3));
    }
    if draw.hostile() {
        options = options.labels(draw.int(0), draw.int(9));
    }
    if draw.hostile() {
        options = options.delimiter(draw.word() as u8);
    }
    let table = said(options.parse("x.csv", &bytes))?;
    let row = draw.count(0);
    table.row(row);
    Ok(())
}

fn lines(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let bytes = damaged(draw, samples);
    let bytes = sometimes_zipped(draw, bytes);
    let (_folder, path) = file("x.txt", &bytes);
    let skip = draw.count(1) as u64;
    let records: Records<String> = said(Lines::new(vec![path]).open(0, skip))?;
    for record in records.take(100) {
        said(record)?;
    }
    Ok(())
}

fn idx_samples() -> Samples {
    let of = |kind: u8, sizes: &[u32], data: usize| {
        let mut bytes = vec![0, 0, kind, sizes.len() as u8];
        bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
        bytes.extend((0..data).map(|i| (37 * i) as u8));
        bytes
    };
    let labels = of(8, &[9], 9);
    vec![
        of(8, &[3, 2, 4], 24),
        of(0x0d, &[2, 3], 24),
        of(0x0e, &[1, 2], 16),
        zipped(&labels),
        labels,
    ]
}

/// Reads some rows, including those at the limits.
fn rows(draw: &mut Draw, rows: Rows) -> Parsed {
    let index = draw.count(rows.len().saturating_sub(1));
    for index in [0, rows.len() / 2, index] {
        // A row index that no file holds has no bytes, either.
        let bytes = said(rows.row_bytes(index))?;
        assert_eq!(bytes.len() % rows.element().size(), 0);
    }
    first(rows.clone())?;
    // Most rows are not labels.
    rows.into_labels().map_or(Ok(()), |labels| first(labels).map(drop))
}

fn idx(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let bytes = damaged(draw, samples);
    let bytes = sometimes_zipped(draw, bytes);
    rows(draw, said(Rows::parse_idx("x.idx", bytes))?)
}

fn tokens(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let bytes = damaged(draw, samples);
    let (_folder, path) = file("x.bin", &bytes);
    let element = draw.pick(&[Element::U16, Element::I64, Element::U8, Element::F32]);
    let order = draw.pick(&[ByteOrder::Little, ByteOrder::Big]);
    let shape = draw.counts(&[1]);
    let header = draw.count(bytes.len() % element.size()) as u64;
    rows(draw, said(Rows::open_raw(path, header, element, order, &shape))?)
}

fn safetensors_samples() -> Samples {
    let of = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend((0..data).map(|i| (91 * i) as u8));
        bytes
    };
    vec![
        of(r#"{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#, 24),
        of(
            r#"{"__metadata__":{"a":"b"},"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"x":{"dtype":"I64","shape":[2,1],"data_offsets":[8,24]}}"#,
            24,
        ),
        of(r#"{"x":{"dtype":"BF16","shape":[0,3],"data_offsets":[0,0]}}"#, 0),
    ]
}

pub(super) fn damaged_safetensors(draw: &mut Draw, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = damaged(draw, samples);
    if draw.flag() && bytes.len() > 8 {
        // Restore the length of the header if damage has moved its end.
        let end = bytes.windows(2).position(|pair| pair == b"}}").map_or(0, |at| at + 2);
        bytes[..8].copy_from_slice(&(end.saturating_sub(8) as u64).to_le_bytes());
    }
    bytes
}

fn safetensors(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let bytes = damaged_safetensors(draw, samples);
    rows(draw, said(Rows::parse_safetensors("x.safetensors", bytes, "x"))?)
}

fn image_samples() -> Samples {
    let mut bmp = b"BM".to_vec();
    for word in [62u32, 0, 54, 40, 2, 1, 24 << 16 | 1, 0, 8, 0, 0, 0, 0] {
        bmp.extend(word.to_le_bytes());
    }
    bmp.extend([1, 2, 3, 4, 5, 6, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in [
        (b"IHDR", [0, 0, 0, 2, 0, 0, 0, 1, 8, 0, 0, 0, 0].to_vec()),
        (b"IDAT", zlib(&[0, 7, 9])),
        (b"IEND", Vec::new()),
    ] {
        png.extend((data.len() as u32).to_be_bytes());
        png.extend(name);
        png.extend(&data);
        png.extend([0; 4]);
    }
    sign_png(&mut png);
    vec![
        png,
        bmp,
        include_bytes!("grey.jpg").to_vec(),
        b"P5 2 1 255\n\x07\x09".to_vec(),
        b"P3 1 2 255\n1 2 3 4 5 6\n".to_vec(),
        b"P4 9 1\n\xff\x00".to_vec(),
        b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n\x01\x02\x03\x04\x05\x06"
            .to_vec(),
    ]
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory does not fail")
}

/// Corrects the checksums of a PNG's chunks, as far as it still has chunks.
fn sign_png(bytes: &mut [u8]) {
    let mut at = 8;
    while let Some(length) = bytes.get(at..at + 4) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        let end = at + 8 + length;
        if end + 4 > bytes.len() {
            return;
        }
        let checksum = crc32fast::hash(&bytes[at + 4..end]);
        bytes[end..end + 4].copy_from_slice(&checksum.to_be_bytes());
        at = end + 4;
    }
}

fn images(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let mut bytes = damaged(draw, samples);
    if draw.flag() {
        sign_png(&mut bytes);
    }
    let (folder, _) = file("class/1.png", &bytes);
    let images = said(ImageFolder::open(folder.path()))?;
    let images = images.channels(draw.pick(&[Channels::Grey, Channels::Rgb, Channels::Rgba]));
    let (image, _) = first(images)?.expect("one image");
    assert_eq!(image.pixels.len(), image.width * image.height * image.channels);
    Ok(())
}

/// Returns the first sample of a dataset, if any.
fn first<D: Dataset>(data: D) -> Result<Option<D::Item>, String> {
    let loader = said(DataLoader::builder_with(data, Keep).build())?;
    let batch = said(loader.epoch(0).next().transpose())?;
    Ok(batch.and_then(|batch| batch.data.into_iter().next()))
}

fn generator_samples() -> Samples {
    let mut moved = Philox4x64::new(5);
    numpy::Generator::new(moved.clone()).next_u64();
    moved.advance_blocks(3);
    vec![
        Generator::new(1).with_stream(7).with_offset(9).to_bytes().to_vec(),
        Pcg64::new(2).to_bytes().to_vec(),
        Pcg64Dxsm::new(3).to_bytes().to_vec(),
        moved.to_bytes().to_vec(),
        CpuGenerator::manual_seed(4).get_state(),
    ]
}

fn generators(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let mut state = damaged(draw, samples);
    if draw.flag() && state.len() >= 8 {
        let checked = [&state[..4], &state[8..]].concat();
        state[4..8].copy_from_slice(&crc32fast::hash(&checked).to_le_bytes());
    }
    match state.get(2) {
        Some(1) => used(draw, said(Generator::from_bytes(&state))?),
        Some(2) => numbers(draw, said(Pcg64::from_bytes(&state))?),
        Some(3) => numbers(draw, said(Pcg64Dxsm::from_bytes(&state))?),
        Some(4) => numbers(draw, said(Philox4x64::from_bytes(&state))?),
        _ => torch(draw, said(CpuGenerator::from_state(&state))?),
    }
    Ok(())
}

fn random_states(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let mut key = [0; 624];
    for (word, bytes) in key.iter_mut().zip(damaged(draw, samples).chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    }
    let position = if draw.flag() { draw.below(630) } else { draw.word() as usize };
    let gauss = draw.flag().then(|| f64::from_bits(draw.word()));
    let mut random = said(numpy::RandomState::from_state(key, position, gauss))?;
    random.random_sample();
    random.standard_normal();
    random.standard_exponential();
    random.shuffle(&mut [1, 2, 3]);
    drop(random.permutation(draw.below(20)));
    drop(random.randint(draw.int(0), draw.int(9)));
    let (key, position, gauss) = random.get_state();
    said(numpy::RandomState::from_state(*key, position, gauss)).expect("its own state");
    Ok(())
}

/// Draws of every kind; rejected parameters do not concern this target.
fn used(draw: &mut Draw, mut generator: Generator) {
    let mut words = vec![0; draw.below(20)];
    generator.fill_u32(&mut words);
    let mut wide = vec![0; draw.below(20)];
    generator.fill_u64(&mut wide);
    let mut reals = vec![0.0; draw.below(20)];
    drop(generator.fill_normal_f32(&mut reals, 0.0, 1.0));
    drop(generator.fill_gamma_f32(&vec![0.5; reals.len()], &mut reals));
    let mut integers = vec![0; draw.below(20)];
    drop(generator.fill_randint(&mut integers, draw.int(0), draw.int(9)));
    drop(generator.permutation(draw.below(20)));
    drop((generator.fold_in(draw.word()), generator.split(3)));
    let state = generator.to_bytes();
    assert_eq!(Generator::from_bytes(&state).as_ref(), Ok(&generator));
}

fn numbers<B: numpy::BitGenerator + Clone>(draw: &mut Draw, bits: B) {
    let mut generator = numpy::Generator::new(bits);
    generator.next_u32();
    generator.standard_normal();
    drop(generator.integers(draw.int(0), draw.int(9)));
    drop(generator.permutation(draw.below(20)));
    generator.advance(u128::from(draw.word()) << 64 | u128::from(draw.word()));
    generator.next_u64();
}

fn torch(draw: &mut Draw, mut generator: CpuGenerator) {
    let mut reals = vec![0.0; draw.below(700)];
    generator.rand_f32(&mut reals);
    generator.randn_f32(&mut reals);
    let mut reals = vec![0.0; draw.below(20)];
    generator.randn_f64(&mut reals);
    drop(generator.randperm(draw.below(20)));
    let state = generator.get_state();
    let again = CpuGenerator::from_state(&state).map(|again| again.get_state());
    assert_eq!(again, Ok(state));
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value of numbers and names")
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    said(serde_json::from_str(text))
}

fn serde_samples() -> Samples {
    vec![
        json(&Generator::new(1).with_stream(7).with_offset(9)),
        json(&Pcg64::new(2)),
        json(&Philox4x64::new(3)),
        json(&numpy::default_rng(4)),
        json(&SeedSequence::new(5)),
        json(&Words::new(Generator::new(1))),
    ]
}

fn serde_generators(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let text = damaged_text(draw, samples);
    let mut parsed = Vec::new();
    parsed.push(from_json(&text).map(|generator| used(draw, generator)));
    parsed.push(from_json::<Pcg64>(&text).map(|bits| numbers(draw, bits)));
    parsed.push(from_json::<Pcg64Dxsm>(&text).map(|bits| numbers(draw, bits)));
    parsed.push(from_json::<Philox4x64>(&text).map(|bits| numbers(draw, bits)));
    parsed.push(from_json::<numpy::Generator<Pcg64>>(&text).map(|mut generator| {
        generator.next_u32();
    }));
    parsed.push(from_json::<SeedSequence>(&text).map(|mut sequence| {
        drop(sequence.generate_state_u32(draw.below(20)));
        drop(sequence.spawn(draw.below(4) as u32));
    }));
    parsed.push(from_json::<Words>(&text).map(|mut words| {
        words.advance(draw.word());
        used(draw, words.into_generator());
    }));
    parsed.into_iter().find(Result::is_ok).unwrap_or_else(|| Err("no generator".to_owned()))
}

fn seed_samples() -> Samples {
    vec![b"0".to_vec(), b"18446744073709551616".to_vec(), "9".repeat(300).into_bytes()]
}

fn seed_sequence(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let text = damaged_text(draw, samples);
    let mut sequence = said(SeedSequence::from_decimal(&text))?;
    drop(sequence.generate_state_u64(draw.below(20)));
    drop(sequence.spawn(draw.below(4) as u32));
    Ok(())
}

fn toy_loader(workers: usize) -> DataLoader<Memory<f32>, Stack> {
    DataLoader::builder(Memory::new(vec![0.0; 10]))
        .batch_size(3)
        .shuffle(true)
        .seed(7)
        .workers(workers)
        .build()
        .expect("valid options")
}

fn loader_samples() -> Samples {
    let saved = |workers| {
        let loader = toy_loader(workers);
        let mut epoch = loader.epoch(2);
        epoch.next();
        json(&epoch.state().expect("a state between batches"))
    };
    vec![saved(0), saved(2)]
}

fn loader_state(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let state: LoaderState = from_json(&damaged_text(draw, samples))?;
    let loader = toy_loader(draw.below(3));
    for batch in said(loader.resume(&state))?.take(100) {
        said(batch)?;
    }
    for batch in said(loader.resume_dealt(&state, &Deal { per_step: 2, own: 1..2 }))?.take(100) {
        said(batch)?;
    }
    Ok(())
}

fn toy_stream() -> (tempfile::TempDir, StreamLoader<Lines, Keep>) {
    let (folder, path) = file("x.txt", b"a\nb\nc\nd\n");
    let loader = StreamLoader::builder_with(Lines::new(vec![path]), Keep)
        .batch_size(2)
        .build()
        .expect("valid options");
    (folder, loader)
}

fn stream_samples() -> Samples {
    let (_folder, loader) = toy_stream();
    let mut epoch = loader.epoch(2);
    epoch.next();
    vec![json(epoch.state())]
}

fn stream_state(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let state: StreamState = from_json(&damaged_text(draw, samples))?;
    let (_folder, loader) = toy_stream();
    let own = draw.below(3)..draw.below(3);
    for batch in said(loader.resume_lanes(&state, own))?.take(100) {
        said(batch)?;
    }
    for batch in said(loader.resume(&state))?.take(100) {
        said(batch)?;
    }
    Ok(())
}

fn checkpoint_samples() -> Samples {
    vec![samebits_cli::fresh_checkpoint(3).expect("a run that has not begun")]
}

fn checkpoints(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let mut bytes = draw.pick(samples);
    // Most of the file is weights, which may be anything: damage the header.
    let header = bytes[..8].try_into().map(u64::from_le_bytes).expect("eight bytes");
    let weights = bytes.split_off(8 + header as usize);
    let mut text = damaged(draw, &[bytes[8..].to_vec()]);
    text.extend(vec![b' '; text.len().next_multiple_of(8) - text.len()]);
    let length = draw.count(text.len()) as u64;
    let mut bytes = [length.to_le_bytes().to_vec(), text, weights].concat();
    if draw.hostile() {
        bytes.truncate(draw.below(bytes.len()));
    }
    said(samebits_cli::check_checkpoint(&bytes))
}

const CHOICES: &str = r#"format = 1
numerics = 2
device = "a device"
library = "a library"

[[choice]]
algorithm = "winograd"
digest = "sha256:2fd62a0f708d9a27aea00ac5b0b512b3f0cf38d70d09c251a0f51dde4cb73eda"

[choice.key]
pass = "forward"
dtype = "f32"
level = "RunToRun"
input = [16, 64, 56, 56]
weight = [64, 64, 3, 3]
stride = [1, 1]
padding = [1, 1]
dilation = [1, 1]
groups = 1

[choice.candidates]
"winograd" = { time_ns = 600, workspace = 64 }
"direct" = { workspace = 0, disqualified = "no memory" }

[end]
choices = 1
"#;

fn choice_samples() -> Samples {
    // With the fingerprint of this machine, a tuner goes on to check the choices.
    samebits::install();
    let here = samebits::autotune::default_config(Device::Cpu).expect("the host's own").fingerprint;
    let here = CHOICES
        .replace("a device", &here.device.replace(['"', '\\'], ""))
        .replace("a library", &here.library.replace(['"', '\\'], ""));
    vec![here.into_bytes(), CHOICES.into()]
}

fn choices(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let text = damaged_text(draw, samples);
    let (_folder, path) = file("choices.toml", text.as_bytes());
    let read = said(ChoiceFile::<ConvKey>::read(&path))?;
    for (key, choice) in read.choices() {
        drop((key.to_string(), key.geometry(), choice.clone()));
    }
    let mut config = said(samebits::autotune::default_config(Device::Cpu))?;
    config.mode = Mode::pinned(path.clone());
    // A tuner may reject a valid file of another program.
    if let Ok(tuner) = samebits::autotune::tuner_with(Device::Cpu, config) {
        for (key, _) in read.choices() {
            drop(tuner.choose(key));
        }
    }
    said(samebits::autotune::prune::<ConvKey>(&path, std::time::Duration::ZERO, |_, _| false))
        .map(drop)
}

fn ptx_samples() -> Samples {
    vec![
        include_str!("../../../crates/ptx-emulator/tests/ptx/speed.ptx").into(),
        include_str!("../../../crates/ptx-emulator/tests/ptx/calls.ptx").into(),
        include_str!("../../../crates/cuda-kernels/ptx/optim.ptx").into(),
        include_str!("../../../crates/cuda-kernels/ptx/bincount.ptx").into(),
    ]
}

fn ptx(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let text = damaged_text(draw, samples);
    let approximate = draw.pick(&[Approximate::Allow, Approximate::Refuse]);
    let module = Arc::new(said(Module::parse_with(&text, &approximate))?);
    for name in module.entries() {
        module.entry(name).expect("an entry point");
    }
    let mut device = ptx::Device::with_memory(0, 1 << 24);
    let loaded = said(device.load(module))?;
    said(device.unload(&loaded))
}

fn schedule_samples() -> Samples {
    [&b"in-order"[..], b"reversed", b"seed:7"].map(<[u8]>::to_vec).into()
}

fn schedules(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let text = damaged_text(draw, samples);
    ptx::Schedule::parse(&text).map(drop).ok_or_else(|| "no schedule".to_owned())
}
