//! Trains on a CSV file, with the class in the last column, and tests on held-out rows.

use samebits::data::{CsvOptions, DataLoader, DatasetExt};
use samebits::functional::cross_entropy;
use samebits::nn::{Dropout, Linear, ReLU};
use samebits::prelude::*;
use samebits::trainer::{StackTensors, Trainer};
use samebits::{digest, optim::AdamW, sequential};

const DIGEST: &str = "da0898e97f2b89f4654b40307e4da60cc1eedda49c98b56dd567382fdfd4c31b";

const FLOWERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/flowers.csv");

pub(super) fn run() -> super::Result<()> {
    manual_seed(0);
    let table = CsvOptions::new().header(true).read(FLOWERS)?;
    let parts = table.split(&[120, 30], &Generator::new(0))?;
    let loader = |part| DataLoader::builder_with(part, StackTensors).batch_size(30).seed(0);
    // The workers carry the batches; they do not change them.
    let train = loader(parts[0].clone()).shuffle(true).workers(2).build()?;
    let test = loader(parts[1].clone()).build()?;

    let model = sequential![Linear::new(4, 64)?, ReLU, Dropout::new(0.1), Linear::new(64, 3)?];
    let optimizer = AdamW::new(1e-2)?;
    let mut run = Trainer::new(model, optimizer, train, Generator::new(0)).epochs(20).quiet();
    run.fit(|model, (x, y)| Ok(cross_entropy(&model.forward(&x)?, &y)?))?;

    let (x, y) = test.epoch(0).next().ok_or("no rows to test on")??.data;
    let right = run.model.forward(&x)?.argmax(1)?.eq(&y)?.to_dtype(DType::F32)?.mean(())?;
    println!("accuracy {}", right.item::<f32>()?);
    assert_eq!(digest(run.model.state_dict())?, DIGEST);
    Ok(())
}
