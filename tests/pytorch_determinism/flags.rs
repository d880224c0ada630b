//! PyTorch's tests of its switches, `test_multinomial_deterministic` and
//! `test_Conv2d_deterministic_cudnn`, and the additions of scopes.

use samebits::functional as f;
use samebits::numerics::fpenv;
use samebits::ops::{ConvParams, IndexAdd};
use samebits::{DType, Determinism, Generator, Tensor, determinism, dispatch_at, rerun};
use workspace_tests::{indices, normal_of};

use super::{forward_then_backward, repeats};

#[test]
fn scopes_nest_end_with_panics_and_belong_to_their_thread() {
    use Determinism::{NotGuaranteed, Portable, RunToRun};
    let outside = determinism::required();
    determinism::scope(RunToRun, || {
        determinism::scope(NotGuaranteed, || {
            assert_eq!(determinism::required(), NotGuaranteed);
            let other = std::thread::spawn(determinism::required).join().unwrap();
            assert_eq!(other, outside, "a scope reached another thread");
            std::thread::scope(|threads| {
                let other = threads.spawn(|| determinism::scope(Portable, determinism::required));
                assert_eq!(other.join().unwrap(), Portable);
                assert_eq!(determinism::required(), NotGuaranteed);
            });
        });
        let caught = std::panic::catch_unwind(|| {
            determinism::scope(Portable, || panic!("inside a scope"));
        });
        assert!(caught.is_err());
        assert_eq!(determinism::required(), RunToRun, "a panic left its scope open");
    });
    assert_eq!(determinism::required(), outside);
}

/// A gradient obeys the level in force when it is computed, not the one of the forward pass.
#[test]
fn backward_obeys_its_own_level() {
    let (input, index) = (normal_of(&[40, 3], DType::F32, 1), indices(30_000, 40, 2));
    let weights = normal_of(&[30_000, 3], DType::F32, 3);
    let gradient = |forward, backward| {
        let x = Tensor::from(input.clone()).set_requires_grad(true).unwrap();
        let y =
            determinism::scope(forward, || f::index_select(&x, 0, &Tensor::from(&index))).unwrap();
        let grad = Tensor::from(weights.clone());
        let gradients = determinism::scope(backward, || y.backward_from(grad, false)).unwrap();
        gradients.of(&x).unwrap().to_bytes().unwrap()
    };
    // The gradient is an index_add into zeros, whose bits at this level are known.
    let zeros = Tensor::zeros(&[40, 3], DType::F32).unwrap();
    let op = IndexAdd {
        input: zeros.into(),
        dim: 0,
        index: index.clone(),
        source: weights.clone(),
        alpha: 1.0,
    };
    let exact = dispatch_at(&op, Determinism::Portable).unwrap().to_bytes().unwrap();
    for forward in [Determinism::NotGuaranteed, Determinism::Portable] {
        assert_eq!(gradient(forward, Determinism::Portable), exact);
    }
}

/// A caller that flushes subnormals to zero still gets IEEE arithmetic from operations, and keeps
/// its own setting.
#[test]
fn operations_do_not_see_the_callers_floating_point_mode() {
    let tiny = Tensor::full(&[3], 1e-40, DType::F32).unwrap();
    let expected = f::add(&tiny, &tiny).unwrap().to_bytes().unwrap();
    let found = std::thread::spawn(move || {
        test_support::flush_to_zero();
        let found = f::add(&tiny, &tiny).unwrap().to_bytes().unwrap();
        (found, fpenv::is_ieee())
    });
    let (found, is_ieee) = found.join().unwrap();
    assert_eq!(found, expected);
    assert!(expected.iter().any(|&byte| byte != 0));
    assert!(!is_ieee || cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))));
}

#[test]
fn multinomial_repeats_from_its_seed() {
    let weights = normal_of(&[1000], DType::F32, 4).to_vec::<f32>().unwrap();
    let weights: Vec<f32> = weights.iter().map(|x| x.abs()).collect();
    let draw = |seed| {
        let (mut with, mut without) = (vec![0; 500], vec![0; 500]);
        let mut generator = Generator::new(seed);
        generator.fill_multinomial(&weights, &mut with).unwrap();
        generator.fill_multinomial_without_replacement(&weights, &mut without).unwrap();
        (with, without)
    };
    assert_eq!(draw(0), draw(0));
    assert_ne!(draw(0), draw(1));
}

/// Two layers with equal weights, algorithms raced: the same outputs and gradients.
#[test]
fn raced_convolutions_repeat() {
    let input = normal_of(&[2, 16, 40, 40], DType::F32, 5);
    let weight = normal_of(&[24, 16, 3, 3], DType::F32, 6);
    let bias = normal_of(&[24], DType::F32, 7);
    let inputs = [input, weight, bias];
    let run = || {
        forward_then_backward(&inputs, |x| {
            f::conv(&x[0], &x[1], Some(&x[2]), &ConvParams::padded(2, 1))
        })
    };
    let (first, second) = (repeats("conv2d", run), repeats("conv2d", run));
    for (first, second) in first.iter().zip(&second) {
        assert!(rerun::same_bits(first, second).unwrap());
    }
}
