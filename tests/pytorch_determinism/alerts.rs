//! PyTorch's `test_nondeterministic_alert_*`: none of these operations is rejected here.

use samebits::functional as f;
use samebits::ops::{
    BagMode, GridMode, GridPadding, GridParams, InterpolateMode, PadMode, PoolParams,
};
use samebits::{DType, Generator, Result, Tensor};
use workspace_tests::{indices, normal_of};

use super::{forward_then_backward, repeats};

const F32: DType = DType::F32;

/// Checks that there is a gradient and that its bits repeat.
#[track_caller]
fn gradient_repeats(
    name: &str,
    shape: &[usize],
    function: impl Fn(&Tensor) -> Result<Tensor> + Sync,
) {
    let input = normal_of(shape, F32, 1);
    let gradients =
        repeats(name, || forward_then_backward(std::slice::from_ref(&input), |x| function(&x[0])));
    assert_eq!(gradients.len(), 1, "{name}");
    assert!(gradients[0].to_vec::<f32>().unwrap().iter().any(|&x| x != 0.0), "{name}");
}

#[test]
fn pooling() {
    let overlapping = |dims| PoolParams { stride: vec![1; dims], ..PoolParams::square(dims, 3) };
    gradient_repeats("AvgPool3d", &[2, 3, 9, 9, 9], |x| {
        f::avg_pool(x, &overlapping(3), true, None)
    });
    gradient_repeats("AdaptiveAvgPool2d", &[2, 3, 17, 19], |x| f::adaptive_avg_pool(x, &[5, 7]));
    gradient_repeats("AdaptiveAvgPool3d", &[2, 3, 9, 8, 7], |x| {
        f::adaptive_avg_pool(x, &[4, 3, 5])
    });
    gradient_repeats("MaxPool3d", &[2, 3, 9, 9, 9], |x| Ok(f::max_pool(x, &overlapping(3))?.0));
    gradient_repeats("AdaptiveMaxPool2d", &[2, 3, 17, 19], |x| {
        Ok(f::adaptive_max_pool(x, &[5, 7])?.0)
    });
    for dims in [2, 3] {
        let shape = [&[2, 3][..], &vec![12; dims]].concat();
        gradient_repeats(&format!("FractionalMaxPool{dims}d"), &shape, |x| {
            let samples = f::fractional_samples_with(x, dims, &mut Generator::new(4))?;
            Ok(f::fractional_max_pool(x, &vec![2; dims], &vec![7; dims], Some(&samples))?.0)
        });
    }
    for dims in [1, 2, 3] {
        let params = PoolParams::square(dims, 2);
        let whole = normal_of(&[&[2, 3][..], &vec![8; dims]].concat(), F32, 2);
        let indices = f::max_pool(&Tensor::from(whole), &params).unwrap().1;
        gradient_repeats(&format!("MaxUnpool{dims}d"), indices.shape(), |x| {
            f::max_unpool(x, &indices, &params, None)
        });
    }
}

#[test]
fn interpolation_and_sampling() {
    let align_corners = false;
    let (linear, cubic) =
        (InterpolateMode::Linear { align_corners }, InterpolateMode::Cubic { align_corners });
    for (name, dims, mode) in [
        ("interpolate_linear", 1, linear),
        ("interpolate_bilinear", 2, linear),
        ("interpolate_bicubic", 2, cubic),
        ("interpolate_trilinear", 3, linear),
    ] {
        let shape = [&[2, 3][..], &vec![7; dims]].concat();
        gradient_repeats(name, &shape, |x| {
            f::interpolate(x, f::Resize::Size(&vec![12; dims]), mode)
        });
    }
    let params = GridParams { mode: GridMode::Linear, padding: GridPadding::Zeros, align_corners };
    for dims in [2, 3] {
        let shape = [&[2, 3][..], &vec![8; dims]].concat();
        let grid = normal_of(&[&[2][..], &vec![9; dims], &[dims]].concat(), F32, 3);
        gradient_repeats(&format!("grid_sample_{dims}d"), &shape, |x| {
            f::grid_sample(x, &Tensor::from(grid.clone()), params)
        });
    }
}

#[test]
fn padding() {
    for (name, mode) in
        [("ReflectionPad", PadMode::Reflect), ("ReplicationPad", PadMode::Replicate)]
    {
        for dims in [1, 2, 3] {
            let shape = [&[2, 3][..], &vec![6; dims]].concat();
            gradient_repeats(&format!("{name}{dims}d"), &shape, |x| {
                f::pad(x, &vec![3; 2 * dims], mode, 0.0)
            });
        }
    }
}

#[test]
fn losses() {
    let target = indices(6 * 40 * 40, 5, 4).reshape(&[6, 40, 40]).unwrap();
    gradient_repeats("NLLLoss", &[6, 5, 40, 40], |x| f::nll_loss(x, &Tensor::from(&target)));
    let targets = Tensor::from_slice(&[1i64, 2, 2, 3, 4, 1, 1, 3], &[2, 4]).unwrap();
    gradient_repeats("CTCLoss", &[20, 2, 5], |x| {
        let log_probs = f::log_softmax(x, 2)?;
        f::ctc_loss(&log_probs, &targets, &[20, 17], &[4, 3], f::CtcOptions::default())
    });
}

#[test]
fn indexing_and_order() {
    let index = indices(5000, 40, 5);
    gradient_repeats("EmbeddingBag_max", &[40, 8], |x| {
        let options = f::BagOptions { mode: BagMode::Max, ..Default::default() };
        f::embedding_bag(x, &Tensor::from(index.reshape(&[50, 100])?), None, None, options)
    });
    for (name, accumulate) in [("put", false), ("put_accumulate", true)] {
        let source = Tensor::from(normal_of(&[5000], F32, 6));
        gradient_repeats(name, &[60], |x| f::put(x, &Tensor::from(&index), &source, accumulate));
    }
    let values = normal_of(&[100_000], F32, 7);
    repeats("histc", || Ok(vec![f::histc(&Tensor::from(&values), 100, -3.0, 3.0)?.into()]));
    let classes = indices(100_000, 50, 8);
    repeats("bincount", || Ok(vec![f::bincount(&Tensor::from(&classes), None, 0)?.into()]));
    repeats("bincount with weights", || {
        Ok(vec![f::bincount(&Tensor::from(&classes), Some(&Tensor::from(&values)), 0)?.into()])
    });
    gradient_repeats("kthvalue", &[30, 400], |x| Ok(f::kthvalue(x, 17, 1, false)?.0));
    gradient_repeats("median", &[30, 401], |x| Ok(f::median_dim(x, 1, false)?.0));
    // Ties are the elements at which the chosen index could vary.
    let ties = Tensor::zeros(&[3, 100_000], F32).unwrap();
    repeats("median of ties", || {
        let (values, indices) = f::median_dim(&ties.clone(), 1, false)?;
        Ok(vec![values.value().clone(), indices.into()])
    });
}
