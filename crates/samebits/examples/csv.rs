//! Trains a classifier on a CSV file with the class in the last column, and goes on where an
//! earlier run of it was stopped:
//!
//! ```sh
//! cargo run --release --example csv -- crates/cli/data/digits.csv.gz
//! ```

use std::path::Path;

use samebits::data::{CsvOptions, DataLoader};
use samebits::functional::cross_entropy;
use samebits::nn::{Dropout, Linear, ReLU};
use samebits::optim::AdamW;
use samebits::prelude::*;
use samebits::trainer::Trainer;
use samebits::{digest, sequential};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("which CSV file?")?;
    let table = CsvOptions::new().read(file)?;
    let columns = table.columns();
    let classes = *table.labels().iter().max().ok_or("the file has no rows")? as usize + 1;

    manual_seed(0);
    let (hidden, out) = (Linear::new(columns, 64)?, Linear::new(64, classes)?);
    let model = sequential![hidden, ReLU, Dropout::new(0.1), out];
    let loader = DataLoader::builder(table).batch_size(32).shuffle(true).seed(0).build()?;
    let mut run = Trainer::new(model, AdamW::new(1e-3)?, loader, Generator::new(0))
        .epochs(20)
        .checkpoint("csv.safetensors");
    if Path::new("csv.safetensors").exists() {
        run.resume("csv.safetensors")?;
    }
    run.fit(|model, (rows, classes)| {
        let x = Tensor::from_slice(&rows.values, &[rows.rows, rows.columns])?;
        Ok(cross_entropy(&model.forward(&x)?, &Tensor::from_slice(&classes, &[classes.len()])?)?)
    })?;

    let state = run.model.state_dict();
    println!("mean loss of each epoch: {:.3?}", run.metrics());
    println!("digest: {}", digest(state.iter().map(|(name, tensor)| (name.as_str(), tensor)))?);
    Ok(())
}
