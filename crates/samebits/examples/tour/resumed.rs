//! Training with augmentation is interrupted, and resumed in another process's place: the weights
//! are those of a run without an interruption.

use samebits::data::{DataLoader, Dataset, SampleContext};
use samebits::functional::cross_entropy;
use samebits::nn::{Dropout, Linear, ReLU, Sequential};
use samebits::prelude::*;
use samebits::trainer::{StackTensors, Trainer};
use samebits::{digest, optim::AdamW, sequential};

const DIGEST: &str = "468117bf078c4ff5944e234c2909f74f05ebe193f425295c7cd30399ca6f7074";

/// Points around three centres, moved a little at every visit.
struct Points;

impl Dataset for Points {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        60
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        // This sample's own generator: the number of workers does not matter.
        let mut noise = [0.0f32; 2];
        cx.rng().fill_normal_f32(&mut noise, 0.0, 0.3).map_err(samebits::data::Error::other)?;
        let class = index % 3;
        Ok((vec![class as f32 + noise[0], (class * class) as f32 + noise[1]], class as i64))
    }
}

type Run = Trainer<'static, Sequential, AdamW, DataLoader<Points, StackTensors>>;

fn start(workers: usize) -> super::Result<Run> {
    manual_seed(0);
    let loader = DataLoader::builder_with(Points, StackTensors).batch_size(10).shuffle(true);
    let loader = loader.seed(1).workers(workers).build()?;
    let model = sequential![Linear::new(2, 16)?, ReLU, Dropout::new(0.2), Linear::new(16, 3)?];
    Ok(Trainer::new(model, AdamW::new(1e-2)?, loader, Generator::new(2)).epochs(6).quiet())
}

fn finish(mut run: Run) -> super::Result<String> {
    run.fit(|model, (x, y)| Ok(cross_entropy(&model.forward(&x)?, &y)?))?;
    Ok(digest(run.model.state_dict())?)
}

pub(super) fn run() -> super::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.safetensors");
    let whole = finish(start(0)?)?;

    // 20 steps are three epochs and two batches.
    finish(start(0)?.max_steps(20).checkpoint(&path))?;
    let mut rest = start(3)?;
    rest.resume(&path)?;
    let resumed = finish(rest)?;
    println!("whole {whole}, resumed {resumed}");
    assert_eq!([whole.as_str(), resumed.as_str()], [DIGEST; 2]);
    Ok(())
}
