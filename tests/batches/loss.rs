use samebits::functional::{self as f, BatchReduction, ClassLoss, CtcOptions};
use samebits::ops::Reduction;
use samebits::{Result, Tensor};
use workspace_tests::normal_of;

use super::{Batches, Input, Make};

/// A loss of two tensors for each element.
type Loss = fn(&Tensor, &Tensor) -> Result<Tensor>;

pub(super) fn add(batches: &mut Batches, make: Make) {
    batches.one(make.name("log_softmax"), make.each(&[9, 267], 50), |x| f::log_softmax(x, 1));
    batches.one(make.name("softmax of channels"), make.each(&[5, 17, 9], 51), |x| f::softmax(x, 1));
    let inputs = [make.each(&[6, 11, 7], 52), make.indices(&[6, 7], 11, 53)];
    let weight = normal_of(&[11], make.0, 54);
    for smoothing in [0.0, 0.2] {
        let weight = weight.clone();
        batches.add(make.name(&format!("cross_entropy {smoothing}")), inputs.clone(), move |x| {
            let options = ClassLoss {
                weight: Some(&Tensor::from(&weight)),
                ignore_index: 3,
                label_smoothing: smoothing,
                reduction: Reduction::None,
            };
            Ok(vec![f::cross_entropy_with(&x[0], &x[1], &options)?])
        });
    }
    let losses: [(_, Loss); _] = [
        ("mse_loss", |x, y| f::mse_loss(x, y, Reduction::None)),
        ("l1_loss", |x, y| f::l1_loss(x, y, Reduction::None)),
        ("smooth_l1_loss", |x, y| f::smooth_l1_loss(x, y, 0.7, Reduction::None)),
        ("huber_loss", |x, y| f::huber_loss(x, y, 1.3, Reduction::None)),
        ("binary_cross_entropy", |x, y| {
            f::binary_cross_entropy(&x.sigmoid()?, &y.sigmoid()?, None, Reduction::None)
        }),
        ("binary_cross_entropy_with_logits", |x, y| {
            f::binary_cross_entropy_with_logits(x, &y.sigmoid()?, None, None, Reduction::None)
        }),
        ("kl_div", |x, y| f::kl_div(x, &y.sigmoid()?, BatchReduction::Of(Reduction::None), false)),
    ];
    for (name, loss) in losses {
        let inputs = [make.each(&[7, 91], 55), make.each(&[7, 91], 56)];
        batches.add(make.name(name), inputs, move |x| Ok(vec![loss(&x[0], &x[1])?]));
    }
    let log_probs = Input(normal_of(&[40, 9, 31], make.0, 57), Some(1));
    let labels = make.indices(&[9, 15], 30, 58);
    batches.add_part(make.name("ctc_loss"), [log_probs, labels], 0, |x, part| {
        // The fifth does not fit.
        let input_lengths = &[40, 39, 38, 20, 3, 5, 40, 1, 30][part.clone()];
        let target_lengths = &[15, 0, 1, 14, 12, 2, 13, 0, 15][part.clone()];
        let options = CtcOptions { blank: 30, reduction: Reduction::None, zero_infinity: true };
        let log_probs = f::log_softmax(&x[0], 2)?;
        let loss = f::ctc_loss(&log_probs, &x[1], input_lengths, target_lengths, options)?;
        Ok(vec![loss])
    });
}
