//! The gradient of connectionist temporal classification by float atomics. The tests of whole
//! tensors compare the deterministic form with the CPU's.

use crate::data::{Source, bits};
use crate::device::{on_device, under_schedules, varies};
use samebits_cuda_kernels::Device;
use samebits_cuda_kernels::Variant::{self, Atomic, Deterministic};
use samebits_cuda_kernels::ctc::{Batch, ctc_loss_grad};
use samebits_cuda_kernels::loss::Reduction;

const STEPS: usize = 40;
const CLASSES: usize = 4;
/// The third sequence has too few steps for its labels.
const TARGETS: [usize; 3] = [15, 0, 12];
const INPUTS: [usize; 3] = [40, 31, 5];

fn gradient(device: &Device, variant: Variant, reduction: Reduction, infinite: bool) -> Vec<f32> {
    let mut source = Source::new(11);
    let n = TARGETS.len();
    let log_probs: Vec<f32> =
        source.plain(STEPS * n * CLASSES).into_iter().map(|x| 3.0 * x - 3.0).collect();
    let count: usize = TARGETS.iter().sum();
    let labels: Vec<i64> = (0..count).map(|_| 1 + source.below(CLASSES - 1) as i64).collect();
    let grad = source.plain(if reduction == Reduction::None { n } else { 1 });
    let (log_probs, labels) = (device.upload(&log_probs).unwrap(), device.upload(&labels).unwrap());
    let grad = device.upload(&grad).unwrap();
    let batch = Batch {
        log_probs: &log_probs,
        shape: [STEPS, n, CLASSES],
        labels: &labels,
        count,
        starts: &[0, 15, 15],
        target_lengths: &TARGETS,
        input_lengths: &INPUTS,
        blank: 0,
    };
    let out = ctc_loss_grad(device, &grad, batch, reduction, infinite, variant).unwrap();
    device.download(&out).unwrap()
}

#[test]
fn the_gradient_does_not_vary() {
    under_schedules(|device| bits(&gradient(device, Deterministic, Reduction::Mean, false)));
}

#[test]
fn the_atomic_gradient_varies() {
    varies(|device| bits(&gradient(device, Atomic, Reduction::Sum, true)));
}

#[test]
fn the_atomic_gradient_is_valid() {
    on_device(|device| {
        for reduction in [Reduction::None, Reduction::Mean, Reduction::Sum] {
            for infinite in [false, true] {
                let exact = gradient(device, Deterministic, reduction, infinite);
                let atomic = gradient(device, Atomic, reduction, infinite);
                for (at, (a, e)) in atomic.iter().zip(&exact).enumerate() {
                    // Shares of a probability, each rounded to f32, times a gradient below 1.
                    let close = (a - e).abs() <= 1e-5 || (a.is_nan() && e.is_nan());
                    assert!(close, "{reduction:?} {infinite} element {at}: {a}, expected {e}");
                }
                assert_eq!(exact.iter().any(|x| x.is_nan()), !infinite);
            }
        }
    });
}
