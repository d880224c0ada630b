use samebits::functional as f;
use samebits::nn::{self, InstanceNorm2d, Layer, Module};

use super::normal_of;
use samebits::{DType, Tensor};

#[test]
fn running_statistics_of_instances() {
    let x = normal_of(&[4, 3, 5, 6], DType::F32, 3);
    let affine = InstanceNorm2d::options(3).affine(true);
    let tracking = affine.clone().track_running_stats(true);
    let layer = tracking.init().unwrap();
    let names: Vec<String> = layer.state_dict().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]);
    let evaluate = |layer: &InstanceNorm2d| layer.forward(&x).unwrap();
    let train = |layer: &InstanceNorm2d| nn::train(|| evaluate(layer));
    // Mean 0 and variance 1 change almost nothing.
    let kept = evaluate(&layer).to_vec::<f32>().unwrap();
    let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(close(&kept, &x.to_vec::<f32>().unwrap()));
    let trained = train(&layer);
    let plain = train(&affine.init().unwrap());
    assert_eq!(trained.to_bytes(), plain.to_bytes());
    for _ in 0..200 {
        train(&layer);
    }
    // Now they are the means over the batch of each sample's statistics.
    let running = layer.running.as_ref().unwrap();
    let (running_mean, running_var) = (running.running_mean.get(), running.running_var.get());
    let (var, mean) = f::var_mean(&x, [2, 3], 1.0, false).unwrap();
    let over_batch = |x: &Tensor| f::mean(x, [0], true).unwrap().to_vec::<f32>().unwrap();
    assert!(close(&running_mean.to_vec::<f32>().unwrap(), &over_batch(&mean)));
    assert!(close(&running_var.to_vec::<f32>().unwrap(), &over_batch(&var)));
    let used = evaluate(&layer);
    let (weight, bias) = (layer.weight.as_ref(), layer.bias.as_ref());
    let expected =
        f::batch_norm_inference(&x, weight, bias, &running_mean, &running_var, 1e-5).unwrap();
    assert_eq!(used.to_bytes(), expected.to_bytes());
    // Its statistics are moved and loaded with it.
    let mut other = tracking.init().unwrap();
    other.load_state_dict(&layer.state_dict(), true).unwrap();
    assert_eq!(other.running.unwrap().running_mean.get().to_bytes(), running_mean.to_bytes());
}
