//! Saving and loading a run: a safetensors file with the model, the optimiser's state and,
//! in its metadata, everything else that the rest of the run depends on.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use samebits::data::LoaderState;
use samebits::nn::Module;
use samebits::optim::Optimizer;
use samebits::{DType, Generator, NUMERICS_VERSION, Tensor};
use serde::{Deserialize, Serialize};

use crate::session::{Config, Session};
use crate::whole_file;

/// The metadata key: only one, so that the file's bytes do not depend on a hash map's order.
const KEY: &str = "samebits";
const FORMAT: &str = "samebits training checkpoint";
const VERSION: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    format: String,
    version: u32,
    numerics_version: u32,
    config: Config,
    generator: Generator,
    loader: Option<LoaderState>,
    /// As bits: decimal numbers are for people.
    losses: Vec<u32>,
    /// Of all tensors, so that damage does not go unnoticed.
    digest: String,
}

/// Writes the run to `path`: first to a temporary file beside it, which then takes its place, so
/// that there is always a whole checkpoint.
pub(crate) fn save(session: &mut Session, path: &Path) -> Result<()> {
    whole_file::write(path, &to_bytes(session)?)
}

/// The content of a checkpoint.
pub(crate) fn to_bytes(session: &mut Session) -> Result<Vec<u8>> {
    let tensors = tensors(session)?;
    let metadata = Metadata {
        format: FORMAT.to_owned(),
        version: VERSION,
        numerics_version: NUMERICS_VERSION,
        config: session.config,
        generator: session.generator.clone(),
        loader: session.loader.clone(),
        losses: session.losses.iter().map(|loss| loss.to_bits()).collect(),
        digest: digest(&tensors)?,
    };
    let bytes = tensors
        .iter()
        .map(|(name, tensor)| Ok((name, file_type(tensor.dtype())?, tensor, tensor.to_bytes()?)))
        .collect::<Result<Vec<_>>>()?;
    let views = bytes
        .iter()
        .map(|(name, dtype, tensor, bytes)| {
            Ok((name, TensorView::new(*dtype, tensor.shape().to_vec(), bytes)?))
        })
        .collect::<Result<Vec<_>>>()?;
    let metadata = [(KEY.to_owned(), serde_json::to_string(&metadata)?)].into_iter().collect();
    Ok(safetensors::serialize(views, Some(metadata))?)
}

/// Reads a run that [`save`] wrote.
pub(crate) fn load(path: &Path) -> Result<Session> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&bytes).with_context(|| format!("{} is not a usable checkpoint", path.display()))
}

/// Reads the content of a checkpoint.
pub(crate) fn parse(bytes: &[u8]) -> Result<Session> {
    let file = SafeTensors::deserialize(bytes).context("not a whole safetensors file")?;
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    let text = header
        .metadata()
        .as_ref()
        .and_then(|metadata| metadata.get(KEY))
        .context("it was not written by `samebits train --save`")?;
    let metadata: Metadata = serde_json::from_str(text).context("its metadata is damaged")?;
    ensure!(metadata.format == FORMAT, "its format is {:?}, not {FORMAT:?}", metadata.format);
    ensure!(
        metadata.version == VERSION,
        "its version is {}, this program reads version {VERSION}",
        metadata.version
    );
    ensure!(
        metadata.numerics_version == NUMERICS_VERSION,
        "it was made with numerics version {}, this program computes with {NUMERICS_VERSION}: the \
         run would not end in the same bits",
        metadata.numerics_version
    );
    let mut found = BTreeMap::new();
    for (name, view) in file.tensors() {
        found.insert(name, tensor(&view)?);
    }
    let mut session = Session::new(metadata.config)?;
    let (model, rest): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(name, _)| name.starts_with("model."));
    let stripped = model.into_iter().map(|(name, x)| (name["model.".len()..].to_owned(), x));
    session.model.load_state_dict(&stripped.collect::<Vec<_>>(), true)?;
    let optimizer = rest
        .iter()
        .filter_map(|(name, x)| Some((name.strip_prefix("optimizer.")?.to_owned(), x.clone())))
        .collect();
    session.optimizer.load_state(optimizer)?;
    session.generator = metadata.generator;
    session.loader = metadata.loader;
    session.losses = metadata.losses.into_iter().map(f32::from_bits).collect();
    ensure!(
        digest(&tensors(&mut session)?)? == metadata.digest,
        "its tensors are not the ones that were saved: the file is damaged"
    );
    Ok(session)
}

fn tensors(session: &mut Session) -> Result<Vec<(String, Tensor)>> {
    let model = session.model.state_dict();
    let optimizer = session.optimizer.state()?;
    let prefixed = |prefix: &'static str| move |(name, x)| (format!("{prefix}.{name}"), x);
    Ok(model
        .into_iter()
        .map(prefixed("model"))
        .chain(optimizer.into_iter().map(prefixed("optimizer")))
        .collect())
}

fn digest(tensors: &[(String, Tensor)]) -> Result<String> {
    Ok(samebits::digest(tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)))?)
}

fn file_type(dtype: DType) -> Result<Dtype> {
    match dtype {
        DType::F32 => Ok(Dtype::F32),
        DType::F64 => Ok(Dtype::F64),
        DType::I64 => Ok(Dtype::I64),
        _ => bail!("tensors of type {dtype} are not saved"),
    }
}

fn tensor(view: &TensorView<'_>) -> Result<Tensor> {
    let bytes = view.data();
    let tensor = match view.dtype() {
        Dtype::F32 => Tensor::from_slice(&words(bytes, f32::from_le_bytes), view.shape()),
        Dtype::F64 => Tensor::from_slice(&words(bytes, f64::from_le_bytes), view.shape()),
        Dtype::I64 => Tensor::from_slice(&words(bytes, i64::from_le_bytes), view.shape()),
        other => bail!("unexpected element type {other:?}"),
    };
    Ok(tensor?)
}

fn words<T, const N: usize>(bytes: &[u8], from: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&word| from(word)).collect()
}
