use burn::nn::loss::{CTCLossConfig, Reduction};
use burn::nn::{BiLstm, BiLstmConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use burn::tensor::Distribution::Uniform;
use burn::tensor::activation::log_softmax;

#[derive(Module, Debug)]
struct Speech {
    lstm: BiLstm,
    out: Linear,
}

impl Speech {
    fn new(device: &Device) -> Speech {
        Speech {
            lstm: BiLstmConfig::new(80, 128, true).init(device),
            out: LinearConfig::new(256, 29).init(device),
        }
    }

    fn forward(&self, sound: Tensor<3>) -> Tensor<3> {
        let (h, _) = self.lstm.forward(sound, None);
        log_softmax(self.out.forward(h), 2).swap_dims(0, 1)
    }
}

fn step(
    model: Speech,
    optimizer: &mut ModuleOptimizer,
    (sound, text): (Tensor<3>, Tensor<2, Int>),
    (sound_lengths, text_lengths): (Tensor<1, Int>, Tensor<1, Int>),
) -> Speech {
    let (log_probs, ctc) = (model.forward(sound), CTCLossConfig::new().init());
    let loss =
        ctc.forward_with_reduction(log_probs, text, sound_lengths, text_lengths, Reduction::Mean);
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.step(1e-3, model, gradients)
}

fn main() {
    let device = Device::flex().autodiff();
    let (model, mut optimizer) = (Speech::new(&device), AdamWConfig::new().init());
    let sound = Tensor::random([2, 12, 80], Uniform(0.0, 1.0), &device);
    let text = Tensor::from_data([[1, 2, 3], [4, 5, 6]], &device);
    let lengths = (Tensor::from_data([12, 12], &device), Tensor::from_data([3, 3], &device));
    step(model, &mut optimizer, (sound, text), lengths);
}
