//! PyTorch's `test_deterministic_cumsum`, `test_deterministic_replication_pad2d` and
//! `test_deterministic_interpolate_bilinear`.

use samebits::functional as f;
use samebits::ops::{InterpolateMode, PadMode};
use samebits::{DType, Tensor};
use workspace_tests::normal_of;

use super::{forward_then_backward, repeats};

/// PyTorch compares with the CPU within 1e-2; this compares with sums in f64, within a unit of the
/// last place of the largest partial sum.
#[test]
fn running_sums_repeat_at_every_length() {
    for n in [1025, 8191, 8193, 128_256, 1_282_560] {
        let x = normal_of(&[n], DType::F32, n as u64);
        let found =
            repeats("cumsum", || Ok(vec![f::cumsum(&Tensor::from(x.clone()), 0)?.value().clone()]));
        let found = found[0].to_vec::<f32>().unwrap();
        let (mut sum, mut largest, mut error) = (0.0f64, 0.0f64, 0.0f64);
        for (x, found) in x.to_vec::<f32>().unwrap().iter().zip(&found) {
            sum += f64::from(*x);
            largest = largest.max(sum.abs());
            error = error.max((f64::from(*found) - sum).abs());
        }
        assert!(error <= largest * f64::from(f32::EPSILON), "{n}: {error:e} of {largest}");
    }
}

#[test]
fn gradients_of_padding_and_of_resizing_repeat() {
    let input = [normal_of(&[2, 3, 40, 40], DType::F32, 1)];
    for pads in [[1, 1, 1, 1], [0, 7, 3, 0], [39, 39, 39, 39]] {
        repeats("replication pad", || {
            forward_then_backward(&input, |x| f::pad(&x[0], &pads, PadMode::Replicate, 0.0))
        });
    }
    for align_corners in [false, true] {
        for size in [[80, 80], [23, 57], [1, 1]] {
            let mode = InterpolateMode::Linear { align_corners };
            repeats("bilinear", || {
                forward_then_backward(&input, |x| {
                    f::interpolate(&x[0], f::Resize::Size(&size), mode)
                })
            });
        }
    }
}
