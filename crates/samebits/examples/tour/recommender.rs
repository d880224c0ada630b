//! Learns ratings of films by users. The same few rows of the tables are hit many times in every
//! batch, so the gradient of a row is a sum of many terms: where float atomics differ from run to
//! run, here it is the exact sum, rounded once.

use samebits::functional::{Reduction, mse_loss};
use samebits::nn::{self, Embedding};
use samebits::optim::Sgd;
use samebits::prelude::*;
use samebits::{Result, digest, on_threads};

const DIGEST: &str = "5640dc5a75872fde8b658da720ba203554a0d4c04a28c20534dedf6312391595";

#[derive(Module)]
struct Ratings {
    users: Embedding,
    films: Embedding,
}

impl Ratings {
    fn forward(&self, users: &Tensor, films: &Tensor) -> Result<Tensor> {
        self.users.forward(users)?.mul(&self.films.forward(films)?)?.sum(-1)
    }
}

fn train() -> Result<String> {
    manual_seed(0);
    let mut model = Ratings { users: Embedding::new(20, 4)?, films: Embedding::new(5, 4)? };
    let mut optimizer = Sgd::new(0.5)?;
    for _ in 0..30 {
        // 4096 ratings of 5 films: about 800 terms for each row.
        let (users, films) =
            (samebits::randint(0, 20, &[4096])?, samebits::randint(0, 5, &[4096])?);
        let rating = users.add(&films)?.to_dtype(DType::F32)?.affine(0.1, -1.0)?;
        let loss =
            nn::train(|| mse_loss(&model.forward(&users, &films)?, &rating, Reduction::Mean))?;
        optimizer.step(&mut model, &loss.backward()?)?;
    }
    digest(model.state_dict())
}

pub(super) fn run() -> super::Result<()> {
    let one = on_threads(Some(1), train)??;
    let four = on_threads(Some(4), train)??;
    println!("1 thread {one}, 4 threads {four}");
    assert_eq!([one.as_str(), four.as_str()], [DIGEST; 2]);
    Ok(())
}
