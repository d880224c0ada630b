//! Optimiser steps against values computed by hand.

use samebits_cpu_kernels::optim::{adam_step, sgd_step};
use samebits_tensor_core::ops::{AdamParams, SgdParams};

#[test]
fn first_sgd_step_takes_the_gradient_as_velocity() {
    let params =
        SgdParams { lr: 0.5, momentum: 0.9, dampening: 0.5, weight_decay: 0.0, nesterov: false };
    let (mut p, mut v) = ([0.0f32; 1], [0.0f32; 1]);
    sgd_step(&params, &[1.0], &[2.0], None, &mut p, &mut v).unwrap();
    assert_eq!((p, v), ([0.0], [2.0]));
    let (p1, v1) = (p, v);
    sgd_step(&params, &p1, &[2.0], Some(&v1), &mut p, &mut v).unwrap();
    assert_eq!((p, v), ([-1.4], [2.8]));
}

#[test]
fn first_adam_step_moves_by_the_learning_rate() {
    let params = AdamParams {
        lr: 0.125,
        beta1: 0.9,
        beta2: 0.999,
        eps: 0.0,
        weight_decay: 0.0,
        decoupled: false,
    };
    let (mut p, mut m, mut s) = ([0.0f64; 2], [0.0; 2], [0.0; 2]);
    adam_step(&params, 1, &[1.0, 1.0], &[3.0, -3.0], &[0.0; 2], &[0.0; 2], &mut p, &mut m, &mut s)
        .unwrap();
    assert!((p[0] - 0.875).abs() < 1e-12 && (p[1] - 1.125).abs() < 1e-12);
}

/// Results of at least 64 MB are streamed to memory.
#[test]
fn large_results_are_those_of_their_parts() {
    let n = (1 << 24) + 100_003;
    let value = |i: usize| (i % 1009) as f32 * 0.37 - 100.0;
    let [param, grad]: [Vec<f32>; 2] = [0, 7].map(|step| (step..n + step).map(value).collect());
    let params =
        SgdParams { lr: 0.1, momentum: 0.9, dampening: 0.0, weight_decay: 0.01, nesterov: false };
    let [mut p, mut v] = [(); 2].map(|()| vec![0.0f32; n]);
    sgd_step(&params, &param, &grad, Some(&param), &mut p, &mut v).unwrap();
    let [mut some_p, mut some_v] = [(); 2].map(|()| vec![0.0f32; 1 << 20]);
    for start in (0..n).step_by(1 << 20) {
        let range = start..n.min(start + (1 << 20));
        let (param, grad) = (&param[range.clone()], &grad[range.clone()]);
        let (some_p, some_v) = (&mut some_p[..range.len()], &mut some_v[..range.len()]);
        sgd_step(&params, param, grad, Some(param), some_p, some_v).unwrap();
        assert!(p[range.clone()] == *some_p && v[range] == *some_v, "from {start} on");
    }
}
