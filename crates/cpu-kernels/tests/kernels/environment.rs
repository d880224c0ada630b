//! Threads that another library left flushing subnormals to zero give the same bits.

use crate::invariance::{Random, bits, on_threads};
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::conv::{self, ConvParams, Convolution};
use samebits_cpu_kernels::conv_algorithms::{Algorithm, ConvPass};
use samebits_cpu_kernels::linalg;
use samebits_cpu_kernels::matmul::{Matrix, Real, matmul};
use samebits_cpu_kernels::recurrent::{self, Gates};

fn on_spoilt_threads<R: Send>(threads: usize, f: impl Fn() -> R + Sync) -> R {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.start_handler(|_| test_support::flush_to_zero()).build().expect("threads").install(&f)
}

/// Compares with the calling thread, which keeps subnormals.
#[track_caller]
fn unchanged<T: Float>(f: impl Fn() -> Vec<Vec<T>> + Sync) {
    let bits = |all: Vec<Vec<T>>| all.iter().map(|values| bits(values)).collect::<Vec<_>>();
    let want = bits(on_threads(1, &f));
    for threads in [1, 3] {
        let found = bits(on_spoilt_threads(threads, &f));
        assert!(found == want, "{threads} threads that flush to zero");
    }
}

/// Returns zeros, subnormal numbers, and numbers whose products are subnormal or underflow.
fn tiny<T: Float>(random: &mut Random, n: usize) -> Vec<T> {
    let (half, least) = if size_of::<T>() == 4 {
        (5e-23, f64::from(f32::from_bits(1)))
    } else {
        (1e-162, f64::from_bits(1))
    };
    (0..n)
        .map(|_| {
            let unit = random.unit::<f64>();
            T::from_f64(match random.below(6) {
                0 => 0.0 * unit,
                1 => least.copysign(unit),
                2 => least * 1000.0 * unit,
                3 => unit,
                _ => half * unit,
            })
        })
        .collect()
}

#[test]
fn the_mode_is_planted() {
    let least = || {
        let least = std::hint::black_box(f32::from_bits(1));
        (least + least).to_bits()
    };
    assert_eq!((on_threads(1, least), on_spoilt_threads(1, least)), (2, 0));
}

/// A product underflows to −0 beside a tap in the padding: skipping the tap keeps the sign.
#[test]
fn the_sign_of_a_zero_beside_the_padding_is_kept() {
    let least = -f32::from_bits(1);
    let params = ConvParams { padding: vec![1], ..ConvParams::padded(1, 0) };
    let forward = || {
        let conv = Convolution::new("conv", &[1, 1, 1], &[1, 1, 3], &params).unwrap();
        let mut out = [9.0f32];
        conv::forward(&conv, &[0.25], &[1.0, least, 1.0], None, &mut out).unwrap();
        vec![out.to_vec()]
    };
    let weights = || {
        let conv = Convolution::new("conv", &[1, 1, 2], &[1, 1, 3], &params).unwrap();
        let mut out = [9.0f32; 3];
        conv::weight_grad(&conv, &[1.0, least], &[0.25, 0.25], &mut out).unwrap();
        vec![out[2..].to_vec()]
    };
    assert_eq!([bits(&forward()[0]), bits(&weights()[0])], [[bits(&[-0.0f32])[0]]; 2]);
    unchanged(forward);
    unchanged(weights);
}

#[track_caller]
fn product_is_unchanged<T: Float + Real>((m, n, k): (usize, usize, usize), a: &[T], b: &[T]) {
    unchanged(|| {
        let mut out = vec![T::ONE; m * n];
        let (a, b) = (Matrix::new(a, m, k).unwrap(), Matrix::new(b, k, n).unwrap());
        matmul(a, b, &mut out).unwrap();
        vec![out]
    });
}

fn contractions<T: Float + Real>() {
    let mut random = Random(21);
    for (m, n, k) in [(3, 5, 7), (70, 90, 300), (300, 200, 60), (1, 900, 20)] {
        let (a, b) = (tiny::<T>(&mut random, m * k), tiny::<T>(&mut random, k * n));
        product_is_unchanged((m, n, k), &a, &b);
    }
    // Sums of blocks of steps that are subnormal.
    let least = if size_of::<T>() == 4 { f32::from_bits(1).into() } else { f64::from_bits(1) };
    for (m, n, k) in [(2, 3, 9000), (5, 7, 8000)] {
        let a: Vec<T> = (0..m * k).map(|i| T::from_f64(least * (i % 7) as f64)).collect();
        product_is_unchanged((m, n, k), &a, &vec![T::ONE; k * n]);
    }
    let params = ConvParams { padding: vec![1, 2], stride: vec![1, 2], ..ConvParams::padded(2, 0) };
    for [batch, inputs, outputs, size] in [[2, 3, 5, 9], [9, 20, 40, 12], [1, 1, 2, 70]] {
        let (shape, kernel) = ([batch, inputs, size, size], [outputs, inputs, 3, 3]);
        let conv = Convolution::new("conv", &shape, &kernel, &params).unwrap();
        let numel = |shape: &[usize]| shape.iter().product::<usize>();
        let input = tiny::<T>(&mut random, numel(&shape));
        let weight = tiny::<T>(&mut random, numel(&kernel));
        let gradient = tiny::<T>(&mut random, numel(&conv.output_shape()));
        let bias = tiny::<T>(&mut random, outputs);
        unchanged(|| {
            let mut to = [&gradient, &input, &weight].map(|like| vec![T::ONE; like.len()]);
            conv::forward(&conv, &input, &weight, Some(&bias), &mut to[0]).unwrap();
            conv::input_grad(&conv, &gradient, &weight, &mut to[1]).unwrap();
            conv::weight_grad(&conv, &input, &gradient, &mut to[2]).unwrap();
            to.to_vec()
        });
    }
}

