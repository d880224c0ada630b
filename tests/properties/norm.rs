use proptest::prelude::*;
use samebits::functional as f;
use samebits::{DType, Generator, Result, Tensor};
use workspace_tests::normal_of;

use super::{cases, shape};

/// Mean and biased variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n)
}

proptest! {
    #![proptest_config(cases(4))]

    #[test]
    fn groups_have_mean_0_and_variance_1_or_are_refused(shape in shape(5), groups in 0usize..4) {
        let x = Tensor::from(normal_of(&shape, DType::F64, 1)).set_requires_grad(true).unwrap();
        let result = f::group_norm(&x, groups, None, None, 0.0);
        // A single value per group is refused, as in PyTorch, unless there are several samples.
        let single = shape.iter().product::<usize>() == groups;
        let good = shape.len() >= 2 && groups > 0 && shape[1].is_multiple_of(groups) && !single;
        prop_assert_eq!(result.is_ok(), good, "{:?}", result);
        let Ok(y) = result else { return Ok(()) };
        prop_assert_eq!(y.shape(), &shape[..]);
        let rows = shape[0] * groups;
        if y.numel() > rows {
            for row in y.to_vec::<f64>().unwrap().chunks_exact(y.numel() / rows) {
                let (mean, var) = moments(row);
                prop_assert!(mean.abs() < 1e-9 && (var - 1.0).abs() < 1e-9, "{} {}", mean, var);
            }
        }
    }

    #[test]
    fn batches_and_instances_are_normalised_or_refused(shape in shape(5)) {
        let x = Tensor::from(normal_of(&shape, DType::F64, 1)).set_requires_grad(true).unwrap();
        let channels = shape.get(1).copied().unwrap_or(0);
        let batch = f::batch_norm(&x, None, None, 1e-5);
        let numel: usize = shape.iter().product();
        prop_assert_eq!(batch.is_ok(), channels > 0 && numel / channels > 1);
        let instance = f::instance_norm(&x, None, None, 1e-5);
        let spatial: usize = shape.iter().skip(2).product();
        prop_assert_eq!(instance.is_ok(), numel > 0 && shape.len() >= 2 && spatial > 1);
        if let (Ok((y, batch)), Ok((z, instance))) = (batch, instance) {
            prop_assert_eq!(y.shape(), z.shape());
            prop_assert_eq!((batch.count, instance.count), (numel / channels, spatial));
            let (mut mean, mut var) = (batch.mean.clone(), batch.var.clone());
            // A step of length 0 changes nothing.
            batch.update(&mut mean, &mut var, 0.0).unwrap();
            prop_assert_eq!(mean.to_bytes(), batch.mean.to_bytes());
            y.sum_all().unwrap().backward().unwrap();
            z.sum_all().unwrap().backward().unwrap();
        }
    }

    #[test]
    fn rows_are_normalised_or_refused(shape in shape(4), last in shape(2)) {
        let x = Tensor::from(normal_of(&shape, DType::F64, 1)).set_requires_grad(true).unwrap();
        let result = f::layer_norm(&x, &last, None, None, 1e-5);
        let good = !last.is_empty() && !last.contains(&0) && shape.ends_with(&last);
        prop_assert_eq!(result.is_ok(), good, "{:?}", result);
        if let Ok(y) = result {
            y.sum_all().unwrap().backward().unwrap();
        }
    }

    #[test]
    fn whole_channels_are_dropped(
        shape in shape(5),
        p in prop_oneof![8 => 0.0f64..=1.0, 1 => Just(-0.1), 1 => Just(f64::NAN), 1 => Just(1.0)],
        kind in 0usize..5,
        seed in any::<u64>(),
    ) {
        type Dropout = fn(&Tensor, f64, &mut Generator) -> Result<Tensor>;
        let (function, ranks, shared): (Dropout, _, bool) = match kind {
            0 => (f::dropout1d_with, 2..=3, true),
            1 => (f::dropout2d_with, 3..=4, true),
            2 => (f::dropout3d_with, 4..=5, true),
            3 => (f::alpha_dropout_with, 0..=5, false),
            _ => (f::feature_alpha_dropout_with, 2..=5, true),
        };
        let x = Tensor::from(samebits::tensor_core::Tensor::ones(&shape, DType::F64).unwrap());
        let mut generator = Generator::new(seed);
        let before = generator.clone();
        let result = function(&x, p, &mut generator);
        let good = ranks.contains(&shape.len()) && (0.0..=1.0).contains(&p);
        prop_assert_eq!(result.is_ok(), good, "{:?}", result);
        if !good {
            prop_assert_eq!(generator, before);
            return Ok(());
        }
        let y = result.unwrap().to_vec::<f64>().unwrap();
        // One value for what is kept and one for what is dropped, and one per channel.
        let mut values: Vec<u64> = y.iter().map(|x| x.to_bits()).collect();
        let unbatched = (kind == 0 && shape.len() == 2) || (kind == 2 && shape.len() == 4);
        let from = if unbatched { 1 } else { 2 };
        let plane: usize = shape.iter().skip(from).product();
        if shared && plane > 0 {
            for channel in values.chunks_exact(plane) {
                prop_assert!(channel.iter().all(|&x| x == channel[0]));
            }
        }
        values.sort_unstable();
        values.dedup();
        prop_assert!(values.len() <= 2);
    }
}
