//! Trains an LSTM to tag each word of a sentence with the number of words since the last "1".

use samebits::functional::cross_entropy;
use samebits::nn::{self, Embedding, LSTM, Linear};
use samebits::optim::AdamW;
use samebits::prelude::*;
use samebits::{Result, digest};

const DIGEST: &str = "56c2e3007f6e471daf1f05e75bfc5b66d0478ad4889398e6d4f2425e8b26671a";

const WORDS: usize = 10;

#[derive(Module)]
struct Tagger {
    embed: Embedding,
    lstm: LSTM,
    out: Linear,
}

impl Tagger {
    fn new() -> Result<Tagger> {
        Ok(Tagger {
            embed: Embedding::new(WORDS, 8)?,
            lstm: LSTM::options(8, 16).batch_first(true).init()?,
            out: Linear::new(16, 4)?,
        })
    }

    fn forward(&self, words: &Tensor) -> Result<Tensor> {
        let (h, _) = self.lstm.forward(&self.embed.forward(words)?, None)?;
        self.out.forward(&h)
    }
}

/// Returns the tag of each word: 0 at a 1, then 1, 2 and, from there on, 3.
fn tags(words: &Tensor) -> Result<Tensor> {
    let length = words.shape()[1];
    let mut tags: Vec<i64> = Vec::new();
    for sentence in words.to_vec::<i64>()?.chunks(length) {
        let mut since = 3;
        for &word in sentence {
            since = if word == 1 { 0 } else { (since + 1).min(3) };
            tags.push(since);
        }
    }
    Tensor::from_vec(tags, words.shape())
}

pub(super) fn run() -> super::Result<()> {
    manual_seed(0);
    let mut model = Tagger::new()?;
    let mut optimizer = AdamW::new(1e-2)?;
    let mut losses = Vec::new();
    for _ in 0..40 {
        let words = samebits::randint(0, WORDS as i64, &[16, 12])?;
        let tags = tags(&words)?;
        let loss = nn::train(|| cross_entropy(&model.forward(&words)?.transpose(1, 2)?, &tags))?;
        optimizer.step(&mut model, &loss.backward()?)?;
        losses.push(loss.item::<f32>()?);
    }
    println!("loss {} to {}", losses[0], losses[39]);
    assert!(losses[39] < losses[0] / 2.0);
    assert_eq!(digest(model.state_dict())?, DIGEST);
    Ok(())
}
