//! Files of tensors, and saved runs.

use std::io::{Cursor, Write as _};
use std::path::Path;

use samebits::functional::cross_entropy;
use samebits::io::{self, Checkpoint, Tensors, load_npy, load_npz, load_safetensors, save_npy};
use samebits::nn::{BatchNorm1d, Layer as _, Linear, Module as _, Sequential, draw_from};
use samebits::optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, Optimizer, RAdam, ReduceLrOnPlateau, RmsProp, Sgd,
};
use samebits::trainer::{self, Trainer, TrainerState};
use samebits::{DType, Generator, Tensor, sequential};
use samebits_data::{DataLoader, Memory, Stacked};
use zip::write::{SimpleFileOptions, ZipWriter};

use super::Draw;
use super::bytes::damaged;
use super::parsers::{Parsed, Samples, damaged_safetensors, file, said};

/// Returns the bytes that a function writes to a path.
fn written(write: impl FnOnce(&Path) -> io::Result<()>) -> Vec<u8> {
    let (_folder, path) = file("x", b"");
    write(&path).expect("tensors that can be saved");
    std::fs::read(path).expect("the file just written")
}

fn tensors() -> Tensors {
    let reals = Tensor::from_slice(&[0.5f32, -2.0, 3.0, 1e-40, f32::NAN, 7.0], &[2, 3]);
    let truths = Tensor::from_bools(&[true, false], &[2, 1]);
    [
        ("x", reals.expect("six numbers")),
        ("count", Tensor::scalar(17i64)),
        ("mask", truths.expect("two truth values")),
        ("empty", Tensor::zeros(&[0, 4], DType::F64).expect("no memory at all")),
    ]
    .map(|(name, tensor)| (name.to_owned(), tensor))
    .into()
}

pub(super) fn npy_samples() -> Samples {
    let foreign = |version: u8, length: &[u8], text: &str, data: &[u8]| {
        [b"\x93NUMPY", &[version, 0][..], length, text.as_bytes(), data].concat()
    };
    let big = "{'descr': '>f8', 'fortran_order': True, 'shape': (2, 1), }\n";
    let wide = "{\"shape\": (3,), \"fortran_order\": False, \"descr\": \"<i8\"}";
    let mut samples = vec![
        foreign(1, &(big.len() as u16).to_le_bytes(), big, &[7; 16]),
        foreign(2, &(wide.len() as u32).to_le_bytes(), wide, &[1; 24]),
    ];
    samples.extend(tensors().values().map(|tensor| written(|path| save_npy(path, tensor))));
    samples
}

pub(super) fn npy(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let (_folder, path) = file("x.npy", &damaged(draw, samples));
    read_all(&said(load_npy(path))?)
}

/// Reads arrays. An archive has checksums, which damage does not pass.
pub(super) fn npz(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let mut bytes = zipped(draw, samples);
    if draw.flag() {
        let archive = written(|path| io::save_npz(path, &tensors()));
        bytes = damaged(draw, &[archive, bytes]);
    }
    let (_folder, path) = file("x.npz", &bytes);
    if let Ok(mut file) = io::NpzFile::open(&path) {
        for entry in file.entries().into_iter().flatten() {
            let _ = file.tensor(&entry.name);
        }
    }
    said(load_npz(path))?.values().try_for_each(read_all)
}

/// Returns a valid archive of damaged arrays.
fn zipped(draw: &mut Draw, samples: &[Vec<u8>]) -> Vec<u8> {
    let methods = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated];
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..draw.between(1, 3) {
        let options = SimpleFileOptions::default().compression_method(draw.pick(&methods));
        let begun = archive.start_file(format!("{index}.npy"), options);
        begun.expect("a name of its own");
        archive.write_all(&damaged(draw, samples)).expect("memory does not fail");
    }
    archive.finish().expect("memory does not fail").into_inner()
}

fn read_all(tensor: &Tensor) -> Parsed {
    let bytes = said(tensor.to_bytes())?;
    assert_eq!(bytes.len(), tensor.numel() * tensor.dtype().size());
    Ok(())
}

pub(super) fn weight_samples() -> Samples {
    let state = model().state_dict();
    let named = || state.iter().map(|(name, tensor)| (name, tensor));
    vec![
        written(|path| io::save_safetensors(path, named())),
        written(|path| io::save_safetensors(path, &tensors())),
    ]
}

pub(super) fn weights(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let (_folder, path) = file("x.safetensors", &damaged_safetensors(draw, samples));
    if let Ok(mut file) = io::SafetensorsFile::open(&path) {
        for entry in file.entries() {
            let _ = file.tensor(&entry.name);
        }
    }
    let tensors = said(load_safetensors(path))?;
    tensors.values().try_for_each(read_all)?;
    let state: Vec<(String, Tensor)> = tensors.into_iter().collect();
    let mut model = model();
    said(model.load_state_dict(&state, draw.flag()))?;
    said(model.forward(&Tensor::scalar(0.5f32).expand(&[2, FEATURES]).expect("a view"))).map(drop)
}

