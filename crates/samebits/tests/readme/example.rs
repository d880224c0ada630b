use samebits::data::{CsvOptions, DataLoader, DatasetExt};
use samebits::functional::cross_entropy;
use samebits::nn::{Dropout, Linear, ReLU};
use samebits::prelude::*;
use samebits::trainer::{StackTensors, Trainer};
use samebits::{digest, optim::AdamW, sequential};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    manual_seed(0);
    let table = CsvOptions::new().header(true).read("flowers.csv")?;
    let parts = table.split(&[120, 30], &Generator::new(0))?;
    let loader = |part| DataLoader::builder_with(part, StackTensors).batch_size(30).seed(0);
    let train = loader(parts[0].clone()).shuffle(true).build()?;
    let test = loader(parts[1].clone()).build()?;

    let model = sequential![Linear::new(4, 64)?, ReLU, Dropout::new(0.1), Linear::new(64, 3)?];
    let mut run = Trainer::new(model, AdamW::new(1e-2)?, train, Generator::new(0))
        .epochs(20)
        .checkpoint("run.safetensors");
    if std::fs::exists("run.safetensors")? {
        run.resume("run.safetensors")?;
    }
    run.fit(|model, (x, y)| Ok(cross_entropy(&model.forward(&x)?, &y)?))?;

    let (x, y) = test.epoch(0).next().ok_or("no rows to test on")??.data;
    let right = run.model.forward(&x)?.argmax(1)?.eq(&y)?.to_dtype(DType::F32)?.mean(())?;
    println!("accuracy {}, weights {}", right.item::<f32>()?, digest(run.model.state_dict())?);
    Ok(())
}
