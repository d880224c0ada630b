//! Fits a recurrent network to unaligned text by the CTC loss, whose gradient PyTorch computes with
//! atomics on CUDA devices.

use samebits::functional::{CtcOptions, ctc_loss};
use samebits::nn::{self, GRU, Linear};
use samebits::optim::AdamW;
use samebits::prelude::*;
use samebits::{Result, digest};

const DIGEST: &str = "1b3ab073cf1b2c7c9d0910019cd5176e3e460a9f96dcd5044d9c2fce8dd9759c";

#[derive(Module)]
struct Speech {
    gru: GRU,
    out: Linear,
}

impl Speech {
    /// Returns the logarithms of the probabilities of 6 symbols: `[time, batch, symbol]`.
    fn forward(&self, sound: &Tensor) -> Result<Tensor> {
        let (h, _) = self.gru.forward(sound, None)?;
        self.out.forward(&h)?.log_softmax(-1)
    }
}

pub(super) fn run() -> super::Result<()> {
    manual_seed(0);
    let mut model = Speech { gru: GRU::new(8, 24)?, out: Linear::new(24, 6)? };
    let mut optimizer = AdamW::new(5e-3)?;
    // Four sounds of 20 frames, with texts of 2 to 5 symbols; 0 is the blank.
    let sound = samebits::randn(&[20, 4, 8])?;
    let text =
        Tensor::new([[1i64, 2, 3, 4, 5], [2, 2, 1, 0, 0], [5, 3, 0, 0, 0], [4, 1, 3, 2, 0]])?;
    let (frames, symbols) = ([20usize; 4], [5usize, 3, 2, 4]);
    let mut losses = Vec::new();
    for _ in 0..40 {
        let log_probs = nn::train(|| model.forward(&sound))?;
        let loss = ctc_loss(&log_probs, &text, &frames, &symbols, CtcOptions::default())?;
        optimizer.step(&mut model, &loss.backward()?)?;
        losses.push(loss.item::<f32>()?);
    }
    println!("loss {} to {}", losses[0], losses[39]);
    assert!(losses[39] < losses[0] / 2.0);
    assert_eq!(digest(model.state_dict())?, DIGEST);
    Ok(())
}