/// Configurations and weights of language models: the former begin with a brace.
pub(super) fn gpt_samples() -> Samples {
    vec![
        include_bytes!("../../reference/gpt/gpt2/config.json").to_vec(),
        include_bytes!("../../reference/gpt/llama_tied/config.json").to_vec(),
        include_bytes!("../../reference/gpt/gpt2/model.safetensors").to_vec(),
        include_bytes!("../../reference/gpt/llama_tied/model.safetensors").to_vec(),
    ]
}

pub(super) fn gpts(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let model = draw.between(0, 1);
    let (config, weights) = (&samples[model], &samples[2 + model]);
    let (config, weights) = match draw.flag() {
        true => (damaged(draw, std::slice::from_ref(config)), weights.clone()),
        false => (config.clone(), damaged_safetensors(draw, std::slice::from_ref(weights))),
    };
    let (folder, _) = file("config.json", &config);
    std::fs::write(folder.path().join("model.safetensors"), weights).expect("a temporary file");
    let model = said(io::load_gpt(folder.path()))?;
    said(model.forward(&Tensor::zeros(&[1, 2], DType::I64).expect("two tokens"))).map(drop)
}

const FEATURES: usize = 2;

fn model() -> Sequential {
    draw_from(&mut Generator::new(1), || -> samebits::Result<Sequential> {
        Ok(sequential![Linear::new(FEATURES, 3)?, BatchNorm1d::new(3)?])
    })
    .expect("a small model")
}

type Run<O> = Trainer<'static, Sequential, O, DataLoader<Memory<(Vec<f32>, i64)>>>;

fn run<O: Optimizer>(optimizer: samebits::Result<O>, steps: u64) -> Run<O> {
    let samples = (0..9).map(|i| (vec![i as f32; FEATURES], i % 3)).collect();
    let loader = DataLoader::builder(Memory::new(samples)).batch_size(3).shuffle(true).seed(7);
    let optimizer = optimizer.expect("valid settings");
    Trainer::new(model(), optimizer, loader.build().expect("valid settings"), Generator::new(2))
        .epochs(4)
        .max_steps(steps)
        .plateau(ReduceLrOnPlateau::new().patience(0))
}

fn loss(
    model: &Sequential,
    (x, classes): (Stacked<f32>, Vec<i64>),
) -> Result<Tensor, trainer::Error> {
    let x = Tensor::from_slice(&x.values, &[x.rows, x.columns])?;
    let classes = Tensor::from_slice(&classes, &[classes.len()])?;
    Ok(cross_entropy(&model.forward(&x)?, &classes)?)
}

/// Loads valid checkpoints whose tensors do not match the run.
pub(super) fn runs(draw: &mut Draw, _: &[Vec<u8>]) -> Parsed {
    draw.expand_less();
    match draw.below(8) {
        0 => resumed(draw, || Sgd::options(0.1).momentum(0.9).nesterov(true).init()),
        1 => resumed(draw, || Adam::new(0.1)),
        2 => resumed(draw, || AdamW::options(0.1).amsgrad(true).init()),
        3 => resumed(draw, || RmsProp::options(0.1).centered(true).momentum(0.5).init()),
        4 => resumed(draw, || Adadelta::new(0.1)),
        5 => resumed(draw, || Adamax::new(0.1)),
        6 => resumed(draw, || RAdam::new(0.1)),
        _ => resumed(draw, || Adagrad::new(0.1)),
    }
}

/// Continues a damaged run beyond the end of an epoch.
fn resumed<O: Optimizer>(draw: &mut Draw, optimizer: fn() -> samebits::Result<O>) -> Parsed {
    let mut begun = run(optimizer(), 4);
    said(begun.fit(loss))?;
    let mut checkpoint = said(begun.state())?;
    for _ in 0..draw.pick(&[0, 1, 1, 2, 4]) {
        damage(draw, &mut checkpoint.tensors);
    }
    let bytes = said(checkpoint.to_bytes())?;
    let checkpoint: Checkpoint<TrainerState> = said(Checkpoint::from_bytes(&bytes))?;
    let mut again = run(optimizer(), 7);
    said(again.load_state(checkpoint))?;
    said(again.fit(loss))?;
    said(again.state()).map(drop)
}

/// Removes, copies, renames or replaces a tensor.
fn damage(draw: &mut Draw, tensors: &mut Tensors) {
    let names: Vec<String> = tensors.keys().cloned().collect();
    if names.is_empty() {
        return;
    }
    let (name, other) = (draw.pick(&names), draw.pick(&names));
    let tensor = tensors[&name].clone();
    let new = match draw.below(6) {
        0 => return drop(tensors.remove(&name)),
        1 => return drop(tensors.insert(other, tensor)),
        2 => return drop(tensors.insert(format!("{name}.step"), tensor)),
        3 => Tensor::scalar(draw.pick(&[0, -1, i64::MAX])),
        _ => draw.tensor(tensor.shape(), tensor.dtype()).into(),
    };
    tensors.insert(name, new);
}
