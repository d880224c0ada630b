use samebits::functional as f;
use samebits::nn::{self, InstanceNorm2d, Layer, Module};

use super::normal_of;
use samebits::{DType, Tensor};

use super::check_twice;

#[test]
fn with_their_own_statistics() {
    check_twice("batch_norm", &[&[3, 2, 4], &[2], &[2]], &|x| {
        Ok(f::batch_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-3)?.0)
    });
    check_twice("batch_norm 2d", &[&[4, 3]], &|x| Ok(f::batch_norm(&x[0], None, None, 1e-3)?.0));
    check_twice("layer_norm", &[&[3, 2, 4], &[2, 4], &[2, 4]], &|x| {
        f::layer_norm(&x[0], &[2, 4], Some(&x[1]), Some(&x[2]), 1e-3)
    });
    check_twice("layer_norm", &[&[3, 4]], &|x| f::layer_norm(&x[0], &[4], None, None, 1e-3));
    check_twice("group_norm", &[&[2, 4, 3], &[4], &[4]], &|x| {
        f::group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-3)
    });
    check_twice("instance_norm", &[&[2, 2, 2, 3], &[2], &[2]], &|x| {
        Ok(f::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-3)?.0)
    });
}

#[test]
fn with_given_statistics() {
    let mean = normal_of(&[2], DType::F64, 1);
    let var = normal_of(&[2], DType::F64, 2).square().unwrap();
    check_twice("batch_norm_inference", &[&[3, 2, 4], &[2], &[2]], &|x| {
        let (weight, bias) = (Some(&x[1]), Some(&x[2]));
        f::batch_norm_inference(&x[0], weight, bias, &mean, &var, 1e-3)
    });
}

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
    // Mean 0 and variance 1 change next to nothing.
    let kept = evaluate(&layer).to_vec::<f32>().unwrap();
    let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(close(&kept, &x.to_vec::<f32>().unwrap()));
    let trained = train(&layer);
    let plain = train(&affine.init().unwrap());
    assert_eq!(trained.to_bytes(), plain.to_bytes());
    for _ in 0..200 {
        train(&layer);
    }
    // By then they are the means over the batch of each sample's statistics.
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
    // It is moved and loaded with its statistics.
    let mut other = tracking.init().unwrap();
    other.load_state_dict(&layer.state_dict(), true).unwrap();
    assert_eq!(other.running.unwrap().running_mean.get().to_bytes(), running_mean.to_bytes());
}
