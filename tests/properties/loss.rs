use proptest::prelude::*;
use samebits::functional::{self as f, ClassLoss, CtcOptions, Reduction};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Error, Tensor};
use workspace_tests::normal_of;

use super::{cases, shape};

const REDUCTIONS: [Reduction; 3] = [Reduction::None, Reduction::Mean, Reduction::Sum];

proptest! {
    #![proptest_config(cases(2))]

    #[test]
    fn classes_are_right_or_an_error(
        shape in shape(4),
        targets in proptest::collection::vec(-2i64..5, 0..200),
        reduction in 0..3usize,
        ignore_index in -2i64..3,
    ) {
        let reduction = REDUCTIONS[reduction];
        let x = normal_of(&shape, DType::F64, 1);
        let options = ClassLoss { ignore_index, reduction, ..ClassLoss::default() };
        let target_shape: Vec<usize> = match &shape[..] {
            [] | [_] => Vec::new(),
            [n, _, inner @ ..] => [&[*n], inner].concat(),
        };
        let count: usize = target_shape.iter().product();
        if targets.len() < count {
            return Ok(());
        }
        let targets = &targets[..count];
        let target = Value::from_slice(targets, &target_shape).unwrap();
        let x = Tensor::from(x).set_requires_grad(true).unwrap();
        let result = f::nll_loss_with(&x, &Tensor::from(&target), &options);
        let classes = match shape.len() {
            0 => None,
            1 => Some(shape[0]),
            _ => Some(shape[1]),
        };
        let Some(classes) = classes else {
            prop_assert!(result.is_err());
            return Ok(());
        };
        let wrong = |&t: &i64| t != ignore_index && !(0..classes as i64).contains(&t);
        if let Some(position) = targets.iter().position(wrong) {
            let refused = matches!(
                result,
                Err(Error::IndexOutOfRange { position: at, .. }) if at == position
            );
            prop_assert!(refused);
            return Ok(());
        }
        let result = result.unwrap();
        let values = x.to_vec::<f64>().unwrap();
        let inner: usize = shape.iter().skip(2).product();
        let each: Vec<f64> = targets
            .iter()
            .enumerate()
            .map(|(i, &t)| {
                if t == ignore_index {
                    return 0.0;
                }
                let (sample, rest) = (i / inner, i % inner);
                -values[(sample * classes + t as usize) * inner + rest]
            })
            .collect();
        let counted = targets.iter().filter(|&&t| t != ignore_index).count() as f64;
        let found = result.to_vec::<f64>().unwrap();
        match reduction {
            Reduction::None => prop_assert_eq!(&found, &each),
            _ => {
                let sum: f64 = each.iter().sum();
                let expected = if reduction == Reduction::Mean { sum / counted } else { sum };
                let close = (found[0] - expected).abs() < 1e-12;
                prop_assert!(close || (found[0].is_nan() && expected.is_nan()));
            }
        }
        prop_assert!(result.sum_all().unwrap().backward().is_ok());
    }

    /// Compares with the sum over all alignments, one by one.
    #[test]
    fn ctc_sums_all_alignments_or_refuses(
        steps in 0usize..5,
        classes in 1usize..4,
        labels in proptest::collection::vec(-1i64..4, 0..4),
        length in 0usize..6,
        input_length in 0usize..6,
        blank in 0usize..4,
    ) {
        let x = Tensor::from(normal_of(&[steps, 1, classes], DType::F64, 3)).set_requires_grad(true).unwrap();
        let log_probs = f::log_softmax(&x, 2).unwrap();
        let targets = Value::from_slice(&labels, &[1, labels.len()]).unwrap();
        let options = CtcOptions { blank, reduction: Reduction::None, zero_infinity: false };
        let result = f::ctc_loss(&log_probs, &Tensor::from(&targets), &[input_length], &[length], options);
        let valid = blank < classes
            && input_length <= steps
            && length <= labels.len()
            && labels[..length.min(labels.len())]
                .iter()
                .all(|label| (0..classes as i64).contains(label));
        prop_assert_eq!(result.is_ok(), valid);
        // A label that equals the blank cannot be distinguished from it.
        if !valid || labels[..length].contains(&(blank as i64)) {
            return Ok(());
        }
        let loss = result.unwrap();
        let values = log_probs.to_vec::<f64>().unwrap();
        let mut total = 0.0;
        for path in 0..classes.pow(input_length as u32) {
            let mut rest = path;
            let mut log_prob = 0.0;
            let mut seen = Vec::new();
            let mut last = None;
            for t in 0..input_length {
                let class = rest % classes;
                rest /= classes;
                log_prob += values[t * classes + class];
                if class != blank && last != Some(class) {
                    seen.push(class as i64);
                }
                last = Some(class);
            }
            if seen == labels[..length] {
                total += samebits::numerics::math::f64::exp(log_prob);
            }
        }
        let found = loss.to_vec::<f64>().unwrap()[0];
        let expected = -samebits::numerics::math::f64::log(total);
        prop_assert!(found == expected || (found - expected).abs() < 1e-10, "{found} {expected}");
        prop_assert!(loss.sum_all().unwrap().backward().is_ok());
    }
}
