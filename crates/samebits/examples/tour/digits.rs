//! A small convolutional network on handwritten digits.

use samebits::data::{CsvOptions, DataLoader, Dataset, DatasetExt, SampleContext, Subset, Table};
use samebits::functional::cross_entropy;
use samebits::nn::{BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, ReLU};
use samebits::prelude::*;
use samebits::trainer::{StackTensors, Trainer};
use samebits::{digest, optim::AdamW, sequential};

const DIGEST: &str = "99ab943a6e8d3e12b18fa3cba136e7ae5fc2a7636eefd7bf416b1f27f101f271";

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/data/digits.csv.gz");
const PIXELS: usize = 64;

/// Images of 8 x 8 pixels from 0 to 16, each pixel with a little noise.
struct Noisy(Subset<Table>);

impl Dataset for Noisy {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let (image, class) = self.0.get(index, cx)?;
        let mut noise = vec![0.0f32; PIXELS];
        cx.rng().fill_normal_f32(&mut noise, 0.0, 0.1).map_err(samebits::data::Error::other)?;
        Ok((image.iter().zip(&noise).map(|(pixel, noise)| pixel / 16.0 + noise).collect(), class))
    }
}

pub(super) fn run() -> super::Result<()> {
    manual_seed(0);
    let table = CsvOptions::new().columns(PIXELS + 1).labels(0, 9).read(DIGITS)?;
    let rest = table.len() - 640;
    let train = table.split(&[640, rest], &Generator::new(0))?.swap_remove(0);
    let loader = DataLoader::builder_with(Noisy(train), StackTensors).batch_size(32).seed(0);
    let model = sequential![
        Conv2d::options(1, 8, 3).padding(1).init()?,
        BatchNorm2d::new(8)?,
        ReLU,
        MaxPool2d::new(2),
        Flatten::default(),
        Linear::new(8 * 4 * 4, 10)?,
    ];
    let loader = loader.shuffle(true).workers(2).build()?;
    let mut run = Trainer::new(model, AdamW::new(1e-2)?, loader, Generator::new(0));
    run = run.epochs(2).quiet();
    let mut losses = Vec::new();
    run.fit(|model, (pixels, classes): (Tensor, Tensor)| {
        let images = pixels.reshape([-1, 1, 8, 8])?;
        let loss = cross_entropy(&model.forward(&images)?, &classes)?;
        losses.push(loss.item::<f32>()?);
        Ok(loss)
    })?;
    println!("loss {} at first, {} at last", losses[0], losses[losses.len() - 1]);
    assert_eq!(digest(run.model.state_dict())?, DIGEST);
    Ok(())
}
