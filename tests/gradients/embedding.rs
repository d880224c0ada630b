use samebits::functional::{self as f, BagOptions};
use samebits::nn::{Embedding, EmbeddingBag, Layer};
use samebits::ops::{BagMode, BagParams, EmbeddingBagWeightsGrad};
use samebits::tensor_core::Tensor as Value;
use samebits::tensor_core::geometry::BagBounds;

use super::{indices, normal_of};
use samebits::{DType, Generator, Tensor, dispatch};

#[test]
fn padding_and_frequency() {
    let index = Tensor::from_slice(&[1i64, 0, 1, 2], &[2, 2]).unwrap();
    let weight = normal_of(&[4, 1], DType::F64, 33).set_requires_grad(true).unwrap();
    let y = f::embedding_with(&weight, &index, Some(0), true).unwrap();
    let gradients = y.affine(6.0, 0.0).unwrap().sum_all().unwrap().backward().unwrap();
    let found = gradients.of(&weight).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(found, [0.0, 6.0, 6.0, 0.0]);
}

/// The error names the called operation, not the one whose gradient it is.
#[test]
fn the_gradient_of_the_weights_has_a_name() {
    let floats = |shape: &[usize]| Value::zeros(shape, DType::F32).unwrap();
    let whole = |x: &[i64]| Value::from_slice(x, &[x.len()]).unwrap();
    let params = BagParams { mode: BagMode::Sum, padding_idx: None };
    let call = |grad: &[usize], index: &[i64], offsets: &[i64]| {
        let op = EmbeddingBagWeightsGrad {
            grad: floats(grad),
            weight: floats(&[3, 2]),
            index: whole(index),
            bags: BagBounds::new("embedding_bag", index.len(), offsets, false).unwrap().into(),
            params: params.clone(),
        };
        dispatch(&op).unwrap_err().to_string()
    };
    let error = call(&[1, 2], &[0, 3], &[0]);
    let expected = "embedding_bag_weights: index 3 at position 1 is out of range for size 3";
    assert_eq!(error, expected);
    let error = call(&[2, 2], &[0], &[0]);
    assert!(error.starts_with("embedding_bag_weights: "), "{error}");
}

/// As in PyTorch.
#[test]
fn the_gradient_of_bags_is_not_differentiable() {
    let (index, offsets) = (indices(14, 6, 34), Tensor::from_slice(&[0i64, 3], &[2]).unwrap());
    for mode in [BagMode::Sum, BagMode::Mean, BagMode::Max] {
        let weight = normal_of(&[6, 3], DType::F64, 37).set_requires_grad(true).unwrap();
        let options = BagOptions { mode, ..BagOptions::default() };
        let y = f::embedding_bag(&weight.square().unwrap(), &index, Some(&offsets), None, options);
        let one = Tensor::ones(&[2, 3], DType::F64).unwrap();
        let grads = y.unwrap().square().unwrap().backward_from(one, true).unwrap();
        let grad = grads.of(&weight).unwrap().sum_all().unwrap();
        let error = grad.backward().unwrap_err().to_string();
        assert_eq!(error, "embedding_bag: this gradient cannot be differentiated again");
    }
    // The gradient of the factors depends on the table, whatever the incoming gradient.
    let table = normal_of(&[6, 3], DType::F64, 38).set_requires_grad(true).unwrap();
    let factors = normal_of(&[14], DType::F64, 39).set_requires_grad(true).unwrap();
    let options = BagOptions { mode: BagMode::Sum, ..BagOptions::default() };
    let y = f::embedding_bag(&table, &index, Some(&offsets), Some(&factors), options).unwrap();
    let one = Tensor::ones(&[2, 3], DType::F64).unwrap();
    let grads = y.backward_from(one, true).unwrap();
    for variable in [&table, &factors] {
        let grad = grads.of(variable).unwrap().sum_all().unwrap();
        let error = grad.backward().unwrap_err().to_string();
        assert_eq!(error, "embedding_bag: this gradient cannot be differentiated again");
    }
}

#[test]
fn long_rows_are_shortened() {
    let options = Embedding::options(6, 4).max_norm(0.5);
    let table = options.init_with(&mut Generator::new(35)).unwrap();
    let before = table.weight.get();
    let index = Tensor::from_slice(&[3i64, 1, 3], &[3]).unwrap();
    let y = table.forward(&index).unwrap();
    let norms = f::norm(&y, 2.0, [1], false).unwrap().to_vec::<f32>().unwrap();
    assert!(norms.iter().all(|norm| (norm - 0.5).abs() < 1e-6), "{norms:?}");
    // The layer keeps the shortened rows, and the others unchanged.
    let after = table.weight.get().to_vec::<f32>().unwrap();
    let before = before.to_vec::<f32>().unwrap();
    assert_eq!(after[..4], before[..4]);
    assert_ne!(after[4..8], before[4..8]);
    assert_eq!(after[12..16], y.to_vec::<f32>().unwrap()[..4]);
    // The gradient is that of the table that the layer holds now.
    let gradients = y.sum_all().unwrap().backward().unwrap();
    assert_eq!(
        gradients.of(&table.weight.get()).unwrap().to_vec::<f32>().unwrap()[12..16],
        [2.0; 4]
    );

    let options = EmbeddingBag::options(6, 4).max_norm(0.5);
    let bags = options.init_with(&mut Generator::new(36)).unwrap();
    let y = bags.forward(&Tensor::from_slice(&[2i64, 4], &[2, 1]).unwrap(), None, None).unwrap();
    let norms = f::norm(&y, 2.0, [1], false).unwrap().to_vec::<f32>().unwrap();
    assert!(norms.iter().all(|norm| (norm - 0.5).abs() < 1e-6), "{norms:?}");
}
