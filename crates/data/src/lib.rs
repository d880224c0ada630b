//! Data loader that reseeds each worker and gives the same batches for any number of workers.
//!
//! ```
//! use samebits_data::{DataLoader, DatasetExt, Memory};
//!
//! // An augmentation that draws from the sample's own generator ...
//! let data = Memory::new(vec![0.0_f32; 100]).map(|x, cx| {
//!     Ok(x + (cx.rng().next_block()[0] >> 8) as f32)
//! });
//! let data = std::sync::Arc::new(data);
//! let epoch = |workers| {
//!     let loader = DataLoader::builder(data.clone())
//!         .batch_size(8)
//!         .shuffle(true)
//!         .seed(7)
//!         .workers(workers)
//!         .build()?;
//!     loader.epoch(3).collect::<Result<Vec<_>, _>>()
//! };
//! // ... is the same for any number of workers.
//! assert_eq!(epoch(0)?, epoch(4)?);
//! # Ok::<(), samebits_data::Error>(())
//! ```
#![forbid(unsafe_code)]

mod collate;
mod context;
mod csv;
mod dataset;
mod engine;
mod error;
mod file;
mod guard;
#[cfg(feature = "images")]
mod image_folder;
mod inherit;
mod json_lines;
mod loader;
mod memory;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "progress")]
mod progress;
mod pytorch;
mod retry;
mod rows;
mod sampler;
mod source;
mod stream;
mod tar;
mod transform;

pub use collate::{Collate, Keep, Stack, Stackable, Stacked};
pub use context::{BatchContext, SampleContext, SeedHook, SeedScope, WorkerContext, WorkerInfo};
pub use csv::{CsvOptions, Label};
pub use dataset::{Concat, Dataset, DatasetExt, Map, Memory, Subset, Table, Zip};
pub use error::{BoxError, Error, Place, Result};
#[cfg(feature = "images")]
pub use image_folder::{Channels, ImageFolder, ImageFolderOptions};
pub use inherit::{Inherited, inherit};
pub use json_lines::{JsonLines, JsonShards};
pub use loader::{
    Batch, DataLoader, Deal, Epoch, LoadReport, LoaderBuilder, LoaderState, Seeding, WorkerState,
};
#[cfg(feature = "parquet")]
pub use parquet::{Parquet, ParquetRow, ParquetShards};
#[cfg(feature = "progress")]
pub use progress::Progress;
pub use pytorch::{PyTorch, PyTorchDistributed, TorchGenerator};
pub use retry::{Retry, Skipped};
pub use rows::{ByteOrder, Element, Labels, Rows, Value, Windows};
pub use samebits_numerics::Determinism;
pub use sampler::{
    BatchSampler, Bijective, Order, Sampler, Sequential, Shard, Shuffled, ShuffledSubset, Tail,
    Weighted, WithReplacement,
};
pub use stream::{
    LaneState, Lines, Records, ShardedDataset, ShardedDatasetExt, StreamBatch, StreamEpoch,
    StreamLoader, StreamLoaderBuilder, StreamState,
};
pub use tar::{Tar, TarSample, TarShards};
pub use transform::{
    Affine, ColorJitter, CutMix, Image, Interpolation, MixUp, Normalize, RandomAffine, RandomCrop,
    RandomHorizontalFlip,
};