#[test]
fn contractions_do_not_show_it() {
    contractions::<f32>();
    contractions::<f64>();
}

#[test]
fn algorithms_of_convolutions_do_not_show_it() {
    let mut random = Random(22);
    let params = |groups| ConvParams { padding: vec![1, 1], groups, ..ConvParams::padded(2, 0) };
    for (shape, kernel, groups) in
        [([2, 3, 9, 11], [5, 3, 3, 3], 1), ([2, 70, 6, 7], [70, 1, 3, 3], 70)]
    {
        let plan = &Convolution::new("conv", &shape, &kernel, &params(groups)).unwrap();
        let numel = |shape: &[usize]| shape.iter().product::<usize>();
        let input: Vec<f32> = tiny(&mut random, numel(&shape));
        let weight: Vec<f32> = tiny(&mut random, numel(&kernel));
        let gradient: Vec<f32> = tiny(&mut random, numel(&plan.output_shape()));
        let bias: Vec<f32> = tiny(&mut random, kernel[0]);
        for algorithm in Algorithm::ALL {
            unchanged(|| {
                let mut to = [&gradient, &input, &weight].map(|like| vec![1.0; like.len()]);
                if algorithm.applies(plan, ConvPass::Forward) {
                    algorithm.forward(plan, &input, &weight, Some(&bias), &mut to[0]).unwrap();
                }
                if algorithm.applies(plan, ConvPass::InputGrad) {
                    algorithm.input_grad(plan, &gradient, &weight, &mut to[1]).unwrap();
                }
                if algorithm.applies(plan, ConvPass::WeightGrad) {
                    algorithm.weight_grad(plan, &input, &gradient, &mut to[2]).unwrap();
                }
                to.to_vec()
            });
        }
    }
}

fn decompositions<T: Float>() {
    let mut random = Random(23);
    let (m, n) = (9, 6);
    let x = tiny::<T>(&mut random, m * n);
    unchanged(|| {
        let [mut q, mut r, mut to] = [m * n, n * n, m * n].map(|len| vec![T::ZERO; len]);
        linalg::qr(&x, [m, n], n, &mut q, &mut r).unwrap();
        linalg::qr_backward([&x, &r], [&q, &r], [m, n], &mut to).unwrap();
        let [mut u, mut s, mut v] = [m * n, n, n * n].map(|len| vec![T::ZERO; len]);
        linalg::svd(&x, [m, n], &mut u, &mut s, &mut v).unwrap();
        vec![q, r, to, u, s, v]
    });
}

#[test]
fn decompositions_do_not_show_it() {
    decompositions::<f32>();
    decompositions::<f64>();
}

#[test]
fn recurrent_cells_do_not_show_it() {
    let mut random = Random(24);
    for (rows, size) in [(2, 3), (50, 90)] {
        let of = |width: usize, random: &mut Random| tiny::<f32>(random, rows * width);
        let (x, h) = (of(4 * size, &mut random), of(4 * size, &mut random));
        let (cell, grad) = (of(size, &mut random), of(size, &mut random));
        unchanged(|| {
            let zeros = |width: usize| vec![0.0; rows * width];
            let gates = |gates: usize| Gates {
                x: &x[..rows * gates * size],
                h: &h[..rows * gates * size],
                bias_x: None,
                bias_h: None,
            };
            let (mut hidden, mut next, mut kept) = (zeros(size), zeros(size), zeros(4 * size));
            let (mut to, mut previous) = (zeros(4 * size), zeros(size));
            recurrent::lstm_cell(size, gates(4), &cell, &mut hidden, &mut next, &mut kept).unwrap();
            let of_cell = [&cell[..], &next];
            recurrent::lstm_cell_backward(
                size,
                [&grad, &grad],
                &kept,
                of_cell,
                &mut to,
                &mut previous,
            )
            .unwrap();
            let mut all = [&hidden, &next, &kept, &to, &previous].map(Clone::clone).to_vec();
            recurrent::gru_cell(size, gates(3), &cell, &mut next, &mut kept).unwrap();
            let (mut to_x, mut to_h) = (zeros(3 * size), zeros(3 * size));
            let to_gates = [&mut to_x[..], &mut to_h];
            recurrent::gru_cell_backward(size, &grad, &kept, &cell, to_gates, &mut previous)
                .unwrap();
            all.extend([next, kept, to_x, to_h, previous]);
            all
        });
    }
}
