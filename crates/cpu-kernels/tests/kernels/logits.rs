//! The binary cross entropy of logits, and its gradient, have the same bits everywhere.

use samebits_tensor_core::ops::{LogitLoss, LogitLossGrad};
use samebits_tensor_core::{Tensor, dispatch};

/// Returns numbers between −`bound` and `bound`.
fn numbers(n: usize, bound: f32, seed: u32) -> Tensor {
    let mut state = seed;
    let drawn = (0..n).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * bound
    });
    Tensor::from_slice(&drawn.collect::<Vec<f32>>(), &[n]).unwrap()
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[test]
fn neither_level_nor_threads_nor_layout_show() {
    samebits_cpu_kernels::install();
    for n in [1, 255, 259, 100_003] {
        let (x, target) = (numbers(n, 20.0, 1), numbers(n, 1.0, 2));
        let (grad, found) = (numbers(1, 3.0, 3), Some(numbers(n, 5.0, 4)));
        let repeated = grad.expand(&[n]).unwrap();
        let dense = repeated.contiguous().unwrap();
        let gradient = |grad: &Tensor| {
            let (grad, x, target, found) = (grad.clone(), x.clone(), target.clone(), found.clone());
            bits(&dispatch(&LogitLossGrad { grad, x, target, found }).unwrap())
        };
        let all = || {
            let loss = LogitLoss { x: x.clone(), target: target.clone() };
            [bits(&dispatch(&loss).unwrap()), gradient(&repeated), gradient(&dense)]
        };
        let wanted = all();
        assert!(wanted[1] == wanted[2], "a repeated gradient of {n} elements");
        test_support::at_every_level(|level| {
            for threads in 1..=7 {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert!(pool.install(all) == wanted, "{n}, {level:?} with {threads} threads");
            }
        });
    }
}
